//! Agents: processes that dial the daemon and deliver to members in its place.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::edges::{Daemon, RUN, reconfigure, until};
use crate::cli::scratch::{CONFIG, Scratch, namespace};

/// What must not be readable in an agent's state folder, and its base64 form in a Secret.
const CANARY: [&str; 2] = ["canary-4711", "Y2FuYXJ5LTQ3MTE="];
/// The shortest lease that the configuration allows.
const LEASE: &str = "3s";
/// How long a silent agent certainly has a member: its last report is a third of the lease old, and more on a busy machine.
const MOVE_MIN: Duration = Duration::from_secs(1);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// A fleet whose members have agents.
struct World {
    scratch: Scratch,
    /// Where agents connect.
    server: String,
}

/// A running agent, killed when dropped.
struct Agent {
    child: Child,
    /// Where it serves its probes.
    port: u16,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // One that was stopped ends, too.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Agent {
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().expect("kill starts");
        assert!(sent.success(), "kill {signal}");
    }

    fn says(&self, path: &str) -> (u16, String) {
        use std::io::{Read as _, Write as _};
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) else { return (0, String::new()) };
        let mut answer = String::new();
        let asked = write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        if asked.and_then(|()| stream.read_to_string(&mut answer)).is_err() {
            return (0, answer);
        }
        (answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(), answer)
    }

    fn is_connected(&self) -> bool {
        self.says("/readyz").0 == 200
    }
}

impl World {
    /// Makes a fleet; `east` and others are delivered to as `entry` says, `west` by the daemon itself.
    fn new(clusters: &[&str], entry: &str) -> Self {
        let scratch = Scratch::with_web_on(clusters);
        let server = format!("127.0.0.1:{}", free_port());
        // A fixed port: commands find the daemon, also the next one.
        reconfigure(&scratch, "127.0.0.1:0", &format!("127.0.0.1:{}", free_port()));
        reconfigure(&scratch, "members:\n", &format!("members:\n  - {entry}\n"));
        let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
        let agents = format!("agents: {{listen: \"{server}\", lease: {LEASE}}}\n");
        fs::write(scratch.path(CONFIG), text + &agents).expect("a file");
        Self { scratch, server: format!("http://{server}") }
    }

    fn daemon(&self) -> Daemon {
        Daemon::start(self.scratch.command(&RUN))
    }

    fn create_token(&self, agent: &str, more: &[&str]) {
        let made = self.scratch.run(&[&["agent", "token", "create", agent, "-c", CONFIG], more].concat());
        fs::write(self.scratch.path(&format!("{agent}.token")), made.text(0)).expect("a file");
    }

    /// Starts an agent whose members are below the folder `root`.
    fn agent(&self, name: &str, more: &[&str]) -> Agent {
        let port = free_port();
        let (token, state, listen) = (format!("{name}.token"), format!("{name}-state"), format!("127.0.0.1:{port}"));
        let mut args = vec!["agent", "--server", &self.server, "--name", name, "--token-file", &token];
        args.extend(["--state", &state, "--root", "root", "--listen", &listen, "--log-format", "json"]);
        args.extend(more);
        let log = fs::File::options().create(true).append(true).open(self.scratch.path(&format!("{name}.log")));
        let mut command = self.scratch.command(&args);
        let child = command.stdout(Stdio::null()).stderr(log.expect("a log")).spawn().expect("the agent starts");
        Agent { child, port }
    }

    /// Returns the file of the ConfigMap of a member of an agent.
    fn map(&self, cluster: &str) -> PathBuf {
        self.scratch.path(&format!("root/members/{cluster}/configmap..web.a.yaml"))
    }

    fn has(&self, cluster: &str, value: &str) -> bool {
        fs::read_to_string(self.map(cluster)).is_ok_and(|text| text.contains(&format!("key: {value:?}")))
    }

    /// Commits another value of the ConfigMap, with a Secret beside it.
    fn commit(&self, value: &str) {
        let secret = format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: web}}\ndata: {{token: {}}}\n",
            CANARY[1]
        );
        self.scratch.write("web.yaml", &(namespace("web", &[("a", value)]) + &secret));
        self.scratch.commit(value);
    }

    /// Changes a member by hand.
    fn drift(&self, cluster: &str, from: &str) {
        let text = fs::read_to_string(self.map(cluster)).expect("it is there");
        let changed = text.replace(&format!("key: {from:?}"), "key: drift");
        assert_ne!(changed, text);
        fs::write(self.map(cluster), changed).expect("it is writable");
    }

    fn cluster(&self, name: &str) -> Value {
        let found = self.scratch.run(&["get", "clusters", name, "-c", CONFIG, "-o", "json"]);
        serde_json::from_str(&found.out).unwrap_or_default()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn an_agent_delivers_continues_alone_and_is_revoked() {
    let world = World::new(&["east", "west"], "{name: east, agent: edge, directory: \"members/{name}\"}");
    let daemon = world.daemon();
    until("the daemon says whom it waits for", || world.cluster("east").to_string().contains("no agent named edge"));
    world.create_token("edge", &[]);
    let agent = world.agent("edge", &[]);
    until("the agent delivers", || world.has("east", "1"));
    until("the daemon delivers to the other", || !world.scratch.member("west").is_empty());
    assert!(world.scratch.member("east").is_empty(), "the daemon does not write to the member of an agent");
    world.commit("2");
    until("a change goes out", || world.has("east", "2"));
    let status = || world.scratch.run(&["status", "-c", CONFIG]);
    until("all is well", || status().code == 0);

    // Without the daemon the last order counts, also after a start of the agent.
    drop(daemon);
    until("the agent notices", || !agent.is_connected());
    world.drift("east", "2");
    until("drift is put back", || world.has("east", "2"));
    drop(agent);
    world.drift("east", "2");
    let agent = world.agent("edge", &[]);
    until("drift is put back after a start without a daemon", || world.has("east", "2"));
    assert!(agent.says("/readyz").1.contains("no session"), "{:?}", agent.says("/readyz"));
    assert_eq!(agent.says("/healthz").0, 200);
    let state = files(&world.scratch.path("edge-state"));
    assert!(state.len() > 3, "{state:?}");
    for file in state {
        let bytes = fs::read(&file).expect("readable");
        let text = String::from_utf8_lossy(&bytes);
        assert!(CANARY.iter().all(|canary| !text.contains(canary)), "{} holds a Secret in plain", file.display());
    }

    // What was pushed while nobody looked goes out when both are back.
    world.commit("3");
    let _daemon = world.daemon();
    until("the next commit goes out", || world.has("east", "3"));
    // A member that never reported it would hold back the next commit everywhere.
    until("it has reported that", || status().code == 0);
    let revoked = world.scratch.run(&["agent", "token", "revoke", "edge", "-c", CONFIG]);
    assert_eq!(revoked.code, 0, "{}{}", revoked.out, revoked.err);
    until("its session ends", || agent.says("/readyz").1.contains("401"));
    until("the daemon says so", || world.cluster("east").to_string().contains("agent edge is not connected any more"));
    world.commit("4");
    let of_the_daemon = world.scratch.path("members/west/configmap..web.a.yaml");
    let has_next = || fs::read_to_string(&of_the_daemon).is_ok_and(|text| text.contains("key: \"4\""));
    until("the daemon delivers the next commit to its own member", has_next);
    assert!(world.has("east", "3"), "what the agent delivered stays");
}

#[test]
fn a_member_that_goes_from_a_silent_agent_to_the_daemon_waits_for_its_lease() {
    let of_agent = "  - {name: east, agent: edge, directory: \"members/{name}\"}\n";
    let world = World::new(&["east"], of_agent.trim_start_matches("  - ").trim_end());
    let _daemon = world.daemon();
    world.create_token("edge", &[]);
    let agent = world.agent("edge", &[]);
    until("the agent delivers", || world.has("east", "1"));
    until("it has reported that", || world.scratch.run(&["status", "-c", CONFIG]).code == 0);

    // It can neither stop the member nor end: nobody knows what it has in flight.
    agent.signal("-STOP");
    let stopped = Instant::now();
    world.drift("east", "1");
    // The same folder as seen from the daemon.
    reconfigure(&world.scratch, of_agent, "  - {name: east, directory: \"root/members/{name}\"}\n");
    until("the daemon puts drift back", || world.has("east", "1"));
    assert!(stopped.elapsed() >= MOVE_MIN, "it waited for {:?}", stopped.elapsed());
    agent.signal("-CONT");
    until("the agent is back", || agent.is_connected());
    world.commit("2");
    until("the daemon delivers", || world.has("east", "2"));
}

#[test]
fn agents_of_a_pool_share_its_members_and_take_over_from_each_other() {
    let clusters = ["a", "b", "c", "d", "e", "f"];
    let world = World::new(&clusters, "{name: \"*\", agent: {pool: eu}, directory: \"members/{name}\"}");
    // It would never be reached.
    reconfigure(&world.scratch, "  - {name: \"*\", directory: \"./members/{name}\"}\n", "");
    let _daemon = world.daemon();
    world.create_token("eu-1", &["--pool", "eu"]);
    world.create_token("eu-2", &["--pool", "eu"]);
    let first = world.agent("eu-1", &["--pool", "eu"]);
    let second = world.agent("eu-2", &["--pool", "eu"]);
    let all_have = |value: &str| clusters.iter().all(|cluster| world.has(cluster, value));
    until("the pool delivers", || all_have("1"));

    // One is stopped and wakes up when its members are somebody else's: it writes nothing of what it had.
    first.signal("-STOP");
    world.commit("2");
    until("the other takes over when the lease is over", || all_have("2"));
    first.signal("-CONT");
    until("it connects again", || first.is_connected());
    world.commit("3");
    until("both deliver", || all_have("3"));

    drop(second);
    world.commit("4");
    until("the first takes over from one that was killed", || all_have("4"));
    let foreign = world.scratch.run(&["agent", "token", "create", "us-1", "-c", CONFIG]);
    fs::write(world.scratch.path("us-1.token"), foreign.text(0)).expect("a file");
    let refused = world.agent("us-1", &["--pool", "eu"]);
    until("a token that names no pool joins none", || refused.says("/readyz").1.contains("does not allow pool eu"));
}

#[test]
fn an_agent_says_what_it_needs() {
    let scratch = Scratch::new();
    let none = scratch.run(&["agent"]);
    assert_eq!(none.code, 64, "{}", none.err);
    assert!(none.err.contains("--server") && none.err.contains("--token-file"), "{}", none.err);
    let plain = ["agent", "--server", "http://fleet.example:1", "--name", "edge", "--token-file", "t", "--state", "s"];
    let plain = scratch.run(&plain);
    assert_eq!(plain.code, 64, "{}", plain.err);
    assert!(plain.err.contains("is not encrypted"), "{}", plain.err);
    let missing = ["agent", "--server", "https://127.0.0.1:1", "--name", "edge", "--token-file", "t", "--state", "s"];
    let missing = scratch.run(&missing);
    assert_eq!(missing.code, 2, "{}", missing.err);
    assert!(missing.err.contains('t'), "{}", missing.err);
}
