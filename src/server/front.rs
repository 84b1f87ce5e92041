//! What answers in front of one of several daemons on a store: the leader answers itself, every other daemon passes requests on to it.
//!
//! A request is passed on once, as it is: method, path, headers and body, and the answer piece by piece. What the leader needs to know of
//! its client, the address, goes with it, signed with what only daemons on this store know: the id in the leader's lease. Health and
//! metrics are each daemon's own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse as _, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::access::Access;
use super::serve::Peer;
use super::tokens::Tokens;
use engine::store::lease::{Holder, Leader, Role};
use model::text::hexadecimal;
use system::telemetry::health::Health;
use system::telemetry::metrics::{CONTENT_TYPE, Metrics};

/// The header of a request that was passed on: the address it came from, and the signature of that.
pub const PASSED_ON: &str = "gitfleet-passed-on";
/// How long a request waits for a daemon to lead, by default.
pub const LEADER_WAIT: Duration = Duration::from_secs(5);
/// How long connecting to the leader may take.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Headers that are about one connection, and not passed on.
///
/// Source: RFC 9110, 7.6.1.
const OF_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// What the front is made of.
pub struct FrontParts {
    /// This daemon, as others find it in its lease.
    pub own: Holder,
    /// What this daemon is.
    pub role: watch::Receiver<Role>,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// Its failed parts.
    pub health: Arc<Health>,
    /// Who may read, and under which names.
    pub access: Access,
    /// Tokens that may read its metrics.
    pub readers: Vec<Arc<Tokens>>,
    /// The path below which it answers too.
    pub base: String,
    /// How long a request waits for a daemon to lead.
    pub leader_wait: Duration,
}

/// What a leader answers with.
#[derive(Clone)]
pub struct LeaderRouters {
    /// At `http.listen`.
    pub main: Router,
    /// At `http.webhookListen`.
    pub webhooks: Router,
}

/// Answers in front of a daemon. All clones are one.
#[derive(Clone)]
pub struct Front(Arc<FrontState>);

struct FrontState {
    parts: FrontParts,
    leader: watch::Sender<Option<LeaderRouters>>,
    client: Client<HttpConnector, Body>,
}

/// An address that is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedListener {
    Main,
    Webhooks,
}

impl Front {
    /// Creates the front of a daemon that does not lead yet.
    pub fn new(parts: FrontParts) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIME));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self(Arc::new(FrontState { parts, leader: watch::channel(None).0, client }))
    }

    /// Answers with these from now on, while this daemon leads.
    pub fn lead(&self, routers: LeaderRouters) {
        self.0.leader.send_replace(Some(routers));
    }

    /// Returns what is served at `http.listen`.
    pub fn router(&self) -> Router {
        self.of(ServedListener::Main)
    }

    /// Returns what is served at `http.webhookListen`.
    pub fn webhook_router(&self) -> Router {
        self.of(ServedListener::Webhooks)
    }

    fn of(&self, listener: ServedListener) -> Router {
        let answer = async move |State(front): State<Self>, request: Request| front.answer(listener, request).await;
        Router::new().fallback(answer).with_state(self.clone())
    }

    async fn answer(self, listener: ServedListener, mut request: Request) -> Response {
        let is_passed_on = request.headers().contains_key(PASSED_ON);
        let deadline = Instant::now() + self.0.parts.leader_wait;
        let mut role = self.0.parts.role.clone();
        let mut routers = self.0.leader.subscribe();
        loop {
            let now = role.borrow_and_update().clone();
            let ready = routers.borrow_and_update().clone();
            if let (true, Some(routers)) = (now.leads(), ready) {
                if is_passed_on && let Err(refusal) = self.take_over_peer(&mut request) {
                    return *refusal;
                }
                let router = if listener == ServedListener::Main { routers.main } else { routers.webhooks };
                return router.oneshot(request).await.unwrap_or_else(|never| match never {});
            }
            if listener == ServedListener::Main
                && let Some(answer) = self.own(&now, &request)
            {
                return answer;
            }
            match &now {
                // Once and no more: two daemons that each take the other for the leader would pass it on without end.
                Role::Follower { .. } | Role::Replaced { .. } if is_passed_on => return not_leading(&now),
                Role::Follower { leader: Some(leader), .. } if !leader.holder.url.is_empty() => {
                    return self.pass_on(leader.clone(), request).await;
                }
                _ => {}
            }
            let changed = async {
                tokio::select! {
                    changed = role.changed() => changed.is_ok(),
                    changed = routers.changed() => changed.is_ok(),
                }
            };
            if !matches!(tokio::time::timeout_at(deadline, changed).await, Ok(true)) {
                return not_leading(&now);
            }
        }
    }

    /// Answers what is each daemon's own; `None` for the rest.
    fn own(&self, role: &Role, request: &Request) -> Option<Response> {
        let FrontParts { metrics, health, access, readers, base, .. } = &self.0.parts;
        let path = request.uri().path();
        let path = path.strip_prefix(base.as_str()).filter(|rest| rest.starts_with('/')).unwrap_or(path);
        let report = health.report();
        match path {
            "/healthz" => Some(lines(StatusCode::OK, std::iter::once("ok".to_owned()).chain(report.lines))),
            "/readyz" => {
                let (is_ready, line) = standing(role);
                let status = if is_ready && report.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                Some(lines(status, std::iter::once(line).chain(report.lines)))
            }
            "/metrics" => {
                let may_read =
                    !access.read_needs_token || readers.iter().any(|tokens| tokens.owner(request.headers()).is_ok());
                Some(if may_read {
                    ([("content-type", CONTENT_TYPE)], metrics.encode()).into_response()
                } else {
                    (StatusCode::UNAUTHORIZED, "a bearer token is needed: Authorization: Bearer TOKEN").into_response()
                })
            }
            _ => None,
        }
    }

    /// Takes a request that another daemon passed on for one of that daemon's client.
    fn take_over_peer(&self, request: &mut Request) -> Result<(), Box<Response>> {
        let sent = request.headers_mut().remove(PASSED_ON);
        let sent = sent.as_ref().and_then(|sent| sent.to_str().ok()).and_then(|sent| sent.split_once(' '));
        let known = sent.and_then(|(address, signature)| {
            let address: IpAddr = address.parse().ok()?;
            let signature = unhex(signature)?;
            let (key, signed) = signed(&self.0.parts.own, request, address);
            hmac::verify(&key, &signed, &signature).ok()?;
            Some(address)
        });
        let Some(address) = known else {
            let message = "the request was passed on by a daemon that does not know this leader; try again";
            return Err(Box::new(unavailable(message.to_owned())));
        };
        request.extensions_mut().insert(Peer(address));
        Ok(())
    }

    /// Passes a request on to the leader.
    async fn pass_on(&self, leader: Leader, mut request: Request) -> Response {
        let url = leader.holder.url.clone();
        let address = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        let (key, signed) = signed(&leader.holder, &request, address);
        let signature = hexadecimal(hmac::sign(&key, &signed).as_ref());
        let Ok(passed_on) = HeaderValue::try_from(format!("{address} {signature}")) else {
            return unavailable("the request cannot be passed on to the leader".to_owned());
        };
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let Ok(uri) = format!("{url}{path}").parse::<Uri>() else {
            return unavailable(format!("the leader's address {url} is none; see http.peerUrl of its configuration"));
        };
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        without_connection(request.headers_mut());
        request.headers_mut().insert(HeaderName::from_static(PASSED_ON), passed_on);
        let mut role = self.0.parts.role.clone();
        let other_leads = role.wait_for(|role| match role {
            Role::Follower { leader: Some(now), .. } => now.epoch != leader.epoch,
            role => role.leads(),
        });
        tokio::select! {
            answer = self.0.client.request(request) => match answer {
                Ok(answer) => {
                    let (mut head, body) = answer.into_parts();
                    without_connection(&mut head.headers);
                    Response::from_parts(head, Body::new(body))
                }
                Err(error) if error.is_connect() => unavailable(format!(
                    "the leader at {url} does not answer; another daemon leads when its lease ends: try again"
                )),
                Err(_) => unavailable(format!(
                    "the leader at {url} gave no answer, so whether it executed the request is not known"
                )),
            },
            _ = other_leads => unavailable(format!(
                "another daemon leads since the request was passed on to {url}, so whether it was executed is not known"
            )),
        }
    }
}

/// Returns what a daemon is, in words, and whether it can be asked.
pub(super) fn standing(role: &Role) -> (bool, String) {
    match role {
        Role::Alone => (true, "ok".to_owned()),
        Role::Follower { leader: Some(leader), is_answered } => {
            let silent = if *is_answered { "" } else { "; the database does not answer" };
            (true, format!("follows {} (epoch {}){silent}", leader.holder.url, leader.epoch))
        }
        Role::Follower { leader: None, is_answered: true } => (true, "no daemon leads yet".to_owned()),
        Role::Follower { leader: None, is_answered: false } => (false, "the database does not answer".to_owned()),
        Role::Leading { epoch } => (true, format!("leads (epoch {epoch})")),
        Role::Unsure { epoch } => {
            (true, format!("leads (epoch {epoch}); the database does not answer, and nothing is written until it does"))
        }
        Role::Replaced { found, .. } => (false, format!("another daemon leads since (epoch {found})")),
    }
}

/// Returns what a daemon is, in words.
pub fn role_text(role: &Role) -> String {
    standing(role).1
}

fn lines(status: StatusCode, lines: impl Iterator<Item = String>) -> Response {
    (status, lines.collect::<Vec<_>>().join("\n")).into_response()
}

fn unavailable(message: String) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], message).into_response()
}

fn not_leading(role: &Role) -> Response {
    unavailable(match role {
        Role::Follower { leader: Some(leader), .. } if leader.holder.url.is_empty() => {
            "this daemon does not lead; `gitfleet run --once` has the lease until it ends: try again".to_owned()
        }
        role if role.leads() => "this daemon begins to lead; try again".to_owned(),
        role => format!("this daemon does not lead: {}", standing(role).1),
    })
}

/// Returns the key that signs a request for its leader, and what is signed of it.
fn signed(leader: &Holder, request: &Request, address: IpAddr) -> (hmac::Key, Vec<u8>) {
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let signed = format!("{} {path}\n{address}", request.method());
    (hmac::Key::new(hmac::HMAC_SHA256, leader.id.as_bytes()), signed.into_bytes())
}

fn without_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests;
