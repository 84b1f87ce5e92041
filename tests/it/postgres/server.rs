//! One server for all tests of this binary. Each test has a schema of its own.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use secrecy::SecretString;

use engine::store::lease::{Holder, Leases as _, Taken};
use store::{PostgresSettings, PostgresStore, Tls};

use crate::postgres::fleet::{Postgres, ServerHome};

/// Longer than any test.
pub const LEASE: Duration = Duration::from_mins(10);

/// The server; it ends with the process.
static SERVER: LazyLock<(ServerHome, Postgres)> = LazyLock::new(|| {
    let home = ServerHome::temporary().unwrap();
    let postgres = Postgres::start(home.folder()).unwrap();
    (home, postgres)
});

static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// A schema that nobody has used.
pub fn schema() -> String {
    format!("test_{}", SCHEMAS.fetch_add(1, Ordering::SeqCst))
}

/// The address, without and with the password.
pub fn addresses() -> (String, String) {
    let Postgres { url, password, .. } = &SERVER.1;
    (url.clone(), url.replace("gitfleet@", &format!("gitfleet:{password}@")))
}

/// Says something to the server as its owner, and returns the first column of the first row.
pub fn sql(text: &str) -> Option<String> {
    let (_, url) = addresses();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let answers = client.simple_query(text).await.unwrap();
        answers.iter().find_map(|answer| match answer {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    })
}

/// The settings of a schema, on the server at an address.
pub fn settings_at(url: &str, schema: &str) -> PostgresSettings {
    PostgresSettings {
        url: SecretString::from(url.to_owned()),
        password: Some(SecretString::from(SERVER.1.password.clone())),
        schema: schema.to_owned(),
        tls: Tls::Off,
        journal_entries: crate::postgres::promises::JOURNAL_MAX,
    }
}

/// The settings of a schema.
pub fn settings(schema: &str) -> PostgresSettings {
    settings_at(&SERVER.1.url, schema)
}

pub fn holder(name: &str) -> Holder {
    Holder { id: name.to_owned(), url: format!("http://{name}.example") }
}

/// A store of a schema, leading whoever led before.
pub fn leading(schema: &str) -> PostgresStore {
    let store = PostgresStore::open(&settings(schema), "default").unwrap();
    lead(&store);
    store
}

/// Takes the lease for a store, from whoever has it.
pub fn lead(store: &PostgresStore) -> u64 {
    if let Some(lease) = store.read().unwrap() {
        store.release(lease.epoch).unwrap();
    }
    let Taken::Yes { epoch } = store.take(&holder("test"), LEASE).unwrap() else { panic!("the lease is free") };
    store.lead(epoch);
    epoch
}
