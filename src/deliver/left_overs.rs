//! What a member holds of a placement and shall not hold any more.

use std::collections::BTreeSet;

use super::live::LiveObject;
use super::progress::Progress;
use super::step::{MemberView, Step};
use super::waves::wave;
use crate::model::id::ObjectKey;
use crate::model::work::{Release, WorkOrder};

/// What is not desired, and what becomes of it.
pub(super) struct LeftOvers {
    /// The deletions that are due now.
    pub(super) deletes: Vec<Step>,
    /// Objects with our label that are not desired: held, or accepted for deletion and not gone yet.
    pub(super) staying: Vec<ObjectKey>,
    /// Some of them are on their way out.
    pub(super) leaving: bool,
    /// Some of them were not known when the order was decided: they are reported, and left alone until they are.
    pub(super) undecided: bool,
}

/// Returns the objects of the inventory that are no longer desired: the last wave first. They stay where a manifest is
/// `refused`: what was to come in their stead may be what did not.
pub(super) fn left_overs(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, refused: bool) -> LeftOvers {
    let desired: BTreeSet<&ObjectKey> = order.manifests.iter().map(|d| d.key.as_ref()).collect();
    let mut found = LeftOvers { deletes: Vec::new(), staying: Vec::new(), leaving: false, undecided: false };
    let mut due: Vec<(u16, &LiveObject)> = Vec::new();
    for (key, live) in view.live.labelled(view.ours).filter(|(key, _)| !desired.contains(key)) {
        found.staying.push(key.clone());
        // Another placement takes it over; until it has, the inventory is what names it.
        let taken = view.wanted.by(key).iter().any(|placement| **placement != order.placement);
        if taken && !order.held.contains(key) {
            continue;
        }
        if refused || order.held.contains(key) {
            continue;
        }
        // What somebody else deletes goes, whatever is decided about it.
        if !order.prune.contains(key) && !live.terminating {
            found.undecided = true;
            continue;
        }
        found.leaving = true;
        // Finalizers may keep it for long, so it is asked once; by uid, because a new object may have its name.
        if !live.terminating && !progress.deleted.contains(&live.uid) {
            due.push((wave(&live.id.group, &live.id.kind), live));
        }
    }
    // Earlier waves hold what later ones need: their Namespace, their definition, their ServiceAccount.
    let last = due.iter().map(|(wave, _)| *wave).max();
    found.deletes =
        due.into_iter().filter(|(wave, _)| Some(*wave) == last).map(|(_, live)| take_away(order, live)).collect();
    found
}

/// Takes an object away from the placement: it is deleted, or given up where the placement abandons what it leaves, or where
/// somebody else owns it, too.
fn take_away(order: &WorkOrder, live: &LiveObject) -> Step {
    let object = live.clone();
    if order.abandon {
        Step::Release { object, release: Release::Whole }
    } else if live.owner.is_some() {
        // Deleting it would take it from its other owner, too.
        Step::Release { object, release: Release::Fields }
    } else {
        Step::Delete { object }
    }
}
