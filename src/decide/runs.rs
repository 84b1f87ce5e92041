//! The staged update runs of a placement: written ones, automatic ones, and what ends them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::Pass;
use super::follow_up::{is_follow_up, is_rollback};
use super::strategies::WrittenRun;
use super::unready::Unready;
use crate::rollout::staged::{failed_checks, phases::end_run};
use model::api::annotations::{ON_FAILURE, STAGED_UPDATE_STRATEGY, WHEN_SUPERSEDED};
use model::api::staged::RunState;
use model::journal::JournalKind;
use model::placement_phase::PhaseAct;
use model::runs::{ClusterPhase, RunCause, RunPhase, RunRecord, StagePhase};

/// Finished runs that are kept for a placement, beside those that git still has.
const FINISHED_RUNS_MAX: usize = 10;
/// Rounds of one decision: an ended run may let the next one start, which may end immediately. The next decision continues what
/// is left.
const ROUNDS_MAX: usize = 8;

impl Pass<'_> {
    /// Advances the runs of an External placement as far as possible. Returns when time alone changes the answer.
    pub(super) fn stage(&mut self) -> Option<Timestamp> {
        self.follow_written_runs();
        // Used if the rounds run out: decide again immediately.
        let mut wake_at = Some(self.now);
        for _ in 0..ROUNDS_MAX {
            let before = self.run_phases();
            self.note_ignored();
            self.begin_repaired_run();
            self.begin_return();
            self.begin_automatic_run();
            // Starts only if no run is left: the run of a new snapshot includes these clusters.
            self.begin_follow_up();
            self.freeze_next();
            self.settle_ended();
            let wakes = [self.advance_active(), self.catch_up()];
            self.roll_back_on_failure();
            if self.run_phases() == before {
                wake_at = wakes.into_iter().flatten().min();
                break;
            }
        }
        self.note_late_success();
        self.note_approvers();
        self.forget_old_runs();
        let halted = self.active_run().filter(|run| run.phase == RunPhase::Halted);
        self.state.record.halted = halted.map(|run| run.message.clone());
        wake_at
    }

    /// Refuses runs of a placement that rolls out without stages: active ones end, written ones are refused.
    pub(super) fn refuse_runs(&mut self) {
        let why = "the placement is of strategy RollingUpdate, which moves by itself; set strategy.type External";
        self.follow_written_runs();
        let newest = self.fail_runs(|run| run.frozen.is_some(), why);
        // Before the runs become history: the call reads the approvals of the last one.
        self.pause_without_stages();
        if let Some(newest) = newest {
            self.leave_behind(newest);
            // If stages return, the newest snapshot gets a run.
            self.state.record.last_automatic = None;
        }
        let next = self.newest_run().map_or(0, |run| run.sequence + 1).max(self.state.record.runs_from);
        let pending = self.state.runs.some_mut(|run| run.phase == RunPhase::Pending);
        for (sequence, run) in (next..).zip(pending) {
            // A run that has not started is no history.
            if run.sequence < self.state.record.runs_from {
                run.sequence = sequence;
            }
            run.refused = true;
            why.clone_into(&mut run.message);
        }
    }

    /// Ends the runs of snapshots before one, and marks them as history.
    pub(super) fn leave_older_runs_behind(&mut self, snapshot: u64, why: &str) {
        let newest = self.fail_runs(|run| run.snapshot().is_some_and(|index| index < snapshot), why);
        if let Some(newest) = newest {
            self.leave_behind(newest);
        }
    }

    /// Ends the unfinished ones of some runs. Returns the number of the newest of all of them.
    fn fail_runs(&mut self, are_meant: impl Fn(&RunRecord) -> bool, why: &str) -> Option<u64> {
        let meant = self.state.runs.values().filter(|run| are_meant(run));
        let newest = meant.map(|run| run.sequence).max();
        let unfinished = self.state.runs.values().filter(|run| are_meant(run) && !run.phase.is_final());
        for name in unfinished.map(|run| run.name.clone()).collect::<Vec<_>>() {
            self.end_run(&name, RunPhase::Failed, why);
        }
        newest
    }

    /// Marks the runs up to a sequence as history: clusters have left their snapshots and must not return to them.
    pub(super) fn leave_behind(&mut self, sequence: u64) {
        let record = &mut self.state.record;
        record.runs_from = record.runs_from.max(sequence + 1);
    }

    /// Copies the approvers from the accepted commit.
    fn note_approvers(&mut self) {
        let fleet = self.fleet;
        let key = self.state.record.key.clone();
        let said = |run: &RunRecord| Some(fleet.staged.strategy(&key, &run.strategy)?.approvers.clone());
        let differing = self.state.runs.some_mut(|run| {
            let is_open = !run.phase.is_final();
            is_open && said(run).is_some_and(|said| said != run.approvers)
        });
        for run in differing {
            run.approvers = said(run).flatten();
        }
    }

    fn run_phases(&self) -> Vec<(String, RunPhase)> {
        self.state.runs.values().map(|run| (run.name.clone(), run.phase)).collect()
    }

    /// Returns the active run: frozen and not finished. There is at most one.
    pub fn active_run(&self) -> Option<&RunRecord> {
        self.state.runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final())
    }

    fn newest_run(&self) -> Option<&RunRecord> {
        self.state.runs.values().max_by_key(|run| run.sequence)
    }

    /// Returns the run that determines the clusters' snapshots while none is active.
    pub fn last_run(&self) -> Option<&RunRecord> {
        self.newest_run().filter(|run| run.sequence >= self.state.record.runs_from)
    }

    pub(super) fn end_run(&mut self, name: &str, phase: RunPhase, message: &str) {
        let Some(run) = self.state.runs.get_mut(name) else { return };
        end_run(run, phase, message, self.now);
        self.note(JournalKind::RunEnded, None, json!({"run": name, "phase": phase, "message": message}));
    }

    /// Follows the written runs of this placement. Removing a document removes its run, as in KubeFleet; clusters stay as they
    /// are. A document that names another snapshot or strategy is another run.
    fn follow_written_runs(&mut self) {
        let key = self.state.record.key.clone();
        let written: BTreeMap<&String, &WrittenRun> = self.fleet.staged.runs(&key).collect();
        let gone = self.state.runs.values().filter(|run| is_written(run) && !written.contains_key(&run.name));
        let gone: Vec<String> = gone.map(|run| run.name.clone()).collect();
        for name in gone {
            self.remember_approvals(&name);
            if let Some(run) = self.state.runs.remove(&name)
                && run.frozen.is_some()
            {
                self.leave_behind(run.sequence);
                // No other run delivers its snapshot; if a person rejected it, the rejection stays.
                if self.last_run().is_none() && run.phase != RunPhase::Rejected {
                    self.state.record.last_automatic = None;
                }
            }
            self.note(JournalKind::RunRemoved, None, json!({"run": name}));
        }
        for (name, document) in written {
            let cause = RunCause::Written { origin: document.origin.clone() };
            let wanted = wanted_snapshot(document);
            let strategy = &document.spec.staged_rollout_strategy_name;
            match self.state.runs.get_mut(name) {
                Some(run) if run.strategy == *strategy && run.wanted_snapshot == wanted => {
                    // A document that moved to another file is still the same run.
                    run.cause = cause;
                    if run.state != document.spec.state {
                        run.state = document.spec.state;
                        run.generation += 1;
                    }
                }
                // An active automatic run has the name and keeps it.
                Some(run) if !run.phase.is_final() && !is_written(run) => {}
                known => {
                    if let Some(moved) = known.filter(|run| run.frozen.is_some()).map(|run| run.sequence) {
                        self.leave_behind(moved);
                    }
                    self.begin_run(name.clone(), cause, strategy.clone(), wanted, document.spec.state);
                }
            }
        }
    }

    pub(super) fn begin_run(
        &mut self,
        name: String,
        cause: RunCause,
        strategy: String,
        wanted_snapshot: Option<u64>,
        state: Option<RunState>,
    ) {
        let sequence = self.newest_run().map_or(0, |run| run.sequence + 1).max(self.state.record.runs_from);
        // A run that begins again under its name takes the place of what is known of it.
        self.remember_approvals(&name);
        let facts = json!({"run": name, "strategy": strategy, "snapshot": wanted_snapshot});
        self.note(JournalKind::RunCreated, None, facts);
        let run = RunRecord {
            name,
            placement: self.state.record.key.clone(),
            cause,
            strategy,
            wanted_snapshot,
            approvers: None,
            approvers_before: None,
            state,
            generation: 1,
            created_at: self.now,
            sequence,
            phase: RunPhase::Pending,
            since: self.now,
            message: String::new(),
            refused: false,
            without_clusters: false,
            frozen: None,
            stages: Vec::new(),
            deletion: None,
        };
        self.state.runs.insert(run);
    }

    /// Restarts the written run whose snapshot is held, where no other waits to bring it. Returns the name of the one that brings it, if there
    /// is one.
    pub fn begin_written_again(&mut self, index: u64) -> Option<String> {
        let waiting = self.state.runs.values().find(|run| {
            let has_begun = run.frozen.is_some() || run.phase.is_final();
            !has_begun && run.wanted_snapshot.is_none()
        });
        if let Some(waiting) = waiting {
            return Some(waiting.name.clone());
        }
        let ended = self.state.runs.values().filter(|run| is_written(run) && run.phase.is_final());
        let bringing = ended.filter(|run| run.snapshot() == Some(index));
        let ended = bringing.max_by_key(|run| run.sequence)?.clone();
        self.leave_behind(ended.sequence);
        self.begin_run(ended.name.clone(), ended.cause, ended.strategy, ended.wanted_snapshot, ended.state);
        Some(ended.name)
    }

    /// Returns `name`, or the first of `name-2`, `name-3` and so on that no run in the placement's scope has, also none that git writes.
    pub(super) fn free_name(&self, name: &str) -> String {
        let key = &self.state.record.key;
        let mut numbered = (2..).map(|number| format!("{name}-{number}"));
        let is_free = |name: &String| {
            let is_used = self.state.runs.contains_key(name) || self.fleet.names.has_run_beside(key, name);
            !is_used && !self.fleet.staged.writes_beside(key, name)
        };
        Some(name.to_owned()).filter(is_free).or_else(|| numbered.find(is_free)).expect("numbers do not end")
    }

    /// Starts a run for each new snapshot of a placement that names a strategy, unless the snapshot was rolled back or
    /// rejected.
    fn begin_automatic_run(&mut self) {
        let Some(strategy) = self.state.record.annotations.get(STAGED_UPDATE_STRATEGY).cloned() else { return };
        let other = self.state.runs.some_mut(|run| {
            let is_to_follow = is_waiting_automatic(run) && run.frozen.is_none();
            is_to_follow && run.strategy != strategy
        });
        for run in other {
            run.strategy.clone_from(&strategy);
        }
        let Some((index, hash)) = self.state.newest().map(|newest| (newest.index, newest.hash.clone())) else { return };
        let record = &self.state.record;
        let is_held = record.held.as_ref().is_some_and(|held| held.hash == hash);
        if is_held || !record.permits(PhaseAct::BeginRuns) || record.last_automatic.is_some_and(|last| last >= index) {
            return;
        }
        // A cluster that joins later needs a run to follow: without one the run starts now.
        if self.last_run().is_none() && self.is_right_everywhere(index) {
            return;
        }
        self.state.record.last_automatic = Some(index);
        let name = self.free_name(&format!("{}-{index}", self.state.record.key.name));
        // Of several waiting runs only the newest is kept.
        let waiting = self.state.runs.values().filter(|run| is_waiting_automatic(run));
        self.supersede(waiting.map(|run| run.name.clone()).collect(), &name);
        self.begin_run(name, RunCause::Snapshot, strategy, Some(index), None);
    }

    /// Tells whether a run ends in favour of another: before its next cluster, and never if a person wrote it. A waiting older
    /// run, or one that cannot continue, does; not a rollback for what was queued before it, since clusters may be away for a moment.
    /// Otherwise only the run of a snapshot replaces it, unless the placement says `Queue`.
    fn gives_way(&self, run: &RunRecord, to: &RunRecord) -> bool {
        let is_repaired = run.phase == RunPhase::Halted
            && is_follow_up(to)
            && run.snapshot() == to.snapshot()
            && run.sequence < to.sequence;
        // A rollback does not wait for the run of clusters that joined.
        let is_urgent = is_rollback(to) && is_follow_up(run);
        let may_take = is_written(to) || to.cause == RunCause::Snapshot || is_repaired || is_urgent;
        if run.phase.is_final() || run.name == to.name || is_written(run) || !may_take {
            return false;
        }
        let queues = self.state.record.annotations.get(WHEN_SUPERSEDED).is_some_and(|value| value == "Queue");
        // A run that was queued before the rollback starts after it. One that cannot begin would take it back later.
        let waited_before = is_rollback(run) && !run.refused && to.created_at < run.created_at;
        let is_replaced = !queues && !is_written(to) && run.snapshot() != to.snapshot() && !waited_before;
        // A rollback that has its clusters goes first, though none has begun.
        let is_waiting =
            run.phase == RunPhase::Pending && !(run.frozen.is_some() && is_rollback(run)) && !waited_before;
        let is_stuck = run.phase == RunPhase::Halted || waits_for_absent(run) && !waited_before;
        is_stuck || is_urgent || (run.sequence < to.sequence && (is_replaced || is_waiting))
    }

    /// Returns the rollback that was requested while a run was queued, and that has not started, because its payload is not read yet.
    fn rollback_ahead(&self, run: &RunRecord) -> Option<&RunRecord> {
        let mut waiting = self.state.runs.values().filter(|other| other.phase == RunPhase::Pending && !other.refused);
        waiting.find(|other| is_rollback(other) && run.created_at < other.created_at)
    }

    fn supersede(&mut self, runs: Vec<String>, by: &str) {
        for run in runs {
            self.state.record.superseded += 1;
            self.end_run(&run, RunPhase::Superseded, &format!("the run {by} takes its place"));
        }
    }

    /// Starts pending runs that can start, if none is active or the active one gives way. The active one ends only at that
    /// moment, so a run that cannot start stops nobody. Rollbacks come first.
    fn freeze_next(&mut self) {
        let pending = self.state.runs.values().filter(|run| run.phase == RunPhase::Pending && run.frozen.is_none());
        let mut pending: Vec<(bool, u64, String)> =
            pending.map(|run| (!is_rollback(run), run.sequence, run.name.clone())).collect();
        pending.sort();
        for (_, _, name) in pending {
            let known = self.state.runs.get(&name).filter(|run| run.phase == RunPhase::Pending);
            let Some(mut run) = known.cloned() else { continue };
            if self.brings_held(&run) {
                // It was queued behind the run that was rolled back.
                self.end_run(&name, RunPhase::Superseded, "its snapshot is held");
                continue;
            }
            run.without_clusters = false;
            let active = self.active_run().filter(|other| !self.gives_way(other, &run));
            let outcome = match active.or_else(|| self.rollback_ahead(&run)) {
                Some(other) => Err(Unready::Waits(format!("waits until the run {} is finished", other.name))),
                None => self.freeze(&mut run),
            };
            let is_refused = matches!(outcome, Err(Unready::Refused(_)));
            let message = match outcome {
                Ok(()) => {
                    let others = self.state.runs.values().filter(|other| self.gives_way(other, &run));
                    self.supersede(others.map(|other| other.name.clone()).collect(), &name);
                    let facts = json!({"run": name, "snapshot": run.snapshot()});
                    self.note(JournalKind::RunStarted, None, facts);
                    self.renumber(&mut run);
                    String::new()
                }
                Err(Unready::Waits(why)) => why,
                Err(Unready::WithoutClusters) => {
                    run.without_clusters = true;
                    "waits until a cluster is picked".to_owned()
                }
                Err(Unready::Refused(why)) => {
                    // Each decision tries again: the journal gets each reason once.
                    if !run.refused || run.message != why {
                        self.note(JournalKind::RunRefused, None, json!({"run": name, "message": why}));
                    }
                    why
                }
            };
            run.refused = is_refused;
            run.message = message;
            self.state.runs.insert(run);
        }
    }

    fn roll_back_on_failure(&mut self) {
        let is_wished = self.state.record.annotations.get(ON_FAILURE).is_some_and(|value| value == "Rollback");
        // A failed rollback halts for a person: its target has just failed.
        let halted = self.active_run().filter(|run| run.phase == RunPhase::Halted);
        let Some(run) = halted.filter(|run| is_wished && !is_rollback(run)) else { return };
        let name = run.name.clone();
        let snapshot = run.snapshot();
        // The same content would be held and rolled out again immediately. What a person rolled back does not come back by itself.
        let bad = snapshot.into_iter().chain(self.state.record.held.as_ref().map(|held| held.index));
        let to = self.state.record.last_succeeded.filter(|to| !bad.clone().any(|bad| self.are_alike(bad, *to)));
        if let Some(to) = to.filter(|to| self.state.snapshots.contains_key(to)) {
            self.begin_rollback(&name, to, None);
        }
    }

    /// Ends a run and starts a rollback of its clusters to an earlier snapshot; its snapshot is held.
    pub fn begin_rollback(&mut self, of: &str, to: u64, by: Option<String>) -> String {
        let Some(bad) = self.state.runs.get(of) else { return String::new() };
        let strategy = bad.strategy.clone();
        let snapshot = bad.snapshot();
        let is_over = bad.phase.is_final();
        let why = match &by {
            Some(by) => format!("{by} rolled back"),
            None => failed_checks(bad).unwrap_or_else(|| "more clusters failed than may".to_owned()),
        };
        if !is_over {
            self.end_run(of, RunPhase::RolledBack, &format!("{why}; its clusters return to snapshot {to}"));
        }
        if let Some(index) = snapshot {
            self.hold_for(index, to, &why);
        }
        self.note_rollback(snapshot, to, &why);
        let name = self.free_name(&format!("{of}-rollback"));
        self.begin_run(name.clone(), RunCause::Rollback { of: of.to_owned(), by }, strategy, Some(to), None);
        if let Some(sequence) = self.state.runs.get(&name).map(|run| run.sequence) {
            self.line_up_after(&name, sequence);
        }
        name
    }

    /// Starts the run that returns clusters to what they have instead of what is held, where no run of the placement does: it had another
    /// name, no stages, or another store.
    fn begin_return(&mut self) {
        let record = &self.state.record;
        let Some(strategy) = record.annotations.get(STAGED_UPDATE_STRATEGY).cloned() else {
            // Without the annotation, only written runs move the placement.
            self.state.record.goal = None;
            return;
        };
        if !record.permits(PhaseAct::BeginRuns) {
            return;
        }
        let Some(to) = record.goal else { return };
        let newest = self.state.newest().map_or(to, |newest| newest.index);
        self.state.record.goal = None;
        let of = format!("snapshot {newest}");
        let name = self.free_name(&format!("{}-{newest}-rollback", self.state.record.key.name));
        self.begin_run(name, RunCause::Rollback { of, by: None }, strategy, Some(to), None);
    }

    /// Gives a run that starts after later-created runs a number after theirs: the newest number determines the clusters'
    /// snapshots.
    fn renumber(&mut self, run: &mut RunRecord) {
        let newest = self.state.runs.values().filter(|other| other.frozen.is_some()).map(|other| other.sequence).max();
        if newest.is_some_and(|newest| newest > run.sequence) {
            run.sequence = self.newest_run().map_or(0, |newest| newest.sequence + 1);
            self.line_up_after(&run.name, run.sequence);
        }
    }

    /// Moves waiting runs after one that goes first: their snapshots are newer, and stay.
    fn line_up_after(&mut self, first: &str, sequence: u64) {
        let waiting = self.state.runs.values().filter(|run| run.frozen.is_none() && !run.phase.is_final());
        let others = waiting.filter(|run| run.name != first);
        let mut waiting: Vec<(u64, String)> = others.map(|run| (run.sequence, run.name.clone())).collect();
        waiting.sort();
        for (sequence, (_, name)) in (sequence + 1..).zip(waiting) {
            if let Some(run) = self.state.runs.get_mut(&name) {
                run.sequence = sequence;
            }
        }
    }

    fn forget_old_runs(&mut self) {
        // Written runs stay as long as their documents: a forgotten one would start again.
        let finished = self.state.runs.values().filter(|run| run.phase.is_final() && !is_written(run));
        let mut finished: Vec<(u64, String)> = finished.map(|run| (run.sequence, run.name.clone())).collect();
        finished.sort();
        let surplus = finished.len().saturating_sub(FINISHED_RUNS_MAX);
        for (_, name) in finished.into_iter().take(surplus) {
            self.remember_approvals(&name);
            self.state.runs.remove(&name);
        }
    }
}

fn is_written(run: &RunRecord) -> bool {
    matches!(run.cause, RunCause::Written { .. })
}

/// Tells whether a run of a new snapshot has not updated any cluster yet.
fn is_waiting_automatic(run: &RunRecord) -> bool {
    run.cause == RunCause::Snapshot && run.phase == RunPhase::Pending
}

/// Tells whether an older run waits only for offline clusters, possibly forever.
fn waits_for_absent(run: &RunRecord) -> bool {
    use ClusterPhase::{Deferred, Skipped, Succeeded};
    let stage = run.stages.iter().find(|stage| !stage.phase.is_done());
    let waits = stage.is_some_and(|stage| {
        let is_over = stage.clusters.iter().all(|c| matches!(c.phase, Deferred | Succeeded | Skipped));
        stage.phase == StagePhase::Updating && is_over
    });
    waits && (is_follow_up(run) || is_rollback(run))
}

fn wanted_snapshot(document: &WrittenRun) -> Option<u64> {
    document.spec.resource_snapshot_index.as_ref().and_then(|index| index.parse().ok())
}
