//! A fleet of folder members, beside the floor of the same run: the same files written, and read, by nothing but system calls.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::answers::at_rest;
use super::figures::{end, seconds, store_bytes};
use super::{FleetSize, settle, tail, write_fleet};
use crate::daemon::World;
use crate::machine::{load, profile, ratio};

/// Runs the daemon over a fleet of folders.
pub fn folders(size: FleetSize) -> Result<Value> {
    let world =
        World::configured("{url: ./repo, branch: main}", "  - {name: '*', directory: './members/{name}'}\n", "")?;
    write_fleet(&world, size)?;

    let daemon = world.start()?;
    let cold = settle(&[&daemon], size, 0).with_context(|| tail(&world))?;
    eprintln!("delivered: {cold}");
    let asked = at_rest(&world, &daemon, size)?;
    let end_cold = end(daemon)?;
    eprintln!("answers: {asked}, ended in {end_cold}");

    let members = world.path().join("members");
    let read_floor = read_all(&members)?;
    let daemon = world.start()?;
    let restart = settle(&[&daemon], size, 0).with_context(|| tail(&world))?;
    let end_restart = end(daemon)?;
    let write_floor = copy_all(&members, &world.path().join("floor"))?;
    let store = store_bytes(&world);
    let resident = restart["residentKb"].as_f64().unwrap_or_default();
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
