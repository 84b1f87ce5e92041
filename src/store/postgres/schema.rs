//! The tables, and their migration.
//!
//! | table | a row is |
//! |---|---|
//! | `store` | what counts for one source: format, version of the last batch, number of the last journal entry |
//! | `lease` | who leads |
//! | `record` | a record: key, version, JSON |
//! | `journal` | an entry, with columns for people who ask |
//! | `batch` | the name of a recent batch, by which a lost answer to a commit is settled |
//!
//! Every key begins with the source, so that several sources can share the tables.

use tokio_postgres::Client;

use super::client::Failure;
use crate::store::Error;

/// The format written here.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Names the lock under which tables are made and changed.
const MIGRATION_LOCK: i64 = 0x6769_7466_6c65_6574;

/// The steps from each format to the next. A daemon of the earlier version may run meanwhile: a step adds, and takes nothing away that
/// the version before reads or writes.
const MIGRATIONS: [&str; 1] = ["
CREATE TABLE store (
    source text COLLATE \"C\" PRIMARY KEY,
    version bigint NOT NULL,
    journal_last bigint NOT NULL
);
CREATE TABLE lease (
    source text COLLATE \"C\" PRIMARY KEY,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    url text NOT NULL,
    expires timestamptz NOT NULL,
    -- A batch locks this key: to take the lease waits for batches under way, to prolong it does not.
    UNIQUE (source, epoch)
);
CREATE TABLE record (
    source text COLLATE \"C\" NOT NULL,
    key text COLLATE \"C\" NOT NULL,
    version bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (source, key)
);
CREATE TABLE journal (
    source text COLLATE \"C\" NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    event text NOT NULL,
    placement text,
    cluster text,
    -- Not jsonb: it refuses the character U+0000, which facts may quote.
    entry json NOT NULL,
    PRIMARY KEY (source, number)
);
CREATE INDEX journal_placement ON journal (source, placement, number);
CREATE TABLE batch (
    source text COLLATE \"C\" NOT NULL,
    id text NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (source, id)
);
COMMENT ON TABLE journal IS 'What gitfleet did, oldest first by number. For reading only.';
"];

/// Makes the tables that are missing and changes those of an earlier format.
pub(super) async fn prepare(client: &mut Client, schema: &str, database: &str) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    // The name was checked to be a plain one.
    let first = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
    if transaction.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema]).await?.is_none() {
        transaction.batch_execute(&first).await?;
    }
    transaction.batch_execute(&format!("SET LOCAL search_path = {schema}")).await?;
    transaction.batch_execute("CREATE TABLE IF NOT EXISTS format (version bigint NOT NULL)").await?;
    let found: i64 = transaction.query_one("SELECT coalesce(max(version), 0) FROM format", &[]).await?.get(0);
    if found > SCHEMA_VERSION {
        return Err(newer(found, database).into());
    }
    let done = usize::try_from(found).unwrap_or_default();
    for step in MIGRATIONS.iter().skip(done) {
        transaction.batch_execute(step).await?;
    }
    if found < SCHEMA_VERSION {
        transaction.execute("INSERT INTO format (version) VALUES ($1)", &[&SCHEMA_VERSION]).await?;
    }
    Ok(transaction.commit().await?)
}

/// Refuses a format that is not known here; returns whether there are tables at all.
pub(super) async fn check(client: &Client, schema: &str, database: &str) -> Result<bool, Failure> {
    let table = format!("{schema}.format");
    if client.query_one("SELECT to_regclass($1) IS NULL", &[&table]).await?.get(0) {
        return Ok(false);
    }
    let asked = format!("SELECT coalesce(max(version), 0) FROM {table}");
    let found: i64 = client.query_one(&asked, &[]).await?.get(0);
    if found > SCHEMA_VERSION { Err(newer(found, database).into()) } else { Ok(found > 0) }
}

fn newer(found: i64, database: &str) -> Error {
    let [found, known] = [found, SCHEMA_VERSION].map(|version| u64::try_from(version).unwrap_or_default());
    Error::Newer { path: database.into(), found, known }
}
