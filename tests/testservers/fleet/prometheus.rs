//! A Prometheus, from Debian's package.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    debian,
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

    /// Returns the binary.
    ///
    /// # Errors
    /// As `debian::binary`.
    pub fn binary() -> Result<PathBuf> {
        debian::binary("prometheus", "prometheus", "20 MB")
    }
}
