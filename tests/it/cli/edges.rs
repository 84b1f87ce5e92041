//! The daemon's edges from outside: its port under attack, who may read there, proxies of the environment, names that lie.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::scratch::{CONFIG, FLEET, Scratch, namespace};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(1);

/// A daemon, ended when dropped.
pub struct Daemon {
    child: Child,
    /// Where it listens.
    pub address: String,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    /// Starts a command that becomes a daemon, and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then(|| line["address"].as_str().map(str::to_owned))?
        });
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                written.lock().expect("nobody failed").push_str(&(line + "\n"));
            }
        });
        Self { child, address: address.expect("the daemon says where it listens"), log }
    }

    /// Returns what it logged since it listens.
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody failed").clone()
    }

    /// Returns the number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as an operator does, and waits until it has ended.
    pub fn end(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().expect("kill is there");
        assert!(told.success() && self.child.wait().expect("it ends").success(), "{}", self.log());
    }

    /// Returns the status of an answer, and its body.
    pub fn get(&self, path: &str, headers: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits for a condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::yield_now();
    }
}

/// Replaces a part of the configuration.
pub fn reconfigure(scratch: &Scratch, from: &str, to: &str) {
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    assert!(text.contains(from), "{text}");
    fs::write(scratch.path(CONFIG), text.replace(from, to)).expect("a file");
}

/// Runs the daemon.
pub const RUN: [&str; 5] = ["run", "-c", CONFIG, "--log-format", "json"];

#[test]
fn d09_connections_leave_files_for_the_source_and_health() {
    const ATTACKERS: usize = 600;
    let scratch = Scratch::with_web_on(&["east"]);
    let daemon = scratch.command(&RUN);
    // Fewer files than attackers: the soft limit is for the daemon to raise, the hard one is what there is.
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -Sn 200; ulimit -Hn 512; exec \"$0\" \"$@\""]).arg(daemon.get_program());
    limited.args(daemon.get_args()).current_dir(scratch.path("")).stdin(Stdio::null());
    let daemon = Daemon::start(limited);
    let held: Vec<TcpStream> =
        (0..ATTACKERS).map(|_| TcpStream::connect(&daemon.address).expect("it listens")).collect();
    assert_eq!(daemon.get("/healthz", "Host: x\r\n"), Some((200, "ok".into())));
    until("the source is read", || daemon.get("/readyz", "Host: x\r\n").is_some_and(|(status, _)| status == 200));
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("b", "1")]));
    scratch.commit("second");
    until("the second commit arrives", || scratch.member("east").iter().any(|file| file.contains(".b.")));
    assert_eq!(held.len(), ATTACKERS);
}

#[test]
fn d09_records_are_read_with_the_token_that_the_daemon_left() {
    let scratch = Scratch::with_web_on(&["east"]);
    reconfigure(&scratch, "http: {", "http: {read: token, ");
    let daemon = Daemon::start(scratch.command(&RUN));
    for path in ["/api/v1/records", "/api/v1/journal", "/metrics"] {
        assert_eq!(daemon.get(path, "Host: localhost\r\n").map(|(status, _)| status), Some(401), "{path}");
    }
    assert_eq!(daemon.get("/healthz", "Host: localhost\r\n").map(|(status, _)| status), Some(200));
    let server = ["--server", daemon.address.as_str()];
    let stranger = scratch.run(&[&["get", "placements"], server.as_slice()].concat());
    assert_eq!(stranger.code, 2);
    assert!(
        stranger.err.contains("reading needs a token") && stranger.err.contains("--token-file"),
        "{}",
        stranger.err
    );
    let known = scratch.run(&[&["get", "placements", "-c", CONFIG], server.as_slice()].concat());
    known.text(0);
    let named = [&["get", "placements", "--token-file", "store/token"], server.as_slice()].concat();
    scratch.run(&named).text(0);
}

#[test]
fn d19_proxies_of_the_environment_carry_nothing_unasked() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.set_nonblocking(true).expect("it does not wait");
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    for (setting, used) in [("", false), ("proxy: none\n", false), ("proxy: environment\n", true)] {
        let scratch = Scratch::new();
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: 'http://127.0.0.1:9/x.git'}}\n\
             store: {{path: ./store}}\n{setting}"
        );
        fs::write(scratch.path(CONFIG), text).expect("a file");
        let mut command = scratch.command(&["run", "-c", CONFIG, "--once", "--timeout", "2s"]);
        let output = command.env("http_proxy", &address).env("HTTP_PROXY", &address).output().expect("it runs");
        let mut asked = 0;
        while proxy.accept().is_ok() {
            asked += 1;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(asked > 0, used, "{setting:?}: {said}");
        assert!(said.contains("HTTP_PROXY"), "{setting:?}: {said}");
    }
}

#[test]
fn d19_a_file_name_begins_no_line_of_an_error() {
    let scratch = Scratch::with_web_on(&["east"]);
    scratch.write("a\nerror: forged\u{1b}[2K.yaml", "kind: [\n");
    let fleet = scratch.path(FLEET);
    let checked = scratch.run(&["validate", fleet.to_str().expect("a path")]);
    let said = format!("{}{}", checked.out, checked.err);
    assert_eq!(checked.code, 1, "{said}");
    assert!(!said.contains('\u{1b}') && !said.lines().any(|line| line.starts_with("error: forged")), "{said:?}");
    assert!(said.contains("a\\nerror: forged\\u{1b}[2K.yaml"), "{said:?}");
}

#[test]
fn c14_rights_follow_from_the_repository_unless_more_is_asked_for() {
    let scratch = Scratch::with_web_on(&["east"]);
    let bootstrap = |more: &[&str]| scratch.run(&[&["member", "bootstrap", "east"], more].concat());
    let unsaid = bootstrap(&[]);
    assert_eq!(unsaid.code, 2);
    for option in ["--repo DIR", "--resources", "--all-kinds"] {
        assert!(unsaid.err.contains(option), "{}", unsaid.err);
    }
    let least = bootstrap(&["--repo", FLEET]);
    assert_eq!(
        bootstrap(&["-c", CONFIG]).text(0).lines().skip(2).collect::<Vec<_>>(),
        least.out.lines().skip(2).collect::<Vec<_>>()
    );
    let text = least.text(0);
    assert!(text.contains("configmaps") && text.contains("namespace: web"), "{text}");
    assert!(!text.contains('*') && !text.contains("secrets\n") && !text.contains("escalate"), "{text}");
    let all = bootstrap(&["--all-kinds"]);
    assert!(all.text(0).contains("'*'") || all.out.contains("\"*\""), "{}", all.out);
    scratch.write(
        "role.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: web}\nrules: []\n",
    );
    let roles = bootstrap(&["--repo", FLEET]);
    assert!(roles.err.contains("--allow-rbac") && !roles.text(0).contains("escalate"), "{}{}", roles.out, roles.err);
    assert!(bootstrap(&["--repo", FLEET, "--allow-rbac"]).text(0).contains("escalate"));
    scratch.write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    let broken = bootstrap(&["--repo", FLEET]);
    assert_eq!(broken.code, 2);
    assert!(broken.err.contains("broken.yaml:1"), "{}", broken.err);
}
