//! Watch of a member's inventory parents.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Api;
use kube::api::{ApiResource, ListParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::live::Inventory;
use super::object::RawObject;
use super::wire::Wire;
use super::{Error, Observation, WatchHandle};
use crate::inventory::with_type;

/// First pause before a failed list or watch is tried again; doubles up to the longest.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause.
const RETRY_MAX: Duration = Duration::from_mins(1);
/// Pause between two lists where the member does not let us watch: as often as other objects that no watch covers are checked.
const REFUSED_RETRY: Duration = Duration::from_mins(15);
/// HTTP status of a watch that is too far behind: the list is made again.
const EXPIRED: u16 = 410;

/// Why following ended.
enum FollowEnd {
    /// Nobody listens any more.
    Unheard,
    /// The version to watch from is not known any more.
    Expired,
    /// A list or a watch failed.
    Failed(Error),
}

/// Watches the inventory parents, from the resource version of a list where there is one.
pub(super) fn watch(
    wire: Wire,
    inventory: Inventory,
    listed: &Mutex<Option<String>>,
    sink: mpsc::Sender<Observation>,
) -> WatchHandle {
    let listed = listed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    WatchHandle::start(sink.clone(), Observation::panicked, follow(wire, inventory, listed, sink))
}

/// Follows the inventory parents from the version of a list until nobody listens; without one it begins with a list.
///
/// A failure is no news of the member: its other watches notice when it does not answer.
async fn follow(wire: Wire, inventory: Inventory, listed: Option<String>, sink: mpsc::Sender<Observation>) {
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let resource = ApiResource::from_gvk_with_plural(&kind, "configmaps");
    let api = Api::namespaced_with(wire.client.clone(), inventory.namespace, &resource);
    let follower = Follower { wire, api, label: inventory.id_label, sink };
    let mut version = listed;
    let mut pause = RETRY_FIRST;
    loop {
        let end = follower.follow(&mut version, &mut pause).await;
        match end {
            FollowEnd::Unheard => return,
            FollowEnd::Expired => version = None,
            FollowEnd::Failed(error) => {
                let is_refused = matches!(error, Error::Refused { code: 403, .. });
                tracing::debug!(cluster = follower.wire.cluster, %error, "inventories are not watched for a time");
                let wait = if is_refused { REFUSED_RETRY } else { pause };
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = follower.sink.closed() => return,
                }
                pause = pause.saturating_mul(2).min(RETRY_MAX);
                version = None;
            }
        }
    }
}

struct Follower {
    wire: Wire,
    api: Api<RawObject>,
    label: &'static str,
    sink: mpsc::Sender<Observation>,
}

impl Follower {
    /// Lists, where no version is known, and watches until something ends it.
    async fn follow(&self, version: &mut Option<String>, pause: &mut Duration) -> FollowEnd {
        let mut at = match version.take() {
            Some(version) => version,
            None => match self.list().await {
                Ok(version) => version,
                Err(end) => return end,
            },
        };
        loop {
            let began = Instant::now();
            if let Err(end) = self.watch(&mut at).await {
                return end;
            }
            // The server ends each watch after a time, and the next one continues from the last event. One that ends at once is not begun
            // again at once.
            if began.elapsed() < RETRY_FIRST {
                tokio::time::sleep(RETRY_FIRST).await;
            }
            *pause = RETRY_FIRST;
        }
    }

    /// Sends all inventories. Returns the version of the list.
    async fn list(&self) -> Result<String, FollowEnd> {
        let params = ListParams::default().labels(self.label);
        let list = self.wire.request(&"the inventory", self.api.list(&params)).await.map_err(FollowEnd::Failed)?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let parents = list.items.into_iter().map(|item| with_type(item, "v1", "ConfigMap")).collect();
        self.send(Observation::Inventories(parents, number(&version))).await?;
        Ok(version)
    }

    /// Sends what changes after a version, until the server ends the watch.
    async fn watch(&self, at: &mut String) -> Result<(), FollowEnd> {
        let params = WatchParams::default().labels(self.label);
        let failed = |error| async { FollowEnd::Failed(self.wire.failure(&"the watch of the inventory", error).await) };
        let events = match self.api.watch(&params, at).await {
            Ok(events) => events,
            Err(kube::Error::Api(status)) if status.code == EXPIRED => return Err(FollowEnd::Expired),
            Err(error) => return Err(failed(error).await),
        };
        let mut events = std::pin::pin!(events);
        loop {
            let event = match events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error) => return Err(failed(error).await),
            };
            let (object, is_gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(mark) => {
                    *at = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) if status.code == EXPIRED => return Err(FollowEnd::Expired),
                WatchEvent::Error(status) => return Err(failed(kube::Error::Api(status)).await),
            };
            let parent = Box::new(with_type(object, "v1", "ConfigMap"));
            if let Some(version) = parent.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
                version.clone_into(at);
            }
            let seen = if is_gone { Observation::InventoryGone(parent) } else { Observation::Inventory(parent) };
            self.send(seen).await?;
        }
    }

    async fn send(&self, observation: Observation) -> Result<(), FollowEnd> {
        self.sink.send(observation).await.map_err(|_| FollowEnd::Unheard)
    }
}

/// Returns a resource version as a number; 0 for one that is none.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}
