//! What daemons on one database survive: the database goes away, leaders are killed in the middle of a staged rollout.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testservers::program;

use crate::postgres::fleet::{Postgres, ServerHome, http};
use crate::postgres::replicas::{FLEET, Setup, TOKEN, World, files_with, wait};
use crate::postgres::server;

/// The stages of a rollout: c1, then c2 and a gate, then c3.
const STAGES: &str = "\
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: steps}
spec:
  stages:
  - {name: first, labelSelector: {matchLabels: {name: c1}}}
  - {name: second, labelSelector: {matchLabels: {name: c2}}, afterStageTasks: [{type: Approval}]}
  - {name: third, labelSelector: {matchLabels: {name: c3}}}
";
/// Rollouts in which leaders are killed, each in two moments.
const ROLLOUTS: usize = 10;
/// The moments of one after the commit, and of the other after the approval was first sent, lie in so many milliseconds.
const MOMENTS: [u64; 2] = [600, 150];
/// The seed of the moments.
const SEED: u64 = 18;

/// Numbers of a seed, evenly spread.
struct Seeded(u64);

impl Seeded {
    /// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014: `SplitMix64`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Reads what has arrived; tells whether the connection still stands.
fn stands(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 1 << 12];
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn a_leader_whose_database_stops_answers_and_writes_nothing_until_it_is_back() {
    let home = ServerHome::temporary().unwrap();
    let postgres = Postgres::start(home.folder()).unwrap();
    let setup = Setup { url: postgres.url.clone(), password: postgres.password.clone(), ..Setup::default() };
    let world = World::start_on(setup);
    let leader = world.leader(0);
    let port = world.replicas[leader].port;
    let ask = |path: &str| http("GET", port, path, &[("authorization", &format!("Bearer {TOKEN}"))], "");
    let mut watch = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(watch, "GET /api/v1/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n").unwrap();

    // An immediate shutdown: the next start recovers from the log.
    postgres.server.signal("QUIT").unwrap();
    wait("the database to end", || postgres.server.check().is_err().then_some(()));
    let silent = "leads (epoch 1); the database does not answer, and nothing is written until it does";
    // It says 503 as soon as something was to be stored.
    let is_silent = || world.replicas[leader].ready().is_some_and(|(_, text)| text.starts_with(silent));
    wait(silent, || is_silent().then_some(()));
    world.commit("green");
    let member = world.folder.join("members/c1");
    for path in ["/", "/api/v1/summary", "/api/v1/placements", "/api/v1/clusters", "/metrics"] {
        let (status, text) = ask(path).unwrap();
        assert_eq!(status, 200, "{path}: {text}");
    }
    // Records and journal alone are read from the database.
    let away = "the database does not answer; ask again when it does";
    for path in ["/api/v1/records", "/api/v1/journal", "/api/v1/events", "/api/v1/backup", "/events"] {
        let (status, text) = ask(path).unwrap();
        assert!(status == 503 && text.contains(away), "{path}: {status} {text}");
    }
    for command in [&["events"][..], &["store", "backup", "saved"]] {
        let mut asked = Command::new(program());
        asked.args(command).args(["--server", &format!("127.0.0.1:{port}"), "--token-file", "token"]);
        let said = asked.current_dir(&world.folder).output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && text.contains(away), "{command:?}: {text}");
    }
    assert!(stands(&mut watch), "whoever watches continues");
    assert!(is_silent(), "{:?}", world.replicas[leader].ready());
    assert_eq!(files_with(member, "color: green"), 0, "nothing was written while nobody could lead");

    postgres.server.stop();
    postgres.server.start().unwrap();
    world.applied("green");
    let leads = || {
        let standing: Vec<String> = world.replicas.iter().filter_map(|replica| Some(replica.ready()?.1)).collect();
        let count = |begin: &str| standing.iter().filter(|text| text.starts_with(begin)).count();
        let is_well = standing.iter().all(|text| !text.contains("does not answer"));
        (is_well && (count("leads "), count("follows ")) == (1, 2)).then_some(standing)
    };
    eprintln!("after the database was back: {}", wait("one leader and two followers", leads).join("; "));
}

/// The fleet with a rollout in stages.
pub fn staged_fleet() -> String {
    let placement = "spec:\n  strategy: {type: External}\n";
    let fleet = FLEET.replace(
        "metadata: {name: web}\nspec:\n  resource",
        "metadata: {name: web, annotations: {gitfleet.io/staged-update-strategy: steps}}\nspec:\n  resource",
    );
    fleet.replace("spec:\n", placement) + STAGES
}

/// What the journal says of runs, one line each, oldest first.
pub fn lines(schema: &str, what: &str) -> Vec<String> {
    let text =
        server::sql(&format!("SELECT coalesce(string_agg({what}, E'\\n' ORDER BY number), '') FROM {schema}.journal"));
    text.unwrap().lines().map(str::to_owned).collect()
}

/// Sends an approval to one daemon after the other until the whole fleet has a color; returns how many were answered with success.
pub fn approve_until_applied(world_folder: &std::path::Path, ports: &[u16], run: usize, color: &str) -> usize {
    let body = format!("{{\"verb\": \"approve\", \"target\": \"web-{run}\", \"stage\": \"second\"}}");
    let headers = [("authorization", &*format!("Bearer {TOKEN}")), ("content-type", "application/json")];
    let (mut turn, mut approved) = (0, 0);
    wait(&format!("{color} to be approved and applied"), || {
        if approved == 0 {
            turn += 1;
            let answer = http("POST", ports[turn % ports.len()], "/api/v1/commands", &headers, &body);
            approved += usize::from(answer.is_ok_and(|(status, _)| status == 200));
        }
        (files_with(world_folder.join("members/c3"), &format!("color: {color}")) > 0).then_some(approved)
    })
}

#[test]
fn leaders_that_are_killed_in_the_middle_of_a_staged_rollout_lose_nothing_and_skip_no_gate() {
    let began = std::time::Instant::now();
    let mut world = World::prepare(Setup { fleet: staged_fleet(), ..Setup::default() });
    world.start_all();
    world.leader(0);
    let (mut seeded, mut epoch, mut approved) = (Seeded(SEED), 0, 0);
    for round in 0..=ROLLOUTS {
        let color = if round == 0 { "blue".to_owned() } else { format!("shade-{round}-") };
        let moments = MOMENTS.map(|span| Duration::from_millis(seeded.below(span)));
        if round > 0 {
            world.commit(&color);
            epoch = kill_leader(&mut world, epoch, moments[0]);
        }
        let asked = format!("web-{round} second");
        let gates = "entry->'facts'->>'run' || ' ' || (entry->'facts'->>'stage')";
        let requests = format!("CASE event WHEN 'ApprovalRequested' THEN {gates} END");
        wait(&asked, || lines(&world.schema, &requests).contains(&asked).then_some(()));
        assert_eq!(files_with(world.folder.join("members/c3"), &color), 0, "the gate of {asked} is closed");
        let (folder, ports) =
            (world.folder.clone(), world.replicas.iter().map(|replica| replica.port).collect::<Vec<_>>());
        let approving = thread::spawn({
            let color = color.clone();
            move || approve_until_applied(&folder, &ports, round, &color)
        });
        if round > 0 {
            epoch = kill_leader(&mut world, epoch, moments[1]);
        }
        approved += approving.join().unwrap();
        world.applied(&color);
    }
    eprintln!("{} leaders killed within {:.1} s, lease 2 s", 2 * ROLLOUTS, began.elapsed().as_secs_f64());
    check_journal(&world, approved);
}

/// Kills who leads under an epoch above this one, in this moment; starts the daemon again, and returns the epoch.
fn kill_leader(world: &mut World, above: u64, moment: Duration) -> u64 {
    let leader = world.leader(above);
    let epoch = world.replicas[leader].metric("gitfleet_leading_epoch").unwrap().parse().unwrap();
    // Not for anything to happen: the moment is one of many.
    thread::sleep(moment);
    let killed = &mut world.replicas[leader];
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let (name, port) = (killed.name.clone(), killed.port);
    world.replicas[leader] = world.run_at(&name, port);
    epoch
}

/// Each run was created once, and its third stage began after an approval that sufficed; each approval that was answered is there.
fn check_journal(world: &World, answered: usize) {
    let schema = &world.schema;
    let gaps = server::sql(&format!("SELECT max(number) - count(*) FROM {schema}.journal"));
    assert_eq!(gaps.as_deref(), Some("0"), "each entry is there once");
    let ended = server::sql(&format!(
        "SELECT last - (SELECT max(number) FROM {schema}.journal) FROM (SELECT journal_last AS last FROM {schema}.store) AS kept"
    ));
    assert_eq!(ended.as_deref(), Some("0"));
    let facts = "concat_ws(' ', event, entry->'facts'->>'run', entry->'facts'->>'stage', entry->'facts'->>'opened')";
    let entries = lines(schema, facts);
    let places = |wanted: &str| -> Vec<usize> {
        entries.iter().enumerate().filter(|(_, entry)| entry.starts_with(wanted)).map(|(place, _)| place).collect()
    };
    for run in 0..=ROLLOUTS {
        assert_eq!(
            places(&format!("RunCreated web-{run}")).len(),
            1 + usize::from(run == 1) * places("RunCreated web-10").len(),
            "web-{run}"
        );
        let (gate, began) =
            (places(&format!("Approved web-{run} second true")), places(&format!("StageStarted web-{run} third")));
        assert_eq!((gate.len(), began.len()), (1, 1), "web-{run} is approved once and continues once: {entries:#?}");
        assert!(gate[0] < began[0], "web-{run}: {entries:#?}");
    }
    assert!(places("Approved ").len() >= answered, "no approval that was answered is lost");
}

#[test]
fn a_pass_leads_while_it_lasts() {
    let world = World::prepare(Setup::default());
    let file = world.configure("a", crate::postgres::fleet::free_port().unwrap());
    let mut once = Command::new(program());
    let output = once.args(["run", "--once", "-c"]).arg(file).current_dir(&world.folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    world.applied("blue");
    let lease =
        server::sql(&format!("SELECT epoch || ' ' || (expires <= clock_timestamp()) FROM {}.lease", world.schema));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lease.as_deref(), Some("1 true"), "it gave the lease back: {said}");
    assert!(said.contains("the lease is given back"), "it did not just end: {said}");
}
