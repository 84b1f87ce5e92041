//! What changes from one snapshot of a placement to another: its objects by name, without their content.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::words::{commit_link, said, toned};
use crate::model::id::ObjectKey;
use crate::model::records::{ResourceSnapshot, SnapshotResource};
use crate::status::work::counted;
use crate::views::fleet::Placed;

/// Objects that are listed; the rest is counted.
const OBJECTS_MAX: usize = 500;

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectChange {
    Added,
    Changed,
    Removed,
}

impl ObjectChange {
    fn words(self) -> (&'static str, Tone) {
        match self {
            Self::Added => ("added", Tone::Ok),
            Self::Changed => ("changed", Tone::Moving),
            Self::Removed => ("removed", Tone::Bad),
        }
    }
}

/// Returns the objects that differ, in the order of their names.
fn compared<'a>(
    from: Option<&'a ResourceSnapshot>,
    to: &'a ResourceSnapshot,
) -> Vec<(ObjectChange, &'a SnapshotResource)> {
    let by_key = |snapshot: &'a ResourceSnapshot| -> BTreeMap<ObjectKey, &'a SnapshotResource> {
        snapshot.resources.iter().map(|resource| (resource.id.key(), resource)).collect()
    };
    let (before, after) = (from.map(by_key).unwrap_or_default(), by_key(to));
    let kept = after.iter().filter_map(|(key, resource)| match before.get(key) {
        None => Some((ObjectChange::Added, *resource)),
        Some(old) if old.digest != resource.digest => Some((ObjectChange::Changed, *resource)),
        Some(_) => None,
    });
    let gone = before.iter().filter(|(key, _)| !after.contains_key(key));
    let mut changes: Vec<_> = kept.chain(gone.map(|(_, resource)| (ObjectChange::Removed, *resource))).collect();
    changes.sort_by_cached_key(|(_, resource)| resource.id.key());
    changes
}

/// Shows what changes between two snapshots of a placement: from the last that succeeded, else the one before, to the newest.
pub(super) fn between(visit: &Visit, placed: &Placed, from: Option<u64>, to: Option<u64>) -> Markup {
    let snapshots = &placed.records.snapshots;
    let newest = snapshots.values().next_back();
    let Some(to) = to.and_then(|index| snapshots.get(&index)).or(newest) else {
        return html! { h2 { "What changes" } p { "It has no snapshot yet." } };
    };
    let before = || snapshots.range(..to.index).next_back().map(|(index, _)| *index);
    let succeeded = placed.records.record.last_succeeded.filter(|index| *index < to.index);
    let from = from.or(succeeded.filter(|index| snapshots.contains_key(index))).or_else(before);
    let from = from.and_then(|index| snapshots.get(&index)).filter(|from| from.index != to.index);
    html! {
        h2 { "What changes" }
        (choice(placed, from.map(|from| from.index), to.index))
        p {
            @if let Some(from) = from { "from snapshot " (from.index) " of commit " (commit_link(visit.site, &from.commit)) " " }
            @else { "from nothing " }
            "to snapshot " (to.index) " of commit " (commit_link(visit.site, &to.commit))
            @if let (Some(links), Some(from)) = (&visit.site.links, from) {
                "; " a.outside href=(links.compare(&from.commit, &to.commit)) rel="noreferrer" { "the changed lines on the git host" }
            }
        }
        (objects(visit, from.map(AsRef::as_ref), to))
    }
}

fn choice(placed: &Placed, from: Option<u64>, to: u64) -> Markup {
    let option = |index: u64, is_chosen: bool, commit: &str| {
        html! {
            option value=(index) selected[is_chosen] { (index) " (" (commit) ")" }
        }
    };
    html! {
        form.choice method="get" {
            input type="hidden" name="tab" value="diff";
            @for (name, words, chosen) in [("from", "from", from), ("to", "to", Some(to))] {
                label for=(format!("diff-{name}")) { (words) " " }
                select id=(format!("diff-{name}")) name=(name) {
                    @for snapshot in placed.records.snapshots.values().rev() {
                        (option(snapshot.index, chosen == Some(snapshot.index), snapshot.commit.short()))
                    }
                }
                " "
            }
            button type="submit" { "Compare" }
        }
    }
}

/// Lists the objects that differ, each with its place in git.
pub(super) fn objects(visit: &Visit, from: Option<&ResourceSnapshot>, to: &ResourceSnapshot) -> Markup {
    let changes = compared(from, to);
    let count = |wanted: ObjectChange| changes.iter().filter(|(change, _)| *change == wanted).count();
    let place = |change: ObjectChange, resource: &SnapshotResource| {
        let snapshot = if change == ObjectChange::Removed { from.unwrap_or(to) } else { to };
        let href = visit.site.links.as_ref();
        let href = href.map(|links| links.line(&snapshot.commit, &resource.origin.path, resource.origin.line));
        let place = said(&format!("{}:{}", resource.origin.path, resource.origin.line));
        html! { @if let Some(href) = href { a.outside href=(href) rel="noreferrer" { (place) } } @else { (place) } }
    };
    html! {
        p {
            (count(ObjectChange::Added)) " added, " (count(ObjectChange::Changed)) " changed, " (count(ObjectChange::Removed)) " removed; "
            (counted(to.resources.len(), "object")) " in all"
        }
        @if !changes.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Objects that differ" {
                table {
                    thead { tr { th scope="col" { "change" } th scope="col" { "object" } th scope="col" { "file" } } }
                    tbody {
                        @for (change, resource) in changes.iter().take(OBJECTS_MAX) {
                            tr {
                                td { (toned(change.words().1, change.words().0)) }
                                th scope="row" { (said(&resource.id.to_string())) }
                                td { (place(*change, resource)) }
                            }
                        }
                    }
                }
            }
        }
        @if changes.len() > OBJECTS_MAX { p { "and " (counted(changes.len() - OBJECTS_MAX, "more object")) } }
    }
}
