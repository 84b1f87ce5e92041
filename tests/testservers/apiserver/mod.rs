//! A double of Kubernetes API servers: many clusters behind one port, in one process, for tests and benchmarks.
//!
//! ```ignore
//! use testservers::apiserver;
//!
//! let server = apiserver::Server::start(&apiserver::Options::clusters(100))?;
//! let kubeconfig = server.kubeconfig("member-00000");
//! ```
//!
//! `README.md` says what it promises. It ends with its handle.

mod answer;
mod body;
mod cluster;
mod counters;
mod discovery;
pub mod faults;
mod fields;
mod kinds;
mod list;
mod manifest;
mod memo;
mod merge;
mod names;
mod request;
mod schema;
mod selectors;
mod serve;
mod watches;
mod write;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

pub use cluster::HISTORY_EVENTS_MAX;
use faults::{Faults, Turnstile};
use serve::Double;

/// How long connections may take to end.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of the clusters, as in [`name`].
    pub clusters: u64,
    /// 0 for any that is free.
    pub port: u16,
    /// What goes wrong.
    pub faults: Faults,
    /// Where the kubeconfigs go; a temporary folder by default.
    pub folder: Option<PathBuf>,
    /// Threads that answer.
    pub threads: usize,
}

impl Options {
    /// Asks for that many clusters on a free port, without faults.
    pub fn clusters(clusters: u64) -> Self {
        Self { clusters, port: 0, faults: Faults::default(), folder: None, threads: 2 }
    }
}

/// Returns the name of a cluster by its number.
pub fn name(number: u64) -> String {
    format!("member-{number:05}")
}

/// A running server.
pub struct Server {
    double: Arc<Double>,
    tls: TlsAcceptor,
    /// Its certificate, as PEM.
    authority: String,
    threads: usize,
    port: u16,
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
    /// Nothing while it is stopped.
    runtime: Mutex<Option<Runtime>>,
}

impl Server {
    /// Starts a server, and writes a kubeconfig for each cluster.
    ///
    /// # Errors
    /// When the port is taken or the folder cannot be written.
    pub fn start(options: &Options) -> Result<Self> {
        let (folder, temporary) = if let Some(folder) = &options.folder {
            (folder.clone(), None)
        } else {
            let folder = tempfile::tempdir().context("a temporary folder")?;
            (folder.path().to_owned(), Some(folder))
        };
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let (shared, now) = (cluster::Shared::default(), seconds());
        // Uids are of one server alone, also beside other servers: two members with one uid would be two names of one server.
        let first = u32::from_str_radix(&token()[..8], 16).unwrap_or_default();
        let clusters = (0..options.clusters).zip(0_u32..).map(|(number, unit)| {
            (name(number), Arc::new(cluster::Cluster::new(first.wrapping_add(unit), &shared, now)))
        });
        let double = Arc::new(Double {
            clusters: clusters.collect(),
            token: token(),
            shared,
            memo: memo::Memo::default(),
            counters: Arc::default(),
            faults: options.faults.clone(),
            turnstile: Turnstile::default(),
        });
        let (tls, authority) = identity()?;
        let (threads, port, runtime) = (options.threads, options.port, Mutex::new(None));
        let mut server = Self { double, tls, authority, threads, port, folder, _temporary: temporary, runtime };
        server.port = server.listen()?;
        for number in 0..options.clusters {
            server.write_kubeconfig(&name(number))?;
        }
        Ok(server)
    }

    /// Begins to serve; returns the port.
    fn listen(&self) -> Result<u16> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_name("apiserver")
            .enable_all()
            .build()
            .context("a runtime")?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))).context("listen")?;
        let port = listener.local_addr().context("the port")?.port();
        runtime.spawn(serve::serve(Arc::clone(&self.double), listener, self.tls.clone()));
        *self.runtime() = Some(runtime);
        Ok(port)
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections and takes none, as a server that ended; its objects stay.
    pub fn stop(&self) {
        let Some(runtime) = self.runtime().take() else { return };
        // On a thread, because nobody may wait within another runtime. The port is free once it has ended.
        let ending = std::thread::spawn(move || runtime.shutdown_timeout(STOP_MAX));
        drop(ending.join());
    }

    /// Serves again, on the same port and with the same objects. What happened before is forgotten: watches begin again.
    ///
    /// # Errors
    /// When somebody else has the port.
    pub fn restart(&self) -> Result<()> {
        self.stop();
        self.double.clusters.values().for_each(|cluster| cluster.lock().forget());
        self.listen().map(drop)
    }

    /// Returns the address of a cluster.
    pub fn url(&self, cluster: &str) -> String {
        format!("https://127.0.0.1:{}/clusters/{cluster}", self.port)
    }

    /// Returns the one token that it takes.
    pub fn token(&self) -> String {
        self.double.token.clone()
    }

    /// Returns its certificate, as PEM.
    pub fn authority(&self) -> String {
        self.authority.clone()
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the kubeconfigs, `NAME.kubeconfig`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a cluster's kubeconfig.
    pub fn kubeconfig(&self, cluster: &str) -> PathBuf {
        self.folder.join(format!("{cluster}.kubeconfig"))
    }

    /// Returns what was counted so far; the same as `GET /counters` answers.
    pub fn counters(&self) -> Value {
        self.double.counts()
    }

    fn write_kubeconfig(&self, cluster: &str) -> Result<()> {
        let authority = STANDARD.encode(&self.authority);
        let access = json!({"server": self.url(cluster), "certificate-authority-data": authority});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": [{"name": cluster, "cluster": access}],
            "users": [{"name": "admin", "user": {"token": self.double.token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "admin"}}],
        });
        let path = self.kubeconfig(cluster);
        fs::write(&path, config.to_string()).with_context(|| format!("write {}", path.display()))
    }
}

/// Returns a certificate of our own for 127.0.0.1, and the same as text.
fn identity() -> Result<(TlsAcceptor, String)> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    let key =
        rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), made.cert.pem()))
}

/// Returns a token that is another one in each process.
fn token() -> String {
    use std::hash::BuildHasher as _;
    format!("{:016x}", std::hash::RandomState::new().hash_one(std::process::id()))
}

/// Returns the time in seconds.
#[expect(clippy::disallowed_methods, reason = "a server stamps what it stores")]
fn seconds() -> u32 {
    u32::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("port", &self.port).finish_non_exhaustive()
    }
}
