//! A follower that takes over from a leader that is killed, beside the floor of the same run: the lease, and a bare client that reads the
//! same records.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::double::{Double, Manner, writes};
use super::figures::figures;
use super::{FleetSize, app, settle, tail, write_fleet};
use crate::daemon::{Daemon, World};
use crate::database::Database;
use crate::fleet::{Postgres, ServerHome, http, until};
use crate::machine::{load, profile};

/// The lease of the leader, in seconds.
const LEASE_SECONDS: u64 = 5;
/// The schema of the records.
const SCHEMA: &str = "takeover";
/// Pause between two looks at the follower.
const LOOK: Duration = Duration::from_millis(20);
/// How long each step of the take-over may take.
const LIMIT: Duration = Duration::from_mins(10);

/// Delivers a fleet, kills the leader, commits a change, and measures what the follower does.
pub async fn takeover(size: FleetSize, manner: &Manner) -> Result<Value> {
    let home = ServerHome::temporary()?;
    let postgres = Postgres::start_durable(home.folder())?;
    let kubeconfigs = tempfile::TempDir::new()?;
    let double = Double::start(size.members, manner, kubeconfigs.path())?;
    let access =
        format!("  - {{name: '*', kubeconfig: {{path: '{}/{{name}}.kubeconfig'}}}}\n", kubeconfigs.path().display());
    let world = World::configured("{url: ./repo, branch: main}", &access, "")?;
    world.share_store(&postgres, SCHEMA, &format!("{LEASE_SECONDS}s"))?;
    write_fleet(&world, size)?;
    let leader = world.start()?;
    let cold = settle(&[&leader], size, 0).with_context(|| tail(&world))?;
    eprintln!("delivered: {cold}");
    let follower = world.start_another()?;
    until("the second daemon to follow", LIMIT, || {
        let (_, standing) = http("GET", follower.port, "/readyz", &[], "")?;
        Ok(standing.starts_with("follows").then_some(()))
    })?;
    let database = Database::connect(&postgres).await?;
    let (records, bytes, read) = database.read_records(SCHEMA).await?;
    let following = figures(&follower)?;
    eprintln!("followed: {following}, {records} records of {bytes} bytes were read in {} s", read.as_secs_f64());

    double.reset()?;
    // Dropping it kills it, without a word before.
    drop(leader);
    let killed = Instant::now();
    world.write_config_maps(&app(0), &["c-0000".to_owned()], "changed")?;
    world.commit("Change")?;
    let leads = reached(killed, "the follower to lead", || {
        Ok(http("GET", follower.port, "/readyz", &[], "")?.1.starts_with("leads"))
    });
    let leads = leads.with_context(|| tail(&world))?;
    let decided = reached(killed, "its first decision", || Ok(decisions(&follower)? > 0))?;
    let wrote = reached(killed, "its first write", || Ok(writes(&double.counters()?) > 0))?;
    let leading = figures(&follower)?;
    let settled = settle(&[&follower], size, 1).with_context(|| tail(&world))?;
    let quiet = killed.elapsed().as_secs_f64();
    let counters = double.counters()?;
    // Each changed object, and its pair's inventory after it.
    let (written, needed) = (writes(&counters), 2 * size.members as u64);
    ensure!(written <= 2 * needed, "{written} writes where {needed} are needed: the next leader repeats what was done");
    Ok(json!({
        "members": size.members, "placements": size.placements, "objectsOfPlacement": size.objects,
        "latency": manner.latency, "faults": manner.faults, "pairs": size.pairs(), "objects": size.total(),
        "cold": cold, "following": following, "leaseSeconds": LEASE_SECONDS,
        "leadsSeconds": leads, "decidedSeconds": decided, "wroteSeconds": wrote, "quietSeconds": quiet,
        "atFirstWrite": leading, "settled": settled, "writes": written, "needed": needed,
        "floor": {"records": records, "bytes": bytes, "readSeconds": read.as_secs_f64()},
        "profile": profile(), "load": load(),
    }))
}

/// Waits for something, and returns how many seconds after the kill it came about.
fn reached(killed: Instant, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<f64> {
    while !is_so().unwrap_or(false) {
        ensure!(killed.elapsed() < LIMIT, "waited {} s in vain for {what}", LIMIT.as_secs());
        thread::sleep(LOOK);
    }
    Ok(killed.elapsed().as_secs_f64())
}

/// Returns how many decisions a daemon has made.
fn decisions(daemon: &Daemon) -> Result<u64> {
    let (_, metrics) = http("GET", daemon.port, "/metrics", &[], "")?;
    let lines = metrics.lines().filter(|line| line.starts_with("gitfleet_engine_decisions_total"));
    Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
}
