//! What is measured of the daemon: what the system knows of its process, and how fast it answers the command line.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::{FleetSize, app};
use crate::daemon::{Daemon, World, binary};
use crate::machine::summary;

/// Calls of each command.
const CALLS: usize = 20;
/// How long all calls of one command may take: fewer count where each takes long.
const CALLS_LIMIT: Duration = Duration::from_secs(20);
/// How long a command may take before it counts as unanswered.
const CALL_LIMIT: Duration = Duration::from_mins(1);
/// How long the daemon may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Returns what the system knows of the daemon's process.
pub fn figures(daemon: &Daemon) -> Result<Value> {
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
pub fn calls(world: &World, size: FleetSize) -> Result<Value> {
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
            if started.elapsed() > CALL_LIMIT || failed > 1 || times.iter().sum::<Duration>() > CALLS_LIMIT {
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
pub fn end(daemon: Daemon) -> Result<f64> {
    let started = Instant::now();
    daemon.end(END_LIMIT)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Returns the size of the daemon's store.
pub fn store_bytes(world: &World) -> u64 {
    fs::metadata(world.path().join("state/records.redb")).map_or(0, |file| file.len())
}

/// Returns how long something took that was measured.
pub fn seconds(value: &Value) -> f64 {
    value["seconds"].as_f64().unwrap_or_default()
}
