//! `gitfleet status -o json`: the summary with fields that stay, plain texts, and times in whole seconds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::layout::plain;
use super::summary::Summary;
use super::timed::TimedLine;
use super::tree::{ClusterNode, PlacementRow, StageCell, is_zero};
use super::waiting::Waiting;
use decide::status::rollout::StateKind;
use model::id::{CommitId, PlacementKey};

/// Signs of the tree, and what they say in one word.
const SIGNS: [(&str, &str); 7] = [
    ("✓", "done"),
    ("↻", "moving"),
    ("!", "waiting"),
    ("✗", "failed"),
    ("·", "pending"),
    ("-", "leaving"),
    ("?", "unknown"),
];

/// What `gitfleet status -o json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    /// What a person must do before anything is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    /// What needs a person, the oldest first.
    pub waiting: Vec<Waiting>,
    /// How many more such entries there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting_unlisted: usize,
    /// The states of what the fleet consists of, its source and its clusters included.
    pub standing: BTreeSet<StateKind>,
    /// How many placements are in each state.
    pub states: BTreeMap<StateKind, usize>,
    /// The source, and what is wrong with it and with clusters: lines of text.
    pub source: Vec<String>,
    /// The placements.
    pub placements: Vec<PlacementDocument>,
    /// How many placements of each state are not among them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unlisted: BTreeMap<StateKind, usize>,
    /// OCM Placements: lines of text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ocm: Vec<String>,
}

/// One placement.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDocument {
    /// `NAME` or `NAMESPACE/NAME`.
    pub placement: PlacementKey,
    /// The index of its newest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The commit of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// When that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Gone from git.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The state of its rollout.
    pub state: StateKind,
    /// What it waits for, or why it failed; absent where the state says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How many clusters it picked.
    pub clusters: usize,
    /// How many of them have the newest snapshot, available or compared.
    pub up_to_date: usize,
    /// The stages of the run that moves it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageDocument>,
    /// What else a person should know: lines of text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its clusters; of many only those that are not as they are to be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_states: Vec<ClusterDocument>,
}

/// One stage of a run.
#[derive(Debug, Serialize)]
pub struct StageDocument {
    /// Its name.
    pub name: String,
    /// `done`, `moving`, `waiting`, `failed`, `pending`, `leaving` or `unknown`.
    pub state: &'static str,
    /// How many of its clusters are done.
    pub done: usize,
    /// How many clusters it has.
    pub total: usize,
}

/// One cluster of a placement.
#[derive(Debug, Serialize)]
pub struct ClusterDocument {
    /// Its name.
    pub cluster: String,
    /// `done`, `moving`, `waiting`, `failed`, `pending`, `leaving` or `unknown`.
    pub state: &'static str,
    /// The index of the snapshot that it is assigned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Its state, in one phrase.
    pub message: String,
    /// The objects that keep it from its state: lines of text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
}

impl StatusDocument {
    /// Returns a summary as a document at a moment.
    pub fn of(summary: &Summary, now: Timestamp) -> Self {
        let waiting = summary.waiting.iter().map(|one| Waiting { since: whole_seconds(one.since), ..one.clone() });
        Self {
            complaint: summary.complaint.clone(),
            waiting: waiting.collect(),
            waiting_unlisted: summary.waiting_unlisted,
            standing: summary.standing.clone(),
            states: summary.states.clone(),
            source: texts(&summary.source, now),
            placements: summary.placements.iter().map(|row| PlacementDocument::of(row, now)).collect(),
            unlisted: summary.unlisted.clone(),
            ocm: texts(&summary.ocm, now),
        }
    }
}

impl PlacementDocument {
    fn of(row: &PlacementRow, now: Timestamp) -> Self {
        let stages = row.stages.iter().map(|StageCell { name, state: (_, sign), done, total }| StageDocument {
            name: name.clone(),
            state: word(sign),
            done: *done,
            total: *total,
        });
        Self {
            placement: row.placement.clone(),
            snapshot: row.snapshot,
            commit: row.commit.clone(),
            since: row.since.map(whole_seconds),
            removed: row.removed,
            state: row.state.kind(),
            message: row.state.detail(),
            clusters: row.clusters,
            up_to_date: row.up_to_date,
            stages: stages.collect(),
            notes: texts(row.below.all_lines(), now),
            cluster_states: row.below.listed().into_iter().map(|cluster| ClusterDocument::of(cluster, now)).collect(),
        }
    }
}

impl ClusterDocument {
    fn of(node: &ClusterNode, now: Timestamp) -> Self {
        Self {
            cluster: node.cluster.clone(),
            state: word(&node.state.1),
            snapshot: node.snapshot.as_ref().and_then(|index| index.parse().ok()),
            message: node.words.at(now),
            objects: texts(&node.objects, now),
        }
    }
}

/// Returns lines as plain texts, without the signs that begin them.
fn texts<'a>(lines: impl IntoIterator<Item = &'a TimedLine>, now: Timestamp) -> Vec<String> {
    let texts = lines.into_iter().map(|line| {
        let text = plain(&line.at(now));
        let text = text.trim();
        let unsigned = SIGNS.iter().find_map(|(sign, _)| text.strip_prefix(sign)?.strip_prefix(' '));
        unsigned.unwrap_or(text).to_owned()
    });
    texts.collect()
}

fn word(sign: &str) -> &'static str {
    SIGNS.iter().find(|(known, _)| *known == sign).map_or("unknown", |(_, word)| word)
}

/// Leaves out parts of a second, as Kubernetes' API does.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::records;
    use crate::fixtures::{Case, CaseStatus as _, at, run_at_approval};
    use crate::fleet::{Changes, FleetView};
    use model::records::Pause;

    #[test]
    fn fields_are_plain_and_times_are_whole_seconds() {
        let mut paused = Case::healthy(&["east", "west"]);
        paused.binding("west").snapshot = Some(2);
        paused.record.paused = Some(Pause { by: "ann".into(), at: at(9), reason: None });
        paused.settle();
        let gated = Case::healthy(&["east", "west"]).with_run(run_at_approval());
        let of = |case: &Case, name: &str| (PlacementKey::cluster_scoped(name), Some(records(case, name)));
        let fleet = FleetView::whole(Changes {
            placements: [of(&paused, "api"), of(&gated, "web")].into(),
            clusters: paused.clusters.values().cloned().collect(),
            ..Changes::default()
        });
        let mut summary = Summary::of(&fleet, at(60));
        for waiting in &mut summary.waiting {
            waiting.since += jiff::SignedDuration::from_millis(123);
        }
        let document = serde_json::to_value(StatusDocument::of(&summary, at(60))).expect("it is JSON");
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).expect("it is JSON"));
    }
}
