//! Inventories as a member has them: what was read, what was written, and what others wrote since. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::reconciler::Reconciler;
use deliver::inventory::{Parent, applyset_id};
use model::id::PlacementKey;
use model::shared::Shared;

/// Shortest time between two corrections of an inventory that others write: somebody who writes it without end must not make gitfleet
/// do the same.
const PUT_RIGHT_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// The inventories of a member.
#[derive(Debug, Default)]
pub(super) struct Parents {
    known: BTreeMap<PlacementKey, KnownParent>,
    /// When each inventory that others changed was put right last, or will be.
    put_right: BTreeMap<PlacementKey, Timestamp>,
    /// An inventory came that no order is about: the daemon is to be told.
    announces: bool,
}

/// What is known of one inventory.
#[derive(Debug)]
struct KnownParent {
    /// `None` where it was removed.
    parent: Option<Shared<Parent>>,
    /// The resource version of the last write that was seen; 0 on members without versions.
    version: u64,
}

impl KnownParent {
    /// Tells whether an observation shows an earlier state than the known one.
    fn is_newer_than(&self, version: u64) -> bool {
        version > 0 && self.version >= version
    }
}

impl Parents {
    /// Forgets all of them: a new connection reads them again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns a placement's inventory.
    pub(super) fn get(&self, placement: &PlacementKey) -> Option<&Parent> {
        self.known.get(placement)?.parent.as_deref()
    }

    /// Returns all of them, by placement.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PlacementKey, &Parent)> {
        self.known.iter().filter_map(|(key, known)| Some((key, &**known.parent.as_ref()?)))
    }

    /// Records what gitfleet wrote (`None`: removed), unless a newer state was seen meanwhile.
    pub(super) fn wrote(&mut self, placement: &PlacementKey, parent: Option<Parent>, version: u64) {
        let known = self.known.entry(placement.clone()).or_insert(KnownParent { parent: None, version: 0 });
        if known.version > version && version > 0 {
            return;
        }
        known.version = known.version.max(version);
        known.parent = parent.map(Shared::from);
    }

    /// Records what was read or noticed. Returns whether it differs from what was known.
    fn see(&mut self, placement: &PlacementKey, parent: Parent, version: u64) -> bool {
        let known = self.known.entry(placement.clone()).or_insert(KnownParent { parent: None, version: 0 });
        if known.is_newer_than(version) {
            return false;
        }
        known.version = version;
        if known.parent.as_deref() == Some(&parent) {
            return false;
        }
        known.parent = Some(parent.into());
        true
    }

    /// Records that one was removed. Returns whether it was known to be there.
    fn lose(&mut self, placement: &PlacementKey, version: u64) -> bool {
        let Some(known) = self.known.get_mut(placement).filter(|known| !known.is_newer_than(version)) else {
            return false;
        };
        known.version = version;
        known.parent.take().is_some()
    }
}

impl Reconciler {
    /// Records an inventory that was found at a connection, with its resource version (0 where there is none). One that names no
    /// placement does not belong to gitfleet.
    pub fn take_parent(&mut self, parent: Parent, version: u64) {
        let Some(placement) = parent.placement.clone() else { return };
        self.expect_parts(&placement, &parent);
        self.parents.see(&placement, parent, version);
    }

    /// Handles what a watch says of an inventory after the connection. What others wrote, a leader or an agent of before most likely, is
    /// put right by the placement's order: the order is planned on what is there now. Without an order the daemon is told again what
    /// the member holds. Returns whether it changed.
    pub fn see_parent(&mut self, parent: Parent, version: u64, now: Timestamp) -> bool {
        let Some(placement) = parent.placement.clone() else { return false };
        let seen = parent.clone();
        if !self.parents.see(&placement, parent, version) {
            return false;
        }
        self.expect_parts(&placement, &seen);
        if self.deliveries.contains_key(&placement) {
            self.plan_parent_again(&placement, now);
        } else {
            self.parents.announces |= self.source.is(&seen.source);
        }
        true
    }

    /// Handles the removal of an inventory by others. Returns whether it was known to be there.
    pub fn lose_parent(&mut self, placement: &PlacementKey, version: u64, now: Timestamp) -> bool {
        let is_news = self.parents.lose(placement, version);
        if is_news {
            self.plan_parent_again(placement, now);
        }
        is_news
    }

    /// Handles a list of all inventories, with the version of the list: those that it does not name are gone. Returns the placements
    /// whose inventories changed.
    pub fn list_parents(&mut self, listed: Vec<(Parent, u64)>, at: u64, now: Timestamp) -> Vec<PlacementKey> {
        let there = |key: &PlacementKey| listed.iter().any(|(parent, _)| parent.placement.as_ref() == Some(key));
        let gone: Vec<PlacementKey> =
            self.parents.iter().map(|(key, _)| key).filter(|key| !there(key)).cloned().collect();
        let mut changed: Vec<PlacementKey> =
            gone.into_iter().filter(|placement| self.lose_parent(placement, at, now)).collect();
        for (parent, version) in listed {
            let placement = parent.placement.clone();
            if self.see_parent(parent, version, now) {
                changed.extend(placement);
            }
        }
        changed
    }

    /// Tells once whether the daemon is to hear again what the member holds, as soon as everything of it is listed.
    pub fn take_announcement(&mut self) -> bool {
        let is_due = self.parents.announces && !self.lists.any_pending() && self.unwatched.is_empty();
        self.parents.announces &= !is_due;
        is_due
    }

    /// Requests lists of the kinds that an inventory names.
    fn expect_parts(&mut self, placement: &PlacementKey, parent: &Parent) {
        for kind in &parent.group_kinds {
            if self.lists.expect(kind) {
                // Inventories name kinds without versions; an order may bring one.
                self.unwatched.insert(kind.clone(), None);
            }
        }
        self.placements.insert(applyset_id(placement), placement.clone());
    }

    /// Has a placement's order planned on its inventory as it is now: at once, or after a pause where that was done just before.
    fn plan_parent_again(&mut self, placement: &PlacementKey, now: Timestamp) {
        let Some(delivery) = self.deliveries.get_mut(placement) else { return };
        let at = match self.parents.put_right.get(placement) {
            // It waits for its turn already.
            Some(next) if *next > now => *next,
            Some(last) => now.max(*last + PUT_RIGHT_PAUSE),
            None => now,
        };
        self.parents.put_right.insert(placement.clone(), at);
        if at == now {
            delivery.touch();
        } else {
            delivery.plan.wake_at = Some(delivery.plan.wake_at.map_or(at, |known| known.min(at)));
        }
    }
}
