//! Where figures come from: the machine, the versions, and the file they are kept in.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testservers::repository;

use crate::fleet::Binaries;

/// Where results are written, below the root of the repository.
pub const RESULTS: &str = "target/bench/results.json";

fn first_line(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

fn proc_value(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// Returns cores, memory and processor.
pub fn machine() -> Value {
    let kilobytes = proc_value("/proc/meminfo", "MemTotal");
    let kilobytes: u64 = kilobytes.trim_end_matches(" kB").parse().unwrap_or_default();
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memoryMiB": kilobytes / 1024,
        "cpu": proc_value("/proc/cpuinfo", "model name"),
        "os": first_line(Path::new("uname"), &["-sr"]),
    })
}

/// Returns the versions of all that takes part.
pub fn versions() -> Result<Value> {
    let binaries = Binaries::build_or_cached()?;
    let root = repository();
    let commit = crate::fleet::git(root, &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let changed = !crate::fleet::git(root, &["status", "--porcelain", "--", "src", "Cargo.toml"])?.is_empty();
    Ok(json!({
        "gitfleet": format!("{} {commit}{}", env!("CARGO_PKG_VERSION"), if changed { " with changes" } else { "" }),
        "kube-apiserver": first_line(&binaries.kube_apiserver, &["--version"]),
        "etcd": first_line(&binaries.etcd, &["--version"]),
        "rustc": first_line(Path::new("rustc"), &["--version"]),
        "git": first_line(Path::new("git"), &["--version"]),
    }))
}

/// Returns the machine's load averages: how much else ran.
pub fn load() -> Value {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    json!(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// Returns how this was built.
pub fn profile() -> Value {
    json!(if cfg!(debug_assertions) { "dev" } else { "release" })
}

/// Puts one benchmark's result into the file, beside those of others.
pub fn record(id: &str, result: &Value) -> Result<()> {
    let path = repository().join(RESULTS);
    fs::create_dir_all(path.parent().context("it is below the root")?)?;
    let known = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let mut all = known.and_then(|value| value.as_object().cloned()).unwrap_or_default();
    all.insert("machine".to_owned(), machine());
    let mut result = result.clone();
    result["versions"] = versions()?;
    result["at"] = json!(jiff::Timestamp::now().to_string());
    let results = all.entry("results").or_insert_with(|| json!({}));
    results[id] = result;
    fs::write(&path, serde_json::to_string_pretty(&all)? + "\n").with_context(|| format!("write {}", path.display()))
}

/// Returns what is said of a series of times: count, mean, p50, p95, least and most, in milliseconds.
pub fn summary(times: &[std::time::Duration]) -> Value {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
    times.sort_by(f64::total_cmp);
    // Nearest rank: a time that was measured, never one in between.
    let rank = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
    let round = |value: f64| (value * 10.0).round() / 10.0;
    json!({
        "count": times.len(),
        "meanMs": round(times.iter().sum::<f64>() / times.len() as f64),
        "p50Ms": round(rank(50)),
        "p95Ms": round(rank(95)),
        "minMs": round(times[0]),
        "maxMs": round(times[times.len() - 1]),
    })
}

/// Returns `a / b` rounded to two places.
pub fn ratio(a: f64, b: f64) -> f64 {
    (a / b * 100.0).round() / 100.0
}
