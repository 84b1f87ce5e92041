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
use crate::forge::Kind;
use crate::forge::webhook::{BODY_BYTES_MAX, Delivery, Rejected, read, signature};
use crate::model::forge::ForgeEvent;
use crate::telemetry::metrics::{ByDelivery, Delivered};

/// Where Gitea and Forgejo send to.
pub const GITEA_PATH: &str = "/webhooks/gitea";
/// Where GitHub sends to.
pub const GITHUB_PATH: &str = "/webhooks/github";
/// Hints that wait. Further ones are dropped: polling finds the same.
pub const QUEUE_MAX: usize = 1024;

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
    let Some(hooks) = shared.hooks.as_ref().filter(|hooks| hooks.kind == kind) else {
        return StatusCode::NOT_FOUND;
    };
    let (status, result) = check(hooks, request).await;
    // Ignored events count as well: their signature proves that the hook works.
    if matches!(result, Delivered::Queued | Delivered::Dropped | Delivered::Ignored) {
        shared.metrics.webhook_last_verified.set((hooks.now)().as_second());
    }
    shared.metrics.webhooks.get_or_create(&ByDelivery { result }).inc();
    status
}

async fn check(hooks: &Hooks, request: Request) -> (StatusCode, Delivered) {
    let unsigned = (StatusCode::UNAUTHORIZED, Delivered::Unsigned);
    let (parts, body) = request.into_parts();
    // A request without a signature is refused before a byte of the body is read.
    if signature(hooks.kind, |name| header(&parts.headers, name)).is_none() {
        return unsigned;
    }
    let body = match hooks.bodies.whole(&parts.headers, body).await {
        Ok(body) => body,
        Err(Unread::Large) => return (StatusCode::PAYLOAD_TOO_LARGE, Delivered::Malformed),
        Err(Unread::Late) => return (StatusCode::REQUEST_TIMEOUT, Delivered::Malformed),
    };
    let delivery = Delivery { header: &|name| header(&parts.headers, name), body: &body };
    match hooks.verified(delivery) {
        Ok(None) => (StatusCode::ACCEPTED, Delivered::Ignored),
        Ok(Some(event)) => match hooks.events.try_send(event) {
            Ok(()) => (StatusCode::ACCEPTED, Delivered::Queued),
            // Success nevertheless: no host repeats it automatically, and polling finds what was dropped.
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => (StatusCode::ACCEPTED, Delivered::Dropped),
        },
        Err(Rejected::Signature) => unsigned,
        Err(Rejected::OtherHost | Rejected::OtherRepository) => (StatusCode::NOT_FOUND, Delivered::Foreign),
        Err(Rejected::Malformed) => (StatusCode::BAD_REQUEST, Delivered::Malformed),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests;
