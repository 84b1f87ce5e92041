//! The whole daemon under a large fleet: memory, processor time, waits, threads, bytes, and how fast it answers.
//!
//! The process is `gitfleet run` as users start it, and the answers are those of the command line as users call it. Figures stand
//! beside the floor of the same run.

mod agents;
mod answers;
mod apiservers;
mod double;
mod figures;
mod folders;
mod kills;
mod streams;
mod takeover;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::daemon::{Daemon, World};
use crate::fleet::http;
use crate::generate;
use figures::figures;

pub use agents::agents;
pub use apiservers::apiservers;
pub use double::Manner;
pub use folders::folders;
pub use takeover::takeover;

/// How long a fleet may take to settle.
const LIMIT: Duration = Duration::from_mins(30);
/// Pause between two looks at the daemon.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The daemon is quiet when it used less than [`QUIET_CPU`] of a core for so long.
const QUIET: Duration = Duration::from_secs(2);
/// Share of one core.
const QUIET_CPU: f64 = 0.1;

/// The size of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct FleetSize {
    /// Member clusters.
    pub members: usize,
    /// Placements, each of one namespace, each on every member.
    pub placements: usize,
    /// ConfigMaps of each placement.
    pub objects: usize,
}

impl FleetSize {
    /// The fleet that runs unless another is asked for.
    pub const DEFAULT: Self = Self { members: 300, placements: 50, objects: 20 };

    /// Reads `300x50x20`: members, placements, objects of a placement.
    pub fn parse(text: &str) -> Result<Self> {
        let numbers: Vec<usize> = text.split('x').map_while(|number| number.parse().ok()).collect();
        match numbers[..] {
            [members, placements, objects] if members > 0 && placements > 0 && objects > 0 => {
                Ok(Self { members, placements, objects })
            }
            _ => bail!("{text:?} is not MEMBERSxPLACEMENTSxOBJECTS, such as 300x50x20"),
        }
    }

    fn pairs(self) -> usize {
        self.members * self.placements
    }

    /// Objects on all members, the namespaces included.
    fn total(self) -> usize {
        self.pairs() * (self.objects + 1)
    }
}

fn app(number: usize) -> String {
    format!("app-{number:03}")
}

/// Commits the fleet: its members, and placements of a namespace and ConfigMaps on all of them.
fn write_fleet(world: &World, size: FleetSize) -> Result<()> {
    for number in 0..size.members {
        let name = generate::cluster_name(number);
        world.write(&format!("clusters/{name}.yaml"), &generate::member_cluster(&name, "{}"))?;
    }
    for number in 0..size.placements {
        let app = app(number);
        let documents = [generate::namespace(&app), generate::placement(&app, "{placementType: PickAll}")];
        world.write(&format!("{app}/placement.yaml"), &documents.concat())?;
    }
    write_objects(world, size, "settled")?;
    world.commit("Fleet").map(drop)
}

/// Writes the ConfigMaps of all placements, with this value.
fn write_objects(world: &World, size: FleetSize, value: &str) -> Result<()> {
    let names: Vec<String> = (0..size.objects).map(|number| format!("c-{number:04}")).collect();
    (0..size.placements).try_for_each(|number| world.write_config_maps(&app(number), &names, value))
}

/// Waits until every placement is rolled out on every member, so many of them at their second snapshot and the others at their first,
/// and all processes together are quiet. The first is the daemon, whose figures it returns.
fn settle(processes: &[&Daemon], size: FleetSize, changed: usize) -> Result<Value> {
    let cpu_seconds = || processes.iter().map(|process| process.cpu_seconds()).sum::<Result<f64>>();
    let started = Instant::now();
    let mut quiet: Option<(Instant, f64)> = None;
    loop {
        ensure!(started.elapsed() < LIMIT, "the fleet has not settled after {} s", LIMIT.as_secs());
        thread::sleep(LOOK_PAUSE);
        let cpu = cpu_seconds()?;
        let (since, before) = *quiet.get_or_insert((Instant::now(), cpu));
        if cpu - before > QUIET_CPU * QUIET.as_secs_f64() {
            quiet = None;
        } else if since.elapsed() >= QUIET {
            // Only now, because the question costs the daemon something, too.
            if is_rolled_out(processes[0].port, size, changed)? {
                let mut figures = figures(processes[0])?;
                figures["seconds"] = json!((since - started).as_secs_f64());
                return Ok(figures);
            }
            quiet = None;
        }
    }
}

fn is_rolled_out(port: u16, size: FleetSize, changed: usize) -> Result<bool> {
    let (_, metrics) = http("GET", port, "/metrics", &[], "")?;
    let online = format!("gitfleet_cluster_members{{state=\"online\"}} {}", size.members);
    if !metrics.lines().any(|line| line == online) {
        return Ok(false);
    }
    let (_, body) = http("GET", port, "/api/v1/records?prefix=placement/", &[], "")?;
    let answer: Value = serde_json::from_str(&body).context("the records of placements")?;
    let records = answer["records"].as_array().map(Vec::as_slice).unwrap_or_default();
    let at = |snapshot: u64| records.iter().filter(|record| record[1]["lastSucceeded"] == snapshot).count();
    Ok((at(0), at(1)) == (size.placements - changed, changed))
}

fn tail(world: &World) -> String {
    let log = world.log();
    let lines: Vec<&str> = log.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
