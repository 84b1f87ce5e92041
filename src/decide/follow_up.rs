//! What ended runs leave unfinished: which run answers for a cluster, and which clusters need a follow-up run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Pass;
use super::objects::stays;
use super::strategies::Strategy;
use crate::rollout::staged::{is_in_a_stage, reached};
use model::api::annotations::{InNoStage, STAGED_UPDATE_STRATEGY};
use model::api::placement::StrategyType;
use model::id::ClusterName;
use model::placement_phase::PhaseAct;
use model::records::{Binding, BindingState};
use model::runs::{ClusterPhase, RunCause, RunPhase, RunRecord, StageRecord};

/// Clusters that are not in their desired state and that only ended runs can repair.
#[derive(Default)]
struct Owed {
    /// Offline at their turn: the run that deferred them updates them.
    to_come: BTreeSet<ClusterName>,
    /// Offline when they were to be removed: the run that deferred the removal completes it.
    to_go: BTreeSet<ClusterName>,
    /// The snapshots that unsuccessful runs left on clusters: a cluster stays there until a person or another snapshot moves
    /// it. A full run that succeeded since would have moved it, unless it was away from the placement then and came back with what it has.
    stranded: BTreeMap<ClusterName, u64>,
    /// Clusters of follow-up runs that a person rejected: they stay as they are.
    rejected: BTreeSet<ClusterName>,
}

impl Pass<'_> {
    /// Returns the runs that have started, newest first, each with the clusters it answers for: those it has reached and no
    /// newer run has. An older run no longer determines the state of a cluster.
    pub(super) fn answering(&self) -> Vec<(&RunRecord, BTreeSet<&ClusterName>)> {
        let mut runs: Vec<&RunRecord> = self.state.runs.values().filter(|run| run.frozen.is_some()).collect();
        runs.sort_unstable_by_key(|run| Reverse(run.sequence));
        let mut taken: BTreeSet<&ClusterName> = BTreeSet::new();
        let mut answering = Vec::with_capacity(runs.len());
        for run in runs {
            let reached = reached(run);
            answering.push((run, reached.difference(&taken).copied().collect()));
            taken.extend(reached);
        }
        answering
    }

    /// Tells whether an ended run still updates its remaining clusters: its snapshot is kept, and neither a rollback nor
    /// anything else has moved them since.
    pub(super) fn is_current(&self, run: &RunRecord) -> bool {
        let mut rollbacks = self.state.runs.values().filter(|newer| is_rollback(newer));
        run.sequence >= self.state.record.runs_from
            && run.snapshot().is_some_and(|index| self.state.snapshots.contains_key(&index))
            && !rollbacks.any(|newer| newer.sequence > run.sequence && newer.snapshot() != run.snapshot())
    }

    /// Returns the run that determines the snapshot of clusters without an active run: the newest successful and current one.
    /// Later rejected or superseded runs do not count.
    fn followed_run(&self) -> Option<&RunRecord> {
        let succeeded = self.state.runs.values().filter(|run| run.phase == RunPhase::Succeeded);
        succeeded.filter(|run| self.is_current(run)).max_by_key(|run| run.sequence)
    }

    /// Tells whether a snapshot was rolled out once: everywhere, or by a run that passed all gates.
    pub fn has_succeeded(&self, index: u64) -> bool {
        let mut succeeded = self.state.runs.values().filter(|run| run.phase == RunPhase::Succeeded);
        self.state.record.last_succeeded == Some(index)
            || succeeded.any(|run| !is_rollback(run) && run.snapshot() == Some(index))
    }

    /// Starts a follow-up run through the same stages for clusters that all runs left wrong (they joined, or their desired
    /// objects changed without a new snapshot), and for clusters that are no longer picked.
    pub(super) fn begin_follow_up(&mut self) {
        // Without the annotation only runs that somebody writes move the placement.
        if !self.state.record.annotations.contains_key(STAGED_UPDATE_STRATEGY) {
            return;
        }
        let all_final = self.state.runs.values().all(|run| run.phase.is_final());
        if !all_final {
            return;
        }
        let Some(last) = self.followed_run() else { return };
        let Some(index) = last.snapshot() else { return };
        let may_begin = self.state.record.permits(PhaseAct::BeginRuns) && self.policy_is_settled();
        if !may_begin || self.unfinished_clusters(index).is_empty() {
            return;
        }
        let of = self.root(last);
        let strategy = last.strategy.clone();
        let name = self.free_name(&of);
        self.begin_run(name, RunCause::FollowUp { of }, strategy, Some(index), None);
    }

    /// Returns the name of the run that a follow-up run descends from; for another run its own name.
    pub(super) fn root(&self, run: &RunRecord) -> String {
        let mut first = run;
        // Sequences only decrease, so the loop ends.
        while let Some(earlier) = self.predecessor(first) {
            first = earlier;
        }
        match &first.cause {
            RunCause::FollowUp { of } => of.clone(),
            _ => first.name.clone(),
        }
    }

    /// Returns the run that a follow-up run was begun after. A newer run may have its name by now.
    fn predecessor(&self, run: &RunRecord) -> Option<&RunRecord> {
        match &run.cause {
            RunCause::FollowUp { of } => self.state.runs.get(of).filter(|of| of.sequence < run.sequence),
            _ => None,
        }
    }

    /// Returns the rejected follow-up runs that nobody has requested again and that no full run has replaced or is about to
    /// replace.
    fn rejected_follow_ups(&self) -> Vec<&RunRecord> {
        let Some(index) = self.followed_run().map(RunRecord::snapshot) else { return Vec::new() };
        let full = self.state.runs.values().filter(|run| !is_follow_up(run));
        let replacing = full.filter(|run| run.phase == RunPhase::Succeeded || !run.phase.is_final());
        let since = replacing.map(|run| run.sequence).max();
        let rejected = self.state.runs.values().filter(|run| run.phase == RunPhase::Rejected && is_follow_up(run));
        let rejected = rejected.filter(|run| run.snapshot() == index && Some(run.sequence) > since);
        rejected.filter(|run| !self.is_requested_again(run)).collect()
    }

    /// Tells whether the work of a rejected follow-up run was requested again.
    fn is_requested_again(&self, run: &RunRecord) -> bool {
        let again = RunCause::FollowUp { of: run.name.clone() };
        self.state.runs.values().any(|later| later.cause == again)
    }

    /// Requests again the work of rejected follow-up runs. Returns each with its new run.
    pub fn ask_for_rejected(&mut self) -> Vec<(String, String)> {
        let rejected: Vec<RunRecord> = self.rejected_follow_ups().into_iter().cloned().collect();
        let again = rejected.into_iter().map(|run| {
            let name = self.free_name(&self.root(&run));
            // The name comes from the first run, the cause from the rejected one, which marks it as requested again.
            let of = run.name.clone();
            self.begin_run(name.clone(), RunCause::FollowUp { of }, run.strategy.clone(), run.snapshot(), None);
            (run.name, name)
        });
        again.collect()
    }

    /// Returns the clusters of a follow-up run: those in a wrong state, and all clusters of a rejected run that it repeats, so
    /// that the same gates close.
    pub(super) fn follow_up_clusters(&self, of: &str, index: u64) -> BTreeSet<ClusterName> {
        let mut clusters = self.unfinished_clusters(index);
        let rejected = self.state.runs.get(of).filter(|run| run.phase == RunPhase::Rejected);
        clusters.extend(rejected.into_iter().flat_map(clusters_of).cloned());
        clusters
    }

    /// Returns the clusters that are to hold a snapshot and do not, and those that are no longer picked.
    fn unfinished_clusters(&self, index: u64) -> BTreeSet<ClusterName> {
        let wrong = self.state.bindings().filter(|binding| !binding.deleting && !self.is_at(binding, index));
        let wrong: Vec<&Binding> = wrong.collect();
        // The usual case, and cheaper to compute than the unfinished work of runs.
        if wrong.is_empty() {
            return BTreeSet::new();
        }
        let owed = self.owed();
        let unfinished = wrong.into_iter().filter(|binding| self.is_unfinished(binding, &owed, index));
        unfinished.map(|binding| binding.cluster.clone()).collect()
    }

    /// Tells whether a cluster that does not hold a snapshot needs a follow-up run, because neither an ended run is to update it nor a person
    /// left it as it is.
    fn is_unfinished(&self, binding: &Binding, owed: &Owed, index: u64) -> bool {
        match binding.state {
            _ if owed.rejected.contains(&binding.cluster) => false,
            BindingState::Unscheduled => !owed.to_go.contains(&binding.cluster),
            _ if self.state.record.ignores(binding) => false,
            _ => {
                // Only if the run left the cluster there: a cluster that was moved since is not stranded.
                let stranded = owed.stranded.get(&binding.cluster).filter(|at| **at != index).copied();
                !owed.to_come.contains(&binding.cluster) && (stranded.is_none() || stranded != binding.snapshot)
            }
        }
    }

    /// Records the clusters that no run is going to update, because they are in no stage and the strategy ignores such clusters.
    /// A cluster that a run has in its stages already is not among them.
    pub(super) fn note_ignored(&mut self) {
        let outside = self.ignored_by_strategy();
        let ignored = if outside.is_empty() {
            outside
        } else {
            let picked = self.state.bindings().filter(|b| stays(b));
            let mut ignored: BTreeSet<ClusterName> =
                picked.map(|binding| &binding.cluster).filter(|cluster| outside.contains(*cluster)).cloned().collect();
            let to_come = self.owed().to_come;
            let under_way = self.active_run().into_iter().flat_map(clusters_of);
            for cluster in to_come.iter().chain(under_way) {
                ignored.remove(cluster);
            }
            ignored
        };
        self.state.record.ignored = ignored;
    }

    /// Returns the clusters of the fleet that the placement's strategy ignores, whether they are picked or not.
    pub fn ignored_by_strategy(&self) -> BTreeSet<ClusterName> {
        let record = &self.state.record;
        let is_staged = !record.removed && record.spec.strategy.type_ == StrategyType::External;
        let strategy = self.next_strategy().filter(|strategy| is_staged && strategy.in_no_stage == InNoStage::Ignore);
        let Some(strategy) = strategy else { return BTreeSet::new() };
        let outside = self.fleet.clusters.iter().filter(|(_, member)| !is_in_a_stage(&strategy.spec, &member.labels));
        outside.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the strategy that the next run goes by: that of the first unfinished run, of the run that a follow-up run would
    /// follow, of a written run, or of the annotation.
    fn next_strategy(&self) -> Option<&Strategy> {
        let record = &self.state.record;
        let staged = &self.fleet.staged;
        let unfinished = self.state.runs.values().filter(|run| !run.phase.is_final()).min_by_key(|run| run.sequence);
        let name = unfinished.or_else(|| self.followed_run()).map(|run| &run.strategy);
        let name = name.or_else(|| {
            let written = staged.runs(&record.key).next();
            written.map(|(_, run)| &run.spec.staged_rollout_strategy_name)
        });
        let name = name.or_else(|| record.annotations.get(STAGED_UPDATE_STRATEGY));
        staged.strategy(&record.key, name?)
    }

    fn owed(&self) -> Owed {
        let mut owed = Owed::default();
        let full = self.state.runs.values().filter(|run| run.phase == RunPhase::Succeeded && !is_follow_up(run));
        let last_full = full.filter(|run| self.is_current(run)).map(|run| run.sequence).max();
        for (run, own) in self.answering() {
            match run.snapshot() {
                // The run updates them itself when they answer: its gates were opened for them.
                _ if run.phase == RunPhase::Succeeded && self.is_current(run) => {
                    owed.to_come.extend(run.stages.iter().flat_map(|stage| deferred(stage, &own)));
                    owed.to_go.extend(run.deletion.iter().flat_map(|stage| deferred(stage, &own)));
                }
                Some(snapshot) if run.phase != RunPhase::Succeeded && Some(run.sequence) > last_full => {
                    owed.stranded.extend(own.into_iter().map(|cluster| (cluster.clone(), snapshot)));
                }
                // A run without effect on the present: a follow-up run updates its clusters.
                _ => {}
            }
        }
        owed.rejected.extend(self.rejected_follow_ups().into_iter().flat_map(clusters_of).cloned());
        owed
    }
}

/// Returns the deferred clusters of a stage that its run answers for.
fn deferred(stage: &StageRecord, own: &BTreeSet<&ClusterName>) -> Vec<ClusterName> {
    let deferred = stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Deferred);
    deferred.map(|cluster| &cluster.name).filter(|name| own.contains(name)).cloned().collect()
}

pub(super) fn is_follow_up(run: &RunRecord) -> bool {
    matches!(run.cause, RunCause::FollowUp { .. })
}

pub(super) fn is_rollback(run: &RunRecord) -> bool {
    matches!(run.cause, RunCause::Rollback { .. })
}

fn clusters_of(run: &RunRecord) -> impl Iterator<Item = &ClusterName> {
    run.stages.iter().chain(&run.deletion).flat_map(|stage| &stage.clusters).map(|cluster| &cluster.name)
}
