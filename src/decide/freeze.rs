//! What a staged update run is frozen to when it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Pass;
use super::runs::Unready;
use crate::api::annotations::STAGED_UPDATE_STRATEGY;
use crate::api::placement::PlacementType;
use crate::api::staged::{Stage, StagedUpdateStrategySpec};
use crate::model::id::{ClusterName, Digest};
use crate::model::overrides::PickedOverrides;
use crate::model::records::{Binding, BindingState};
use crate::model::runs::{
    ClusterPhase, DELETION_STAGE, Frozen, RunCause, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord,
    TaskRecord, WantedBy,
};
use crate::rollout::staged::{PlannedStage, stages};

impl Pass<'_> {
    /// Freezes what a run moves to and computes its stages, if everything it depends on is settled.
    ///
    /// Source: KubeFleet's initialisation of update runs. There a run that comes before scheduling has settled fails for good;
    /// here it waits, and one that is refused is tried again when what it reads changes.
    pub(super) fn freeze(&mut self, run: &mut RunRecord) -> Result<(), Unready> {
        let record = &self.state.record;
        let strategy = self.world.staged.strategy(&record.key, &run.strategy).ok_or_else(|| {
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
        if !self.policy_is_settled() {
            return Err(Unready::Waits("waits until the policy is fulfilled".to_owned()));
        }
        let snapshot = self.snapshot_for(run)?;
        let picked = |b: &&Binding| !b.deleting && b.state != BindingState::Unscheduled;
        let to_update: Vec<&Binding> = self.state.bindings().filter(picked).collect();
        let is_left_over = |b: &&Binding| !b.deleting && b.state == BindingState::Unscheduled;
        let to_delete: BTreeSet<ClusterName> =
            self.state.bindings().filter(is_left_over).map(|b| b.cluster.clone()).collect();
        if to_update.is_empty() && to_delete.is_empty() {
            return Err(Unready::Waits("waits until a cluster is picked".to_owned()));
        }
        let policy = self.state.policy().expect("a settled policy is there");
        let policy_clusters = match policy.policy.as_ref().map(|p| p.placement_type) {
            // Such a policy wants no number: what is picked is what was wanted.
            None | Some(PlacementType::PickAll) => i32::try_from(to_update.len()).unwrap_or(i32::MAX),
            _ => i32::try_from(policy.target_clusters.iter().filter(|d| d.selected).count()).unwrap_or(i32::MAX),
        };
        let frozen = Frozen {
            snapshot,
            hash: self.state.snapshots[&snapshot].hash.clone(),
            policy: policy.index,
            policy_clusters,
            apply_strategy: record.spec.strategy.apply_strategy.clone().unwrap_or_default(),
            strategy: strategy.spec.clone(),
            at: self.now,
        };
        let (planned, to_delete) = self.planned(run, &frozen.strategy, &to_update, to_delete)?;
        run.stages = planned.iter().map(|stage| self.stage_record(stage, &frozen.strategy, run, snapshot)).collect();
        self.keep_approvals(run, snapshot);
        run.deletion = Some(self.deletion_stage(&to_delete));
        run.frozen = Some(frozen);
        self.digest_stages(run);
        Ok(())
    }

    /// Returns the snapshot a run moves to.
    fn snapshot_for(&self, run: &RunRecord) -> Result<u64, Unready> {
        let newest = self.state.newest().map(|newest| newest.index);
        let Some(index) = run.wanted_snapshot.or(newest) else {
            return Err(Unready::Waits("waits until the placement has a snapshot".to_owned()));
        };
        // A run that names no snapshot is no word about one that a person took back since, or before the store was lost.
        let hash = self.state.snapshots.get(&index).map(|snapshot| &snapshot.hash);
        let held =
            self.state.record.held.as_ref().filter(|held| run.wanted_snapshot.is_none() && Some(&held.hash) == hash);
        if let Some(held) = held {
            return Err(Unready::Waits(format!(
                "waits, because the newest snapshot {index} {}; gitfleet retry {} lets it go on, and so does its index in the run",
                held.why, self.state.record.key.name
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

    /// Tells whether the placement as it stands was scheduled, and its policy is fulfilled.
    pub(super) fn policy_is_settled(&self) -> bool {
        let generation = self.state.record.generation;
        self.state.policy().is_some_and(|policy| policy.fulfilled && policy.observed_generation == generation)
    }

    /// Returns the stages with the clusters that a run visits, and the clusters it removes the placement from.
    fn planned(
        &self,
        run: &RunRecord,
        strategy: &StagedUpdateStrategySpec,
        to_update: &[&Binding],
        mut to_delete: BTreeSet<ClusterName>,
    ) -> Result<(Vec<PlannedStage>, BTreeSet<ClusterName>), Unready> {
        if let RunCause::Rollback { of, .. } = &run.cause
            && let Some(bad) = self.state.runs.get(of)
        {
            // By the stages that moved them, though labels may say otherwise by now. A rollback removes nothing.
            return Ok((self.touched(bad), BTreeSet::new()));
        }
        let labels = |binding: &&Binding| {
            let member = self.world.clusters.get(binding.cluster.as_str());
            (binding.cluster.clone(), member.map(|member| member.labels.clone()).unwrap_or_default())
        };
        let clusters: BTreeMap<ClusterName, BTreeMap<String, String>> = to_update.iter().map(labels).collect();
        let mut planned = stages(strategy, &clusters)
            .map_err(|error| Unready::Refused(format!("the stages of {} cannot be computed: {error}", run.strategy)))?;
        if let RunCause::FollowUp { of } = &run.cause
            && let Some(index) = run.snapshot()
        {
            let clusters = self.follow_up_clusters(of, index);
            for stage in &mut planned {
                stage.clusters.retain(|cluster| clusters.contains(cluster));
            }
            to_delete.retain(|cluster| clusters.contains(cluster));
        }
        Ok((planned, to_delete))
    }

    fn stage_record(
        &self,
        planned: &PlannedStage,
        strategy: &StagedUpdateStrategySpec,
        run: &RunRecord,
        snapshot: u64,
    ) -> StageRecord {
        let asks = !matches!(run.cause, RunCause::Rollback { .. }) || !self.has_passed(snapshot, &planned.name);
        let stage = strategy.stages.iter().find(|stage| asks && stage.name == planned.name);
        let tasks = |of: fn(&Stage) -> &Vec<crate::api::staged::StageTask>| {
            let tasks = stage.into_iter().flat_map(of);
            let record = |task: &crate::api::staged::StageTask| TaskRecord {
                type_: task.type_,
                wanted_by: WantedBy::Strategy,
                wait: task.wait(),
                asked_at: None,
                done_at: None,
                approvals: Vec::new(),
            };
            tasks.map(record).collect()
        };
        let cluster = |name: &ClusterName| RunCluster {
            name: name.clone(),
            phase: ClusterPhase::Pending,
            since: self.now,
            started_at: None,
            overrides: self.overrides_of(run, name, snapshot),
            message: String::new(),
        };
        StageRecord {
            name: planned.name.clone(),
            max_concurrency: planned.max_concurrency,
            phase: StagePhase::Pending,
            since: self.now,
            started_at: None,
            ended_at: None,
            digest: Digest::from(""),
            before: tasks(|stage| &stage.before_stage_tasks),
            after: tasks(|stage| &stage.after_stage_tasks),
            clusters: planned.clusters.iter().map(cluster).collect(),
        }
    }

    /// Returns the overrides that a cluster's objects are made with. A rollback asks nobody, so it brings back those that passed
    /// the gates with the snapshot, as long as they are kept; newer ones are a follow-up run's.
    fn overrides_of(&self, run: &RunRecord, cluster: &ClusterName, snapshot: u64) -> PickedOverrides {
        let is_kept = |picked: &&PickedOverrides| {
            picked.cluster.iter().chain(&picked.namespaced).all(|id| self.world.overrides.get(id).is_some())
        };
        let passed = self.state.runs.values().filter(|earlier| {
            matches!(run.cause, RunCause::Rollback { .. })
                && earlier.phase == RunPhase::Succeeded
                && earlier.snapshot() == Some(snapshot)
        });
        let clusters = passed.flat_map(|earlier| earlier.stages.iter().map(move |stage| (earlier.sequence, stage)));
        let clusters = clusters.flat_map(|(sequence, stage)| stage.clusters.iter().map(move |found| (sequence, found)));
        let then = clusters.filter(|(_, found)| found.name == *cluster).max_by_key(|(sequence, _)| *sequence);
        let then = then.map(|(_, found)| &found.overrides).filter(is_kept);
        then.cloned().unwrap_or_else(|| self.desired_overrides(cluster, snapshot))
    }

    /// Tells whether a snapshot passed the gates of a stage once: it succeeded everywhere, or a run of it did, and had clusters
    /// there. A stage without clusters asks nobody.
    pub(super) fn has_passed(&self, snapshot: u64, stage: &str) -> bool {
        let runs = self.state.runs.values();
        let mut runs = runs.filter(|run| run.phase == RunPhase::Succeeded && run.snapshot() == Some(snapshot));
        let has_passed = |found: &StageRecord| found.name == stage && found.phase == StagePhase::Succeeded;
        self.state.record.last_succeeded == Some(snapshot) || runs.any(|run| run.stages.iter().any(has_passed))
    }

    fn deletion_stage(&self, clusters: &BTreeSet<ClusterName>) -> StageRecord {
        let cluster = |name: &ClusterName| RunCluster {
            name: name.clone(),
            phase: ClusterPhase::Pending,
            since: self.now,
            started_at: None,
            overrides: PickedOverrides::default(),
            message: String::new(),
        };
        StageRecord {
            name: DELETION_STAGE.to_owned(),
            // Source: KubeFleet, whose deletion stage removes all at once.
            max_concurrency: clusters.len().max(1),
            phase: StagePhase::Pending,
            since: self.now,
            started_at: None,
            ended_at: None,
            digest: Digest::from(""),
            before: Vec::new(),
            after: Vec::new(),
            clusters: clusters.iter().map(cluster).collect(),
        }
    }

    /// Computes what approvals of each stage are approvals of: SHA-256 over the placement, the snapshot, how objects are applied,
    /// what every cluster of the run is to hold, the stages in order, and the stage's own clusters.
    fn digest_stages(&mut self, run: &mut RunRecord) {
        let Some(frozen) = &run.frozen else { return };
        let mut common = format!("{}\n{}\n{}\n", run.placement, frozen.hash, json!(frozen.apply_strategy));
        // Of all stages: who approves the first approves the content that the last will get.
        for cluster in run.stages.iter().flat_map(|stage| &stage.clusters) {
            let works = self.works_digest(&cluster.name, frozen.snapshot, &cluster.overrides);
            writeln!(common, "{} {works}", cluster.name).expect("writing to a string cannot fail");
        }
        for stage in &run.stages {
            writeln!(common, "{}", stage.name).expect("writing to a string cannot fail");
        }
        for stage in &mut run.stages {
            let own: Vec<&str> = stage.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let text = format!("{common}{}\n{}", stage.name, own.join("\n"));
            stage.digest = Digest::new(format!("{:x}", Sha256::digest(text)));
        }
    }

    /// Returns the stages of a run with the clusters it has moved, as a rollback visits them: those to be tried again, too.
    fn touched(&self, bad: &RunRecord) -> Vec<PlannedStage> {
        let is_there = |cluster: &RunCluster| {
            let mut bindings = self.state.bindings.values().filter(|binding| binding.cluster == cluster.name);
            bindings.any(|binding| binding.snapshot.is_some() && binding.snapshot == bad.snapshot())
        };
        let is_touched = |cluster: &&RunCluster| match cluster.phase {
            ClusterPhase::Updating | ClusterPhase::Succeeded | ClusterPhase::Failed => true,
            // It failed and is to be tried again, or its turn never came: the binding tells.
            ClusterPhase::Pending => is_there(cluster),
            ClusterPhase::Deferred | ClusterPhase::Skipped => false,
        };
        let planned = |stage: &StageRecord| PlannedStage {
            name: stage.name.clone(),
            clusters: stage.clusters.iter().filter(is_touched).map(|cluster| cluster.name.clone()).collect(),
            max_concurrency: stage.max_concurrency,
        };
        bad.stages.iter().map(planned).collect()
    }
}
