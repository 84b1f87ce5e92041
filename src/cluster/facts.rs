//! Watches of a member's nodes and pods, for what they add up to, and of what it claims of itself.
//!
//! Only the summed fields of each object are read, and only its amounts are kept. Lists come in pages, and the API server omits
//! finished and unscheduled pods.

mod claims;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;
use tokio::time::Instant;

use claims::{ClaimEvent, Claims};

use super::connect::{is_expired, watch_failure};
use super::wire::Wire;
use super::{Error, Observation};
use crate::retry::{REFUSED_RETRY, RETRY, is_refused};
use model::facts::{Facts, MACHINE_TYPE_LABELS, NodeStatus, PodSpec, PodStatus, Tally};

/// Shortest pause between two reports of one member's facts.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Nodes of one page of a list: a node's images and conditions come to tens of kilobytes.
const NODES_IN_PAGE: u32 = 100;
/// Pods of one page of a list.
const PODS_IN_PAGE: u32 = 500;
/// Pods that ask for something: on a node and not finished. Every API server can select by these fields.
const PODS_THAT_COUNT: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// What is read of a Node.
#[derive(Clone, Debug, Deserialize)]
struct Node {
    #[serde(deserialize_with = "identity_and_machine_type")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: NodeStatus,
}

/// What is read of a Pod.
#[derive(Clone, Debug, Deserialize)]
struct Pod {
    #[serde(deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

/// Reads the metadata that a watch goes by; labels, annotations and managed fields are skipped.
fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        uid: Option<String>,
        resource_version: Option<String>,
    }
    let Identity { uid, resource_version } = Identity::deserialize(deserializer)?;
    Ok(ObjectMeta { uid, resource_version, ..ObjectMeta::default() })
}

/// Reads the same, and the labels that name a machine type.
fn identity_and_machine_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Labelled {
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    let Labelled { uid, resource_version, labels } = Labelled::deserialize(deserializer)?;
    let labels = labels.map(|mut labels| {
        labels.retain(|name, _| MACHINE_TYPE_LABELS.contains(&name.as_str()));
        labels
    });
    Ok(ObjectMeta { uid, resource_version, labels, ..ObjectMeta::default() })
}

/// Names a core kind for `kube`.
macro_rules! core_kind {
    ($type:ty, $kind:literal, $plural:literal, $scope:ty) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                "".into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

core_kind!(Node, "Node", "nodes", ClusterResourceScope);
core_kind!(Pod, "Pod", "pods", NamespaceResourceScope);

type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// Follows nodes, pods and claims until the member does not answer or nobody listens.
///
/// The first report comes when both were listed, or cannot be; then one whenever something changed, coalesced.
pub(super) async fn follow(wire: Wire, sink: mpsc::Sender<Observation>) {
    let cluster = wire.cluster.clone();
    let client = wire.client.clone();
    let nodes = watcher::Config::default().page_size(NODES_IN_PAGE);
    let pods = watcher::Config::default().page_size(PODS_IN_PAGE).fields(PODS_THAT_COUNT);
    let mut nodes: Events<Node> = paced(watcher::watcher(Api::all(client.clone()), nodes)).boxed();
    let mut pods: Events<Pod> = paced(watcher::watcher(Api::all(client), pods)).boxed();
    let mut claims = claims::events(wire.clone()).boxed();
    let mut view = View::new(cluster);
    let mut reported = None;
    let mut due = Instant::now();
    let mut stale = false;
    loop {
        let taken = tokio::select! {
            Some(event) = nodes.next() => view.take_node(event),
            Some(event) = pods.next() => view.take_pod(event),
            Some(heard) = claims.next() => view.take_claims(heard),
            () = tokio::time::sleep_until(due), if stale => {
                stale = false;
                due = Instant::now() + REPORT_INTERVAL;
                if let Some(facts) = view.facts().filter(|facts| reported.as_ref() != Some(facts)) {
                    reported = Some(facts.clone());
                    if sink.send(Observation::Facts(Box::new(facts))).await.is_err() {
                        return;
                    }
                }
                continue;
            }
            else => return,
        };
        // One answer that broke off is no reason to give up on the member: it is asked again.
        let failed = match taken {
            Err(Error::Unreachable { .. }) if wire.answers().await => None,
            taken => taken.err(),
        };
        if let Some(error) = failed {
            // Whether anybody listens or not, this is the end.
            drop(sink.send(Observation::FactsFailed(error)).await);
            return;
        }
        stale = true;
    }
}

/// Returns what a watch sees; after a failure it is not asked again for a while.
pub(super) fn paced<K: Send + 'static>(
    watch: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send {
    let watch = watch.boxed();
    stream::unfold((watch, Duration::ZERO), |(mut watch, pause)| async move {
        tokio::time::sleep(pause).await;
        let event = watch.next().await?;
        let pause = match &event {
            Ok(_) => Duration::ZERO,
            Err(error) if is_refused(error) => REFUSED_RETRY,
            Err(_) => RETRY,
        };
        Some((event, (watch, pause)))
    })
}

/// The observed facts, and what cannot be observed.
struct View {
    cluster: String,
    tally: Tally,
    claims: Claims,
    nodes_failed: Option<String>,
    pods_failed: Option<String>,
    claims_failed: Option<String>,
}

impl View {
    fn new(cluster: String) -> Self {
        let tally = Tally::default();
        let claims = Claims::default();
        Self { cluster, tally, claims, nodes_failed: None, pods_failed: None, claims_failed: None }
    }

    /// Handles an event of the watch of nodes; fails if the member does not answer.
    fn take_node(&mut self, event: Result<Event<Node>, watcher::Error>) -> Result<(), Error> {
        let tally = &mut self.tally;
        match event {
            Ok(Event::Init) => tally.list_nodes(),
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                tally.set_node(uid(&node.metadata), machine_type(&node.metadata), &node.status);
            }
            Ok(Event::Delete(node)) => tally.delete_node(uid(&node.metadata)),
            Ok(Event::InitDone) => {
                tally.nodes_listed();
                self.nodes_failed = None;
            }
            Err(error) => {
                note_failure(&mut self.nodes_failed, &self.cluster, "nodes", error, || self.tally.forget_nodes())?;
            }
        }
        Ok(())
    }

    /// Handles an event of the watch of pods; fails if the member does not answer.
    fn take_pod(&mut self, event: Result<Event<Pod>, watcher::Error>) -> Result<(), Error> {
        let tally = &mut self.tally;
        match event {
            Ok(Event::Init) => tally.list_pods(),
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                tally.set_pod(uid(&pod.metadata), &pod.spec, &pod.status);
            }
            Ok(Event::Delete(pod)) => tally.delete_pod(uid(&pod.metadata)),
            Ok(Event::InitDone) => {
                tally.pods_listed();
                self.pods_failed = None;
            }
            Err(error) => {
                note_failure(&mut self.pods_failed, &self.cluster, "pods", error, || self.tally.forget_pods())?;
            }
        }
        Ok(())
    }

    /// Takes in what a watch reports of claims; fails where the member does not answer. Without the kind there are none, and that is no
    /// complaint.
    fn take_claims(&mut self, heard: ClaimEvent) -> Result<(), Error> {
        match heard {
            ClaimEvent::Absent => {
                self.claims.absent();
                self.claims_failed = None;
            }
            ClaimEvent::Unknown(error) if error.is_offline() => return Err(error),
            ClaimEvent::Unknown(error) => self.claims_failed = Some(error.to_string()),
            ClaimEvent::Watch(event) => match *event {
                Ok(event) => {
                    self.claims.take(event);
                    self.claims_failed = None;
                }
                Err(error) => {
                    note_failure(&mut self.claims_failed, &self.cluster, "clusterclaims", error, || {
                        self.claims.forget();
                    })?;
                }
            },
        }
        Ok(())
    }

    /// Returns the facts; `None` until nodes and pods were listed or are known to be unavailable.
    fn facts(&self) -> Option<Facts> {
        // Listed objects stay valid during the next list, and while that fails for a time.
        let nodes = self.tally.nodes().map(Ok).or_else(|| self.nodes_failed.clone().map(Err))?;
        let requested = self.tally.requested().map(Ok).or_else(|| self.pods_failed.clone().map(Err))?;
        Some(Facts { nodes, requested, claims: self.claims.counted(), claims_failed: self.claims_failed.clone() })
    }
}

/// Notes why a watch failed, and forgets what it listed if the member refuses it; fails if the member does not answer.
fn note_failure(
    noted: &mut Option<String>,
    cluster: &str,
    what: &str,
    error: watcher::Error,
    forget: impl FnOnce(),
) -> Result<(), Error> {
    // A watch that only fell behind says nothing of the failure before it.
    if is_expired(&error) {
        return Ok(());
    }
    let refused = is_refused(&error);
    // Something the member said that nobody can read is no reason to give up on all of it.
    let unreadable = matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::SerdeError(_))
            | watcher::Error::WatchFailed(kube::Error::SerdeError(_))
    );
    let failure = watch_failure(cluster, what, error);
    if failure.is_offline() && !unreadable {
        return Err(failure);
    }
    // A refusal lasts until somebody grants it, and the sums would grow old; other failures pass.
    if refused {
        forget();
    }
    *noted = Some(failure.to_string());
    Ok(())
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// Returns the machine type that a node's labels name.
fn machine_type(metadata: &ObjectMeta) -> Option<&str> {
    let labels = metadata.labels.as_ref()?;
    let named = MACHINE_TYPE_LABELS.iter().filter_map(|label| labels.get(*label));
    named.map(String::as_str).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
