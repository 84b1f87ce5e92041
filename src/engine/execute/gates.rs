//! Gates: which ones wait for a person, and what an approval or a rejection does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::{CommandTarget, Execution, execute, is_at_gate, is_waiting, policy, refusal, resolve};
use decide::Pass;
use decide::rollout::staged;
use decide::rollout::staged::GateName;
use decide::state::{FleetState, PlacementState};
use decide::status::staged_run::{asks, run_word};
use model::api::staged::RunState;
use model::commands::{Command, Person, Refusal, RefusalReason, Verb, WaitingGate};
use model::id::{ClusterName, Digest, PlacementKey};
use model::journal::JournalKind;
use model::rights::may;
use model::runs::{Approval, Channel, DELETION_GATE, RunCause, RunPhase, RunRecord, StagePhase, StageRecord};

/// Characters of a digest that must be shown at least.
const DIGEST_SHOWN_MIN: usize = 7;
/// Lines to copy that one refusal has.
const LINES_MAX: usize = 10;

/// Previews what an approval would open, and changes nothing. Without a stage it previews the run's waiting gate, so that a
/// client can show it to a person, who then names it.
///
/// # Errors
/// Why nothing would be opened, in the same words as the command.
pub fn preview(
    placements: &BTreeMap<PlacementKey, PlacementState>,
    fleet: &FleetState,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> Result<WaitingGate, Refusal> {
    let mut target = resolve(placements, command)?;
    let state = placements.get(&target.placement).expect("what was found there is there");
    may(person, command.verb, &policy(state, fleet, &target)).map_err(|why| refusal(RefusalReason::NotAllowed, why))?;
    if command.verb == Verb::Rollback {
        return rollback_preview(state, fleet, &target, command, person, now);
    }
    if target.stage.is_none()
        && let [gate] = &waiting_gates(state, &target)[..]
        && gate.stage != DELETION_GATE
    {
        target.stage = Some(gate.stage.clone());
    }
    let Some(gate) = waiting_gate(state, &target) else {
        // Executed only for its refusal message; the changed state is dropped.
        return Err(execute(state, fleet, &target, command, person, now)
            .err()
            .unwrap_or_else(|| nothing_waits(command)));
    };
    // With the full digest, so that only the gate itself can refuse the command.
    let named = Command { digest: Some(gate.digest.to_string()), ..command.clone() };
    execute(state, fleet, &target, &named, person, now)?;
    Ok(gate)
}

/// Previews which snapshot a rollback would return to.
fn rollback_preview(
    state: &PlacementState,
    fleet: &FleetState,
    target: &CommandTarget,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> Result<WaitingGate, Refusal> {
    let done = execute(state, fleet, target, command, person, now)?;
    let snapshot = done.goal;
    let digest = snapshot.and_then(|index| state.snapshots.get(&index)).map(|found| found.hash.clone());
    let clusters = state.bindings().filter(|b| !b.deleting && b.snapshot != snapshot).map(|b| b.cluster.clone());
    Ok(WaitingGate {
        name: state.word(),
        stage: String::new(),
        digest: digest.unwrap_or_else(|| Digest::from("")),
        clusters: clusters.collect(),
        opens: done.done.message,
        snapshot,
    })
}

/// Refuses an approval that does not name its gate or, if the configuration requires one, its digest. The answer lists the
/// waiting gates as commands to copy.
pub(super) fn check_specific(
    state: &PlacementState,
    fleet: &FleetState,
    target: &CommandTarget,
    command: &Command,
) -> Result<(), Refusal> {
    let lacks_digest = fleet.floor.digest && command.digest.is_none();
    if command.verb != Verb::Approve || (target.stage.is_some() && !lacks_digest) {
        return Ok(());
    }
    let gates: Vec<WaitingGate> = match &target.stage {
        Some(_) => waiting_gate(state, target).into_iter().collect(),
        None => waiting_gates(state, target),
    };
    if gates.is_empty() {
        return Err(nothing_waits(command));
    }
    let what = if target.stage.is_none() {
        "approve needs the stage"
    } else {
        "the configuration (policy.approvals.digest) requires the digest that the gate shows"
    };
    let lines = lines(gates.iter(), Verb::Approve);
    Err(refusal(RefusalReason::NotSpecific, format!("{what}{lines}")))
}

/// Returns what waits as lines to copy, the first of many; nothing where nothing waits.
pub(super) fn lines<'a>(gates: impl IntoIterator<Item = &'a WaitingGate>, verb: Verb) -> String {
    let line = |gate: &WaitingGate| format!("\n  {}  ({})", gate.line(verb), gate.opens);
    let lines: Vec<String> = gates.into_iter().map(line).collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    let more =
        if more > 0 { format!("\n  and {more} more; `gitfleet get approvals` lists them") } else { String::new() };
    if lines.is_empty() {
        String::new()
    } else {
        format!("; what waits:{}{more}", lines[..lines.len().min(LINES_MAX)].concat())
    }
}

/// Adds to the refusal of an answer to a gate the lines that answer what waits there. A comment has lines of its own.
pub(super) fn with_lines(
    refused: Refusal,
    state: &PlacementState,
    target: &CommandTarget,
    command: &Command,
    person: &Person,
) -> Refusal {
    let is_about_gate = matches!(refused.reason, RefusalReason::NotFound | RefusalReason::NotWaiting);
    if !is_about_gate || !is_at_gate(command.verb) || person.surface == Channel::Comment {
        return refused;
    }
    // An ended run is not the one that waits.
    let active = state.runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final());
    let active = active.filter(|run| asks(&state.record, run)).map(|run| run.name.clone());
    let gates = waiting_gates(state, &CommandTarget { run: active, ..target.clone() });
    Refusal { message: refused.message + &lines(&gates, command.verb), ..refused }
}

fn nothing_waits(command: &Command) -> Refusal {
    refusal(RefusalReason::NotWaiting, format!("no approval is pending for {}", command.target))
}

/// Returns every gate that waits for a person and that a command without a stage may mean: the run's, and the placement's
/// deletion gate.
pub(super) fn waiting_gates(state: &PlacementState, target: &CommandTarget) -> Vec<WaitingGate> {
    let of_run = waiting_gate(state, &CommandTarget { stage: None, ..target.clone() });
    let of_deletions = waiting_gate(state, &CommandTarget { stage: Some(DELETION_GATE.to_owned()), ..target.clone() });
    of_run.into_iter().chain(of_deletions).collect()
}

/// Returns the target gate if it waits for a person. Without a stage that is the run's gate.
pub(super) fn waiting_gate(of: &PlacementState, target: &CommandTarget) -> Option<WaitingGate> {
    if target.stage.as_deref() == Some(DELETION_GATE) {
        let gate = of.record.closed_gate()?;
        let clusters: Vec<ClusterName> = gate.deletions.keys().chain(&gate.leaving).cloned().collect();
        let objects: usize = gate.deletions.values().map(BTreeSet::len).sum();
        let opens = format!("{objects} objects on {} clusters are deleted or left: {}", clusters.len(), gate.reason);
        let name = of.word();
        let stage = DELETION_GATE.to_owned();
        return Some(WaitingGate { name, stage, digest: gate.digest.clone(), clusters, opens, snapshot: None });
    }
    let run = of.runs.get(target.run.as_ref()?).filter(|run| !run.phase.is_final() && !of.record.removed)?;
    let (at, stage) = run.stages.iter().enumerate().find(|(_, stage)| is_waiting(stage.phase))?;
    let is_open = staged::waits_for_person(stage);
    if !is_open || target.stage.as_ref().is_some_and(|named| *named != stage.name) {
        return None;
    }
    // What an empty stage holds back is the next stage with clusters.
    let from = if stage.phase == StagePhase::WaitingBefore { at } else { at + 1 };
    let next = run.stages[from..].iter().find(|stage| stage.remaining().next().is_some());
    let clusters: Vec<ClusterName> = next.iter().flat_map(|s| s.remaining()).map(|c| c.name.clone()).collect();
    let name = run_word(run, of.shared_name);
    let opens = next.map_or_else(|| "no stage is left after it".to_owned(), |next| opens(stage, next));
    let opens = until(of, run).map_or_else(|| opens.clone(), |until| format!("{until}; then {opens}"));
    Some(WaitingGate { name, stage: stage.name.clone(), digest: stage.digest.clone(), clusters, opens, snapshot: None })
}

/// Returns what has to happen beside an approval before a run continues; `None` if nothing.
fn until(of: &PlacementState, run: &RunRecord) -> Option<String> {
    let is_stopped = matches!(run.phase, RunPhase::Initialized | RunPhase::Stopping | RunPhase::Stopped);
    if of.record.paused.is_some() {
        return Some(format!("nothing begins until `gitfleet resume {}`", of.word()));
    }
    let says = run.state.filter(|state| is_stopped && *state != RunState::Run)?;
    Some(format!(
        "the run {} is stopped: its document says `state: {says:?}`, and it continues only with `state: Run`",
        run.name
    ))
}

fn opens(waiting: &StageRecord, next: &StageRecord) -> String {
    let count = next.remaining().count();
    let at_once = next.max_concurrency;
    let clusters = if count == 1 { "1 cluster".to_owned() } else { format!("{count} clusters, {at_once} at once") };
    if waiting.name == next.name {
        format!("stage {} begins: {clusters}", next.name)
    } else {
        format!("the run continues after stage {}, to stage {}: {clusters}", waiting.name, next.name)
    }
}

impl Execution<'_> {
    /// Returns the target run and gate.
    fn gate(&self, state: &PlacementState) -> Result<(RunRecord, GateName), Refusal> {
        let nothing = || {
            let message = format!("no approval is pending for {}", self.command.target);
            refusal(RefusalReason::NotWaiting, message)
        };
        if state.record.removed && !state.runs.values().all(|run| run.phase.is_final()) {
            let message = format!(
                "git has no {} {} any more; a run of it waits until git has it again, and asks then",
                self.target.placement.kind(),
                self.target.placement
            );
            return Err(refusal(RefusalReason::NotWaiting, message));
        }
        let run = self.target.run.as_ref().and_then(|name| state.runs.get(name)).ok_or_else(nothing)?;
        if run.phase == RunPhase::Initialized {
            let message = format!(
                "the run {} has not begun; it begins with `state: Run` in its document, and asks then",
                run.name
            );
            return Err(refusal(RefusalReason::NotWaiting, message));
        }
        let waiting = run.stages.iter().find(|stage| is_waiting(stage.phase)).map(|stage| stage.name.clone());
        let named = self.target.stage.clone().or(waiting).ok_or_else(nothing)?;
        Ok((run.clone(), GateName { run: run.name.clone(), stage: named, gate: self.target.gate }))
    }

    pub(super) fn approve(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let (mut run, at) = self.gate(&pass.state)?;
        let opens = waiting_gate(&pass.state, self.target).map(|gate| (gate.digest.short().to_owned(), gate.opens));
        let approved = staged::approve(&mut run, &at, self.person, self.command, &self.policy, self.now);
        // The run's own name may be that of something else.
        let approved = approved.map_err(|refused| {
            let bare = format!("gitfleet retry {}", at.run);
            let line = self.line(&pass.state, Verb::Retry);
            Refusal { message: refused.message.replace(&bare, &line), ..refused }
        })?;
        let digest = run.stages.iter().find(|stage| stage.name == at.stage).map(|stage| stage.digest.clone());
        let opened = approved.opened;
        let facts =
            json!({"run": at.run, "stage": at.stage, "person": self.person.name, "digest": digest, "opened": opened});
        pass.note(JournalKind::Approved, None, facts);
        pass.state.runs.insert(run);
        let (shown, opens) = opens.unwrap_or_default();
        Ok(if opened {
            format!("approved: {}: {opens}; approved was digest {shown}", at.run)
        } else {
            format!(
                "approved: {} of {} approvals of stage {} of {}; approved was digest {shown}",
                approved.given, approved.required, at.stage, at.run
            )
        })
    }

    pub(super) fn reject(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let (mut run, at) = self.gate(&pass.state)?;
        staged::reject(&mut run, &at, self.person, self.command, self.now)?;
        let snapshot = run.snapshot();
        let message = run.message.clone();
        let is_rollback = matches!(run.cause, RunCause::Rollback { .. });
        pass.state.runs.insert(run);
        // A rejected rollback does not hold the snapshot it would return to; the snapshot it would leave stays held.
        let is_new = |index: &u64| !is_rollback && !pass.has_succeeded(*index);
        let what = match snapshot.filter(is_new) {
            Some(index) => {
                pass.hold(index, format!("was rejected: {message}"));
                "its snapshot is held"
            }
            None => "its clusters stay as they are",
        };
        Ok(format!("rejected: {} ends, and {what} until `{}`", at.run, self.line(&pass.state, Verb::Retry)))
    }

    /// Approves or rejects the waiting deletions.
    pub(super) fn decide_deletions(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.target.placement;
        let rules = pass.fleet.approvals;
        let Some(gate) = pass.state.record.deletion_gate.as_mut().filter(|gate| gate.opened_at.is_none()) else {
            return Err(refusal(RefusalReason::NotWaiting, format!("no deletion of {key} is pending")));
        };
        if let Some(shown) = &self.command.digest
            && (shown.len() < DIGEST_SHOWN_MIN || !gate.digest.as_str().starts_with(shown.as_str()))
        {
            let message = format!(
                "the deletions that wait have digest {}, not {shown}; look again before approving",
                gate.digest
            );
            return Err(refusal(RefusalReason::DigestMismatch, message));
        }
        if self.command.verb == Verb::Reject {
            // After a rejection everybody who approved has to approve again.
            gate.approvals.clear();
            return Ok(format!("the deletions of {key} stay held; revert the commit that wants them"));
        }
        let counts = |approval: &Approval| {
            let age = Duration::try_from(self.now.duration_since(approval.at)).unwrap_or_default();
            age <= rules.expire_after
                && !approval.is_by(self.person)
                && may(&approval.by, Verb::Approve, &self.policy).is_ok()
        };
        gate.approvals.retain(counts);
        gate.approvals.push(Approval {
            by: self.person.clone(),
            at: self.now,
            digest: gate.digest.clone(),
            reason: self.command.reason.clone(),
            message: self.command.message.clone(),
        });
        let voices = u32::try_from(gate.approvals.len()).unwrap_or(u32::MAX);
        let digest = gate.digest.clone();
        let opened = voices >= rules.required;
        let shown = digest.short();
        let what = if gate.deletions.is_empty() { "clusters that left" } else { "deletions" };
        gate.opened_at = opened.then_some(self.now);
        let facts = json!({"stage": DELETION_GATE, "person": self.person.name, "digest": digest, "opened": opened});
        pass.note(JournalKind::Approved, None, facts);
        Ok(if opened {
            format!("approved digest {shown}: {key} continues with the {what}")
        } else {
            format!(
                "approved; the {what} of {key} wait for more approvals, {} in all; approved was digest {shown}",
                rules.required
            )
        })
    }
}
