//! The daemon's HTTP interface: health, metrics, the records for `get` and `status`, and the page.
//!
//! It listens on loopback by default; to expose it, put a proxy with TLS in front. Commands need a token, and reading needs one
//! if `http.read` says so; the plugin generator of Argo CD has a token of its own, which allows no commands. In the page people show
//! their token once, and a session takes its place.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query as UrlQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use engine::store;
use engine::store::Store;
use engine::store::lease::Role;
use model::commands::Grant;
use model::explanation::{Explanation, Query};
use model::forge::CommitPulls;
use model::id::PlacementKey;
use system::instruction::{Instruction, Preview};
use system::telemetry::health::{Health, HealthReport};
use system::telemetry::metrics::{CONTENT_TYPE, Metrics};
use views::simulation::SimulatedRun;

/// All records, or those whose keys start with `prefix`; none of those below [`FORGE_PREFIX`](engine::store::records::FORGE_PREFIX),
/// and not [`DROPPED_KEY`](engine::store::records::DROPPED_KEY).
pub const RECORDS_PATH: &str = "/api/v1/records";
/// Answers as soon as records have changed after version `after`, or after a while.
pub const CHANGES_PATH: &str = "/api/v1/changes";
/// Explains the placement that `placement` and, if need be, `kind` name.
pub const EXPLAIN_PATH: &str = "/api/v1/explain";
/// How long a request for changes waits.
const CHANGES_WAIT: Duration = Duration::from_secs(30);

mod access;
mod api;
mod backup;
mod bodies;
mod commands;
#[cfg(test)]
mod fixtures;
mod front;
mod getparams;
mod history;
mod journal;
mod page;
mod pushes;
mod records;
mod routes;
mod serve;
mod sessions;
mod stream;
pub mod tokens;
mod turns;
mod webhooks;

pub use access::Access;
pub use api::{
    BINDINGS_PATH, CLUSTERS_PATH, EVENTS_PATH, EVENTS_SEARCHED_MAX, PLACEMENT_PATH, PLACEMENTS_PATH, Published,
    Publisher, SUMMARY_PATH, Views, WORKS_PATH,
};
pub use backup::BACKUP_PATH;
pub use bodies::{BODIES_BYTES_MAX, BODIES_MAX, BODY_TIME};
pub use commands::{COMMAND_BYTES_MAX, COMMANDS_PATH, PREVIEW_PATH};
pub use front::{Front, FrontParts, LEADER_WAIT, LeaderRouters, PASSED_ON, role_text};
pub use getparams::GETPARAMS_PATH;
pub use history::{Compared, SourceHistory};
pub use journal::{JOURNAL_PAGE, JOURNAL_PATH, JournalPage};
pub use page::{EVENTS_PAGE_SEARCHED_MAX, Forecasts, PAGE_PATH, PageSettings, RecentFragments, TrustedProxy};
pub use pushes::{PROPERTIES_PATH, PUSH_BYTES_MAX, PushRequest, SCORES_PATH};
pub use records::PREFIXES_MAX;
pub use routes::{Caller, Limit, Method, Route, router, routes, webhook_router};
pub use serve::{CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_TIME, REQUEST_TIME, raise_open_files, serve};
pub use sessions::{SESSION_TIME, SESSIONS_MAX, Sessions};
pub use stream::{PAGE_STREAMS_MAX, STREAM_PATH, STREAM_PATIENCE, STREAM_TIME, STREAMS_MAX, Streams};
pub use turns::{READS_MAX, TURN_TIME, Turns};
pub use webhooks::{GITEA_PATH, GITHUB_PATH, Hooks};

/// A question that the core's state answers.
#[derive(Debug)]
pub enum Question {
    /// Why a placement is where it is.
    Explain {
        /// What is to be explained.
        query: Query,
        /// Receives the explanation, or why there is none.
        reply: oneshot::Sender<Result<Explanation, String>>,
    },
    /// How long the stages of a run take by the simulation.
    Forecast {
        /// The placement.
        placement: PlacementKey,
        /// The run's name.
        run: String,
        /// Receives the prediction; `None` for a run that cannot be simulated.
        reply: oneshot::Sender<Option<SimulatedRun>>,
    },
}

/// What the handlers share.
#[derive(Clone)]
pub struct Shared {
    /// The store; read only here.
    pub store: Arc<dyn Store>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The failed parts of the daemon.
    pub health: Arc<Health>,
    /// Counts changes of the records.
    pub changes: watch::Receiver<u64>,
    /// What people see.
    pub views: Views,
    /// What git holds of the source.
    pub history: Arc<dyn SourceHistory>,
    /// The pull requests that brought commits, by the name of the source.
    pub pulls: BTreeMap<String, watch::Receiver<Arc<CommitPulls>>>,
    /// Limits who follows it.
    pub streams: Streams,
    /// Receives questions.
    pub questions: mpsc::Sender<Question>,
    /// Who may read decisions as a plugin of Argo CD.
    pub readers: Arc<tokens::Tokens>,
    /// Who may command, and read.
    pub commanders: Arc<tokens::Tokens>,
    /// Who may read records, journal and metrics, and no more.
    pub watchers: Arc<tokens::Tokens>,
    /// Who may push scores and properties, and no more.
    pub pushers: Arc<tokens::Tokens>,
    /// Who takes what is pushed.
    pub pushes: mpsc::Sender<PushRequest>,
    /// Receives commands.
    pub instructions: mpsc::UnboundedSender<Instruction>,
    /// Receives requests to preview approvals.
    pub previews: mpsc::UnboundedSender<Preview>,
    /// Restrictions of commanding tokens, by name; a missing one has none.
    pub grants: Arc<BTreeMap<String, Grant>>,
    /// The verification of webhooks, for each repository that has one.
    pub hooks: Vec<Hooks>,
    /// What this daemon is among those on its store.
    pub role: watch::Receiver<Role>,
    /// Who may read, and under which names.
    pub access: Access,
    /// Limits answers that need much memory.
    pub turns: Turns,
    /// The page; absent where it is switched off.
    pub page: Option<Arc<PageSettings>>,
}

/// Listens.
///
/// # Errors
/// The address cannot be listened on: it is in use, or not ours.
///
/// # Cancel safety
/// May be dropped at any point: the address is free again.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    Ok(listener)
}

/// Alive while it answers: the daemon restarts failed parts itself, and this names them.
async fn healthy(State(shared): State<Shared>) -> String {
    std::iter::once("ok".to_owned()).chain(shared.health.report().lines).collect::<Vec<_>>().join("\n")
}

/// Ready: the source was read at least once, and no required part has failed.
async fn ready(State(shared): State<Shared>) -> Response {
    let HealthReport { is_ready, lines } = shared.health.report();
    let role = shared.role.borrow().clone();
    let (leads, line) = front::standing(&role);
    let role = (role != Role::Alone).then_some(line);
    let is_read = *shared.changes.borrow() != 0;
    let unread = (!is_read).then(|| "the source was not read yet".to_owned());
    if is_read && is_ready && leads {
        let first = role.unwrap_or_else(|| "ok".to_owned());
        return std::iter::once(first).chain(lines).collect::<Vec<_>>().join("\n").into_response();
    }
    let lines = unread.into_iter().chain(role).chain(lines).collect::<Vec<_>>();
    (StatusCode::SERVICE_UNAVAILABLE, lines.join("\n")).into_response()
}

/// Returns the status and the words of an answer for which the store had nothing: 503 where its database is away, and the same request
/// may succeed later.
fn store_failure(error: &store::Error) -> (StatusCode, String) {
    match error {
        store::Error::Unavailable { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the database does not answer; ask again when it does: {error}"))
        }
        error => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Reads the store on a thread that may wait.
///
/// # Errors
/// The status and the words to answer with.
async fn read_store<T: Send + 'static>(
    shared: &Shared,
    read: impl FnOnce(&dyn Store) -> store::Result<T> + Send + 'static,
) -> Result<T, (StatusCode, String)> {
    let store = Arc::clone(&shared.store);
    match tokio::task::spawn_blocking(move || read(store.as_ref())).await {
        Ok(found) => found.map_err(|error| store_failure(&error)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    ([("content-type", CONTENT_TYPE)], shared.metrics.encode()).into_response()
}

#[derive(Deserialize)]
struct ChangesQuery {
    #[serde(default)]
    after: u64,
}

async fn changes(State(mut shared): State<Shared>, UrlQuery(query): UrlQuery<ChangesQuery>) -> Response {
    let newer = shared.changes.wait_for(|version| *version > query.after);
    // A timeout or the end of the daemon is no error: the unchanged version says that nothing is new.
    drop(tokio::time::timeout(CHANGES_WAIT, newer).await);
    let version = *shared.changes.borrow();
    axum::Json(json!({"version": version})).into_response()
}

async fn explain(State(shared): State<Shared>, UrlQuery(query): UrlQuery<Query>) -> Response {
    let (reply, answer) = oneshot::channel();
    let asked = shared.questions.send(Question::Explain { query, reply }).await.is_ok();
    match answer.await {
        Ok(Ok(explanation)) if asked => axum::Json(explanation).into_response(),
        Ok(Err(why)) => (StatusCode::NOT_FOUND, why).into_response(),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the daemon is ending").into_response(),
    }
}

#[cfg(test)]
mod tests;
