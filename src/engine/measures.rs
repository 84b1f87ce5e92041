//! Rollout metrics, updated at each change, so that no scrape has to visit all placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use decide::state::PlacementState;
use decide::status::rollout::RolloutState;
pub use decide::status::rollout::StateKind;
use decide::status::staged_run::{asks, closed_gates};
use model::api::staged::StageTaskType;
use model::id::{CommitId, PlacementKey};
use model::runs::{RunPhase, RunRecord, StagePhase, StageRecord, TaskRecord};

/// What a gate protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateKind {
    /// An approval before a stage's first cluster.
    BeforeStage,
    /// An approval after a stage.
    AfterStage,
    /// Time after a stage.
    Timer,
    /// The end of a stage: it waits until its checks hold.
    Checks,
    /// Deletions.
    Deletion,
}

/// A finished wait, with its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The snapshot of a commit succeeded on all clusters of a placement, this long after the commit was seen.
    Available(SignedDuration),
    /// A gate got enough approvals, this long after it closed.
    Approved(GateKind, SignedDuration),
}

/// The number of items of each kind.
type Tally<K> = BTreeMap<K, usize>;

/// The contribution of one placement.
#[derive(Clone, Debug, PartialEq)]
struct Counted {
    state: StateKind,
    gates: Vec<(GateKind, Timestamp)>,
    runs: Vec<RunPhase>,
}

/// Placements whose states are listed one by one, the first by name: each is a series in the metrics.
pub const PLACEMENTS_LISTED_MAX: usize = 500;

/// The state of placements at their last decisions, and the gates they wait at.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    counted: BTreeMap<PlacementKey, Counted>,
    states: Tally<StateKind>,
    gates: Tally<(GateKind, Timestamp)>,
    runs: Tally<RunPhase>,
    version: u64,
}

impl Measures {
    /// Returns a number that grows whenever what is counted changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the states of the first [`PLACEMENTS_LISTED_MAX`] placements.
    pub fn listed(&self) -> impl Iterator<Item = (&PlacementKey, StateKind)> {
        self.counted.iter().take(PLACEMENTS_LISTED_MAX).map(|(key, counted)| (key, counted.state))
    }

    /// Returns the number of placements in a state.
    pub fn placements(&self, state: StateKind) -> usize {
        self.states.get(&state).copied().unwrap_or_default()
    }

    /// Returns the number of closed gates of a kind, and since when the oldest is closed.
    pub fn gates(&self, kind: GateKind) -> (usize, Option<Timestamp>) {
        let mut of_kind = self.gates.range((kind, Timestamp::MIN)..=(kind, Timestamp::MAX)).peekable();
        let oldest = of_kind.peek().map(|((_, since), _)| *since);
        (of_kind.map(|(_, count)| count).sum(), oldest)
    }

    /// Returns how many recorded runs are in a phase.
    pub fn runs(&self, phase: RunPhase) -> usize {
        self.runs.get(&phase).copied().unwrap_or_default()
    }

    /// Replaces the counted state of a placement.
    pub(super) fn count(&mut self, state: &PlacementState, stands: &RolloutState) {
        let runs = || state.runs.values();
        let counted = Counted {
            state: stands.kind(),
            gates: runs()
                .filter(|run| asks(&state.record, run))
                .flat_map(gates_of)
                .chain(deletion_gate(state))
                .collect(),
            runs: runs().map(|run| run.phase).collect(),
        };
        if self.counted.get(&state.record.key) == Some(&counted) {
            return;
        }
        self.forget(&state.record.key);
        self.version += 1;
        *self.states.entry(counted.state).or_default() += 1;
        counted.gates.iter().for_each(|gate| *self.gates.entry(*gate).or_default() += 1);
        counted.runs.iter().for_each(|phase| *self.runs.entry(*phase).or_default() += 1);
        self.counted.insert(state.record.key.clone(), counted);
    }

    /// Removes a placement from the counts.
    pub(super) fn forget(&mut self, key: &PlacementKey) {
        let Some(counted) = self.counted.remove(key) else { return };
        self.version += 1;
        less(&mut self.states, &counted.state);
        counted.gates.iter().for_each(|gate| less(&mut self.gates, gate));
        counted.runs.iter().for_each(|phase| less(&mut self.runs, phase));
    }
}

fn less<K: Ord>(tally: &mut Tally<K>, key: &K) {
    if let Some(count) = tally.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            tally.remove(key);
        }
    }
}

fn kind(task: &TaskRecord, before: bool) -> GateKind {
    match (task.type_, before) {
        (StageTaskType::TimedWait, _) => GateKind::Timer,
        (StageTaskType::Approval, true) => GateKind::BeforeStage,
        (StageTaskType::Approval, false) => GateKind::AfterStage,
    }
}

/// Returns the closed gates of a run. Each waits since its stage waits: a request that expired is asked again, and that does
/// not shorten the wait.
fn gates_of(run: &RunRecord) -> impl Iterator<Item = (GateKind, Timestamp)> {
    let checks = run.waiting_checks().map(|(stage, _)| (GateKind::Checks, stage.since));
    closed_gates(run).into_iter().map(|gate| (kind(gate.task, gate.before), gate.stage.since)).chain(checks)
}

fn deletion_gate(state: &PlacementState) -> Option<(GateKind, Timestamp)> {
    state.record.closed_gate().map(|gate| (GateKind::Deletion, gate.since))
}

/// Returns the gates that people opened between two states of a placement, and how long each was closed.
fn approved(before: &PlacementState, after: &PlacementState) -> Vec<Measured> {
    let mut found = Vec::new();
    let opened = after.record.deletion_gate.as_ref().and_then(|gate| gate.opened_at.map(|at| (gate, at)));
    if let Some((gate, at)) = opened
        && before.record.closed_gate().is_some_and(|known| known.digest == gate.digest)
    {
        found.push(Measured::Approved(GateKind::Deletion, at.duration_since(gate.since)));
    }
    for (name, run) in after.runs.records() {
        let Some(known) = before.runs.records().get(name).filter(|known| !Arc::ptr_eq(known, run)) else { continue };
        let before = known.stages.iter().chain(&known.deletion);
        let after = run.stages.iter().chain(&run.deletion);
        found.extend(before.zip(after).flat_map(|(known, stage)| approved_of(known, stage)));
    }
    found
}

fn approved_of(known: &StageRecord, stage: &StageRecord) -> Vec<Measured> {
    let (before, known_tasks, tasks) = match known.phase {
        StagePhase::WaitingBefore => (true, &known.before, &stage.before),
        StagePhase::WaitingAfter => (false, &known.after, &stage.after),
        _ => return Vec::new(),
    };
    let pairs = known_tasks.iter().zip(tasks).filter(|(known, task)| {
        known.type_ == StageTaskType::Approval && task.type_ == known.type_ && known.done_at.is_none()
    });
    let took = pairs.filter_map(|(_, task)| Some((kind(task, before), task.done_at?.duration_since(known.since))));
    took.map(|(kind, time)| Measured::Approved(kind, time)).collect()
}

/// Returns the waits that ended between two states of a placement. `seen_at` says when commits were seen first.
pub(super) fn ended_waits(
    before: &PlacementState,
    after: &PlacementState,
    seen_at: &BTreeMap<CommitId, Timestamp>,
    now: Timestamp,
) -> Vec<Measured> {
    let mut ended = approved(before, after);
    let known = before.record.last_succeeded;
    let succeeded = after.record.last_succeeded;
    // A return to an earlier snapshot brings no commit.
    if known < succeeded
        && let Some(snapshot) = succeeded.and_then(|index| after.snapshots.get(&index))
    {
        let seen = seen_at.get(&snapshot.commit).copied().unwrap_or(snapshot.created_at);
        ended.push(Measured::Available(now.duration_since(seen)));
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_bounded_and_a_change_has_a_version() {
        let counted = Counted { state: StateKind::AtTarget, gates: Vec::new(), runs: Vec::new() };
        let key = |number| PlacementKey::cluster_scoped(format!("p{number:04}"));
        let all = (0..=PLACEMENTS_LISTED_MAX).map(|number| (key(number), counted.clone())).collect();
        let mut measures = Measures { counted: all, ..Measures::default() };
        let last = |measures: &Measures| measures.listed().last().map(|(key, _)| key.to_string());
        assert_eq!((measures.listed().count(), last(&measures).as_deref()), (PLACEMENTS_LISTED_MAX, Some("p0499")));
        let version = measures.version();
        measures.forget(&key(0));
        assert!(measures.version() > version);
        assert_eq!(last(&measures).as_deref(), Some("p0500"));
    }
}
