//! Commands of people: who sends one is told by a bearer token, and whoever carries it out answers.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::sync::oneshot;

use super::Shared;
use crate::model::commands::{Command, Done, Person, Refusal, RefusalReason};
use crate::model::runs::Surface;

/// Where commands are sent to.
pub const COMMANDS_PATH: &str = "/api/v1/commands";

/// Largest command in bytes: names and a message of a few pages.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// A command for the engine, from somebody whose token is known.
#[derive(Debug)]
pub struct Instruction {
    /// What is to be done.
    pub command: Command,
    /// Who wants it.
    pub person: Person,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Done, Refusal>>,
}

/// Passes one command on, and answers what came of it.
pub(super) async fn execute(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let name = match shared.commanders.owner(&headers) {
        Ok(name) => name.to_owned(),
        Err((status, words)) => {
            let reason = if status == StatusCode::UNAUTHORIZED { "Unauthenticated" } else { "TokenUnknown" };
            let mut answer = error(status, reason, words);
            if status == StatusCode::UNAUTHORIZED {
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            return answer;
        }
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return error(rejection.status(), "TooLarge", &rejection.body_text()),
    };
    let command = match serde_json::from_slice::<Command>(&body) {
        Ok(command) => command,
        Err(why) => return error(StatusCode::BAD_REQUEST, "Malformed", &format!("this is no command: {why}")),
    };
    let (reply, answer) = oneshot::channel();
    let person = Person::of(name, Surface::Api);
    let sent = shared.instructions.send(Instruction { command, person, reply }).is_ok();
    match answer.await {
        Ok(Ok(done)) if sent => Json(done).into_response(),
        Ok(Err(refusal)) => (status(refusal.reason), Json(refusal)).into_response(),
        _ => error(StatusCode::SERVICE_UNAVAILABLE, "Ending", "the daemon is ending; ask again in a moment"),
    }
}

fn status(reason: RefusalReason) -> StatusCode {
    match reason {
        RefusalReason::NotFound => StatusCode::NOT_FOUND,
        RefusalReason::NotAllowed => StatusCode::FORBIDDEN,
        RefusalReason::DigestMismatch | RefusalReason::NotWaiting | RefusalReason::Expired => StatusCode::CONFLICT,
        RefusalReason::Ambiguous | RefusalReason::SnapshotGone | RefusalReason::NotPossible => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
    }
}

/// An error of the interface itself, in the form of a refusal.
fn error(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({"reason": reason, "message": message}))).into_response()
}
