//! The history of the source, where this machine has it: what commits are about.

use super::Daemon;
use super::records::load_configuration;
use crate::daemon::run::state_dir;
use crate::daemon::source_history::kept_reader;
use crate::git;
use crate::model::id::CommitId;

/// Opens what this machine has of the source's history; `None` where that is nothing, or no configuration says which it is.
pub fn reader(daemon: &Daemon) -> Option<git::Reader> {
    let configuration = load_configuration(&daemon.config_file()?).ok()?;
    kept_reader(configuration.all_sources(), &state_dir(&configuration)).ok()
}

/// Reads the subjects of commits.
pub struct Subjects(git::Reader);

impl Subjects {
    /// Opens the source of the configuration. `None` without a configuration, or where nothing of the source is on this machine:
    /// commits are then shown without their subjects.
    pub fn open(daemon: &Daemon) -> Option<Self> {
        reader(daemon).map(Self)
    }

    /// Returns the subject of a commit; `None` where it is not there.
    pub fn of(&self, commit: &CommitId) -> Option<String> {
        self.0.subject(commit).ok()
    }
}
