//! Watches of a member's nodes and pods, for what they add up to.
//!
//! Of each object only what is added up is read; nothing of it is kept but its amounts. Lists come in pages, and finished
//! and unscheduled pods are not sent at all.

use std::borrow::Cow;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::connect::{is_expired, watch_failure};
use super::wire::Wire;
use super::{Error, Observation};
use crate::model::facts::{Facts, NodeStatus, PodSpec, PodStatus, Tally};

/// Shortest pause between two reports of one member's facts.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Pause before a failed watch is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The same where the member refused it: somebody has to grant it first.
const REFUSED_RETRY: Duration = Duration::from_mins(5);
/// Nodes of one page of a list: a node's images and conditions come to tens of kilobytes.
const NODES_IN_PAGE: u32 = 100;
/// Pods of one page of a list.
const PODS_IN_PAGE: u32 = 500;
/// Pods that ask for something: on a node and not finished. Every API server can select by these fields.
const PODS_THAT_COUNT: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// What is read of a Node.
#[derive(Clone, Debug, Deserialize)]
struct Node {
    #[serde(deserialize_with = "identity")]
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

/// Follows nodes and pods until the member does not answer or nobody listens.
///
/// The first report comes when both were listed, or cannot be; then one whenever something changed, coalesced.
pub(super) async fn follow(wire: Wire, sink: mpsc::Sender<Observation>) {
    let (cluster, client) = (wire.cluster.clone(), wire.client.clone());
    let nodes = watcher::Config::default().page_size(NODES_IN_PAGE);
    let pods = watcher::Config::default().page_size(PODS_IN_PAGE).fields(PODS_THAT_COUNT);
    let mut nodes: Events<Node> = events(Api::all(client.clone()), nodes).boxed();
    let mut pods: Events<Pod> = events(Api::all(client), pods).boxed();
    let mut view = View { cluster, tally: Tally::default(), nodes_failed: None, pods_failed: None };
    let mut reported = None;
    let mut due = Instant::now();
    let mut stale = false;
    loop {
        let taken = tokio::select! {
            Some(event) = nodes.next() => view.take_node(event),
            Some(event) = pods.next() => view.take_pod(event),
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
fn events<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = Result<Event<K>, watcher::Error>>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let watch = watcher::watcher(api, config).boxed();
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

/// Tells whether the member will say the same again until somebody changes something there.
fn is_refused(error: &watcher::Error) -> bool {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        _ => return false,
    };
    (400..500).contains(&code) && !matches!(code, 401 | 410 | 429)
}

/// What was seen, and what cannot be.
struct View {
    cluster: String,
    tally: Tally,
    nodes_failed: Option<String>,
    pods_failed: Option<String>,
}

impl View {
    /// Takes in what the watch of nodes saw; fails where the member does not answer.
    fn take_node(&mut self, event: Result<Event<Node>, watcher::Error>) -> Result<(), Error> {
        let tally = &mut self.tally;
        match event {
            Ok(Event::Init) => tally.list_nodes(),
            Ok(Event::InitApply(node) | Event::Apply(node)) => tally.set_node(uid(&node.metadata), &node.status),
            Ok(Event::Delete(node)) => tally.delete_node(uid(&node.metadata)),
            Ok(Event::InitDone) => {
                tally.nodes_listed();
                self.nodes_failed = None;
            }
            Err(error) => {
                let refused = is_refused(&error);
                let why = self.complaint("nodes", error)?;
                if refused {
                    self.tally.forget_nodes();
                }
                self.nodes_failed = why.or(self.nodes_failed.take());
            }
        }
        Ok(())
    }

    /// Takes in what the watch of pods saw; fails where the member does not answer.
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
                let refused = is_refused(&error);
                let why = self.complaint("pods", error)?;
                if refused {
                    self.tally.forget_pods();
                }
                self.pods_failed = why.or(self.pods_failed.take());
            }
        }
        Ok(())
    }

    /// Turns a failure into words; says nothing of a watch that only fell behind, and fails where the member does not answer.
    fn complaint(&self, what: &str, error: watcher::Error) -> Result<Option<String>, Error> {
        if is_expired(&error) {
            return Ok(None);
        }
        // Something the member said that nobody can read is no reason to give up on all of it.
        let unreadable = matches!(
            error,
            watcher::Error::InitialListFailed(kube::Error::SerdeError(_))
                | watcher::Error::WatchFailed(kube::Error::SerdeError(_))
        );
        match watch_failure(&self.cluster, what, error) {
            error if error.is_offline() && !unreadable => Err(error),
            error => Ok(Some(error.to_string())),
        }
    }

    /// Returns what is known; `None` until nodes and pods were listed or cannot be.
    fn facts(&self) -> Option<Facts> {
        let or = |failed: &Option<String>| failed.clone();
        let nodes = self.tally.nodes().map(Ok).or_else(|| or(&self.nodes_failed).map(Err))?;
        let requested = self.tally.requested().map(Ok).or_else(|| or(&self.pods_failed).map(Err))?;
        Some(Facts { nodes, requested })
    }
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectList;
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    /// A pod as an API server sends it, with much that nobody asks for.
    fn pod() -> Value {
        json!({
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "8ec1b1d6-4e5b-4b34-9f0a-6a5fc0b6b2f1", "resourceVersion": "42",
                "labels": {"app": "web"}, "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "web:1", "env": [{"name": "A", "value": "b"}],
                    "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}}],
                "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}],
                "overhead": {"memory": "1Mi"},
                "tolerations": [{"operator": "Exists"}],
            },
            "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true}]},
        })
    }

    fn node() -> Value {
        json!({
            "metadata": {"name": "n1", "uid": "n1", "resourceVersion": "7"},
            "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
            "status": {
                "capacity": {"cpu": "4", "memory": "16393244Ki", "ephemeral-storage": "1", "pods": "110"},
                "allocatable": {"cpu": "3920m", "memory": "16Gi"},
                "conditions": [{"type": "Ready", "status": "False"}],
                "images": [{"names": ["web:1"], "sizeBytes": 1}],
            },
        })
    }

    fn failed(code: u16, message: &str) -> watcher::Error {
        watcher::Error::InitialListFailed(kube::Error::Api(Status::failure(message, "Reason").with_code(code).boxed()))
    }

    fn view() -> View {
        View { cluster: "m".into(), tally: Tally::default(), nodes_failed: None, pods_failed: None }
    }

    fn list_no_nodes(view: &mut View) {
        for event in [Event::Init, Event::InitDone] {
            view.take_node(Ok(event)).expect("no failure");
        }
    }

    fn list_no_pods(view: &mut View) {
        for event in [Event::Init, Event::InitDone] {
            view.take_pod(Ok(event)).expect("no failure");
        }
    }

    #[test]
    fn lists_are_read_and_added_up() {
        let pods: ObjectList<Pod> = serde_json::from_value(json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "50"}, "items": [pod()],
        }))
        .expect("a list of pods");
        assert_eq!(pods.items[0].metadata.resource_version.as_deref(), Some("42"));
        assert!(pods.items[0].metadata.labels.is_none(), "labels are skipped");
        let nodes: ObjectList<Node> =
            serde_json::from_value(json!({"metadata": {}, "items": [node()]})).expect("a list of nodes");
        let mut view = view();
        for event in [Event::Init, Event::InitApply(pods.items[0].clone()), Event::InitDone] {
            view.take_pod(Ok(event)).expect("no failure");
        }
        assert_eq!(view.facts(), None, "nodes are not listed yet");
        for event in [Event::Init, Event::InitApply(nodes.items[0].clone()), Event::InitDone] {
            view.take_node(Ok(event)).expect("no failure");
        }
        let facts = view.facts().expect("both are listed");
        let lines: Vec<String> = facts.properties().iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "kubernetes-fleet.io/node-count=1",
                "kubernetes.azure.com/node-count=1",
                "resources.kubernetes-fleet.io/allocatable-cpu=3920m",
                "resources.kubernetes-fleet.io/allocatable-memory=16Gi",
                "resources.kubernetes-fleet.io/available-cpu=1920m",
                "resources.kubernetes-fleet.io/available-memory=15359Mi",
                "resources.kubernetes-fleet.io/total-cpu=4",
                "resources.kubernetes-fleet.io/total-memory=16393244Ki",
            ]
        );
        view.take_pod(Ok(Event::Delete(pods.items[0].clone()))).expect("no failure");
        assert_eq!(view.facts().expect("both are listed").available().map(|a| a.cpu_milli), Some(3920));
    }

    #[test]
    fn failures() {
        // Code, whether the member counts as not answering, whether what was known is forgotten, words of the complaint.
        let rows = [
            (403, false, true, "nodes is forbidden"),
            (400, false, true, "nodes is forbidden"),
            (500, false, false, ""),
            (429, false, false, ""),
            (401, true, false, ""),
        ];
        for (code, offline, forgotten, words) in rows {
            let mut view = view();
            list_no_pods(&mut view);
            list_no_nodes(&mut view);
            let taken = view.take_node(Err(failed(code, "nodes is forbidden")));
            assert_eq!(taken.is_err_and(|error| error.is_offline()), offline, "{code}");
            let facts = view.facts().expect("listed, or failed");
            assert_eq!(facts.nodes.is_err(), forgotten, "{code}");
            assert!(facts.complaint().unwrap_or_default().contains(words), "{code}: {:?}", facts.complaint());
        }
    }

    #[test]
    fn a_watch_that_fell_behind_is_no_complaint() {
        let mut view = view();
        list_no_pods(&mut view);
        let gone = watcher::Error::WatchError(Status::failure("too old", "Expired").with_code(410).boxed());
        view.take_node(Err(gone)).expect("the member answers");
        assert_eq!(view.facts(), None, "nodes are still to be listed");
        view.take_node(Err(failed(500, "etcd is away"))).expect("the member answers");
        let complaint = view.facts().expect("it failed").complaint().unwrap_or_default();
        assert!(complaint.contains("etcd is away"), "nobody waits for what may never come: {complaint}");
        list_no_nodes(&mut view);
        assert_eq!(view.facts().expect("listed").complaint(), None);
    }
}
