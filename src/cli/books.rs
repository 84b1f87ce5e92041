//! What `get`, `describe`, `status` and `export` read, and how the daemon is told something: through its API or, when no daemon
//! runs, from the store itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Daemon;
use crate::config::Configuration;
use crate::http::{CHANGES_PATH, COMMANDS_PATH, EXPLAIN_PATH, JOURNAL_PATH, JournalPage, RECORDS_PATH};
use crate::model::commands::{Command, Done, Refusal};
use crate::model::decisions::{DecisionsRecord, HubRecord};
use crate::model::explanation::{Explained, Query};
use crate::model::id::{ClusterName, PlacementKey};
use crate::model::ocm::OcmPlacementRecord;
use crate::model::records::{
    Binding, ClusterRecord, JournalEntry, PlacementRecord, PolicySnapshot, ResourceSnapshot, SourceRecord, WorkStatus,
};
use crate::model::runs::{RunRecord, Runs};
use crate::store::embedded::EmbeddedStore;
use crate::store::records::{
    self, BINDING_PREFIX, CLUSTER_PREFIX, DECISIONS_PREFIX, HUB_PREFIX, OCM_PREFIX, PLACEMENT_PREFIX, POLICY_PREFIX,
    RUN_PREFIX, SNAPSHOT_PREFIX, SOURCE_PREFIX, WORK_PREFIX,
};
use crate::store::{self, JOURNAL_ENTRIES_MAX, Store as _};

/// How long one answer of the daemon may take, long polls excepted.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the daemon may keep a question for changes.
const CHANGES_TIMEOUT: Duration = Duration::from_mins(1);

/// Where records come from.
pub enum Source {
    /// A running daemon.
    Daemon(String),
    /// The store of a configuration, which no process holds.
    Store(PathBuf),
}

/// All records at one moment, typed.
#[derive(Default)]
pub struct Books {
    /// The source.
    pub source: SourceRecord,
    /// Placements.
    pub placements: Vec<PlacementRecord>,
    /// Resource snapshots by placement and index.
    pub snapshots: BTreeMap<PlacementKey, BTreeMap<u64, std::sync::Arc<ResourceSnapshot>>>,
    /// Policy snapshots by placement and index.
    pub policies: BTreeMap<PlacementKey, BTreeMap<u64, PolicySnapshot>>,
    /// Bindings by placement.
    pub bindings: BTreeMap<PlacementKey, Vec<Arc<Binding>>>,
    /// Staged update runs by placement and name.
    pub runs: BTreeMap<PlacementKey, Runs>,
    /// Works by placement and cluster.
    pub works: BTreeMap<PlacementKey, BTreeMap<ClusterName, std::sync::Arc<WorkStatus>>>,
    /// Exported decisions.
    pub decisions: Vec<DecisionsRecord>,
    /// How hubs stand that decisions are written to.
    pub hubs: Vec<HubRecord>,
    /// OCM Placements.
    pub ocm: Vec<OcmPlacementRecord>,
    /// Clusters.
    pub clusters: BTreeMap<ClusterName, ClusterRecord>,
}

/// Finds where the records are: `--server`, else the daemon of the configuration, else its store.
///
/// # Errors
/// The configuration cannot be read.
pub fn locate(daemon: &Daemon) -> anyhow::Result<Source> {
    if let Some(server) = &daemon.server {
        return Ok(Source::Daemon(server.clone()));
    }
    let Some(path) = &daemon.config else {
        return Ok(Source::Daemon(crate::config::HTTP_LISTEN_DEFAULT.to_owned()));
    };
    let configuration = load_configuration(path)?;
    match EmbeddedStore::open_read_only(&configuration.store.path) {
        Err(store::Error::Locked { .. }) => Ok(Source::Daemon(configuration.http.listen.to_string())),
        _ => Ok(Source::Store(configuration.store.path)),
    }
}

/// Reads a configuration, with the environment's overrides.
///
/// # Errors
/// Every complaint about it.
pub fn load_configuration(path: &Path) -> anyhow::Result<Configuration> {
    let env = std::env::vars().filter(|(name, _)| name.starts_with("GITFLEET_")).collect();
    Ok(Configuration::load(path, &env)?)
}

impl Source {
    /// Reads all records.
    ///
    /// # Errors
    /// The daemon does not answer, or the store cannot be read.
    pub fn read(&self) -> anyhow::Result<Books> {
        let entries = match self {
            Self::Daemon(address) => from_daemon(address)?,
            Self::Store(path) => from_store(path)?,
        };
        Books::of(&entries)
    }

    /// Reads what happened, to a placement or at all, oldest first.
    ///
    /// # Errors
    /// The daemon does not answer, or the store cannot be read.
    pub fn journal(&self, placement: Option<&PlacementKey>) -> anyhow::Result<Vec<JournalEntry>> {
        match self {
            Self::Daemon(address) => journal_of(|after| {
                let mut parameters = form_urlencoded::Serializer::new(String::new());
                parameters.append_pair("after", &after.to_string());
                if let Some(placement) = placement {
                    parameters.append_pair("placement", &placement.to_string());
                }
                let answer = ask(address, &format!("{JOURNAL_PATH}?{}", parameters.finish()), ANSWER_TIMEOUT)?;
                serde_json::from_value(answer).context("the daemon's answer is no journal")
            }),
            Self::Store(path) => {
                let store = EmbeddedStore::open_read_only(path)?;
                let mut entries: Vec<_> =
                    store.journal(0, JOURNAL_ENTRIES_MAX)?.into_iter().map(|(_, entry)| entry).collect();
                entries.retain(|entry| placement.is_none_or(|wanted| entry.placement.as_ref() == Some(wanted)));
                Ok(entries)
            }
        }
    }

    /// Waits until records may have changed since `version`; returns the version to ask with next.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn wait(&self, version: u64) -> anyhow::Result<u64> {
        match self {
            Self::Daemon(address) => {
                let answer = ask(address, &format!("{CHANGES_PATH}?after={version}"), CHANGES_TIMEOUT)?;
                answer["version"].as_u64().context("the daemon's answer has no version")
            }
            Self::Store(_) => bail!("no daemon runs, so nothing changes; start one with `gitfleet run`"),
        }
    }
}

/// Reads a journal to its end, page by page.
fn journal_of(mut page: impl FnMut(u64) -> anyhow::Result<JournalPage>) -> anyhow::Result<Vec<JournalEntry>> {
    let (mut entries, mut after) = (Vec::new(), Some(0));
    while let Some(number) = after {
        let found = page(number)?;
        entries.extend(found.entries.into_iter().map(|(_, entry)| entry));
        after = found.next;
    }
    Ok(entries)
}

fn from_store(path: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let store = EmbeddedStore::open_read_only(path)?;
    let mut entries = Vec::new();
    for (key, versioned) in store.list("")? {
        let value =
            serde_json::from_slice(&versioned.value).with_context(|| format!("the record {key} is not JSON"))?;
        entries.push((key, value));
    }
    Ok(entries)
}

fn from_daemon(address: &str) -> anyhow::Result<Vec<(String, Value)>> {
    let answer = ask(address, RECORDS_PATH, ANSWER_TIMEOUT)?;
    serde_json::from_value(answer["records"].clone()).context("the daemon's answer is not a list of records")
}

/// Asks the daemon, and takes every answer but success for an error.
fn ask(address: &str, path: &str, timeout: Duration) -> anyhow::Result<Value> {
    let address = bare(address);
    let (status, body) = send(address, http::Request::get(uri(address, path)?), Bytes::new(), timeout)?;
    anyhow::ensure!(
        status.is_success(),
        "asking the daemon at {address}: it answered {status}: {}",
        String::from_utf8_lossy(&body)
    );
    serde_json::from_slice(&body).with_context(|| format!("the answer of the daemon at {address} is not JSON"))
}

fn bare(address: &str) -> &str {
    address.trim_start_matches("http://").trim_end_matches('/')
}

fn uri(address: &str, path: &str) -> anyhow::Result<http::Uri> {
    format!("http://{address}{path}").parse().with_context(|| format!("{address} is no address"))
}

/// Sends a request. Loopback and plain HTTP: whoever exposes the daemon puts a proxy in front.
fn send(
    address: &str,
    request: http::request::Builder,
    body: Bytes,
    timeout: Duration,
) -> anyhow::Result<(http::StatusCode, Bytes)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = request.body(http_body_util::Full::new(body))?;
    let question = async {
        let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let answer = client.request(request).await?;
        let status = answer.status();
        anyhow::Ok((status, http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes()))
    };
    let asked = runtime.block_on(async { tokio::time::timeout(timeout, question).await });
    asked.map_err(|_| anyhow::anyhow!("no answer within {} s", timeout.as_secs())).flatten().with_context(|| {
        format!("asking the daemon at {address} (is `gitfleet run` running there? name its configuration with -c, or its address with --server)")
    })
}

/// Tells the daemon to do something; returns what came of it, or why it refused.
///
/// # Errors
/// The daemon does not answer, does not know the token, or does not understand.
pub fn tell(address: &str, token: &SecretString, command: &Command) -> anyhow::Result<Result<Done, Refusal>> {
    let address = bare(address);
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
        .map_err(|_| anyhow::anyhow!("the token has characters that no token has"))?;
    bearer.set_sensitive(true);
    let request = http::Request::post(uri(address, COMMANDS_PATH)?)
        .header(AUTHORIZATION, bearer)
        .header(CONTENT_TYPE, "application/json");
    let (status, body) = send(address, request, serde_json::to_vec(command)?.into(), ANSWER_TIMEOUT)?;
    if status.is_success() {
        return Ok(Ok(serde_json::from_slice(&body).context("the daemon's answer does not say what was done")?));
    }
    if let Ok(refusal) = serde_json::from_slice::<Refusal>(&body) {
        return Ok(Err(refusal));
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let words = said["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
    bail!("the daemon at {address} answered {status}: {words}")
}

/// Asks the daemon why a placement has the clusters it has.
///
/// # Errors
/// The daemon does not answer, or knows no such placement.
pub fn ask_explain(address: &str, query: &Query) -> anyhow::Result<Explained> {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("placement", &query.placement);
    if let Some(kind) = &query.kind {
        parameters.append_pair("kind", kind);
    }
    let answer = ask(address, &format!("{EXPLAIN_PATH}?{}", parameters.finish()), ANSWER_TIMEOUT)?;
    serde_json::from_value(answer).context("the daemon's answer is no explanation")
}

impl Books {
    fn of(entries: &[(String, Value)]) -> anyhow::Result<Self> {
        let mut books = Self::default();
        for (key, value) in entries {
            books.take(key, value).with_context(|| format!("the record {key} cannot be read"))?;
        }
        Ok(books)
    }

    fn take(&mut self, key: &str, value: &Value) -> anyhow::Result<()> {
        fn typed<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
            T::deserialize(value)
        }
        if key.starts_with(SOURCE_PREFIX) {
            self.source = typed(value)?;
        } else if key.starts_with(PLACEMENT_PREFIX) {
            self.placements.push(typed(value)?);
        } else if key.starts_with(SNAPSHOT_PREFIX) {
            let snapshot: ResourceSnapshot = typed(value)?;
            let of = self.snapshots.entry(snapshot.placement.clone()).or_default();
            of.insert(snapshot.index, snapshot.into());
        } else if key.starts_with(POLICY_PREFIX) {
            let policy: PolicySnapshot = typed(value)?;
            self.policies.entry(policy.placement.clone()).or_default().insert(policy.index, policy);
        } else if key.starts_with(BINDING_PREFIX) {
            let binding: Binding = typed(value)?;
            self.bindings.entry(binding.placement.clone()).or_default().push(binding.into());
        } else if key.starts_with(RUN_PREFIX) {
            let run: RunRecord = typed(value)?;
            self.runs.entry(run.placement.clone()).or_default().insert(run);
        } else if key.starts_with(WORK_PREFIX) {
            let placement = records::placement_of(key, WORK_PREFIX).context("its key names no placement")?;
            let cluster = records::cluster_of(key, WORK_PREFIX).context("its key names no cluster")?;
            self.works.entry(placement).or_default().insert(cluster, std::sync::Arc::new(typed(value)?));
        } else if key.starts_with(CLUSTER_PREFIX) {
            let cluster: ClusterRecord = typed(value)?;
            self.clusters.insert(cluster.name.clone(), cluster);
        } else if key.starts_with(DECISIONS_PREFIX) {
            self.decisions.push(typed(value)?);
        } else if key.starts_with(OCM_PREFIX) {
            self.ocm.push(typed(value)?);
        } else if key.starts_with(HUB_PREFIX) {
            self.hubs.push(typed(value)?);
        }
        Ok(())
    }
}
