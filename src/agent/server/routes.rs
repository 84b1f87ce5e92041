//! The requests of agents. Each is checked for its token first, before a byte of its body is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use futures::stream;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::server::connection::Connection;
use crate::server::hub::{AgentHub, StreamHandle};
use model::id::Digest;
use model::text::hexadecimal;
use wire::remote::credentials::Credential;
use wire::remote::registry::{NextFrame, SessionRefusal};
use wire::{
    AGENT_HEADER, Acked, AgentOrder, ENCODING, EVENTS_MAX, FRAME_BYTES_MAX, FetchObjects, FetchedObject, Hello,
    NAME_CHARS_MAX, NOT_LEADING, OBJECTS_MAX, OBJECTS_PATH, ORDERS_PATH, Protocols, REPORTS_PATH, Refused, Reports,
    SESSION_PATH, frame, pack, pack_bytes, unpack,
};

/// How long a body may take to come, and its answer to be ready.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Bytes of a hello or of a list of digests, compressed: a hello names the orders of some 10,000 members.
const SMALL_BYTES_MAX: usize = 4 * 1024 * 1024;

type AgentAnswer = Response<Body>;

/// Answers one request.
pub(super) async fn answer(hub: &Arc<AgentHub>, connection: &Connection, request: Request<Incoming>) -> AgentAnswer {
    let (parts, body) = request.into_parts();
    let Some((agent, credential)) = caller(hub, &parts.headers) else {
        return refused(StatusCode::UNAUTHORIZED, "the token is not that of this agent, or was revoked");
    };
    connection.is_known.store(true, Ordering::Relaxed);
    if !hub.fence.is_open() {
        return not_leading();
    }
    let path = parts.uri.path();
    // A hello is no sign of life of the session before: it may come from the process that takes the place of a dead one.
    if path != SESSION_PATH {
        hub.with(|registry, now| registry.hear(&agent, now));
    }
    let answered = async {
        match (&parts.method, path) {
            (&Method::POST, SESSION_PATH) => session(hub, connection, agent, credential, body).await,
            (&Method::POST, REPORTS_PATH) => reports(hub, &agent, body).await,
            (&Method::POST, OBJECTS_PATH) => objects(hub, &agent, body).await,
            (&Method::GET, path) => match path.strip_prefix(ORDERS_PATH) {
                Some(digest) => order(hub, &agent, &Digest::new(digest)),
                None => one_object(hub, &agent, path),
            },
            _ => not_found(),
        }
    };
    match tokio::time::timeout(REQUEST_TIME, answered).await {
        Ok(answer) => answer,
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, "the request did not come in time; send it again"),
    }
}

/// Returns the agent of a request, if its token is valid.
fn caller(hub: &AgentHub, headers: &HeaderMap) -> Option<(String, Credential)> {
    let name = headers.get(AGENT_HEADER)?.to_str().ok().filter(|name| name.len() <= NAME_CHARS_MAX)?;
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let credential = hub.read().registry.credentials.check(name, token)?;
    Some((name.to_owned(), credential))
}

/// Opens a session; its stream lasts as long as the session.
async fn session(
    hub: &Arc<AgentHub>,
    connection: &Connection,
    agent: String,
    credential: Credential,
    body: Incoming,
) -> AgentAnswer {
    let hello: Hello = match read(hub, body, SMALL_BYTES_MAX).await {
        Ok(hello) => hello,
        Err(answer) => return answer,
    };
    let Some(id) = system::random::random().map(|bytes| hexadecimal(&bytes)) else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "the system gives no random bytes for a session");
    };
    let hang_up = Arc::clone(&connection.hang_up);
    let wake = Arc::new(Notify::new());
    let opened = hub.change(|shared, now| {
        let opened = shared.registry.open(&agent, id.clone(), &credential, &hello, now);
        if opened.is_ok() {
            shared.streams.insert(id.clone(), StreamHandle { wake: Arc::clone(&wake), hang_up });
        }
        opened
    });
    if let Err(refusal) = opened {
        tracing::warn!(agent, version = hello.version, ?refusal, "an agent was refused");
        return refusal_answer(&refusal);
    }
    tracing::info!(agent, version = hello.version, pools = ?hello.pools, "an agent connected");
    let stream = SessionStream { hub: Arc::clone(hub), agent, id, wake };
    let frames = stream::unfold(stream, |stream| async move {
        let bytes = stream.next().await?;
        stream.hub.metrics.agent_sent.inc_by(bytes.len() as u64);
        Some((Ok::<_, std::convert::Infallible>(bytes), stream))
    });
    let mut answer = Response::new(Body::from_stream(frames));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    answer
}

/// The stream of a session; when it is dropped, the connection is gone.
struct SessionStream {
    hub: Arc<AgentHub>,
    agent: String,
    id: String,
    wake: Arc<Notify>,
}

impl SessionStream {
    /// Returns the next frame; `None` where the session has ended, or this daemon may not lead any more.
    async fn next(&self) -> Option<Bytes> {
        loop {
            if !self.hub.fence.is_open() {
                return None;
            }
            let next = self.hub.read().registry.next(&self.agent, &self.id);
            match next {
                NextFrame::Frame(message) => match frame(message.as_ref()) {
                    Ok(bytes) => return Some(bytes.into()),
                    Err(error) => {
                        tracing::error!(agent = self.agent, %error, "a message cannot be sent; please report it");
                    }
                },
                NextFrame::Wait => self.wake.notified().await,
                NextFrame::End => return None,
            }
        }
    }
}

impl Drop for SessionStream {
    fn drop(&mut self) {
        self.hub.with(|registry, now| registry.cut(&self.agent, &self.id, now));
    }
}

/// Takes reports.
async fn reports(hub: &Arc<AgentHub>, agent: &str, body: Incoming) -> AgentAnswer {
    let reports: Reports = match read(hub, body, FRAME_BYTES_MAX).await {
        Ok(reports) => reports,
        Err(answer) => return answer,
    };
    if reports.events.len() > EVENTS_MAX {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("a request brings at most {EVENTS_MAX} events"));
    }
    // Asked again at the last moment: the answer prolongs the agent's lease.
    match hub.with(|registry, now| hub.fence.is_open().then(|| registry.report(agent, reports, now))) {
        None => not_leading(),
        Some(Ok(taken)) => {
            if taken.refused > 0 {
                hub.metrics.agent_refused.inc_by(taken.refused as u64);
                tracing::warn!(
                    agent,
                    events = taken.refused,
                    "an agent reported about members that are not its own; it has no effect"
                );
            }
            packed(hub, &Acked { acked: taken.acked })
        }
        Some(Err(refusal)) => refusal_answer(&refusal),
    }
}

/// Answers with an order of a member of this agent.
fn order(hub: &AgentHub, agent: &str, digest: &Digest) -> AgentAnswer {
    let found = hub.read().registry.order(agent, digest);
    let Some(found) = found else { return not_found() };
    let packed = AgentOrder::from(found.as_ref()).encode().and_then(|(_, json)| pack_bytes(&json));
    packed.map_or_else(|error| unsendable(&error), |bytes| deflated(hub, bytes))
}

/// Answers with one object that a current order of the agent names.
fn one_object(hub: &AgentHub, agent: &str, path: &str) -> AgentAnswer {
    let digest = path.strip_prefix(OBJECTS_PATH).and_then(|rest| rest.strip_prefix('/'));
    let found = digest.and_then(|digest| hub.read().registry.object(agent, &Digest::new(digest)));
    found.map_or_else(not_found, |object| packed(hub, object.as_ref()))
}

/// Answers with several objects, one frame each; those that no current order of the agent names are left out.
async fn objects(hub: &Arc<AgentHub>, agent: &str, body: Incoming) -> AgentAnswer {
    let wanted: FetchObjects = match read(hub, body, SMALL_BYTES_MAX).await {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    if wanted.digests.len() > OBJECTS_MAX {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("a request names at most {OBJECTS_MAX} objects"));
    }
    let found: VecDeque<FetchedObject> = {
        let shared = hub.read();
        let object = |digest: Digest| Some(FetchedObject { object: shared.registry.object(agent, &digest)?, digest });
        wanted.digests.into_iter().filter_map(object).collect()
    };
    // One frame at a time: an answer needs the memory of one object.
    let frames = stream::unfold((Arc::clone(hub), found), |(hub, mut found)| async move {
        let bytes = Bytes::from(frame(&found.pop_front()?).map_err(|error| error.to_string()).ok()?);
        hub.metrics.agent_sent.inc_by(bytes.len() as u64);
        Some((Ok::<_, std::convert::Infallible>(bytes), (hub, found)))
    });
    Response::new(Body::from_stream(frames))
}

/// Reads a body of at most so many bytes.
async fn read<T: DeserializeOwned + Send + 'static>(
    hub: &AgentHub,
    body: Incoming,
    max: usize,
) -> Result<T, AgentAnswer> {
    let large =
        |_| refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body breaks off or has more than {max} bytes"));
    let bytes = Limited::new(body, max).collect().await.map_err(large)?.to_bytes();
    hub.metrics.agent_received.inc_by(bytes.len() as u64);
    // Reading a large report takes long: other connections are served meanwhile.
    let read = tokio::task::spawn_blocking(move || unpack(&bytes)).await;
    let failed = |text: &str| refused(StatusCode::BAD_REQUEST, text);
    read.map_err(|_| failed("the body cannot be read"))?.map_err(|error| failed(&error.to_string()))
}

fn packed<T: Serialize + ?Sized>(hub: &AgentHub, value: &T) -> AgentAnswer {
    pack(value).map_or_else(|error| unsendable(&error), |bytes| deflated(hub, bytes))
}

fn deflated(hub: &AgentHub, bytes: Vec<u8>) -> AgentAnswer {
    hub.metrics.agent_sent.inc_by(bytes.len() as u64);
    let mut answer = Response::new(Body::from(bytes));
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(ENCODING));
    answer
}

fn unsendable(error: &wire::Error) -> AgentAnswer {
    tracing::error!(%error, "an answer to an agent cannot be sent; please report it");
    refused(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be sent; see the daemon's log")
}

fn not_found() -> AgentAnswer {
    refused(StatusCode::NOT_FOUND, "no current order of a member of this agent names it")
}

fn not_leading() -> AgentAnswer {
    let message = format!("this daemon {NOT_LEADING}, or cannot be sure that it does; connect to another, or wait");
    refused(StatusCode::SERVICE_UNAVAILABLE, &message)
}

fn refused(status: StatusCode, message: &str) -> AgentAnswer {
    refusal(status, &Refused { message: message.to_owned(), protocol: None })
}

fn refusal_answer(why: &SessionRefusal) -> AgentAnswer {
    let (status, message) = match why {
        SessionRefusal::Pool(pool) => (StatusCode::FORBIDDEN, format!("the token does not allow pool {pool}")),
        SessionRefusal::Alive => (
            StatusCode::CONFLICT,
            "another session of this name is alive; give each agent a name and a token of its own".to_owned(),
        ),
        SessionRefusal::Ending => (StatusCode::SERVICE_UNAVAILABLE, "the daemon ends; try again".to_owned()),
        SessionRefusal::Over => (StatusCode::GONE, "the session is over; open another".to_owned()),
        SessionRefusal::Protocol => {
            let Protocols { oldest, newest } = Protocols::default();
            let message =
                format!("this daemon speaks the versions {oldest} to {newest} of the protocol; upgrade the older side");
            let body = Refused { message, protocol: Some(Protocols::default()) };
            return refusal(StatusCode::UPGRADE_REQUIRED, &body);
        }
    };
    refused(status, &message)
}

/// Answers with why something is refused; packed as every body.
fn refusal(status: StatusCode, body: &Refused) -> AgentAnswer {
    let mut answer = Response::new(pack(body).map(Body::from).unwrap_or_default());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(ENCODING));
    answer
}
