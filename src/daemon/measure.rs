//! Copies the core's numbers into metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use engine::measures::{GateKind as Gate, Measured, Measures, StateKind};
use engine::{Batch, Core, SourceEvent};
use model::id::{ClusterName, PlacementKey};
use model::records::{ClusterRecord, MemberKind, SourceRecord};
use model::runs::RunPhase;
use system::telemetry::metrics::{
    ByDecision, ByGate, ByMemberState, ByOutcome, ByPhase, ByPlacementState, ByPoll, Decision, GateKind, MemberState,
    Metrics, OfPlacement, Outcome, Phase, PlacementState, Poll,
};

/// Placements' states in the core, and their labels.
const STATES: [(StateKind, PlacementState); 6] = [
    (StateKind::AtTarget, PlacementState::AtTarget),
    (StateKind::Progressing, PlacementState::Progressing),
    (StateKind::WaitingForTime, PlacementState::WaitingForTime),
    (StateKind::WaitingForPerson, PlacementState::WaitingForPerson),
    (StateKind::Unreachable, PlacementState::Unreachable),
    (StateKind::Failed, PlacementState::Failed),
];

/// Runs' phases in the core, and their labels.
const PHASES: [(RunPhase, Phase); 12] = [
    (RunPhase::Pending, Phase::Pending),
    (RunPhase::Initialized, Phase::Initialized),
    (RunPhase::Updating, Phase::Updating),
    (RunPhase::Waiting, Phase::Waiting),
    (RunPhase::Halted, Phase::Halted),
    (RunPhase::Stopping, Phase::Stopping),
    (RunPhase::Stopped, Phase::Stopped),
    (RunPhase::Succeeded, Phase::Succeeded),
    (RunPhase::Failed, Phase::Failed),
    (RunPhase::Superseded, Phase::Superseded),
    (RunPhase::RolledBack, Phase::RolledBack),
    (RunPhase::Rejected, Phase::Rejected),
];

/// Gates' kinds in the core, and their labels.
const GATES: [(Gate, GateKind); 5] = [
    (Gate::BeforeStage, GateKind::BeforeStage),
    (Gate::AfterStage, GateKind::AfterStage),
    (Gate::Timer, GateKind::Timer),
    (Gate::Checks, GateKind::Checks),
    (Gate::Deletion, GateKind::Deletion),
];

/// The placements that the metrics list, with the states that they have there.
#[derive(Debug, Default)]
pub(super) struct ListedPlacements {
    /// The version of the numbers that they are of.
    version: u64,
    states: BTreeMap<PlacementKey, StateKind>,
}

impl ListedPlacements {
    /// Writes what is new since the last time.
    fn update(&mut self, metrics: &Metrics, measures: &Measures) {
        if measures.version() == self.version {
            return;
        }
        let states: BTreeMap<PlacementKey, StateKind> =
            measures.listed().map(|(key, state)| (key.clone(), state)).collect();
        for (key, state) in self.states.iter().filter(|(key, state)| states.get(key) != Some(state)) {
            metrics.placement_info.remove(&labels(key, *state));
        }
        for (key, state) in states.iter().filter(|(key, state)| self.states.get(key) != Some(state)) {
            metrics.placement_info.get_or_create(&labels(key, *state)).set(1);
        }
        *self = Self { version: measures.version(), states };
    }
}

fn labels(key: &PlacementKey, state: StateKind) -> OfPlacement {
    let [(_, first), ..] = STATES;
    let label = STATES.into_iter().find(|(kind, _)| *kind == state).map_or(first, |(_, label)| label);
    OfPlacement { placement: key.to_string(), state: label }
}

/// Sets the gauges from the core: a few numbers, however many placements there are, and those of `listed` that changed.
pub(super) fn set_gauges(metrics: &Metrics, core: &Core, listed: &mut ListedPlacements) {
    metrics.store_waits.set(i64::from(core.adoption_complaint().is_some()));
    metrics.queue_depth.set(count(core.queue_depth()));
    let measures = core.measures();
    for (kind, state) in STATES {
        metrics.placements.get_or_create(&ByPlacementState { state }).set(count(measures.placements(kind)));
    }
    listed.update(metrics, measures);
    for (kind, phase) in PHASES {
        metrics.runs.get_or_create(&ByPhase { phase }).set(count(measures.runs(kind)));
    }
    for (of, kind) in GATES {
        let (waiting, oldest) = measures.gates(of);
        let labels = ByGate { kind };
        metrics.gates.get_or_create(&labels).set(count(waiting));
        match oldest {
            Some(since) => drop(metrics.oldest_gate.get_or_create(&labels).set(since.as_second())),
            // A gauge of zero would mean a gate that waits since 1970.
            None => drop(metrics.oldest_gate.remove(&labels)),
        }
    }
    let SourceRecord { seen_at, accepted_at, .. } = core.source();
    metrics.commit_seen.set(seen_at.map_or(0, Timestamp::as_second));
    metrics.commit_accepted.set(accepted_at.map_or(0, Timestamp::as_second));
}

/// Counts the members by state, and says since when the first of those that are offline is.
pub(super) fn set_members(metrics: &Metrics, records: &BTreeMap<ClusterName, ClusterRecord>) {
    for &state in MemberState::ALL {
        metrics.members.get_or_create(&ByMemberState { state }).set(count(in_state(records, state).count()));
    }
    let oldest = in_state(records, MemberState::Offline).map(|record| record.since).min();
    metrics.oldest_offline.set(oldest.map_or(0, Timestamp::as_second));
}

fn in_state(
    records: &BTreeMap<ClusterName, ClusterRecord>,
    state: MemberState,
) -> impl Iterator<Item = &ClusterRecord> {
    records.values().filter(move |record| !record.left && state == member_state(record))
}

/// Counts a finished wait.
pub(super) fn observe(metrics: &Metrics, measured: Measured) {
    match measured {
        Measured::Available(time) => metrics.available_seconds.observe(seconds(time)),
        Measured::Approved(gate, time) => {
            for (_, kind) in GATES.into_iter().filter(|(of, _)| *of == gate) {
                metrics.approval_seconds.get_or_create(&ByGate { kind }).observe(seconds(time));
            }
        }
    }
}

/// Returns a duration in seconds. A clock change between two processes must not give a negative one.
fn seconds(time: SignedDuration) -> f64 {
    time.as_secs_f64().max(0.0)
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn member_state(record: &ClusterRecord) -> MemberState {
    match (record.kind, record.online) {
        (MemberKind::Unreachable, _) => MemberState::Unreachable,
        _ if record.is_suspended() => MemberState::Suspended,
        (_, true) => MemberState::Online,
        (_, false) => MemberState::Offline,
    }
}

/// Counts a poll of the source, if the event comes from one.
pub(super) fn count_poll(metrics: &Metrics, news: &SourceEvent) {
    let result = match news {
        SourceEvent::Of(_, news) => return count_poll(metrics, news),
        SourceEvent::Restored(_)
        | SourceEvent::Payload(..)
        | SourceEvent::HeldRead(..)
        | SourceEvent::Unwatched(_)
        | SourceEvent::Unkept(_)
        | SourceEvent::Seen(_)
        | SourceEvent::Follows(_) => return,
        SourceEvent::Accepted(_) => Poll::Accepted,
        SourceEvent::Unchanged | SourceEvent::Readable => Poll::Unchanged,
        SourceEvent::Refused(..) => Poll::Refused,
        SourceEvent::Rewritten(_) | SourceEvent::Switched(..) => Poll::Held,
        SourceEvent::Failed(_) => Poll::Error,
    };
    metrics.source_polls.get_or_create(&ByPoll { result }).inc();
}

/// Counts the decisions of a batch, and how long they took together.
pub(super) fn count_batch(metrics: &Metrics, core: &Core, batch: &Batch, took: Duration) {
    for (result, count) in [(Decision::Changed, batch.changed), (Decision::Unchanged, batch.unchanged)] {
        if count > 0 {
            metrics.decisions.get_or_create(&ByDecision { result }).inc_by(count);
        }
    }
    if batch.changed + batch.unchanged > 0 {
        metrics.pass_seconds.get_or_create(&ByOutcome { result: Outcome::Ok }).observe(took.as_secs_f64());
    }
    // Counting visits the records of all clusters, so it happens only if one of them changed.
    if batch.refreshed {
        set_members(metrics, &core.fleet().records);
    }
}

#[cfg(test)]
mod tests;
