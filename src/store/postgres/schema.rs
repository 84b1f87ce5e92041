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

use super::failure::CallFailure;
use engine::store::Error;

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

/// The oldest format whose daemons may use tables of the present one. It rises only with a step that adds something an earlier daemon
/// must know, and takes effect on daemons that are running too: they refuse at their next start.
const COMPATIBLE_SINCE: i64 = 1;

/// The format of tables, and the oldest that may use them.
struct TableFormat {
    version: i64,
    compatible_since: i64,
}

/// Makes the tables that are missing and changes those of an earlier format. Tables of a later format that this one may use are left as
/// they are: another daemon was upgraded first.
pub(super) async fn prepare(client: &mut Client, schema: &str, database: &str) -> Result<(), CallFailure> {
    // Without the right to create tables a daemon works on tables that are there.
    if read(client, schema, database).await?.is_some_and(|found| found.version >= SCHEMA_VERSION) {
        return Ok(());
    }
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    // The name was checked to be a plain one.
    let first = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
    if transaction.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema]).await?.is_none() {
        transaction.batch_execute(&first).await?;
    }
    transaction.batch_execute(&format!("SET LOCAL search_path = {schema}")).await?;
    let table = "CREATE TABLE IF NOT EXISTS format (version bigint NOT NULL, compatible_since bigint NOT NULL)";
    transaction.batch_execute(table).await?;
    // Again under the lock: another daemon may have done it meanwhile.
    let found = read(transaction.client(), schema, database).await?.map_or(0, |found| found.version);
    for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        transaction.batch_execute(step).await?;
    }
    if found < SCHEMA_VERSION {
        let row = "INSERT INTO format (version, compatible_since) VALUES ($1, $2)";
        transaction.execute(row, &[&SCHEMA_VERSION, &COMPATIBLE_SINCE]).await?;
    }
    Ok(transaction.commit().await?)
}

/// Refuses a format that this one may not use; returns whether there are tables at all.
pub(super) async fn check(client: &Client, schema: &str, database: &str) -> Result<bool, CallFailure> {
    Ok(read(client, schema, database).await?.is_some())
}

/// Returns the format of the tables; `None` where there are none.
async fn read(client: &Client, schema: &str, database: &str) -> Result<Option<TableFormat>, CallFailure> {
    let table = format!("{schema}.format");
    if client.query_one("SELECT to_regclass($1) IS NULL", &[&table]).await?.get(0) {
        return Ok(None);
    }
    let asked = format!("SELECT version, compatible_since FROM {table} ORDER BY version DESC LIMIT 1");
    let row = client.query_opt(&asked, &[]).await?;
    let Some(found) = row.map(|row| TableFormat { version: row.get(0), compatible_since: row.get(1) }) else {
        return Ok(None);
    };
    if found.compatible_since > SCHEMA_VERSION {
        return Err(newer(found.version, database).into());
    }
    Ok(Some(found))
}

fn newer(found: i64, database: &str) -> Error {
    let [found, known] = [found, SCHEMA_VERSION].map(|version| u64::try_from(version).unwrap_or_default());
    Error::Newer { path: database.into(), found, known }
}
