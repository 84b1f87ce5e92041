//! Connections that end or fall silent, and a server that crashes: what a batch without an answer came to.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use engine::store::{Error, Expected, Op, Store};
use store::PostgresStore;

use crate::postgres::server::{addresses, lead, schema, settings_at};

/// Passes everything on.
const PASS: u8 = 0;
/// Ends the connection instead of passing a commit on.
const CUT_BEFORE_COMMIT: u8 = 1;
/// Passes a commit on, and ends the connection instead of passing its answer on.
const CUT_AFTER_COMMIT: u8 = 2;

/// How a transaction's end is written in the protocol.
const COMMIT: &[u8] = b"COMMIT";

/// Stands between a store and the server.
struct Proxy {
    port: u16,
    manner: Arc<AtomicU8>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (url, _) = addresses();
        let server = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        let manner = Arc::new(AtomicU8::new(PASS));
        let shared = Arc::clone(&manner);
        // They end with the process: each waits in a read or an accept.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                serve(client, server, Arc::clone(&shared));
            }
        });
        Self { port, manner }
    }

    /// The address of the server, by way of this.
    fn url(&self) -> String {
        format!("postgresql://gitfleet@127.0.0.1:{}/gitfleet", self.port)
    }
}

fn serve(client: TcpStream, server: TcpStream, manner: Arc<AtomicU8>) {
    let (to_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let before = Arc::clone(&manner);
    thread::spawn(move || pass_on(client, to_server, &before, CUT_BEFORE_COMMIT));
    thread::spawn(move || pass_on(server, to_client, &manner, CUT_AFTER_COMMIT));
}

/// Passes bytes on until one side ends, or until a commit or its answer comes by and this is the manner to end at it, once.
fn pass_on(mut from: TcpStream, mut to: TcpStream, manner: &AtomicU8, ends_at: u8) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_commit = bytes[..count].windows(COMMIT.len()).any(|window| window == COMMIT);
        if is_commit && manner.compare_exchange(ends_at, PASS, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            break;
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}

fn put(key: &str, expected: Expected) -> Op {
    Op::Put { key: key.to_owned(), value: b"1".to_vec(), expected }
}

#[test]
fn a_lost_answer_to_a_commit_is_settled() {
    let (proxy, schema) = (Proxy::start(), schema());
    let store = PostgresStore::open(&settings_at(&proxy.url(), &schema), "default").unwrap();
    lead(&store);
    let first = store.batch(vec![put("a", Expected::Absent)]).unwrap();
    proxy.manner.store(CUT_AFTER_COMMIT, Ordering::SeqCst);
    let second = store.batch(vec![put("b", Expected::Absent)]).unwrap();
    assert_eq!(proxy.manner.load(Ordering::SeqCst), PASS, "the answer was lost");
    assert!(second > first);
    assert_eq!(store.get("b").unwrap().unwrap().version, second);
    proxy.manner.store(CUT_BEFORE_COMMIT, Ordering::SeqCst);
    let lost = store.batch(vec![put("c", Expected::Absent)]).unwrap_err();
    assert_eq!(proxy.manner.load(Ordering::SeqCst), PASS, "the commit was lost");
    assert!(matches!(lost, Error::Unavailable { .. }), "{lost}");
    assert_eq!(store.get("c").unwrap(), None);
    // The caller decides again, and the store continues.
    store.batch(vec![put("c", Expected::Absent)]).unwrap();
    assert_eq!(store.list("").unwrap().len(), 3);
}
