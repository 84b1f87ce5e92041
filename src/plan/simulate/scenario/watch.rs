//! Observes placements during a scenario: compares records with their earlier state at each change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use self::held::{Assignments, is_available};
use super::Scenario;
use super::gates::{OpenGate, open_gates};
use decide::rollout;
use decide::state::{FleetState, PlacementState};
use decide::status::binding::settled_work;
use decide::status::work::counted;
use decide::strategies::Staged;
use model::api::annotations;
use model::api::annotations::PROGRESS_DEADLINE_DEFAULT;
use model::api::condition::ConditionStatus;
use model::api::placement::StrategyType;
use model::conditions::ConditionType;
use model::id::{ClusterName, Digest, PlacementKey};
use model::runs::{
    ClusterPhase, DELETION_GATE, DELETION_STAGE, RunCause, RunPhase, RunRecord, StageRecord, TaskRecord,
};
use model::tree::Tree;
use views::simulation::{EventKind, Offset, SimulatedCluster, SimulatedEvent, SimulatedGate};

mod checks;
mod held;

/// The last observed state of a run.
#[derive(Debug, Default)]
struct SeenRun {
    phase: Option<RunPhase>,
    begun: bool,
    refused: bool,
    stages: Vec<SeenStage>,
}

#[derive(Debug, Default)]
struct SeenStage {
    clusters: Vec<Option<ClusterPhase>>,
    /// For each task before and after: when it was requested and when it was done.
    tasks: Vec<(Option<Timestamp>, Option<Timestamp>)>,
    /// The same of its checks.
    checks: (Option<Timestamp>, Option<Timestamp>),
}

/// The last observed state of a binding.
#[derive(Debug, Default)]
struct SeenBinding {
    started_at: Option<Timestamp>,
    deleting: bool,
    /// Its unfinished or failed move.
    moves: Option<usize>,
}

/// The observations about one placement.
#[derive(Debug, Default)]
pub(super) struct Seen {
    runs: BTreeMap<String, SeenRun>,
    bindings: BTreeMap<String, SeenBinding>,
    held: Assignments,
    halted: bool,
    goal: Option<u64>,
    gate: Option<Digest>,
    open: BTreeSet<OpenGate>,
    /// Runs that had ended before the push.
    pub before: BTreeSet<String>,
    /// Runs at their end: their records may be dropped later.
    pub ended: BTreeMap<String, RunRecord>,
    /// When clusters were first deferred, by run.
    pub deferred: BTreeMap<(String, ClusterName), Offset>,
    pub moves: Vec<SimulatedCluster>,
    pub gates: Vec<SimulatedGate>,
    pub failed_at: Option<Offset>,
    pub touched: BTreeSet<ClusterName>,
    pub rolled_back: bool,
    pub max_unavailable: usize,
    pub changed_at: Option<Offset>,
}

/// All observations since the push.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Absent during the rollout of the base.
    pushed_at: Option<Timestamp>,
    /// Absent means every placement.
    chosen: Option<BTreeSet<PlacementKey>>,
    /// Strategies with their approvers, which the simulated trees no longer have.
    pub strategies: Staged,
    pub placements: BTreeMap<PlacementKey, Seen>,
    pub events: Vec<SimulatedEvent>,
    /// The first state of a record is no event: it existed before.
    is_silent: bool,
}

impl Watch {
    /// Starts with the push.
    pub(super) fn begin(
        now: Timestamp,
        scenario: &Scenario,
        before: Option<(&FleetState, &BTreeMap<PlacementKey, PlacementState>)>,
    ) -> Self {
        let chosen = Some(scenario.placements.clone()).filter(|chosen| !chosen.is_empty());
        let strategies = Staged::of(&scenario.head);
        let mut watch = Self { pushed_at: Some(now), chosen, strategies, is_silent: true, ..Self::default() };
        for (key, state) in before.into_iter().flat_map(|(fleet, all)| all.iter().map(move |(k, s)| (k, (fleet, s)))) {
            watch.look(key, state.0, Some(state.1), now);
            let Some(seen) = watch.placements.get_mut(key) else { continue };
            let ended = state.1.runs.values().filter(|run| run.phase.is_final());
            seen.before = ended.map(|run| run.name.clone()).collect();
            seen.ended.clear();
            // Gates that wait since before the push are not requested again.
            seen.max_unavailable = 0;
            seen.changed_at = None;
            seen.moves.clear();
            for binding in seen.bindings.values_mut() {
                binding.moves = None;
            }
        }
        for key in scenario.head.placements.keys().filter(|key| watch.is_chosen(key)).cloned().collect::<Vec<_>>() {
            watch.placements.entry(key).or_default();
        }
        watch.events.clear();
        watch.is_silent = false;
        watch
    }

    /// Includes the strategies of a later commit.
    pub(super) fn follow(&mut self, tree: &Tree) {
        self.strategies = Staged::of(tree);
        for key in tree.placements.keys().filter(|key| self.is_chosen(key)).cloned().collect::<Vec<_>>() {
            self.placements.entry(key).or_default();
        }
    }

    pub(super) fn is_watching(&self) -> bool {
        self.pushed_at.is_some()
    }

    pub(super) fn is_chosen(&self, key: &PlacementKey) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.contains(key))
    }

    /// Returns an instant as a time since the push.
    pub(super) fn offset(&self, at: Timestamp) -> Offset {
        let pushed_at = self.pushed_at.unwrap_or(at);
        Offset(i64::try_from(at.duration_since(pushed_at).as_millis()).unwrap_or(i64::MAX))
    }

    /// Records an event.
    pub(super) fn push(&mut self, now: Timestamp, event: SimulatedEvent) {
        if self.is_watching() && !self.is_silent {
            let at = self.offset(now);
            self.events.push(SimulatedEvent { at, ..event });
        }
    }

    /// Observes a placement whose records changed. Returns the gates that started to wait for a person.
    pub(super) fn look(
        &mut self,
        key: &PlacementKey,
        fleet: &FleetState,
        state: Option<&PlacementState>,
        now: Timestamp,
    ) -> Vec<OpenGate> {
        let is_shown = self.is_watching() && self.is_chosen(key);
        let mut seen = self.placements.remove(key).unwrap_or_default();
        let open: BTreeSet<OpenGate> = state.map(|state| open_gates(key, state)).into_iter().flatten().collect();
        let asked = open.difference(&seen.open).cloned().collect();
        seen.open = open;
        if is_shown {
            let mut look =
                Look { key, seen: &mut seen, at: self.offset(now), now, pushed_at: self.pushed_at, events: Vec::new() };
            look.at_all(fleet, state, &self.strategies);
            let events = look.events;
            if !events.is_empty() {
                seen.changed_at = Some(self.offset(now));
            }
            for event in events {
                self.push(now, event);
            }
        }
        self.placements.insert(key.clone(), seen);
        asked
    }
}

/// One observation of one placement.
struct Look<'a> {
    key: &'a PlacementKey,
    seen: &'a mut Seen,
    at: Offset,
    now: Timestamp,
    pushed_at: Option<Timestamp>,
    events: Vec<SimulatedEvent>,
}

impl Look<'_> {
    fn at_all(&mut self, fleet: &FleetState, state: Option<&PlacementState>, strategies: &Staged) {
        let Some(state) = state else {
            let names: Vec<String> = self.seen.bindings.keys().cloned().collect();
            for name in &names {
                self.binding_gone(name);
            }
            return;
        };
        let mut runs: Vec<&RunRecord> = state.runs.values().collect();
        runs.sort_by_key(|run| run.sequence);
        for run in runs {
            let approvers = strategies.strategy(&run.placement, &run.strategy).and_then(|s| s.approvers.clone());
            self.run(run, approvers.as_deref());
        }
        self.deletion_gate(state);
        self.bindings(state, fleet);
        let record = &state.record;
        if !self.seen.halted
            && let Some(why) = &record.halted
        {
            self.push(EventKind::Halted, None, None, None, format!("halted: {why}"));
            self.fail(state);
        }
        self.seen.halted = record.halted.is_some();
        if let Some(to) = record.goal
            && self.seen.goal.is_none()
        {
            self.push(EventKind::RollbackBegan, None, None, None, format!("returns to snapshot {to}"));
            self.seen.rolled_back = true;
            self.fail(state);
        }
        self.seen.goal = record.goal;
        // A tolerated failure is still a failure.
        if self.events.iter().any(|events| matches!(events.event, EventKind::ClusterFailed | EventKind::RollbackBegan))
        {
            self.fail(state);
        }
    }

    fn push(
        &mut self,
        event: EventKind,
        run: Option<&str>,
        stage: Option<&str>,
        cluster: Option<&ClusterName>,
        message: String,
    ) {
        self.events.push(SimulatedEvent {
            at: self.at,
            event,
            placement: Some(self.key.to_string()),
            run: run.map(str::to_owned),
            stage: stage.map(str::to_owned),
            cluster: cluster.cloned(),
            message,
        });
    }

    /// Records the clusters whose update had begun at the first failure.
    fn fail(&mut self, state: &PlacementState) {
        if self.seen.failed_at.is_some() {
            return;
        }
        self.seen.failed_at = Some(self.at);
        let touched = state.bindings.values().filter(|binding| binding.started_at >= self.pushed_at);
        self.seen.touched = touched.map(|binding| binding.cluster.clone()).collect();
    }

    fn run(&mut self, run: &RunRecord, approvers: Option<&str>) {
        let mut seen = self.seen.runs.remove(&run.name).unwrap_or_default();
        let name = run.name.as_str();
        if run.refused && !seen.refused {
            self.push(EventKind::RunRefused, Some(name), None, None, format!("cannot begin: {}", run.message));
        }
        seen.refused = run.refused;
        if run.frozen.is_some() && !seen.begun {
            seen.begun = true;
            self.run_began(run);
        }
        // Plus one: the deletion stage comes after the others.
        seen.stages.resize_with(run.stages.len() + 1, SeenStage::default);
        for (stage, seen) in run.stages.iter().chain(&run.deletion).zip(&mut seen.stages) {
            self.stage(run, stage, seen, approvers);
        }
        if seen.phase != Some(run.phase) && run.phase.is_final() {
            let message = if run.message.is_empty() { String::new() } else { format!(": {}", run.message) };
            self.push(EventKind::RunEnded, Some(name), None, None, format!("{}{message}", phase_name(run.phase)));
            self.seen.ended.insert(run.name.clone(), run.clone());
        }
        seen.phase = Some(run.phase);
        self.seen.runs.insert(run.name.clone(), seen);
    }

    fn run_began(&mut self, run: &RunRecord) {
        let name = run.name.as_str();
        let clusters = run.stages.iter().map(|stage| stage.clusters.len()).sum();
        let to = run.snapshot().map(|index| format!("snapshot {index} ")).unwrap_or_default();
        let message = format!(
            "{to}by {}, {} in {}",
            run.strategy,
            counted(clusters, "cluster"),
            counted(run.stages.len(), "stage")
        );
        if let RunCause::Rollback { of, .. } = &run.cause {
            self.seen.rolled_back = true;
            self.push(EventKind::RollbackBegan, Some(name), None, None, format!("takes {of} back: {message}"));
        } else {
            self.push(EventKind::RunBegan, Some(name), None, None, format!("begins: {message}"));
        }
    }

    fn stage(&mut self, run: &RunRecord, stage: &StageRecord, seen: &mut SeenStage, approvers: Option<&str>) {
        seen.tasks.resize(stage.before.len() + stage.after.len(), (None, None));
        let (before, after) = seen.tasks.split_at_mut(stage.before.len());
        for (task, seen) in stage.before.iter().zip(before) {
            self.task(run, stage, task, seen, "before its first cluster", approvers);
        }
        seen.clusters.resize(stage.clusters.len(), None);
        for (cluster, seen) in stage.clusters.iter().zip(&mut seen.clusters) {
            let before = seen.replace(cluster.phase).unwrap_or(ClusterPhase::Pending);
            if before == cluster.phase {
                continue;
            }
            if cluster.phase == ClusterPhase::Deferred {
                self.seen.deferred.entry((run.name.clone(), cluster.name.clone())).or_insert(self.at);
            }
            let is_removal = stage.name == DELETION_STAGE;
            let kind = match cluster.phase {
                // A turn after a failure is reported when the cluster starts.
                ClusterPhase::Pending => continue,
                ClusterPhase::Deferred => EventKind::ClusterDeferred,
                ClusterPhase::Updating if is_removal => EventKind::RemovalBegan,
                ClusterPhase::Updating => EventKind::ClusterBegan,
                ClusterPhase::Succeeded if is_removal => EventKind::ClusterRemoved,
                ClusterPhase::Succeeded => EventKind::ClusterSucceeded,
                ClusterPhase::Failed => EventKind::ClusterFailed,
                ClusterPhase::Skipped => EventKind::ClusterSkipped,
            };
            let says =
                matches!(kind, EventKind::ClusterFailed | EventKind::ClusterDeferred | EventKind::ClusterSkipped);
            let message = if says { cluster.message.clone() } else { String::new() };
            self.push(kind, Some(&run.name), Some(&stage.name), Some(&cluster.name), message);
        }
        for (task, seen) in stage.after.iter().zip(after) {
            self.task(run, stage, task, seen, "before the next stage", approvers);
        }
        self.checks(run, stage, &mut seen.checks);
    }

    fn task(
        &mut self,
        run: &RunRecord,
        stage: &StageRecord,
        task: &TaskRecord,
        seen: &mut (Option<Timestamp>, Option<Timestamp>),
        place: &str,
        approvers: Option<&str>,
    ) {
        let wait = task.wait.map(|wait| Offset::of(wait).text());
        if task.asked_at.is_some() && seen.0.is_none() {
            let message = if let Some(wait) = &wait {
                format!("waits {wait} {place}")
            } else {
                let who = approvers.map(|approvers| format!(" ({approvers})")).unwrap_or_default();
                format!("waits for a person{who} {place}")
            };
            self.push(EventKind::GateAsked, Some(&run.name), Some(&stage.name), None, message);
        }
        if task.done_at.is_some() && seen.1.is_none() {
            let message = match &wait {
                Some(wait) => format!("the wait of {wait} is over"),
                None => "approved".to_owned(),
            };
            self.push(EventKind::GateOpened, Some(&run.name), Some(&stage.name), None, message);
        }
        *seen = (task.asked_at, task.done_at);
    }

    fn bindings(&mut self, state: &PlacementState, fleet: &FleetState) {
        let new = self.seen.held.look(state);
        self.seen.max_unavailable = self.seen.max_unavailable.max(self.seen.held.unavailable(state, fleet));
        // A run reports its clusters itself.
        let is_staged = state.record.spec.strategy.type_ == StrategyType::External && !state.record.removed;
        if is_staged {
            return;
        }
        let gone: Vec<String> =
            self.seen.bindings.keys().filter(|name| !state.bindings.contains_key(*name)).cloned().collect();
        for name in &gone {
            self.binding_gone(name);
        }
        let deadline = annotations::progress_deadline(&state.record.annotations).unwrap_or(PROGRESS_DEADLINE_DEFAULT);
        for (name, binding) in &state.bindings {
            let mut seen = self.seen.bindings.remove(name).unwrap_or_default();
            if binding.deleting && !seen.deleting {
                let changes_hands = binding.removes.is_empty() && state.others.claimed.contains_key(&binding.cluster);
                let what = if changes_hands { "all of it changes hands, and nothing is deleted" } else { "" };
                self.begin(&mut seen, &binding.cluster, EventKind::RemovalBegan, what);
            } else if binding.started_at != seen.started_at
                && binding.started_at >= self.pushed_at
                && new.contains(name)
            {
                self.begin(&mut seen, &binding.cluster, EventKind::ClusterBegan, "");
            }
            seen.started_at = binding.started_at;
            seen.deleting = binding.deleting;
            if let Some(position) = seen.moves
                && !binding.deleting
            {
                let work = state.works.get(&binding.cluster);
                let settled = settled_work(binding, work.map(AsRef::as_ref));
                let conditions = &binding.conditions;
                let (failed, _) =
                    rollout::failed(conditions, binding.generation, settled, deadline, binding.started_at, self.now);
                if is_available(binding) {
                    self.end(position, ClusterPhase::Succeeded, EventKind::ClusterSucceeded, String::new());
                    seen.moves = None;
                } else if failed && self.seen.moves[position].outcome == ClusterPhase::Updating {
                    let refused = conditions.iter().find(|c| {
                        c.is(ConditionStatus::False, binding.generation) && c.type_ != ConditionType::Available
                    });
                    let message = match refused {
                        Some(condition) => condition.message.clone(),
                        None => format!("not available within {}", Offset::of(deadline).text()),
                    };
                    self.end(position, ClusterPhase::Failed, EventKind::ClusterFailed, message);
                }
            }
            self.seen.bindings.insert(name.clone(), seen);
        }
    }

    fn begin(&mut self, seen: &mut SeenBinding, cluster: &ClusterName, kind: EventKind, what: &str) {
        if let Some(open) = seen.moves.map(|position| &mut self.seen.moves[position])
            && open.outcome == ClusterPhase::Updating
        {
            open.outcome = ClusterPhase::Skipped;
            open.ended_at = Some(self.at);
        }
        seen.moves = Some(self.seen.moves.len());
        self.seen.moves.push(SimulatedCluster {
            name: cluster.clone(),
            deferred_at: None,
            started_at: Some(self.at),
            ended_at: None,
            outcome: ClusterPhase::Updating,
            message: String::new(),
        });
        self.push(kind, None, None, Some(cluster), what.to_owned());
    }

    fn end(&mut self, position: usize, outcome: ClusterPhase, kind: EventKind, message: String) {
        let moved = &mut self.seen.moves[position];
        moved.outcome = outcome;
        moved.ended_at = Some(self.at);
        moved.message.clone_from(&message);
        let cluster = moved.name.clone();
        self.push(kind, None, None, Some(&cluster), message);
    }

    fn binding_gone(&mut self, name: &str) {
        let Some(seen) = self.seen.bindings.remove(name) else { return };
        if let Some(position) = seen.moves {
            self.end(position, ClusterPhase::Succeeded, EventKind::ClusterRemoved, String::new());
        }
    }

    fn deletion_gate(&mut self, state: &PlacementState) {
        let Some(gate) = &state.record.deletion_gate else {
            self.seen.gate = None;
            return;
        };
        if self.seen.gate.as_ref() != Some(&gate.digest) {
            self.seen.gate = Some(gate.digest.clone());
            self.seen.gates.push(SimulatedGate::of_deletions(self.at));
            let message = format!("deletions wait for a person: {}", gate.reason);
            self.push(EventKind::GateAsked, None, Some(DELETION_GATE), None, message);
        }
        let at = self.at;
        if let Some(last) =
            self.seen.gates.last_mut().filter(|last| last.opened_at.is_none() && gate.opened_at.is_some())
        {
            last.opened_at = Some(at);
            last.waited = last.asked_at.map(|asked| at.since(asked));
            self.push(EventKind::GateOpened, None, Some(DELETION_GATE), None, "approved".to_owned());
        }
    }
}

fn phase_name(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Succeeded => "succeeded",
        RunPhase::Superseded => "superseded",
        RunPhase::RolledBack => "rolled back",
        RunPhase::Rejected => "rejected",
        _ => "failed",
    }
}
