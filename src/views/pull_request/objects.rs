//! The differences of objects. What changes in many objects in the same way is shown once.

use std::fmt::Write as _;

use super::blocks::{Block, Priority};
use super::sections::{LISTED_MAX, named};
use super::{ObjectChange, ObjectDiff, PullReport, codes};
use crate::comments::escape::{fenced, prose};
use model::id::{ClusterName, PlacementKey};

/// Differences that are shown; the rest is counted.
const OBJECTS_MAX: usize = 100;
/// Groups of clusters whose rendered objects are shown, for one placement.
const OVERRIDES_MAX: usize = 10;
/// Stands for the names of an object in a text that is compared with those of others. In no manifest.
const NAME: char = '\u{fffc}';

/// Objects that change in the same way, apart from their names.
struct SameDiff<'a> {
    change: ObjectChange,
    /// The kind of the objects and their difference without their names; absent if it must not be shown.
    form: Option<(&'a str, String)>,
    objects: Vec<&'a ObjectDiff>,
}

/// Returns the differences of all placements.
pub(super) fn object_blocks(objects: &[ObjectDiff]) -> Vec<Block> {
    let mut same: Vec<SameDiff<'_>> = Vec::new();
    for object in objects {
        let form = object.text.as_ref().map(|text| (object.id.kind.as_str(), nameless(object, text)));
        match same.iter_mut().find(|same| (same.change, &same.form) == (object.change, &form)) {
            Some(same) => same.objects.push(object),
            None => same.push(SameDiff { change: object.change, form, objects: vec![object] }),
        }
    }
    let mut blocks: Vec<Block> = same.iter().take(OBJECTS_MAX).map(block).collect();
    let more: usize = same.iter().skip(OBJECTS_MAX).map(|same| same.objects.len()).sum();
    if more > 0 {
        blocks.push(Block::of(Priority::Diff, format!("and {more} more objects\n\n"), ""));
    }
    blocks
}

/// Returns a text without the names of its object.
fn nameless(object: &ObjectDiff, text: &str) -> String {
    let names = [&object.id.name, &object.id.namespace, &object.placement.name];
    names.iter().fold(text.to_owned(), |text, name| without(&text, name))
}

/// Replaces a name where it stands alone.
fn without(text: &str, name: &str) -> String {
    // An empty name would be found between any two characters.
    if name.is_empty() {
        return text.to_owned();
    }
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(name) {
        let end = at + name.len();
        let is_part = text[..at].ends_with(char::is_alphanumeric) || text[end..].starts_with(char::is_alphanumeric);
        if !is_part {
            kept.push_str(&text[from..at]);
            kept.push(NAME);
            from = end;
        }
    }
    kept + &text[from..]
}

fn block(same: &SameDiff<'_>) -> Block {
    let word = same.change.name();
    let first = same.objects[0];
    let ids: Vec<String> = same.objects.iter().map(|object| object.id.to_string()).collect();
    // Without a difference to show, many of them are one line.
    let max = if same.form.is_some() { LISTED_MAX } else { OBJECTS_MAX };
    let line = format!("{word} {}\n\n", codes(ids.iter().map(String::as_str), max));
    let Some(text) = &first.text else { return Block::of(Priority::Diff, line.clone(), line) };
    // Prose and no code span: in a `<summary>` hosts read HTML, where backticks have no meaning.
    let mut summary = format!("{word} {}", prose(&ids[0]));
    let mut names = String::new();
    if ids.len() > 1 {
        write!(summary, ", and the same in {} more", ids.len() - 1).expect("a String takes it");
        let others = codes(ids[1..].iter().map(String::as_str), LISTED_MAX);
        names = format!("The same, apart from names, in {others}.\n\n");
    }
    Block::of(Priority::Diff, details(&summary, &names, text), line)
}

/// Returns a folded diff.
fn details(summary: &str, text: &str, diff: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{text}{}\n</details>\n\n", fenced("diff", diff))
}

/// Shows the objects of some clusters where they differ from those of most.
pub(super) fn override_blocks(report: &PullReport) -> Vec<Block> {
    let mut keys: Vec<&PlacementKey> = report.overrides.iter().map(|effect| &effect.placement).collect();
    keys.dedup();
    let is_one = keys.len() == 1;
    let mut blocks = Vec::new();
    for key in keys {
        let of = if is_one { String::new() } else { format!(" of {}", prose(&key.to_string())) };
        let effects: Vec<_> = report.overrides.iter().filter(|effect| effect.placement == *key).collect();
        blocks.extend(effects.iter().take(OVERRIDES_MAX).map(|effect| {
            let clusters: Vec<&ClusterName> = effect.clusters.iter().collect();
            let line = format!("overrides{of} make it otherwise for {}\n\n", named(&clusters));
            let names = effect.clusters.iter().take(LISTED_MAX).map(|c| prose(c.as_str())).collect::<Vec<_>>();
            let more = if effect.clusters.len() > LISTED_MAX { ", …" } else { "" };
            let summary = format!("overrides{of} make it otherwise for {}{more}", names.join(", "));
            match &effect.text {
                Some(text) => Block::of(Priority::Override, details(&summary, "", text), line),
                None => Block::of(Priority::Override, line.clone(), line),
            }
        }));
        if let Some(more) = effects.len().checked_sub(OVERRIDES_MAX).filter(|more| *more > 0) {
            let groups = decide::status::work::counted(more, "more group");
            blocks.push(Block::of(Priority::Override, format!("and otherwise{of} for {groups} of clusters\n\n"), ""));
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stand_alone_are_left_out() {
        for (text, name, wanted) in [
            ("image: r/web:1", "web", "image: r/\u{fffc}:1"),
            ("name: web-config, website", "web", "name: \u{fffc}-config, website"),
            ("web", "web", "\u{fffc}"),
            ("a b", "", "a b"),
        ] {
            assert_eq!(without(text, name), wanted, "{text}");
        }
    }
}
