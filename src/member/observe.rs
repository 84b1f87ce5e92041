//! Handles what watches observe on a member.

use std::panic::resume_unwind;

use super::Member;
use super::apply::version_of;
use cluster::{Error, Observation};
use deliver::inventory::Parent;
use deliver::live::LiveObject;
use engine::MemberEvent;
use model::api::annotations::EPOCH;
use model::id::PlacementKey;
use system::clock;

impl Member {
    /// Handles an observation of a watch.
    pub(super) fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::ListStarted(kind) => self.reconciler.list_begun(&kind),
            Observation::Listed(object) | Observation::Changed(object) => {
                if let Some(live) = LiveObject::watched(&object, &self.common.health, &self.common.known) {
                    self.reconciler.see(live);
                }
            }
            Observation::ListDone(kind) => self.reconciler.list_done(&kind),
            Observation::Deleted { key, resource_version } => self.reconciler.forget(&key, resource_version),
            Observation::Facts(facts) => {
                self.last_facts = Some(facts.clone());
                // The receiver goes only when the process ends.
                drop(self.events.send(MemberEvent::Facts { cluster: self.cluster.clone(), facts }));
            }
            Observation::Namespaces(namespaces) => {
                self.reconciler.see_namespaces(namespaces);
                self.report_namespaces();
            }
            Observation::Inventories(parents, at) => {
                let listed = parents.iter().map(|parent| (Parent::read(parent), version_of(parent))).collect();
                for placement in self.reconciler.list_parents(listed, at, clock::now()) {
                    self.tell_foreign(&placement, None);
                }
            }
            Observation::Inventory(parent) => {
                let read = Parent::read(&parent);
                let placement = read.placement.clone();
                let is_news = self.reconciler.see_parent(read, version_of(&parent), clock::now());
                if is_news && let Some(placement) = placement {
                    let epoch = parent.pointer("/metadata/annotations").and_then(|all| all.get(EPOCH)?.as_str());
                    self.tell_foreign(&placement, epoch);
                }
            }
            Observation::InventoryGone(parent) => {
                if let Some(placement) = Parent::read(&parent).placement
                    && self.reconciler.lose_parent(&placement, version_of(&parent), clock::now())
                {
                    self.tell_foreign(&placement, None);
                }
            }
            Observation::Unwatched(reason) => {
                drop(self.events.send(MemberEvent::Unwatched { cluster: self.cluster.clone(), reason }));
            }
            // Its panic ends this task too: both restart together.
            Observation::Panicked(text) => resume_unwind(Box::new(text)),
            Observation::FactsFailed(error) => self.offline = Some(error.to_string()),
            Observation::Failed(kind, error) if error.is_offline() => {
                tracing::debug!(kind = kind.kind, %error, "a watch failed");
                self.offline = Some(error.to_string());
            }
            // Its definition is gone, and its objects with it: an empty list, not an unknown one.
            Observation::Failed(kind, Error::UnknownKind { .. }) => {
                tracing::debug!(kind = kind.kind, "the cluster serves no such kind");
                self.reconciler.kind_absent(&kind);
            }
            Observation::Failed(kind, error) => {
                let why = format!("{error}{}", error.advice());
                if self.reconciler.list_failed(&kind, why) {
                    tracing::warn!(kind = kind.kind, %error,
                        "a kind cannot be listed: what is there of it is not known, and nothing is deleted for that");
                }
            }
        }
    }

    /// Says that an inventory is not as this task left it. An answer to a write of its own may come after the watch, so that is no
    /// warning.
    fn tell_foreign(&self, placement: &PlacementKey, epoch: Option<&str>) {
        tracing::debug!(cluster = %self.cluster, %placement, epoch, "the inventory changed; it is planned on what is there now");
    }
}
