//! `diff`: what clusters hold of a placement against what they are to hold.

use std::collections::{BTreeMap, BTreeSet};

use similar::TextDiff;

use super::tree::{Line, Style};
use decide::status::work::counted;
use model::id::ClusterName;
use model::names::first_of;
use model::records::{ApplyOutcome, ManifestStatus};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;
/// Clusters that are named where several have the same differences.
const CLUSTERS_NAMED_MAX: usize = 10;

/// The objects of a cluster as text, by what they are called.
pub type ObjectTexts = BTreeMap<String, String>;

/// Returns what changes between two states of objects, as git shows it.
pub fn changes(old: &ObjectTexts, new: &ObjectTexts) -> Vec<Line> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        let before = old.get(name);
        let after = new.get(name);
        if before == after {
            continue;
        }
        let what = match (before, after) {
            (None, _) => "+ ",
            (_, None) => "- ",
            _ => "~ ",
        };
        lines.push(Line::default().with(Style::Strong, format!("{what}{name}")));
        let difference = TextDiff::from_lines(before.map_or("", String::as_str), after.map_or("", String::as_str));
        let hunks = difference.unified_diff().context_radius(CONTEXT_LINES).to_string();
        lines.extend(hunks.lines().map(|line| Line::default().with(style(line), format!("  {line}"))));
    }
    lines
}

fn style(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') => Style::Ok,
        Some(b'-') => Style::Bad,
        Some(b'@') => Style::Muted,
        _ => Style::Plain,
    }
}

/// Returns how objects on a cluster differ from what was delivered, as far as it was seen.
pub fn live_differences(manifests: &[ManifestStatus]) -> Vec<Line> {
    let mut lines = Vec::new();
    for manifest in manifests {
        let failed = !matches!(manifest.applied, ApplyOutcome::Applied) && !manifest.message.is_empty();
        if manifest.differences.is_empty() && !failed {
            continue;
        }
        lines.push(Line::default().with(Style::Strong, format!("! {}", manifest.id)));
        if failed {
            lines.push(Line::default().with(Style::Bad, format!("  {}", manifest.message)));
        }
        for difference in &manifest.differences {
            let git = difference.value_in_hub.as_deref().unwrap_or("nothing");
            let cluster = difference.value_in_member.as_deref().unwrap_or("nothing");
            lines.push(Line::default().with(Style::Plain, format!("  {}:", difference.path)));
            lines.push(Line::default().with(Style::Bad, format!("    - on the cluster: {cluster}")));
            lines.push(Line::default().with(Style::Ok, format!("    + in git: {git}")));
        }
    }
    lines
}

/// What one cluster holds differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDifference {
    /// The cluster.
    pub cluster: ClusterName,
    /// Which snapshots are compared, in words.
    pub heading: String,
    /// The differences; empty where there are none.
    pub lines: Vec<Line>,
}

/// Returns the differences of all clusters, equal ones once, and how many clusters hold what they are to hold.
pub fn report(found: &[ClusterDifference]) -> Vec<Line> {
    let mut groups: Vec<(&ClusterDifference, Vec<&ClusterName>)> = Vec::new();
    for difference in found.iter().filter(|difference| !difference.lines.is_empty()) {
        let same =
            groups.iter_mut().find(|(known, _)| known.lines == difference.lines && known.heading == difference.heading);
        match same {
            Some((_, clusters)) => clusters.push(&difference.cluster),
            None => groups.push((difference, vec![&difference.cluster])),
        }
    }
    let mut lines = Vec::new();
    for (difference, clusters) in &groups {
        let names = first_of(clusters.iter().map(|cluster| cluster.as_str()), CLUSTERS_NAMED_MAX);
        let heading = format!("{} ({names}): {}", counted(clusters.len(), "cluster"), difference.heading);
        lines.push(Line::default().with(Style::Strong, heading));
        lines.extend(difference.lines.iter().cloned());
        lines.push(Line::default());
    }
    let different: usize = groups.iter().map(|(_, clusters)| clusters.len()).sum();
    let total = counted(found.len(), "cluster");
    let words = match (found.len() - different, different) {
        (0, 0) => "no cluster holds it".to_owned(),
        (_, 0) => format!("no difference on {total}"),
        (_, different) => format!("differences on {different} of {total}"),
    };
    lines.push(Line::default().with(Style::Muted, words));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::manifest;
    use model::records::Difference;

    fn text(lines: &[Line]) -> String {
        let line = |line: &Line| line.spans.iter().map(|span| span.text.as_str()).collect::<String>();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn equal_differences_are_shown_once() {
        let texts =
            |value: &str| ObjectTexts::from([("ConfigMap web/a".to_owned(), format!("data:\n  key: {value}\n"))]);
        let mut new = texts("2");
        new.insert("ConfigMap web/b".to_owned(), "data: {}\n".to_owned());
        let of = |cluster: &str, lines: Vec<Line>| ClusterDifference {
            cluster: cluster.into(),
            heading: "snapshot 0 is to become 1".to_owned(),
            lines,
        };
        let found = [
            of("east", changes(&texts("1"), &new)),
            of("north", changes(&new, &new)),
            of("west", changes(&texts("1"), &new)),
        ];
        insta::assert_snapshot!(text(&report(&found)), @r"
        2 clusters (east, west): snapshot 0 is to become 1
        ~ ConfigMap web/a
          @@ -1,2 +1,2 @@
           data:
          -  key: 1
          +  key: 2
        + ConfigMap web/b
          @@ -0,0 +1 @@
          +data: {}

        differences on 2 of 3 clusters
        ");
        assert_eq!(text(&report(&found[1..2])), "no difference on 1 cluster");
    }

    #[test]
    fn what_was_changed_by_hand_is_shown_with_both_values() {
        let mut drifted = manifest("a", ApplyOutcome::Applied, None);
        let value = |text: &str| Some(text.to_owned());
        drifted.differences =
            vec![Difference { path: "/data/key".to_owned(), value_in_member: value("2"), value_in_hub: value("1") }];
        let mut failed = manifest("b", ApplyOutcome::ManifestApplyFailed, None);
        failed.message = "field is immutable".to_owned();
        let fine = manifest("c", ApplyOutcome::Applied, None);
        insta::assert_snapshot!(text(&live_differences(&[drifted, failed, fine])), @r"
        ! ConfigMap web/a
          /data/key:
            - on the cluster: 2
            + in git: 1
        ! ConfigMap web/b
          field is immutable
        ");
    }
}
