//! One step of a run: the observed state of its clusters, and the bindings it moves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::stays;
use super::standing::commit_of;
use super::{Pass, evaluate};
use crate::rollout::staged::{Seen, Situation, Step, advance, catch_up, owes, reached, record_replies};
use crate::rollout::{Health, Limits, MaxFailures, Readiness};
use model::along::Along;
use model::api::condition::ConditionStatus;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::overrides::PickedOverrides;
use model::placement_phase::PhaseAct;
use model::records::{Binding, BindingState, ClusterRecord};
use model::runs::{ClusterPhase, RunPhase, RunRecord};

/// The health of a cluster without a binding.
const UNTOLD: Health = Health {
    ready: Readiness::NotYet(None),
    failed: false,
    undelivered: false,
    diff_reported: false,
    seen_unavailable: false,
    changes_in: None,
};

impl Pass<'_> {
    /// Advances the active run as far as possible. Returns when time alone takes it further.
    pub(super) fn advance_active(&mut self) -> Option<Timestamp> {
        let mut run = self.active_run().cloned()?;
        let (limits, max_failures) = match self.stage_limits() {
            Ok(limits) => limits,
            Err(error) => {
                self.state.record.error = Some(error);
                return None;
            }
        };
        if let Some(replies) = self.fleet.replies.get(&run.placement) {
            record_replies(&mut run, replies);
        }
        let seen = self.seen(&run, &limits, &BTreeSet::new());
        let failed_elsewhere = self.failed_elsewhere(&run);
        // Without the payload no cluster can get an order.
        let is_unreadable = run.snapshot().is_some_and(|index| self.state.unreadable.contains(&index));
        let situation = Situation {
            clusters: &seen,
            stop: !self.state.record.permits(PhaseAct::Start) || is_unreadable,
            max_failures,
            rules: self.fleet.approvals,
            asks_no_gate: false,
            servers: &self.fleet.servers,
            failed_elsewhere: &failed_elsewhere,
        };
        let before = run.phase;
        let step = advance(&mut run, &situation, self.now);
        let has_succeeded = before != run.phase && run.phase == RunPhase::Succeeded;
        self.take(run, &step);
        // Only after the last gate: a snapshot that still waits for an approval is no rollback target.
        if has_succeeded {
            self.note_success();
        }
        step.wake_at
    }

    /// Records what became of the clusters of ended runs, and starts none. Before the active run is advanced: what failed with the same
    /// content halts it, and what recovered does not.
    pub(super) fn settle_ended(&mut self) {
        self.advance_ended(false);
    }

    /// Updates clusters that were offline at their turn to the snapshot of their stage; each run updates the clusters it
    /// answers for. Returns when time alone takes one further.
    pub(super) fn catch_up(&mut self) -> Option<Timestamp> {
        self.advance_ended(true)
    }

    fn advance_ended(&mut self, starts: bool) -> Option<Timestamp> {
        if !self.state.runs.values().any(owes) {
            return None;
        }
        let (limits, max_failures) = self.stage_limits().ok()?;
        let mut wake_at = None;
        for (mut run, taken) in self.ended() {
            let is_current = self.is_current(&run);
            let seen = self.seen(&run, &limits, &taken);
            let failed_elsewhere = self.failed_elsewhere(&run);
            let is_unreadable = run.snapshot().is_some_and(|index| self.state.unreadable.contains(&index));
            let situation = Situation {
                clusters: &seen,
                stop: !starts || !self.state.record.permits(PhaseAct::Start) || !is_current || is_unreadable,
                max_failures,
                rules: self.fleet.approvals,
                // The gates of the run's stages were opened for these clusters too.
                asks_no_gate: true,
                servers: &self.fleet.servers,
                failed_elsewhere: &failed_elsewhere,
            };
            let step = catch_up(&mut run, &situation, self.now);
            wake_at = wake_at.into_iter().chain(step.wake_at).min();
            self.take(run, &step);
        }
        wake_at
    }

    /// Returns the clusters by stage that failed with the snapshot of a run in others that have succeeded or continue: they count until a person
    /// retries them. The newest of the runs that have a cluster says whether it failed.
    fn failed_elsewhere(&self, run: &RunRecord) -> BTreeMap<String, BTreeSet<ClusterName>> {
        let runs = self.state.runs.values().filter(|other| self.shares_failures(run, other));
        let mut runs: Vec<&RunRecord> = runs.collect();
        runs.sort_unstable_by_key(|run| Reverse(run.sequence));
        let mut failed: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
        let mut known: BTreeSet<&ClusterName> = BTreeSet::new();
        for (of, stage) in runs.into_iter().flat_map(|of| of.stages.iter().map(move |stage| (of, stage))) {
            // What left takes no failure with it.
            for cluster in stage.clusters.iter().filter(|cluster| cluster.phase != ClusterPhase::Skipped) {
                let is_newest = known.insert(&cluster.name);
                if is_newest && cluster.phase == ClusterPhase::Failed && of.name != run.name {
                    failed.entry(stage.name.clone()).or_default().insert(cluster.name.clone());
                }
            }
        }
        failed
    }

    /// Tells whether clusters that failed in another run also count for a run.
    fn shares_failures(&self, run: &RunRecord, other: &RunRecord) -> bool {
        if other.name == run.name {
            return true;
        }
        let has_failed = other.phase.is_final() && other.phase != RunPhase::Succeeded;
        !has_failed && other.sequence >= self.state.record.runs_from && other.snapshot() == run.snapshot()
    }

    /// Returns the ended runs that answer for clusters, or do not know yet that a newer run does, newest first; each with the
    /// clusters that a newer run has taken.
    fn ended(&self) -> Vec<(RunRecord, BTreeSet<ClusterName>)> {
        let mut ended = Vec::new();
        for (run, own) in self.answering().into_iter().filter(|(run, _)| owes(run)) {
            let is_current = self.is_current(run);
            let elsewhere = self.deferred_elsewhere(run);
            let is_taken = |cluster: &ClusterName| !is_current || !own.contains(cluster) || elsewhere.contains(cluster);
            if !own.is_empty() || expects_any(run, is_taken) {
                let taken = reached(run).into_iter().filter(|cluster| is_taken(cluster)).cloned().collect();
                ended.push((run.clone(), taken));
            }
        }
        ended
    }

    /// Returns the clusters that an ended run deferred, and that are in another stage of the run that takes its place: what they get is
    /// up to the gates of that stage.
    fn deferred_elsewhere(&self, run: &RunRecord) -> BTreeSet<ClusterName> {
        let Some(newer) = self.active_run().filter(|newer| newer.sequence > run.sequence) else {
            return BTreeSet::new();
        };
        let mut elsewhere = BTreeSet::new();
        for stage in &run.stages {
            for cluster in stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Deferred) {
                let mut others = newer.stages.iter().filter(|other| other.name != stage.name);
                if others.any(|other| other.clusters.iter().any(|known| known.name == cluster.name)) {
                    elsewhere.insert(cluster.name.clone());
                }
            }
        }
        elsewhere
    }

    /// Returns the limits of runs: an object whose health cannot be tracked counts as available immediately.
    fn stage_limits(&self) -> Result<(Limits, MaxFailures), String> {
        let limits = Limits { unavailable_period: Duration::ZERO, ..self.limits()? };
        let max_failures = MaxFailures::read(&self.state.record.annotations).map_err(|error| error.to_string())?;
        Ok((limits, max_failures))
    }

    /// Records the state of a run, and moves and removes the bindings of its step.
    fn take(&mut self, run: RunRecord, step: &Step) {
        let started: BTreeSet<&ClusterName> = step.start.iter().collect();
        let overrides: BTreeMap<ClusterName, PickedOverrides> = run
            .stages
            .iter()
            .flat_map(|stage| &stage.clusters)
            .filter(|cluster| started.contains(&cluster.name))
            .map(|cluster| (cluster.name.clone(), cluster.overrides.clone()))
            .collect();
        for note in &step.notes {
            let mut facts = json!({"run": run.name});
            if let Some(stage) = &note.stage {
                facts["stage"] = json!(stage);
            }
            if !note.message.is_empty() {
                facts["message"] = json!(note.message);
            }
            // An approval names the digest of what it covers.
            if note.event == JournalKind::ApprovalRequested {
                self.describe_request(&run, note.stage.as_deref(), &mut facts);
            }
            self.note(note.event.clone(), note.cluster.as_ref(), facts);
        }
        if let Some(frozen) = &run.frozen {
            let names = self.speaking(&step.start);
            for cluster in &step.start {
                let picked = overrides.get(cluster).cloned().unwrap_or_default();
                let Some(name) = names.get(cluster) else { continue };
                self.bring(name, frozen.snapshot, frozen.apply_strategy.clone(), picked);
            }
        }
        for cluster in &step.remove {
            // A cluster that is picked again has another binding, which stays.
            let left_over = self
                .state
                .bindings()
                .find(|b| b.cluster == *cluster && b.state == BindingState::Unscheduled && !b.deleting);
            let Some(name) = left_over.map(|b| b.name.clone()) else { continue };
            self.remove(&name);
        }
        self.state.runs.insert(run);
    }

    /// Adds to a request for an approval what the approval is about.
    fn describe_request(&self, run: &RunRecord, stage: Option<&str>, facts: &mut Value) {
        let stage = run.stages.iter().find(|of_run| Some(of_run.name.as_str()) == stage);
        facts["digest"] = json!(stage.map(|stage| &stage.digest));
        facts["snapshot"] = json!(run.snapshot());
        facts["commit"] = json!(run.snapshot().and_then(|index| commit_of(&self.state, index)));
    }

    /// Returns the binding names of clusters: of the picked bindings that are not being removed.
    fn speaking(&self, of: &[ClusterName]) -> BTreeMap<ClusterName, String> {
        let of: BTreeSet<&ClusterName> = of.iter().collect();
        let speaking = self.state.bindings().filter(|b| stays(b) && of.contains(&b.cluster));
        // If a cluster has several, the first by name counts.
        speaking.rev().map(|b| (b.cluster.clone(), b.name.clone())).collect()
    }

    /// Returns the observed state of a run's clusters. The clusters in `taken` belong to a newer run.
    fn seen(&self, run: &RunRecord, limits: &Limits, taken: &BTreeSet<ClusterName>) -> BTreeMap<ClusterName, Seen> {
        let Some(frozen) = &run.frozen else { return BTreeMap::new() };
        let mut bindings: Vec<&Binding> = self.state.bindings().collect();
        bindings.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        let gate = self.state.record.closed_gate();
        let clusters = run.stages.iter().chain(&run.deletion).flat_map(|stage| &stage.clusters);
        // The clusters of a stage mostly stand in order of their names.
        let mut works = Along::new(&self.state.works);
        let mut records = Along::new(&self.fleet.records);
        let mut next = 0;
        let mut all = Vec::new();
        for cluster in clusters {
            if bindings.get(next).is_none_or(|binding| binding.cluster != cluster.name) {
                next = bindings.partition_point(|binding| binding.cluster < cluster.name);
            }
            let count = bindings[next..].iter().take_while(|binding| binding.cluster == cluster.name).count();
            let of = &bindings[next..next + count];
            next += count;
            let speaking = of.iter().find(|b| stays(b));
            let binding = speaking.or(of.first());
            let work = works.get(&cluster.name).map(AsRef::as_ref);
            let answers = records.get(&cluster.name).is_some_and(ClusterRecord::answers);
            let heard = self.fleet.heard(&run.placement, &cluster.name);
            let health = binding.map(|b| evaluate(b, work, &self.state.others.taking_over, heard, limits, self.now));
            let mut health = health.unwrap_or(UNTOLD);
            // It gets no order, so nothing would ever be reported.
            let is_under_way = cluster.phase == ClusterPhase::Updating && health.ready != Readiness::Ready;
            let forbidden = if is_under_way { speaking.and_then(|binding| self.forbidden(binding)) } else { None };
            health.failed |= forbidden.is_some();
            let is_bound = speaking.is_some_and(|b| b.state == BindingState::Bound && b.snapshot.is_some());
            let is_ready = health.ready == Readiness::Ready;
            let leaving = speaking.is_some() && of.iter().any(|b| b.deleting);
            let seen = Seen {
                // Clusters that left in a mass removal count until a person has agreed.
                in_fleet: self.fleet.clusters.contains(cluster.name.as_str())
                    || binding.is_some_and(|binding| self.is_of_fleet(&binding.cluster)),
                picked: speaking.is_some(),
                // Compared with the frozen order: later changes in git are for a follow-up run.
                bound_to: speaking.is_some_and(|b| {
                    b.state == BindingState::Bound
                        && b.snapshot == Some(frozen.snapshot)
                        && b.apply_strategy == frozen.apply_strategy
                        && b.overrides == cluster.overrides
                }),
                leaving,
                taken: taken.contains(&cluster.name),
                // A cluster must report what it holds before a removal.
                online: answers
                    && !leaving
                    && (speaking.is_some() || of.iter().all(|b| b.deleting) || self.knows_inventory(&cluster.name)),
                health,
                unavailable: is_bound && !is_ready && !health.failed,
                removed: of.is_empty(),
                held: gate.is_some_and(|gate| gate.holds(&cluster.name)),
                kept: !of.is_empty() && of.iter().all(|b| b.deleting) && self.is_kept_whole(&cluster.name),
                failure: match (forbidden, binding) {
                    (Some(why), _) => why,
                    (None, Some(binding)) if health.failed => why_failed(binding),
                    (None, _) => String::new(),
                },
            };
            all.push((cluster.name.clone(), seen));
        }
        all.into_iter().collect()
    }

    /// Records what the last run brought once every cluster has it: some may have come back, or recovered, after the run ended. Where no
    /// run counts, because its document or the stages went, the newest snapshot needs none if every cluster has it.
    pub(super) fn note_late_success(&mut self) {
        let newest = self.state.newest().map(|newest| newest.index);
        let has_succeeded = match self.last_run() {
            Some(run) => run.phase == RunPhase::Succeeded,
            None => newest.is_some_and(|newest| self.is_right_everywhere(newest)),
        };
        if has_succeeded && self.active_run().is_none() {
            self.note_success();
        }
    }

    /// Returns the bindings of the clusters that a rollout updates: picked, not being removed, and not left out by the strategy.
    pub(super) fn updated(&self) -> impl Iterator<Item = &Binding> {
        let record = &self.state.record;
        self.state.bindings().filter(|b| stays(b) && !record.ignores(b))
    }

    /// Records the snapshot that is available on every picked cluster that runs update, if there is one, as the rollback
    /// target.
    pub(super) fn note_success(&mut self) {
        let Some(index) = self.updated().next().and_then(|binding| binding.snapshot) else { return };
        let Ok(limits) = self.limits() else { return };
        let limits = Limits { unavailable_period: Duration::ZERO, ..limits };
        if !self.updated().all(|binding| self.is_available_with(binding, index, &limits)) {
            return;
        }
        if self.state.record.last_succeeded != Some(index) {
            self.state.record.last_succeeded = Some(index);
            self.state.record.superseded = 0;
        }
        self.keep_succeeded(index);
    }

    /// Tells whether a cluster is bound to a snapshot and available with it.
    fn is_available_with(&self, binding: &Binding, snapshot: u64, limits: &Limits) -> bool {
        if binding.state != BindingState::Bound || binding.snapshot != Some(snapshot) {
            return false;
        }
        let work = self.state.works.get(&binding.cluster).map(AsRef::as_ref);
        let health = evaluate(binding, work, &self.state.others.taking_over, None, limits, self.now);
        health.ready == Readiness::Ready
    }
}

/// Tells whether an ended run still has work to do on any of these clusters.
fn expects_any(run: &RunRecord, of: impl Fn(&ClusterName) -> bool) -> bool {
    let mut clusters = run.stages.iter().chain(&run.deletion).flat_map(|stage| &stage.clusters);
    clusters.any(|cluster| expects(run, cluster.phase) && of(&cluster.name))
}

/// Tells whether an ended run still has work to do on a cluster in a phase.
fn expects(run: &RunRecord, phase: ClusterPhase) -> bool {
    match phase {
        ClusterPhase::Deferred | ClusterPhase::Updating => true,
        // A retry after the run succeeded. Clusters that had not started when a run ended in another way never start.
        ClusterPhase::Pending => run.phase == RunPhase::Succeeded,
        ClusterPhase::Succeeded | ClusterPhase::Failed | ClusterPhase::Skipped => false,
    }
}

/// Returns why a binding failed, in the member's words if it gave any.
fn why_failed(binding: &Binding) -> String {
    let refused = binding.conditions.iter().find(|c| c.is(ConditionStatus::False, binding.generation));
    refused.map_or_else(|| "it is not available in time".to_owned(), |condition| condition.message.clone())
}
