//! Takes connections and answers requests: TLS with HTTP/2 or HTTP/1.1, and plain HTTP for the counters alone.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, JSON, Status, no_path, not_served};
use super::body::Pen;
use super::cluster::{Cluster, Shared};
use super::counters::Counters;
use super::faults::{Fault, Faults, Turnstile};
use super::memo::Memo;
use super::request::{Objects, Query, Subject, Verb, cluster, form, header, subject, verb};
use super::watches::Watch;
use super::write::Write;
use super::{discovery, kinds, list, seconds};

/// Streams of one connection, as API servers allow.
const STREAMS_MAX: u32 = 250;
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// Seconds after which a client that was told 429 may ask again.
const RETRY_AFTER: u32 = 1;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A server: its clusters, and what they share.
pub(super) struct Double {
    pub clusters: BTreeMap<String, Arc<Cluster>>,
    pub token: String,
    pub shared: Shared,
    pub memo: Memo,
    pub counters: Arc<Counters>,
    pub faults: Faults,
    pub turnstile: Turnstile,
}

/// Serves until the task is dropped.
pub(super) async fn serve(double: Arc<Double>, listener: TcpListener, tls: TlsAcceptor) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A connection that went again before it was taken is nobody's concern.
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(connection(Arc::clone(&double), stream, tls.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(double: Arc<Double>, stream: TcpStream, tls: TlsAcceptor) {
    let counters = Arc::clone(&double.counters);
    let mut first = [0];
    if stream.set_nodelay(true).is_err() || stream.peek(&mut first).await.is_err() {
        return;
    }
    if first[0] != TLS_HANDSHAKE {
        let service = service_fn(move |request| {
            let answer = counted(&double, &request);
            async move { Ok::<_, Infallible>(answer) }
        });
        // Whoever asks for the counters and goes is nobody's concern either.
        drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        return;
    }
    counters.connections.fetch_add(1, Ordering::Relaxed);
    counters.open_connections.fetch_add(1, Ordering::Relaxed);
    let ended = CancellationToken::new();
    if let Ok(stream) = tls.accept(Counted { stream, counters: Arc::clone(&counters) }).await {
        let end = ended.clone();
        let service = service_fn(move |request| {
            let (double, end) = (Arc::clone(&double), end.clone());
            async move { Ok::<_, Infallible>(double.respond(request, &end).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
        builder.http1().timer(TokioTimer::new());
        tokio::select! {
            // The client ended it, one way or the other.
            _ = builder.serve_connection(TokioIo::new(stream), service) => {}
            () = ended.cancelled() => {}
        }
    }
    counters.open_connections.fetch_sub(1, Ordering::Relaxed);
}

/// Answers a plain request: the counters, and beginning them again.
fn counted(double: &Double, request: &Request<Incoming>) -> Response<Body> {
    let answer = match (request.method(), request.uri().path()) {
        (&Method::GET, "/counters") => Answer::json(&double.counts()),
        (&Method::POST, "/counters/reset") => {
            double.counters.reset();
            Answer::json(&double.counts())
        }
        _ => Answer::from(not_served()),
    };
    sent(answer)
}

fn sent(answer: Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.code).header(header::CONTENT_TYPE, answer.content_type);
    if let Some(seconds) = answer.retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(Full::new(answer.body).boxed_unsync()).expect("codes and headers are valid")
}

impl Double {
    /// Returns the counts, and how many objects there are.
    pub(super) fn counts(&self) -> serde_json::Value {
        let mut counts = self.counters.to_json();
        let objects: usize = self.clusters.values().map(|cluster| cluster.lock().objects()).sum();
        counts["objects"] = objects.into();
        counts
    }

    async fn respond(&self, request: Request<Incoming>, end: &CancellationToken) -> Response<Body> {
        let (parts, body) = request.into_parts();
        if !self.faults.latency.is_zero() {
            tokio::time::sleep(self.faults.latency).await;
        }
        let Ok(body) = body.collect().await else { return sent(Answer::text(400, "the body ended early")) };
        let response = self.answered(&parts, body.to_bytes(), end).await;
        self.counters.answer(response.status().as_u16());
        response
    }

    async fn answered(&self, parts: &Parts, body: Bytes, end: &CancellationToken) -> Response<Body> {
        match self.faults.fault(self.turnstile.next()) {
            Some(Fault::Dropped) => {
                end.cancel();
                // Nobody gets an answer on this connection any more.
                std::future::pending::<()>().await;
            }
            Some(Fault::Busy) => {
                let mut status = Status::new(429, "TooManyRequests", "too many requests, please try again later");
                status.retry_after = Some(RETRY_AFTER);
                return sent(status.into());
            }
            Some(Fault::Error) => return sent(Status::new(500, "InternalError", "a fault by configuration").into()),
            None => {}
        }
        match self.decided(parts, body) {
            Ok(Reply::Whole(answer)) => sent(answer),
            Ok(Reply::Watch(watch)) => {
                let body = StreamBody::new(watch.into_stream()).boxed_unsync();
                let response = Response::builder().header(header::CONTENT_TYPE, JSON).body(body);
                response.expect("the header is valid")
            }
            Err(status) => sent(status.into()),
        }
    }

    fn decided(&self, parts: &Parts, body: Bytes) -> Result<Reply, Status> {
        let (name, path) = cluster(parts.uri.path()).ok_or_else(not_served)?;
        let cluster = self.clusters.get(name).ok_or_else(not_served)?;
        if header(parts, header::AUTHORIZATION).strip_prefix("Bearer ") != Some(self.token.as_str()) {
            return Err(Status::new(401, "Unauthorized", "Unauthorized"));
        }
        let objects = match subject(path)? {
            Subject::Objects(objects) => objects,
            Subject::Fixed(path) => {
                self.counters.request("get", &path);
                let custom = cluster.lock().custom.clone();
                let answer = discovery::answer(&path, header(parts, header::ACCEPT), &custom);
                return answer.map(Reply::Whole).ok_or_else(no_path);
            }
        };
        let query = Query::of(parts);
        let verb = verb(parts, &query, objects.name.is_some())?;
        let dry = ["dry create", "dry update", "dry apply", "dry patch", "dry delete"];
        let counted = dry.into_iter().find(|dry| query.is_dry() && dry.ends_with(verb.name()));
        self.counters.request(counted.unwrap_or(verb.name()), &objects.plural);
        self.about(cluster, &objects, &query, verb, (parts, body))
    }

    /// Answers a request about objects.
    fn about(
        &self,
        cluster: &Arc<Cluster>,
        objects: &Objects,
        query: &Query,
        verb: Verb,
        (parts, body): (&Parts, Bytes),
    ) -> Result<Reply, Status> {
        let kind = kinds::find(&cluster.lock().custom, &objects.group, &objects.version, &objects.plural)?;
        if !kind.is_namespaced && !objects.namespace.is_empty()
            || kind.is_namespaced && objects.namespace.is_empty() && !matches!(verb, Verb::List | Verb::Watch)
            || !objects.subresource.is_empty() && !kind.has_status
        {
            return Err(not_served());
        }
        let api_version = kind.api_version(&objects.version);
        let pen = Pen { kind, api_version, form: form(parts), cluster: cluster.number };
        match verb {
            Verb::Get => list::get(cluster, &pen, objects).map(Reply::Whole),
            Verb::List => list::list(cluster, &pen, objects, query).map(Reply::Whole),
            Verb::Watch => {
                let (cluster, counters) = (Arc::clone(cluster), Arc::clone(&self.counters));
                let watch = Watch::begin(cluster, counters, pen, objects, query, self.faults.watch)?;
                Ok(Reply::Watch(Box::new(watch)))
            }
            _ => {
                let user_agent = header(parts, header::USER_AGENT);
                let (shared, memo, now) = (&self.shared, &self.memo, seconds());
                let write = Write { cluster, shared, memo, pen, verb, objects, query, body, user_agent, now };
                let (answer, versions) = write.perform()?;
                self.counters.versions.fetch_add(versions, Ordering::Relaxed);
                Ok(Reply::Whole(answer))
            }
        }
    }
}

/// How a request is answered.
enum Reply {
    Whole(Answer),
    Watch(Box<Watch>),
}

/// A connection that counts its bytes, below TLS.
struct Counted {
    stream: TcpStream,
    counters: Arc<Counters>,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        add(&self.counters.bytes_in, into.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &polled {
            add(&self.counters.bytes_out, *count);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
