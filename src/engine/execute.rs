//! Executes people's commands from every channel: [`resolve`] finds the target, [`execute`] changes its records. Both are pure.
//!
//! A command changes records only; the next decision acts on them. The store keeps the change before anything acts on it, so a
//! crash loses no command.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use decide::Pass;
use decide::bindings::BindingEdit;
use decide::rollout::staged;
use decide::state::{FleetState, PlacementState};
use decide::status::work::counted;
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::api::placement::StrategyType;
use model::commands::{Command, Done, Person, Refusal, RefusalReason, Verb};
use model::id::{ClusterName, CommitId, PlacementKey};
use model::journal::JournalKind;
use model::names::first_of;
use model::placement_phase::{COMMANDED, violation};
use model::records::{BindingState, HeldSnapshot, JournalEntry, Pause};
use model::rights::{Approving, Policy, may};
use model::runs::{ApprovalRules, Channel, DELETION_GATE, Gate, MetricServers, RunCause, RunPhase, RunRecord};

mod gates;
mod in_store;
mod may_some;
mod resolve;

pub use gates::preview;
pub use in_store::{Authority, accept_rewrite, execute_in_store, preview_in_store};
pub use may_some::{NarrowedGate, may_some};
pub use resolve::resolve;
use resolve::{is_at_gate, is_waiting};

/// Clusters that an answer names.
const CLUSTERS_NAMED_MAX: usize = 10;

/// The target of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTarget {
    /// The placement.
    pub placement: PlacementKey,
    /// The run, if one is named or active.
    pub run: Option<String>,
    /// The stage, or [`DELETION_GATE`].
    pub stage: Option<String>,
    /// The side of the stage; absent means the one that waits.
    pub gate: Option<Gate>,
}

/// A placement after a command.
#[derive(Debug)]
pub struct Executed {
    /// Its state after the command.
    pub state: PlacementState,
    /// What happened.
    pub journal: Vec<JournalEntry>,
    /// The answer to the person.
    pub done: Done,
    /// The snapshot that a rollback returns to.
    pub goal: Option<u64>,
}

fn refusal(reason: RefusalReason, message: impl Into<String>) -> Refusal {
    Refusal { reason, message: message.into() }
}

/// Executes a command on its target placement.
///
/// # Errors
/// Why the command was not executed; nothing has changed then.
pub fn execute(
    state: &PlacementState,
    fleet: &FleetState,
    target: &CommandTarget,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> Result<Executed, Refusal> {
    let policy = policy(state, fleet, target);
    may(person, command.verb, &policy).map_err(|why| refusal(RefusalReason::NotAllowed, why))?;
    gates::check_specific(state, fleet, target, command)?;
    let mut pass = Pass::new(state.clone(), fleet, now);
    let execution = Execution { target, command, person, policy, now };
    let gate = gates::waiting_gate(state, target).filter(|_| command.verb == Verb::Approve);
    let mut goal = None;
    let message = match command.verb {
        Verb::Approve | Verb::Reject if target.stage.as_deref() == Some(DELETION_GATE) => {
            execution.decide_deletions(&mut pass)
        }
        Verb::Approve => execution.approve(&mut pass),
        Verb::Reject => execution.reject(&mut pass),
        Verb::Pause => execution.pause(&mut pass),
        Verb::Resume => execution.resume(&mut pass),
        Verb::Retry => execution.retry(&mut pass),
        Verb::Rollback => execution.roll_back(&mut pass).map(|(to, text)| {
            goal = Some(to);
            text
        }),
        Verb::Enroll | Verb::Revoke => {
            Err(refusal(RefusalReason::NotPossible, "that is about an agent, not a placement"))
        }
        Verb::Adopt => Err(refusal(RefusalReason::NotPossible, "a store is adopted, not a placement; name none")),
    };
    let message = message.map_err(|refused| gates::with_lines(refused, state, target, command, person))?;
    let facts = json!({
        "verb": command.verb, "target": command.target, "stage": target.stage, "person": person.name,
        "surface": person.surface, "reason": command.reason, "message": command.message,
    });
    pass.note(JournalKind::Commanded, None, facts);
    debug_assert_eq!(violation(COMMANDED, state.record.phase(), &pass.state.record, &pass.journal), None);
    Ok(Executed { state: pass.state, journal: pass.journal, done: Done { message, at: now, gate }, goal })
}

/// Returns the approval policy of the target, from the configuration and the strategy.
fn policy<'a>(state: &'a PlacementState, fleet: &'a FleetState, target: &'a CommandTarget) -> Policy<'a> {
    let named = target.run.as_ref().and_then(|name| state.runs.get(name));
    // A command that names the placement alone needs the approvers of the run that is under way.
    let run = named.or_else(|| state.runs.values().max_by_key(|run| run.sequence));
    let is_open = |run: &&RunRecord| !run.phase.is_final() && target.stage.as_deref() != Some(DELETION_GATE);
    let narrowed = match run.filter(is_open) {
        Some(run) => run.approvers.as_deref(),
        None => state.record.narrowed.as_deref(),
    };
    let approving =
        Approving { approvers: fleet.approvers_of(&state.record), owners: fleet.owners_of(&state.record), narrowed };
    let of_run = run.and_then(|run| run.approvers_before.as_deref());
    let of_run = of_run.map(|narrowed| Approving { narrowed: Some(narrowed), ..approving });
    let replaced = state.record.replaced.iter().map(|replaced| fleet.approving(&replaced.before));
    Policy {
        placement: Some(&target.placement),
        rules: fleet.approvals,
        approving,
        before: replaced.chain(of_run).collect(),
    }
}

struct Execution<'a> {
    target: &'a CommandTarget,
    command: &'a Command,
    person: &'a Person,
    policy: Policy<'a>,
    now: Timestamp,
}

impl Execution<'_> {
    /// Returns the line that gives a command on the placement, where this one was given.
    fn line(&self, state: &PlacementState, verb: Verb) -> String {
        match self.person.surface {
            // The long form is a command in every repository.
            Channel::Comment => format!("/gitfleet {verb} placement={}", self.target.placement),
            _ => format!("gitfleet {verb} {}", state.word()),
        }
    }

    fn pause(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.target.placement;
        if let Some(pause) = &pass.state.record.paused {
            return Err(refusal(RefusalReason::SoAlready, format!("{key} was paused by {} already", pause.by)));
        }
        let reason = self.command.reason.clone().or_else(|| self.command.message.clone());
        pass.state.record.paused = Some(Pause { by: self.person.name.clone(), at: self.now, reason });
        let resume = self.line(&pass.state, Verb::Resume);
        Ok(format!("paused: nothing new is started for {key} until `{resume}`"))
    }

    fn resume(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.target.placement;
        let Some(pause) = pass.state.record.paused.take() else {
            return Err(refusal(RefusalReason::SoAlready, format!("{key} is not paused")));
        };
        // A deadline does not count while the rollout is paused: clusters under way get the paused time back.
        let paused_for = self.now.duration_since(pause.at);
        for name in pass.state.bindings.keys().cloned().collect::<Vec<_>>() {
            pass.change(&name, BindingEdit::Delay(paused_for));
        }
        let failed = pass.failed_bindings();
        let failed: BTreeSet<ClusterName> =
            failed.iter().filter_map(|name| Some(pass.state.bindings.get(name)?.cluster.clone())).collect();
        let active = pass.active_run().or_else(|| pass.last_run()).map(|run| run.name.clone());
        if let Some(run) = active.and_then(|name| pass.state.runs.get_mut(&name)) {
            staged::forgive(run, pause.at, |cluster| failed.contains(cluster), self.now);
        }
        Ok(format!("resumed: {key} continues"))
    }

    /// Retries failed clusters, and rolls out a held snapshot again.
    fn retry(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.target.placement;
        let mut what = Vec::new();
        let mut unasked = Vec::new();
        let mut nothing = format!("nothing of {key} failed or is held");
        let is_external = pass.state.record.spec.strategy.type_ == StrategyType::External;
        let is_written = is_external && !pass.state.record.annotations.contains_key(STAGED_UPDATE_STRATEGY);
        let held = pass.state.record.held.as_ref().filter(|_| !pass.state.record.removed);
        if let Some(index) = held.map(|held| held.index) {
            let run = Some(index).filter(|_| is_written).and_then(|index| pass.begin_written_again(index));
            if is_written && run.is_none() {
                nothing = format!(
                    "{key} names no staged update strategy, so nothing goes to snapshot {index} by itself; write a run with \
                     resourceSnapshotIndex {index}"
                );
            } else {
                let record = &mut pass.state.record;
                (record.held, record.goal, record.back, record.last_automatic) = (None, None, None, None);
                // Their messages named the hold that has just ended.
                for run in pass.state.runs.some_mut(|run| run.frozen.is_none() && !run.phase.is_final()) {
                    "waits for its turn".clone_into(&mut run.message);
                }
                let by = run.map(|run| format!(" by the run {run}")).unwrap_or_default();
                what.push(format!("snapshot {index} is rolled out again{by}"));
            }
        }
        for (rejected, by) in pass.ask_for_rejected() {
            what.push(format!("{by} asks again for what {rejected} was to do"));
        }
        // The run was rejected but its snapshot is not held, because it had succeeded everywhere before: only a retry restarts
        // it.
        let rejected = pass.last_run().filter(|run| run.phase == RunPhase::Rejected && run.cause == RunCause::Snapshot);
        if let Some(rejected) = rejected.map(|run| run.name.clone()).filter(|_| what.is_empty()) {
            pass.state.record.last_automatic = None;
            what.push(format!("gitfleet asks again for what {rejected} was to do"));
        }
        // What git has no longer moves nobody.
        let tried = pass.active_run().or_else(|| pass.last_run().filter(|_| is_external));
        let tried = tried.filter(|_| !pass.state.record.removed).map(|run| run.name.clone());
        let rules = pass.fleet.approvals;
        let content = tried.as_ref().and_then(|name| pass.state.runs.get(name)?.snapshot());
        // What finished runs left failed with the same content counts as long as nobody retries it.
        let is_before = |run: &RunRecord| run.phase == RunPhase::Succeeded && run.snapshot() == content;
        let others = pass.state.runs.some_mut(|run| is_before(run) && Some(&run.name) != tried.as_ref());
        let before: usize = others.into_iter().map(|run| staged::retry(run, rules, self.now).len()).sum();
        if before > 0 {
            what.push(format!("{before} failed clusters of earlier runs are tried again"));
        }
        if let Some(run) = tried.and_then(|name| pass.state.runs.get_mut(&name)) {
            self.retry_run(run, &pass.fleet.servers, rules, &mut what, &mut unasked);
        } else if !is_external {
            retry_rolling(pass, &mut what);
        }
        if what.is_empty() {
            let nothing = if unasked.is_empty() { nothing } else { unasked.join("; ") };
            return Err(refusal(RefusalReason::NotPossible, nothing));
        }
        what.extend(unasked);
        Ok(what.join("; "))
    }

    /// Retries a run, and says what of it and whom it asks: what is done, and which checks still cannot be asked.
    fn retry_run(
        &self,
        run: &mut RunRecord,
        servers: &MetricServers,
        rules: ApprovalRules,
        what: &mut Vec<String>,
        unasked: &mut Vec<String>,
    ) {
        let checks = staged::checks_again(run, servers);
        let notes = staged::retry(run, rules, self.now);
        let of = |event: JournalKind| notes.iter().filter(move |note| note.event == event);
        let tried: Vec<&str> =
            of(JournalKind::ClusterRetried).filter_map(|note| Some(note.cluster.as_ref()?.as_str())).collect();
        if !tried.is_empty() {
            what.push(tried_again(&tried, Some(&run.name)));
        }
        let stages = of(JournalKind::ApprovalRequested).filter_map(|note| note.stage.as_deref());
        what.extend(stages.map(|stage| format!("{} asks for approval of stage {stage} again", run.name)));
        let asked =
            checks.iter().filter_map(|check| Some(format!("{} (of {})", check.name, check.server.as_ref().ok()?)));
        let asked: Vec<String> = asked.collect();
        if !asked.is_empty() {
            what.push(format!("checks of {} are asked again: {}", run.name, asked.join(", ")));
        }
        for check in &checks {
            let Err(why) = &check.server else { continue };
            let forgets = if check.failed { "forgets its answer, and" } else { "still" };
            let text = format!("the check {} of {} {forgets} cannot be asked: {why}", check.name, run.name);
            if check.failed { what.push(text) } else { unasked.push(text) }
        }
    }

    /// Returns the snapshot named by its index or by its commit; of several snapshots of a commit, the newest.
    fn wanted_snapshot(&self, state: &PlacementState) -> Result<Option<u64>, Refusal> {
        let Some(commit) = &self.command.to_commit else { return Ok(self.command.to) };
        let of_commit =
            state.snapshots.values().filter(|snapshot| snapshot.commit.as_str().starts_with(commit.as_str()));
        let commits: BTreeSet<&CommitId> = of_commit.clone().map(|snapshot| &snapshot.commit).collect();
        match commits.len() {
            1 => Ok(of_commit.map(|snapshot| snapshot.index).max()),
            0 => {
                let known: Vec<&str> = state.snapshots.values().map(|snapshot| snapshot.commit.short()).collect();
                let known = known.join(", ");
                let message =
                    format!("no snapshot of {} is from commit {commit}; there are {known}", self.target.placement);
                Err(refusal(RefusalReason::SnapshotGone, message))
            }
            _ => {
                Err(refusal(RefusalReason::Ambiguous, format!("{commit} fits more than one commit; write more of it")))
            }
        }
    }

    fn roll_back(&self, pass: &mut Pass<'_>) -> Result<(u64, String), Refusal> {
        let key = &self.target.placement;
        let state = &pass.state;
        let is_external = state.record.spec.strategy.type_ == StrategyType::External;
        if state.record.removed {
            let message = format!("git has no {} {key} any more, so it returns to nothing", key.kind());
            return Err(refusal(RefusalReason::NotPossible, message));
        }
        self.begins_already(state)?;
        let named = self.target.run.as_ref().and_then(|name| state.runs.get(name));
        let run = run_to_roll_back(state);
        if let Some(named) = named.filter(|named| is_external && run.is_none_or(|run| run.name != named.name)) {
            let last = match run {
                Some(run) => format!("the last that moved clusters of {key} is {}", run.name),
                None if named.frozen.is_some() => format!("clusters of {key} were moved in another way since"),
                None => "it has moved nothing".to_owned(),
            };
            let line = run.map(|run| format!("; `gitfleet rollback {}` takes it back", run.name)).unwrap_or_default();
            let message = format!("the run {} cannot be rolled back: {last}{line}", named.name);
            return Err(refusal(RefusalReason::NotPossible, message));
        }
        if let Some(run) = run.filter(|run| is_external && run.phase == RunPhase::Initialized) {
            let message = format!("the run {} has moved nothing yet; remove it, or let it go", run.name);
            return Err(refusal(RefusalReason::NotPossible, message));
        }
        let current = match run.filter(|_| is_external) {
            Some(run) => run.snapshot(),
            None => state.record.goal.or_else(|| state.newest().map(|newest| newest.index)),
        };
        let rests_there = state.record.last_succeeded.is_some() && state.record.last_succeeded == current;
        let before = current.filter(|_| rests_there).and_then(|current| state.snapshots.range(..current).next_back());
        let by_itself = before.map(|(index, _)| *index).or(state.record.last_succeeded);
        // Where only overrides, apply strategy or policy changed since everything succeeded, these are taken back.
        let is_other = |current: &u64| pass.last_other_state(*current).is_some_and(|state| state.snapshot == *current);
        let same = current.filter(is_other);
        let Some(to) = self.wanted_snapshot(state)?.or(same).or(by_itself) else {
            let message = format!("no snapshot of {key} has succeeded everywhere yet; name one with --to");
            return Err(refusal(RefusalReason::NotPossible, message));
        };
        if !state.snapshots.contains_key(&to) {
            let known: Vec<String> = state.snapshots.keys().map(ToString::to_string).collect();
            let message = format!("snapshot {to} of {key} is not kept any more; there are {}", known.join(", "));
            return Err(refusal(RefusalReason::SnapshotGone, message));
        }
        if state.unreadable.contains(&to) {
            let message = format!("the payload of snapshot {to} of {key} cannot be read from git");
            return Err(refusal(RefusalReason::SnapshotGone, message));
        }
        let inputs_alone = same == Some(to);
        if current == Some(to) && !inputs_alone {
            return Err(refusal(RefusalReason::SoAlready, format!("{key} is at snapshot {to} already")));
        }
        if !inputs_alone {
            self.may_return(pass, current, to)?;
        }
        let what = if inputs_alone { ", with its earlier overrides, apply strategy and policy" } else { "" };
        let why = format!("{} rolled back", self.person.name);
        if !is_external || run.is_none() && returns_as_a_whole(state) {
            pass.return_to(to, &why);
            return Ok((to, format!("rolling back {key} to {}{what}", snapshot_text(pass, to))));
        }
        let Some(run) = run.map(|run| run.name.clone()) else {
            let message =
                format!("no run brought what clusters of {key} have; write a run with resourceSnapshotIndex {to}");
            return Err(refusal(RefusalReason::NotPossible, message));
        };
        let name = pass.begin_rollback(&run, to, Some(self.person.name.clone()));
        Ok((to, format!("rolling back {key} to {}{what} by the run {name}", snapshot_text(pass, to))))
    }

    /// Refuses a rollback that was asked for already and has not begun: its run freezes its inputs when the placement is decided next, or
    /// after a restart when its payload is read. Whoever lost the answer asks again.
    fn begins_already(&self, state: &PlacementState) -> Result<(), Refusal> {
        let is_starting = |run: &&RunRecord| {
            run.frozen.is_none() && !run.phase.is_final() && matches!(run.cause, RunCause::Rollback { .. })
        };
        let Some((run, to)) = state.runs.values().find(is_starting).and_then(|run| Some((run, run.snapshot()?))) else {
            return Ok(());
        };
        if self.wanted_snapshot(state)?.is_some_and(|wanted| wanted != to) {
            return Ok(());
        }
        let key = &self.target.placement;
        let message = format!("{key} is being rolled back to snapshot {to} by the run {} already", run.name);
        Err(refusal(RefusalReason::SoAlready, message))
    }

    /// Tells whether a rollback may return to a snapshot: not to a held one, which only a retry rolls out, and not to the one
    /// it leaves.
    fn may_return(&self, pass: &Pass<'_>, current: Option<u64>, to: u64) -> Result<(), Refusal> {
        let key = &self.target.placement;
        let state = &pass.state;
        let is_held =
            |held: &&HeldSnapshot| state.snapshots.get(&to).is_some_and(|snapshot| snapshot.hash == held.hash);
        if let Some(held) = state.record.held.as_ref().filter(is_held) {
            let message = format!(
                "snapshot {to} of {key} is held: snapshot {} {}; `{}` rolls it out again",
                held.index,
                held.why,
                self.line(state, Verb::Retry)
            );
            return Err(refusal(RefusalReason::NotPossible, message));
        }
        if let Some(current) = current.filter(|current| pass.are_alike(*current, to)) {
            let message =
                format!("snapshot {to} of {key} has the content of snapshot {current}, where it is; name another");
            return Err(refusal(RefusalReason::NotPossible, message));
        }
        Ok(())
    }
}

/// Tries the failed clusters of a rolling update again, and says which. Failures of clusters that left or recover no longer count.
fn retry_rolling(pass: &mut Pass<'_>, what: &mut Vec<String>) {
    let counted = pass.state.record.failed.take().map(|failed| failed.clusters).unwrap_or_default();
    let failed = pass.failed_bindings();
    for name in &failed {
        pass.change(name, BindingEdit::TryAgain);
    }
    let failed: Vec<&str> =
        failed.iter().filter_map(|name| Some(pass.state.bindings.get(name)?.cluster.as_str())).collect();
    let others: Vec<&str> = counted.iter().map(ClusterName::as_str).filter(|name| !failed.contains(name)).collect();
    if !others.is_empty() {
        what.push(format!("the failure of {} does not count any more", others.join(", ")));
    }
    if !failed.is_empty() {
        what.push(tried_again(&failed, None));
    }
}

/// Returns the run that a rollback takes back: the last that moved anything, or where that is at what succeeded last, the last that left
/// clusters at something else. None where all runs are history: what clusters have came in another way.
fn run_to_roll_back(state: &PlacementState) -> Option<&RunRecord> {
    let frozen = || state.runs.values().filter(|run| run.frozen.is_some());
    let last = frozen().max_by_key(|run| run.sequence).filter(|run| run.sequence >= state.record.runs_from)?;
    let succeeded = state.record.last_succeeded;
    let is_at = |index: Option<u64>| state.bindings().any(|b| b.state == BindingState::Bound && b.snapshot == index);
    let strays = |run: &&RunRecord| run.snapshot() != succeeded && run.snapshot().is_some() && is_at(run.snapshot());
    let strayed = frozen().filter(strays).max_by_key(|run| run.sequence);
    strayed.filter(|_| last.snapshot() == succeeded).or(Some(last))
}

/// Tells whether an External placement that no run moved last returns all of its clusters: the next decision begins a run that does, by the
/// strategy that the placement names.
fn returns_as_a_whole(state: &PlacementState) -> bool {
    let names_strategy = state.record.annotations.contains_key(STAGED_UPDATE_STRATEGY);
    names_strategy && state.bindings().any(|binding| binding.state == BindingState::Bound)
}

/// Says which clusters are tried again, of a run or of a placement without one.
fn tried_again(clusters: &[&str], run: Option<&str>) -> String {
    let of = run.map(|run| format!(" of {run}")).unwrap_or_default();
    let are = if clusters.len() == 1 { "is" } else { "are" };
    let names = first_of(clusters.iter().copied(), CLUSTERS_NAMED_MAX);
    format!("{}{of} {are} tried again: {names}", counted(clusters.len(), "failed cluster"))
}

/// Names a snapshot with its commit.
fn snapshot_text(pass: &Pass<'_>, index: u64) -> String {
    let commit = pass.state.snapshots.get(&index).map(|snapshot| format!(" ({})", snapshot.commit.short()));
    format!("snapshot {index}{}", commit.unwrap_or_default())
}

#[cfg(test)]
mod tests;
