//! What a member is seen to hold.

use std::collections::BTreeSet;

use super::{Event, Member};
use crate::cluster::{Observation, WatchedKind};
use crate::deliver::live::LiveObject;
use crate::model::id::ObjectKey;

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
                    self.note_listed(&live.id.key());
                    self.mind.remember(live);
                }
            }
            Observation::ListDone(kind) => self.list_done(&kind),
            Observation::Deleted { key, resource_version } => self.mind.forget(&key, resource_version),
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
                self.mind.mark_stale();
            }
        }
    }

    /// What a complete list does not name is gone.
    fn list_done(&mut self, kind: &WatchedKind) {
        let Some(watch) = self.watches.get_mut(kind) else { return };
        watch.listed = true;
        let Some(seen) = watch.listing.take() else { return };
        let of_kind = |key: &ObjectKey| key.group == kind.group && key.kind == kind.kind;
        self.mind.retain(|key| !of_kind(key) || seen.contains(key));
        self.mind.mark_stale();
    }

    /// Notes that a list under way must not make us forget an object: it was listed, or written since the list began.
    pub(super) fn note_listed(&mut self, key: &ObjectKey) {
        let kind = WatchedKind { group: key.group.clone(), kind: key.kind.clone() };
        if let Some(listing) = self.watches.get_mut(&kind).and_then(|watch| watch.listing.as_mut()) {
            listing.insert(key.clone());
        }
    }
}
