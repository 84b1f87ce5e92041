//! Attackers hold connections of a real listener.

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const LIMITS: ServeLimits = ServeLimits { connections: CONNECTIONS_MAX, head: HEAD_TIME, request: REQUEST_TIME };

/// Starts a server; returns its address and what it counts.
async fn started(limits: ServeLimits) -> (std::net::SocketAddr, Arc<Metrics>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has an address");
    let metrics = Arc::new(Metrics::new());
    let router =
        Router::new().route("/healthz", get(|| async { "ok" })).route("/never", get(std::future::pending::<()>));
    tokio::spawn(serve_within(limits, listener, router, Arc::clone(&metrics)));
    (address, metrics)
}

async fn healthy(address: std::net::SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("it reads");
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer).await);
    answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok")
}

#[tokio::test]
async fn d09_five_thousand_connections_leave_health_answering_and_cost_no_more_than_the_limit() {
    const ATTACKERS: usize = 5_000;
    raise_open_files().expect("the limit of open files is known");
    let (address, metrics) = started(LIMITS).await;
    let mut held = Vec::new();
    for number in 0..ATTACKERS {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        // Idle, half a head, a whole request that is never answered.
        let words: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /healthz HTTP/1.1\r\nX-Half: ",
            _ => b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n",
        };
        // One that had to make room may be closed already.
        drop(stream.write_all(words).await);
        held.push(stream);
        let open = metrics.connections.get();
        assert!(open <= i64::try_from(CONNECTIONS_MAX).expect("small"), "{open} connections are open");
        if number % 500 == 499 {
            assert!(healthy(address).await, "after {number}");
        }
    }
    assert!(healthy(address).await, "while {} connections are held", held.len());
    let closed = metrics.connections_closed.get();
    assert!(closed >= u64::try_from(ATTACKERS - CONNECTIONS_MAX).expect("small"), "{closed} made room");
}

/// Returns what the server sends until it closes the connection.
async fn until_closed(address: std::net::SocketAddr, words: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(words.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer).await);
    answer
}

#[tokio::test]
async fn d09_half_a_head_and_a_request_without_end_are_ended() {
    // The longest wait of the others is in no case what ends one: a test that hangs has failed.
    let (short, long) = (Duration::from_millis(50), Duration::from_hours(1));
    let (address, _) = started(ServeLimits { head: short, request: long, ..LIMITS }).await;
    for words in ["", "GET /healthz HT"] {
        assert_eq!(until_closed(address, words).await, "", "{words:?}");
    }
    let kept = until_closed(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(kept.ends_with("ok"), "the connection is closed after its answer, when no other request comes: {kept}");
    let (address, metrics) = started(ServeLimits { head: long, request: short, ..LIMITS }).await;
    assert_eq!(until_closed(address, "GET /never HTTP/1.1\r\nHost: x\r\n\r\n").await, "");
    let large = format!("GET /healthz HTTP/1.1\r\nX-Large: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES_MAX));
    let answer = until_closed(address, &large).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    while metrics.connections.get() > 0 {
        tokio::task::yield_now().await;
    }
}
