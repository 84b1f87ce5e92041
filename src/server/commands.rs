//! Commands of people: a bearer token identifies the sender, and the core answers.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::Shared;
use super::bodies::{Bodies, Unread};
use super::tokens::Tokens;
use model::commands::{Command, Person, Refusal, RefusalReason};
use model::runs::Channel;
use system::instruction::Instruction;

/// Where commands are sent to.
pub const COMMANDS_PATH: &str = "/api/v1/commands";
/// The path for previews of approvals. A separate path: an older daemon refuses it, and approves nothing.
pub const PREVIEW_PATH: &str = "/api/v1/commands/preview";

/// Largest command in bytes: names and a message of a few pages.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Passes one command on, and answers its result.
pub(super) async fn execute(State(shared): State<Shared>, request: Request) -> Response {
    pass_on(&shared, &shared.instructions, request).await
}

/// Answers what an approval would open.
pub(super) async fn preview(State(shared): State<Shared>, request: Request) -> Response {
    pass_on(&shared, &shared.previews, request).await
}

/// Returns who sends something, and what. The token is checked before a byte of the body is read.
///
/// # Errors
/// The answer to somebody unknown, or to what cannot be read whole.
pub(super) async fn whole(tokens: &Tokens, bodies: &Bodies, request: Request) -> Result<(String, Bytes), Response> {
    let (parts, body) = request.into_parts();
    let name = tokens.owner(&parts.headers).map_err(|(status, text)| {
        let reason = if status == StatusCode::UNAUTHORIZED { "Unauthenticated" } else { "TokenUnknown" };
        let mut answer = error(status, reason, text);
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    })?;
    let body = bodies.whole(&parts.headers, body).await.map_err(|unread| match unread {
        Unread::Large => {
            let text = format!("the body has at most {} bytes", bodies.bytes_max);
            error(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", &text)
        }
        Unread::Late => error(StatusCode::REQUEST_TIMEOUT, "TooSlow", "the body did not come in time; send it again"),
    })?;
    Ok((name, body))
}

async fn pass_on<T: Serialize>(shared: &Shared, to: &UnboundedSender<Instruction<T>>, request: Request) -> Response {
    let (name, body) = match whole(&shared.commanders, &shared.turns.commands, request).await {
        Ok(sent) => sent,
        Err(answer) => return answer,
    };
    let command = match serde_json::from_slice::<Command>(&body) {
        Ok(command) => command,
        Err(why) => return error(StatusCode::BAD_REQUEST, "Malformed", &format!("this is no command: {why}")),
    };
    let grant = shared.grants.get(&name).cloned().unwrap_or_default();
    match sent(to, command, Person { grant, ..Person::of(name, Channel::Api) }).await {
        Ok(Ok(done)) => Json(done).into_response(),
        Ok(Err(refusal)) => refused(refusal),
        Err(ending) => error(StatusCode::SERVICE_UNAVAILABLE, "Ending", ending),
    }
}

/// Passes a command of a person on, and returns what the core answers.
///
/// # Errors
/// The daemon is ending: nobody is there to execute, as text for users.
pub(super) async fn sent<T>(
    to: &UnboundedSender<Instruction<T>>,
    command: Command,
    person: Person,
) -> Result<Result<T, Refusal>, &'static str> {
    let (reply, answer) = oneshot::channel();
    // Without a receiver the command is dropped, and its reply with it.
    drop(to.send(Instruction { command, person, reply }));
    answer.await.map_err(|_| "the daemon is ending; ask again in a moment")
}

/// Answers with a refusal of the core.
pub(super) fn refused(refusal: Refusal) -> Response {
    (status(refusal.reason), Json(refusal)).into_response()
}

fn status(reason: RefusalReason) -> StatusCode {
    match reason {
        RefusalReason::NotFound => StatusCode::NOT_FOUND,
        RefusalReason::NotAllowed => StatusCode::FORBIDDEN,
        // The fleet has changed since the person saw it: another look may help.
        RefusalReason::DigestMismatch
        | RefusalReason::NotWaiting
        | RefusalReason::Expired
        | RefusalReason::SoAlready => StatusCode::CONFLICT,
        RefusalReason::Ambiguous
        | RefusalReason::NotSpecific
        | RefusalReason::SnapshotGone
        | RefusalReason::NotPossible => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// An error of the interface itself, in the form of a refusal.
pub(super) fn error(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({"reason": reason, "message": message}))).into_response()
}
