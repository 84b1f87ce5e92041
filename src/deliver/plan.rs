//! Plans the next steps on a member for one work: apply by waves, then prune, then record.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::claim::{Claim, claim};
use super::drift::{self, RECHECK_INTERVAL};
use super::inventory::{Held, Parent, group_kind};
use super::kept;
use super::left_overs::{LeftOvers, left_overs};
pub use super::progress::PUT_BACK_WINDOW;
use super::progress::{Attempt, Progress};
use super::step::{MemberView, Plan, State, Step, Verdict, is_ours, retry_delay};
use super::waves::definition_pending;
use model::api::placement::{ApplyStrategyType, WhenToApply};
use model::encrypted::are_comparable;
use model::id::{Digest, ObjectKey};
use model::records::ApplyOutcome;
use model::work::{Desired, WorkOrder};

/// Put-backs of one object within [`PUT_BACK_WINDOW`] before it counts as contested.
pub const PUT_BACKS_MAX: usize = 3;

/// Returns the steps to start now for an order.
///
/// The order of steps is ApplySet's: widen the inventory, apply wave by wave, prune left-overs, narrow the inventory and record
/// the snapshot last. After a crash between any two steps the inventory covers all parts. Nothing is pruned while a manifest
/// waits for its apply or was refused: a left-over may be its predecessor.
pub fn plan(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, now: Timestamp) -> Plan {
    kept::add_write(delivery(order, view, progress, now), order, view)
}

fn delivery(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, now: Timestamp) -> Plan {
    // Objects that the placement applied before it only reported are still removed when it leaves.
    if order.strategy.type_ == ApplyStrategyType::ReportDiff && !order.remove {
        return drift::compare(order, progress, now);
    }
    if let Some(parent) = view.parent
        && !parent.source.is_empty()
        && !order.source.is(&parent.source)
    {
        // Nothing there is this source's, so nothing is left to remove.
        if order.remove {
            return Plan { complete: true, ..Plan::default() };
        }
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
    // Only an apply can create objects that the inventory does not name yet.
    let covered = view.parent == Some(&wide) || !steps.iter().any(|step| matches!(step, Step::Apply { .. }));
    // The steps of one plan run in parallel, so applies wait until this write is answered.
    let steps = if covered { steps } else { vec![Step::WriteParent(Box::new(wide))] };
    Plan { rechecks: covered && rest.complete, steps, complete: covered && rest.complete, ..Plan::default() }
}

/// The steps that follow from the states of the manifests.
#[derive(Debug, Default)]
struct Due {
    /// The applies and checks of the first wave that has any.
    steps: Vec<Step>,
    /// Repeated checks of reported objects, and retries of refused ones: the earlier state is valid until their results arrive.
    rechecks: Vec<Step>,
    /// Some manifest waits for another object.
    waits: bool,
    /// Some manifest is refused for now.
    refused: bool,
    /// When the first refused apply is retried.
    retry_at: Option<Timestamp>,
    /// When the next check is due.
    recheck_at: Option<Timestamp>,
}

impl Due {
    /// Adds a repeated check: now, or later.
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
    let mut current = None;
    let mut retried = None;
    let mut waves: Vec<(u16, usize)> = order.manifests.iter().map(|desired| desired.wave).zip(0..).collect();
    waves.sort_unstable();
    for (wave, position) in waves {
        // Only applies hold back later waves. An object that waits or is refused may do so forever.
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
                // An object of an earlier wave that it needs may be refused, too.
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
                // The result of an earlier comparison is valid until the next; the first comparison belongs to the delivery.
                Some((at, true)) => due.recheck(at, now, drift::show_drift(position, desired, view)),
                Some((_, false)) => due.steps.extend(drift::show_drift(position, desired, view)),
                None => {}
            },
        }
    }
    due
}

/// Returns the steps if nothing must be applied or checked for the first time.
fn at_rest(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, parent: &Parent, due: &Due) -> Plan {
    // The left-overs are unknown: nothing is pruned, and the inventory records neither completion nor removal.
    if !view.unlisted.is_empty() {
        return Plan { wake_at: due.retry_at, ..Plan::default() };
    }
    // A refused object was tried, so the work is complete until the retry; a waiting one was not tried.
    if due.waits || due.retry_at.is_some() {
        return Plan { complete: !due.waits, wake_at: due.retry_at, ..Plan::default() };
    }
    let left = left_overs(order, view, progress, due.refused);
    if !left.deletes.is_empty() {
        return Plan { steps: left.deletes, awaits_others: left.awaits_others, ..Plan::default() };
    }
    // The report of these objects queues the placement; its next order names them as prunable, or holds them back.
    if left.undecided {
        return Plan::default();
    }
    Plan { awaits_others: left.awaits_others, ..record(order, view, parent, &left) }
}

/// Returns the state of one manifest: the only place that decides whether it is applied, refused, left or put back.
pub fn verdict(
    order: &WorkOrder,
    desired: &Desired,
    view: &MemberView<'_>,
    progress: &Progress,
    now: Timestamp,
) -> Verdict {
    let verdict = Verdict::new;
    if desired.key.is_reserved() {
        let message =
            format!("{} is reserved: inventories of gitfleet are there; take it out of the placement", desired.id);
        return verdict(State::Refused(ApplyOutcome::ManifestApplyFailed), message);
    }
    let live = view.live.get(&desired.key);
    let attempt = progress.attempt(desired);
    if let Some(claim) = claim(order, desired, live, view, progress) {
        return of_another(claim, attempt);
    }
    if let Some(owner) = live.and_then(|live| live.owner.as_deref())
        && !order.strategy.allow_co_ownership
    {
        return verdict(State::Refused(ApplyOutcome::FailedToTakeOver), owned_by_another(owner));
    }
    if let Some(attempt) = attempt {
        match attempt.outcome {
            // An earlier apply does not describe the present: the observed object decides below.
            ApplyOutcome::Pending | ApplyOutcome::Applied => {}
            ApplyOutcome::NotTakenOver | ApplyOutcome::FailedToTakeOver => {
                // No watch reports when its owner releases it, because it does not have our label.
                let recheck_at = Some(attempt.at + RECHECK_INTERVAL);
                return Verdict { recheck_at, ..verdict(State::Refused(attempt.outcome), attempt.message.clone()) };
            }
            _ => return verdict(State::Retry(attempt.at + retry_delay(attempt.failures)), attempt.message.clone()),
        }
    }
    let Some(live) = live else {
        // An unseen object is not missing: it may belong to another placement, or have drifted.
        if let Some(why) = view.unlisted.why(&desired.key) {
            return verdict(State::Wait, format!("whether it is there is not known: {why}"));
        }
        if definition_pending(order, desired, view) {
            return verdict(State::Wait, "its CustomResourceDefinition is not established yet".to_owned());
        }
        return missing(attempt, progress.baseline(desired), now);
    };
    // The API server would accept an apply, and the object would still be deleted.
    if live.terminating {
        return verdict(State::Wait, "it is being deleted; it is applied again when it is gone".to_owned());
    }
    // It has another content, or changes owner. That is no put-back, which would count towards contested.
    if *live.applyset != *view.ours || live.manifest.as_ref() != Some(&desired.digest) {
        return verdict(State::Apply { put_back: false }, String::new());
    }
    match progress.baseline(desired).filter(|baseline| are_comparable(baseline, &live.owned)) {
        Some(baseline) if *baseline == live.owned => return verdict(State::Done, String::new()),
        None if is_as_applied(order, view, progress, attempt) => return verdict(State::Done, String::new()),
        // Somebody may have changed it since an unreported apply: our own fields alone can never show drift.
        None if order.strategy.when_to_apply == WhenToApply::Always => {
            return verdict(State::Apply { put_back: false }, String::new());
        }
        Some(_) | None => {}
    }
    if order.strategy.when_to_apply == WhenToApply::IfNotDrifted {
        return drift::drifted(desired, live, progress, now);
    }
    put_back(attempt, now)
}

/// Returns the state of an object that belongs to another placement, or may. Until the placements of this life are known, what was reported
/// before it stands.
fn of_another(claim: Claim, attempt: Option<&Attempt>) -> Verdict {
    let refused = State::Refused(ApplyOutcome::FailedToTakeOver);
    match (claim, attempt) {
        (Claim::Taken(message), _) => Verdict::new(refused, message),
        (Claim::Awaited(_), Some(attempt))
            if attempt.is_of_before() && attempt.outcome == ApplyOutcome::FailedToTakeOver =>
        {
            Verdict::new(refused, attempt.message.clone())
        }
        (Claim::Awaited(message), _) => Verdict::new(State::Wait, message),
    }
}

/// Tells whether an object without a baseline counts as unchanged since our apply: the API server's answer in this process did
/// not show its fields, or the store is new and the inventory says that the order was delivered completely.
fn is_as_applied(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, attempt: Option<&Attempt>) -> bool {
    if attempt.is_some_and(|attempt| attempt.outcome == ApplyOutcome::Applied) {
        return true;
    }
    let held = view.parent.and_then(|parent| parent.holds.as_ref());
    !progress.is_reported && held.is_some_and(|held| held.digest == order.digest)
}

/// Decides about a missing object: one that gitfleet applied before, possibly in an earlier process, was deleted and is put
/// back.
fn missing(attempt: Option<&Attempt>, baseline: Option<&Digest>, now: Timestamp) -> Verdict {
    if baseline.is_some() || attempt.is_some_and(|a| a.outcome == ApplyOutcome::Applied) {
        return put_back(attempt, now);
    }
    Verdict::new(State::Apply { put_back: false }, "")
}

/// Puts an object back, unless that happened too often: then somebody else wants another content, and a person must decide.
fn put_back(attempt: Option<&Attempt>, now: Timestamp) -> Verdict {
    let mut recent = attempt.into_iter().flat_map(|a| &a.put_backs).filter(|at| **at + PUT_BACK_WINDOW > now);
    let first = recent.next();
    match first {
        // They are sorted by time: when the first leaves the window, another is allowed.
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

/// Describes why an object with another owner is left alone.
///
/// Source: KubeFleet, `allowCoOwnership`: an object with another owner is not taken over without it.
pub fn owned_by_another(owner: &str) -> String {
    format!(
        "it belongs to {owner}, which owns it on the member; allowCoOwnership lets the placement apply it nevertheless"
    )
}

/// Returns the last steps: narrow the inventory and record the snapshot, or remove the inventory.
fn record(order: &WorkOrder, view: &MemberView<'_>, parent: &Parent, left: &LeftOvers) -> Plan {
    if order.remove {
        // Only the inventory names the staying objects, so it is removed last.
        if !left.staying.is_empty() {
            // Where kinds are gone it does not hold its snapshot any more: a lost store must not count on it.
            let none = Parent { group_kinds: BTreeSet::new(), namespaces: BTreeSet::new(), ..parent.clone() };
            let narrow = covering(none, &left.staying);
            if view.parent.is_some() && narrow != *parent {
                let narrow = Parent { holds: None, ..narrow };
                return Plan { steps: vec![Step::WriteParent(Box::new(narrow))], ..Plan::default() };
            }
            return Plan { complete: !left.leaving, ..Plan::default() };
        }
        return match view.parent {
            Some(_) => Plan { steps: vec![Step::DeleteParent], ..Plan::default() },
            None => Plan { complete: true, ..Plan::default() },
        };
    }
    // Rebuilt instead of reduced: kinds and namespaces without objects drop out.
    let none =
        Parent { source: order.source.name.clone(), placement: Some(order.placement.clone()), ..Parent::default() };
    // An object that a gate protects, or that another placement will take over, still has our label.
    let mut narrow = covering(none.widened(order), &left.staying);
    narrow.holds = Some(Held { index: order.snapshot, commit: order.commit.clone(), digest: order.digest.clone() });
    // A new commit alone is no reason to write: the same content under a newer commit changes nothing on a member.
    let same_content =
        matches!((&parent.holds, &narrow.holds), (Some(a), Some(b)) if a.digest == b.digest && a.index == b.index);
    if same_content {
        narrow.holds.clone_from(&parent.holds);
    }
    // [`kept::tell`] writes a changed pause or hold, and that makes no work incomplete.
    if view.parent.is_some() && *parent == (Parent { kept: parent.kept.clone(), ..narrow.clone() }) {
        return Plan { complete: true, ..Plan::default() };
    }
    Plan { steps: vec![Step::WriteParent(Box::new(narrow))], ..Plan::default() }
}

/// Returns an inventory that names the kinds and namespaces of these objects, too.
fn covering(mut parent: Parent, objects: &[ObjectKey]) -> Parent {
    for key in objects {
        parent.group_kinds.insert(group_kind(&key.group, &key.kind));
        if !key.namespace.is_empty() {
            parent.namespaces.insert(key.namespace.to_string());
        }
    }
    parent
}

#[cfg(test)]
mod tests;
