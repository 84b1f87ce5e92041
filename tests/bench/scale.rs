//! The whole daemon under a large fleet of folder members: memory, processor time, waits, threads, bytes, and how fast it answers.
//!
//! The process is `gitfleet run` as users start it, and the answers are those of the command line as users call it. Figures stand
//! beside the floor of the same run: the same files written, and read, by nothing but system calls.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value, json};

use crate::daemon::{Daemon, World, binary};
use crate::fleet::http;
use crate::generate;
use crate::machine::{load, profile, ratio, summary};

/// How long a fleet may take to settle.
const LIMIT: Duration = Duration::from_mins(30);
/// Pause between two looks at the daemon.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The daemon is quiet when it used less than [`QUIET_CPU`] of a core for so long.
const QUIET: Duration = Duration::from_secs(2);
/// Share of one core.
const QUIET_CPU: f64 = 0.1;
/// Calls of each command.
const CALLS: usize = 20;
/// How long a command may take before it counts as unanswered.
const CALL_LIMIT: Duration = Duration::from_mins(1);
/// How long the daemon may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);

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

/// Runs the daemon over a fleet of folders.
pub fn folders(size: FleetSize) -> Result<Value> {
    let world =
        World::configured("{url: ./repo, branch: main}", "  - {name: '*', directory: './members/{name}'}\n", "")?;
    for number in 0..size.members {
        let name = generate::cluster_name(number);
        world.write(&format!("clusters/{name}.yaml"), &generate::member_cluster(&name, "{}"))?;
    }
    for number in 0..size.placements {
        let app = app(number);
        let documents = [generate::namespace(&app), generate::placement(&app, "{placementType: PickAll}")];
        world.write(&format!("{app}/placement.yaml"), &documents.concat())?;
        let names: Vec<String> = (0..size.objects).map(|number| format!("c-{number:04}")).collect();
        world.write_config_maps(&app, &names, "settled")?;
    }
    world.commit("Fleet")?;

    let daemon = world.start()?;
    let cold = settle(&world, &daemon, size).with_context(|| tail(&world))?;
    eprintln!("delivered: {cold}");
    let asked = calls(&world, size)?;
    let asked = json!({"commands": asked, "after": figures(&daemon)?});
    let end_cold = end(daemon)?;
    eprintln!("answers: {asked}, ended in {end_cold}");

    let members = world.path().join("members");
    let read_floor = read_all(&members)?;
    let daemon = world.start()?;
    let restart = settle(&world, &daemon, size).with_context(|| tail(&world))?;
    let end_restart = end(daemon)?;
    let write_floor = copy_all(&members, &world.path().join("floor"))?;
    let store = fs::metadata(world.path().join("state/records.redb")).map_or(0, |file| file.len());
    let resident = restart["residentKb"].as_f64().unwrap_or_default();
    let seconds = |value: &Value| value["seconds"].as_f64().unwrap_or_default();
    Ok(json!({
        "members": size.members, "placements": size.placements, "objectsOfPlacement": size.objects,
        "pairs": size.pairs(), "objects": size.total(),
        "cold": cold, "coldFloorSeconds": write_floor, "coldRatio": ratio(seconds(&cold), write_floor),
        "answers": asked,
        "restart": restart, "restartFloorSeconds": read_floor, "restartRatio": ratio(seconds(&restart), read_floor),
        "residentBytesPerObject": (resident * 1024.0 / size.total() as f64).round(),
        "storeBytes": store, "storeBytesPerPair": store / size.pairs() as u64,
        "endSeconds": [end_cold, end_restart],
        "profile": profile(), "load": load(),
    }))
}

/// Waits until every placement is rolled out on every member and the daemon is quiet; returns its figures.
fn settle(world: &World, daemon: &Daemon, size: FleetSize) -> Result<Value> {
    let started = Instant::now();
    let mut quiet: Option<(Instant, f64)> = None;
    loop {
        ensure!(started.elapsed() < LIMIT, "the fleet has not settled after {} s", LIMIT.as_secs());
        thread::sleep(LOOK_PAUSE);
        let cpu = daemon.cpu_seconds()?;
        let (since, before) = *quiet.get_or_insert((Instant::now(), cpu));
        if cpu - before > QUIET_CPU * QUIET.as_secs_f64() {
            quiet = None;
        } else if since.elapsed() >= QUIET {
            // Only now, because the question costs the daemon something, too.
            if is_rolled_out(world, size)? {
                let mut figures = figures(daemon)?;
                figures["seconds"] = json!((since - started).as_secs_f64());
                return Ok(figures);
            }
            quiet = None;
        }
    }
}

fn is_rolled_out(world: &World, size: FleetSize) -> Result<bool> {
    let (_, metrics) = http("GET", world.port(), "/metrics", &[], "")?;
    let online = format!("gitfleet_cluster_members{{state=\"online\"}} {}", size.members);
    if !metrics.lines().any(|line| line == online) {
        return Ok(false);
    }
    let (_, body) = http("GET", world.port(), "/api/v1/records?prefix=placement/", &[], "")?;
    let answer: Value = serde_json::from_str(&body).context("the records of placements")?;
    let records = answer["records"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(records.len() == size.placements && records.iter().all(|record| record[1]["lastSucceeded"] == 0))
}

/// Returns what the system knows of the daemon's process.
fn figures(daemon: &Daemon) -> Result<Value> {
    let process = PathBuf::from(format!("/proc/{}", daemon.pid()));
    let links = fs::read_dir(process.join("fd"))?.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links: Vec<PathBuf> = links.collect();
    let inotify = links.iter().filter(|link| link.to_string_lossy().contains("inotify")).count();
    Ok(json!({
        "residentKb": daemon.memory_kb("VmRSS")?, "peakKb": daemon.memory_kb("VmHWM")?,
        "cpuSeconds": daemon.cpu_seconds()?,
        "threads": fs::read_dir(process.join("task"))?.count(), "openFiles": links.len(), "inotifyInstances": inotify,
    }))
}

/// Calls the command line as people do; returns the times and the bytes of each command's answers.
fn calls(world: &World, size: FleetSize) -> Result<Value> {
    let app = app(size.placements / 2);
    let commands: [&[&str]; 4] =
        [&["status"], &["get", "placements"], &["get", "works"], &["describe", "placement", &app]];
    let mut all = Map::new();
    for words in commands {
        let (mut times, mut bytes, mut failed) = (Vec::new(), 0, 0);
        for _ in 0..CALLS {
            let started = Instant::now();
            let output = Command::new(binary()?)
                .args(words)
                .args(["--server", &format!("127.0.0.1:{}", world.port())])
                .stdin(Stdio::null())
                .output()
                .context("start gitfleet")?;
            times.push(started.elapsed());
            bytes = output.stdout.len();
            if output.status.code() != Some(0) {
                failed += 1;
                eprintln!("gitfleet {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
            }
            if started.elapsed() > CALL_LIMIT || failed > 1 {
                break;
            }
        }
        let mut result = summary(&times);
        result["bytes"] = json!(bytes);
        result["failed"] = json!(failed);
        all.insert(words.join(" "), result);
    }
    Ok(Value::Object(all))
}

/// Asks the daemon to end; returns after how many seconds it did.
fn end(daemon: Daemon) -> Result<f64> {
    let started = Instant::now();
    daemon.end(END_LIMIT)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Reads every file of the members on as many threads as there are cores: no restart can be faster.
fn read_all(members: &Path) -> Result<f64> {
    let started = Instant::now();
    on_all_cores(members, |folder| {
        for entry in fs::read_dir(folder)? {
            fs::read(entry?.path())?;
        }
        Ok(())
    })?;
    Ok(started.elapsed().as_secs_f64())
}

/// Copies the same files, with one sync a folder: no delivery that survives a power cut can be faster.
fn copy_all(members: &Path, to: &Path) -> Result<f64> {
    let started = Instant::now();
    on_all_cores(members, |folder| {
        let target = to.join(folder.file_name().context("a member's folder")?);
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            fs::copy(entry.path(), target.join(entry.file_name()))?;
        }
        let status = Command::new("sync").arg("--file-system").arg(&target).status().context("start sync")?;
        ensure!(status.success(), "sync failed");
        Ok(File::open(&target)?.sync_all()?)
    })?;
    Ok(started.elapsed().as_secs_f64())
}

fn on_all_cores(members: &Path, work: impl Fn(&Path) -> Result<()> + Sync) -> Result<()> {
    let folders: Vec<PathBuf> = fs::read_dir(members)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let shares = folders.chunks(folders.len().div_ceil(cores).max(1));
    thread::scope(|scope| {
        let tasks: Vec<_> =
            shares.map(|share| scope.spawn(|| share.iter().try_for_each(|folder| work(folder)))).collect();
        tasks.into_iter().try_for_each(|task| task.join().unwrap_or_else(|_| bail!("a thread of the floor panicked")))
    })
}

fn tail(world: &World) -> String {
    let log = world.log();
    let lines: Vec<&str> = log.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
