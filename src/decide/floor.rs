//! The minimum of approvals that a commit cannot remove for its own rollout: approvals that its clusters required before, and
//! those that the configuration demands.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::Pass;
use super::follow_up::is_rollback;
use super::objects::stays;
use super::state::PlacementState;
use model::api::staged::StageTaskType;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::overrides::PickedOverrides;
use model::records::{BindingState, Pause};
use model::runs::{
    ClusterPhase, Frozen, RunCluster, RunRecord, StagePhase, StageRecord, TaskRecord, WantedBy, WhileEmpty,
};

/// The actor of the pause when a placement no longer has stages.
const ITSELF: &str = "gitfleet";

/// How many approvals and waits stand before a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Protection {
    pub(super) approvals: usize,
    waits: usize,
}

impl Protection {
    fn of(tasks: &[TaskRecord]) -> Self {
        let waits = tasks.iter().filter(|task| task.type_ == StageTaskType::TimedWait).count();
        Self { approvals: approvals(tasks), waits }
    }

    fn add(&mut self, other: Self) {
        self.approvals += other.approvals;
        self.waits += other.waits;
    }

    fn exceeds(self, other: Self) -> bool {
        self.approvals > other.approvals || self.waits > other.waits
    }
}

impl Pass<'_> {
    /// Keeps the gates of a run that is about to start: those of stages that have no clusters but protect later ones, those that the
    /// configuration demands, and approvals that a cluster required in its last run and the strategy no longer has. The last are
    /// asked once.
    pub(super) fn keep_approvals(&mut self, run: &mut RunRecord, snapshot: u64) {
        let is_rollback = is_rollback(run);
        // Clusters that get something nobody approved, with what protected them.
        let mut before = self.state.protections();
        let new = if is_rollback { BTreeSet::new() } else { self.unapproved(run, &before) };
        before.retain(|cluster, _| new.contains(cluster));
        self.keep_gates_of_empty_stages(run, &new, &before);
        let mut given = 0;
        // Approvals add up along the stages: an approval before an earlier stage also protects the clusters of this one.
        for stage in &mut run.stages {
            let own = if stage.asks() { approvals(&stage.before) } else { 0 };
            let after = if stage.asks() { approvals(&stage.after) } else { 0 };
            let wanted = stage.clusters.iter().filter_map(|cluster| before.get(&cluster.name));
            let wanted = wanted.map(|protection| protection.approvals).max();
            let is_less = wanted.is_some_and(|wanted| given + own < wanted);
            let passed = is_rollback && self.has_passed(snapshot, &stage.name);
            let clusters = stage.clusters.iter().map(|cluster| cluster.name.as_str());
            let is_demanded = !passed && self.fleet.floor.asks_before(&stage.name, clusters);
            given += own + after;
            // One approval per stage is enough, and a stage without clusters needs none.
            if own > 0 || stage.clusters.is_empty() || !(is_less || is_demanded) {
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
            given += 1;
            let facts = json!({"run": run.name, "stage": stage.name, "wantedBy": wanted_by});
            self.note(JournalKind::ApprovalKept, None, facts);
        }
        // From now on the run itself records which approvals protected these clusters. Nothing is compared with a rollback.
        if !is_rollback {
            for cluster in run.stages.iter().flat_map(|stage| &stage.clusters) {
                self.state.record.asked_before.remove(&cluster.name);
            }
        }
    }

    /// Decides about the tasks of stages without clusters: they are asked where a later cluster gets something that nobody approved,
    /// and a cluster of the placement belongs to the stage, or the tasks protected the later cluster in its last run.
    ///
    /// This differs from KubeFleet, where a run has all clusters of the placement: a stage whose clusters are right already asks there,
    /// too, and a stage that no cluster fits does not.
    fn keep_gates_of_empty_stages(
        &self,
        run: &mut RunRecord,
        new: &BTreeSet<ClusterName>,
        before: &BTreeMap<ClusterName, Protection>,
    ) {
        if is_rollback(run) || !run.stages.iter().any(has_only_tasks) {
            return;
        }
        let Some(frozen) = &run.frozen else { return };
        let mut given = Protection::default();
        let mut lacks = Vec::with_capacity(run.stages.len());
        // For each stage: whether it has new clusters, and whether one of them was protected by more than stages with clusters give.
        for stage in &run.stages {
            if !stage.clusters.is_empty() {
                given.add(Protection::of(&stage.before));
            }
            let is_new = stage.clusters.iter().any(|cluster| new.contains(&cluster.name));
            let was = stage.clusters.iter().filter_map(|cluster| before.get(&cluster.name));
            lacks.push((is_new, was.copied().any(|was| was.exceeds(given))));
            if !stage.clusters.is_empty() {
                given.add(Protection::of(&stage.after));
            }
        }
        let selected = self.selected_by_stages(frozen);
        for (at, stage) in run.stages.iter_mut().enumerate().filter(|(_, stage)| has_only_tasks(stage)) {
            let any_new = lacks[at..].iter().any(|of| of.0);
            let any_lacking = lacks[at..].iter().any(|of| of.1);
            let fits = selected.contains(stage.name.as_str());
            stage.while_empty = match (fits, any_new, any_lacking) {
                (true, true, _) | (_, _, true) => Some(WhileEmpty::Asked),
                (true, false, _) => Some(WhileEmpty::Passed),
                (false, _, false) => None,
            };
        }
    }

    /// Returns the clusters of a run that get something which no approval covers.
    fn unapproved(&self, run: &RunRecord, before: &BTreeMap<ClusterName, Protection>) -> BTreeSet<ClusterName> {
        let Some(frozen) = &run.frozen else { return BTreeSet::new() };
        let running = self.running(frozen);
        let nothing = BTreeSet::new();
        let mut new = BTreeSet::new();
        let mut asks = false;
        for stage in &run.stages {
            let unapproved = stage.clusters.iter().filter(|cluster| {
                // A cluster that joins may get what its stage runs; one that something protected may have been in another stage.
                let was_protected = before.get(&cluster.name).is_some_and(|was| *was != Protection::default());
                let running = if was_protected { &nothing } else { &running };
                !self.is_approved(frozen, running, stage, cluster, asks)
            });
            new.extend(unapproved.map(|cluster| cluster.name.clone()));
            asks |= has_approval(&stage.before) || has_approval(&stage.after);
        }
        new
    }

    /// Returns the stages of a run's strategy that a cluster of the placement belongs to, or will when it has the Namespace.
    fn selected_by_stages<'a>(&self, frozen: &'a Frozen) -> BTreeSet<&'a str> {
        let picked = self.state.bindings().filter(|b| stays(b));
        let clusters = picked.map(|binding| &binding.cluster).chain(self.state.others.awaited.keys());
        clusters.filter_map(|cluster| self.stage_of(frozen, cluster)).collect()
    }

    fn stage_of<'a>(&self, frozen: &'a Frozen, cluster: &ClusterName) -> Option<&'a str> {
        let labels = &self.fleet.clusters.get(cluster.as_str())?.labels;
        let stage = frozen.strategy.stages.iter().find(|stage| {
            let selector = stage.label_selector.as_ref();
            selector.is_some_and(|selector| selector.matches(labels))
        });
        stage.map(|stage| stage.name.as_str())
    }

    /// Returns what clusters run of a snapshot, by stage: its overrides, where snapshot and apply strategy are those of a run.
    fn running<'a>(&'a self, frozen: &'a Frozen) -> BTreeSet<(Option<&'a str>, &'a PickedOverrides)> {
        let bound = self.state.bindings().filter(|b| b.state == BindingState::Bound && !b.deleting);
        let same =
            bound.filter(|b| b.snapshot == Some(frozen.snapshot)).filter(|b| b.apply_strategy == frozen.apply_strategy);
        same.map(|binding| (self.stage_of(frozen, &binding.cluster), &binding.overrides)).collect()
    }

    /// Tells whether an approval covers what a cluster gets: its stage runs the same, or the gates before its stage were opened for it. Where
    /// an earlier stage has an approval now (`asks`) and that run had none before the cluster, no approval covers it.
    fn is_approved(
        &self,
        frozen: &Frozen,
        running: &BTreeSet<(Option<&str>, &PickedOverrides)>,
        stage: &StageRecord,
        cluster: &RunCluster,
        asks: bool,
    ) -> bool {
        if running.contains(&(self.stage_of(frozen, &cluster.name), &cluster.overrides)) {
            return true;
        }
        for run in self.state.runs.values().filter(|run| counts(run)) {
            let Some(known) = &run.frozen else { continue };
            if known.snapshot != frozen.snapshot || known.apply_strategy != frozen.apply_strategy {
                continue;
            }
            // A stage that was skipped, because its clusters had left, opened no gate.
            let mut opened = run.stages.iter().filter(|of| of.phase.is_reached() && of.phase != StagePhase::Skipped);
            let is_opened = opened.any(|of| was_opened_for(of, stage, cluster));
            if is_opened && (!asks || was_asked(run, &cluster.name)) {
                return true;
            }
        }
        false
    }

    /// Remembers the approvals of a run that goes, for clusters that have been in no run since. Also for those that left the placement or
    /// the fleet: one may come back with what it has and other labels.
    pub(super) fn remember_approvals(&mut self, name: &str) {
        let Some(run) = self.state.runs.get(name).filter(|run| counts(run)) else { return };
        let newer = self.state.runs.values().filter(|other| counts(other) && other.sequence > run.sequence);
        let clusters = newer.flat_map(|run| &run.stages).flat_map(|stage| &stage.clusters);
        let since: BTreeSet<&ClusterName> = clusters.map(|cluster| &cluster.name).collect();
        // Of clusters that were ever there: what is remembered grows no further than the records of them.
        let records = &self.fleet.records;
        let asked = asked(run).into_iter().map(|(name, asked)| (name, asked.approvals));
        let asked = asked.filter(|(name, count)| *count > 0 && records.contains_key(name) && !since.contains(name));
        let asked: Vec<_> = asked.collect();
        self.state.record.asked_before.extend(asked);
    }

    /// Pauses a placement that had stages with approvals and now rolls out automatically: a person has to resume it.
    pub(super) fn pause_without_stages(&mut self) {
        let from = self.state.record.runs_from;
        // Not the newest run alone: it may only wait.
        let was_asked = self.state.runs.values().any(|run| {
            let is_compared = counts(run) && run.sequence >= from;
            is_compared && asked(run).values().any(|asked| asked.approvals > 0)
        });
        let record = &mut self.state.record;
        let was_asked = was_asked || !record.asked_before.is_empty();
        // It pauses once: resuming it counts as consent.
        record.asked_before.clear();
        let reason = "it was rolled out by stages with approvals and is not any more; resume it where that is meant";
        let known = record.paused.as_ref().and_then(|pause| pause.reason.as_deref()).unwrap_or_default();
        if !was_asked || known.contains(reason) {
            return;
        }
        // A person who paused it before does not know it yet.
        record.paused = match record.paused.take() {
            Some(Pause { by, at, reason: None }) => Some(Pause { by, at, reason: Some(reason.to_owned()) }),
            Some(Pause { by, at, reason: Some(own) }) => {
                Some(Pause { by, at, reason: Some(format!("{own}; {reason}")) })
            }
            None => Some(Pause { by: ITSELF.to_owned(), at: self.now, reason: Some(reason.to_owned()) }),
        };
        self.note(JournalKind::ApprovalKept, None, json!({"paused": reason}));
    }

    /// Returns why a placement without stages may not roll out, if the configuration demands an approval for one of its
    /// clusters.
    pub(super) fn lacks_stages(&self) -> Option<String> {
        let mut picked = self.state.bindings().filter(|b| stays(b));
        let cluster = &picked.find(|binding| self.fleet.floor.asks_for(binding.cluster.as_str()))?.cluster;
        Some(format!(
            "the configuration (policy.clusters) wants an approval before {cluster}, and this placement is not rolled out by \
             stages; set strategy.type External and name a staged update strategy"
        ))
    }
}

impl PlacementState {
    /// Returns what stood before each cluster in the last run that was to move it.
    pub(super) fn protections(&self) -> BTreeMap<ClusterName, Protection> {
        let mut before: BTreeMap<ClusterName, Protection> = BTreeMap::new();
        let mut runs: Vec<&RunRecord> = self.runs.values().filter(|run| counts(run)).collect();
        runs.sort_by_key(|run| run.sequence);
        for run in runs {
            before.extend(asked(run));
        }
        // What another placement hands over may be protected by more than the last run asked.
        for (cluster, count) in &self.record.asked_before {
            let known = before.entry(cluster.clone()).or_default();
            known.approvals = known.approvals.max(*count);
        }
        before
    }
}

/// Tells whether later runs are compared with a run.
fn counts(run: &RunRecord) -> bool {
    run.frozen.is_some() && !is_rollback(run)
}

fn has_approval(tasks: &[TaskRecord]) -> bool {
    tasks.iter().any(|task| task.type_ == StageTaskType::Approval)
}

/// Tells whether an approval stood before a cluster of a run. A stage without clusters had no effective approval.
fn was_asked(run: &RunRecord, cluster: &ClusterName) -> bool {
    let mut stages = run.stages.iter();
    let at = stages.position(|stage| stage.clusters.iter().any(|known| known.name == *cluster));
    let Some(at) = at else { return false };
    let mut earlier = run.stages[..at].iter().filter(|stage| !stage.clusters.is_empty() || stage.while_empty.is_some());
    has_approval(&run.stages[at].before)
        || earlier.any(|stage| has_approval(&stage.before) || has_approval(&stage.after))
}

/// Tells whether the gates of a stage that a run reached were opened for what a cluster gets in a stage.
fn was_opened_for(reached: &StageRecord, stage: &StageRecord, cluster: &RunCluster) -> bool {
    let mut same = reached.clusters.iter().filter(|of| of.name == cluster.name && of.overrides == cluster.overrides);
    // The approval did not name a cluster that had left. In the same stage it is like a cluster that joins; in another it is not.
    same.any(|known| reached.name == stage.name || !left_before_its_turn(known))
}

fn left_before_its_turn(cluster: &RunCluster) -> bool {
    cluster.phase == ClusterPhase::Skipped && cluster.started_at.is_none()
}

/// Tells whether a stage has tasks or checks, and no clusters.
fn has_only_tasks(stage: &StageRecord) -> bool {
    let has_tasks = !stage.before.is_empty() || !stage.after.is_empty() || stage.checks.is_some();
    has_tasks && stage.clusters.is_empty()
}

/// Returns what protects each cluster of a run. A stage that no cluster belonged to protects nobody.
fn asked(run: &RunRecord) -> BTreeMap<ClusterName, Protection> {
    let mut protection = Protection::default();
    let mut asked = BTreeMap::new();
    let stages = run.stages.iter().filter(|stage| !stage.clusters.is_empty() || stage.while_empty.is_some());
    for stage in stages {
        protection.add(Protection::of(&stage.before));
        asked.extend(stage.clusters.iter().map(|cluster| (cluster.name.clone(), protection)));
        protection.add(Protection::of(&stage.after));
    }
    asked
}

/// Counts the approvals among tasks. Approvals that the configuration demands are added to every run anyway, and an approval
/// that the strategy no longer has is not asked again once given.
fn approvals(tasks: &[TaskRecord]) -> usize {
    let approvals = tasks.iter().filter(|task| task.type_ == StageTaskType::Approval);
    let counted = approvals.filter(|task| match task.wanted_by {
        WantedBy::Strategy => true,
        WantedBy::RunBefore => task.done_at.is_none(),
        WantedBy::Configuration => false,
    });
    counted.count()
}
