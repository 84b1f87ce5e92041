//! The store in PostgreSQL, for several daemons.
//!
//! Anybody with the address may read. Only the leader writes: each batch is one transaction, in which the epoch of the lease is checked,
//! so that a daemon that was replaced keeps nothing any more. docs/design/049 has the reasons.

mod client;
mod connect;
mod failure;
mod lease;
mod schema;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _};
use jiff::Timestamp;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::postgres_settings::{PostgresSettings, Tls};
use client::{BATCH_TIME_MAX, CALL_TIME_MAX, Caller, Connection, TakenConnection};
use connect::{DatabaseServer, IDLE_IN_TRANSACTION_MAX};
use engine::store::{Error, JOURNAL_ENTRIES_MAX, Op, Result, Store, Versioned, check_limits};
use failure::CallFailure;
use model::records::JournalEntry;
use write::{Batch, number, signed};

/// Records on their way from the database to a slow reader.
const SCAN_AHEAD: usize = 32;

/// A store in a schema of a database. The records of one source are told from those of others by its name.
pub struct PostgresStore {
    server: Arc<DatabaseServer>,
    source: String,
    journal_max: usize,
    /// The epoch that batches are written under; 0 where this daemon does not lead.
    epoch: AtomicU64,
    /// How long a lease lasts.
    lease_millis: AtomicU64,
    /// The batch whose outcome is not known, and the connection that wrote it.
    doubt: Mutex<Option<(Batch, i32)>>,
    caller: Caller,
    reads: Connection,
    writes: Connection,
    leases: Connection,
    /// A connection that no scan uses.
    idle: Arc<Mutex<Option<Client>>>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("database", &self.server.label()).finish_non_exhaustive()
    }
}

/// What came of a commit.
enum Written {
    Kept(u64),
    /// The answer was lost. The number names the connection.
    Unknown(i32, Error),
}

impl PostgresStore {
    /// Opens the store for a daemon: tables that are missing are made.
    ///
    /// # Errors
    /// The settings cannot be used, the database does not answer or refuses, or a newer gitfleet changed its tables.
    pub fn open(settings: &PostgresSettings, source: &str) -> Result<Self> {
        let store = Self::new(settings, source)?;
        let server = Arc::clone(&store.server);
        let source = store.source.clone();
        store.caller.call(&store.writes, "preparing the tables", BATCH_TIME_MAX, async move |mut connected| {
            let prepared = async {
                let client = client_of(&mut connected)?;
                schema::prepare(client, &server.schema, server.label()).await?;
                let row = format!(
                    "INSERT INTO {}.store (source, version, journal_last) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING",
                    server.schema
                );
                client.execute(&row, &[&source]).await?;
                Ok(())
            };
            let result = prepared.await;
            (connected, result)
        })?;
        Ok(store)
    }

    /// Opens the store for reading; no table is made or changed.
    ///
    /// # Errors
    /// As [`PostgresStore::open`]; `Missing` where no daemon has made the tables.
    pub fn open_read_only(settings: &PostgresSettings, source: &str) -> Result<Self> {
        let store = Self::new(settings, source)?;
        let server = Arc::clone(&store.server);
        store.caller.call(&store.reads, "looking for the tables", CALL_TIME_MAX, async move |mut connected| {
            let checked = async {
                let client = client_of(&mut connected)?;
                if schema::check(client, &server.schema, server.label()).await? {
                    Ok(())
                } else {
                    Err(Error::Missing { path: server.label().into() }.into())
                }
            };
            let result = checked.await;
            (connected, result)
        })?;
        Ok(store)
    }

    fn new(settings: &PostgresSettings, source: &str) -> Result<Self> {
        let server = Arc::new(DatabaseServer::new(settings)?);
        let started = Caller::start(Arc::clone(&server));
        let caller =
            started.map_err(|error| server.error("starting a thread", CallFailure::Unconnected(error.to_string())))?;
        let journal_max = settings.journal_entries.clamp(1, JOURNAL_ENTRIES_MAX.max(settings.journal_entries));
        Ok(Self {
            server,
            source: source.to_owned(),
            journal_max,
            epoch: AtomicU64::new(0),
            lease_millis: AtomicU64::new(u64::MAX),
            doubt: Mutex::default(),
            caller,
            reads: Connection::default(),
            writes: Connection::default(),
            leases: Connection::default(),
            idle: Arc::default(),
        })
    }

    /// Writes batches under this epoch of the lease from now on; 0 writes none.
    pub fn lead(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// Reads rows with one statement.
    fn rows<T: Send + 'static>(
        &self,
        action: &'static str,
        statement: String,
        parameters: Vec<Box<dyn ToSql + Sync + Send>>,
        read: impl Fn(&tokio_postgres::Row) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        self.caller.call(&self.reads, action, CALL_TIME_MAX, async move |mut connected| {
            let asked = async {
                let given: Vec<&(dyn ToSql + Sync)> =
                    parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync)).collect();
                let rows = client_of(&mut connected)?.query(&statement, &given).await?;
                Ok(rows.iter().map(&read).collect::<Result<Vec<T>>>()?)
            };
            let result = asked.await;
            (connected, result)
        })
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.server.schema)
    }

    /// Writes a batch; says where its outcome is not known.
    fn write(&self, batch: &Batch) -> Result<Written> {
        let batch = batch.clone();
        let server = Arc::clone(&self.server);
        self.caller.call(&self.writes, "writing a batch", BATCH_TIME_MAX, async move |mut connected| {
            let written = async {
                let client = client_of(&mut connected)?;
                let writer: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
                let (transaction, version) = write::write(client, &batch).await?;
                match tokio::time::timeout(CALL_TIME_MAX, transaction.commit()).await {
                    Ok(Ok(())) => Ok(Written::Kept(version)),
                    // The database's word is its answer: nothing was kept.
                    Ok(Err(error)) if error.as_db_error().is_some() => Err(error.into()),
                    Ok(Err(error)) => Ok(Written::Unknown(writer, server.error("writing a batch", error.into()))),
                    Err(_) => Ok(Written::Unknown(writer, server.silent("writing a batch", CALL_TIME_MAX))),
                }
            };
            let result = written.await;
            if matches!(result, Ok(Written::Unknown(..))) {
                *connected = None;
            }
            (connected, result)
        })
    }

    /// Finds out whether a batch without an answer was kept.
    fn outcome(&self, batch: &Batch, writer: i32) -> Result<Option<u64>> {
        let batch = batch.clone();
        self.caller.call(&self.writes, "looking for a batch", BATCH_TIME_MAX, async move |mut connected| {
            let looked = async { write::outcome(client_of(&mut connected)?, &batch, writer).await };
            let result = looked.await;
            (connected, result)
        })
    }

    /// Settles an earlier batch whose outcome is not known: it must not be there, for the caller decided again without it.
    fn settle(&self) -> Result<()> {
        let doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((batch, writer)) = doubt else { return Ok(()) };
        if self.outcome(&batch, writer)?.is_some() {
            return Err(Error::Kept { database: self.server.label().to_owned() });
        }
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

/// Returns the client of a connection that a call has.
fn client_of(connected: &mut TakenConnection) -> Result<&mut Client, CallFailure> {
    connected.as_mut().ok_or_else(|| CallFailure::Unconnected("the connection was closed".to_owned()))
}

/// Returns the first text after all those that start with a prefix, by bytes; `None` where none comes after them.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // UTF-8 sorts as its characters do, so the next character is the next text. The range steps over surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// Returns a name that no other batch has.
fn batch_name() -> Result<String, std::io::Error> {
    let mut bytes = [0_u8; 16];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

impl Store for PostgresStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>> {
        let statement = format!("SELECT version, value FROM {} WHERE source = $1 AND key = $2", self.table("record"));
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> =
            vec![Box::new(self.source.clone()), Box::new(key.to_owned())];
        let mut found = self.rows("reading a record", statement, parameters, |row| {
            Ok(Versioned { version: number(row.get(0)), value: row.get(1) })
        })?;
        Ok(found.pop())
    }

    fn scan_each(&self, prefixes: &[&str], found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        const ACTION: &str = "listing records";
        let (mut sender, mut rows) = mpsc::channel::<Result<(String, Vec<u8>, u64)>>(SCAN_AHEAD);
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        let server = Arc::clone(&self.server);
        let source = self.source.clone();
        let idle = Arc::clone(&self.idle);
        // A connection of its own: a slow reader keeps nobody else waiting.
        self.caller.spawn(async move {
            let sent = async {
                let unused = idle.lock().unwrap_or_else(PoisonError::into_inner).take();
                let mut client = match unused.filter(|client| !client.is_closed()) {
                    Some(client) => client,
                    None => server.connect().await.map_err(CallFailure::Unconnected)?,
                };
                let reading = client.build_transaction().read_only(true);
                let transaction =
                    reading.isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).start().await?;
                let statement = format!(
                    "SELECT key, value, version FROM {}.record
                     WHERE source = $1 AND key >= $2 AND ($3::text IS NULL OR key < $3) ORDER BY key",
                    server.schema
                );
                for prefix in &prefixes {
                    // Without an end, all later records would travel before the next prefix.
                    let end = after_prefix(prefix);
                    let parameters: [&(dyn ToSql + Sync); 3] = [&source, prefix, &end];
                    let mut stream = Box::pin(transaction.query_raw(&statement, parameters).await?);
                    while let Some(row) = stream.next().await {
                        let row = row?;
                        let key: String = row.get(0);
                        if sender.send(Ok((key, row.get(1), number(row.get(2))))).await.is_err() {
                            // The reader has what it wants, and the connection more to say.
                            return Ok(());
                        }
                    }
                }
                transaction.commit().await?;
                *idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
                Ok::<(), CallFailure>(())
            };
            if let Err(failure) = sent.await {
                drop(sender.send(Err(server.error(ACTION, failure))).await);
            }
        });
        while let Some(row) = futures::executor::block_on(rows.next()) {
            let (key, value, version) = row?;
            if !found(&key, &value, version) {
                break;
            }
        }
        Ok(())
    }

    fn batch(&self, ops: Vec<Op>) -> Result<u64> {
        check_limits(&ops)?;
        if ops.is_empty() {
            return Ok(0);
        }
        let epoch = self.epoch.load(Ordering::SeqCst);
        if epoch == 0 {
            return Err(Error::ReadOnly { path: self.server.label().into() });
        }
        self.settle()?;
        let id = batch_name();
        let id = id.map_err(|source| Error::Io { path: "/dev/urandom".into(), action: "naming a batch", source })?;
        let source = self.source.clone();
        let schema = self.server.schema.clone();
        let idle_max = Duration::from_millis(self.lease_millis.load(Ordering::SeqCst)).min(IDLE_IN_TRANSACTION_MAX);
        let ops = ops.into();
        let journal_max = self.journal_max;
        let batch = Batch { source, schema, epoch, id, ops, journal_max, idle_max };
        match self.write(&batch)? {
            Written::Kept(version) => Ok(version),
            Written::Unknown(writer, error) => {
                *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = Some((batch.clone(), writer));
                let Ok(outcome) = self.outcome(&batch, writer) else { return Err(error) };
                *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = None;
                outcome.ok_or(error)
            }
        }
    }

    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.entries("number > $2", "", after, limit)
    }

    fn journal_back(&self, before: Option<u64>, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.entries("number < $2", "DESC", before.unwrap_or(u64::MAX), limit)
    }

    fn shared_time(&self) -> Result<Option<Timestamp>> {
        self.clock().map(Some)
    }
}

impl PostgresStore {
    fn entries(&self, which: &str, order: &str, bound: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        let statement = format!(
            "SELECT number, entry::text FROM {} WHERE source = $1 AND {which} ORDER BY number {order} LIMIT $3",
            self.table("journal")
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> =
            vec![Box::new(self.source.clone()), Box::new(signed(bound)), Box::new(limit)];
        self.rows("reading the journal", statement, parameters, |row| {
            let number: u64 = number(row.get(0));
            let text: String = row.get(1);
            let unreadable = |source| Error::Unreadable { key: format!("journal/{number}"), source };
            Ok((number, serde_json::from_str(&text).map_err(unreadable)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn a_prefix_has_an_end() {
        for (prefix, end) in [
            ("", None),
            ("a/", Some("a0")),
            ("\u{D7FF}", Some("\u{E000}")),
            ("c/\u{10FFFF}", Some("c0")),
            ("\u{10FFFF}", None),
        ] {
            assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}
