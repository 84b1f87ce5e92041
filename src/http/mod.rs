//! Edge: the daemon's HTTP interface: health, metrics, and the records for `get` and `status`.
//!
//! Loopback by default: whoever exposes it puts a proxy with access control in front. Reading needs no token, commands do;
//! the plugin generator of Argo CD comes with a token of its own, which commands nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query as UrlQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::model::explanation::{Explanation, Query};
use crate::store::Store;
use crate::store::records::FORGE_PREFIX;
use crate::telemetry::metrics::{CONTENT_TYPE, Metrics};

/// All records, or those whose keys start with `prefix`; none of those below [`FORGE_PREFIX`].
pub const RECORDS_PATH: &str = "/api/v1/records";
/// Answers as soon as records have changed after version `after`, or after a while.
pub const CHANGES_PATH: &str = "/api/v1/changes";
/// Explains the placement that `placement` and, if need be, `kind` name.
pub const EXPLAIN_PATH: &str = "/api/v1/explain";
/// How long a question for changes is kept.
const CHANGES_WAIT: Duration = Duration::from_secs(30);

mod commands;
mod getparams;
mod journal;
pub mod tokens;
mod webhooks;

pub use commands::{COMMAND_BYTES_MAX, COMMANDS_PATH, Instruction};
pub use getparams::GETPARAMS_PATH;
pub use journal::{JOURNAL_PAGE, JOURNAL_PATH, Page as JournalPage};
pub use webhooks::{GITEA_PATH, GITHUB_PATH, Hooks};

/// A question to the engine, which alone knows what decides.
#[derive(Debug)]
pub struct Question {
    /// What is to be explained.
    pub query: Query,
    /// Where the answer goes: the explanation, or why there is none.
    pub reply: oneshot::Sender<Result<Explanation, String>>,
}

/// What the handlers share.
#[derive(Clone)]
pub struct Shared {
    /// The store; read only here.
    pub store: Arc<dyn Store>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Counts changes of the records.
    pub changes: watch::Receiver<u64>,
    /// Who explains.
    pub questions: mpsc::UnboundedSender<Question>,
    /// Who may read decisions as a plugin of Argo CD.
    pub readers: Arc<tokens::Tokens>,
    /// Who may command.
    pub commanders: Arc<tokens::Tokens>,
    /// Who carries commands out.
    pub instructions: mpsc::UnboundedSender<Instruction>,
    /// What webhooks are checked with; absent: there are none.
    pub hooks: Option<Hooks>,
}

/// Listens.
///
/// # Errors
/// The address cannot be listened on: it is in use, or not ours.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    Ok(listener)
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, shared: Shared) {
    if let Err(error) = axum::serve(listener, router(shared)).await {
        tracing::error!(%error, "the HTTP interface ended");
    }
}

fn router(shared: Shared) -> Router {
    let commands = post(commands::execute).layer(DefaultBodyLimit::max(COMMAND_BYTES_MAX));
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route(RECORDS_PATH, get(records))
        .route(CHANGES_PATH, get(changes))
        .route(EXPLAIN_PATH, get(explain))
        .route(JOURNAL_PATH, get(journal::read))
        .route(GETPARAMS_PATH, post(getparams::execute))
        .route(COMMANDS_PATH, commands)
        .route(GITEA_PATH, post(webhooks::gitea))
        .route(GITHUB_PATH, post(webhooks::github))
        .with_state(shared)
}

/// Ready means that the source was read at least once.
async fn ready(State(shared): State<Shared>) -> Response {
    match *shared.changes.borrow() {
        0 => (StatusCode::SERVICE_UNAVAILABLE, "the source was not read yet").into_response(),
        _ => "ok".into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    ([("content-type", CONTENT_TYPE)], shared.metrics.encode()).into_response()
}

#[derive(Deserialize)]
struct RecordsQuery {
    #[serde(default)]
    prefix: String,
}

async fn records(State(shared): State<Shared>, UrlQuery(query): UrlQuery<RecordsQuery>) -> Response {
    let version = *shared.changes.borrow();
    let listed = tokio::task::spawn_blocking(move || shared.store.list(&query.prefix)).await;
    match listed {
        Ok(Ok(entries)) => {
            let records: Vec<(String, Value)> = entries
                .into_iter()
                .filter(|(key, _)| !key.starts_with(FORGE_PREFIX))
                .map(|(key, found)| (key, serde_json::from_slice(&found.value).unwrap_or(Value::Null)))
                .collect();
            axum::Json(json!({"version": version, "records": records})).into_response()
        }
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct ChangesQuery {
    #[serde(default)]
    after: u64,
}

async fn changes(State(mut shared): State<Shared>, UrlQuery(query): UrlQuery<ChangesQuery>) -> Response {
    let newer = shared.changes.wait_for(|version| *version > query.after);
    // Neither a timeout nor a daemon that ends is an error: the version says that nothing is new.
    drop(tokio::time::timeout(CHANGES_WAIT, newer).await);
    let version = *shared.changes.borrow();
    axum::Json(json!({"version": version})).into_response()
}

async fn explain(State(shared): State<Shared>, UrlQuery(query): UrlQuery<Query>) -> Response {
    let (reply, answer) = oneshot::channel();
    let asked = shared.questions.send(Question { query, reply }).is_ok();
    match answer.await {
        Ok(Ok(explanation)) if asked => axum::Json(explanation).into_response(),
        Ok(Err(why)) => (StatusCode::NOT_FOUND, why).into_response(),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the daemon is ending").into_response(),
    }
}

#[cfg(test)]
mod tests;
