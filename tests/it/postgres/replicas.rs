//! Three daemons on one database: one leads, the others follow it and take over, whatever happens to it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use testservers::program;

use crate::postgres::fleet::{free_port, http};
use crate::postgres::{remote, server};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_secs(90);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The token of who commands.
pub const TOKEN: &str = "t0ken-of-ann";
/// The shortest there is.
const LEASE: &str = "2s";

/// A Namespace with a ConfigMap, and its placement.
pub const FLEET: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: web}
data: {color: VALUE}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: web}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}]
";

/// One daemon.
pub struct Replica {
    pub name: String,
    pub port: u16,
    pub child: Child,
}

impl Drop for Replica {
    fn drop(&mut self) {
        // One that was stopped ends, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Replica {
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success(), "kill {signal} {}", self.name);
    }

    pub fn ready(&self) -> Option<(u16, String)> {
        http("GET", self.port, "/readyz", &[], "").ok()
    }

    pub fn says(&self, wanted: &str) -> bool {
        self.ready().is_some_and(|(status, text)| status == 200 && text.starts_with(wanted))
    }

    pub fn metric(&self, name: &str) -> Option<String> {
        let (_, text) = http("GET", self.port, "/metrics", &[], "").ok()?;
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned()))
    }
}

/// What daemons begin with.
pub struct Setup {
    /// Address and password of their database.
    pub url: String,
    pub password: String,
    /// The file in the repository; VALUE stands for the color.
    pub fleet: String,
    /// Each daemon follows the repository over HTTP, with a mirror of its own, and does not read it in place.
    pub is_mirrored: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let (url, whole) = server::addresses();
        let password = whole.split([':', '@']).nth(2).unwrap().to_owned();
        Self { url, password, fleet: FLEET.to_owned(), is_mirrored: false }
    }
}

/// Daemons on one database, their repository and members that are folders.
pub struct World {
    pub folder: PathBuf,
    pub schema: String,
    /// The address of the repository.
    source: String,
    setup: Setup,
    pub replicas: Vec<Replica>,
    _kept: tempfile::TempDir,
}

pub fn git(repository: &Path, words: &[&str]) {
    let names = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
    let git = Command::new("git").arg("-C").arg(repository).args(words).envs(names.map(|name| (name, "ann"))).output();
    let output = git.unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Returns every file below a folder whose text has a part.
pub fn files_with(folder: PathBuf, part: &str) -> usize {
    let (mut folders, mut found) = (vec![folder], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                found += usize::from(fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(part)));
            }
        }
    }
    found
}

impl World {
    /// Writes the repository and the members, and starts nothing.
    pub fn prepare(setup: Setup) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().to_owned();
        for name in ["fleet", "members/c1", "members/c2", "members/c3"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("token"), TOKEN).unwrap();
        fs::write(folder.join("password"), &setup.password).unwrap();
        git(&folder.join("fleet"), &["init", "-q", "-b", "main"]);
        let clusters: Vec<_> = (1..=3).map(|n| format!("---\napiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata: {{name: c{n}, labels: {{name: c{n}}}}}\n")).collect();
        fs::write(folder.join("fleet/clusters.yaml"), clusters.concat()).unwrap();
        let source = if setup.is_mirrored { remote::serve(&folder) + "/fleet/.git" } else { "fleet".to_owned() };
        let world = Self { folder, schema: server::schema(), source, setup, replicas: Vec::new(), _kept: kept };
        world.commit("blue");
        world
    }

    pub fn start_all(&mut self) {
        for name in ["a", "b", "c"] {
            let replica = self.run_at(name, free_port().unwrap());
            self.replicas.push(replica);
        }
    }

    fn start() -> Self {
        Self::start_on(Setup::default())
    }

    /// Starts three daemons, and waits until one leads and two follow it.
    pub fn start_on(setup: Setup) -> Self {
        let mut world = Self::prepare(setup);
        world.start_all();
        let leader = world.leader(0);
        world.applied("blue");
        let url = format!("follows http://127.0.0.1:{} (epoch 1)", world.replicas[leader].port);
        for (index, replica) in world.replicas.iter().enumerate().filter(|(index, _)| *index != leader) {
            wait(&format!("{index}: {url}"), || replica.says(&url).then_some(()));
            assert_eq!(replica.metric("gitfleet_leading").as_deref(), Some("0"));
            assert_eq!(replica.metric("gitfleet_leading_epoch").as_deref(), Some("1"));
        }
        assert_eq!(world.replicas[leader].metric("gitfleet_leading").as_deref(), Some("1"));
        world
    }

    /// Writes the configuration of a daemon, and returns its file.
    pub fn configure(&self, name: &str, port: u16) -> PathBuf {
        let (url, schema, source) = (&self.setup.url, &self.schema, &self.source);
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: \"{source}\", branch: main, pollInterval: 1s}}\n\
             members: [{{name: \"*\", directory: \"members/{{name}}\"}}]\n\
             store:\n  path: store-{name}\n  postgres: {{url: \"{url}\", passwordFile: password, sslMode: disable, schema: {schema}, lease: {LEASE}}}\n\
             http: {{listen: \"127.0.0.1:{port}\", tokens: [{{name: ann, tokenFile: token}}]}}\n"
        );
        let file = self.folder.join(format!("{name}.yaml"));
        fs::write(&file, text).unwrap();
        file
    }

    /// Starts a daemon.
    pub fn run_at(&self, name: &str, port: u16) -> Replica {
        let file = self.configure(name, port);
        let log = File::options().create(true).append(true).open(self.folder.join(format!("{name}.log"))).unwrap();
        let mut run = Command::new(program());
        let child = run.arg("run").arg("-c").arg(file).current_dir(&self.folder).stderr(log).spawn().unwrap();
        Replica { name: name.to_owned(), port, child }
    }

    /// Waits until one leads under an epoch above this one.
    pub fn leader(&self, above: u64) -> usize {
        wait("a leader", || {
            self.replicas.iter().position(|replica| {
                let epoch = replica.metric("gitfleet_leading_epoch").and_then(|text| text.parse::<u64>().ok());
                epoch.is_some_and(|epoch| epoch > above) && replica.says("leads")
            })
        })
    }

    pub fn commit(&self, color: &str) {
        fs::write(self.folder.join("fleet/all.yaml"), self.setup.fleet.replace("VALUE", color)).unwrap();
        git(&self.folder.join("fleet"), &["add", "-A"]);
        git(&self.folder.join("fleet"), &["commit", "-q", "-m", color]);
    }

    /// Waits until all members hold a color.
    pub fn applied(&self, color: &str) {
        let part = format!("color: {color}");
        let members = ["c1", "c2", "c3"].map(|name| self.folder.join("members").join(name));
        wait(color, || members.iter().all(|member| files_with(member.clone(), &part) > 0).then_some(()));
    }

    fn command(&self, replica: usize, verb: &str) -> (u16, String) {
        let body = format!("{{\"verb\": \"{verb}\", \"target\": \"web\"}}");
        let headers = [("authorization", &*format!("Bearer {TOKEN}")), ("content-type", "application/json")];
        http("POST", self.replicas[replica].port, "/api/v1/commands", &headers, &body).unwrap()
    }

    fn log(&self, replica: usize) -> String {
        fs::read_to_string(self.folder.join(format!("{}.log", self.replicas[replica].name))).unwrap()
    }
}

#[test]
fn a_follower_takes_over_from_a_leader_that_was_killed() {
    let mut world = World::start();
    let leader = world.leader(0);
    let follower = (leader + 1) % 3;
    let (status, text) = world.command(follower, "pause");
    assert!(status == 200 && text.contains("paused"), "a follower passes a command on: {status} {text}");
    assert_eq!(world.command(follower, "resume").0, 200);
    let killed = world.replicas.remove(leader);
    killed.signal("-KILL");
    let began = Instant::now();
    world.commit("green");
    world.applied("green");
    eprintln!("kill -9 of the leader to applied by another, lease {LEASE}: {:.2} s", began.elapsed().as_secs_f64());
    let next = world.leader(1);
    // An inventory is written after its objects.
    wait("each inventory names the epoch", || {
        let with =
            |quote: &str| files_with(world.folder.join("members"), &format!("gitfleet.io/epoch: {quote}2{quote}"));
        (with("'") + with("\"") == 3).then_some(())
    });
    drop(killed);
    let (status, text) = world.command(1 - next, "pause");
    assert!(status == 200, "{status} {text}");
}

#[test]
fn a_leader_that_was_stopped_follows_under_the_same_process_id_and_writes_nothing() {
    let mut world = World::start();
    let leader = world.leader(0);
    world.replicas[leader].signal("-STOP");
    let began = Instant::now();
    world.commit("green");
    world.applied("green");
    eprintln!("SIGSTOP of the leader to applied by another, lease {LEASE}: {:.2} s", began.elapsed().as_secs_f64());
    let stopped = world.replicas.remove(leader);
    let next = world.leader(1);
    let epoch = world.replicas[next].metric("gitfleet_leading_epoch").unwrap();
    stopped.signal("-CONT");
    let url = format!("follows http://127.0.0.1:{} (epoch {epoch})", world.replicas[next].port);
    wait(&url, || stopped.says(&url).then_some(()));
    world.replicas.insert(leader, stopped);
    assert!(world.replicas[leader].child.try_wait().unwrap().is_none(), "it is the same process");
    let log = world.log(leader);
    assert!(log.contains("beginning again as a follower"), "{log}");
    world.commit("red");
    world.applied("red");
}

#[test]
fn a_leader_that_is_asked_to_end_hands_over() {
    let mut world = World::start();
    let leader = world.leader(0);
    let began = Instant::now();
    world.replicas[leader].signal("-TERM");
    let mut ended = world.replicas.remove(leader);
    assert!(ended.child.wait().unwrap().success());
    eprintln!("SIGTERM to the end of the process: {:.2} s", began.elapsed().as_secs_f64());
    world.leader(1);
    eprintln!("SIGTERM to the next leader being ready, lease {LEASE}: {:.2} s", began.elapsed().as_secs_f64());
    world.commit("green");
    world.applied("green");
}

#[test]
fn a_take_over_on_a_machine_with_another_clock_keeps_waits() {
    let mut world = World::prepare(Setup::default());
    let first = world.run_at("a", free_port().unwrap());
    world.replicas.push(first);
    world.leader(0);
    world.applied("blue");
    drop(world.replicas.pop());
    // As if another machine had led, whose clock is half an hour behind: by the clocks alone half an hour has passed.
    let key = format!(
        "{}.record SET value = convert_to(jsonb_set(jsonb_set(seen, '{{boot}}', '\"other\"'), '{{at}}', behind)::text, 'UTF8')",
        world.schema
    );
    let read = format!(
        "SELECT key AS read_key, seen, to_jsonb(to_char((seen->>'at')::timestamptz AT TIME ZONE 'UTC' - interval '30 minutes', \
         'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')) AS behind \
         FROM (SELECT key, convert_from(value, 'UTF8')::jsonb AS seen FROM {}.record WHERE key = 'clock/seen') AS found",
        world.schema
    );
    server::sql(&format!("UPDATE {key} FROM ({read}) AS read WHERE key = read_key"));
    let second = world.run_at("b", free_port().unwrap());
    world.replicas.push(second);
    let corrected =
        format!("SELECT entry->'facts'->>'by' FROM {}.journal WHERE event = 'ClockCorrected'", world.schema);
    let by = wait("the clock to be corrected", || server::sql(&corrected));
    assert!(by == "30m ahead" || by.starts_with("29m 59s"), "{by}");
}
