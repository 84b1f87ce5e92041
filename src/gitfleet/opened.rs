//! Opens the store of a configuration, in a folder or in PostgreSQL, for commands that ask no daemon.

use std::sync::Arc;

use super::server::Server;
use ::store::StoreGuard;
use ::store::embedded::EmbeddedStore;
use ::store::{PostgresSettings, PostgresStore, Tls};
use config::{Postgres, SslMode};
use engine::store;
use engine::store::lease::{Holder, Leases as _, Taken};
use engine::store::{Error, Store};

/// The name of the source in the database. There is one source for each schema so far.
pub(super) const SOURCE: &str = "default";

/// Returns how a configured database is reached.
///
/// # Errors
/// A file of it cannot be read.
pub(super) fn postgres_settings(store: &config::Store, postgres: &Postgres) -> anyhow::Result<PostgresSettings> {
    let password = postgres.password_file.as_deref().map(config::read_secret).transpose()?;
    let tls = match postgres.ssl_mode {
        SslMode::Disable => Tls::Off,
        SslMode::VerifyFull => Tls::Verified {
            ca: postgres.ca_file.clone(),
            identity: postgres.client_cert_file.clone().zip(postgres.client_key_file.clone()),
        },
    };
    let url = postgres.address()?;
    let schema = postgres.schema.clone();
    Ok(PostgresSettings { url, password, schema, tls, journal_entries: store.journal_entries })
}

/// Opens the store for reading.
///
/// # Errors
/// `Locked` while a daemon has the folder; otherwise as the store's own.
pub(super) fn read_only(settings: &config::Store) -> anyhow::Result<Box<dyn Store>> {
    Ok(match &settings.postgres {
        None => Box::new(EmbeddedStore::open_read_only(&settings.path)?),
        Some(postgres) => Box::new(PostgresStore::open_read_only(&postgres_settings(settings, postgres)?, SOURCE)?),
    })
}

/// Opens the store for writing, while no daemon runs on it: in PostgreSQL as the leader, until it is dropped.
///
/// # Errors
/// A daemon has the store, or it cannot be opened.
pub(super) fn writable(settings: &config::Store) -> anyhow::Result<Box<dyn Store>> {
    let Some(postgres) = &settings.postgres else { return Ok(Box::new(super::run::open_store(settings)?)) };
    let store = Arc::new(PostgresStore::open(&postgres_settings(settings, postgres)?, SOURCE)?);
    let holder = Holder { id: format!("command {}", std::process::id()), url: String::new() };
    match store.take(&holder, postgres.lease)? {
        Taken::Yes { epoch } => {
            store.lead(epoch);
            Ok(Box::new(StoreGuard::new(store, epoch)))
        }
        Taken::No(lease) => Err(Error::Led { url: lease.holder.url }.into()),
    }
}

/// Tells whether the daemon of this configuration is one of several on a database and answers where the configuration says.
pub(super) fn follows(configuration: &config::Configuration) -> bool {
    configuration.store.postgres.is_some() && Server::new(&configuration.http.listen.to_string(), None).is_replica()
}

/// Returns where the daemon that has the store answers; `None` where nobody has it.
///
/// # Errors
/// The database does not answer.
pub(super) fn daemon_of(configuration: &config::Configuration) -> anyhow::Result<Option<String>> {
    let settings = &configuration.store;
    let Some(postgres) = &settings.postgres else {
        return Ok(match EmbeddedStore::open_read_only(&settings.path) {
            // Who holds the lock is the daemon of this store, and nobody else can read the records then.
            Err(store::Error::Locked { .. }) => Some(configuration.http.listen.to_string()),
            // Other errors of the store are reported when it is read.
            _ => None,
        });
    };
    let opened = PostgresStore::open_read_only(&postgres_settings(settings, postgres)?, SOURCE);
    let store = match opened {
        Err(store::Error::Missing { .. }) => return Ok(None),
        opened => opened?,
    };
    let lease = store.read()?.filter(|lease| !lease.left.is_zero());
    Ok(lease.map(|lease| lease.holder.url).filter(|url| !url.is_empty()))
}
