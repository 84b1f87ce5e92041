//! Creates a client from a kubeconfig: one HTTP/2 connection for all watches and writes of a member.

use std::path::Path;
use std::time::Duration;

use http::header::InvalidHeaderValue;
use http::{HeaderValue, Request};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Client, Config};
use rustls::client::Resumption;
use sha2::{Digest as _, Sha256};
use tower::ServiceBuilder;

use super::Error;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the first request may take; a member that is slower counts as offline.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an HTTP/2 connection is pinged, also while idle: a dead watch would never end otherwise.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long a ping may stay unanswered.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an HTTP/1.1 connection may be silent: longer than the 290 s after which kube's watches end by themselves.
const SILENCE_MAX: Duration = Duration::from_mins(5);
/// Bytes a stream may carry before the reader must keep up: lists are large.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes a connection may carry before its readers must keep up.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// The programs that a kubeconfig may start to sign in.
#[derive(Clone, Copy)]
pub(super) enum SignIn<'a> {
    /// Any: the file belongs to the caller, as for kubectl.
    Any,
    /// Those of these names.
    Named(&'a [String]),
}

impl SignIn<'_> {
    fn allows(self, program: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.iter().any(|name| name == program),
        }
    }

    /// Checks the account of a context. The connection itself reports missing parts.
    fn check(self, kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<(), String> {
        let Some(user) = account(kubeconfig, context) else { return Ok(()) };
        let exec = user.exec.as_ref().map(|exec| ("the program", exec.command.as_deref().unwrap_or_default()));
        let provider = user.auth_provider.as_ref().map(|provider| ("the auth-provider", provider.name.as_str()));
        if let Some((what, name)) = exec.into_iter().chain(provider).find(|(_, name)| !self.allows(name)) {
            return Err(format!(
                "it signs in by {what} {name:?}, which is not allowed: add allowExec: [{name:?}] beside its path in gitfleet.yaml, \
                 or give a kubeconfig with a token, as `gitfleet member bootstrap` makes"
            ));
        }
        Ok(())
    }
}

fn context_of<'k>(kubeconfig: &'k Kubeconfig, context: Option<&str>) -> Option<&'k kube::config::Context> {
    let wanted = context.or(kubeconfig.current_context.as_deref())?;
    kubeconfig.contexts.iter().find(|known| known.name == wanted)?.context.as_ref()
}

fn account<'k>(kubeconfig: &'k Kubeconfig, context: Option<&str>) -> Option<&'k kube::config::AuthInfo> {
    let wanted = context_of(kubeconfig, context)?.user.as_deref()?;
    kubeconfig.auth_infos.iter().find(|known| known.name == wanted)?.auth_info.as_ref()
}

fn cluster_of<'k>(kubeconfig: &'k Kubeconfig, context: Option<&str>) -> Option<&'k kube::config::Cluster> {
    let wanted = &context_of(kubeconfig, context)?.cluster;
    kubeconfig.clusters.iter().find(|known| known.name == *wanted)?.cluster.as_ref()
}

/// Returns a digest of a kubeconfig and of the files that its context names, which changes when any of them does; `None` where it
/// cannot be read. Token files are left out: they are read again by themselves.
pub fn kubeconfig_digest(path: &Path, context: Option<&str>) -> Option<[u8; 32]> {
    let mut digest = Sha256::new();
    digest.update(std::fs::read(path).ok()?);
    let kubeconfig = Kubeconfig::read_from(path).ok()?;
    let authority = cluster_of(&kubeconfig, context).and_then(|of| of.certificate_authority.as_ref());
    let user = account(&kubeconfig, context);
    let own = user.into_iter().flat_map(|user| [user.client_certificate.as_ref(), user.client_key.as_ref()]);
    for file in own.chain([authority]).flatten() {
        // One that is not there yet may come.
        digest.update(std::fs::read(file).unwrap_or_default());
    }
    Some(digest.finalize().into())
}

/// A connected client with the server's version.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) version: String,
}

/// Connects to the API server that a kubeconfig and context name.
///
/// HTTP/2 on one connection first; where a proxy is configured or the server has no HTTP/2, kube's own HTTP/1.1 client.
///
/// # Errors
/// The file cannot be read, wants a program started that it may not, or the server does not answer.
pub(super) async fn connect(
    cluster: &str,
    path: &Path,
    context: Option<&str>,
    sign_in: SignIn<'_>,
) -> Result<Connected, Error> {
    let access =
        |reason: String| Error::Access { cluster: cluster.to_owned(), path: path.display().to_string(), reason };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|e| access(chain(&e)))?;
    // Before kube sees the account: making a client of it starts its program.
    sign_in.check(&kubeconfig, context).map_err(access)?;
    let of_cluster = cluster_of(&kubeconfig, context);
    if of_cluster.is_some_and(|of| of.insecure_skip_tls_verify == Some(true)) {
        tracing::warn!(
            cluster,
            kubeconfig = %path.display(),
            "the certificate of the API server is not checked (insecure-skip-tls-verify): whoever answers gets the credentials"
        );
    }
    // Proxies of the environment do not apply to members: only the kubeconfig counts.
    let has_proxy = of_cluster.is_some_and(|of| of.proxy_url.as_ref().is_some_and(|url| !url.is_empty()));
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| access(chain(&e)))?;
    if !has_proxy {
        config.proxy_url = None;
    }
    connect_to(cluster, config, access).await
}

/// Returns a client that makes its requests as another user, over the same connection.
///
/// Source: Kubernetes, user impersonation. Groups are not sent: the server adds those of a service account by itself.
///
/// # Errors
/// The name cannot stand in a header.
pub(super) fn impersonating(client: &Client, user: &str) -> Result<Client, InvalidHeaderValue> {
    let user = HeaderValue::from_str(user)?;
    let own = client.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert("impersonate-user", user.clone());
        let own = own.clone();
        async move { own.send(request).await }
    });
    Ok(Client::new(service, client.default_namespace()))
}

/// Connects to the API server of the cluster that this process runs in, by its service account.
///
/// # Errors
/// The process runs in no cluster, or the server does not answer.
pub(super) async fn connect_in_cluster(cluster: &str) -> Result<Connected, Error> {
    let access = |reason: String| Error::Access {
        cluster: cluster.to_owned(),
        path: "the service account of this process".to_owned(),
        reason,
    };
    let mut config = Config::incluster().map_err(|e| access(chain(&e)))?;
    config.proxy_url = None;
    connect_to(cluster, config, access).await
}

async fn connect_to(cluster: &str, mut config: Config, access: impl Fn(String) -> Error) -> Result<Connected, Error> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    if config.proxy_url.is_none() && config.cluster_url.scheme_str() == Some("https") {
        let client = http2_client(&config).map_err(|e| access(chain(&e)))?;
        match probe(cluster, client).await {
            Ok(connected) => return Ok(connected),
            // It answered, and credentials are no better over HTTP/1.1.
            Err(error @ Error::Denied { .. }) => return Err(error),
            Err(error) => tracing::debug!(cluster, %error, "no HTTP/2 connection; trying HTTP/1.1"),
        }
    }
    // HTTP/1.1 has no pings: a watch on which nothing arrives for longer than servers let one last is dead.
    config.read_timeout = Some(SILENCE_MAX);
    let client = ClientBuilder::try_from(config).map_err(|e| access(chain(&e)))?.build();
    probe(cluster, client).await
}

fn http2_client(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    // It is wrapped in TLS below, and would refuse addresses with https otherwise.
    connector.enforce_http(false);
    // Without it HTTP/2 stalls 40 ms a request at low concurrency.
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let mut tls = config.rustls_client_config()?;
    // One connection to one server: the default keeps room for the sessions of 256.
    tls.resumption = Resumption::in_memory_sessions(1);
    let tls = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
    let tls = match config.tls_server_name.as_deref().map(|n| rustls::pki_types::ServerName::try_from(n.to_owned())) {
        Some(Ok(name)) => tls.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name)),
        _ => tls,
    };
    let http = hyper_util::client::legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build::<_, Body>(tls.enable_http2().wrap_connector(connector));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

async fn probe(cluster: &str, client: Client) -> Result<Connected, Error> {
    let version = tokio::time::timeout(PROBE_TIMEOUT, client.apiserver_version()).await;
    match version {
        Err(_) => Err(Error::Unreachable {
            cluster: cluster.to_owned(),
            reason: format!("no answer within {} s", PROBE_TIMEOUT.as_secs()),
        }),
        Ok(Err(error)) => Err(about_member(cluster, &error)),
        Ok(Ok(info)) => Ok(Connected { client, version: info.git_version }),
    }
}

/// Turns an error about a member as a whole into ours.
pub(super) fn about_member(cluster: &str, error: &kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            Error::Denied { cluster: cluster.to_owned(), reason: format!("{} {}", status.code, status.message) }
        }
        kube::Error::Auth(error) => Error::Denied { cluster: cluster.to_owned(), reason: chain(error) },
        error => Error::Unreachable { cluster: cluster.to_owned(), reason: chain(error) },
    }
}

/// Turns the failure of a watch into ours; `what` names what is watched.
pub(super) fn watch_failure(cluster: &str, what: &str, error: watcher::Error) -> Error {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
            // 401 concerns the credentials, and so the whole member; every other answer is about this kind.
            if status.code != 401 =>
        {
            Error::Refused {
                object: format!("the watch of {what}"),
                code: status.code,
                reason: status.reason,
                message: status.message,
            }
        }
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => about_member(cluster, &error),
        error => Error::Unreachable { cluster: cluster.to_owned(), reason: chain(&error) },
    }
}

/// Tells whether the watch only fell behind: the watcher lists again by itself.
pub(super) fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.code == 410)
}

/// Writes an error with its causes on one line, without repeating what a cause already said.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let links = std::iter::successors(Some(error), |error| error.source());
    model::text::causes(links.map(ToString::to_string))
}

#[cfg(test)]
mod tests;
