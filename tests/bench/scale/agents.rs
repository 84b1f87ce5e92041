//! A fleet of live members that agents of one pool deliver to, beside the floor of the same run: what daemon and agents take, and what
//! passes between them.

use std::thread;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::apiservers::{SILENCE, bare_lists, connected, counted, floor};
use super::double::{Double, Manner};
use super::figures::{end, figures, seconds};
use super::{FleetSize, app, settle, tail, write_fleet};
use crate::daemon::{Daemon, World};
use crate::fleet::http;
use crate::machine::{load, profile, ratio};
use crate::pool::{self, Pool};

/// What runs, and what is counted of it.
struct Running {
    double: Double,
    world: World,
    pool: Pool,
    daemon: Daemon,
    agents: Vec<Daemon>,
}

impl Running {
    fn all(&self) -> Vec<&Daemon> {
        std::iter::once(&self.daemon).chain(&self.agents).collect()
    }

    /// Waits until all is delivered and quiet; returns what that took of the daemon, each agent, the lines and the members.
    fn settled(&self, size: FleetSize, changed: usize) -> Result<Value> {
        let mut found = settle(&self.all(), size, changed).with_context(|| tail(&self.world))?;
        self.counted(&mut found)?;
        Ok(found)
    }

    /// Adds what was counted since this was asked last.
    fn counted(&self, to: &mut Value) -> Result<()> {
        to["agents"] = self.agents.iter().map(figures).collect::<Result<Vec<Value>>>()?.into();
        to["lines"] = self.pool.take_bytes().into();
        to["bodies"] = bodies(&self.daemon)?;
        to["server"] = counted(&self.double)?;
        self.double.reset()
    }

    fn cpu_seconds(&self) -> Result<Vec<f64>> {
        self.all().into_iter().map(Daemon::cpu_seconds).collect()
    }

    /// Leaves all alone for a while.
    fn silence(&self) -> Result<Value> {
        let before = self.cpu_seconds()?;
        thread::sleep(SILENCE);
        let used: Vec<f64> = self.cpu_seconds()?.iter().zip(before).map(|(now, before)| now - before).collect();
        let mut found = json!({"seconds": SILENCE.as_secs(), "cpuSeconds": used});
        self.counted(&mut found)?;
        Ok(found)
    }

    /// Changes all objects of one placement.
    fn roll_out(&self, size: FleetSize) -> Result<Value> {
        let names: Vec<String> = (0..size.objects).map(|number| format!("c-{number:04}")).collect();
        self.world.write_config_maps(&app(0), &names, "changed")?;
        self.world.commit("Change")?;
        self.settled(size, 1)
    }
}

/// Returns the bytes of bodies that the daemon has exchanged with agents since it began.
fn bodies(daemon: &Daemon) -> Result<Value> {
    let (_, metrics) = http("GET", daemon.port, "/metrics", &[], "")?;
    let of = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Ok(
        json!({"toDaemon": of("gitfleet_agent_received_bytes_total"), "toAgents": of("gitfleet_agent_sent_bytes_total")}),
    )
}

/// Runs one daemon with so many agents over a fleet of live members.
pub async fn agents(size: FleetSize, manner: &Manner, count: usize) -> Result<Value> {
    let kubeconfigs = tempfile::TempDir::new()?;
    let floor = floor(size, manner, kubeconfigs.path()).await?;
    eprintln!("floor: {floor}");
    let double = Double::start(size.members, manner, kubeconfigs.path())?;
    let world = World::configured("{url: ./repo, branch: main}", &pool::access("*"), "")?;
    write_fleet(&world, size)?;
    let pool = Pool::prepare(&world, count)?;
    let daemon = world.start()?;
    let agents = pool.start(&world, &daemon, kubeconfigs.path())?;
    let running = Running { double, world, pool, daemon, agents };
    let cold = running.settled(size, 0)?;
    eprintln!("delivered: {cold}");
    let silence = running.silence()?;
    eprintln!("silence: {silence}");
    let rollout = running.roll_out(size)?;
    eprintln!("rolled out: {rollout}");

    // The daemon alone, while the agents wait for it; then all of them.
    let Running { double, world, pool, daemon, agents } = running;
    end(daemon)?;
    let running = Running { daemon: world.start()?, double, world, pool, agents };
    let daemon_restart = running.settled(size, 1)?;
    eprintln!("daemon restarted: {daemon_restart}");
    let Running { double, world, pool, daemon, agents } = running;
    agents.into_iter().try_for_each(|agent| end(agent).map(drop))?;
    end(daemon)?;
    let lists = bare_lists(connected(&double, size).await?).await?;
    double.reset()?;
    let daemon = world.start()?;
    let agents = pool.start(&world, &daemon, kubeconfigs.path())?;
    let running = Running { double, world, pool, daemon, agents };
    let restart = running.settled(size, 1)?;
    eprintln!("all restarted: {restart}");
    Ok(json!({
        "members": size.members, "placements": size.placements, "objectsOfPlacement": size.objects, "agentCount": count,
        "latency": manner.latency, "faults": manner.faults, "pairs": size.pairs(), "objects": size.total(),
        "cold": cold, "coldRatio": ratio(seconds(&cold), floor["applySeconds"].as_f64().unwrap_or_default()),
        "silence": silence, "rollout": rollout, "daemonRestart": daemon_restart,
        "restart": restart, "restartRatio": ratio(seconds(&restart), seconds(&lists)), "bareLists": lists,
        "floor": floor, "profile": profile(), "load": load(),
    }))
}
