//! Waits between two lives: what was measured goes on, whatever the clock of the machine was set to meanwhile. Pure.
//!
//! Records say since when something waits. A life that begins with another clock moves these instants by as much as the clock
//! was set, so that each wait has lasted as long as before. See docs/design/020.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::persist::{self, SavedRecords};
use crate::model::journal::JournalKind;
use crate::model::records::{Binding, ClockReading, ClusterRecord, JournalEntry, PlacementRecord, WorkStatus};
use crate::model::runs::{Approval, RunRecord, StageRecord};
use crate::store::records::{self, clock_key, cluster_key};
use crate::store::{Expected, Op, Result};

/// The smallest step of the clock that is taken for one: below it are roundings and a clock that is led slowly.
pub const STEP_MIN: SignedDuration = SignedDuration::from_secs(2);
/// The longest time between two lives that counts where the machine was started anew: nobody can tell then how much passed, and
/// how far the clock was set.
pub const DOWN_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Returns how far instants of the life before are to be moved: by as much as the clock was set since, and not by the time that
/// passed. Of a store that remembers no time instants that lie ahead are moved back to now.
pub fn correction(seen: Option<&ClockReading>, now: &ClockReading, newest: Option<Timestamp>) -> SignedDuration {
    let step = match seen {
        // The uptime tells how much has passed, whatever the clock was set to.
        Some(seen) if seen.boot.is_some() && seen.boot == now.boot => {
            let passed = SignedDuration::try_from(now.up.saturating_sub(seen.up)).unwrap_or(SignedDuration::MAX);
            now.at.duration_since(seen.at) - passed
        }
        // Nobody can tell how long the machine was off: what the clock shows is believed within bounds.
        Some(seen) => {
            let shown = now.at.duration_since(seen.at);
            shown - shown.clamp(SignedDuration::ZERO, DOWN_MAX)
        }
        None => newest.map_or(SignedDuration::ZERO, |newest| now.at.duration_since(newest).min(SignedDuration::ZERO)),
    };
    if step.abs() < STEP_MIN { SignedDuration::ZERO } else { step }
}

/// Returns the latest instant that something waits since.
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

/// Moves every instant that something is measured from. Returns what is to be written down; it belongs into one batch with the
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

/// Returns the write that remembers a reading.
///
/// # Errors
/// As [`shift`].
pub fn remember(reading: &ClockReading) -> Result<Op> {
    records::put(clock_key(), reading, Expected::Any)
}

/// Returns what the journal says of a clock that was set.
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
    for cluster in &mut stage.clusters {
        moved(&mut cluster.since, by);
        optional(&mut cluster.started_at, by);
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

/// Moves an instant. One that would leave what can be written stays.
fn moved(at: &mut Timestamp, by: SignedDuration) {
    *at = at.checked_add(by).unwrap_or(*at);
}

/// Returns how far a clock was set, for people.
pub fn words(step: SignedDuration) -> String {
    let way = if step.is_negative() { "back" } else { "ahead" };
    let seconds = Duration::from_secs(step.unsigned_abs().as_secs());
    format!("{:#} {way}", SignedDuration::try_from(seconds).unwrap_or(SignedDuration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("an instant")
    }

    fn reading(seconds: i64, boot: Option<&str>, up: u64) -> ClockReading {
        ClockReading { at: at(seconds), boot: boot.map(str::to_owned), up: Duration::from_secs(up) }
    }

    #[test]
    fn d15_a_clock_that_was_set_moves_what_was_measured_by_it() {
        const YEAR: i64 = 365 * 24 * 3600;
        let (a, b) = (Some("a"), Some("b"));
        let hour = 3600;
        // name, before, now, the newest record, how far records are moved in seconds
        let rows = [
            ("nothing known", None, reading(0, a, 5), None, 0),
            ("nothing known, records behind", None, reading(0, a, 5), Some(at(-9)), 0),
            ("nothing known, records a year ahead", None, reading(0, a, 5), Some(at(YEAR)), -YEAR),
            ("a restart", Some(reading(0, a, 5)), reading(60, a, 65), None, 0),
            ("a clock that is led slowly", Some(reading(0, a, 5)), reading(61, a, 65), None, 0),
            ("set back by a year", Some(reading(YEAR, a, 5)), reading(60, a, 65), None, -YEAR),
            ("set ahead by a year", Some(reading(0, a, 5)), reading(YEAR + 60, a, 65), None, YEAR),
            ("the machine slept", Some(reading(0, a, 5)), reading(9 * hour, a, 5 + 9 * 3600), None, 0),
            ("another start of the machine", Some(reading(0, a, 900)), reading(600, b, 5), None, 0),
            ("another start long after", Some(reading(0, a, 900)), reading(3 * hour, b, 5), None, 2 * hour),
            ("another start, set back", Some(reading(0, a, 900)), reading(-hour, b, 5), None, -hour),
            ("nobody can tell", Some(reading(0, None, 0)), reading(3 * hour, None, 0), None, 2 * hour),
        ];
        for (name, seen, now, newest, wanted) in rows {
            let found = correction(seen.as_ref(), &now, newest);
            assert_eq!(found, SignedDuration::from_secs(wanted), "{name}");
        }
    }

    #[test]
    fn a_step_is_said_in_words() {
        assert_eq!(words(SignedDuration::from_secs(-3661)), "1h 1m 1s back");
        assert_eq!(words(SignedDuration::from_secs(5)), "5s ahead");
    }
}
