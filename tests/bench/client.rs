//! The floor and the eyes: a bare client that applies and watches, with nothing of gitfleet in it.
//!
//! kube's `Client` over a hyper-util HTTP/2 client, one connection for each cluster; requests are prepared beforehand,
//! answers are read and dropped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use hyper_util::client::legacy::{Builder, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tower::ServiceBuilder;

use crate::fleet::Member;

/// Bytes a stream or connection may carry before its reader must keep up; as large as gitfleet's.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// How long anything may take before a run is given up: far above every figure that is of any use.
const LIMIT: Duration = Duration::from_mins(3);

/// Connects to a cluster: HTTP/2, one connection.
pub async fn connect(kubeconfig: &Path) -> Result<Client> {
    let path = kubeconfig.display();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let tls = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_only();
    let http = Builder::new(TokioExecutor::new())
        .http2_only(true)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build::<_, Body>(tls.enable_http2().wrap_connector(connector));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    let client = ClientBuilder::new(service, config.default_namespace.clone()).build();
    client.apiserver_version().await.with_context(|| format!("connect by {path}"))?;
    Ok(client)
}

/// One prepared apply: path and body.
pub type Apply = (String, Vec<u8>);

/// Prepares applies of ConfigMaps that are like gitfleet's: same data, one label, one annotation.
pub fn config_maps(namespace: &str, count: usize, value: &str) -> Vec<Apply> {
    let one = |number: usize| {
        let name = format!("c-{number:04}");
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager=floor&force=true");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value}, "metadata": {
            "name": name, "namespace": namespace,
            "labels": {"app": name, "applyset.kubernetes.io/part-of": "floor"},
            "annotations": {"kubernetes-fleet.io/spec-hash": "0".repeat(64)},
        }});
        (path, object.to_string().into_bytes())
    };
    (0..count).map(one).collect()
}

/// Prepares the apply of a namespace.
pub fn namespace(name: &str) -> Apply {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    (format!("/api/v1/namespaces/{name}?fieldManager=floor&force=true"), object.to_string().into_bytes())
}

/// Creates a namespace on every cluster.
pub async fn create_namespace(clients: &[Client], name: &str) -> Result<()> {
    apply_everywhere(clients, &[namespace(name)], 1).await
}

/// Returns the request of a prepared apply.
pub fn request((path, body): &Apply) -> http::Request<Vec<u8>> {
    let request = http::Request::patch(path).header("content-type", "application/apply-patch+yaml");
    request.body(body.clone()).expect("path and header are valid")
}

/// Applies the same objects on all clusters at once, so many in flight on each cluster's connection.
pub async fn apply_everywhere(clients: &[Client], applies: &[Apply], in_flight: usize) -> Result<()> {
    let all = clients.iter().map(|client| {
        let requests = futures::stream::iter(applies.iter().map(move |apply| {
            let request = request(apply);
            async move { client.request_text(request).await.map(drop) }
        }));
        requests.buffer_unordered(in_flight).try_collect::<Vec<()>>()
    });
    futures::future::try_join_all(all).await.context("bare server-side apply").map(drop)
}

/// What watches of all ConfigMaps of some clusters have seen; gitfleet and the floor are evaluated by it alike.
pub struct Eyes {
    clusters: usize,
    seen: BTreeMap<(usize, String, String), String>,
    events: mpsc::UnboundedReceiver<(usize, ConfigMap)>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Eyes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Eyes {
    /// Starts watching, on connections of their own.
    pub async fn open(members: &[Member]) -> Result<Self> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        for (cluster, member) in members.iter().enumerate() {
            let api: Api<ConfigMap> = Api::all(connect(&member.kubeconfig).await?);
            let sender = sender.clone();
            tasks.push(tokio::spawn(async move {
                let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
                while let Some(event) = events.next().await {
                    if let Ok(Event::Apply(object) | Event::InitApply(object)) = event
                        && sender.send((cluster, object)).is_err()
                    {
                        return;
                    }
                }
            }));
        }
        Ok(Self { clusters: members.len(), seen: BTreeMap::new(), events, tasks })
    }

    fn take(&mut self, (cluster, object): (usize, ConfigMap)) {
        let (namespace, name) =
            (object.metadata.namespace.unwrap_or_default(), object.metadata.name.unwrap_or_default());
        // An inventory's value is the snapshot it records.
        let index = object.metadata.annotations.and_then(|mut a| a.remove("gitfleet.io/snapshot-index"));
        let value = index.or_else(|| object.data.and_then(|mut data| data.remove("value"))).unwrap_or_default();
        self.seen.insert((cluster, namespace, name), value);
    }

    /// Waits until that many ConfigMaps of a namespace have a value on every cluster; returns when that was.
    pub async fn await_value(&mut self, namespace: &str, names: &[String], value: &str) -> Result<Instant> {
        let mut missing: Vec<(usize, String, String)> = (0..self.clusters)
            .flat_map(|cluster| names.iter().map(move |name| (cluster, namespace.to_owned(), name.clone())))
            .collect();
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            while let Some(key) = missing.last() {
                if self.seen.get(key).is_none_or(|seen| seen != value) {
                    break;
                }
                missing.pop();
            }
            if missing.is_empty() {
                return Ok(Instant::now());
            }
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) => bail!("the watches ended"),
                Err(_) => bail!("{} of {namespace} are not {value:?} after {LIMIT:?}", missing.len()),
            }
        }
    }
}

/// Returns the names that `config_maps` gives.
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("c-{number:04}")).collect()
}
