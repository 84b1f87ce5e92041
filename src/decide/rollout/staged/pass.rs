//! One pass over a run: the steps of [`advance`](super::advance) and [`catch_up`](super::catch_up).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use model::api::staged::StageTaskType;
use model::journal::JournalKind;
use model::runs::{
    ChecksRecord, ClusterPhase, Gate, RunCluster, RunPhase, RunRecord, STUCK_AFTER, StagePhase, StageRecord,
    request_name,
};

use super::checks;
use super::gates::{evaluate, expires_at};
use super::machine::{Note, Seen, Situation, Step};
use super::messages;
use super::phases::{enter_cluster, enter_run, enter_stage};

/// Why a run can go no further at this instant.
pub(super) enum Place {
    /// Clusters must finish, or a stage must start.
    Moving(String),
    /// A gate is closed.
    Gate(String),
    /// All stages are done.
    Done,
}

/// A pass at one instant.
pub(super) struct Pass<'a> {
    /// The inputs of the run.
    pub situation: &'a Situation<'a>,
    /// The instant.
    pub now: Timestamp,
    /// The final phase of a run that has ended.
    pub ended: Option<RunPhase>,
    /// The resulting actions and events.
    pub step: Step,
}

impl<'a> Pass<'a> {
    fn seen(&self, cluster: &RunCluster) -> Option<&'a Seen> {
        self.situation.clusters.get(&cluster.name).filter(|seen| seen.in_fleet)
    }

    fn note(&mut self, event: JournalKind, stage: &str, message: impl Into<String>) {
        self.step.notes.push(Note { event, stage: Some(stage.to_owned()), cluster: None, message: message.into() });
    }

    /// Sets the phase of the run.
    pub(super) fn enter(&mut self, run: &mut RunRecord, phase: RunPhase, message: String) {
        if enter_run(run, phase, message, self.now) {
            let message = format!("{phase:?}: {}", run.message);
            self.step.notes.push(Note { event: JournalKind::RunMoved, stage: None, cluster: None, message });
        }
    }

    fn enter_cluster(&mut self, stage: &str, cluster: &mut RunCluster, phase: ClusterPhase, message: &str) {
        let event = match phase {
            ClusterPhase::Pending => JournalKind::ClusterRetried,
            ClusterPhase::Deferred => JournalKind::ClusterDeferred,
            ClusterPhase::Updating => JournalKind::ClusterStarted,
            ClusterPhase::Succeeded => JournalKind::ClusterSucceeded,
            ClusterPhase::Failed => JournalKind::ClusterFailed,
            ClusterPhase::Skipped => JournalKind::ClusterSkipped,
        };
        enter_cluster(cluster, phase, message, self.now);
        let stage = Some(stage.to_owned());
        let cluster = Some(cluster.name.clone());
        self.step.notes.push(Note { event, stage, cluster, message: message.to_owned() });
    }

    /// Records the observed state of a stage's clusters that move, failed, or left. Moving clusters with a lost binding must be
    /// restarted, once their removal is done: it may wait for a person, and no deadline counts until then.
    pub(super) fn settle(&mut self, stage: &mut StageRecord) {
        // A run that was rolled back, rejected or failed updates no cluster any more.
        let restarts = matches!(self.ended, None | Some(RunPhase::Succeeded | RunPhase::Superseded));
        for cluster in stage.clusters.iter_mut().filter(|cluster| is_unfinished(cluster)) {
            let seen = self.seen(cluster);
            if let Some((phase, message)) = self.settled(cluster.phase, seen) {
                self.enter_cluster(&stage.name, cluster, phase, message);
            } else if cluster.phase == ClusterPhase::Updating && restarts && seen.is_some_and(Seen::is_lost) {
                self.step.start.push(cluster.name.clone());
            }
        }
    }

    /// Returns the phase that follows from the observed state of a cluster of an update stage, and why.
    fn settled(&self, phase: ClusterPhase, seen: Option<&'a Seen>) -> Option<(ClusterPhase, &'a str)> {
        use ClusterPhase::{Deferred, Failed, Pending, Skipped, Succeeded, Updating};
        // Clusters that an ended run has not started stay so, so that the record shows its progress.
        let is_over = phase == Pending && self.ended.is_some_and(|ended| ended != RunPhase::Succeeded);
        if is_over || matches!(phase, Succeeded | Skipped) {
            return None;
        }
        let Some(seen) = seen.filter(|seen| seen.picked) else {
            // A failure outlives its cluster: what it failed with is as bad for the others.
            if phase == Failed {
                return None;
            }
            let why = if seen.is_some() { "the placement does not pick it any more" } else { "it left the fleet" };
            return Some((Skipped, why));
        };
        match phase {
            Updating | Failed if seen.is_ready() => Some((Succeeded, "")),
            Updating if seen.has_failed() => Some((Failed, &seen.failure)),
            // The newest run that has reached a cluster answers for it: two runs must never write it.
            Updating | Deferred | Pending if seen.taken && self.ended.is_some() => Some((Skipped, messages::TAKEN)),
            _ => None,
        }
    }

    /// Records the observed state of the clusters to remove. One that becomes unreachable was told to remove its objects, and
    /// does so when it returns: nothing waits for it. Nor for what other placements are to take over or need: that may be there for good,
    /// and all that comes after the run would wait as long.
    pub(super) fn settle_removals(&mut self, stage: &mut StageRecord) {
        use ClusterPhase::{Deferred, Failed, Pending, Skipped, Succeeded, Updating};
        for cluster in &mut stage.clusters {
            let to = match self.seen(cluster) {
                _ if matches!(cluster.phase, Succeeded | Skipped | Failed) => continue,
                // What the placement wants again must stay.
                Some(seen) if seen.picked => (Skipped, "the placement picks it again"),
                Some(seen) if seen.removed && cluster.phase == Updating => (Succeeded, ""),
                // The newest run that has reached a cluster answers for it.
                Some(seen) if seen.taken && self.ended.is_some() && cluster.phase != Pending => {
                    (Skipped, messages::TAKEN)
                }
                Some(seen) if seen.kept && cluster.phase == Updating => (Skipped, messages::KEPT),
                Some(seen) if !seen.online && cluster.phase == Updating => (Deferred, messages::DEFERRED),
                Some(_) => continue,
                None => (Skipped, "it left the fleet: its objects stay"),
            };
            self.enter_cluster(&stage.name, cluster, to.0, to.1);
        }
    }

    /// Walks a reached stage in order: marks clusters that are right already, and starts those that may start. A cluster that
    /// waits because an earlier run left others unavailable does not block those others.
    pub(super) fn start_clusters(&mut self, stage: &mut StageRecord, may_start: bool) {
        use ClusterPhase::{Deferred, Pending, Succeeded, Updating};
        let ended = self.ended;
        if !stage.clusters.iter().any(|cluster| waits(cluster.phase, ended)) {
            return;
        }
        let max = stage.max_concurrency;
        let mut updating = stage.clusters.iter().filter(|cluster| cluster.phase == Updating).count();
        let situation = self.situation;
        let mut unavailable =
            stage.clusters.iter().filter(|cluster| takes_concurrency(cluster, situation, ended)).count();
        for cluster in stage.clusters.iter_mut().filter(|cluster| waits(cluster.phase, ended)) {
            let Some(seen) = self.seen(cluster) else { continue };
            let is_counted = takes_concurrency(cluster, situation, ended);
            let others = if is_counted { unavailable - 1 } else { unavailable };
            // It needs no turn and uses no concurrency.
            if seen.is_ready() {
                stage.started_at.get_or_insert(self.now);
                self.enter_cluster(&stage.name, cluster, Succeeded, "");
            } else if !may_start || updating >= max {
                // Later clusters may be right already.
            } else if !seen.online {
                if cluster.phase == Pending {
                    self.enter_cluster(&stage.name, cluster, Deferred, messages::DEFERRED);
                }
            } else if (is_counted && seen.is_known_down()) || others < max {
                // Starting a cluster that is known to be unavailable makes nothing worse. If it had to wait although only this
                // snapshot repairs it, it would block the stage forever. One without a report is known by its deadline.
                updating += 1;
                unavailable = others + 1;
                stage.started_at.get_or_insert(self.now);
                self.enter_cluster(&stage.name, cluster, Updating, "");
                self.step.start.push(cluster.name.clone());
            }
        }
    }

    /// Removes all clusters that may be removed, together.
    ///
    /// Source: KubeFleet, which has no deletion gates and waits for clusters that do not answer.
    pub(super) fn start_removals(&mut self, stage: &mut StageRecord) {
        use ClusterPhase::{Deferred, Pending, Succeeded, Updating};
        for cluster in &mut stage.clusters {
            if !matches!(cluster.phase, Pending | Deferred) {
                continue;
            }
            let Some(seen) = self.seen(cluster) else { continue };
            if seen.removed {
                self.enter_cluster(&stage.name, cluster, Succeeded, "");
            } else if seen.held {
                // It stays as it is: the gate may open at any time.
                messages::HELD.clone_into(&mut cluster.message);
            } else if seen.online {
                self.enter_cluster(&stage.name, cluster, Updating, "");
                self.step.remove.push(cluster.name.clone());
            } else if cluster.phase == Pending {
                self.enter_cluster(&stage.name, cluster, Deferred, messages::DEFERRED);
            }
        }
    }

    /// Walks the stages, and returns where the run stops. Unless it `may_go`, no stage starts, no gate opens and no cluster
    /// starts.
    pub(super) fn walk(&mut self, run: &mut RunRecord, may_go: bool) -> Place {
        for at in 0..run.stages.len() {
            let protects = run.stages[at + 1..].iter().flat_map(|stage| &stage.clusters).any(is_unfinished);
            if let Some(place) = self.walk_stage(&run.name, &mut run.stages[at], protects, may_go) {
                return place;
            }
        }
        run.deletion.as_mut().map_or(Place::Done, |stage| self.walk_removals(stage, may_go))
    }

    /// Advances a stage as far as possible; `None` once it is done. Its tasks may protect clusters of later stages: then they are asked
    /// though its own clusters have left.
    fn walk_stage(&mut self, run: &str, stage: &mut StageRecord, protects: bool, may_go: bool) -> Option<Place> {
        use StagePhase::{Failed, Pending, Skipped, Succeeded, Updating, WaitingAfter, WaitingBefore};
        loop {
            let phase = stage.phase;
            let next = match phase {
                // Clusters that were deferred at their turn move when they return, also after their stage.
                Succeeded | Skipped | Failed => {
                    self.start_clusters(stage, may_go);
                    return None;
                }
                Pending if !may_go => return Some(Place::Moving(format!("stage {} has not begun", stage.name))),
                // All clusters may leave while the gate waits for an approval: then nothing is left to approve.
                Pending | WaitingBefore if may_go && !has_clusters(stage) && !(protects && stage.asks()) => Skipped,
                Pending if !stage.before.is_empty() && !self.situation.asks_no_gate => WaitingBefore,
                Pending => Updating,
                WaitingBefore if self.is_open(stage, Gate::Before) && may_go => Updating,
                Updating => {
                    self.start_clusters(stage, may_go);
                    if let Some(rest) = messages::unfinished(stage, self.situation) {
                        return Some(Place::Moving(rest));
                    }
                    let waits = !stage.after.is_empty() || stage.checks.is_some();
                    if waits && !self.situation.asks_no_gate { WaitingAfter } else { Succeeded }
                }
                WaitingAfter => {
                    // The gate holds back the next stage: deferred clusters of this one still move.
                    self.start_clusters(stage, may_go);
                    checks::settle(stage, self.situation, self.now);
                    let is_open = self.is_open(stage, Gate::After);
                    if is_open && checks::awaited(stage, self.situation, self.now).is_empty() && may_go {
                        for words in checks::end(stage, self.now) {
                            self.note(JournalKind::TaskDone, &stage.name, words);
                        }
                        Succeeded
                    } else {
                        return Some(Place::Gate(messages::gate(run, stage, Gate::After, self.situation, self.now)));
                    }
                }
                WaitingBefore => {
                    return Some(Place::Gate(messages::gate(run, stage, Gate::Before, self.situation, self.now)));
                }
            };
            self.enter_stage(run, stage, next);
        }
    }

    /// Removes clusters that are no longer picked.
    fn walk_removals(&mut self, stage: &mut StageRecord, may_go: bool) -> Place {
        if stage.phase == StagePhase::Pending {
            if !may_go {
                return Place::Moving("removals have not begun".to_owned());
            }
            enter_stage(stage, StagePhase::Updating, self.now);
            stage.started_at = Some(self.now);
            // Every run enters its deletion stage; the journal omits those without clusters.
            if !stage.clusters.is_empty() {
                self.note(JournalKind::StageStarted, &stage.name, "");
            }
        }
        if may_go {
            self.start_removals(stage);
        }
        if let Some(place) = messages::removals(stage, self.situation) {
            return place;
        }
        if stage.phase == StagePhase::Updating {
            enter_stage(stage, StagePhase::Succeeded, self.now);
            if !stage.clusters.is_empty() {
                self.note(JournalKind::StageSucceeded, &stage.name, "");
            }
        }
        Place::Done
    }

    fn enter_stage(&mut self, run: &str, stage: &mut StageRecord, phase: StagePhase) {
        enter_stage(stage, phase, self.now);
        let (gate, tasks) = match phase {
            StagePhase::WaitingBefore => (Gate::Before, &mut stage.before),
            StagePhase::WaitingAfter => {
                self.note(JournalKind::StageWaiting, &stage.name, "");
                checks::begin(stage, self.now);
                (Gate::After, &mut stage.after)
            }
            StagePhase::Updating => return self.note(JournalKind::StageStarted, &stage.name, ""),
            StagePhase::Skipped => return self.note(JournalKind::StageSkipped, &stage.name, "it has no clusters"),
            StagePhase::Succeeded => return self.note(JournalKind::StageSucceeded, &stage.name, ""),
            StagePhase::Pending | StagePhase::Failed => return,
        };
        for task in tasks {
            task.asked_at = Some(self.now);
            if task.type_ == StageTaskType::Approval {
                self.note(JournalKind::ApprovalRequested, &stage.name, request_name(run, &stage.name, gate));
            }
        }
    }

    /// Marks the finished tasks on one side of a stage; returns whether all are done. A wait counts from when the stage began
    /// to wait, whatever happened since.
    fn is_open(&mut self, stage: &mut StageRecord, gate: Gate) -> bool {
        let tasks = if gate == Gate::Before { &mut stage.before } else { &mut stage.after };
        for task in tasks.iter_mut().filter(|task| task.done_at.is_none()) {
            let is_done = match task.type_ {
                StageTaskType::Approval => evaluate(task, &stage.digest, self.situation.rules, self.now),
                StageTaskType::TimedWait => {
                    task.done_at = after(stage.since, task.wait.unwrap_or_default()).filter(|end| *end <= self.now);
                    task.done_at.is_some()
                }
            };
            if is_done {
                let words = match task.type_ {
                    StageTaskType::Approval => "it is approved",
                    StageTaskType::TimedWait => "its wait is over",
                };
                self.note(JournalKind::TaskDone, &stage.name, words.to_owned());
            }
        }
        let tasks = if gate == Gate::Before { &stage.before } else { &stage.after };
        tasks.iter().all(|task| task.done_at.is_some())
    }

    /// Finds when time alone may change the result.
    pub(super) fn wake(&mut self, run: &RunRecord) {
        let mut wake_at: Option<Timestamp> = None;
        let mut wake = |at: Option<Timestamp>| {
            let at = at.filter(|at| *at > self.now);
            wake_at = [wake_at, at].into_iter().flatten().min();
        };
        for stage in run.stages.iter().chain(&run.deletion).filter(|stage| stage.phase.is_reached()) {
            for cluster in &stage.clusters {
                let is_updating = cluster.phase == ClusterPhase::Updating;
                if is_updating {
                    wake(cluster.started_at.and_then(|at| after(at, STUCK_AFTER)));
                }
                // Clusters that an earlier run left unavailable block others until they are available or have failed.
                let seen = self.seen(cluster).filter(|seen| is_updating || seen.unavailable);
                wake(seen.and_then(|seen| seen.health.changes_in).and_then(|rest| after(self.now, rest)));
            }
        }
        // An ended run waits at no gate.
        if self.ended.is_none() {
            let waiting = run.stages.iter().filter(|stage| stage.phase == StagePhase::WaitingAfter);
            waiting.for_each(|stage| wake(stage.checks.as_ref().and_then(ChecksRecord::healthy_at)));
            for (stage, tasks) in run.stages.iter().filter_map(|stage| Some((stage, waiting_tasks(stage)?))) {
                for task in tasks.iter().filter(|task| task.done_at.is_none()) {
                    wake(match task.type_ {
                        StageTaskType::TimedWait => after(stage.since, task.wait.unwrap_or_default()),
                        StageTaskType::Approval => expires_at(task, self.situation.rules, self.now),
                    });
                }
            }
        }
        self.step.wake_at = wake_at;
    }
}

/// Tells whether a run may still start a cluster in a phase; `ended` is the phase that the run has ended in.
fn waits(phase: ClusterPhase, ended: Option<RunPhase>) -> bool {
    match phase {
        ClusterPhase::Deferred => true,
        // Clusters that a superseded run had not started belong to the newer run.
        ClusterPhase::Pending => ended != Some(RunPhase::Superseded),
        _ => false,
    }
}

fn is_unfinished(cluster: &RunCluster) -> bool {
    !matches!(cluster.phase, ClusterPhase::Succeeded | ClusterPhase::Skipped)
}

/// Tells whether a stage has clusters that did not leave it.
fn has_clusters(stage: &StageRecord) -> bool {
    stage.clusters.iter().any(|cluster| cluster.phase != ClusterPhase::Skipped)
}

/// Tells whether a cluster counts towards the concurrency of its stage: it moves, or is unavailable.
fn takes_concurrency(cluster: &RunCluster, situation: &Situation<'_>, ended: Option<RunPhase>) -> bool {
    if cluster.phase == ClusterPhase::Updating {
        return true;
    }
    let seen = situation.clusters.get(&cluster.name).filter(|seen| seen.in_fleet);
    seen.is_some_and(|seen| is_unavailable(cluster.phase, seen, waits(cluster.phase, ended)))
}

/// Tells whether a cluster that is not on its way counts as unavailable.
fn is_unavailable(phase: ClusterPhase, seen: &Seen, waits: bool) -> bool {
    match phase {
        // `max_failures` limits failed clusters; counted here too, they would block their own stage.
        ClusterPhase::Failed => false,
        // What failed, with this or with something else, is unavailable until it is started. It needs no turn, and so blocks nothing.
        _ if waits && seen.online && seen.is_broken() => true,
        _ => seen.unavailable,
    }
}

/// Returns the tasks that a stage waits for.
fn waiting_tasks(stage: &StageRecord) -> Option<&[model::runs::TaskRecord]> {
    match stage.phase {
        StagePhase::WaitingBefore => Some(&stage.before),
        StagePhase::WaitingAfter => Some(&stage.after),
        _ => None,
    }
}

/// Returns an instant plus a duration, if the result is valid.
pub(super) fn after(at: Timestamp, period: Duration) -> Option<Timestamp> {
    at.checked_add(SignedDuration::try_from(period).ok()?).ok()
}
