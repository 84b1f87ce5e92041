//! Waits across restarts: elapsed time stays elapsed, whatever clock changes happen meanwhile. Pure.
//!
//! Records say since when something waits. A process that starts with a changed clock, or on another machine, shifts these instants
//! by the difference, so that each wait keeps its elapsed time. See docs/design/020.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::persist::{self, SavedRecords};
use crate::store::records;
use crate::store::records::{clock_key, cluster_key};
use crate::store::{Expected, Op, Result};
use model::journal::JournalKind;
use model::records::{Binding, ClockReading, ClusterRecord, JournalEntry, PlacementRecord, WorkStatus};
use model::runs::{Approval, ChecksRecord, RunRecord, StageRecord};

/// The smallest clock step that counts: smaller ones are rounding or gradual corrections.
pub const STEP_MIN: SignedDuration = SignedDuration::from_secs(2);
/// The longest downtime that counts after a reboot: nobody can tell how much time passed and how far the clock was set.
pub const DOWN_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Returns how far to shift the stored instants: by the clock step since then, without the elapsed time. If the store remembers
/// no clock reading, instants in the future are moved back to now.
///
/// Where the database's clock measures the elapsed time, no wait gets shorter by more than [`STEP_MIN`], whatever the machines' clocks
/// show, and none longer by more than that and what it took to ask the database for its time.
pub fn correction(seen: Option<&ClockReading>, now: &ClockReading, newest: Option<Timestamp>) -> SignedDuration {
    let step = match seen {
        // The uptime measures the elapsed time, whatever the clock says.
        Some(seen) if seen.boot.is_some() && seen.boot == now.boot => {
            let passed = SignedDuration::try_from(now.up.saturating_sub(seen.up)).unwrap_or(SignedDuration::MAX);
            now.at.duration_since(seen.at) - passed
        }
        Some(seen) => {
            let shown = now.at.duration_since(seen.at);
            let passed = match (seen.shared, now.shared) {
                // Both machines asked the same clock.
                (Some(then), Some(now)) => now.duration_since(then).max(SignedDuration::ZERO),
                // Nobody can tell how long the machine was off: the clock is trusted within bounds.
                _ => shown.clamp(SignedDuration::ZERO, DOWN_MAX),
            };
            shown - passed
        }
        None => newest.map_or(SignedDuration::ZERO, |newest| now.at.duration_since(newest).min(SignedDuration::ZERO)),
    };
    if step.abs() < STEP_MIN { SignedDuration::ZERO } else { step }
}

/// Returns the latest instant since which something waits.
pub fn newest(saved: &SavedRecords) -> Option<Timestamp> {
    let of_clusters = saved.clusters.values().map(|cluster| cluster.since);
    let of_placements = saved.placements.values().flat_map(|state| {
        let runs = state.runs.values().flat_map(|run| {
            let stages = run.stages.iter().chain(&run.deletion);
            let tasks = stages.clone().flat_map(|stage| stage.before.iter().chain(&stage.after));
            stages.map(|stage| stage.since).chain(tasks.filter_map(|task| task.asked_at))
        });
        let bindings = state.bindings().filter_map(|binding| binding.started_at);
        runs.chain(bindings).chain(state.record.paused.iter().map(|pause| pause.at))
    });
    of_clusters.chain(of_placements).max()
}

/// Moves every instant that something is measured from. Returns what is to be stored; it belongs into one batch with the
/// reading that it follows from.
///
/// # Errors
/// A record that cannot be written as JSON, or is too large.
pub fn shift(saved: &mut SavedRecords, by: SignedDuration) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    for state in saved.placements.values_mut() {
        let before = state.clone();
        shift_placement(&mut state.record, by);
        for binding in state.bindings.values_mut().map(Arc::make_mut) {
            shift_binding(binding, by);
        }
        for work in state.works.values_mut().filter(|work| work.available_since.is_some()) {
            let work: &mut WorkStatus = Arc::make_mut(work);
            optional(&mut work.available_since, by);
        }
        for run in state.runs.some_mut(|_| true) {
            shift_run(run, by);
        }
        ops.extend(persist::difference(Some(&before), Some(state))?);
    }
    for cluster in saved.clusters.values_mut() {
        shift_cluster(cluster, by);
        ops.push(records::put(cluster_key(&cluster.name), cluster, Expected::Any)?);
    }
    Ok(ops)
}

/// Returns the write that stores a clock reading.
///
/// # Errors
/// As [`shift`].
pub fn remember(reading: &ClockReading) -> Result<Op> {
    records::put(clock_key(), reading, Expected::Any)
}

/// Returns the journal entry about a clock change.
pub fn entry(at: Timestamp, by: &str, when: &str) -> JournalEntry {
    let facts = json!({"by": by, "when": when});
    JournalEntry { at, event: JournalKind::ClockCorrected, placement: None, cluster: None, facts }
}

/// Moves the instants of a run.
pub fn shift_run(run: &mut RunRecord, by: SignedDuration) {
    moved(&mut run.since, by);
    if let Some(frozen) = &mut run.frozen {
        moved(&mut frozen.at, by);
    }
    for stage in run.stages.iter_mut().chain(&mut run.deletion) {
        shift_stage(stage, by);
    }
}

fn shift_stage(stage: &mut StageRecord, by: SignedDuration) {
    moved(&mut stage.since, by);
    optional(&mut stage.started_at, by);
    optional(&mut stage.ended_at, by);
    for task in stage.before.iter_mut().chain(&mut stage.after) {
        optional(&mut task.asked_at, by);
        optional(&mut task.done_at, by);
        shift_approvals(&mut task.approvals, by);
    }
    if let Some(checks) = &mut stage.checks {
        shift_checks(checks, by);
    }
    for cluster in &mut stage.clusters {
        moved(&mut cluster.since, by);
        optional(&mut cluster.started_at, by);
    }
}

fn shift_checks(checks: &mut ChecksRecord, by: SignedDuration) {
    for at in [&mut checks.asked_at, &mut checks.done_at, &mut checks.healthy_since] {
        optional(at, by);
    }
    for state in checks.metrics.values_mut() {
        moved(&mut state.asked_since, by);
        for answer in state.answer.iter_mut().chain(&mut state.failed) {
            moved(&mut answer.at, by);
        }
    }
}

fn shift_placement(record: &mut PlacementRecord, by: SignedDuration) {
    if let Some(pause) = &mut record.paused {
        moved(&mut pause.at, by);
    }
    if let Some(held) = &mut record.held {
        moved(&mut held.since, by);
    }
    if let Some(gate) = &mut record.deletion_gate {
        moved(&mut gate.since, by);
        optional(&mut gate.opened_at, by);
        shift_approvals(&mut gate.approvals, by);
    }
}

fn shift_binding(binding: &mut Binding, by: SignedDuration) {
    optional(&mut binding.started_at, by);
    for condition in &mut binding.conditions {
        moved(&mut condition.last_transition_time, by);
    }
}

fn shift_cluster(cluster: &mut ClusterRecord, by: SignedDuration) {
    moved(&mut cluster.since, by);
    optional(&mut cluster.joined_at, by);
}

fn shift_approvals(approvals: &mut [Approval], by: SignedDuration) {
    for approval in approvals {
        moved(&mut approval.at, by);
    }
}

fn optional(at: &mut Option<Timestamp>, by: SignedDuration) {
    if let Some(at) = at {
        moved(at, by);
    }
}

/// Shifts an instant. One that would leave the valid range stays.
fn moved(at: &mut Timestamp, by: SignedDuration) {
    *at = at.checked_add(by).unwrap_or(*at);
}

/// Returns the size of a clock step, as text for users.
pub fn format_step(step: SignedDuration) -> String {
    let way = if step.is_negative() { "back" } else { "ahead" };
    let seconds = Duration::from_secs(step.unsigned_abs().as_secs());
    format!("{:#} {way}", SignedDuration::try_from(seconds).unwrap_or(SignedDuration::MAX))
}

#[cfg(test)]
mod tests;
