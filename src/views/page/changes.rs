//! What changes from one snapshot of a placement to another: its objects by name, and on request the lines of their contents.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::git_host::{HostedFiles, compare_link};
use super::words::{commit_link, placement_path, said, subject, to_copy, toned};
use crate::fleet::Placed;
use crate::tree::{Line, Style};
use decide::status::records::PlacementRecords;
use decide::status::work::counted;
use model::id::ObjectKey;
use model::records::{ResourceSnapshot, SnapshotResource};

/// Objects that are listed; the rest is counted.
const OBJECTS_MAX: usize = 500;

/// Lines of contents that are shown; the rest is counted.
const LINES_MAX: usize = 1_000;
/// Bytes of these lines: with all that stands around them, a page stays below 60 KB.
const LINES_BYTES_MAX: usize = 40_000;

/// The lines that differ, as they were read from git.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// On this cluster, overrides applied; else as git holds them.
    pub cluster: Option<&'a str>,
    /// The lines, secret values masked, or why they cannot be read.
    pub lines: Result<&'a [Line], &'a str>,
}

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
    let before = from.map(by_key).unwrap_or_default();
    let after = by_key(to);
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

fn by_key(snapshot: &ResourceSnapshot) -> BTreeMap<ObjectKey, &SnapshotResource> {
    snapshot.resources.iter().map(|resource| (resource.id.key(), resource)).collect()
}

/// Returns which snapshots are compared: from the last that succeeded, else the one before, to the newest. `None` where there is none yet.
pub fn compared_snapshots(
    records: &PlacementRecords,
    from: Option<u64>,
    to: Option<u64>,
) -> Option<(Option<&ResourceSnapshot>, &ResourceSnapshot)> {
    let snapshots = &records.snapshots;
    let to = to.and_then(|index| snapshots.get(&index)).or_else(|| snapshots.values().next_back())?;
    let succeeded = records.record.last_succeeded.filter(|index| *index < to.index && snapshots.contains_key(index));
    let from = from.or(succeeded).or_else(|| snapshots.range(..to.index).next_back().map(|(index, _)| *index));
    let from = from.and_then(|index| snapshots.get(&index)).filter(|from| from.index != to.index);
    Some((from.map(AsRef::as_ref), to))
}

/// Shows what changes between two snapshots of a placement.
pub(super) fn between(
    visit: &Visit,
    placed: &Placed,
    from: Option<u64>,
    to: Option<u64>,
    contents: Option<&Contents>,
) -> Markup {
    let Some((from, to)) = compared_snapshots(&placed.records, from, to) else {
        return html! { h2 { "What changes" } p { "It has no snapshot yet." } };
    };
    html! {
        h2 { "What changes" }
        (choice(placed, from.map(|from| from.index), to.index, contents.and_then(|contents| contents.cluster)))
        p {
            @if let Some(from) = from { "from snapshot " (from.index) " of commit " (commit_link(visit.site, &from.commit)) (subject(visit, &from.commit)) " " }
            @else { "from nothing " }
            "to snapshot " (to.index) " of commit " (commit_link(visit.site, &to.commit)) (subject(visit, &to.commit))
            @if let Some(from) = from { (compare_link(visit, &from.commit, &to.commit)) }
        }
        @match contents {
            Some(contents) => { (lines(placed, contents)) }
            None => {
                (objects(visit, from, to))
                @let path = placement_path(visit.site, &placed.records.record.key);
                @let from = from.map(|from| format!("&from={}", from.index)).unwrap_or_default();
                p { a href=(format!("{path}?tab=diff{from}&to={}&lines=1", to.index)) { "Show the lines that differ" } }
            }
        }
    }
}

/// Shows the lines that differ, as far as a page holds them.
fn lines(placed: &Placed, contents: &Contents) -> Markup {
    let word = placed.records.word();
    let command = match contents.cluster {
        Some(cluster) => format!("gitfleet diff {word} --cluster {cluster}"),
        None => format!("gitfleet diff {word}"),
    };
    let all = match contents.lines {
        Ok(all) => all,
        Err(why) => return html! { p.warning { (toned(Tone::Bad, "the lines cannot be shown")) ": " (said(why)) } },
    };
    let mut room = LINES_BYTES_MAX;
    let mut shown = Vec::new();
    for (style, line) in all.iter().take(LINES_MAX).map(text) {
        let Some(left) = room.checked_sub(line.len()) else { break };
        room = left;
        shown.push((style, line));
    }
    html! {
        @if let Some(cluster) = contents.cluster {
            p { "What " (said(cluster)) " holds, against what it is to hold; overrides are applied." }
        }
        @if all.is_empty() { p { "No line differs." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Lines that differ" {
                pre.diff { @for (style, line) in &shown { span class=(class(*style)) { (line) } "\n" } }
            }
        }
        @if all.len() > shown.len() {
            p { "and " (counted(all.len() - shown.len(), "more line")) ": " (to_copy(&command)) }
        }
    }
}

/// Returns a line as it can be read, with what it means.
fn text(line: &Line) -> (Style, String) {
    let style = line.spans.first().map_or(Style::Plain, |span| span.style);
    (style, line.spans.iter().map(|span| said(&span.text)).collect())
}

/// Returns the look of a line. Its first character says the same.
fn class(style: Style) -> &'static str {
    match style {
        Style::Ok => "added",
        Style::Bad => "removed",
        Style::Strong => "object",
        Style::Plain | Style::Progressing | Style::Muted => "",
    }
}

fn choice(placed: &Placed, from: Option<u64>, to: u64, cluster: Option<&str>) -> Markup {
    html! {
        form.choice method="get" {
            input type="hidden" name="tab" value="diff";
            @for (name, words, chosen) in [("from", "from", from), ("to", "to", Some(to))] {
                label for=(format!("diff-{name}")) { (words) " " }
                select id=(format!("diff-{name}")) name=(name) {
                    @for snapshot in placed.records.snapshots.values().rev() {
                        option value=(snapshot.index) selected[chosen == Some(snapshot.index)] { (snapshot.index) " (" (snapshot.commit.short()) ")" }
                    }
                }
                " "
            }
            button type="submit" { "Compare" }
            " "
            label for="diff-cluster" { "on cluster " }
            input #diff-cluster type="text" name="cluster" value=[cluster] placeholder="none: as git holds it" autocomplete="off";
            " "
            button type="submit" name="lines" value="1" { "Show lines" }
        }
    }
}

/// Lists the objects that differ, each with its place in git.
pub(super) fn objects(visit: &Visit, from: Option<&ResourceSnapshot>, to: &ResourceSnapshot) -> Markup {
    let objects = compared(from, to);
    let [added, changed, removed] = [ObjectChange::Added, ObjectChange::Changed, ObjectChange::Removed]
        .map(|wanted| objects.iter().filter(|(change, _)| *change == wanted).count());
    let before = HostedFiles::of(visit, &from.unwrap_or(to).commit);
    let after = HostedFiles::of(visit, &to.commit);
    html! {
        p {
            (added) " added, " (changed) " changed, " (removed) " removed; "
            (counted(to.resources.len(), "object")) " in all"
        }
        @if !objects.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Objects that differ" {
                table {
                    thead { tr { th scope="col" { "change" } th scope="col" { "object" } th scope="col" { "file" } } }
                    tbody {
                        @for (change, resource) in objects.iter().take(OBJECTS_MAX) {
                            tr {
                                td { (toned(change.words().1, change.words().0)) }
                                th scope="row" { (said(&resource.id.to_string())) }
                                // What is removed stands in no file of the newer commit.
                                td { (place(if *change == ObjectChange::Removed { &before } else { &after }, resource)) }
                            }
                        }
                    }
                }
            }
        }
        @if objects.len() > OBJECTS_MAX { p { "and " (counted(objects.len() - OBJECTS_MAX, "more object")) } }
    }
}

fn place(files: &HostedFiles, resource: &SnapshotResource) -> Markup {
    let href = files.line(&resource.origin.path, resource.origin.line);
    let place = said(&format!("{}:{}", resource.origin.path, resource.origin.line));
    html! { @if let Some(href) = href { a.outside href=(href) rel="noreferrer" { (place) } } @else { (place) } }
}
