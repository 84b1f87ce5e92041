//! The double of API servers as a process beside the daemon.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::daemon::memory_kb;
use crate::fleet::http;
use crate::generate::cluster_name;

/// Verbs that write, as the double counts them.
const WRITES: [&str; 5] = ["apply", "create", "delete", "patch", "update"];

/// How the double answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// How long every request waits, such as `1ms`.
    pub latency: Option<String>,
    /// What goes wrong, such as `429=100`.
    pub faults: Option<String>,
}

/// A running double, ended when dropped.
pub struct Double {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Double {
    /// Starts the double that was built beside this program; its kubeconfigs go to `folder`.
    pub fn start(clusters: usize, manner: &Manner, folder: &Path) -> Result<Self> {
        let here = std::env::current_exe().context("the path of this program")?;
        let binary = here.with_file_name("apiserver");
        ensure!(binary.is_file(), "{} is missing: run tests/bench.sh, which builds it", binary.display());
        let mut command = Command::new(binary);
        command.args(["--clusters", &clusters.to_string()]).arg("--directory").arg(folder);
        for (option, value) in [("--latency", &manner.latency), ("--faults", &manner.faults)] {
            command.args(value.iter().flat_map(|value| [option, value]));
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the double of API servers")?;
        let mut line = String::new();
        let output = process.stdout.take().context("its output")?;
        BufReader::new(output).read_line(&mut line).context("read its port")?;
        let port = line.trim().parse().with_context(|| format!("{line:?} is no port"));
        let mut double = Self { process, folder: folder.to_owned(), port: 0 };
        double.port = port?;
        Ok(double)
    }

    /// Returns the path of a cluster's kubeconfig.
    pub fn kubeconfig(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}.kubeconfig", cluster_name(number)))
    }

    /// Returns what it has counted.
    pub fn counters(&self) -> Result<Value> {
        self.ask("GET", "/counters")
    }

    /// Begins counting again.
    pub fn reset(&self) -> Result<()> {
        self.ask("POST", "/counters/reset").map(drop)
    }

    fn ask(&self, method: &str, path: &str) -> Result<Value> {
        let (code, body) = http(method, self.port, path, &[], "")?;
        ensure!(code == 200, "the double answers {path} with {code}");
        serde_json::from_str(&body).context("what the double counts")
    }

    /// Returns its resident memory in kilobytes.
    pub fn memory_kb(&self) -> Result<u64> {
        memory_kb(&self.process.id().to_string(), "VmRSS")
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns how many requests were meant to change something.
pub fn writes(counters: &Value) -> u64 {
    let of = |verb: &str| counters["requests"][verb].as_object().into_iter().flatten();
    WRITES.into_iter().flat_map(of).filter_map(|(_, count)| count.as_u64()).sum()
}

/// Returns how many requests there were of any verb, without watches.
pub fn requests(counters: &Value) -> u64 {
    let verbs = counters["requests"].as_object().into_iter().flatten();
    verbs.flat_map(|(_, kinds)| kinds.as_object().into_iter().flatten()).filter_map(|(_, count)| count.as_u64()).sum()
}
