//! A Prometheus, from Debian's package: unpacked into the cache, nothing is installed.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    binaries::cache,
    process::{Process, Spec, Watchdog},
    wait::{free_port, http},
};

/// How long it may take to become ready.
const READY_MAX: Duration = Duration::from_mins(1);

/// A running server with one target; ends when dropped.
pub struct Prometheus {
    process: Process,
    port: u16,
    /// Ends the server and removes its folder however the test ends.
    _watchdog: Watchdog,
}

impl Prometheus {
    /// Starts a server in an empty folder, which reads the metrics of a port of this machine every second.
    ///
    /// # Errors
    /// When the binary cannot be had, or the server does not become ready; the error shows its log.
    pub fn start(folder: &Path, target: u16) -> Result<Self> {
        let (binary, port) = (Self::binary()?, free_port()?);
        let watchdog = Watchdog::start(folder)?;
        let configuration = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: test\n  static_configs: \
             [{{targets: ['127.0.0.1:{target}']}}]\n"
        );
        fs::write(&configuration, text).with_context(|| format!("write {}", configuration.display()))?;
        let process = Spec::new("prometheus", &binary, folder)
            .flag("config.file", configuration.display())
            .flag("storage.tsdb.path", folder.join("data").display())
            .flag("web.listen-address", format!("127.0.0.1:{port}"))
            .spawn()?;
        process.until("Prometheus is ready", READY_MAX, || {
            Ok(http("GET", port, "/-/ready", &[], "").is_ok_and(|(status, _)| status == 200).then_some(()))
        })?;
        Ok(Self { process, port, _watchdog: watchdog })
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it, as a crash would.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Returns the binary: from the cache, else from Debian's package, which takes some seconds.
    ///
    /// # Errors
    /// When this is no Debian, or the package cannot be fetched.
    pub fn binary() -> Result<PathBuf> {
        let cache = cache()?;
        let folder = cache.join("prometheus-debian");
        let binary = folder.join("prometheus");
        if binary.is_file() {
            return Ok(binary);
        }
        fs::create_dir_all(&cache).with_context(|| format!("create the cache {}", cache.display()))?;
        let lock = File::create(cache.join("prometheus.lock")).context("create the lock file")?;
        lock.lock().context("wait for another process that fetches the same")?;
        if binary.is_file() {
            return Ok(binary);
        }
        eprintln!("fleet: fetching Debian's package prometheus (20 MB)");
        let unfinished = cache.join("prometheus.unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).context("remove an interrupted download")?;
        }
        fs::create_dir_all(&unfinished)?;
        let package = fetched(&unfinished).with_context(|| {
            format!("Prometheus comes from Debian's package; elsewhere, put its binary at {}", binary.display())
        })?;
        let tree = unfinished.join("tree");
        run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&tree))?;
        fs::create_dir_all(&folder)?;
        // Last, and in one step: a binary that is there is whole.
        fs::rename(tree.join("usr/bin/prometheus"), &binary).context("take the binary out of the package")?;
        fs::remove_dir_all(&unfinished).context("remove the rest of the package")?;
        Ok(binary)
    }
}

/// Downloads the package. Where the machine's lists of packages are absent or too old, lists of our own are read: neither needs
/// root.
fn fetched(folder: &Path) -> Result<PathBuf> {
    if download(folder, &[]).is_err() {
        let (state, lists) = (folder.join("state"), folder.join("lists"));
        fs::create_dir_all(state.join("lists/partial"))?;
        fs::create_dir_all(lists.join("archives/partial"))?;
        let (state, lists) = (format!("Dir::State={}", state.display()), format!("Dir::Cache={}", lists.display()));
        let own = ["-o", &state, "-o", &lists, "-o", "Debug::NoLocking=1"];
        run(Command::new("apt-get").args(own).arg("update"))?;
        download(folder, &own)?;
    }
    let mut entries = fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let package = entries.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    package.context("apt-get download left no package")
}

fn download(folder: &Path, options: &[&str]) -> Result<()> {
    run(Command::new("apt-get").args(options).args(["download", "prometheus"]).current_dir(folder))
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        bail!("{program} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
