//! Writes batches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_postgres::{Client, Transaction};

use super::failure::CallFailure;
use engine::store::{Error, Op, check_expected};
use model::records::JournalEntry;

/// Bytes of values in one statement; a message of the protocol holds 1 GiB at most.
const STATEMENT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Rows in one statement.
const STATEMENT_ROWS_MAX: usize = 5_000;
/// Names of batches that are kept: a lost answer is looked for before the next batch, so one would do.
const BATCHES_KEPT: i64 = 64;

/// What is to be written, and under which leadership.
#[derive(Clone)]
pub(super) struct Batch {
    pub(super) source: String,
    pub(super) schema: String,
    /// The epoch that must lead.
    pub(super) epoch: u64,
    /// A name that no other batch has.
    pub(super) id: String,
    pub(super) ops: std::sync::Arc<[Op]>,
    pub(super) journal_max: usize,
    /// How long the transaction may wait for its daemon.
    pub(super) idle_max: Duration,
}

/// What a batch leaves behind, by key: the value, or that it is deleted.
type RecordChanges<'a> = BTreeMap<&'a str, Option<&'a [u8]>>;

/// Writes a batch up to its commit, which is the caller's: only a failed commit leaves open what is kept.
pub(super) async fn write<'a>(client: &'a mut Client, batch: &Batch) -> Result<(Transaction<'a>, u64), CallFailure> {
    let transaction = client.transaction().await?;
    let schema = &batch.schema;
    let idle = batch.idle_max.as_millis();
    // Before the lease is locked: a daemon that was stopped or cut off here would keep others from taking it.
    let set = format!("SET LOCAL search_path = {schema}; SET LOCAL idle_in_transaction_session_timeout = {idle}");
    transaction.batch_execute(&set).await?;
    check_epoch(&transaction, batch).await?;
    // From here on no other batch of the source is under way.
    let advanced = "UPDATE store SET version = version + 1 WHERE source = $1 RETURNING version, journal_last";
    let row = transaction.query_one(advanced, &[&batch.source]).await?;
    let version: i64 = row.get(0);
    let journal_last: i64 = row.get(1);
    let found = versions(&transaction, batch).await?;
    let changes = changes(batch, &found, number(version))?;
    put(&transaction, batch, &changes, version).await?;
    delete(&transaction, batch, &changes, &found).await?;
    journal(&transaction, batch, journal_last).await?;
    let named = "INSERT INTO batch (source, id, version) VALUES ($1, $2, $3)";
    transaction.execute(named, &[&batch.source, &batch.id, &version]).await?;
    let old = "DELETE FROM batch WHERE source = $1 AND version <= $2";
    transaction.execute(old, &[&batch.source, &(version - BATCHES_KEPT)]).await?;
    Ok((transaction, number(version)))
}

/// Locks the lease row until the end of the batch, and refuses a batch of another epoch.
async fn check_epoch(transaction: &Transaction<'_>, batch: &Batch) -> Result<(), CallFailure> {
    let epoch = signed(batch.epoch);
    let held = "SELECT 1 FROM lease WHERE source = $1 AND epoch = $2 FOR KEY SHARE";
    if transaction.query_opt(held, &[&batch.source, &epoch]).await?.is_some() {
        return Ok(());
    }
    let row = transaction.query_opt("SELECT epoch FROM lease WHERE source = $1", &[&batch.source]).await?;
    let found = row.map_or(0, |row| number(row.get(0)));
    Err(Error::Replaced { epoch: batch.epoch, found }.into())
}

/// Returns the versions of the records that the batch names.
async fn versions(transaction: &Transaction<'_>, batch: &Batch) -> Result<BTreeMap<String, u64>, CallFailure> {
    let keys: BTreeSet<&str> = batch.ops.iter().filter_map(key_of).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let mut found = BTreeMap::new();
    for keys in keys.chunks(STATEMENT_ROWS_MAX) {
        let asked = "SELECT key, version FROM record WHERE source = $1 AND key = ANY($2)";
        for row in transaction.query(asked, &[&batch.source, &keys]).await? {
            found.insert(row.get(0), number(row.get(1)));
        }
    }
    Ok(found)
}

fn key_of(op: &Op) -> Option<&str> {
    match op {
        Op::Put { key, .. } | Op::Delete { key, .. } => Some(key),
        Op::Journal(_) => None,
    }
}

/// Checks each operation against what is there and what the operations before it leave, and returns what all of them leave.
fn changes<'a>(batch: &'a Batch, found: &BTreeMap<String, u64>, version: u64) -> Result<RecordChanges<'a>, Error> {
    let mut changes = RecordChanges::new();
    for op in batch.ops.iter() {
        let (key, expected, change) = match op {
            Op::Put { key, value, expected } => (key, expected, Some(&**value)),
            Op::Delete { key, expected } => (key, expected, None),
            Op::Journal(_) => continue,
        };
        let present = match changes.get(key.as_str()) {
            Some(earlier) => earlier.map(|_| version),
            None => found.get(key).copied(),
        };
        check_expected(key, *expected, present)?;
        changes.insert(key, change);
    }
    Ok(changes)
}

async fn put(
    transaction: &Transaction<'_>,
    batch: &Batch,
    changes: &RecordChanges<'_>,
    version: i64,
) -> Result<(), CallFailure> {
    let upsert = "INSERT INTO record (source, key, version, value)
        SELECT $1, written.key, $2, written.value FROM unnest($3::text[], $4::bytea[]) AS written (key, value)
        ON CONFLICT (source, key) DO UPDATE SET version = excluded.version, value = excluded.value";
    for (keys, values) in chunks(changes) {
        transaction.execute(upsert, &[&batch.source, &version, &keys, &values]).await?;
    }
    Ok(())
}

/// Returns keys and values of what is put, in pieces that fit into a statement.
fn chunks<'a>(changes: &RecordChanges<'a>) -> Vec<(Vec<&'a str>, Vec<&'a [u8]>)> {
    let mut chunks: Vec<(Vec<&str>, Vec<&[u8]>)> = Vec::new();
    let mut bytes = 0;
    for (key, value) in changes {
        let Some(value) = *value else { continue };
        bytes += value.len();
        match chunks.last_mut() {
            Some((keys, values)) if keys.len() < STATEMENT_ROWS_MAX && bytes <= STATEMENT_BYTES_MAX => {
                keys.push(key);
                values.push(value);
            }
            _ => {
                bytes = value.len();
                chunks.push((vec![key], vec![value]));
            }
        }
    }
    chunks
}

async fn delete(
    transaction: &Transaction<'_>,
    batch: &Batch,
    changes: &RecordChanges<'_>,
    found: &BTreeMap<String, u64>,
) -> Result<(), CallFailure> {
    let gone = changes.iter().filter(|(key, value)| value.is_none() && found.contains_key(**key));
    let gone: Vec<&str> = gone.map(|(key, _)| *key).collect();
    for keys in gone.chunks(STATEMENT_ROWS_MAX) {
        let statement = "DELETE FROM record WHERE source = $1 AND key = ANY($2)";
        transaction.execute(statement, &[&batch.source, &keys]).await?;
    }
    Ok(())
}

/// Appends the entries, and drops the oldest beyond the limit.
async fn journal(transaction: &Transaction<'_>, batch: &Batch, last: i64) -> Result<(), CallFailure> {
    let entries = batch.ops.iter().filter_map(|op| match op {
        Op::Journal(entry) => Some(entry),
        _ => None,
    });
    let entries: Vec<&JournalEntry> = entries.collect();
    if entries.is_empty() {
        return Ok(());
    }
    let insert = "INSERT INTO journal (source, number, at, event, placement, cluster, entry)
        SELECT $1, written.number, written.at::timestamptz, written.event, written.placement, written.cluster, written.entry::json
        FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
            AS written (number, at, event, placement, cluster, entry)";
    let mut number = last;
    for entries in entries.chunks(STATEMENT_ROWS_MAX) {
        let mut numbers = Vec::new();
        let mut times = Vec::new();
        let mut events = Vec::new();
        let mut placements = Vec::new();
        let mut clusters = Vec::new();
        let mut texts = Vec::new();
        for entry in entries {
            number += 1;
            numbers.push(number);
            times.push(entry.at.to_string());
            events.push(entry.event.to_string());
            placements.push(entry.placement.as_ref().map(ToString::to_string));
            clusters.push(entry.cluster.as_ref().map(ToString::to_string));
            let text = serde_json::to_string(entry);
            texts.push(text.map_err(|source| Error::Unwritable { key: format!("journal/{number}"), source })?);
        }
        let written: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&batch.source, &numbers, &times, &events, &placements, &clusters, &texts];
        transaction.execute(insert, &written).await?;
    }
    let advanced = "UPDATE store SET journal_last = $2 WHERE source = $1";
    transaction.execute(advanced, &[&batch.source, &number]).await?;
    let kept = number - i64::try_from(batch.journal_max.max(1)).unwrap_or(i64::MAX);
    transaction.execute("DELETE FROM journal WHERE source = $1 AND number <= $2", &[&batch.source, &kept]).await?;
    Ok(())
}

/// Tells whether a batch was kept, after an answer that was lost: the version it wrote, or `None`. Waits until the connection that wrote
/// it has ended its transaction.
pub(super) async fn outcome(client: &mut Client, batch: &Batch, writer: i32) -> Result<Option<u64>, CallFailure> {
    // The server may not know yet that the connection is gone, and the transaction on it still be open. Without the right to end it, it
    // ends by its own limit.
    drop(client.execute("SELECT pg_terminate_backend($1) WHERE $1 <> pg_backend_pid()", &[&writer]).await);
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("SET LOCAL search_path = {}", batch.schema)).await?;
    transaction.query_one("SELECT version FROM store WHERE source = $1 FOR UPDATE", &[&batch.source]).await?;
    let named = "SELECT version FROM batch WHERE source = $1 AND id = $2";
    let row = transaction.query_opt(named, &[&batch.source, &batch.id]).await?;
    transaction.commit().await?;
    Ok(row.map(|row| number(row.get(0))))
}

/// Returns a number of the database, which has signed ones only.
pub(super) fn number(found: i64) -> u64 {
    u64::try_from(found).unwrap_or_default()
}

/// Returns a number as the database takes it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
