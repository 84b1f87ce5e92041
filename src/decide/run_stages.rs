//! The stages of a frozen run, and the digests that approvals name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Pass;
use super::follow_up::is_rollback;
use super::strategies::Strategy;
use super::unready::Unready;
use crate::rollout::staged::{PlannedStage, stages};
use model::api::staged::StageTask;
use model::id::{ClusterName, Digest};
use model::overrides::PickedOverrides;
use model::records::Binding;
use model::runs::{
    ChecksRecord, ClusterPhase, DELETION_STAGE, RunCause, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord,
    TaskRecord, WantedBy,
};

impl Pass<'_> {
    /// Returns the stages with the clusters that a run visits, and the clusters from which it removes the placement.
    pub(super) fn planned(
        &self,
        run: &RunRecord,
        strategy: &Strategy,
        to_update: &[&Binding],
        mut to_delete: BTreeSet<ClusterName>,
    ) -> Result<(Vec<PlannedStage>, BTreeSet<ClusterName>), Unready> {
        if let RunCause::Rollback { of, .. } = &run.cause
            && let Some(bad) = self.state.runs.get(of)
        {
            // Uses the stages that moved them, although labels may differ by now. A rollback removes nothing.
            return Ok((self.touched(bad), BTreeSet::new()));
        }
        // Only a rollback begins then. No cluster loses anything as long as others are missing.
        if !self.policy_is_settled() {
            to_delete.clear();
        }
        let clusters = to_update.iter().map(|binding| {
            let member = self.fleet.clusters.get(binding.cluster.as_str());
            (binding.cluster.clone(), member.map(|member| member.labels.clone()).unwrap_or_default())
        });
        let clusters: BTreeMap<ClusterName, BTreeMap<String, String>> = clusters.collect();
        let mut planned = stages(&strategy.spec, strategy.in_no_stage, &clusters)
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

    pub(super) fn stage_record(
        &self,
        planned: &PlannedStage,
        strategy: &Strategy,
        run: &RunRecord,
        snapshot: u64,
    ) -> StageRecord {
        let asks = !is_rollback(run) || !self.has_passed(snapshot, &planned.name);
        let stage = strategy.spec.stages.iter().find(|stage| asks && stage.name == planned.name);
        let clusters = planned.clusters.iter();
        let clusters = clusters.map(|name| self.run_cluster(name, self.overrides_of(run, name, snapshot)));
        StageRecord {
            name: planned.name.clone(),
            max_concurrency: planned.max_concurrency,
            phase: StagePhase::Pending,
            since: self.now,
            started_at: None,
            ended_at: None,
            digest: Digest::from(""),
            before: stage.map(|stage| task_records(&stage.before_stage_tasks)).unwrap_or_default(),
            after: stage.map(|stage| task_records(&stage.after_stage_tasks)).unwrap_or_default(),
            checks: match strategy.checks.get(&planned.name) {
                Some(checks) if asks => Some(ChecksRecord::new(checks.clone())),
                _ => None,
            },
            clusters: clusters.collect(),
            while_empty: None,
        }
    }

    /// Returns the record of a cluster whose turn in a run has not come yet.
    fn run_cluster(&self, name: &ClusterName, overrides: PickedOverrides) -> RunCluster {
        RunCluster {
            name: name.clone(),
            phase: ClusterPhase::Pending,
            since: self.now,
            started_at: None,
            overrides,
            message: String::new(),
        }
    }

    /// Returns the overrides for a cluster's objects. A rollback asks for no approval, so it uses the overrides that passed the
    /// gates with the snapshot, as long as they are kept; newer ones are for a follow-up run.
    pub(super) fn overrides_of(&self, run: &RunRecord, cluster: &ClusterName, snapshot: u64) -> PickedOverrides {
        if let Some(back) = self.overrides_back(cluster, snapshot, &self.picked_today(cluster, snapshot)) {
            return back;
        }
        let passed = self.state.runs.values().filter(|earlier| {
            is_rollback(run) && earlier.phase == RunPhase::Succeeded && earlier.snapshot() == Some(snapshot)
        });
        let clusters = passed.flat_map(|earlier| earlier.stages.iter().map(move |stage| (earlier.sequence, stage)));
        let clusters = clusters.flat_map(|(sequence, stage)| stage.clusters.iter().map(move |found| (sequence, found)));
        let then = clusters.filter(|(_, found)| found.name == *cluster).max_by_key(|(sequence, _)| *sequence);
        let then = then.map(|(_, found)| &found.overrides).filter(|picked| self.are_kept(picked));
        then.cloned().unwrap_or_else(|| self.desired_overrides(cluster, snapshot))
    }

    /// Tells whether a snapshot passed the gates of a stage once: it succeeded everywhere, or a run of it did and had clusters
    /// in the stage. A stage without clusters has no gates.
    pub(super) fn has_passed(&self, snapshot: u64, stage: &str) -> bool {
        let runs = self.state.runs.values();
        let runs = runs.filter(|run| run.phase == RunPhase::Succeeded && run.snapshot() == Some(snapshot));
        let mut passed = runs.flat_map(|run| &run.stages).filter(|found| found.phase == StagePhase::Succeeded);
        self.state.record.last_succeeded == Some(snapshot) || passed.any(|found| found.name == stage)
    }

    pub(super) fn deletion_stage(&self, clusters: &BTreeSet<ClusterName>) -> StageRecord {
        let removed = clusters.iter().map(|name| self.run_cluster(name, PickedOverrides::default()));
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
            checks: None,
            clusters: removed.collect(),
            while_empty: None,
        }
    }

    /// Computes the digest of each stage that approvals name: SHA-256 over the placement, the snapshot, the apply strategy, the
    /// desired content of every cluster of the run, the stages in order with their checks, and the stage's own clusters.
    pub(super) fn digest_stages(&mut self, run: &mut RunRecord) {
        let Some(frozen) = &run.frozen else { return };
        let mut common = format!("{}\n{}\n{}\n", run.placement, frozen.hash, json!(frozen.apply_strategy));
        // Of all stages: an approval of the first stage also covers the content of the last.
        for cluster in run.stages.iter().flat_map(|stage| &stage.clusters) {
            let works = self.works_digest(&cluster.name, frozen.snapshot, &cluster.overrides);
            writeln!(common, "{} {works}", cluster.name).expect("writing to a string cannot fail");
        }
        for stage in &run.stages {
            writeln!(common, "{}", stage.name).expect("writing to a string cannot fail");
            if let Some(checks) = &stage.checks {
                writeln!(common, "{}", json!(checks.given)).expect("writing to a string cannot fail");
            }
        }
        for stage in &mut run.stages {
            let own: Vec<&str> = stage.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let text = format!("{common}{}\n{}", stage.name, own.join("\n"));
            stage.digest = Digest::new(format!("{:x}", Sha256::digest(text)));
        }
    }

    /// Returns the stages of a run with the clusters it has moved, as a rollback visits them, including clusters to retry.
    pub(super) fn touched(&self, bad: &RunRecord) -> Vec<PlannedStage> {
        let mut planned = Vec::with_capacity(bad.stages.len());
        for stage in &bad.stages {
            let touched = stage.clusters.iter().filter(|cluster| self.has_touched(bad, cluster));
            planned.push(PlannedStage {
                name: stage.name.clone(),
                clusters: touched.map(|cluster| cluster.name.clone()).collect(),
                max_concurrency: stage.max_concurrency,
            });
        }
        planned
    }

    fn has_touched(&self, bad: &RunRecord, cluster: &RunCluster) -> bool {
        match cluster.phase {
            ClusterPhase::Updating | ClusterPhase::Succeeded | ClusterPhase::Failed => true,
            // A failed cluster that waits for a retry, one that was on its way when the run ended, or one whose turn never came: the
            // binding tells which.
            ClusterPhase::Pending | ClusterPhase::Deferred | ClusterPhase::Skipped => {
                let mut bindings = self.state.bindings().filter(|binding| binding.cluster == cluster.name);
                bindings.any(|binding| binding.snapshot.is_some() && binding.snapshot == bad.snapshot())
            }
        }
    }
}

/// Returns the records of a strategy's tasks before they are asked.
fn task_records(tasks: &[StageTask]) -> Vec<TaskRecord> {
    let records = tasks.iter().map(|task| TaskRecord {
        type_: task.type_,
        wanted_by: WantedBy::Strategy,
        wait: task.wait(),
        expired: false,
        asked_at: None,
        done_at: None,
        approvals: Vec::new(),
    });
    records.collect()
}
