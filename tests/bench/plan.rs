//! B5: the plan of a large tree, and of the same tree after one file changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use daemon::commit_reader::{Cache, read_commit, read_folder};
use decide::decide;
use decide::state::{FleetState, PlacementState, clusters};
use jiff::Timestamp;
use model::id::PlacementKey;
use model::records::{ClusterRecord, MemberKind};
use model::tree::Tree;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::daemon::{binary, memory_kb};
use crate::fleet;
use crate::generate::{self, PLAN};
use crate::machine::{load, ratio, summary};

/// How often each part is repeated, every time in a new process.
const ROUNDS: usize = 7;
/// How often a running command's peak memory is read.
const LOOK: Duration = Duration::from_millis(2);
/// The first argument of this program when it is the process that is measured.
pub const CHILD: &str = "plan-child";

/// Measures B5 as the command and, part by part, as the library that it is made of.
pub fn plan() -> Result<Value> {
    let folder = tempfile::TempDir::new()?;
    let files = generate::tree(PLAN);
    for (path, text) in &files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().context("it is below the folder")?)?;
        fs::write(path, text)?;
    }
    fleet::git(folder.path(), &["init", "-q", "-b", "main"])?;
    fleet::commit_all(folder.path(), "All")?;
    let changed = "team-07/configmap-0002.yaml";
    fs::write(folder.path().join(changed), generate::config_map("team-07", "app-0002", "changed"))?;
    fleet::commit_all(folder.path(), "One file")?;
    fleet::git(folder.path(), &["gc", "-q"])?;

    let library = library(folder.path())?;
    let (floor_files, floor_git) = floors(folder.path())?;
    let command = command(folder.path())?;
    let cold = library["cold"]["p50Ms"].as_f64().unwrap_or_default();
    Ok(json!({
        "manifests": PLAN.manifests, "placements": PLAN.placements, "clusters": PLAN.clusters,
        "files": files.len(), "bytes": files.iter().map(|(_, text)| text.len()).sum::<usize>(),
        "library": library, "command": command,
        "floorReadFiles": floor_files, "floorGitCatFile": floor_git,
        "ratioColdToReadFiles": ratio(cold, floor_files["p50Ms"].as_f64().unwrap_or_default()),
        "ratioColdToGitCatFile": ratio(cold, floor_git["p50Ms"].as_f64().unwrap_or_default()),
        "load": load(),
    }))
}

/// Runs the library's path in processes of its own and sums up what they say.
fn library(folder: &Path) -> Result<Value> {
    let mut answers: Vec<Value> = Vec::new();
    for _ in 0..ROUNDS {
        let child = Command::new(std::env::current_exe()?).arg(CHILD).arg(folder).output()?;
        ensure!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        answers.push(serde_json::from_slice(&child.stdout)?);
    }
    let times = |name: &str| {
        let seconds = answers.iter().filter_map(|answer| answer[name].as_f64());
        summary(&seconds.map(Duration::from_secs_f64).collect::<Vec<_>>())
    };
    let most = |name: &str| answers.iter().filter_map(|answer| answer[name].as_u64()).max();
    Ok(json!({
        "cold": times("cold"), "coldRead": times("coldRead"), "coldDecide": times("coldDecide"),
        "coldPeakKb": most("coldPeakKb"), "works": answers[0]["works"], "errors": answers[0]["errors"],
        "fromCommit": times("fromCommit"),
        "oneFile": times("oneFile"), "oneFileRead": times("oneFileRead"), "oneFileDecide": times("oneFileDecide"),
    }))
}

/// What the measured process does: plan the folder as it stands, then, from git, two commits that differ in one file.
pub fn child(folder: &Path) -> Result<()> {
    let started = Instant::now();
    let tree = Arc::new(read_folder(folder, &daemon::rendering::Rendering::default())?);
    let read = started.elapsed();
    let now = Timestamp::now();
    let mut fleet = FleetState { source: "bench".to_owned().into(), ..FleetState::default() };
    let mut states = BTreeMap::new();
    let works = pass(&mut fleet, &mut states, &tree, now);
    let cold = started.elapsed();
    let peak = memory_kb("self", "VmHWM")?;
    let errors = states.values().filter(|state| state.record.error.is_some()).count();
    drop(states);

    let (reader, _) = git::discover(folder)?;
    let mut cache = Cache::new();
    let mut states = BTreeMap::new();
    let started = Instant::now();
    let tree = Arc::new(read_commit(&reader, &reader.resolve("HEAD~1")?, &mut cache)?);
    pass(&mut fleet, &mut states, &tree, now);
    let from_commit = started.elapsed();
    let head = reader.resolve("HEAD")?;
    let started = Instant::now();
    let tree = Arc::new(read_commit(&reader, &head, &mut cache)?);
    let one_read = started.elapsed();
    pass(&mut fleet, &mut states, &tree, now);
    let one = started.elapsed();
    let answer = json!({
        "cold": cold.as_secs_f64(), "coldRead": read.as_secs_f64(), "coldDecide": (cold - read).as_secs_f64(),
        "coldPeakKb": peak, "works": works, "errors": errors, "fromCommit": from_commit.as_secs_f64(),
        "oneFile": one.as_secs_f64(), "oneFileRead": one_read.as_secs_f64(),
        "oneFileDecide": (one - one_read).as_secs_f64(),
    });
    println!("{answer}");
    Ok(())
}

/// Decides about every placement of a commit, as the daemon does; returns how many works there are.
fn pass(
    fleet: &mut FleetState,
    states: &mut BTreeMap<PlacementKey, PlacementState>,
    tree: &Arc<Tree>,
    now: Timestamp,
) -> usize {
    let record = |name: &model::id::ClusterName, labels: &BTreeMap<String, String>| ClusterRecord {
        labels: labels.clone(),
        kind: MemberKind::Live,
        online: true,
        ..ClusterRecord::new(name.clone(), now)
    };
    fleet.records = tree.clusters.iter().map(|(name, c)| (name.clone(), record(name, &c.labels))).collect();
    fleet.clusters = clusters(tree, &fleet.records, now);
    fleet.tree = Arc::clone(tree);
    let before: Vec<PlacementState> = tree
        .placements
        .iter()
        .map(|(key, placement)| states.remove(key).unwrap_or_else(|| PlacementState::begin(placement, now)))
        .collect();
    let decisions: Vec<_> = before.into_par_iter().map(|state| decide(state, fleet, now)).collect();
    let works = decisions.iter().map(|decision| decision.orders.len()).sum();
    states.extend(decisions.into_iter().map(|decision| (decision.state.record.key.clone(), decision.state)));
    works
}

/// Returns how long it takes to do nothing but read the same bytes: from the folder, and from git.
fn floors(folder: &Path) -> Result<(Value, Value)> {
    let (mut from_files, mut from_git) = (Vec::new(), Vec::new());
    let list = fleet::git(folder, &["ls-files"])?;
    let objects = fleet::git(folder, &["ls-tree", "-r", "--format=%(objectname)", "HEAD"])?;
    let input = folder.join(".git/bench-objects");
    fs::write(&input, objects + "\n")?;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let read: usize = list.lines().map(|path| fs::read(folder.join(path)).map_or(0, |bytes| bytes.len())).sum();
        from_files.push(started.elapsed());
        ensure!(read > 0, "nothing was read");
        let started = Instant::now();
        let mut git = Command::new("git");
        git.args(["cat-file", "--batch", "--buffer"]).current_dir(folder).stdin(fs::File::open(&input)?);
        ensure!(git.stdout(Stdio::null()).status()?.success(), "git cat-file failed");
        from_git.push(started.elapsed());
    }
    Ok((summary(&from_files), summary(&from_git)))
}

/// Measures `gitfleet plan` as a person runs it: wall time and peak memory.
fn command(folder: &Path) -> Result<Value> {
    let (mut times, mut peak) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let mut plan = Command::new(binary()?);
        plan.args(["plan", "-o", "json", "--repo"]).arg(folder).stdout(Stdio::null()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut plan = plan.spawn()?;
        let id = plan.id().to_string();
        let status = loop {
            // The last look is at most one pause before the end.
            peak = peak.max(memory_kb(&id, "VmHWM").unwrap_or_default());
            if let Some(status) = plan.try_wait()? {
                break status;
            }
            std::thread::sleep(LOOK);
        };
        times.push(started.elapsed());
        if !matches!(status.code(), Some(0 | 1)) || times[0] < Duration::from_millis(20) {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut plan.stderr.take().context("its stderr")?, &mut said)?;
            return Ok(json!({"notMeasured": said.trim()}));
        }
    }
    Ok(json!({"cold": summary(&times), "peakKb": peak}))
}
