//! Accepts connections of agents: TLS, HTTP/2, and their limits.
//!
//! | what | bound |
//! |---|---|
//! | connections | [`CONNECTIONS_MAX`]; one more is closed at once |
//! | a handshake and the first request with a valid token | [`STRANGER_TIME`] |
//! | requests of one connection at a time | [`STREAMS_MAX`] |
//! | a head of a request | [`HEAD_BYTES_MAX`] |

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::{Error, routes};
use crate::server::connection::Connection;
use crate::server::hub::AgentHub;
use config::{AgentTls, Agents, read_certificates, read_pem};
use system::secret_files::{SecretFile, reason};
use system::supervise::Supervisor;

/// Connections that are open at a time: one for each agent, and some that are about to end.
const CONNECTIONS_MAX: usize = 1_024;
/// How long a connection may take until its first request with a valid token, the handshake included.
const STRANGER_TIME: Duration = Duration::from_secs(10);
/// Requests of one connection at a time: the session, reports and fetches.
const STREAMS_MAX: u32 = 16;
/// Largest head of a request in bytes.
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// How long the last words of a session may take before its connection is closed.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
/// Pause after the system refused to accept, as it does without open files left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where agents connect.
pub(super) struct AgentListener {
    socket: TcpListener,
    /// The certificates as they are now; absent: plain HTTP on this machine.
    tls: Option<Arc<RwLock<Arc<ServerConfig>>>>,
    places: Arc<Semaphore>,
}

/// Listens on an address, and follows the files of the certificates.
pub(super) fn bind(section: &Agents, supervisor: &Supervisor) -> Result<(Arc<AgentListener>, SocketAddr), Error> {
    let listen = |source| Error::Listen { address: section.listen, source };
    let tls = section.tls.as_ref().map(|tls| server_config(tls).map(|config| Arc::new(RwLock::new(config))));
    let tls = tls.transpose().map_err(Error::Tls)?;
    if let (Some(files), Some(config)) = (&section.tls, &tls) {
        follow(files, config, supervisor);
    }
    let socket = std::net::TcpListener::bind(section.listen).map_err(listen)?;
    socket.set_nonblocking(true).map_err(listen)?;
    let socket = TcpListener::from_std(socket).map_err(listen)?;
    let address = socket.local_addr().map_err(listen)?;
    Ok((Arc::new(AgentListener { socket, tls, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }), address))
}

/// Reads the certificates again whenever one of their files changes; what cannot be used changes nothing.
fn follow(files: &AgentTls, config: &Arc<RwLock<Arc<ServerConfig>>>, supervisor: &Supervisor) {
    for path in [Some(&files.cert_file), Some(&files.key_file), files.client_ca_file.as_ref()].into_iter().flatten() {
        let files = files.clone();
        let config = Arc::clone(config);
        let file = SecretFile { what: "the certificate for agents".to_owned(), path: path.clone() };
        file.follow(supervisor, move |_| {
            let new = server_config(&files)?;
            *config.write().unwrap_or_else(PoisonError::into_inner) = new;
            Ok(())
        });
    }
}

fn server_config(files: &AgentTls) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| format!("{}: {error}", path.display()))?)
        }
    };
    let key = read_pem(&files.key_file).map_err(|error| reason(&error))?;
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes());
    let key = key.map_err(|_| format!("{} holds no private key that can be used", files.key_file.display()))?;
    let config = builder.with_single_cert(certificates(&files.cert_file)?, key);
    let mut config = config.map_err(|error| format!("{}: {error}", files.cert_file.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read_certificates(path).map_err(|error| reason(&error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() { Err(format!("{} holds no certificate", path.display())) } else { Ok(found) }
}

/// Serves agents until the process ends.
pub(super) async fn serve(listener: Arc<AgentListener>, hub: Arc<AgentHub>) {
    loop {
        let (stream, peer) = match listener.socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection of an agent cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&listener.places).try_acquire_owned() else {
            tracing::warn!(%peer, max = CONNECTIONS_MAX, "too many connections of agents; this one is closed");
            continue;
        };
        let tls = listener.tls.as_ref().map(|tls| Arc::clone(&tls.read().unwrap_or_else(PoisonError::into_inner)));
        let hub = Arc::clone(&hub);
        tokio::spawn(async move {
            greet(stream, tls, hub).await;
            drop(place);
        });
    }
}

async fn greet(stream: TcpStream, tls: Option<Arc<ServerConfig>>, hub: Arc<AgentHub>) {
    // Small frames go at once; without the option they wait for more.
    drop(stream.set_nodelay(true));
    match tls {
        None => answer(stream, hub).await,
        Some(config) => match tokio::time::timeout(STRANGER_TIME, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => answer(stream, hub).await,
            Ok(Err(error)) => tracing::debug!(%error, "the handshake with an agent failed"),
            Err(_) => {}
        },
    }
}

/// Answers the requests of one connection until it ends, stays a stranger, or its session has ended.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, hub: Arc<AgentHub>) {
    let connection = Arc::new(Connection::default());
    let of_requests = Arc::clone(&connection);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let hub = Arc::clone(&hub);
        let connection = Arc::clone(&of_requests);
        async move { Ok::<_, Infallible>(routes::answer(&hub, &connection, request).await) }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let stranger = async {
        tokio::time::sleep(STRANGER_TIME).await;
        if connection.is_known.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let ended = async {
        connection.hang_up.notified().await;
        tokio::time::sleep(FAREWELL_TIME).await;
    };
    tokio::select! {
        // An agent that disconnects is noticed by the end of its session.
        ended = served => drop(ended),
        () = stranger => {}
        () = ended => {}
    }
}
