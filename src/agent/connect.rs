//! The connection to a server: HTTP/2 over TLS, one for everything. The agent dials; nothing listens.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use wire::{AGENT_HEADER, ENCODING, FRAME_BYTES_MAX, Refused};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an idle connection is pinged: a cut is noticed, and firewalls keep it open.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a ping may stay unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the answer to a request may take to begin and to end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that a stream and the connection may carry before their reader must keep up.
const WINDOW_BYTES: u32 = 4 << 20;
/// Characters of a server's words that an error repeats.
const WORDS_MAX: usize = 300;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be made, or was cut.
    #[error("{server} does not answer: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server refuses.
    #[error("{server} answers {status}: {message}")]
    Refused {
        /// The server.
        server: String,
        /// The status.
        status: StatusCode,
        /// What it says.
        message: String,
    },
    /// What the server sent cannot be read.
    #[error("{server} sent what this version cannot read")]
    Unreadable {
        /// The server.
        server: String,
        /// What is wrong with it.
        #[source]
        source: wire::Error,
    },
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    is_tls: bool,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl std::str::FromStr for Endpoint {
    type Err = String;

    /// Reads `https://HOST:PORT`; `http://` leads to this machine only, because the token would be readable on the way.
    fn from_str(text: &str) -> Result<Self, String> {
        let advice = "write https://HOST:PORT";
        let uri: Uri = text.parse().map_err(|_| format!("{text:?} is no address: {advice}"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(format!("{text:?} has no scheme: {advice}")),
        };
        let host = uri.host().ok_or_else(|| format!("{text:?} names no host: {advice}"))?.to_owned();
        if uri.path().len() > 1 || uri.query().is_some() {
            return Err(format!("{text:?} has a path: {advice}"));
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_local = bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_tls && !is_local {
            return Err(format!("{text:?} is not encrypted, and the token would be readable on the way: {advice}"));
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { host, port, is_tls })
    }
}

/// The files of a TLS connection.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificates that the server's is checked against, instead of those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate of the agent and its key, where the server asks for them.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read or used, as text for users. No content is repeated.
    pub fn read(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        if let Some(ca) = &self.ca {
            for certificate in certificates(ca)? {
                roots.add(certificate).map_err(|error| format!("{}: {error}", ca.display()))?;
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let unusable = |error: &dyn fmt::Display| format!("{}: {error}", key.display());
                let read = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(&error))?;
                builder.with_client_auth_cert(certificates(certificate)?, read).map_err(|error| unusable(&error))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| format!("{}: {error}", path.display()))?;
    if read.is_empty() { Err(format!("{} holds no certificate in PEM form", path.display())) } else { Ok(read) }
}

/// Makes connections.
pub(super) struct Connector {
    pub(super) tls: Arc<ClientConfig>,
    pub(super) token: SecretString,
    pub(super) name: String,
}

/// A connection to a server; cut when dropped.
pub(super) struct ServerConnection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
    token: HeaderValue,
    name: HeaderValue,
    driver: JoinHandle<()>,
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connector {
    /// Connects to a server.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<ServerConnection, Error> {
        let unreachable = |reason: String| Error::Unreachable { server: endpoint.to_string(), reason };
        let made = timeout(CONNECT_TIMEOUT, self.make(endpoint)).await;
        made.unwrap_or_else(|_| Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))
            .map_err(unreachable)
    }

    async fn make(&self, endpoint: &Endpoint) -> Result<ServerConnection, String> {
        let header = |text: String| {
            HeaderValue::from_str(&text).map_err(|_| "the name or the token has characters that no header holds")
        };
        let mut token = header(format!("Bearer {}", self.token.expose_secret()))?;
        token.set_sensitive(true);
        let name = header(self.name.clone())?;
        let host = endpoint.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, endpoint.port)).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, driver) = if endpoint.is_tls {
            let server = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
            let tls = TlsConnector::from(Arc::clone(&self.tls)).connect(server, stream).await;
            shake_hands(tls.map_err(|error| error.to_string())?).await?
        } else {
            shake_hands(stream).await?
        };
        Ok(ServerConnection { endpoint: endpoint.clone(), sender, token, name, driver })
    }
}

async fn shake_hands<S>(stream: S) -> Result<(SendRequest<Full<Bytes>>, JoinHandle<()>), String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| chain(&error))?;
    // How it ended is in the error of the request that waits for it.
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, driver))
}

/// Writes an error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let links = std::iter::successors(Some(error), |error| error.source());
    links.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl ServerConnection {
    /// Returns a second handle of the connection, which does not keep it.
    pub(super) fn requests(&self) -> Requests {
        Requests {
            server: self.endpoint.to_string(),
            sender: self.sender.clone(),
            token: self.token.clone(),
            name: self.name.clone(),
        }
    }
}

/// Sends requests over a connection.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) server: String,
    sender: SendRequest<Full<Bytes>>,
    token: HeaderValue,
    name: HeaderValue,
}

impl Requests {
    /// Returns an error about what the server sent.
    pub(super) fn unreadable(&self, source: wire::Error) -> Error {
        Error::Unreadable { server: self.server.clone(), source }
    }

    /// Returns an error about the connection.
    pub(super) fn unreachable(&self, reason: impl Into<String>) -> Error {
        Error::Unreachable { server: self.server.clone(), reason: reason.into() }
    }

    /// Sends a request; returns the answer when it begins, if it is no refusal.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header(AUTHORIZATION, self.token.clone())
            .header(AGENT_HEADER, self.name.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_ENCODING, ENCODING)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.unreachable(error.to_string()))?;
        let answer = timeout(ANSWER_TIMEOUT, async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        });
        let answer = answer.await.map_err(|_| self.unreachable("no answer in time"))?;
        let answer = answer.map_err(|error| self.unreachable(chain(&error)))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = self.body(answer).await.unwrap_or_default();
        let message =
            wire::unpack::<Refused>(&body).map_or_else(|_| String::from_utf8_lossy(&body).into_owned(), |r| r.message);
        let message = message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect();
        Err(Error::Refused { server: self.server.clone(), status, message })
    }

    /// Reads the whole body of an answer.
    pub(super) async fn body(&self, answer: Response<Incoming>) -> Result<Bytes, Error> {
        let read = timeout(ANSWER_TIMEOUT, Limited::new(answer.into_body(), FRAME_BYTES_MAX).collect()).await;
        let read = read.map_err(|_| self.unreachable("no whole answer in time"))?;
        Ok(read.map_err(|error| self.unreachable(error.to_string()))?.to_bytes())
    }

    /// Sends a request and reads its answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, Error> {
        let answer = self.send(method, path, body).await?;
        let body = self.body(answer).await?;
        wire::unpack(&body).map_err(|source| self.unreadable(source))
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn a_token_is_never_sent_in_plain_to_another_machine() {
        let rows = [
            ("https://fleet.example:8443", Ok("https://fleet.example:8443")),
            ("https://fleet.example", Ok("https://fleet.example:443")),
            ("http://127.0.0.1:8443", Ok("http://127.0.0.1:8443")),
            ("http://[::1]:8443/", Ok("http://[::1]:8443")),
            ("http://fleet.example:8443", Err("not encrypted")),
            ("http://localhost.example:1", Err("not encrypted")),
            ("fleet.example:8443", Err("no scheme")),
            ("https://fleet.example/agents", Err("has a path")),
        ];
        for (text, wanted) in rows {
            match (text.parse::<Endpoint>(), wanted) {
                (Ok(endpoint), Ok(wanted)) => assert_eq!(endpoint.to_string(), wanted),
                (Err(error), Err(wanted)) => assert!(error.contains(wanted), "{text}: {error}"),
                (found, wanted) => panic!("{text}: {found:?}, not {wanted:?}"),
            }
        }
    }
}
