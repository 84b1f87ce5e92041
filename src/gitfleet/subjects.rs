//! The history of the source, where this machine has it: what commits are about, and the objects of snapshots.

use std::path::Path;

use anyhow::Context as _;

use super::Daemon;
use super::records::load_configuration;
use daemon::run::state_dir;
use daemon::source_history::kept_reader;
use model::id::CommitId;

/// Opens what this machine has of the source's history; `None` where that is nothing, or no configuration says which it is.
pub(crate) fn reader(daemon: &Daemon) -> Option<git::Reader> {
    let configuration = load_configuration(&daemon.config_file()?).ok()?;
    kept_reader(configuration.all_sources(), &state_dir(&configuration)).ok()
}

/// Returns what reads the objects of snapshots: a clone that a person names, what this machine has of the source, or the repository around the
/// working folder. What folders were rendered to is in no clone: a daemon on this machine keeps it.
///
/// # Errors
/// There is no such clone, or nothing at all.
pub(crate) fn objects(daemon: &Daemon, clone: Option<&Path>) -> anyhow::Result<git::Reader> {
    let kept = reader(daemon);
    if let Some(clone) = clone {
        let (named, _) = git::discover(clone)?;
        return Ok(kept.map_or_else(|| named.clone(), |kept| named.with_blobs_of(&kept)));
    }
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let (reader, _) = git::discover(Path::new("."))
        .context("the snapshots are in git: name a clone of the source with --repo, or the configuration with -c")?;
    Ok(reader)
}

/// Reads the subjects of commits.
pub(crate) struct Subjects(git::Reader);

impl Subjects {
    /// Opens the source of the configuration. `None` without a configuration, or where nothing of the source is on this machine:
    /// commits are then shown without their subjects.
    pub(crate) fn open(daemon: &Daemon) -> Option<Self> {
        reader(daemon).map(Self)
    }

    /// Returns the subject of a commit; `None` where it is not there.
    pub(crate) fn of(&self, commit: &CommitId) -> Option<String> {
        self.0.subject(commit).ok()
    }
}
