//! Webhooks: checks deliveries of the git host, reduces them to a hint and queues it, in milliseconds. Answers have empty
//! bodies, because hosts show them to everybody who may see the hook.

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use super::Shared;
use super::bodies::{Bodies, Unread};
use forge::Kind;
use forge::webhook::{BODY_BYTES_MAX, Delivery, Rejected, read, signature};
use model::forge::ForgeEvent;
use system::telemetry::metrics::{ByDelivery, Delivered};

/// Where Gitea and Forgejo send to.
pub const GITEA_PATH: &str = "/webhooks/gitea";
/// Where GitHub sends to.
pub const GITHUB_PATH: &str = "/webhooks/github";
/// Hints that wait. Further ones are dropped: polling finds the same.
pub(crate) const QUEUE_MAX: usize = 1024;

/// What deliveries are checked with, and where their hints go.
#[derive(Clone)]
pub struct Hooks {
    kind: Kind,
    secrets: Arc<RwLock<Vec<SecretString>>>,
    repository: watch::Receiver<Option<u64>>,
    events: mpsc::Sender<ForgeEvent>,
    bodies: Bodies,
    now: fn() -> Timestamp,
}

impl Hooks {
    /// Takes the host's kind, the valid secrets, and the repository's id once it is known: until then deliveries count as being
    /// about this repository. `now` is the clock. Returns the hints' queue, of `QUEUE_MAX`.
    pub fn new(
        kind: Kind,
        secrets: Vec<SecretString>,
        repository: watch::Receiver<Option<u64>>,
        now: fn() -> Timestamp,
    ) -> (Self, mpsc::Receiver<ForgeEvent>) {
        let (events, queue) = mpsc::channel(QUEUE_MAX);
        let bodies = Bodies::new(BODY_BYTES_MAX);
        let hooks = Self { kind, secrets: Arc::new(RwLock::new(secrets)), repository, events, bodies, now };
        (hooks, queue)
    }

    /// Takes other valid secrets: deliveries that are signed with one of those before are refused from now on.
    pub fn replace_secrets(&self, secrets: Vec<SecretString>) {
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
    }

    /// Returns what a delivery says, if one of the secrets signed it.
    fn verified(&self, delivery: Delivery<'_>) -> Result<Option<ForgeEvent>, Rejected> {
        let repository = *self.repository.borrow();
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        read(self.kind, &secrets, repository, delivery)
    }
}

/// Takes a delivery of Gitea or Forgejo.
pub(super) async fn gitea(State(shared): State<Shared>, request: Request) -> StatusCode {
    take(Kind::Gitea, &shared, request).await
}

/// Takes a delivery of GitHub.
pub(super) async fn github(State(shared): State<Shared>, request: Request) -> StatusCode {
    take(Kind::GitHub, &shared, request).await
}

async fn take(kind: Kind, shared: &Shared, request: Request) -> StatusCode {
    let hooks: Vec<&Hooks> = shared.hooks.iter().filter(|hooks| hooks.kind == kind).collect();
    let Some(first) = hooks.first() else { return StatusCode::NOT_FOUND };
    let (status, result) = check(first, &hooks, request).await;
    // Ignored events count as well: their signature proves that the hook works.
    if matches!(result, Delivered::Queued | Delivered::Dropped | Delivered::Ignored) {
        shared.metrics.webhook_last_verified.set((first.now)().as_second());
    }
    shared.metrics.webhooks.get_or_create(&ByDelivery { result }).inc();
    status
}

/// Checks a delivery, and hands what it says to the repositories that it is of. Bodies of all of them are read by `first`: the limit of
/// their memory is one for all.
async fn check(first: &Hooks, hooks: &[&Hooks], request: Request) -> (StatusCode, Delivered) {
    let unsigned = (StatusCode::UNAUTHORIZED, Delivered::Unsigned);
    let (parts, body) = request.into_parts();
    // A request without a signature is refused before a byte of the body is read.
    if signature(first.kind, |name| header(&parts.headers, name)).is_none() {
        return unsigned;
    }
    let body = match first.bodies.whole(&parts.headers, body).await {
        Ok(body) => body,
        Err(Unread::Large) => return (StatusCode::PAYLOAD_TOO_LARGE, Delivered::Malformed),
        Err(Unread::Late) => return (StatusCode::REQUEST_TIMEOUT, Delivered::Malformed),
    };
    let read = |hooks: &Hooks| hooks.verified(Delivery { header: &|name| header(&parts.headers, name), body: &body });
    match addressed(hooks, read) {
        Ok(taken) => {
            let mut result = Delivered::Ignored;
            for (hooks, event) in taken {
                let Some(event) = event else { continue };
                // Success nevertheless: no host repeats it automatically, and polling finds what was dropped.
                result = match hooks.events.try_send(event) {
                    Ok(()) => Delivered::Queued,
                    Err(TrySendError::Full(_) | TrySendError::Closed(_)) => Delivered::Dropped,
                };
            }
            (StatusCode::ACCEPTED, result)
        }
        Err(Rejected::Signature) => unsigned,
        Err(Rejected::OtherHost | Rejected::OtherRepository) => (StatusCode::NOT_FOUND, Delivered::Foreign),
        Err(Rejected::Malformed) => (StatusCode::BAD_REQUEST, Delivered::Malformed),
    }
}

/// Returns the repositories that a delivery belongs to, with what it says: the one with its id, if a secret of that one signed it. Until the
/// host has told the ids, all whose secret signed it; the event is then looked up there before it counts.
///
/// # Errors
/// It is of none; where it is signed for one, why it is not of that.
fn addressed<'a>(
    all: &[&'a Hooks],
    read: impl Fn(&Hooks) -> Result<Option<ForgeEvent>, Rejected>,
) -> Result<Vec<(&'a Hooks, Option<ForgeEvent>)>, Rejected> {
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    let mut rejected = Rejected::Signature;
    for hooks in all {
        let has_id = hooks.repository.borrow().is_some();
        match read(hooks) {
            Ok(event) if has_id => known.push((*hooks, event)),
            Ok(event) => unknown.push((*hooks, event)),
            Err(Rejected::Signature) => {}
            Err(other) => rejected = other,
        }
    }
    match (known.is_empty(), unknown.is_empty()) {
        (false, _) => Ok(known),
        (true, false) => Ok(unknown),
        (true, true) => Err(rejected),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;
