//! Copies the core's numbers into metrics.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::core::Core;
use crate::core::measures::{GateKind as Gate, Measured, StateKind};
use crate::model::id::ClusterName;
use crate::model::records::{ClusterRecord, MemberKind, SourceRecord};
use crate::model::runs::RunPhase;
use crate::telemetry::metrics::{ByGate, ByMemberState, ByPhase, ByPlacementState, GateKind, MemberState};
use crate::telemetry::metrics::{Metrics, Phase, PlacementState};

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

/// Sets the gauges from the core: a few numbers, however many placements there are.
pub(super) fn set_gauges(metrics: &Metrics, core: &Core) {
    metrics.store_waits.set(i64::from(core.adoption_complaint().is_some()));
    metrics.queue_depth.set(count(core.queue_depth()));
    let measures = core.measures();
    for (kind, state) in STATES {
        metrics.placements.get_or_create(&ByPlacementState { state }).set(count(measures.placements(kind)));
    }
    for (kind, phase) in PHASES {
        metrics.runs.get_or_create(&ByPhase { phase }).set(count(measures.runs(kind)));
    }
    for (of, kind) in GATES {
        let ((waiting, oldest), labels) = (measures.gates(of), ByGate { kind });
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

/// Counts the members by state.
pub(super) fn set_members(metrics: &Metrics, records: &BTreeMap<ClusterName, ClusterRecord>) {
    for &state in MemberState::ALL {
        let of_state = records.values().filter(|record| !record.left && state == member_state(record));
        metrics.members.get_or_create(&ByMemberState { state }).set(count(of_state.count()));
    }
}

/// Counts a finished wait.
pub(super) fn observe(metrics: &Metrics, measured: Measured) {
    // A clock change between two processes must not give a negative duration.
    let seconds = |time: SignedDuration| time.as_secs_f64().max(0.0);
    match measured {
        Measured::Available(time) => metrics.available_seconds.observe(seconds(time)),
        Measured::Approved(gate, time) => {
            for (_, kind) in GATES.into_iter().filter(|(of, _)| *of == gate) {
                metrics.approval_seconds.get_or_create(&ByGate { kind }).observe(seconds(time));
            }
        }
    }
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
