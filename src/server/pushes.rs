//! What machines push about clusters: who sends it is told by a token that is for nothing else.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::Shared;
use super::commands::{error, refused, whole};
use model::commands::Refusal;
use model::id::ClusterName;
use model::pushed::{Push, Pushing};

/// Where scores of a cluster are pushed to.
pub const SCORES_PATH: &str = "/api/v1/clusters/{name}/scores";
/// Where properties of a cluster are pushed to.
pub const PROPERTIES_PATH: &str = "/api/v1/clusters/{name}/properties";
/// Largest push in bytes: some hundred names with their values.
pub const PUSH_BYTES_MAX: usize = 64 * 1024;

/// Something pushed, from a machine whose token is known.
#[derive(Debug)]
pub struct PushRequest {
    /// What.
    pub push: Push,
    /// The name of the token.
    pub by: String,
    /// Where the answer goes, once it is stored.
    pub reply: oneshot::Sender<Result<(), Refusal>>,
}

/// Takes scores.
pub(super) async fn scores(state: State<Shared>, cluster: Path<String>, request: Request) -> Response {
    take(state, cluster, request, Pushing::Scores).await
}

/// Takes properties.
pub(super) async fn properties(state: State<Shared>, cluster: Path<String>, request: Request) -> Response {
    take(state, cluster, request, Pushing::Properties).await
}

async fn take<T: DeserializeOwned>(
    State(shared): State<Shared>,
    Path(cluster): Path<String>,
    request: Request,
    as_what: fn(T) -> Pushing,
) -> Response {
    let (by, body) = match whole(&shared.pushers, &shared.turns.pushes, request).await {
        Ok(sent) => sent,
        Err(answer) => return answer,
    };
    let what = match serde_json::from_slice(&body) {
        Ok(sent) => as_what(sent),
        Err(why) => return error(StatusCode::BAD_REQUEST, "Malformed", &format!("this cannot be read: {why}")),
    };
    let (reply, answer) = oneshot::channel();
    let push = Push { cluster: ClusterName::from(cluster.as_str()), what };
    let sent = shared.pushes.send(PushRequest { push, by, reply }).await.is_ok();
    match answer.await {
        Ok(Ok(())) if sent => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(refusal)) => refused(refusal),
        _ => error(StatusCode::SERVICE_UNAVAILABLE, "Ending", "the daemon is ending; send it again in a moment"),
    }
}
