//! The live page: how soon its first byte comes, how large it is, and what hundreds of open ones cost and learn.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::FleetSize;
use crate::daemon::{Daemon, World};
use crate::fleet::{git, http};
use crate::machine::summary;

/// Pages that are open: each is one stream of events.
const PAGES: usize = 500;
/// Changes that every open page is told.
const CHANGES: usize = 10;
/// Calls of the page.
const CALLS: usize = 50;
/// How long all pages may take to open, and to be told a change, before the run is given up.
const LIMIT: Duration = Duration::from_mins(1);
/// How long a reader waits for a byte before it sees whether the run is over.
const LOOK: Duration = Duration::from_millis(500);
/// Stack of a reader, in bytes.
const STACK_BYTES: usize = 256 * 1024;
/// The page of the fleet, compressed, in bytes.
const PAGE_BYTES_MAX: u64 = 60_000;
/// Pairs of a run that is small enough to fail at once where bytes are over their budget.
const SMALL_PAIRS_MAX: usize = 2_000;

/// What an open page reads from its stream.
enum PageNews {
    /// Its stream is open.
    Open,
    /// This commit is accepted.
    Accepted(String, Instant),
}

/// Asks for the page, then keeps many open while commits arrive; returns times, bytes and the memory before and with them.
pub fn open_pages(world: &World, daemon: &Daemon, size: FleetSize, label: &str) -> Result<Value> {
    let page = first_bytes(world)?;
    let bytes = page["bytes"].as_u64().unwrap_or_default();
    ensure!(bytes <= PAGE_BYTES_MAX || size.pairs() > SMALL_PAIRS_MAX, "the page has {bytes} bytes");
    let before = daemon.memory_kb("VmRSS")?;
    let cpu = daemon.cpu_seconds()?;
    let started = Instant::now();
    let (ended, (sender, news)) = (AtomicBool::new(false), mpsc::channel());
    let (address, from) = (world.port(), version(world)?);
    let (with, times) = thread::scope(|scope| {
        // However this ends, the readers end too.
        let _ending = Ending(&ended);
        for _ in 0..PAGES {
            let (sender, from, ended) = (sender.clone(), from.clone(), &ended);
            let reader = move || follow(address, from, &sender, ended);
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, reader)?;
        }
        drop(sender);
        commit_changes(world, daemon, &news, label)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({
        "page": page, "pages": PAGES, "changes": CHANGES,
        "residentBeforeKb": before, "residentOpenKb": with, "openCostKb": with.saturating_sub(before),
        "changeToEvent": summary(&times), "coreShare": (daemon.cpu_seconds()? - cpu) / seconds,
    }))
}

/// Ends the readers when dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until all are open, then commits, and waits until all know each commit. Returns the most that was resident meanwhile, in
/// kilobytes, and how long after a commit each page was told.
fn commit_changes(
    world: &World,
    daemon: &Daemon,
    news: &Receiver<PageNews>,
    label: &str,
) -> Result<(u64, Vec<Duration>)> {
    all(news, |news| matches!(news, PageNews::Open).then_some(())).context("pages to open")?;
    let mut most = daemon.memory_kb("VmRSS")?;
    let mut times = Vec::with_capacity(PAGES * CHANGES);
    for number in 0..CHANGES {
        // No manifest: nothing is delivered, and every page shows the commit.
        world.write("notes/change.md", &format!("{label} {number}\n"))?;
        let committed = world.commit(&format!("{label} {number}"))?;
        let commit = git(&world.repo(), &["rev-parse", "HEAD"])?;
        let commit = commit.trim();
        let accepted_after = |news| match news {
            PageNews::Accepted(accepted, at) if accepted == commit => Some(at.saturating_duration_since(committed)),
            PageNews::Accepted(..) | PageNews::Open => None,
        };
        times.extend(all(news, accepted_after).with_context(|| format!("pages to be told change {number}"))?);
        most = most.max(daemon.memory_kb("VmRSS")?);
    }
    Ok((most, times))
}

/// Returns what all pages were told of one thing.
fn all<T>(news: &Receiver<PageNews>, mut wanted: impl FnMut(PageNews) -> Option<T>) -> Result<Vec<T>> {
    let deadline = Instant::now() + LIMIT;
    let mut found = Vec::with_capacity(PAGES);
    while found.len() < PAGES {
        let received = news.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        let received =
            received.with_context(|| format!("{} of {PAGES} pages after {} s", found.len(), LIMIT.as_secs()))?;
        found.extend(wanted(received));
    }
    Ok(found)
}

/// Returns the version that a page which is loaded now shows.
fn version(world: &World) -> Result<String> {
    let (_, page) = http("GET", world.port(), "/", &[], "")?;
    let version = page.split("data-version=\"").nth(1).and_then(|rest| rest.split('"').next());
    version.map(str::to_owned).context("the page has no version")
}

/// Follows the stream of a page as a browser does: when it ends, the next one begins where it ended.
fn follow(port: u16, mut from: String, sender: &Sender<PageNews>, ended: &AtomicBool) {
    let (mut is_known, mut last) = (false, String::new());
    while !ended.load(Ordering::Relaxed) {
        let opened = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(LOOK))?;
            let path = format!("/api/v1/stream?only=summary&after={from}");
            write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
            Ok(BufReader::new(stream))
        });
        let Ok(mut stream) = opened else {
            thread::sleep(LOOK);
            continue;
        };
        let mut line = String::new();
        while !ended.load(Ordering::Relaxed) {
            match stream.read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => break,
            }
            let news = if line.starts_with("HTTP/1.") && !line.contains(" 200 ") {
                break;
            } else if line == ":\n" && !is_known {
                is_known = true;
                Some(PageNews::Open)
            } else if let Some(id) = line.strip_prefix("id: ") {
                id.trim().clone_into(&mut from);
                None
            } else {
                accepted(&line).filter(|commit| *commit != last).map(|commit| {
                    last.clone_from(&commit);
                    PageNews::Accepted(commit, Instant::now())
                })
            };
            // Nobody listens any more when the run has failed.
            if news.is_some_and(|news| sender.send(news).is_err()) {
                return;
            }
            line.clear();
        }
    }
}

/// Returns the accepted commit of an event.
fn accepted(line: &str) -> Option<String> {
    let totals: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
    totals["accepted"].as_str().map(str::to_owned)
}

/// Asks for the page of the fleet as a browser does; returns how soon the first byte came, and its bytes.
fn first_bytes(world: &World) -> Result<Value> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..CALLS {
        let started = Instant::now();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, world.port()))?;
        stream.set_read_timeout(Some(LIMIT))?;
        let host = format!("Host: 127.0.0.1:{}", world.port());
        write!(stream, "GET / HTTP/1.0\r\n{host}\r\nAccept-Encoding: gzip\r\n\r\n")?;
        let mut answer = vec![0];
        stream.read_exact(&mut answer).context("the first byte of the page")?;
        times.push(started.elapsed());
        stream.read_to_end(&mut answer)?;
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").context("the head of the page")?;
        ensure!(answer.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&answer[..head]));
        bytes = answer.len() - head - 4;
    }
    let mut result = summary(&times);
    result["bytes"] = json!(bytes);
    Ok(result)
}
