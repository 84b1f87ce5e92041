//! Left-overs: objects of a placement that a member must no longer hold.

use std::collections::BTreeSet;

use super::claim::Holder;
use super::live::LiveObject;
use super::progress::Progress;
use super::step::{MemberView, Step};
use super::waves::wave;
use model::id::ObjectKey;
use model::work::{Release, WorkOrder};

/// The left-overs, and what happens to them.
#[derive(Default)]
pub(super) struct LeftOvers {
    /// The deletions that are due now.
    pub(super) deletes: Vec<Step>,
    /// Objects with our label that are not desired: held back, or with an accepted deletion that is not complete.
    pub(super) staying: Vec<ObjectKey>,
    /// Some of them are being deleted.
    pub(super) leaving: bool,
    /// A Namespace or a definition waits until other placements have nothing in it.
    pub(super) awaits_others: bool,
    /// Some of them were unknown to the decision: they are reported, and left alone until a decision knows them.
    pub(super) undecided: bool,
}

/// Returns the objects of the inventory that are no longer desired: the last wave first. They stay while a manifest is
/// `refused`: it may be their replacement.
pub(super) fn left_overs(order: &WorkOrder, view: &MemberView<'_>, progress: &Progress, refused: bool) -> LeftOvers {
    let desired: BTreeSet<&ObjectKey> = order.manifests.iter().map(|d| d.key.as_ref()).collect();
    let mut found = LeftOvers::default();
    let mut due: Vec<(u16, &LiveObject)> = Vec::new();
    let mut kept: Vec<&ObjectKey> = Vec::new();
    for (key, live) in view.live.labelled(view.ours).filter(|(key, _)| !desired.contains(key)) {
        found.staying.push(key.clone());
        // Another placement takes it over; until then only this inventory names it.
        let taken = view.wanted.by(key).iter().any(|placement| **placement != order.placement);
        if taken || refused || order.held.contains(key) {
            kept.push(key);
            continue;
        }
        // Somebody else deletes it already, whatever the decision says.
        if !order.prune.contains(key) && !live.terminating {
            found.undecided = true;
            continue;
        }
        found.leaving = true;
        // Finalizers may keep it for long, so the request is sent once; by uid, because a new object may have its name.
        if !live.terminating && !progress.deleted.contains(&live.uid) {
            due.push((wave(&live.id.group, &live.id.kind), live));
        }
    }
    // With a Namespace or a definition, everything inside would go.
    let before = due.len();
    due.retain(|(_, live)| {
        let container = live.key();
        !container.is_container()
            || !kept.iter().any(|key| key.is_inside(&container)) && !has_objects_of_others(view, &container)
    });
    found.awaits_others = due.len() < before;
    // Objects of later waves need those of earlier ones: their Namespace, their definition, their ServiceAccount.
    let last = due.iter().map(|(wave, _)| *wave).max();
    found.deletes =
        due.into_iter().filter(|(wave, _)| Some(*wave) == last).map(|(_, live)| take_away(order, live)).collect();
    found
}

/// Tells whether another placement of this member has objects in a Namespace or of a definition, or may have some that no list has shown
/// or that are on their way. Its own order removes them, after an approval where one is required.
fn has_objects_of_others(view: &MemberView<'_>, container: &ObjectKey) -> bool {
    let mut labels = view.live.labels_in(container);
    labels.any(|label| label != view.ours && !matches!(view.peers.holder(label), Holder::Nobody))
        || view.peers.may_have_unseen(container, view.ours)
}

/// Returns the step that removes an object from the placement: a deletion, or a release if the placement abandons its objects
/// or the object has another owner.
fn take_away(order: &WorkOrder, live: &LiveObject) -> Step {
    let object = live.clone();
    if order.abandon {
        Step::Release { object, release: Release::Whole }
    } else if live.owner.is_some() {
        // A deletion would also take it from its other owner.
        Step::Release { object, release: Release::Fields }
    } else {
        Step::Delete { object }
    }
}
