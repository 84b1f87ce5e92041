//! A placement's way, calm and hostile, for the tests of what is written.

use super::style::CommandStyle;
use crate::fixtures::at;
use model::id::{CommitId, Digest, PlacementKey};
use model::progress::{ClusterProgress, GateProgress, Progress, ProgressState, StageProgress};

/// Texts that would do something if they were let through.
pub(super) const HOSTILE: [&str; 12] = [
    "</details>",
    "```\n/approve prod\n```",
    "@org/all",
    "/approve prod",
    "\n/approve prod\n",
    "\n\n/approve prod\n\n",
    "![](http://x/beacon.png)",
    "<img src=x onerror=y>",
    "\u{202e}/approve prod",
    "<!-- gitfleet:v1 id=a seq=9 -->",
    "a | b\n|---|---|\n| /approve prod | ` |",
    "</summary></details>\n\n/approve prod",
];

pub(super) fn commit() -> CommitId {
    CommitId::new("abc1234def5678abc1234def5678abc1234def56")
}

pub(super) fn voice() -> CommandStyle {
    CommandStyle { short: true, approvers: "permission:write".into(), comments_count: true, ..CommandStyle::default() }
}

pub(super) fn stage(name: &str, state: ProgressState, done: usize, total: usize) -> StageProgress {
    StageProgress {
        name: name.into(),
        state,
        message: String::new(),
        done,
        total,
        started_at: None,
        ended_at: None,
        gate: None,
        approved_by: vec![],
        clusters: vec![],
    }
}

pub(super) fn gate(stage: &str) -> GateProgress {
    GateProgress {
        stage: stage.into(),
        digest: Digest::new("0a1b2c3d4e5f60718293a4b5"),
        since: at(90),
        given: 1,
        required: 2,
        approvers: Some("team:org/release".into()),
        owners: vec![],
        what: vec![],
    }
}

pub(super) fn cluster(name: &str, state: ProgressState, message: &str) -> ClusterProgress {
    ClusterProgress { name: name.into(), state, message: message.into() }
}

/// A way that waits for approval after its second stage of three.
pub(super) fn waiting() -> Progress {
    let mut staging = stage("staging", ProgressState::Done, 1, 1);
    (staging.started_at, staging.ended_at) = (Some(at(0)), Some(at(60)));
    staging.approved_by = vec!["bob".into()];
    let mut canary = stage("canary", ProgressState::WaitingForPerson, 2, 2);
    canary.message = "waits for approval before the next stage".into();
    canary.started_at = Some(at(60));
    canary.gate = Some(gate("canary"));
    Progress {
        placement: PlacementKey::cluster_scoped("web"),
        snapshot: Some(3),
        commit: Some(commit()),
        run: Some("web-3".into()),
        state: ProgressState::WaitingForPerson,
        message: String::new(),
        done: 3,
        total: 4,
        stages: vec![staging, canary, stage("production", ProgressState::Queued, 0, 1)],
        clusters: vec![],
        deletions: None,
    }
}

/// A way whose second stage failed on a cluster.
pub(super) fn halted() -> Progress {
    let mut way = waiting();
    (way.state, way.message, way.done) = (ProgressState::Failed, "1 cluster of stage canary failed".into(), 2);
    let canary = &mut way.stages[1];
    (canary.state, canary.done, canary.gate) = (ProgressState::Failed, 1, None);
    canary.message = way.message.clone();
    canary.clusters = vec![cluster("north", ProgressState::Failed, "ConfigMap web/a: <field> is immutable")];
    way
}

/// A way with a text in every field that somebody else has a word in.
pub(super) fn with_text_everywhere(text: &str, state: &ProgressState) -> Progress {
    let mut way = halted();
    way.placement = PlacementKey::namespaced(text, text);
    (way.state, way.message, way.run) = (state.clone(), text.into(), Some(text.into()));
    way.clusters = vec![cluster(text, ProgressState::Failed, text)];
    let evil = GateProgress {
        stage: text.into(),
        digest: Digest::new(text),
        approvers: Some(text.into()),
        owners: vec![],
        what: vec![text.into()],
        ..gate("x")
    };
    way.deletions = Some(evil.clone());
    for stage in &mut way.stages {
        (stage.name, stage.message, stage.state) = (text.into(), text.into(), state.clone());
        (stage.approved_by, stage.gate) = (vec![text.into()], Some(evil.clone()));
        stage.clusters = vec![cluster(text, ProgressState::Failed, text)];
    }
    way
}
