//! Two daemons on one PostgreSQL with a real Gitea and real API servers: the leader is killed or stopped at points all over staged
//! rollouts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use testservers::program;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::e2e::console::{Stage, gitea};
use crate::e2e::daemon::LIMIT;
use crate::e2e::fleet::{Fleet, Member, MergeWay, Options, Postgres, ServerHome, free_port, http, until, write_count};

/// Points at which the leader fails; `GITFLEET_POINTS` sets another number.
const POINTS_DEFAULT: usize = 10;
/// Points of one rollout.
const POINTS_OF_A_ROLLOUT: usize = 5;
/// The shortest that the configuration allows.
const LEASE: &str = "2s";
/// Pause between two looks at the journal: short beside what passes between two of its entries.
const LOOK: Duration = Duration::from_millis(2);
/// The token of who lets the first version continue.
const TOKEN: &str = "t0ken-of-ann";
/// The entry with which a gate waits for an approval.
const ASKED: &str = "ApprovalRequested canary";

/// Members of this test alone, whose writes are counted.
fn members() -> &'static [Member] {
    static FLEET: OnceLock<Fleet> = OnceLock::new();
    &FLEET.get_or_init(|| Fleet::start(Options::members(3)).expect("the test fleet starts")).members
}

/// How a leader fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// By `kill -9`; it is started again when another leads.
    Killed,
    /// By SIGSTOP; it is continued when another leads.
    Stopped,
}

/// The journal as the database has it, over a connection that stays open.
struct Journal {
    runtime: Runtime,
    client: tokio_postgres::Client,
    schema: &'static str,
}

impl Journal {
    fn open(postgres: &Postgres, schema: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut config: tokio_postgres::Config = postgres.url.parse().expect("an address");
        config.password(&postgres.password);
        let client = runtime.block_on(async {
            let (client, connection) = config.connect(NoTls).await.expect("a connection");
            tokio::spawn(async move { drop(connection.await) });
            client
        });
        Self { runtime, client, schema }
    }

    /// Returns the entries after a number, oldest first: the number, and the event with its run, stage and cluster as they are asked for.
    fn entries(&self, after: i64, fields: &str) -> Vec<(i64, String)> {
        let text = format!(
            "SELECT number, concat_ws(' ', event, {fields}) FROM {}.journal WHERE number > {after} ORDER BY number",
            self.schema
        );
        let rows = self.runtime.block_on(self.client.query(&text, &[])).expect("the journal is read");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Returns the steps of a rollout, each once, in the order in which they were first written.
    fn steps(&self, after: i64) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let entries = self.entries(after, "entry->'facts'->>'stage', entry->>'cluster'").into_iter();
        entries.map(|(_, step)| step).filter(|step| seen.insert(step.clone())).collect()
    }

    fn newest(&self) -> i64 {
        self.entries(-1, "''").last().map_or(0, |(number, _)| *number)
    }
}

/// One daemon.
struct Replica {
    name: &'static str,
    port: u16,
    child: Child,
}

impl Drop for Replica {
    fn drop(&mut self) {
        // One that was stopped ends, too.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Replica {
    fn start(stage: &Stage, name: &'static str, port: u16) -> Self {
        let folder = stage.world.path();
        let log = File::options().create(true).append(true).open(folder.join(format!("{name}.log"))).expect("a log");
        let mut command = Command::new(program());
        let command =
            command.args(["run", "-c", &format!("{name}.yaml")]).env("NO_COLOR", "1").env_remove("GITFLEET_LOG");
        let command = command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { name, port, child: command.spawn().expect("the daemon starts") }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().expect("kill starts");
        assert!(sent.success(), "kill {signal} {}", self.name);
    }

    fn says(&self, wanted: &str) -> bool {
        http("GET", self.port, "/readyz", &[], "").is_ok_and(|(status, text)| status == 200 && text.starts_with(wanted))
    }

    fn has_decided(&self) -> bool {
        let Ok((_, metrics)) = http("GET", self.port, "/metrics", &[], "") else { return false };
        let counts = metrics.lines().filter(|line| line.starts_with("gitfleet_engine_decisions_total"));
        counts.filter_map(|line| line.rsplit_once(' ')).any(|(_, count)| count != "0")
    }
}

/// Two daemons, of which one leads.
struct Pair {
    stage: Stage,
    replicas: [Replica; 2],
    leader: usize,
    epoch: u64,
    journal: Journal,
    _postgres: Postgres,
    _home: ServerHome,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for replica in &self.replicas {
                let log = fs::read_to_string(self.stage.world.path().join(format!("{}.log", replica.name)));
                let log = log.unwrap_or_default();
                let lines: Vec<&str> = log.lines().rev().take(40).collect();
                eprintln!("--- {}\n{}", replica.name, lines.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
    }
}

/// A change on its way to the members.
struct Rollout {
    version: String,
    before: String,
    pull: u64,
    merged: String,
    /// The newest entry of the journal before it.
    after: i64,
    is_approved: bool,
}

impl Pair {
    fn start(name: &'static str) -> Self {
        let stage = Stage::on(name, "1s", members());
        fs::write(stage.world.path().join("ann"), TOKEN).expect("a file");
        stage.write("1");
        stage.push("main", "The fleet and its first application");
        let home = ServerHome::temporary().expect("a folder");
        let postgres = Postgres::start(home.folder()).expect("PostgreSQL starts");
        let text = fs::read_to_string(stage.world.config()).expect("the configuration");
        fs::write(stage.world.path().join("password"), &postgres.password).expect("a file");
        let replicas = ["a", "b"].map(|replica| {
            let port = free_port().expect("a port");
            let store = format!(
                "store: {{path: ./state-{replica}, postgres: {{url: '{}', passwordFile: password, sslMode: disable, schema: {name}, \
                 lease: {LEASE}}}}}",
                postgres.url
            );
            let own = text.replace("store: {path: ./state}", &store);
            let listen = format!(":{}'", stage.world.port());
            let own = own.replace(&listen, &format!(":{port}', tokens: [{{name: ann, tokenFile: ann}}]"));
            fs::write(stage.world.path().join(format!("{replica}.yaml")), own).expect("the configuration is written");
            Replica::start(&stage, replica, port)
        });
        let mut leader = None;
        await_that("one of them to lead", || {
            leader = replicas.iter().position(|replica| replica.says("leads (epoch 1)"));
            leader.is_some()
        });
        let leader = leader.expect("it was found");
        await_that("the other to follow", || replicas[1 - leader].says("follows"));
        let journal = Journal::open(&postgres, name);
        Self { stage, replicas, leader, epoch: 1, journal, _postgres: postgres, _home: home }
    }

    /// The leader fails, and the other one takes over and decides. Then the failed one is back as a follower.
    fn fail(&mut self, failure: Failure) {
        let failed = self.leader;
        match failure {
            Failure::Killed => self.replicas[failed].signal("-KILL"),
            Failure::Stopped => self.replicas[failed].signal("-STOP"),
        }
        self.leader = 1 - failed;
        self.epoch += 1;
        let leads = format!("leads (epoch {})", self.epoch);
        await_that(&leads, || self.replicas[self.leader].says(&leads));
        await_that("it to decide", || self.replicas[self.leader].has_decided());
        match failure {
            Failure::Killed => {
                let Replica { name, port, .. } = self.replicas[failed];
                self.replicas[failed] = Replica::start(&self.stage, name, port);
            }
            Failure::Stopped => self.replicas[failed].signal("-CONT"),
        }
        let follows = format!("follows http://127.0.0.1:{} (epoch {})", self.replicas[self.leader].port, self.epoch);
        await_that(&follows, || self.replicas[failed].says(&follows));
        let ended = self.replicas[failed].child.try_wait().expect("it is asked");
        assert_eq!(ended, None, "{failure:?}: it is the same process");
    }

    fn comments(&self, thread: u64) -> Vec<String> {
        self.stage.comments(thread)
    }

    fn is_told(&self, thread: u64, words: &[&str]) -> bool {
        self.comments(thread).iter().any(|body| words.iter().all(|word| body.contains(word)))
    }

    /// Rolls the first version out.
    fn begin(&self) {
        let body = format!("{{\"verb\": \"approve\", \"target\": \"{}-0\", \"stage\": \"canary\"}}", self.stage.name);
        let headers = [("authorization", &*format!("Bearer {TOKEN}")), ("content-type", "application/json")];
        let port = self.replicas[self.leader].port;
        await_that("the first version to continue", || {
            http("POST", port, "/api/v1/commands", &headers, &body).is_ok_and(|(status, _)| status == 200)
        });
        await_that("the first version on all members", || self.stage.held() == ["1", "1", "1"]);
    }

    /// Opens a pull request with the next version, waits for its plan, and merges it.
    fn merge(&self, version: usize) -> Rollout {
        let (branch, title) = (format!("change-{version}"), format!("Version {version}"));
        self.stage.branch(&branch);
        self.stage.write(&version.to_string());
        self.stage.push(&branch, &title);
        let token = &self.stage.author.token;
        let pull = gitea().open_pull(token, &self.stage.repo, &branch, "main", &title).expect("a pull");
        await_that("its plan", || self.is_told(pull, &["settings", "canary", "early", "rest"]));
        let after = self.journal.newest();
        let merged = gitea().merge(token, &self.stage.repo, pull, MergeWay::Merge).expect("a merge");
        let (version, before) = (version.to_string(), (version - 1).to_string());
        Rollout { version, before, pull, merged, after, is_approved: false }
    }

    /// Says yes at the gate, once; nobody behind it has begun before.
    fn approve(&self, rollout: &mut Rollout) {
        if std::mem::replace(&mut rollout.is_approved, true) {
            return;
        }
        let is_asked = || self.journal.steps(rollout.after).iter().any(|step| step == ASKED);
        await_that("the gate", || is_asked() && self.is_told(rollout.pull, &["To approve,", "/approve canary"]));
        let (new, old) = (rollout.version.as_str(), rollout.before.as_str());
        assert_eq!(self.stage.held(), [new, old, old], "the gate holds");
        self.stage.say(&self.stage.approver, rollout.pull, "/approve canary");
    }

    fn finish(&self, rollout: &mut Rollout) {
        self.approve(rollout);
        await_that("the version on all members", || self.stage.held().iter().all(|held| *held == rollout.version));
        await_that("its last word", || self.is_told(rollout.pull, &["<!-- gitfleet:v1", "✅"]));
        for context in ["gitfleet", &format!("gitfleet/{}", self.stage.name)] {
            await_that(&format!("{context} to succeed"), || {
                let statuses = self.stage.statuses(&rollout.merged);
                statuses.iter().any(|(of, state, _)| of == context && state == "success")
            });
        }
    }

    /// Fails where the conversation or the statuses of a rollout have something twice. Returns the daemons' comments.
    fn check_told(&self, rollout: &Rollout) -> Vec<String> {
        let comments = self.comments(rollout.pull);
        let own: Vec<String> = comments.into_iter().filter(|body| body.starts_with("<!-- gitfleet")).collect();
        let marks: BTreeSet<&str> = own.iter().filter_map(|body| body.lines().next()).collect();
        assert_eq!(marks.len(), own.len(), "a comment stands there twice: {own:#?}");
        let path = format!("/repos/{}/statuses/{}?limit=50&sort=oldest", self.stage.repo, rollout.merged);
        let written = gitea().api("GET", &path, None).expect("statuses");
        let text = |status: &Value| {
            ["context", "status", "description", "target_url"].map(|key| status[key].to_string()).join(" ")
        };
        let all: Vec<String> = written.as_array().into_iter().flatten().map(text).collect();
        let once: BTreeSet<&String> = all.iter().collect();
        assert_eq!(once.len(), all.len(), "a status was written twice: {all:#?}");
        own
    }

    /// Fails where the journal lacks an entry, or has something of a run more than once or in another order.
    fn check_journal(&self, runs: usize) {
        let entries =
            self.journal.entries(-1, "entry->'facts'->>'run', entry->'facts'->>'stage', entry->'facts'->>'opened'");
        assert!(
            (1..).zip(&entries).all(|(wanted, (number, _))| wanted == *number),
            "each entry is there once: {entries:#?}"
        );
        let places = |wanted: &str| -> Vec<i64> {
            entries.iter().filter(|(_, entry)| entry == wanted).map(|(number, _)| *number).collect()
        };
        for run in (0..runs).map(|run| format!("{}-{run}", self.stage.name)) {
            let once = |event: &str| {
                let found = places(&event.replace("RUN", &run));
                assert_eq!(found.len(), 1, "{event} of {run}: {entries:#?}");
                found[0]
            };
            let order = [
                "RunCreated RUN",
                "RunStarted RUN",
                "StageStarted RUN canary",
                "ApprovalRequested RUN canary",
                "Approved RUN canary true",
                "StageStarted RUN early",
                "StageStarted RUN rest",
            ];
            let numbers = order.map(once);
            assert!(numbers.is_sorted(), "{run}: {order:?} are at {numbers:?}");
        }
    }
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, LIMIT, || Ok(is_so().then_some(()))).expect("in time");
}

/// Waits until a rollout has come to one of these steps or further.
fn reach(pair: &Pair, rollout: &Rollout, steps: &[String], at: usize) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let written = pair.journal.steps(rollout.after);
        if steps.iter().skip(at).any(|step| written.contains(step)) {
            return;
        }
        assert!(Instant::now() < deadline, "waited in vain for {}", steps[at]);
        std::thread::sleep(LOOK);
    }
}

#[test]
fn leaders_that_fail_anywhere_in_staged_rollouts_lose_nothing_and_skip_no_gate() {
    let points = std::env::var("GITFLEET_POINTS").map_or(POINTS_DEFAULT, |text| text.parse().expect("a number"));
    let mut pair = Pair::start("failing");
    pair.begin();
    let mut undisturbed = pair.merge(2);
    pair.finish(&mut undisturbed);
    let steps = pair.journal.steps(undisturbed.after);
    let gate = steps.iter().position(|step| step == ASKED).expect("it was asked");
    let comments = pair.check_told(&undisturbed);
    let writes = || -> Vec<u64> {
        members().iter().map(|member| write_count(&member.metrics().expect("metrics"), "secrets")).collect()
    };
    let began = Instant::now();
    // Each rollout has points all over it, one after the other.
    let rollouts = points.div_ceil(POINTS_OF_A_ROLLOUT);
    for round in 0..rollouts {
        let before = writes();
        let mut rollout = pair.merge(3 + round);
        let own: Vec<usize> = (round..points).step_by(rollouts).collect();
        for (turn, point) in own.iter().enumerate() {
            let at = point * steps.len() / points;
            if at > gate {
                pair.approve(&mut rollout);
            }
            reach(&pair, &rollout, &steps, at);
            let failure = if (turn + round) % 2 == 0 { Failure::Killed } else { Failure::Stopped };
            eprintln!("point {point}: {failure:?} at {} after {:.1} s", steps[at], began.elapsed().as_secs_f64());
            pair.fail(failure);
        }
        pair.finish(&mut rollout);
        let told = pair.check_told(&rollout);
        assert_eq!(told.len(), comments.len(), "as many comments as where nobody fails, not {told:#?}");
        let more: Vec<u64> = writes().iter().zip(&before).map(|(after, before)| after - before).collect();
        // What was in flight when a leader failed may have been written without an answer, and is asked for once more.
        assert!(more.iter().all(|count| (1..=1 + own.len() as u64).contains(count)), "round {round}: {more:?}");
    }
    eprintln!("{points} failures of a leader in {rollouts} rollouts within {:.1} s", began.elapsed().as_secs_f64());
    pair.check_journal(2 + rollouts);
    // The first version came without a pull request.
    let issues = gitea().issues(&pair.stage.repo).expect("issues");
    assert!(issues.len() <= 1, "an issue is opened once: {issues:#?}");
}
