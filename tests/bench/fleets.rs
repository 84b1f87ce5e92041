//! What needs real API servers: B1, B2, B3 and the daemon's memory.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use serde_json::{Value, json};

use crate::client::{Eyes, apply_everywhere, config_maps, connect, create_namespace, names};
use crate::daemon::World;
use crate::fleet::{Fleet, Member, Options};
use crate::generate;
use crate::machine::{load, ratio, summary};

/// Commits that are measured in B1, for each number of clusters.
pub const COMMITS: usize = 25;
/// Commits before them that are not: connections, caches and the servers' own start-up play no part.
pub const WARM_UP: usize = 3;
/// Objects that each of those commits changes.
pub const CHANGED: usize = 10;
/// Objects of B2, on each of four clusters.
const BULK: usize = 2000;
/// How often B2 is repeated, each time in a new namespace.
const BULK_ROUNDS: usize = 3;
/// Requests in flight on a connection of the floor of B2; gitfleet's own limit.
const BULK_IN_FLIGHT: usize = 64;
/// Objects of B3, on each of four clusters.
const SILENT: usize = 1000;
/// Objects whose memory is measured, on each of four clusters.
const SETTLED: usize = 500;
/// Clusters of B2, B3 and the memory.
const CLUSTERS: usize = 4;
/// How long a daemon may take to forget what it needed only for a rollout.
const CALM: Duration = Duration::from_secs(10);

/// Connects to all clusters.
pub async fn clients(members: &[Member]) -> Result<Vec<Client>> {
    futures::future::try_join_all(members.iter().map(|member| connect(&member.kubeconfig))).await
}

/// Writes a namespace and its placement on every cluster.
pub fn place(world: &World, app: &str) -> Result<()> {
    let documents = [generate::namespace(app), generate::placement(app, "{placementType: PickAll}")];
    world.write(&format!("{app}.yaml"), &documents.concat())
}

/// Waits until a snapshot is recorded as held on every cluster: the placement has come to rest there.
pub async fn await_held(eyes: &mut Eyes, app: &str, index: usize) -> Result<Instant> {
    // The name of a placement's inventory.
    eyes.await_value("gitfleet-system", &[format!("crp.{app}")], &index.to_string()).await
}

/// B1: from a commit of ten changed objects to the API servers of all clusters holding them.
pub async fn commit_to_applied() -> Result<Value> {
    let mut results = BTreeMap::new();
    let fleet = Fleet::start(Options::members(8))?;
    for count in [1, 4, 8] {
        let found = commits(&fleet.members[..count], &format!("app-{count}"), &format!("floor-{count}")).await;
        let (ours, floor) = found.with_context(|| format!("B1 on {count} clusters"))?;
        let (ours, floor) = (summary(&ours), summary(&floor));
        let of = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
        let result = json!({
            "ratioP50": ratio(of(&ours, "p50Ms"), of(&floor, "p50Ms")),
            "overheadP50Ms": (of(&ours, "p50Ms") - of(&floor, "p50Ms")).round(),
            "gitfleet": ours, "floor": floor, "load": load(),
        });
        eprintln!("B1, {count} clusters: {result}");
        results.insert(count.to_string(), result);
    }
    Ok(json!({"changedObjects": CHANGED, "clusters": results}))
}

/// Measures commits and, after each, the floor on the same clusters.
async fn commits(members: &[Member], app: &str, floor: &str) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let world = World::new(members)?;
    let clients = clients(members).await?;
    let mut eyes = Eyes::open(members).await?;
    create_namespace(&clients, floor).await?;
    let names = names(CHANGED);
    place(&world, app)?;
    let daemon = world.start()?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + COMMITS {
        let value = format!("round-{round}");
        world.write_config_maps(app, &names, &value)?;
        let committed = world.commit(&value)?;
        let applied = eyes.await_value(app, &names, &value).await.with_context(|| world.log())?;
        await_held(&mut eyes, app, round).await.with_context(|| world.log())?;

        let floor_maps = config_maps(floor, CHANGED, &value);
        let started = Instant::now();
        apply_everywhere(&clients, &floor_maps, CHANGED).await?;
        let reached = eyes.await_value(floor, &names, &value).await?;
        if round >= WARM_UP {
            ours.push(applied - committed);
            bare.push(reached - started);
        }
    }
    drop(daemon);
    Ok((ours, bare))
}

/// B2: two thousand objects on four clusters, placed for the first time.
pub async fn bulk() -> Result<Value> {
    let fleet = Fleet::start(Options::members(CLUSTERS))?;
    let clients = clients(&fleet.members).await?;
    let mut eyes = Eyes::open(&fleet.members).await?;
    let world = World::new(&fleet.members)?;
    let daemon = world.start()?;
    let names = names(BULK);
    let (mut ours, mut bare, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..BULK_ROUNDS {
        // A floor before and one after: what the machine does meanwhile concerns both.
        bare.push(bulk_floor(&clients, &mut eyes, &format!("floor-{round}")).await?);
        let app = format!("app-{round}");
        place(&world, &app)?;
        world.write_config_maps(&app, &names, "cold")?;
        let before = daemon.cpu_seconds()?;
        let committed = world.commit(&app)?;
        let applied = eyes.await_value(&app, &names, "cold").await.with_context(|| world.log())?;
        ours.push(applied - committed);
        let settled = await_held(&mut eyes, &app, 0).await.with_context(|| world.log())?;
        cpu.push(daemon.cpu_seconds()? - before);
        eprintln!(
            "B2, round {round}: applied after {:.2} s, settled after {:.2} s, floor {:.2} s",
            (applied - committed).as_secs_f64(),
            (settled - committed).as_secs_f64(),
            bare[round].as_secs_f64()
        );
    }
    bare.push(bulk_floor(&clients, &mut eyes, "floor-last").await?);
    let rate = |times: &[Duration]| {
        let seconds: f64 = times.iter().map(Duration::as_secs_f64).sum();
        ((BULK * CLUSTERS * times.len()) as f64 / seconds).round()
    };
    Ok(json!({
        "objects": BULK, "clusters": CLUSTERS,
        "gitfleet": summary(&ours), "floor": summary(&bare),
        "objectsPerSecond": rate(&ours), "floorObjectsPerSecond": rate(&bare),
        "ratio": ratio(rate(&ours), rate(&bare)),
        "daemonCpuSeconds": cpu, "load": load(),
    }))
}

async fn bulk_floor(clients: &[Client], eyes: &mut Eyes, namespace: &str) -> Result<Duration> {
    create_namespace(clients, namespace).await?;
    let floor_maps = config_maps(namespace, BULK, "cold");
    let started = Instant::now();
    apply_everywhere(clients, &floor_maps, BULK_IN_FLIGHT).await?;
    Ok(eyes.await_value(namespace, &names(BULK), "cold").await? - started)
}

/// Places that many ConfigMaps on all members and returns the daemon once it has come to rest.
async fn settled(world: &World, members: &[Member], objects: usize) -> Result<crate::daemon::Daemon> {
    let mut eyes = Eyes::open(members).await?;
    place(world, "app")?;
    world.write_config_maps("app", &names(objects), "settled")?;
    world.commit("App")?;
    let daemon = world.start()?;
    await_held(&mut eyes, "app", 0).await.with_context(|| world.log())?;
    thread::sleep(CALM);
    Ok(daemon)
}

/// B3: requests while nothing changes, beside a window of the same length without gitfleet.
pub async fn silence(window: Duration) -> Result<Value> {
    let fleet = Fleet::start(Options::members(CLUSTERS))?;
    let world = World::new(&fleet.members)?;
    let daemon = settled(&world, &fleet.members, SILENT).await?;
    let with = requests_during(&fleet.members, window)?;
    drop(daemon);
    thread::sleep(CALM);
    let without = requests_during(&fleet.members, window)?;
    let sum = |of: &BTreeMap<String, i64>, watches: bool| -> i64 {
        of.iter().filter(|(name, _)| name.starts_with("WATCH ") == watches).map(|(_, count)| count).sum()
    };
    let mut extra: BTreeMap<String, i64> = with.clone();
    for (name, count) in &without {
        *extra.entry(name.clone()).or_default() -= count;
    }
    extra.retain(|_, count| *count != 0);
    let result = json!({
        "objects": SILENT, "clusters": CLUSTERS, "windowSeconds": window.as_secs(),
        "requests": sum(&with, false), "requestsWithout": sum(&without, false),
        "watches": sum(&with, true), "watchesWithout": sum(&without, true),
        "configMapRequests": with.iter().filter(|(n, _)| n.ends_with(" configmaps") && !n.starts_with("WATCH ")).map(|(_, c)| c).sum::<i64>(),
        "differences": extra, "withGitfleet": with, "withoutGitfleet": without, "load": load(),
    });
    Ok(result)
}

/// Returns how many requests the members' API servers counted within a window, by verb and resource.
fn requests_during(members: &[Member], window: Duration) -> Result<BTreeMap<String, i64>> {
    let count = || -> Result<BTreeMap<String, i64>> {
        let mut all = BTreeMap::new();
        for member in members {
            let metrics = member.metrics()?;
            for (name, value) in requests(&metrics) {
                *all.entry(name).or_default() += value;
            }
        }
        Ok(all)
    };
    let before = count()?;
    thread::sleep(window);
    let mut during = count()?;
    for (name, value) in before {
        *during.entry(name).or_default() -= value;
    }
    // Our own look at the counters.
    during.retain(|name, count| *count != 0 && name != "GET ");
    Ok(during)
}

/// Returns the counters of all requests of an API server, as `VERB resource`.
fn requests(metrics: &str) -> Vec<(String, i64)> {
    let series = metrics.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")?.rsplit_once("} "));
    let label = |labels: &str, name: &str| {
        let found = labels.split(',').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name));
        found.map(|(_, value)| value.trim_matches('"').to_owned()).unwrap_or_default()
    };
    series
        .filter_map(|(labels, value)| {
            let value = value.trim().parse::<f64>().ok()?;
            Some((format!("{} {}", label(labels, "verb"), label(labels, "resource")), value as i64))
        })
        .collect()
}

/// The daemon's resident memory once all is rolled out.
pub async fn memory() -> Result<Value> {
    let fleet = Fleet::start(Options::members(CLUSTERS))?;
    let world = World::new(&fleet.members)?;
    let idle = {
        let daemon = world.start()?;
        thread::sleep(CALM);
        daemon.memory_kb("VmRSS")?
    };
    let daemon = settled(&world, &fleet.members, SETTLED).await?;
    let (resident, peak) = (daemon.memory_kb("VmRSS")?, daemon.memory_kb("VmHWM")?);
    ensure!(resident > 0, "the daemon is gone");
    Ok(json!({
        "objects": SETTLED, "clusters": CLUSTERS,
        "residentKb": resident, "peakKb": peak, "idleKb": idle,
        "bytesPerObject": (resident.saturating_sub(idle)) * 1024 / (SETTLED * CLUSTERS) as u64,
        "load": load(),
    }))
}
