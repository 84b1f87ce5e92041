//! A fleet of a hundred live members, behind the double of API servers: counts and bytes, never times.
//!
//! `tests/bench.sh fleet` measures larger ones.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::e2e::apiserver::{self, Server};
use crate::e2e::daemon::{Daemon, World, config_map, member_clusters, namespace, placement};

const MEMBERS: u64 = 100;
const PLACEMENTS: u64 = 10;
/// ConfigMaps of a placement.
const MAPS: u64 = 10;
const PAIRS: u64 = MEMBERS * PLACEMENTS;

/// Threads of the daemon: those of its runtime, and some that do not grow with the fleet.
const THREADS_MAX: u64 = 64;
/// What the store holds for a pair, in bytes (8.0 KB seen).
const STORED_BYTES_PER_PAIR_MAX: u64 = 12 << 10;
/// Bytes of its file for a pair (37 to 77 KB seen): it grows with what is written at one time, and keeps free pages.
const STORE_BYTES_PER_PAIR_MAX: u64 = 256 << 10;
/// Resident memory, of a build without optimisation (187 MB seen): generous.
const RESIDENT_KB_MAX: u64 = 400 << 10;
/// Bytes on the wire for one delivered object, both ways (0.8 and 2.3 KB seen), TLS and lists included.
const BYTES_IN_PER_OBJECT_MAX: u64 = 2 << 10;
const BYTES_OUT_PER_OBJECT_MAX: u64 = 6 << 10;

/// How long a watch lives here: a watch that begins again shows that time has passed.
const WATCH: Duration = Duration::from_secs(2);
/// Watches of a member: ConfigMaps and namespaces that carry our label, inventories, namespaces for their names, nodes, pods.
const WATCHES: u64 = 6;

/// Counts by verb and resource.
type Counts = BTreeMap<String, u64>;

/// Returns all requests but watches.
fn requests(server: &Server) -> Counts {
    let counters = server.counters();
    let verbs = counters["requests"].as_object().expect("requests").iter();
    let all = verbs.flat_map(|(verb, kinds)| kinds.as_object().into_iter().flatten().map(move |kind| (verb, kind)));
    all.map(|(verb, (kind, count))| (format!("{verb} {kind}"), count.as_u64().expect("a count"))).collect()
}

fn since(before: &Counts, now: &Counts) -> Counts {
    let more = |name: &String, count: &u64| count - before.get(name).copied().unwrap_or_default();
    let all = now.iter().map(|(name, count)| (name.clone(), more(name, count)));
    all.filter(|(_, count)| *count > 0).collect()
}

fn watches(server: &Server) -> u64 {
    let counters = server.counters();
    counters["watches"].as_object().expect("watches").values().filter_map(Value::as_u64).sum()
}

fn number(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counters}"))
}

/// Waits until every placement is where it shall be, and every watch has begun twice since with no other request in between.
fn settle(daemon: &Daemon<'_>, server: &Server) {
    daemon.until("every placement is delivered", || {
        let placements = daemon.get("placements");
        let is_done = |placement: &Value| {
            let conditions = placement["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "ClusterResourcePlacementAvailable" && c["status"] == "True")
        };
        placements.len() as u64 == PLACEMENTS && placements.iter().all(is_done)
    });
    let mut last = (Counts::new(), 0);
    daemon.until("nothing but watches is asked for any more", || {
        let now = requests(server);
        if now != last.0 {
            last = (now, watches(server));
        }
        watches(server) >= last.1 + 2 * WATCHES * MEMBERS
    });
}

fn process_value(daemon: &Daemon<'_>, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("a number")
}

fn commit_fleet(world: &World, server: &Server) {
    let kubeconfigs = server.folder().join("{name}.kubeconfig");
    let members = format!("members:\n  - {{name: '*', kubeconfig: {{path: '{}'}}}}\n", kubeconfigs.display());
    let config = fs::read_to_string(world.config()).expect("the configuration");
    fs::write(world.config(), config.replace("members:\n", &members)).expect("the configuration is written");
    let names: Vec<String> = (0..MEMBERS).map(apiserver::name).collect();
    world.write("fleet.yaml", &member_clusters(names.iter().map(String::as_str)));
    for app in (0..PLACEMENTS).map(|number| format!("app-{number}")) {
        let maps: String = (0..MAPS).map(|map| config_map(&app, &format!("c-{map}"), "settled")).collect();
        let placement = placement(&app, "").replace("rollingUpdate: {", "rollingUpdate: {maxUnavailable: 100%, ");
        world.write(&format!("{app}.yaml"), &[placement, namespace(&app), maps].concat());
    }
    world.commit("Fleet");
}

/// Checks what the first delivery took.
fn check_delivery(counters: &Value, counts: &Counts) {
    let count = |name: &str| counts.get(name).copied().unwrap_or_default();
    // An inventory is written before its objects, and again with what the member then holds.
    let (maps, inventories) = (PAIRS * MAPS, 2 * PAIRS);
    // The first inventories of a member find no namespace to be in: each makes it and is written again.
    let repeated = count("apply configmaps") - maps - inventories;
    assert_eq!(count("apply namespaces"), PAIRS + repeated, "{counts:?}");
    assert!((MEMBERS..=PAIRS).contains(&repeated), "{repeated} of {PAIRS}");
    let created = maps + PAIRS + PAIRS + MEMBERS;
    assert_eq!(counters["answers"]["201"], created, "maps, namespaces, inventories and their namespaces: {counters}");
    // The second inventories change the first. A namespace that is applied twice with no field changes once: its label gets an owner.
    let versions = number(counters, "versions") - created - PAIRS;
    assert!(versions <= MEMBERS, "{versions} changes that nobody asked for");
    // Every object is looked for before it is applied: ConfigMaps together, unless the machine is so slow that the answer is too old.
    assert_eq!((count("list configmaps"), count("get namespaces")), (2 * MEMBERS + PAIRS, PAIRS));
    assert!(count("get configmaps") <= maps / 10, "{counts:?}");
    let objects = maps + PAIRS;
    for (name, most) in [("bytesIn", BYTES_IN_PER_OBJECT_MAX), ("bytesOut", BYTES_OUT_PER_OBJECT_MAX)] {
        let each = number(counters, name) / objects;
        assert!(each <= most, "{name}: {each} for an object");
    }
    assert_eq!((number(counters, "connections"), number(counters, "expiredWatches")), (MEMBERS, 0));
}

/// Checks the store's file and, by a backup, what it holds.
fn check_store(world: &World) {
    let backup = world.path().join("backup");
    let made = world.gitfleet(&["store", "backup", &backup.display().to_string(), "-c", "gitfleet.yaml"]);
    assert!(made.status.success(), "{made:?}");
    for (file, most) in
        [(backup, STORED_BYTES_PER_PAIR_MAX), (world.path().join("state/records.redb"), STORE_BYTES_PER_PAIR_MAX)]
    {
        let each = fs::metadata(&file).expect("a file").len() / PAIRS;
        assert!(each <= most, "{}: {each} bytes for a pair", file.display());
    }
}

#[test]
fn a_hundred_members_are_delivered_to_with_no_request_too_many() {
    let mut options = apiserver::Options::clusters(MEMBERS);
    options.faults.watch = Some(WATCH);
    let server = Server::start(&options).expect("the double starts");
    let world = World::new(None, &[]);
    commit_fleet(&world, &server);

    let daemon = world.start();
    settle(&daemon, &server);
    let cold = requests(&server);
    check_delivery(&server.counters(), &cold);
    for (what, most) in [("Threads", THREADS_MAX), ("VmRSS", RESIDENT_KB_MAX)] {
        let seen = process_value(&daemon, what);
        assert!(seen <= most, "{what}: {seen}");
    }
    daemon.kill();

    // A new life looks at everything once, and writes nothing.
    let daemon = world.start();
    settle(&daemon, &server);
    let asked = since(&cold, &requests(&server));
    let each = |(name, count): (&str, u64)| (name.to_owned(), count * MEMBERS);
    let wanted = Counts::from_iter(
        [
            ("get /version", 1),
            // Whether the member has claims.
            ("get /apis", 1),
            ("get /apis/cluster.open-cluster-management.io/v1alpha1", 1),
            ("get /readyz", 1),
            // The inventories and what is labelled; the names, what is labelled, and the one that tells servers apart.
            ("list configmaps", 2),
            ("list namespaces", 3),
            ("list nodes", 1),
            ("list pods", 1),
        ]
        .map(each),
    );
    assert_eq!(asked, wanted);
    check_store(&world);
}
