//! Members made by `kind` where Docker is: the same tests, with real nodes and controllers.
//!
//! Honestly: this part follows the documentation of kind and Docker and is **untested**, because no Docker was at hand.
//! Pods really run there, so images must be pullable, and the annotations of `workloads.yaml` mean nothing.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// A kind cluster of one node. Dropping it deletes it.
#[derive(Debug)]
pub(super) struct Kind {
    /// The name that kind knows.
    cluster: String,
    keep: bool,
}

impl Kind {
    /// Says whether a Docker daemon answers.
    pub(super) fn has_docker() -> bool {
        Command::new("docker").arg("info").output().is_ok_and(|output| output.status.success())
    }

    /// Creates a cluster and writes its kubeconfig.
    ///
    /// # Errors
    /// When kind does not succeed.
    pub(super) fn create(member: &str, kubeconfig: &Path) -> Result<Self> {
        // The id keeps two test runs on one machine apart.
        let kind = Self { cluster: format!("gitfleet-{}-{member}", std::process::id()), keep: false };
        let mut command = Command::new("kind");
        command.args(["create", "cluster", "--wait", "120s", "--name", &kind.cluster, "--kubeconfig"]).arg(kubeconfig);
        run(&mut command)?;
        Ok(kind)
    }

    /// Runs a Docker command such as `pause` on the node.
    ///
    /// # Errors
    /// When Docker does not succeed.
    pub(super) fn docker(&self, verb: &str) -> Result<()> {
        run(Command::new("docker").arg(verb).arg(format!("{}-control-plane", self.cluster)))
    }

    /// Lets the cluster live on without a handle, and returns its name.
    pub(super) fn release(&mut self) -> String {
        self.keep = true;
        self.cluster.clone()
    }

    /// Deletes a cluster by the name that kind knows.
    ///
    /// # Errors
    /// When kind does not succeed.
    pub(super) fn delete(cluster: &str) -> Result<()> {
        run(Command::new("kind").args(["delete", "cluster", "--name", cluster]))
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = Self::delete(&self.cluster) {
            eprintln!("fleet: the kind cluster {} is left behind: {error:#}", self.cluster);
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
