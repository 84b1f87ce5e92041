//! Commands of people: a bearer token identifies the sender, and the core answers.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::Shared;
use super::bodies::Unread;
use crate::model::commands::{Command, Done, Person, Refusal, RefusalReason, WaitingGate};
use crate::model::runs::Channel;

/// Where commands are sent to.
pub const COMMANDS_PATH: &str = "/api/v1/commands";
/// The path for previews of approvals. A separate path: an older daemon refuses it, and approves nothing.
pub const PREVIEW_PATH: &str = "/api/v1/commands/preview";

/// Largest command in bytes: names and a message of a few pages.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// A command for the engine, from somebody whose token is known.
#[derive(Debug)]
pub struct Instruction<T = Done> {
    /// What is to be done.
    pub command: Command,
    /// Who wants it.
    pub person: Person,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<T, Refusal>>,
}

/// A request to preview an approval; nothing changes.
pub type Preview = Instruction<WaitingGate>;

/// Passes one command on, and answers its result.
pub(super) async fn execute(State(shared): State<Shared>, request: Request) -> Response {
    pass_on(&shared, &shared.instructions, request).await
}

/// Answers what an approval would open.
pub(super) async fn preview(State(shared): State<Shared>, request: Request) -> Response {
    pass_on(&shared, &shared.previews, request).await
}

/// The token is checked before a byte of the body is read.
async fn pass_on<T: Serialize>(shared: &Shared, to: &UnboundedSender<Instruction<T>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let name = match shared.commanders.owner(&parts.headers) {
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
    let body = match shared.turns.commands.whole(&parts.headers, body).await {
        Ok(body) => body,
        Err(Unread::Large) => {
            let words = format!("a command has at most {COMMAND_BYTES_MAX} bytes");
            return error(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", &words);
        }
        Err(Unread::Late) => {
            return error(StatusCode::REQUEST_TIMEOUT, "TooSlow", "the command did not come in time; send it again");
        }
    };
    let command = match serde_json::from_slice::<Command>(&body) {
        Ok(command) => command,
        Err(why) => return error(StatusCode::BAD_REQUEST, "Malformed", &format!("this is no command: {why}")),
    };
    let (reply, answer) = oneshot::channel();
    let grant = shared.grants.get(&name).cloned().unwrap_or_default();
    let person = Person { grant, ..Person::of(name, Channel::Api) };
    let sent = to.send(Instruction { command, person, reply }).is_ok();
    match answer.await {
        Ok(Ok(done)) if sent => Json(done).into_response(),
        Ok(Err(refusal)) => (status(refusal.reason), Json(refusal)).into_response(),
        // The receiver is gone or dropped the reply: the daemon is shutting down.
        _ => error(StatusCode::SERVICE_UNAVAILABLE, "Ending", "the daemon is ending; ask again in a moment"),
    }
}

fn status(reason: RefusalReason) -> StatusCode {
    match reason {
        RefusalReason::NotFound => StatusCode::NOT_FOUND,
        RefusalReason::NotAllowed => StatusCode::FORBIDDEN,
        // The fleet has changed since the person saw it: another look may help.
        RefusalReason::DigestMismatch | RefusalReason::NotWaiting | RefusalReason::Expired => StatusCode::CONFLICT,
        RefusalReason::Ambiguous
        | RefusalReason::NotSpecific
        | RefusalReason::SnapshotGone
        | RefusalReason::NotPossible => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// An error of the interface itself, in the form of a refusal.
fn error(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({"reason": reason, "message": message}))).into_response()
}
