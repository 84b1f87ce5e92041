//! Servers that are not whom they should be, crash, fall silent, or have tables of another format.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::store::lease::{Leases as _, Taken};
use engine::store::{Error, Expected, Op, Store};
use secrecy::SecretString;
use store::{PostgresSettings, PostgresStore, Tls};

use crate::postgres::fleet::{Postgres, ServerHome, until};
use crate::postgres::server::{addresses, holder, lead, leading, schema, settings, settings_at, sql};

const SOON: Duration = Duration::from_mins(1);
/// A lease that is asked for over a silent connection: the call ends when the lease would.
const SHORT_LEASE: Duration = Duration::from_secs(2);
/// Less than any transaction may wait for its client, apart from a batch under a short lease.
const BATCH_IDLE_LIMIT: Duration = Duration::from_secs(10);

fn put(key: &str) -> Op {
    Op::Put { key: key.to_owned(), value: b"1".to_vec(), expected: Expected::Absent }
}

fn open(settings: &PostgresSettings) -> Result<PostgresStore, Error> {
    PostgresStore::open(settings, "default")
}

#[test]
fn a_server_is_verified() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let path = folder.path().join(name);
        fs::write(&path, made.cert.pem()).unwrap();
        (path, made)
    };
    let ((own, certificate), (foreign, _)) = (made("own.pem"), made("foreign.pem"));
    let verified = |ca: &Path, url: &str| PostgresSettings {
        tls: Tls::Verified { ca: Some(ca.to_owned()), identity: None },
        ..settings_at(url, &schema())
    };
    let (url, _) = addresses();
    let plain = open(&verified(&own, &url)).unwrap_err().to_string();
    assert!(plain.contains("TLS"), "the server has no certificate yet: {plain}");

    let data = sql("SHOW data_directory").unwrap();
    let data = Path::new(&data);
    let owner = fs::metadata(data).unwrap();
    for (name, text) in
        [("server.crt", certificate.cert.pem()), ("server.key", certificate.signing_key.serialize_pem())]
    {
        let path = data.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    sql("ALTER SYSTEM SET ssl = on");
    sql("SELECT pg_reload_conf()");
    let store = until("the server to use its certificate", SOON, || Ok(open(&verified(&own, &url)).ok())).unwrap();
    lead(&store);
    store.batch(vec![put("a")]).unwrap();

    let refused = open(&verified(&foreign, &url)).unwrap_err().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let other_name = open(&verified(&own, &url.replace("127.0.0.1", "localhost"))).unwrap_err().to_string();
    assert!(other_name.contains("not valid for name"), "{other_name}");
}

#[test]
fn another_machine_is_not_reached_in_the_open() {
    for url in [
        "postgresql://gitfleet@db.example/gitfleet",
        "postgresql://gitfleet@127.0.0.1/gitfleet?hostaddr=192.0.2.1",
        "postgresql://gitfleet@127.0.0.1,db.example/gitfleet",
    ] {
        assert!(matches!(open(&settings_at(url, "gitfleet")), Err(Error::Settings { .. })), "{url}");
    }
}

#[test]
fn a_format_is_used_by_earlier_daemons_as_long_as_it_says_so() {
    let schema = schema();
    leading(&schema).batch(vec![put("a")]).unwrap();
    sql(&format!("INSERT INTO {schema}.format (version, compatible_since) VALUES (98, 1)"));
    assert!(leading(&schema).get("a").unwrap().is_some(), "the later format adds only");
    leading(&schema).batch(vec![put("b")]).unwrap();
    sql(&format!("INSERT INTO {schema}.format (version, compatible_since) VALUES (99, 98)"));
    for refused in [open(&settings(&schema)), PostgresStore::open_read_only(&settings(&schema), "default")] {
        assert!(matches!(refused, Err(Error::Newer { found: 99, .. })), "{refused:?}");
    }
}

#[test]
fn a_server_that_crashes_keeps_every_batch() {
    let home = ServerHome::temporary().unwrap();
    let postgres = Postgres::start(home.folder()).unwrap();
    let settings = PostgresSettings {
        password: Some(SecretString::from(postgres.password.clone())),
        ..settings_at(&postgres.url, "gitfleet")
    };
    let store = open(&settings).unwrap();
    let epoch = lead(&store);
    for round in 0..3 {
        store.batch(vec![put(&format!("before/{round}"))]).unwrap();
        // An immediate shutdown: the next start recovers from the log.
        postgres.server.signal("QUIT").unwrap();
        until("the server to end", SOON, || Ok(postgres.server.check().is_err().then_some(()))).unwrap();
        let error = store.batch(vec![put(&format!("during/{round}"))]).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        postgres.server.stop();
        postgres.server.start().unwrap();
        let after = || Ok(store.batch(vec![put(&format!("after/{round}"))]).ok());
        until("the store to continue by itself", SOON, after).unwrap();
    }
    let keys: Vec<String> = store.list("").unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["after/0", "after/1", "after/2", "before/0", "before/1", "before/2"]);
    assert_eq!(store.read().unwrap().unwrap().epoch, epoch, "the lease outlives the server");
}

/// Passes bytes on while it may, and keeps the connection open and silent when it may not.
fn silent_proxy() -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (url, _) = addresses();
    let server = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let passes = Arc::new(AtomicBool::new(true));
    let shared = Arc::clone(&passes);
    // They end with the process: each waits in a read or an accept.
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            for (from, to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                let passes = Arc::clone(&shared);
                thread::spawn(move || pass_on(from, to, &passes));
            }
        }
    });
    (port, passes)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, passes: &AtomicBool) {
    use std::io::{Read as _, Write as _};
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        // What comes while it is silent is lost, and nobody is told.
        if passes.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
}

#[test]
fn a_silent_connection_ends_a_call_at_its_limit() {
    let (port, passes) = silent_proxy();
    let url = format!("postgresql://gitfleet@127.0.0.1:{port}/gitfleet");
    let store = open(&settings_at(&url, &schema())).unwrap();
    let epoch = lead(&store);
    passes.store(false, Ordering::SeqCst);
    let error = store.prolong(epoch, SHORT_LEASE).unwrap_err();
    assert!(matches!(&error, Error::Unavailable { message, .. } if message == "no answer within 2 s"), "{error}");
    passes.store(true, Ordering::SeqCst);
    assert!(store.prolong(epoch, SHORT_LEASE * 10).unwrap(), "the next call has a new connection");
}

#[test]
fn a_leader_that_falls_silent_within_a_batch_keeps_its_lease_from_nobody() {
    let ((port, passes), schema) = (silent_proxy(), schema());
    let url = format!("postgresql://gitfleet@127.0.0.1:{port}/gitfleet");
    let (store, next) = (open(&settings_at(&url, &schema)).unwrap(), open(&settings(&schema)).unwrap());
    let Taken::Yes { epoch } = store.take(&holder("silent"), SHORT_LEASE).unwrap() else { panic!("nobody has it") };
    store.lead(epoch);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (blocker, connection) =
        runtime.block_on(tokio_postgres::connect(&addresses().1, tokio_postgres::NoTls)).unwrap();
    runtime.spawn(async move { drop(connection.await) });
    runtime.block_on(blocker.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.record IN EXCLUSIVE MODE"))).unwrap();
    // It fails, and nobody waits for that.
    thread::spawn(move || drop(store.batch(vec![put("a")])));
    let waiting = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{schema}.record'::regclass");
    until(
        "the batch to wait with the lease locked",
        SOON,
        || Ok((sql(&waiting).as_deref() == Some("1")).then_some(())),
    )
    .unwrap();
    passes.store(false, Ordering::SeqCst);
    // From here on the transaction waits for its client.
    runtime.block_on(blocker.batch_execute("ROLLBACK")).unwrap();
    let (sender, taken) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let take = || Ok(matches!(next.take(&holder("next"), SHORT_LEASE)?, Taken::Yes { .. }).then_some(()));
        sender.send(until("the lease to be free", SOON, take).is_ok()).ok();
    });
    assert_eq!(taken.recv_timeout(BATCH_IDLE_LIMIT), Ok(true), "the lock ends with the lease");
}
