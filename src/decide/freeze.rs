//! The frozen content of a staged update run.

use std::collections::BTreeSet;

use super::Pass;
use super::follow_up::is_rollback;
use super::objects::stays;
use super::unready::Unready;
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::api::placement::PlacementType;
use model::id::ClusterName;
use model::names::first_of;
use model::records::{Binding, BindingState, PolicySnapshot};
use model::runs::{Frozen, RunCause, RunRecord};

/// Clusters in a message; the others are counted.
const NAMED_CLUSTERS_MAX: usize = 5;

impl Pass<'_> {
    /// Freezes the snapshot and the stages of a run, if everything they depend on has settled.
    ///
    /// Source: KubeFleet's initialisation of update runs. There a run that starts before scheduling has settled fails
    /// permanently; here it waits, and a refused run is retried when its inputs change.
    pub(super) fn freeze(&mut self, run: &mut RunRecord) -> Result<(), Unready> {
        let record = &self.state.record;
        let strategy = self.fleet.staged.strategy(&record.key, &run.strategy).ok_or_else(|| {
            let kind =
                if record.key.namespace.is_some() { "StagedUpdateStrategy" } else { "ClusterStagedUpdateStrategy" };
            let named_by = match &run.cause {
                RunCause::Written { origin } => format!("the run {} ({})", run.name, origin.path),
                _ => format!("the annotation {STAGED_UPDATE_STRATEGY}"),
            };
            Unready::Refused(format!(
                "{named_by} names the {kind} {}, which the source does not have; add it",
                run.strategy
            ))
        })?;
        if let Some(error) = &record.error {
            return Err(Unready::Waits(format!("waits, because the placement has an error: {error}")));
        }
        if !self.leaving().is_empty() {
            return Err(Unready::Waits(
                "waits until a person has agreed to the clusters that left the fleet".to_owned(),
            ));
        }
        if !self.policy_suffices(run) {
            return Err(Unready::Waits("waits until the policy is fulfilled".to_owned()));
        }
        if let Some(namespace) = &self.state.record.key.namespace {
            let coming =
                self.state.others.awaited.iter().filter(|(_, comes)| **comes).map(|(cluster, _)| cluster.clone());
            let awaited = self.would_pick(&coming.collect());
            if !awaited.is_empty() {
                let named = first_of(awaited.iter().map(ClusterName::as_str), NAMED_CLUSTERS_MAX);
                let why =
                    format!("waits until the Namespace {namespace}, which another placement brings, is on {named}");
                return Err(Unready::Waits(why));
            }
        }
        let snapshot = self.snapshot_for(run)?;
        let to_update: Vec<&Binding> = self.state.bindings().filter(|b| stays(b)).collect();
        let left_over = self.state.bindings().filter(|b| !b.deleting && b.state == BindingState::Unscheduled);
        let to_delete: BTreeSet<ClusterName> = left_over.map(|b| b.cluster.clone()).collect();
        if to_update.is_empty() && to_delete.is_empty() {
            return Err(Unready::WithoutClusters);
        }
        let policy = self.state.policy().expect("the current policy is there");
        let policy_clusters = match policy.policy.as_ref().map(|p| p.placement_type) {
            // Such a policy has no desired number: the number of picked clusters is the desired one.
            None | Some(PlacementType::PickAll) => i32::try_from(to_update.len()).unwrap_or(i32::MAX),
            _ => i32::try_from(policy.target_clusters.iter().filter(|d| d.selected).count()).unwrap_or(i32::MAX),
        };
        let frozen = Frozen {
            snapshot,
            hash: self.state.snapshots[&snapshot].hash.clone(),
            policy: policy.index,
            policy_clusters,
            apply_strategy: self.wanted_apply_strategy(snapshot),
            strategy: strategy.spec.clone(),
            at: self.now,
        };
        let (planned, to_delete) = self.planned(run, strategy, &to_update, to_delete)?;
        run.stages = planned.iter().map(|stage| self.stage_record(stage, strategy, run, snapshot)).collect();
        run.frozen = Some(frozen);
        self.keep_approvals(run, snapshot);
        run.deletion = Some(self.deletion_stage(&to_delete));
        self.digest_stages(run);
        Ok(())
    }

    /// Returns the snapshot a run moves to.
    fn snapshot_for(&self, run: &RunRecord) -> Result<u64, Unready> {
        let newest = self.state.newest().map(|newest| newest.index);
        let Some(index) = run.wanted_snapshot.or(newest) else {
            return Err(Unready::Waits("waits until the placement has a snapshot".to_owned()));
        };
        // A run that names no snapshot does not bring back one that a person rolled back, or that was held before the store was
        // lost.
        let hash = self.state.snapshots.get(&index).map(|snapshot| &snapshot.hash);
        let held =
            self.state.record.held.as_ref().filter(|held| run.wanted_snapshot.is_none() && Some(&held.hash) == hash);
        if let Some(held) = held {
            return Err(Unready::Waits(format!(
                "waits, because the newest snapshot {index} {}; `gitfleet retry {}` lets it continue, and so does its index in the run",
                held.why,
                self.state.word()
            )));
        }
        if !self.state.snapshots.contains_key(&index) {
            let known: Vec<String> = self.state.snapshots.keys().map(ToString::to_string).collect();
            return Err(Unready::Refused(format!(
                "the run {} wants snapshot {index}, which the placement does not have; it has {}",
                run.name,
                known.join(", ")
            )));
        }
        if self.state.unreadable.contains(&index) {
            return Err(Unready::Refused(format!(
                "the payload of snapshot {index} cannot be read from git; clusters keep what they have"
            )));
        }
        if !self.state.payloads.contains_key(&index) {
            return Err(Unready::Waits(format!("waits until the payload of snapshot {index} is read from git")));
        }
        Ok(index)
    }

    /// Tells whether scheduling is up to date with the placement, and its policy is fulfilled.
    pub(super) fn policy_is_settled(&self) -> bool {
        self.current_policy().is_some_and(|policy| policy.fulfilled)
    }

    /// Tells whether a run may begin with the clusters that are picked. A rollback does not wait for others: it goes to clusters that have
    /// something, and its policy is one of the past, which no commit changes and which may never be fulfilled again.
    fn policy_suffices(&self, run: &RunRecord) -> bool {
        self.current_policy().is_some_and(|policy| policy.fulfilled || is_rollback(run))
    }

    /// Returns the policy, if scheduling is up to date with the placement.
    fn current_policy(&self) -> Option<&PolicySnapshot> {
        let generation = self.state.record.generation;
        self.state.policy().filter(|policy| policy.observed_generation == generation)
    }
}
