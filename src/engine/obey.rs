//! What people command, whatever surface they do it on: one function finds what is meant, one carries it out. Both are pure.
//!
//! A command changes records and nothing else; what follows from it is decided as ever. So it is written down before anything
//! happens because of it, and a crash loses none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::decide::{Pass, deletion_approvers};
use super::persist::{self, SOURCE_NAME};
use super::world::{PlacementState, World};
use crate::api::annotations::STAGED_UPDATE_STRATEGY;
use crate::api::placement::StrategyType;
use crate::model::commands::{Command, Done, Person, Refusal, RefusalReason, Verb};
use crate::model::id::{ClusterName, CommitId, PlacementKey};
use crate::model::records::{JournalEntry, Pause, SourceRecord};
use crate::model::runs::{Approval, ApprovalRules, DELETION_GATE, Gate, RunCause, RunPhase, RunRecord, StagePhase};
use crate::rollout::rights::{Policy, may};
use crate::rollout::staged::{self, Event, GateName, named_request};
use crate::store::{self, Expected, Op, Store, records};

/// Characters of a digest that must be shown at least.
const DIGEST_SHOWN_MIN: usize = 7;

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// The placement.
    pub placement: PlacementKey,
    /// The run, where one is named or under way.
    pub run: Option<String>,
    /// The stage, or [`DELETION_GATE`].
    pub stage: Option<String>,
    /// Which side of the stage; absent is the one that waits.
    pub gate: Option<Gate>,
}

/// A placement after a command.
#[derive(Debug)]
pub struct Obeyed {
    /// How it stands now.
    pub state: PlacementState,
    /// What happened.
    pub journal: Vec<JournalEntry>,
    /// The answer.
    pub done: Done,
}

fn refusal(reason: RefusalReason, message: impl Into<String>) -> Refusal {
    Refusal { reason, message: message.into() }
}

/// Finds what a command is about: a run by its name, a gate by its request's, or a placement. A placement stands for the run
/// that is under way, and for its deletion gate where that is closed.
///
/// # Errors
/// Nothing has the name, or more than one thing has.
pub fn resolve(placements: &BTreeMap<PlacementKey, PlacementState>, command: &Command) -> Result<Aim, Refusal> {
    let Ok(named) = command.target.parse::<PlacementKey>();
    let is_in_place = |key: &PlacementKey| named.namespace.is_none() || key.namespace == named.namespace;
    let mut aims: Vec<Aim> = Vec::new();
    for (key, state) in placements.iter().filter(|(key, _)| is_in_place(key)) {
        if state.runs.contains_key(&named.name) {
            let run = Some(named.name.clone());
            aims.push(Aim { placement: key.clone(), run, stage: command.stage.clone(), gate: None });
        } else if command.stage.is_none() {
            let requests = named_request(&named.name, state.runs.values());
            aims.extend(requests.into_iter().map(|request| Aim {
                placement: key.clone(),
                run: Some(request.run),
                stage: Some(request.stage),
                gate: request.gate,
            }));
            if named.name == format!("{}-{DELETION_GATE}", key.name) {
                let stage = Some(DELETION_GATE.to_owned());
                aims.push(Aim { placement: key.clone(), run: None, stage, gate: None });
            }
        }
    }
    // A run of one placement may be called as another placement is: `web-1`. A pause is of placements; what may be meant
    // otherwise is not done.
    let is_of_placements = matches!(command.verb, Verb::Pause | Verb::Resume);
    let is_of_run = command.stage.as_ref().is_some_and(|stage| stage != DELETION_GATE);
    let is_unclear = !is_of_run && !is_of_placements;
    if aims.is_empty() || is_of_placements || is_unclear {
        let of_name = placements.iter().filter(|(key, _)| key.name == named.name && is_in_place(key));
        let is_whole = matches!(command.verb, Verb::Retry | Verb::Rollback);
        // A run that is called as its own placement: the whole of it is meant either way.
        let is_known = |key: &PlacementKey| is_whole && aims.iter().any(|aim| aim.placement == *key);
        let of_name = of_name.filter(|(key, _)| !is_known(key));
        let of_name: Vec<Aim> = of_name.map(|(key, state)| aim_at(key, state, command)).collect();
        if is_of_placements && !of_name.is_empty() {
            aims.clear();
        }
        aims.extend(of_name);
    }
    match aims.len() {
        0 => Err(refusal(
            RefusalReason::NotFound,
            format!(
                "nothing is called {}: no run, no approval request, no placement; `gitfleet get runs` lists runs",
                command.target
            ),
        )),
        1 => Ok(aims.remove(0)),
        _ => {
            let all: Vec<String> =
                aims.iter().map(|aim| format!("{} {}", aim.placement.kind(), aim.placement)).collect();
            let message = format!("{} fits {}; name one as NAMESPACE/NAME", command.target, all.join(" and "));
            Err(refusal(RefusalReason::Ambiguous, message))
        }
    }
}

fn aim_at(key: &PlacementKey, state: &PlacementState, command: &Command) -> Aim {
    let active = state.runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final());
    // Of a placement that is removed nothing moves: its runs wait for it to come back.
    let active = active.filter(|_| !state.record.removed);
    let waiting = active.and_then(|run| run.stages.iter().find(|stage| is_waiting(stage.phase)));
    let deletion = state.record.closed_gate().map(|_| DELETION_GATE.to_owned());
    let gate = waiting.map(|stage| stage.name.clone()).or(deletion);
    let named = command.stage.clone().or(gate);
    let is_deletion = named.as_deref() == Some(DELETION_GATE);
    let run = active.filter(|_| !is_deletion).map(|run| run.name.clone());
    Aim { placement: key.clone(), run, stage: named, gate: None }
}

fn is_waiting(phase: StagePhase) -> bool {
    matches!(phase, StagePhase::WaitingBefore | StagePhase::WaitingAfter)
}

/// Carries out a command on the placement it is about.
///
/// # Errors
/// Why it is not carried out; nothing has changed then.
pub fn obey(
    state: &PlacementState,
    world: &World,
    aim: &Aim,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> Result<Obeyed, Refusal> {
    let run = aim.run.as_ref().and_then(|name| state.runs.get(name));
    let narrowed = match aim.stage.as_deref() {
        Some(DELETION_GATE) => deletion_approvers(state, world),
        _ => run.and_then(|run| run.approvers.as_deref()),
    };
    let policy = Policy { rules: world.approvals, approvers: &world.approvers, narrowed };
    may(person, command.verb, &policy).map_err(|why| refusal(RefusalReason::NotAllowed, why))?;
    let mut pass = Pass::new(state.clone(), world, now);
    let wish = Wish { aim, command, person, policy, now };
    let message = match command.verb {
        Verb::Approve | Verb::Reject if aim.stage.as_deref() == Some(DELETION_GATE) => wish.judge_deletions(&mut pass),
        Verb::Approve => wish.approve(&mut pass),
        Verb::Reject => wish.reject(&mut pass),
        Verb::Pause => wish.pause(&mut pass),
        Verb::Resume => wish.resume(&mut pass),
        Verb::Retry => wish.retry(&mut pass),
        Verb::Rollback => wish.roll_back(&mut pass),
    }?;
    let facts = json!({
        "verb": command.verb, "target": command.target, "stage": aim.stage, "person": person.name,
        "surface": person.surface, "reason": command.reason, "message": command.message,
    });
    pass.note("Commanded", None, facts);
    Ok(Obeyed { state: pass.state, journal: pass.journal, done: Done { message, at: now } })
}

struct Wish<'a> {
    aim: &'a Aim,
    command: &'a Command,
    person: &'a Person,
    policy: Policy<'a>,
    now: Timestamp,
}

impl Wish<'_> {
    /// Returns the run and the gate that are meant.
    fn gate(&self, state: &PlacementState) -> Result<(RunRecord, GateName), Refusal> {
        let nothing = || {
            let message = format!("nothing of {} waits for a person", self.command.target);
            refusal(RefusalReason::NotWaiting, message)
        };
        let run = self.aim.run.as_ref().and_then(|name| state.runs.get(name)).ok_or_else(nothing)?;
        let waiting = run.stages.iter().find(|stage| is_waiting(stage.phase)).map(|stage| stage.name.clone());
        let named = self.aim.stage.clone().or(waiting).ok_or_else(nothing)?;
        Ok((run.clone(), GateName { run: run.name.clone(), stage: named, gate: self.aim.gate }))
    }

    fn approve(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let (mut run, at) = self.gate(&pass.state)?;
        let approved = staged::approve(&mut run, &at, self.person, self.command, &self.policy, self.now)?;
        let digest = run.stages.iter().find(|stage| stage.name == at.stage).map(|stage| stage.digest.clone());
        let opened = approved.opened;
        let facts =
            json!({"run": at.run, "stage": at.stage, "person": self.person.name, "digest": digest, "opened": opened});
        pass.note("Approved", None, facts);
        pass.state.runs.insert(run);
        Ok(if opened {
            format!("approved: {} goes on after stage {}", at.run, at.stage)
        } else {
            format!(
                "approved: {} of {} approvals of stage {} of {}",
                approved.given, approved.required, at.stage, at.run
            )
        })
    }

    fn reject(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let (mut run, at) = self.gate(&pass.state)?;
        staged::reject(&mut run, &at, self.person, self.command, self.now)?;
        let (snapshot, message) = (run.snapshot(), run.message.clone());
        let is_rollback = matches!(run.cause, RunCause::Rollback { .. });
        pass.state.runs.insert(run);
        // Where a rollback would have gone is not what is held, but what it would have left.
        let is_new = |index: &u64| !is_rollback && !pass.has_succeeded(*index);
        let what = match snapshot.filter(is_new) {
            Some(index) => {
                pass.hold(index, format!("was rejected: {message}"));
                "its snapshot is held"
            }
            None => "its clusters stay as they are",
        };
        Ok(format!("rejected: {} ends, and {what} until `gitfleet retry {}`", at.run, self.aim.placement))
    }

    /// Approves or rejects the deletions that wait.
    fn judge_deletions(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.aim.placement;
        let rules = pass.world.approvals;
        let Some(gate) = pass.state.record.deletion_gate.as_mut().filter(|gate| gate.opened_at.is_none()) else {
            return Err(refusal(RefusalReason::NotWaiting, format!("no deletion of {key} waits for a person")));
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
        let (digest, opened) = (gate.digest.clone(), voices >= rules.required);
        let what = if gate.deletions.is_empty() { "clusters that left" } else { "deletions" };
        gate.opened_at = opened.then_some(self.now);
        let facts = json!({"stage": DELETION_GATE, "person": self.person.name, "digest": digest, "opened": opened});
        pass.note("Approved", None, facts);
        Ok(if opened {
            format!("approved: {key} goes on, and the {what} go")
        } else {
            format!("approved; the {what} of {key} wait for more approvals, {} in all", rules.required)
        })
    }

    fn pause(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.aim.placement;
        if let Some(pause) = &pass.state.record.paused {
            return Err(refusal(RefusalReason::NotPossible, format!("{key} was paused by {} already", pause.by)));
        }
        let reason = self.command.reason.clone();
        pass.state.record.paused = Some(Pause { by: self.person.name.clone(), at: self.now, reason });
        Ok(format!("paused: nothing new is started for {key} until `gitfleet resume {key}`"))
    }

    fn resume(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.aim.placement;
        let Some(pause) = pass.state.record.paused.take() else {
            return Err(refusal(RefusalReason::NotPossible, format!("{key} is not paused")));
        };
        // A deadline that ran while nothing was done about it is no verdict: what is on its way has as long again.
        let paused_for = self.now.duration_since(pause.at);
        for binding in pass.state.bindings.values_mut().map(Arc::make_mut) {
            binding.started_at = binding.started_at.and_then(|at| at.checked_add(paused_for).ok());
        }
        let failed = pass.failed_bindings();
        let failed: BTreeSet<ClusterName> =
            failed.iter().filter_map(|name| Some(pass.state.bindings.get(name)?.cluster.clone())).collect();
        let active = pass.active_run().or_else(|| pass.last_run()).map(|run| run.name.clone());
        if let Some(run) = active.and_then(|name| pass.state.runs.get_mut(&name)) {
            staged::forgive(run, pause.at, |cluster| failed.contains(cluster), self.now);
        }
        Ok(format!("resumed: {key} goes on"))
    }

    /// Gives failed clusters another try, and a held snapshot another rollout.
    fn retry(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.aim.placement;
        let mut what = Vec::new();
        let mut nothing = format!("nothing of {key} failed or is held");
        let is_external = pass.state.record.spec.strategy.type_ == StrategyType::External;
        let is_written = is_external && !pass.state.record.annotations.contains_key(STAGED_UPDATE_STRATEGY);
        if let Some(index) = pass.state.record.held.as_ref().map(|held| held.index) {
            let run = Some(index).filter(|_| is_written).and_then(|index| pass.begin_written_again(index));
            if is_written && run.is_none() {
                nothing = format!(
                    "{key} names no staged update strategy, so nothing goes to snapshot {index} by itself; write a run with \
                     resourceSnapshotIndex {index}"
                );
            } else {
                let record = &mut pass.state.record;
                (record.held, record.goal, record.last_automatic) = (None, None, None);
                let by = run.map(|run| format!(" by the run {run}")).unwrap_or_default();
                what.push(format!("snapshot {index} is rolled out again{by}"));
            }
        }
        for (rejected, by) in pass.ask_for_rejected() {
            what.push(format!("what {rejected} was to do is asked for again by {by}"));
        }
        let tried = pass.active_run().or_else(|| pass.last_run().filter(|_| is_external)).map(|run| run.name.clone());
        if let Some(run) = tried.and_then(|name| pass.state.runs.get_mut(&name)) {
            let rules = pass.world.approvals;
            let notes = staged::retry(run, rules, self.now);
            let tried = notes.iter().filter(|note| note.event == Event::ClusterRetried).count();
            let asked = notes.len() - tried;
            if tried > 0 {
                what.push(format!("{tried} failed clusters of {} are tried again", run.name));
            }
            if asked > 0 {
                what.push(format!("{} asks for approval again", run.name));
            }
        } else if !is_external {
            let failed = pass.failed_bindings();
            for name in &failed {
                if let Some(binding) = pass.state.bindings.get_mut(name).map(Arc::make_mut) {
                    binding.started_at = Some(self.now);
                    binding.generation += 1;
                }
            }
            if !failed.is_empty() {
                what.push(format!("{} failed clusters are tried again", failed.len()));
            }
        }
        if what.is_empty() {
            return Err(refusal(RefusalReason::NotPossible, nothing));
        }
        Ok(what.join("; "))
    }

    /// Returns the snapshot that is named by its index or by its commit; the newest of several of one commit.
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
                    format!("no snapshot of {} is from commit {commit}; there are {known}", self.aim.placement);
                Err(refusal(RefusalReason::SnapshotGone, message))
            }
            _ => {
                Err(refusal(RefusalReason::Ambiguous, format!("{commit} fits more than one commit; write more of it")))
            }
        }
    }

    fn roll_back(&self, pass: &mut Pass<'_>) -> Result<String, Refusal> {
        let key = &self.aim.placement;
        let state = &pass.state;
        let is_external = state.record.spec.strategy.type_ == StrategyType::External;
        let named = self.aim.run.as_ref().and_then(|name| state.runs.get(name));
        let run = state.runs.values().filter(|run| run.frozen.is_some()).max_by_key(|run| run.sequence);
        if let Some(named) = named.filter(|named| is_external && run.is_none_or(|run| run.name != named.name)) {
            let last = run.map_or_else(
                || "it has moved nothing".to_owned(),
                |run| format!("the last that moved clusters of {key} is {}", run.name),
            );
            let message = format!("the run {} cannot be rolled back: {last}", named.name);
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
        let Some(to) = self.wanted_snapshot(state)?.or(state.record.last_succeeded) else {
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
        if current == Some(to) {
            return Err(refusal(RefusalReason::NotPossible, format!("{key} is at snapshot {to} already")));
        }
        let why = format!("{} rolled back", self.person.name);
        if !is_external {
            pass.return_to(to, &why);
            return Ok(format!("rolling back {key} to snapshot {to}"));
        }
        let Some(run) = run.map(|run| run.name.clone()) else {
            let message = format!("no run of {key} has moved anything; write a run with resourceSnapshotIndex {to}");
            return Err(refusal(RefusalReason::NotPossible, message));
        };
        let name = pass.begin_rollback(&run, to, Some(self.person.name.clone()));
        Ok(format!("rolling back {key} to snapshot {to} by the run {name}"))
    }
}

/// Carries out a command on the records of a store that no daemon holds.
///
/// # Errors
/// The store cannot be read or written. A command that is not carried out is no error: the answer says why.
pub fn obey_in_store(
    store: &dyn Store,
    rules: ApprovalRules,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> store::Result<Result<Done, Refusal>> {
    if command.target.is_empty() {
        let key = records::source_key(SOURCE_NAME);
        let mut source = records::load::<SourceRecord>(store, &key)?.map(|record| record.value).unwrap_or_default();
        let answer = let_in(&mut source, command, now);
        if answer.is_ok() {
            store.batch(vec![records::put(key, &source, Expected::Any)?])?;
        }
        return Ok(answer.map(|(_, done)| done));
    }
    let placements = persist::load(store)?;
    let world = World { approvals: rules, ..World::default() };
    let obeyed = resolve(&placements, command).and_then(|aim| {
        let state = placements.get(&aim.placement).expect("what was found there is there");
        obey(state, &world, &aim, command, person, now).map(|obeyed| (state, obeyed))
    });
    let (before, obeyed) = match obeyed {
        Ok(obeyed) => obeyed,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut ops = persist::difference(Some(before), Some(&obeyed.state))?;
    ops.extend(obeyed.journal.into_iter().map(Op::Journal));
    store.batch(ops)?;
    Ok(Ok(obeyed.done))
}

/// Lets the rewritten history in that the source holds back. Returns the commit that may come into force.
///
/// # Errors
/// The command is not for the source, or nothing is held back.
pub fn let_in(source: &mut SourceRecord, command: &Command, now: Timestamp) -> Result<(CommitId, Done), Refusal> {
    if command.verb != Verb::Resume {
        return Err(refusal(RefusalReason::NotFound, "name a run or a placement"));
    }
    let Some(commit) = source.held_rewrite.clone() else {
        return Err(refusal(
            RefusalReason::NotPossible,
            "no rewritten history is held back; to resume a placement, name it",
        ));
    };
    source.let_in = Some(commit.clone());
    Ok((commit.clone(), Done { message: format!("the rewritten history is let in at {}", commit.short()), at: now }))
}
