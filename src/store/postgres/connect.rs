//! How the database is reached: its address, password and TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret as _;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::CallFailure;
use super::{PostgresSettings, Tls};
use engine::store::{Error, Result};

/// How long a connection may take to be there.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged, and how long a connection may be silent before it is looked after.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a transaction may wait for its daemon, which may be gone; a batch at most as long as the lease, whose row it locks.
pub(super) const IDLE_IN_TRANSACTION_MAX: Duration = Duration::from_secs(15);
/// What else each connection is set to: statements that hang end.
const SESSION: &str = "SET statement_timeout = '60s'; SET lock_timeout = '30s'; SET synchronous_commit = on; \
                       SET client_encoding = 'UTF8'";

/// A database that connections can be made to.
pub(super) struct DatabaseServer {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Host, port and name of the database, for people.
    label: String,
    pub(super) schema: String,
}

impl DatabaseServer {
    /// Reads the settings and the files they name; connects to nothing.
    pub(super) fn new(settings: &PostgresSettings) -> Result<Self> {
        let refused = |message: String| Error::Settings { message };
        let mut config: Config = settings.url.expose_secret().parse().map_err(|_| {
            // The error may repeat a part of the address, which may hold a password.
            refused("the address is none of PostgreSQL; write postgresql://user@host:5432/database".to_owned())
        })?;
        if let Some(password) = &settings.password {
            config.password(password.expose_secret());
        }
        config.connect_timeout(CONNECT_TIME_MAX).tcp_user_timeout(SILENCE_MAX);
        config.keepalives(true).keepalives_idle(SILENCE_MAX).keepalives_interval(SILENCE_MAX / 4).keepalives_retries(3);
        config.application_name("gitfleet").target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        let tls = match &settings.tls {
            Tls::Off => {
                // `hostaddr` replaces the host's own address, so it must be local too.
                let addresses_are_local = config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
                if !addresses_are_local || !config.get_hosts().iter().all(is_local) {
                    return Err(refused("sslMode is disable, and the server is not on this machine".to_owned()));
                }
                config.ssl_mode(tokio_postgres::config::SslMode::Disable);
                None
            }
            Tls::Verified { ca, identity } => {
                config.ssl_mode(tokio_postgres::config::SslMode::Require);
                let client = client_config(ca.as_ref(), identity.as_ref()).map_err(refused)?;
                Some(MakeRustlsConnect::new(client))
            }
        };
        let label = label(&config);
        Ok(Self { config, tls, label, schema: settings.schema.clone() })
    }

    /// Connects; the error is for people and holds no password.
    pub(super) async fn connect(&self) -> std::result::Result<Client, String> {
        let client = match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(|error| words(&error))?;
                // It ends with the client, and the client's calls say what ended it.
                tokio::spawn(async move { drop(connection.await) });
                client
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await.map_err(|error| words(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                client
            }
        };
        let idle = IDLE_IN_TRANSACTION_MAX.as_millis();
        let session = format!("SET idle_in_transaction_session_timeout = {idle}; {SESSION}");
        client.batch_execute(&session).await.map_err(|error| words(&error))?;
        Ok(client)
    }

    /// Returns the store's error for a failed call.
    pub(super) fn error(&self, action: &'static str, failure: CallFailure) -> Error {
        let database = self.label.clone();
        match failure {
            CallFailure::Store(error) => error,
            CallFailure::Unconnected(message) => Error::Unavailable { database, action, message },
            CallFailure::Database(error) if is_passing(&error) => {
                Error::Unavailable { database, action, message: words(&error) }
            }
            CallFailure::Database(error) => Error::DatabaseRefused { database, action, message: words(&error) },
        }
    }

    /// Returns the store's error for a call without an answer.
    pub(super) fn silent(&self, action: &'static str, limit: Duration) -> Error {
        let message = format!("no answer within {} s", limit.as_secs());
        Error::Unavailable { database: self.label.clone(), action, message }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }
}

/// Tells whether a later try may succeed: the connection ended, or the server is starting, stopping, full or busy.
fn is_passing(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    // Source: PostgreSQL, appendix A: connection exceptions, transaction rollback, insufficient resources, lock not available, operator
    // intervention, system errors.
    ["08", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class))
        || matches!(code.code(), "55P03" | "25P03" | "25006")
}

/// Returns what the database or the connection says, with its causes.
fn words(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}

/// Tells whether a server is on this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1" | "[::1]"),
        Host::Unix(_) => true,
    }
}

/// Returns host, port and database.
fn label(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
    let port = if ports.is_empty() { "5432".to_owned() } else { ports.join(",") };
    format!("{}:{port}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

/// Makes what verifies the server.
fn client_config(
    ca: Option<&PathBuf>,
    identity: Option<&(PathBuf, PathBuf)>,
) -> std::result::Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| format!("the certificates in {}: {error}", path.display()))?;
            }
        }
        // Some of the system's may be of a kind that is not known here; those that are count.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let private =
        PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| format!("{} holds no private key", key.display()))?;
    builder.with_client_auth_cert(certificates(certificate)?, private).map_err(|error| {
        format!("the certificate in {} and the key in {}: {error}", certificate.display(), key.display())
    })
}

fn read(path: &Path) -> std::result::Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("reading {}: {error}", path.display()))
}

fn certificates(path: &Path) -> std::result::Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{} holds no certificate", path.display())),
    }
}
