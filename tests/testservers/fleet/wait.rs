//! Waiting for things, and the two pieces of networking the harness needs: free ports and plain HTTP.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};

/// Pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(100);

/// Longest time one plain HTTP exchange with a local server may take.
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);

/// Ports are looked for here: below the range from which Linux takes the ports of outgoing connections (32768 and up),
/// so that nobody's connection sits on a server's port while that server is stopped, nor connects to itself.
const PORTS: std::ops::Range<u16> = 18_000..32_000;

/// Returns the answer of `look` as soon as it has one.
///
/// # Errors
/// Whatever `look` fails with, at once; or, after `limit`, that `what` did not come about.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if started.elapsed() >= limit {
            bail!("waited {} s in vain for {what}", limit.as_secs());
        }
        thread::sleep(POLL);
    }
}

/// Returns a TCP port of 127.0.0.1 on which nobody listens, another one at each call of this process.
///
/// # Errors
/// When no port of the range can be bound.
pub fn free_port() -> Result<u16> {
    static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut taken = TAKEN.lock().map_err(|_| anyhow!("another thread panicked while it chose a port"))?;
    let span = u64::from(PORTS.end - PORTS.start);
    for _ in 0..1000 {
        let offset = u16::try_from(random() % span).context("an offset within the ports")?;
        let port = PORTS.start + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && taken.insert(port) {
            return Ok(port);
        }
    }
    bail!("no free port of 127.0.0.1 between {} and {}", PORTS.start, PORTS.end)
}

/// Returns a random number; the standard library seeds each `RandomState` differently.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Returns 32 random hexadecimal digits: a password or a token for servers that live for one test.
pub(super) fn secret() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// Says whether somebody listens on that port of 127.0.0.1.
pub(super) fn listens(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

/// Asks a server on 127.0.0.1 over plain HTTP and returns the status code and the body.
///
/// HTTP/1.0, so that the answer ends with the connection and is never chunked.
///
/// # Errors
/// When the server cannot be reached, is too slow, or answers something that is not HTTP.
pub fn http(method: &str, port: u16, path: &str, headers: &[(&str, &str)], body: &str) -> Result<(u16, String)> {
    let what = || format!("{method} http://127.0.0.1:{port}{path}");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, HTTP_TIMEOUT).with_context(what)?;
    stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
    stream.set_write_timeout(Some(HTTP_TIMEOUT))?;
    let mut request =
        format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.push_str("\r\n");
    request.push_str(body);
    stream.write_all(request.as_bytes()).with_context(what)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).with_context(what)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("{}: not an HTTP answer", what()))?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("{}: no status in `{head}`", what()))?;
    Ok((status, body.to_owned()))
}
