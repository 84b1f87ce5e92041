//! What a member is seen to hold.

use std::collections::BTreeSet;

use super::{Event, Member};
use crate::cluster::{Observation, WatchedKind};
use crate::deliver::live::LiveObject;
use crate::model::id::ObjectKey;
use crate::model::records::Availability;

impl Member {
    /// Takes in what a watch saw.
    pub(super) fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::ListStarted(kind) => {
                if let Some(watch) = self.watches.get_mut(&kind) {
                    watch.listing = Some(BTreeSet::new());
                }
            }
            Observation::Listed(object) | Observation::Changed(object) => {
                if let Some(live) = LiveObject::read(&object) {
                    self.remember(live);
                }
            }
            Observation::ListDone(kind) => self.list_done(&kind),
            Observation::Deleted { key, resource_version } => {
                let stale = |live: &LiveObject| live.resource_version > resource_version && resource_version > 0;
                if self.live.get(&key).is_some_and(|live| !stale(live)) {
                    self.forget(&key);
                }
            }
            Observation::Facts(facts) => {
                // The hall is gone only when everything ends.
                drop(self.events.send(Event::Facts { cluster: self.cluster.clone(), facts }));
            }
            Observation::FactsFailed(error) => self.offline = Some(error.to_string()),
            Observation::Failed(kind, error) if error.is_offline() => {
                tracing::debug!(cluster = %self.cluster, kind = kind.kind, %error, "a watch failed");
                self.offline = Some(error.to_string());
            }
            Observation::Failed(kind, error) => {
                tracing::debug!(cluster = %self.cluster, kind = kind.kind, %error, "a kind cannot be watched");
                // Nothing of a kind that the member does not know can be there.
                if let Some(watch) = self.watches.get_mut(&kind) {
                    watch.listed = true;
                    watch.listing = None;
                }
                self.mark_stale();
            }
        }
    }

    fn mark_stale(&mut self) {
        for delivery in self.deliveries.values_mut() {
            delivery.stale = true;
        }
    }

    /// What a complete list does not name is gone.
    fn list_done(&mut self, kind: &WatchedKind) {
        let Some(watch) = self.watches.get_mut(kind) else { return };
        watch.listed = true;
        let Some(seen) = watch.listing.take() else { return };
        let of_kind = |key: &ObjectKey| key.group == kind.group && key.kind == kind.kind;
        self.live.retain(|key, _| !of_kind(key) || seen.contains(key));
        self.mark_stale();
    }

    /// Keeps the newest that is known of an object.
    pub(super) fn remember(&mut self, mut live: LiveObject) {
        if !self.target.has_health() {
            live.availability = Availability::Available;
        }
        let key = live.id.key();
        let kind = WatchedKind { group: key.group.clone(), kind: key.kind.clone() };
        if let Some(listing) = self.watches.get_mut(&kind).and_then(|watch| watch.listing.as_mut()) {
            listing.insert(key.clone());
        }
        let known = self.live.get(&key);
        if known.is_some_and(|known| known.resource_version > live.resource_version || *known == live) {
            return;
        }
        self.touch(known.map(|k| k.applyset.clone()).as_deref(), &live.applyset, &key);
        self.live.insert(key, live);
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(live) = self.live.remove(key) {
            self.touch(None, &live.applyset, key);
        }
    }

    /// Marks the deliveries that an object concerns: those it belongs to, belonged to, or is wanted by.
    fn touch(&mut self, before: Option<&str>, after: &str, key: &ObjectKey) {
        let holders = before.into_iter().chain([after]).filter_map(|id| self.placements.get(id));
        let wanting = self.wanted.get(key).into_iter().flatten();
        for placement in holders.chain(wanting) {
            if let Some(delivery) = self.deliveries.get_mut(placement) {
                delivery.stale = true;
            }
        }
    }
}
