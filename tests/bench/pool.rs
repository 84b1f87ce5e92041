//! Agents of one pool beside the daemon, which dial it over TLS; what passes between them is counted.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::daemon::{Daemon, World};
use crate::fleet::{Certificates, free_port, http, until};

/// The pool of all agents.
const POOL: &str = "bench";
/// How long an agent may take to be connected.
const READY: Duration = Duration::from_mins(1);
/// What one read of a line takes at most.
const READ_BYTES: usize = 64 * 1024;

/// Returns how members are reached whose kubeconfigs are in the folder of the agents.
pub fn access(name: &str) -> String {
    format!("  - {{name: '{name}', agent: {{pool: {POOL}}}, kubeconfig: {{path: '{{name}}.kubeconfig'}}}}\n")
}

/// Agents, and the lines on which they reach the daemon.
pub struct Pool {
    certificates: Certificates,
    lines: Vec<Line>,
}

impl Pool {
    /// Prepares so many agents, and lets the daemon of a world listen for them.
    pub fn prepare(world: &World, count: usize) -> Result<Self> {
        let certificates = Certificates::make(world.path())?;
        let port = free_port()?;
        let (certificate, key) = (certificates.certificate.display(), certificates.key.display());
        let mut section = format!(
            "agents:\n  listen: '127.0.0.1:{port}'\n  tls: {{certFile: {certificate}, keyFile: {key}}}\n  tokens:\n"
        );
        let mut lines = Vec::with_capacity(count);
        for number in 0..count {
            fs::write(world.path().join(format!("edge-{number}.token")), format!("token-of-agent-{number}"))?;
            let token = format!("edge-{number}.token");
            section = format!("{section}    - {{name: edge-{number}, tokenFile: ./{token}, pools: [{POOL}]}}\n");
            lines.push(Line::to(port)?);
        }
        world.reconfigure("members:\n", &(section + "members:\n"))?;
        Ok(Self { certificates, lines })
    }

    /// Starts all agents, which find kubeconfigs in a folder, and returns when the daemon has a session with each.
    pub fn start(&self, world: &World, daemon: &Daemon, kubeconfigs: &Path) -> Result<Vec<Daemon>> {
        let (ca, root) = (self.certificates.ca.display().to_string(), kubeconfigs.display().to_string());
        let start = |(number, line): (usize, &Line)| {
            let (name, probes) = (format!("edge-{number}"), free_port()?);
            let (server, listen) = (format!("https://127.0.0.1:{}", line.port), format!("127.0.0.1:{probes}"));
            let (token, state) = (format!("{name}.token"), format!("{name}-state"));
            let mut words = vec!["agent", "--server", &server, "--name", &name, "--pool", POOL, "--token-file", &token];
            words.extend(["--ca-file", &ca, "--state", &state, "--root", &root, "--listen", &listen]);
            world.spawn(&words, probes)
        };
        let agents = self.lines.iter().enumerate().map(start).collect::<Result<Vec<Daemon>>>()?;
        until("the agents to be connected", READY, || {
            let (_, metrics) = http("GET", daemon.port, "/metrics", &[], "")?;
            let all = format!("gitfleet_agents {}", agents.len());
            Ok(metrics.lines().any(|line| line == all).then_some(()))
        })?;
        Ok(agents)
    }

    /// Returns the bytes that have passed on each line, since the start or since this was asked last: TLS, HTTP/2 and all.
    pub fn take_bytes(&self) -> Vec<Value> {
        let take = |line: &Line| {
            let [to_daemon, to_agent] = [&line.up, &line.down].map(|count| count.swap(0, Ordering::Relaxed));
            json!({"toDaemon": to_daemon, "toAgent": to_agent})
        };
        self.lines.iter().map(take).collect()
    }
}

/// A way to a port of this machine that counts the bytes of its connections.
struct Line {
    port: u16,
    up: Arc<AtomicU64>,
    down: Arc<AtomicU64>,
}

impl Line {
    fn to(target: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for a line")?;
        let line = Self { port: listener.local_addr()?.port(), up: Arc::default(), down: Arc::default() };
        let (up, down) = (Arc::clone(&line.up), Arc::clone(&line.down));
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else { continue };
                for (from, to, count) in [(&near, &far, &up), (&far, &near, &down)] {
                    // Without delay, as both sides ask for.
                    drop(to.set_nodelay(true));
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let count = Arc::clone(count);
                    thread::spawn(move || pass(from, to, &count));
                }
            }
        });
        Ok(line)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut bytes = vec![0; READ_BYTES];
    while let Ok(read) = from.read(&mut bytes) {
        count.fetch_add(read as u64, Ordering::Relaxed);
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // Either side may be gone already.
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
