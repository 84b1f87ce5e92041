//! Accepts connections and limits their cost.
//!
//! | what | bound |
//! |---|---|
//! | connections | [`CONNECTIONS_MAX`] for each listener; one more takes the place of the one whose last request is oldest |
//! | a head of a request | [`HEAD_BYTES_MAX`], within [`HEAD_TIME`]; an idle connection is one whose head does not come |
//! | a request | [`REQUEST_TIME`] from its head to the last byte of its answer |
//!
//! New connections go first: a client that holds every connection cannot block a probe of the kubelet, which opens one and
//! sends its request immediately.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tower::ServiceExt as _;

use system::telemetry::metrics::Metrics;

/// Connections of one listener that are open at a time; each is one open file. Pages that people keep open have one each, for what
/// changes, and a second one at times.
pub const CONNECTIONS_MAX: usize = 1_536;
/// The part of the open files that connections may take: the source, members and the store need the others.
const FILES_PART: u64 = 2;
/// How long the head of a request may take to come, also on a connection that had one before.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Largest head of a request in bytes, and largest piece of a body that is kept before it is read.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long a request may take from its head to the last byte of its answer: twice the longest wait for changes.
pub const REQUEST_TIME: Duration = Duration::from_mins(1);
/// Pause after the system refused to accept, as it does without open files left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where a request comes from: the last machine on its way, which may be a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// The limits of connections.
#[derive(Clone, Copy)]
struct ServeLimits {
    connections: usize,
    head: Duration,
    request: Duration,
}

/// Serves what comes to a listener until the process ends.
///
/// # Cancel safety
/// May be dropped at any point: no connection is accepted any more, and those that are open are answered until they end.
pub async fn serve(listener: TcpListener, router: Router, metrics: Arc<Metrics>) {
    let limits = ServeLimits { connections: connections_max(), head: HEAD_TIME, request: REQUEST_TIME };
    serve_within(limits, listener, router, metrics).await;
}

/// Returns how many connections may be open: fewer where few files may be.
fn connections_max() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    usize::try_from(files / FILES_PART).unwrap_or(usize::MAX).clamp(1, CONNECTIONS_MAX)
}

async fn serve_within(limits: ServeLimits, listener: TcpListener, router: Router, metrics: Arc<Metrics>) {
    let connections = Connections::new(limits.connections, metrics);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                // Most likely no open file is left: the next connection can be accepted when one is closed.
                connections.close_oldest();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = connections.place().await;
        tokio::spawn(answer(limits, stream, Peer(peer.ip().to_canonical()), router.clone(), place));
    }
}

/// Answers the requests of one connection, until it ends, is overdue or has to make room.
async fn answer(limits: ServeLimits, stream: TcpStream, peer: Peer, router: Router, place: ConnectionPlace) {
    let place = Arc::new(place);
    let begun = Arc::clone(&place);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        begun.request_begins();
        request.extensions_mut().insert(peer);
        let answered = router.clone().oneshot(request.map(Body::new));
        async move { Ok::<Response, Infallible>(answered.await.unwrap_or_else(|never| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that disconnects is ignored.
        ended = connection => drop(ended),
        () = place.closed.notified() => {}
        () = place.overdue(limits.request) => {}
    }
}

/// The connections that are open, oldest request first.
#[derive(Clone)]
struct Connections {
    places: Arc<Semaphore>,
    open: Arc<Mutex<Open>>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_age: BTreeMap<u64, Arc<Notify>>,
}

impl Open {
    fn join(&mut self, closed: &Arc<Notify>) -> u64 {
        self.next += 1;
        self.by_age.insert(self.next, Arc::clone(closed));
        self.next
    }
}

impl Connections {
    fn new(max: usize, metrics: Arc<Metrics>) -> Self {
        Self { places: Arc::new(Semaphore::new(max)), open: Arc::default(), metrics }
    }

    /// Returns a place for a new connection; where there is none, the oldest makes room.
    async fn place(&self) -> ConnectionPlace {
        let permit = if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            permit
        } else {
            self.close_oldest();
            self.metrics.connections_closed.inc();
            Arc::clone(&self.places).acquire_owned().await.expect("nobody closes it")
        };
        let closed = Arc::default();
        let number = lock(&self.open).join(&closed);
        self.metrics.connections.inc();
        ConnectionPlace { of: self.clone(), closed, last: Mutex::new((number, Instant::now())), _permit: permit }
    }

    fn close_oldest(&self) {
        if let Some((_, oldest)) = lock(&self.open).by_age.pop_first() {
            oldest.notify_one();
        }
    }
}

/// The place of one connection, given back when dropped.
struct ConnectionPlace {
    of: Connections,
    closed: Arc<Notify>,
    /// Its number among the open ones, and when its last request began.
    last: Mutex<(u64, Instant)>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionPlace {
    /// Makes it the youngest.
    fn request_begins(&self) {
        let mut last = lock(&self.last);
        let mut open = lock(&self.of.open);
        // One that is to make room stays so.
        if open.by_age.remove(&last.0).is_some() {
            *last = (open.join(&self.closed), Instant::now());
        }
    }

    /// Ends when its last request takes too long.
    async fn overdue(&self, longest: Duration) {
        // A request that began meanwhile has moved the end.
        while self.due(longest) > Instant::now() {
            tokio::time::sleep_until(self.due(longest)).await;
        }
    }

    fn due(&self, longest: Duration) -> Instant {
        lock(&self.last).1 + longest
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let number = lock(&self.last).0;
        lock(&self.of.open).by_age.remove(&number);
        self.of.metrics.connections.dec();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Raises the limit of open files to the system's maximum: members and the git host need them besides connections. Returns the
/// limit.
///
/// # Errors
/// The system does not say or does not allow it.
pub fn raise_open_files() -> std::io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

#[cfg(test)]
mod tests;
