//! A work tree, a configuration and a running `gitfleet run`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::fleet::{Member, Postgres, free_port, git, http, until};
use crate::generate;

/// How long the daemon may take to answer.
const READY: Duration = Duration::from_mins(1);

/// The configuration, in the folder of a world.
const CONFIG: &str = "gitfleet.yaml";
/// Its section of the store.
const STORE: &str = "store: {path: ./state}";

/// Unit of the times in `/proc/PID/stat`; Linux has had no other since long.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the binary under test: the one built beside this program.
pub fn binary() -> Result<PathBuf> {
    let here = std::env::current_exe().context("the path of this program")?;
    let folder = here.parent().and_then(Path::parent).context("the folder of the build")?;
    let binary = folder.join("gitfleet");
    anyhow::ensure!(binary.is_file(), "{} is missing: run tests/bench.sh, which builds it", binary.display());
    Ok(binary)
}

/// One benchmark's repository and daemon.
pub struct World {
    folder: TempDir,
    port: u16,
}

impl World {
    /// Makes a repository whose first commit names these members, and a configuration that reaches them.
    pub fn new(members: &[Member]) -> Result<Self> {
        let (mut access, mut fleet) = (String::new(), String::new());
        for member in members {
            writeln!(access, "  - name: {}\n    kubeconfig: {{path: {}}}", member.name, member.kubeconfig.display())?;
            fleet.push_str(&generate::member_cluster(&member.name, "{}"));
        }
        let world = Self::configured("{url: ./repo, branch: main}", &access, "")?;
        world.write("fleet.yaml", &fleet)?;
        world.commit("Fleet")?;
        Ok(world)
    }

    /// Makes an empty repository and a configuration of a source, members and more sections.
    pub fn configured(source: &str, members: &str, more: &str) -> Result<Self> {
        let world = Self { folder: TempDir::new()?, port: free_port()? };
        fs::create_dir_all(world.repo())?;
        git(&world.repo(), &["init", "-q", "-b", "main"])?;
        let config = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {source}\nmembers:\n{members}\
             {STORE}\nhttp: {{listen: '127.0.0.1:{}'}}\n{more}",
            world.port
        );
        fs::write(world.folder.path().join(CONFIG), config)?;
        Ok(world)
    }

    /// The folder with the configuration.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the daemon listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// Writes a file of the work tree.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().context("it is below the work tree")?)?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Writes ConfigMaps with this value, one a file.
    pub fn write_config_maps(&self, namespace: &str, names: &[String], value: &str) -> Result<()> {
        names.iter().try_for_each(|name| {
            self.write(&format!("{namespace}/{name}.yaml"), &generate::config_map(namespace, name, value))
        })
    }

    /// Commits the work tree; returns when `git commit` was done.
    pub fn commit(&self, message: &str) -> Result<Instant> {
        git(&self.repo(), &["add", "-A"])?;
        git(&self.repo(), &["commit", "-q", "-m", message])?;
        Ok(Instant::now())
    }

    /// Replaces a part of the configuration.
    pub fn reconfigure(&self, from: &str, to: &str) -> Result<()> {
        let file = self.folder.path().join(CONFIG);
        let text = fs::read_to_string(&file)?;
        anyhow::ensure!(text.contains(from), "the configuration has no {from:?}");
        Ok(fs::write(file, text.replace(from, to))?)
    }

    /// Puts the records into a PostgreSQL.
    pub fn share_store(&self, postgres: &Postgres, schema: &str, lease: &str) -> Result<()> {
        fs::write(self.folder.path().join("password"), &postgres.password)?;
        let url = &postgres.url;
        let address =
            format!("url: '{url}', passwordFile: ./password, sslMode: disable, schema: {schema}, lease: {lease}");
        self.reconfigure(STORE, &format!("store: {{path: ./state, postgres: {{{address}}}}}"))
    }

    /// Starts the daemon, with its default log.
    pub fn start(&self) -> Result<Daemon> {
        self.start_daemon(CONFIG, self.port)
    }

    /// Starts a second daemon on the same store, with a mirror and a port of its own.
    pub fn start_another(&self) -> Result<Daemon> {
        let (text, port) = (fs::read_to_string(self.folder.path().join(CONFIG))?, free_port()?);
        let text = text.replace("./state", "./another").replace(&format!(":{}'", self.port), &format!(":{port}'"));
        fs::write(self.folder.path().join("another.yaml"), text)?;
        self.start_daemon("another.yaml", port)
    }

    fn start_daemon(&self, config: &str, port: u16) -> Result<Daemon> {
        let daemon = self.spawn(&["run", "-c", config], port)?;
        until("the daemon to listen", READY, || {
            Ok(http("GET", port, "/healthz", &[], "").is_ok_and(|(code, _)| code == 200).then_some(()))
        })?;
        Ok(daemon)
    }

    /// Starts gitfleet, with its default log; it serves its probes on this port.
    pub fn spawn(&self, words: &[&str], port: u16) -> Result<Daemon> {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let mut command = Command::new(binary()?);
        command.args(words).env("NO_COLOR", "1").env_remove("GITFLEET_LOG");
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Daemon { child: command.spawn().context("start gitfleet")?, port })
    }

    /// Returns the daemon's log, for errors.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// A running daemon or agent, killed when dropped.
pub struct Daemon {
    child: Child,
    /// Where it serves its probes on 127.0.0.1.
    pub port: u16,
}

impl Daemon {
    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as an init system does, and waits until it has.
    pub fn end(mut self, limit: Duration) -> Result<()> {
        let asked = Command::new("kill").arg(self.pid().to_string()).status().context("start kill")?;
        anyhow::ensure!(asked.success(), "the daemon cannot be asked to end");
        until("the daemon to end", limit, || Ok(self.child.try_wait()?.map(drop)))
    }

    /// Returns a value of `/proc/PID/status` in kilobytes.
    pub fn memory_kb(&self, field: &str) -> Result<u64> {
        memory_kb(&self.child.id().to_string(), field)
    }

    /// Returns the processor time it has used so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).context("read a process' times")?;
        // After the name in parentheses; user and system time are fields 14 and 15.
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<_>>()).unwrap_or_default();
        let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        Ok((ticks(14) + ticks(15)) / TICKS_PER_SECOND)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns a value of a process' status, such as `VmRSS` or `VmHWM`, in kilobytes.
pub fn memory_kb(process: &str, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("read a process' status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    value.with_context(|| format!("no {field} in a process' status"))
}
