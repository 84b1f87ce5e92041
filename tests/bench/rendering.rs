//! Rendering: a repository of kustomizations and charts, beside the programs alone in a loop over the same folders on all cores.

mod tree;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use config::Render;
use daemon::commit_reader::{Cache, read_commit};
use daemon::rendering::Rendering;
use git::Reader;
use model::id::CommitId;
use rayon::prelude::*;
use serde_json::{Value, json};

use self::tree::{CHARTS, KUSTOMIZATIONS, MEMBERS, OBJECTS, chart, overlay};
use crate::daemon::{Daemon, World, binary};
use crate::fleet::{Tools, until};
use crate::machine::{load, profile, ratio, summary};

/// How often a cold read is repeated, by turns with the programs alone.
const ROUNDS: usize = 3;
/// Commits of one changed file, of each kind of folder.
const CHANGES: usize = 7;
/// How often a file of a member is read.
const LOOK: Duration = Duration::from_millis(2);
/// How long a delivery may take.
const LIMIT: Duration = Duration::from_mins(15);
/// Without a change for so long a delivery is over.
const QUIET: Duration = Duration::from_secs(5);
/// The versions of the programs, as the configuration names them.
const VERSIONS: (&str, &str) = ("v5.8.2", "v4.3.1");

/// A repository, and the programs in one folder.
struct Bench {
    world: World,
    programs: PathBuf,
}

impl Bench {
    fn new() -> Result<Self> {
        let (tools, world) =
            (Tools::build_or_cached()?, World::configured("{url: ./repo, branch: main}", MEMBERS, "")?);
        let programs = world.path().join("programs");
        fs::create_dir(&programs)?;
        symlink(&tools.kustomize, programs.join("kustomize"))?;
        symlink(&tools.helm, programs.join("helm"))?;
        tree::write(&world)?;
        world.commit("All")?;
        let section =
            format!("render: {{kustomize: {}, helm: {}, folder: ./programs}}\nstore:", VERSIONS.0, VERSIONS.1);
        world.reconfigure("store:", &section)?;
        Ok(Self { world, programs })
    }

    /// Returns what renders, and keeps its results in a folder of this name.
    fn rendering(&self, state: &str) -> Result<Rendering> {
        let (kustomize, helm) = (Some(VERSIONS.0.to_owned()), Some(VERSIONS.1.to_owned()));
        let render = Render { kustomize, helm, folder: Some(self.programs.clone()) };
        let (rendering, launcher) = (Rendering::of(Some(&render), Some(&self.world.path().join(state)))?, binary()?);
        Ok(rendering.with_programs(|programs| programs.launched_by(launcher)))
    }

    /// Returns a program that renders a folder as a person has it rendered.
    fn program(&self, folder: &str) -> Command {
        let path = self.world.repo().join(folder);
        let mut command = if path.join("Chart.yaml").is_file() {
            let mut helm = Command::new(self.programs.join("helm"));
            helm.args(["template", "release"]);
            helm
        } else {
            let mut kustomize = Command::new(self.programs.join("kustomize"));
            kustomize.arg("build");
            kustomize
        };
        command.arg(path).env("HOME", self.world.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn run(&self, folder: &str) -> Result<()> {
        let status = self.program(folder).status().with_context(|| format!("render {folder}"))?;
        ensure!(status.success(), "{folder} cannot be rendered");
        Ok(())
    }

    /// Has the programs alone render all folders, on all cores.
    fn floor(&self, folders: &[String]) -> Result<Duration> {
        let started = Instant::now();
        folders.par_iter().try_for_each(|folder| self.run(folder))?;
        Ok(started.elapsed())
    }

    /// Writes another value into the file of a folder that a change touches, and commits it.
    fn change(&self, folder: &str, value: &str) -> Result<Instant> {
        tree::change(&self.world, folder, value)?;
        self.world.commit("One file")
    }
}

/// Measures all of it.
pub fn rendering() -> Result<Value> {
    let bench = Bench::new()?;
    let folders: Vec<String> = (0..KUSTOMIZATIONS).map(overlay).chain((0..CHARTS).map(chart)).collect();
    let cold = cold(&bench, &folders)?;
    eprintln!("cold: {cold}");
    let changed = one_file(&bench)?;
    eprintln!("one file: {changed}");
    let daemon = daemon(&bench)?;
    Ok(json!({
        "kustomizations": KUSTOMIZATIONS, "charts": CHARTS, "objects": OBJECTS,
        "kustomize": VERSIONS.0, "helm": VERSIONS.1,
        "cold": cold, "oneFile": changed, "daemon": daemon,
        "cores": thread::available_parallelism().map_or(1, usize::from), "profile": profile(), "load": load(),
    }))
}

/// Reads the commit with nothing kept, then with all results kept, by turns with the programs alone.
fn cold(bench: &Bench, folders: &[String]) -> Result<Value> {
    let (reader, _) = git::discover(&bench.world.repo())?;
    let head = reader.resolve("HEAD")?;
    let (mut floors, mut colds, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floors.push(bench.floor(folders)?);
        let rendering = bench.rendering(&format!("cold-{round}"))?;
        colds.push(read(&reader, &head, &mut Cache::rendering(rendering.clone()))?);
        kept.push(read(&reader, &head, &mut Cache::rendering(rendering))?);
    }
    let kinds = [&folders[..KUSTOMIZATIONS], &folders[KUSTOMIZATIONS..]].map(|of| bench.floor(of));
    let [kustomize, helm] = kinds.map(|time| time.map(|time| time.as_secs_f64()));
    let ratios: Vec<f64> =
        colds.iter().zip(&floors).map(|(cold, floor)| ratio(cold.as_secs_f64(), floor.as_secs_f64())).collect();
    Ok(json!({
        "read": summary(&colds), "programsAlone": summary(&floors), "ratioOfEachRound": ratios,
        "kustomizeAloneSeconds": kustomize?, "helmAloneSeconds": helm?,
        "readWithResultsKept": summary(&kept),
    }))
}

fn read(reader: &Reader, commit: &CommitId, cache: &mut Cache) -> Result<Duration> {
    let started = Instant::now();
    let tree = read_commit(reader, commit, cache)?;
    let took = started.elapsed();
    ensure!(tree.placements.len() == tree::PLACEMENTS, "{} placements were read", tree.placements.len());
    Ok(took)
}

/// Reads commits that change one file of a kustomization and of a chart, by turns with the program alone on that folder.
fn one_file(bench: &Bench) -> Result<Value> {
    let (reader, _) = git::discover(&bench.world.repo())?;
    let mut cache = Cache::rendering(bench.rendering("changes")?);
    read(&reader, &reader.resolve("HEAD")?, &mut cache)?;
    let mut answer = json!({});
    for (kind, folder) in [("kustomization", overlay(7)), ("chart", chart(7))] {
        let (mut alone, mut reads) = (Vec::new(), Vec::new());
        for number in 0..CHANGES {
            bench.change(&folder, &format!("read-{number}"))?;
            let started = Instant::now();
            bench.run(&folder)?;
            alone.push(started.elapsed());
            reads.push(read(&reader, &reader.resolve("HEAD")?, &mut cache)?);
        }
        let (alone, reads) = (summary(&alone), summary(&reads));
        let more = reads["p50Ms"].as_f64().unwrap_or_default() - alone["p50Ms"].as_f64().unwrap_or_default();
        answer[kind] = json!({"read": reads, "programAlone": alone, "moreP50Ms": more.round()});
    }
    Ok(answer)
}

/// Runs the daemon over members that are folders: until all is delivered, its memory, and commits of one file until a member has it.
fn daemon(bench: &Bench) -> Result<Value> {
    let started = Instant::now();
    let daemon = bench.world.start()?;
    let delivered = delivered(bench, started)?;
    let memory = json!({"residentKb": daemon.memory_kb("VmRSS")?, "peakKb": daemon.memory_kb("VmHWM")?});
    let mut answer = json!({
        "deliveredSeconds": delivered.as_secs_f64(), "memory": memory, "processorSeconds": daemon.cpu_seconds()?,
    });
    for (kind, folder) in [("kustomization", overlay(8)), ("chart", chart(8))] {
        let (mut alone, mut times) = (Vec::new(), Vec::new());
        for number in 0..CHANGES {
            let value = format!("told-{number}");
            tree::change(&bench.world, &folder, &value)?;
            let started = Instant::now();
            bench.run(&folder)?;
            alone.push(started.elapsed());
            let committed = bench.world.commit("One file")?;
            times.push(told(bench, &daemon, &folder, &value, committed)?);
        }
        let (alone, times) = (summary(&alone), summary(&times));
        let more = times["p50Ms"].as_f64().unwrap_or_default() - alone["p50Ms"].as_f64().unwrap_or_default();
        answer[kind] = json!({"commitToMember": times, "programAlone": alone, "moreP50Ms": more.round()});
    }
    answer["memoryAfterChanges"] =
        json!({"residentKb": daemon.memory_kb("VmRSS")?, "peakKb": daemon.memory_kb("VmHWM")?});
    Ok(answer)
}

/// Waits until a member's file has a value.
fn told(bench: &Bench, daemon: &Daemon, folder: &str, value: &str, since: Instant) -> Result<Duration> {
    let file = bench.world.path().join("members/a").join(tree::delivered_file(folder));
    loop {
        if fs::read_to_string(&file).is_ok_and(|text| text.contains(value)) {
            return Ok(since.elapsed());
        }
        ensure!(since.elapsed() < LIMIT, "{folder} is not delivered by {}: {}", daemon.pid(), bench.world.log());
        thread::sleep(LOOK);
    }
}

/// Waits until the member has all objects, and nothing is added for a while. Returns when it had them.
fn delivered(bench: &Bench, started: Instant) -> Result<Duration> {
    let members = ["a", "b"].map(|name| bench.world.path().join("members").join(name));
    let count = |folder: &Path| {
        let entries = fs::read_dir(folder).map(Iterator::flatten);
        let names = entries.into_iter().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with('.')).count()
    };
    let mut all = None;
    until("all objects on both members", LIMIT, || {
        let has_all = members.iter().all(|folder| count(folder) >= OBJECTS);
        let since = *all.get_or_insert(started.elapsed());
        if !has_all {
            all = None;
        }
        Ok((has_all && started.elapsed() >= since + QUIET).then_some(since))
    })
    .with_context(|| bench.world.log())
}
