//! The minimum of approvals that a commit cannot remove for its own rollout: approvals that its clusters required before, and
//! those that the configuration demands.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::Pass;
use model::api::staged::StageTaskType;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::records::{BindingState, Pause};
use model::runs::{RunCause, RunRecord, TaskRecord, WantedBy};

/// The actor of the pause when a placement no longer has stages.
const ITSELF: &str = "gitfleet";

impl Pass<'_> {
    /// Adds approvals to a run that is about to start: those that the configuration demands, and those that a cluster required
    /// in its last run and the strategy no longer has. The latter are asked once.
    pub(super) fn keep_approvals(&mut self, run: &mut RunRecord, snapshot: u64) {
        let is_rollback = matches!(run.cause, RunCause::Rollback { .. });
        let before = self.approvals_before();
        let mut given = 0;
        // Approvals add up along the stages: an approval before an earlier stage also protects the clusters of this one.
        for stage in &mut run.stages {
            let own = approvals(&stage.before);
            let wanted = stage.clusters.iter().filter_map(|cluster| before.get(&cluster.name)).max();
            let is_less = !is_rollback && wanted.is_some_and(|wanted| given + own < *wanted);
            let passed = is_rollback && self.has_passed(snapshot, &stage.name);
            let clusters = stage.clusters.iter().map(|cluster| cluster.name.as_str());
            let is_demanded = !passed && self.fleet.floor.asks_before(&stage.name, clusters);
            given += own;
            // One approval per stage is enough, and a stage without clusters needs none.
            if own > 0 || stage.clusters.is_empty() || !(is_less || is_demanded) {
                given += approvals(&stage.after);
                continue;
            }
            let wanted_by = if is_demanded { WantedBy::Configuration } else { WantedBy::RunBefore };
            stage.before.push(TaskRecord {
                type_: StageTaskType::Approval,
                wanted_by,
                wait: None,
                expired: false,
                asked_at: None,
                done_at: None,
                approvals: Vec::new(),
            });
            given += 1 + approvals(&stage.after);
            let facts = json!({"run": run.name, "stage": stage.name, "wantedBy": wanted_by});
            self.note(JournalKind::ApprovalKept, None, facts);
        }
        // From now on the run itself records which approvals protected these clusters.
        let reached = run.stages.iter().flat_map(|stage| &stage.clusters);
        for cluster in reached {
            self.state.record.asked_before.remove(&cluster.name);
        }
    }

    /// Returns how many approvals stood before each cluster, in the last run that was to move it.
    fn approvals_before(&self) -> BTreeMap<ClusterName, usize> {
        let mut before = self.state.record.asked_before.clone();
        let mut runs: Vec<&RunRecord> = self.state.runs.values().filter(|run| counts(run)).collect();
        runs.sort_by_key(|run| run.sequence);
        for run in runs {
            before.extend(asked(run));
        }
        before
    }

    /// Remembers the approvals of a run that goes, for clusters that have been in no run since.
    pub(super) fn remember_approvals(&mut self, name: &str) {
        let Some(run) = self.state.runs.get(name).filter(|run| counts(run)) else { return };
        let newer = self.state.runs.values().filter(|other| counts(other) && other.sequence > run.sequence);
        let clusters = newer.flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters);
        let since: BTreeSet<&ClusterName> = clusters.map(|cluster| &cluster.name).collect();
        let bound: BTreeSet<&ClusterName> = self.state.bindings().map(|binding| &binding.cluster).collect();
        let is_last = |cluster: &ClusterName| bound.contains(cluster) && !since.contains(cluster);
        let asked: Vec<_> = asked(run).into_iter().filter(|(name, count)| *count > 0 && is_last(name)).collect();
        self.state.record.asked_before.extend(asked);
    }

    /// Pauses a placement that had stages with approvals and now rolls out automatically: a person has to resume it.
    pub(super) fn pause_without_stages(&mut self) {
        let asked = |run: &RunRecord| asked(run).values().any(|count| *count > 0);
        let was_asked = self.last_run().is_some_and(|run| counts(run) && asked(run));
        let record = &mut self.state.record;
        let was_asked = was_asked || !record.asked_before.is_empty();
        // It pauses once: resuming it counts as consent.
        record.asked_before.clear();
        if !was_asked || record.paused.is_some() {
            return;
        }
        let reason = "it was rolled out by stages with approvals and is not any more; resume it where that is meant";
        record.paused = Some(Pause { by: ITSELF.to_owned(), at: self.now, reason: Some(reason.to_owned()) });
        self.note(JournalKind::ApprovalKept, None, json!({"paused": reason}));
    }

    /// Returns why a placement without stages may not roll out, if the configuration demands an approval for one of its
    /// clusters.
    pub(super) fn lacks_stages(&self) -> Option<String> {
        let mut picked = self.state.bindings().filter(|b| !b.deleting && b.state != BindingState::Unscheduled);
        let cluster = &picked.find(|binding| self.fleet.floor.asks_for(binding.cluster.as_str()))?.cluster;
        Some(format!(
            "the configuration (policy.clusters) wants an approval before {cluster}, and this placement is not rolled out by \
             stages; set strategy.type External and name a staged update strategy"
        ))
    }
}

/// Tells whether later runs are compared with a run.
fn counts(run: &RunRecord) -> bool {
    run.frozen.is_some() && !matches!(run.cause, RunCause::Rollback { .. })
}

/// Returns how many approvals protect each cluster of a run.
fn asked(run: &RunRecord) -> BTreeMap<ClusterName, usize> {
    let (mut count, mut asked) = (0, BTreeMap::new());
    for stage in &run.stages {
        count += approvals(&stage.before);
        asked.extend(stage.clusters.iter().map(|cluster| (cluster.name.clone(), count)));
        count += approvals(&stage.after);
    }
    asked
}

/// Counts the approvals among tasks. Approvals that the configuration demands are added to every run anyway, and an approval
/// that the strategy no longer has is not asked again once given.
fn approvals(tasks: &[TaskRecord]) -> usize {
    let counts = |task: &&TaskRecord| match task.wanted_by {
        WantedBy::Strategy => true,
        WantedBy::RunBefore => task.done_at.is_none(),
        WantedBy::Configuration => false,
    };
    tasks.iter().filter(|task| task.type_ == StageTaskType::Approval).filter(counts).count()
}
