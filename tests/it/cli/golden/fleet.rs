//! One fleet with something of everything, brought to one state commit by commit. Each step waits for what it leads to, so the next
//! one meets the same fleet in every run.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;
use testservers::repository;

use crate::cli::edges::{Daemon, RUN, until};
use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch};

/// The file with the token of `ann`: who approves is not whoever runs the tests.
const TOKEN: &str = "ann";

/// A commit: the folder of its files below `tests/fixtures/golden/commits`, and its message.
type Commit = (&'static str, &'static str);

/// All of them, in order.
const COMMITS: [Commit; 10] = [
    ("1-web", "Bring web"),
    ("2-follower", "Bring what follows a Placement"),
    ("3-search", "Bring search in stages"),
    ("4-notes", "Bring the notes of a team"),
    ("5-broken", "Bring an override that fails"),
    ("6-old", "Bring something old"),
    ("7-changed", "Change web"),
    ("8-removed", "Remove what is old"),
    ("9-later", "Rank by recency"),
    ("10-refused", "Write a field wrongly"),
];

/// The fleet, and the daemon that keeps it.
pub struct GoldenFleet {
    /// Where it is.
    pub scratch: Scratch,
    /// The daemon.
    pub daemon: Daemon,
    /// What people told the daemon, and what it answered.
    pub told: String,
    commits: usize,
}

impl GoldenFleet {
    /// Brings the fleet to its last state. `url` says how the daemon reads the repository.
    pub fn play(url: &str) -> Self {
        let scratch = Scratch::new();
        configure(&scratch, url);
        commit(&scratch, 0);
        let daemon = Daemon::start(scratch.command(&RUN));
        let mut fleet = Self { scratch, daemon, told: String::new(), commits: 1 };
        fleet.rolls_out("web", 1);
        fleet.commit();
        fleet.rolls_out("follower", 1);
        fleet.commit();
        fleet.stands("search", 0, "WaitingForPerson");
        fleet.told(&["approve", "search"]);
        fleet.told(&["approve", "search-0", "staging", "--reason", "it was tried"]);
        fleet.rolls_out("search", 1);
        fleet.commit();
        fleet.rolls_out("team/notes", 1);
        fleet.commit();
        fleet.stands("broken", 0, "Failed");
        fleet.happens("web", "EvictionJudged", 1);
        fleet.commit();
        fleet.happens("broken", "RolloutHalted", 1);
        fleet.rolls_out("old", 1);
        fleet.commit();
        fleet.rolls_out("web", 2);
        fleet.told(&["rollback", "web", "--to", "0", "--reason", "too early"]);
        fleet.rolls_out("web", 3);
        fleet.stands("web", 1, "Failed");
        fleet.commit();
        fleet.stands("old", 0, "WaitingForPerson");
        fleet.commit();
        fleet.stands("search", 1, "WaitingForPerson");
        fleet.told(&["pause", "follower", "--reason", "holidays"]);
        fleet.told(&["approve", "search-1", "production"]);
        let refused = fleet.commit();
        until("the last commit is refused", || {
            let source = fleet.json("/api/v1/records?prefix=source/")["records"][0][1].take();
            source["seen"] == refused.as_str() && source["refused"].as_array().is_some_and(|all| !all.is_empty())
        });
        fleet.knows_namespaces();
        // What is logged last: it passes through a pipe.
        until("the log tells of it", || fleet.daemon.log().contains("broken.yaml:12: "));
        fleet
    }

    /// Commits the next files; returns the commit.
    fn commit(&mut self) -> String {
        self.commits += 1;
        commit(&self.scratch, self.commits - 1)
    }

    /// Waits until a placement has a state with this snapshot.
    fn stands(&self, placement: &str, snapshot: u64, state: &str) {
        until(&format!("{placement} stands at {state} with snapshot {snapshot}"), || {
            let page = self.json(&format!("/api/v1/placements?name={placement}&state={state}"));
            page["items"][0]["rollout"]["snapshot"] == snapshot
        });
    }

    /// Waits until something has happened to a placement so many times.
    fn happens(&self, placement: &str, event: &str, times: usize) {
        until(&format!("{event} of {placement}, {times} times"), || {
            let journal = self.json(&format!("/api/v1/journal?placement={placement}"));
            let entries = journal["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
            entries.iter().filter(|entry| entry[1]["event"] == event).count() == times
        });
    }

    /// Waits until a placement has been rolled out so many times.
    fn rolls_out(&self, placement: &str, times: usize) {
        self.happens(placement, "RolloutSucceeded", times);
    }

    /// Waits until the namespaces of all members are recorded: they are watched apart from what is delivered.
    fn knows_namespaces(&self) {
        let expected = [("d", 1), ("m1", 0), ("m2", 1), ("p1", 2), ("p2", 2), ("s", 2)];
        until("the namespaces of all members are known", || {
            let answer = self.json("/api/v1/records?prefix=cluster/");
            let known = answer["records"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
            known.map(|pair| pair[1]["namespaces"].as_array().map(Vec::len)).eq(expected.map(|(_, count)| Some(count)))
        });
    }

    /// Runs a command as `ann`, and notes what came of it.
    fn told(&mut self, words: &[&str]) {
        let found = self.run(words);
        self.told.push_str(&typed(words, &found));
    }

    /// Runs a command as `ann`.
    pub fn run(&self, words: &[&str]) -> Outcome {
        let needs_no_daemon = ["plan", "validate", "simulate", "crd", "config"].contains(&words[0]);
        let daemon = ["-c", CONFIG, "--token-file", TOKEN, "--server", &self.daemon.address];
        self.scratch.run(&[words, if needs_no_daemon { &[] } else { &daemon }].concat())
    }

    /// Returns an answer of the daemon in JSON; null while there is none.
    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.ask(path).1).unwrap_or_default()
    }

    /// Returns the status of an answer, and its body.
    pub fn ask(&self, path: &str) -> (u16, String) {
        let mut answer = String::new();
        self.asked(path).read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
    }

    /// Returns the lines that the stream begins with: everything, up to the totals.
    pub fn streamed(&self) -> String {
        let lines = BufReader::new(self.asked("/api/v1/stream")).lines().map(|line| line.expect("a line"));
        let mut lines = lines.skip_while(|line| !line.is_empty()).skip(1);
        let mut text = String::new();
        while !text.contains("event: summary\n") || !text.ends_with("\n\n") {
            text.push_str(&(lines.next().expect("the totals come") + "\n"));
        }
        text
    }

    /// Asks for a path. HTTP/1.0 has bodies in one piece.
    fn asked(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.daemon.address).expect("the daemon listens");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", token())
            .expect("a question");
        stream
    }
}

/// Returns what a terminal shows of a command.
pub fn typed(words: &[&str], found: &Outcome) -> String {
    let mut text = format!("$ gitfleet {}\n{}", words.join(" "), found.out);
    if !found.err.is_empty() {
        write!(text, "[stderr]\n{}", found.err).expect("text takes all");
    }
    writeln!(text, "[exit code {}]\n", found.code).expect("text takes all");
    text
}

fn token() -> String {
    "0123456789abcdef".repeat(2)
}

/// Writes the configuration, with a token of `ann`.
fn configure(scratch: &Scratch, url: &str) {
    let text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: \"{url}\", branch: main, identity: golden}}\n\
         members:\n  - {{name: \"*\", directory: \"./members/{{name}}\"}}\nstore: {{path: ./store}}\n\
         http: {{listen: \"127.0.0.1:0\", page: command, tokens: [{{name: ann, tokenFile: ./{TOKEN}}}]}}\n"
    );
    fs::write(scratch.path(CONFIG), text).expect("a file");
    fs::write(scratch.path(TOKEN), token()).expect("a file");
}

/// Copies the files of a commit into the tree and commits them, minute after minute: a commit has the same id in every run.
fn commit(scratch: &Scratch, number: usize) -> String {
    let (folder, message) = COMMITS[number];
    let from = repository().join("tests/fixtures/golden/commits").join(folder);
    for entry in fs::read_dir(from).expect("the files of the commit") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        scratch.write(&path.file_name().expect("a name").to_string_lossy(), &text);
    }
    let tree = scratch.path(FLEET);
    let at = format!("2026-01-02T03:{number:02}:00Z");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&tree).args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "Fleet Test").env(format!("GIT_{who}_EMAIL"), "fleet@example.test");
            git.env(format!("GIT_{who}_DATE"), &at);
        }
        let output = git.output().expect("git is there");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    if number == 0 {
        git(&["init", "-q", "-b", "main", "--template="]);
    }
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", message]);
    git(&["rev-parse", "HEAD"])
}
