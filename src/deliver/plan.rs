//! What to do next on a member for one work: apply by waves, then prune, then record.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::drift::{self, RECHECK_INTERVAL};
use super::inventory::{Held, Parent, applyset_id, group_kind};
use super::kept;
use super::left_overs::{LeftOvers, left_overs};
use super::live::LiveObject;
use super::progress::{Attempt, Progress};
use super::step::{MemberView, Plan, State, Step, Verdict, is_ours, retry_delay};
use super::waves::{definition_pending, wave};
use crate::api::placement::{ApplyStrategyType, WhenToApply};
use crate::model::id::Digest;
use crate::model::records::ApplyOutcome;
use crate::model::work::{Desired, WorkOrder};

/// Put-backs of one object within [`PUT_BACK_WINDOW`] before it counts as contested.
pub const PUT_BACKS_MAX: usize = 3;
/// The window in which put-backs are counted.
pub const PUT_BACK_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Returns what to do now for an order.
///
/// The order of things is ApplySet's: widen the inventory, apply wave by wave, prune what is left over, narrow the inventory
/// and record the snapshot last. A crash between any two leaves parts that the inventory covers. Nothing is pruned while a
/// manifest is still to be applied or was refused: its predecessor may be what is left over.
pub fn plan(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, now: Timestamp) -> Plan {
    kept::tell(delivery(order, view, progress, now), order, view)
}

fn delivery(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, now: Timestamp) -> Plan {
    // What the placement applied before it only reported is removed all the same where it leaves.
    if order.strategy.type_ == ApplyStrategyType::ReportDiff && !order.remove {
        return drift::compare(order, progress, now);
    }
    if let Some(parent) = view.parent
        && !parent.source.is_empty()
        && !order.source.is(&parent.source)
    {
        return Plan {
            failure: Some(format!(
                "the inventory of {} on {} belongs to another source ({}); this one is {}: where it is the same one that \
                 moved, say so: gitfleet source rename '{}'; else rename the placement or let the other source give it up",
                order.placement, order.cluster, parent.source, order.source.name, parent.source
            )),
            ..Plan::default()
        };
    }
    let parent = view.parent.cloned().unwrap_or_default();
    let due = due(order, view, progress, now);
    let rest = if due.steps.is_empty() { at_rest(order, view, progress, &parent, &due) } else { Plan::default() };
    let steps = match (due.steps.is_empty(), rest.steps.is_empty()) {
        (false, _) => due.steps,
        (true, true) if !due.rechecks.is_empty() => due.rechecks,
        (true, true) => {
            let wake_at = [rest.wake_at, due.recheck_at].into_iter().flatten().min();
            return Plan { wake_at, ..rest };
        }
        (true, false) => return rest,
    };
    let wide = parent.widened(order);
    // Only an apply brings to the member what its inventory may not name yet.
    let covered = view.parent == Some(&wide) || !steps.iter().any(|step| matches!(step, Step::Apply { .. }));
    // The steps of one answer run at once, so applies wait until this write is answered.
    let steps = if covered { steps } else { vec![Step::WriteParent(wide)] };
    Plan { rechecks: covered && rest.complete, steps, complete: covered && rest.complete, ..Plan::default() }
}

/// What is due by what the manifests' states say.
#[derive(Debug, Default)]
struct Due {
    /// The applies and looks of the first wave that has any.
    steps: Vec<Step>,
    /// Looks at what was told before, and what was refused and is tried again: it is so until they say otherwise.
    rechecks: Vec<Step>,
    /// Some manifest waits for another object.
    waits: bool,
    /// Some manifest is refused as things are.
    refused: bool,
    /// When the first refused apply is tried again.
    retry_at: Option<Timestamp>,
    /// When the first thing is to be looked at again.
    recheck_at: Option<Timestamp>,
}

impl Due {
    /// Takes a look down: for now, or for later.
    fn recheck(&mut self, at: Timestamp, now: Timestamp, step: Option<Step>) {
        if at > now {
            self.recheck_at = Some(self.recheck_at.map_or(at, |known| known.min(at)));
        } else {
            self.rechecks.extend(step);
        }
    }
}

fn due(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, now: Timestamp) -> Due {
    let mut due = Due::default();
    let (mut current, mut retried) = (None, None);
    let mut waves: Vec<(u16, usize)> =
        order.manifests.iter().enumerate().map(|(n, d)| (wave(&d.id.group, &d.id.kind), n)).collect();
    waves.sort_unstable();
    for (wave, position) in waves {
        // Only applies hold back later waves. What waits or is refused may do so for ever.
        if current.is_some_and(|current| wave > current) {
            break;
        }
        let desired = &order.manifests[position];
        let Verdict { state, recheck_at, message: _ } = verdict(order, desired, view, progress, now);
        match state {
            State::Apply { put_back } => {
                current = Some(wave);
                let probe = !is_ours(desired, view);
                due.steps.push(Step::Apply { position, put_back, probe });
            }
            State::Wait => due.waits = true,
            State::Retry(at) => {
                due.retry_at = Some(due.retry_at.map_or(at, |known| known.min(at)));
                let probe = !is_ours(desired, view);
                // What it needs of an earlier wave may be refused, too.
                if at <= now && *retried.get_or_insert(wave) == wave {
                    due.rechecks.push(Step::Apply { position, put_back: false, probe });
                }
            }
            State::CheckDrift => due.steps.extend(drift::show_drift(position, desired, view)),
            State::Refused(outcome) => {
                due.refused = true;
                if let Some(at) = recheck_at {
                    due.recheck(at, now, drift::step(position, order, outcome, view));
                }
            }
            State::Done => match drift::full_check(order, desired, progress) {
                // What an earlier comparison found stands until the next; the first one belongs to the delivery.
                Some((at, true)) => due.recheck(at, now, drift::show_drift(position, desired, view)),
                Some((_, false)) => due.steps.extend(drift::show_drift(position, desired, view)),
                None => {}
            },
        }
    }
    due
}

/// Returns what follows where nothing is to be applied or looked at for the first time.
fn at_rest(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, parent: &Parent, due: &Due) -> Plan {
    // What is left over is not known: nothing is pruned, and the inventory says neither that all is there nor that all is gone.
    if !view.unlisted.is_empty() {
        return Plan { wake_at: due.retry_at, ..Plan::default() };
    }
    // What was refused was tried, so the work is complete until the next try; what waits was not.
    if due.waits || due.retry_at.is_some() {
        return Plan { complete: !due.waits, wake_at: due.retry_at, ..Plan::default() };
    }
    let left = left_overs(order, view, progress, due.refused);
    if !left.deletes.is_empty() {
        return Plan { steps: left.deletes, ..Plan::default() };
    }
    // The report of these objects queues the placement; its next order names them as prunable, or holds them.
    if left.undecided {
        return Plan::default();
    }
    record(order, view, parent, &left)
}

/// Returns the state of one manifest: the one place that says whether it is applied, refused, left or put back.
pub fn verdict(
    order: &WorkOrder,
    desired: &Desired,
    view: &MemberView<'_>,
    progress: &Progress,
    now: Timestamp,
) -> Verdict {
    let say = Verdict::new;
    if desired.key.is_reserved() {
        let message =
            format!("{} is reserved: inventories of gitfleet are there; take it out of the placement", desired.id);
        return say(State::Refused(ApplyOutcome::ManifestApplyFailed), message);
    }
    let live = view.live.get(&desired.key);
    if let Some(message) = claimed_by_another(order, desired, live, view) {
        return say(State::Refused(ApplyOutcome::FailedToTakeOver), message);
    }
    if let Some(owner) = live.and_then(|live| live.owner.as_deref()).filter(|_| !order.strategy.allow_co_ownership) {
        return say(State::Refused(ApplyOutcome::FailedToTakeOver), owned_by_another(owner));
    }
    let attempt = progress.attempt(desired);
    if let Some(attempt) = attempt {
        match attempt.outcome {
            // Applied once says nothing of now: what is seen of the object decides below.
            ApplyOutcome::Pending | ApplyOutcome::Applied => {}
            ApplyOutcome::NotTakenOver | ApplyOutcome::FailedToTakeOver => {
                // No watch tells when its owner lets go of it, because it does not have our label.
                let recheck_at = Some(attempt.at + RECHECK_INTERVAL);
                return Verdict { recheck_at, ..say(State::Refused(attempt.outcome), attempt.message.clone()) };
            }
            _ => return say(State::Retry(attempt.at + retry_delay(attempt.failures)), attempt.message.clone()),
        }
    }
    let Some(live) = live else {
        // Not seen is not missing: it may be another placement's, or drifted.
        if let Some(why) = view.unlisted.why(&desired.key) {
            return say(State::Wait, format!("whether it is there is not known: {why}"));
        }
        if definition_pending(order, desired, view) {
            return say(State::Wait, "its CustomResourceDefinition is not established yet".to_owned());
        }
        return missing(attempt, progress.baseline(desired), now);
    };
    // The API server would accept an apply, and the object would go all the same.
    if live.terminating {
        return say(State::Wait, "it is being deleted; it is applied again when it is gone".to_owned());
    }
    // It has another content, or changes hands. That is no put-back, which would count towards contested.
    if *live.applyset != *view.ours || live.manifest.as_ref() != Some(&desired.digest) {
        return say(State::Apply { put_back: false }, String::new());
    }
    match progress.baseline(desired) {
        Some(baseline) if *baseline == live.owned => return say(State::Done, String::new()),
        None if is_as_applied(order, view, progress, attempt) => return say(State::Done, String::new()),
        // Somebody may have changed it since an apply that nobody reported: drift could never be told from our own fields.
        None if order.strategy.when_to_apply == WhenToApply::Always => {
            return say(State::Apply { put_back: false }, String::new());
        }
        Some(_) | None => {}
    }
    if order.strategy.when_to_apply == WhenToApply::IfNotDrifted {
        return drift::drifted(desired, live, progress, now);
    }
    put_back(attempt, now)
}

/// Tells whether an object without a baseline is taken for what we applied: the API server's answer in this life did not show
/// its fields, or the store is a new one and the inventory says that all of the order was delivered.
fn is_as_applied(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, attempt: Option<&Attempt>) -> bool {
    let is_held =
        || view.parent.and_then(|parent| parent.holds.as_ref()).is_some_and(|held| held.digest == order.digest);
    attempt.is_some_and(|attempt| attempt.outcome == ApplyOutcome::Applied) || !progress.is_reported && is_held()
}

/// Decides about an object that is not there: one we applied before, in an earlier life too, was taken away and is put back.
fn missing(attempt: Option<&Attempt>, baseline: Option<&Digest>, now: Timestamp) -> Verdict {
    if baseline.is_some() || attempt.is_some_and(|a| a.outcome == ApplyOutcome::Applied) {
        return put_back(attempt, now);
    }
    Verdict::new(State::Apply { put_back: false }, "")
}

/// Puts an object back, unless that was done too often: then somebody else wants it otherwise, and a person must look.
fn put_back(attempt: Option<&Attempt>, now: Timestamp) -> Verdict {
    let mut recent = attempt.into_iter().flat_map(|a| &a.put_backs).filter(|at| **at + PUT_BACK_WINDOW > now);
    let first = recent.next();
    match first {
        // They are in order of time: when the first leaves the window there is room for another.
        Some(first) if 1 + recent.count() >= PUT_BACKS_MAX => {
            let due = *first + PUT_BACK_WINDOW;
            let message = format!(
                "contested: put back {PUT_BACKS_MAX} times within 10 minutes and changed again by somebody else; next \
                 try at {due}"
            );
            Verdict::new(State::Retry(due), message)
        }
        _ => Verdict::new(State::Apply { put_back: true }, "it was changed on the member and is put back"),
    }
}

/// Says why an object that an owner reference gives to somebody else is left alone.
///
/// Source: KubeFleet, `allowCoOwnership`: an object with another owner is not taken over without it.
pub fn owned_by_another(owner: &str) -> String {
    format!(
        "it belongs to {owner}, which owns it on the member; allowCoOwnership lets the placement apply it nevertheless"
    )
}

/// Returns who else the object belongs to, as a sentence, where it is not ours to apply.
///
/// The label on the member decides; where nobody has put it there yet, the first placement by name does.
fn claimed_by_another(
    order: &WorkOrder,
    desired: &Desired,
    live: Option<&LiveObject>,
    view: &MemberView<'_>,
) -> Option<String> {
    let holder = live.map(|live| live.applyset.as_ref()).filter(|label| !label.is_empty());
    if holder == Some(view.ours) {
        return None;
    }
    let others = || view.wanted.by(&desired.key).iter().map(Arc::as_ref).filter(|p| **p != order.placement);
    // Where no placement of this member is meant by the label, the object changes hands.
    if let Some(holder) = holder
        && let Some(other) = others().find(|p| applyset_id(p) == holder)
    {
        return Some(format!("{} on {} belongs to placement {other}", desired.id, order.cluster));
    }
    if let Some(first) = others().next()
        && *first < order.placement
        && holder.is_none()
    {
        return Some(format!(
            "{} on {} is also selected by placement {first}, which has it",
            desired.id, order.cluster
        ));
    }
    None
}

/// Returns the last steps: narrow the inventory and record the snapshot, or remove the inventory.
fn record(order: &WorkOrder, view: &MemberView<'_>, parent: &Parent, left: &LeftOvers) -> Plan {
    if order.remove {
        // Nothing but the inventory names what stays, so it goes last.
        if !left.staying.is_empty() {
            return Plan { complete: !left.leaving, ..Plan::default() };
        }
        return match view.parent {
            Some(_) => Plan { steps: vec![Step::DeleteParent], ..Plan::default() },
            None => Plan { complete: true, ..Plan::default() },
        };
    }
    // Made anew instead of reduced: kinds and namespaces of which nothing is left drop out.
    let mut narrow =
        Parent { source: order.source.name.clone(), placement: Some(order.placement.clone()), ..Parent::default() }
            .widened(order);
    // What a gate holds, or another placement is to take over, still has our label.
    for key in &left.staying {
        narrow.group_kinds.insert(group_kind(&key.group, &key.kind));
        if !key.namespace.is_empty() {
            narrow.namespaces.insert(key.namespace.clone());
        }
    }
    narrow.holds = Some(Held { index: order.snapshot, commit: order.commit.clone(), digest: order.digest.clone() });
    // The commit alone is no reason to write: the same content under a newer commit changes nothing on a member.
    let same_content =
        matches!((&parent.holds, &narrow.holds), (Some(a), Some(b)) if a.digest == b.digest && a.index == b.index);
    if same_content {
        narrow.holds.clone_from(&parent.holds);
    }
    // A change of what is kept alone is written by [`kept::tell`], and makes no work incomplete.
    if view.parent.is_some() && *parent == (Parent { kept: parent.kept.clone(), ..narrow.clone() }) {
        return Plan { complete: true, ..Plan::default() };
    }
    Plan { steps: vec![Step::WriteParent(narrow)], ..Plan::default() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
