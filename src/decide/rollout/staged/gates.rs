//! Gates: approvals and rejections, and when a gate opens.

use jiff::{SignedDuration, Timestamp};

use model::api::staged::StageTaskType;
use model::commands::{Command, Person, Refusal, RefusalReason, Verb};
use model::id::Digest;
use model::runs::{
    Approval, ApprovalRules, Gate, RunPhase, RunRecord, StagePhase, StageRecord, TaskRecord, request_name,
};

use super::phases::end_run;
use model::rights::{Policy, may};

/// The least digits of a digest that identify it.
const DIGEST_PREFIX_MIN: usize = 7;

/// A gate, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GateName {
    /// The run.
    pub run: String,
    /// The stage.
    pub stage: String,
    /// The side; absent means the one that waits.
    pub gate: Option<Gate>,
}

/// The result of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approved {
    /// Whether the gate is open now.
    pub opened: bool,
    /// The number of valid approvals.
    pub given: u32,
    /// The number of required approvals.
    pub required: u32,
}

/// Returns the gates with the name of an approval request, among the stages of `runs` with approvals: `RUN-before-STAGE`,
/// `RUN-after-STAGE`, and `RUN-STAGE`. There may be several, if names of runs overlap.
pub fn named_request<'a>(name: &str, runs: impl IntoIterator<Item = &'a RunRecord>) -> Vec<GateName> {
    let mut found = Vec::new();
    for run in runs {
        let Some(rest) = name.strip_prefix(run.name.as_str()).and_then(|rest| rest.strip_prefix('-')) else { continue };
        for stage in run.stages.iter().filter(|stage| has_approval(&stage.before) || has_approval(&stage.after)) {
            let Some(side) = rest.strip_suffix(stage.name.as_str()) else { continue };
            let gate = match side {
                "" => None,
                "before-" if has_approval(&stage.before) => Some(Gate::Before),
                "after-" if has_approval(&stage.after) => Some(Gate::After),
                _ => continue,
            };
            found.push(GateName { run: run.name.clone(), stage: stage.name.clone(), gate });
        }
    }
    found
}

fn has_approval(tasks: &[TaskRecord]) -> bool {
    tasks.iter().any(|task| task.type_ == StageTaskType::Approval)
}

/// Records an approval at a gate of a run. The gate opens when as many different people as `rules` requires have approved
/// exactly the stage's digest, with approvals that have not expired; it never closes again. The caller has authorized the
/// person; earlier approvals are authorized again, by the present policy.
///
/// # Errors
/// Nothing waits there, the request or the digest differs or has expired, or the person has approved already. Nothing has
/// changed then.
pub fn approve(
    run: &mut RunRecord,
    at: &GateName,
    person: &Person,
    command: &Command,
    policy: &Policy<'_>,
    now: Timestamp,
) -> Result<Approved, Refusal> {
    let rules = policy.rules;
    let stage = waiting(run, at)?;
    let digest = stage.digest.clone();
    check_digest(stage, command.digest.as_deref())?;
    let name = stage.name.clone();
    let task = open_task(stage).ok_or_else(|| nothing_waits(&name))?;
    if task.asked_at.is_some_and(|asked| is_over(asked, rules, now)) {
        let message = format!(
            "the approval of stage {name} was asked for more than {:#} ago and is not taken any more; `gitfleet retry {}` asks again",
            signed(rules),
            at.run
        );
        return Err(refusal(RefusalReason::Expired, message));
    }
    let mut own = task.approvals.iter().filter(|approval| approval.is_by(person));
    if let Some(earlier) = own.find(|approval| counts(approval, &digest, rules, now)) {
        let message = format!(
            "{} approved stage {name} already at {}; {} of {} approvals are there, and the next must come from somebody else",
            person.name,
            earlier.at,
            voices(task, &digest, rules, now),
            required(rules)
        );
        return Err(refusal(RefusalReason::NotPossible, message));
    }
    // One approval per person: a second one replaces the first.
    task.approvals.retain(|approval| !approval.is_by(person) && may(&approval.by, Verb::Approve, policy).is_ok());
    task.approvals.push(Approval {
        by: person.clone(),
        at: now,
        digest: digest.clone(),
        reason: command.reason.clone(),
        message: command.message.clone(),
    });
    let opened = evaluate(task, &digest, rules, now);
    Ok(Approved { opened, given: voices(task, &digest, rules, now), required: required(rules) })
}

/// Records a rejection at a gate: the run ends.
///
/// # Errors
/// Nothing waits there, or the digest differs. Nothing has changed then.
pub fn reject(
    run: &mut RunRecord,
    at: &GateName,
    person: &Person,
    command: &Command,
    now: Timestamp,
) -> Result<(), Refusal> {
    let stage = waiting(run, at)?;
    check_digest(stage, command.digest.as_deref())?;
    let name = stage.name.clone();
    // A stage that only waits for its timer has no request to reject.
    let _ = open_task(stage).ok_or_else(|| nothing_waits(&name))?;
    let said = format!("{} rejected stage {name}", person.name);
    let why = command.reason.iter().chain(&command.message);
    let said = why.fold(said, |said, why| said + ": " + why);
    end_run(run, RunPhase::Rejected, said, now);
    Ok(())
}

/// Marks a task as done if it has enough approvals. Returns whether it is done.
pub(super) fn evaluate(task: &mut TaskRecord, digest: &Digest, rules: ApprovalRules, now: Timestamp) -> bool {
    if task.done_at.is_none() && voices(task, digest, rules, now) >= required(rules) {
        task.done_at = Some(now);
    }
    task.expired = task.done_at.is_none() && task.asked_at.is_some_and(|asked| is_over(asked, rules, now));
    task.done_at.is_some()
}

/// Describes how many of the required approvals are valid.
pub(super) fn tally(task: &TaskRecord, digest: &Digest, rules: ApprovalRules, now: Timestamp) -> String {
    format!("{} of {}", voices(task, digest, rules, now), required(rules))
}

/// Returns when the request, or an approval of it, expires; the next such instant after `now`.
pub(super) fn expires_at(task: &TaskRecord, rules: ApprovalRules, now: Timestamp) -> Option<Timestamp> {
    let starts = task.asked_at.into_iter().chain(task.approvals.iter().map(|approval| approval.at));
    starts.filter_map(|at| at.checked_add(signed(rules)).ok()).filter(|at| *at > now).min()
}

/// Repeats an expired request; returns whether it did.
pub(super) fn ask_again(task: &mut TaskRecord, rules: ApprovalRules, now: Timestamp) -> bool {
    let is_due = task.done_at.is_none() && task.asked_at.is_some_and(|asked| is_over(asked, rules, now));
    if is_due {
        task.asked_at = Some(now);
        task.expired = false;
        // Valid approvals stay valid.
        task.approvals.retain(|approval| !is_over(approval.at, rules, now));
    }
    is_due
}

/// Returns the named stage, if it waits for an approval on that side.
fn waiting<'a>(run: &'a mut RunRecord, at: &GateName) -> Result<&'a mut StageRecord, Refusal> {
    let is_final = run.phase.is_final();
    if !run.stages.iter().any(|stage| stage.name == at.stage) {
        let known: Vec<&str> = run.stages.iter().map(|stage| stage.name.as_str()).collect();
        let message = format!("run {} has no stage {}; its stages are: {}", run.name, at.stage, known.join(", "));
        return Err(refusal(RefusalReason::NotFound, message));
    }
    let stage = run.stages.iter_mut().find(|stage| stage.name == at.stage);
    let Some(stage) = (if is_final { None } else { stage }) else {
        return Err(refusal(RefusalReason::NotWaiting, format!("run {} has ended: nothing waits", at.run)));
    };
    let side = match stage.phase {
        StagePhase::WaitingBefore => Gate::Before,
        StagePhase::WaitingAfter => Gate::After,
        _ => {
            let message = format!("stage {} does not wait for an approval now", stage.name);
            return Err(refusal(RefusalReason::NotWaiting, message));
        }
    };
    // The gates before and after a stage are different requests: an answer to one must not count for the other.
    if at.gate.is_some_and(|gate| gate != side) {
        let message = format!(
            "{} does not wait; what waits is {}",
            request_name(&at.run, &at.stage, if side == Gate::Before { Gate::After } else { Gate::Before }),
            request_name(&at.run, &at.stage, side)
        );
        return Err(refusal(RefusalReason::NotWaiting, message));
    }
    Ok(stage)
}

/// Tells whether a stage waits for an approval.
pub fn waits_for_person(stage: &StageRecord) -> bool {
    let tasks = match stage.phase {
        StagePhase::WaitingBefore => &stage.before,
        StagePhase::WaitingAfter => &stage.after,
        _ => return false,
    };
    tasks.iter().any(|task| task.type_ == StageTaskType::Approval && task.done_at.is_none())
}

/// Returns the approval task that a stage waits for.
fn open_task(stage: &mut StageRecord) -> Option<&mut TaskRecord> {
    let tasks = if stage.phase == StagePhase::WaitingBefore { &mut stage.before } else { &mut stage.after };
    tasks.iter_mut().find(|task| task.type_ == StageTaskType::Approval && task.done_at.is_none())
}

fn nothing_waits(stage: &str) -> Refusal {
    refusal(
        RefusalReason::NotWaiting,
        format!("stage {stage} needs no approval: it is approved, or only waits for its timer or its checks"),
    )
}

fn check_digest(stage: &StageRecord, shown: Option<&str>) -> Result<(), Refusal> {
    // The caller checks whether the configuration requires a digest.
    let Some(shown) = shown else { return Ok(()) };
    let digest = stage.digest.as_str();
    if digest == shown || (shown.len() >= DIGEST_PREFIX_MIN && digest.starts_with(shown)) {
        return Ok(());
    }
    let message = if shown.len() < DIGEST_PREFIX_MIN {
        format!("the digest {shown:?} is too short: give at least {DIGEST_PREFIX_MIN} characters of it")
    } else {
        format!("stage {} is at digest {digest}, not {shown}: check what it would do now, and decide again", stage.name)
    };
    Err(refusal(RefusalReason::DigestMismatch, message))
}

fn refusal(reason: RefusalReason, message: String) -> Refusal {
    Refusal { reason, message }
}

fn required(rules: ApprovalRules) -> u32 {
    // Even if the configuration says 0: no gate opens without an approval.
    rules.required.max(1)
}

/// Returns the number of valid approvals. Every person has at most one.
fn voices(task: &TaskRecord, digest: &Digest, rules: ApprovalRules, now: Timestamp) -> u32 {
    let count = task.approvals.iter().filter(|approval| counts(approval, digest, rules, now)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn counts(approval: &Approval, digest: &Digest, rules: ApprovalRules, now: Timestamp) -> bool {
    approval.digest == *digest && !is_over(approval.at, rules, now)
}

fn is_over(from: Timestamp, rules: ApprovalRules, now: Timestamp) -> bool {
    now.duration_since(from) >= signed(rules)
}

fn signed(rules: ApprovalRules) -> SignedDuration {
    SignedDuration::try_from(rules.expire_after).unwrap_or(SignedDuration::MAX)
}
