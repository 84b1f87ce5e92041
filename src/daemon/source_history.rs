//! Reads what git holds of the source, for whoever looks at it: subjects of commits, and what snapshots consist of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::manifests::{Manifests, texts};
use super::run::state_dir;
use config::Configuration;
use decide::status::records::PlacementRecords;
use engine::store::saved::Records;
use model::id::CommitId;
use model::tree::JoinedSource;
use server::{Compared, SourceHistory};
use views::differences::{changes, live_differences};
use views::redact::MaskKey;
use views::subjects::Subjects;
use views::tree::Line;

/// Commits of which is remembered what they are about; more begin from nothing.
const COMMITS_MAX: usize = 1_000;

/// What git holds of the source of a configuration.
#[derive(Debug)]
pub struct GitHistory {
    sources: Vec<config::Source>,
    state_dir: PathBuf,
    mask: MaskKey,
    subjects: Mutex<BTreeMap<CommitId, String>>,
    joined: Mutex<BTreeMap<CommitId, Vec<JoinedSource>>>,
}

impl GitHistory {
    /// Names the source, and the key of markers for secret values. Nothing is read yet.
    pub fn new(configuration: &Configuration, mask: MaskKey) -> Self {
        Self {
            sources: configuration.all_sources().to_vec(),
            state_dir: state_dir(configuration),
            mask,
            subjects: Mutex::default(),
            joined: Mutex::default(),
        }
    }

    fn reader(&self) -> Result<git::Reader, git::Error> {
        kept_reader(&self.sources, &self.state_dir)
    }
}

/// Opens what this machine has of sources, for reading alone; see [`git::read_kept`].
///
/// # Errors
/// There is nothing yet, or it cannot be opened.
pub fn kept_reader(sources: &[config::Source], state_dir: &Path) -> Result<git::Reader, git::Error> {
    match sources {
        [only] if only.name.is_empty() => git::read_kept(&only.url, &only.path, state_dir),
        several => git::read_kept_sources(several.iter().map(|it| (&*it.url, &*it.path)), state_dir),
    }
}

impl Subjects for GitHistory {
    fn subject(&self, commit: &CommitId) -> Option<String> {
        remembered(&self.subjects, commit, || self.reader().and_then(|reader| reader.subject(commit)).ok())
    }

    fn joined(&self, commit: &CommitId) -> Vec<JoinedSource> {
        if matches!(&self.sources[..], [only] if only.name.is_empty()) {
            return Vec::new();
        }
        let read = || self.reader().and_then(|reader| git::joined_sources(&reader, commit)).ok().flatten();
        remembered(&self.joined, commit, read).unwrap_or_default()
    }
}

/// Returns what is known of a commit, or what is read of it. What cannot be read is tried again next time.
fn remembered<T: Clone>(
    known: &Mutex<BTreeMap<CommitId, T>>,
    commit: &CommitId,
    read: impl FnOnce() -> Option<T>,
) -> Option<T> {
    if let Some(found) = known.lock().unwrap_or_else(PoisonError::into_inner).get(commit) {
        return Some(found.clone());
    }
    let found = read()?;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= COMMITS_MAX {
        known.clear();
    }
    known.insert(commit.clone(), found.clone());
    Some(found)
}

impl SourceHistory for GitHistory {
    fn differences(&self, of: &PlacementRecords, compared: Compared) -> Result<Vec<Line>, String> {
        let key = &of.record.key;
        let mut saved = Records { snapshots: [(key.clone(), of.snapshots.clone())].into(), ..Records::default() };
        let reader = self.reader().map_err(|why| why.to_string())?;
        let (read, live) = match compared {
            Compared::Snapshots { from, to } => {
                let mut manifests = Manifests::read_by(&saved, reader, false).masked_by(self.mask.clone());
                (manifests.between(key, from, to), Vec::new())
            }
            Compared::OnCluster { cluster, to, overrides } => {
                let binding = of.bindings.iter().find(|binding| binding.cluster == cluster && !binding.deleting);
                let binding = binding.ok_or_else(|| format!("{key} is not on {cluster}"))?;
                saved.overrides = overrides;
                let mut manifests = Manifests::read_by(&saved, reader, false).masked_by(self.mask.clone());
                let live = of.work(binding).map(|work| live_differences(&work.manifests));
                (manifests.both(binding, to), live.unwrap_or_default())
            }
        };
        let (old, new) = read.map_err(|why| format!("{why:#}"))?;
        let mut lines = changes(&texts(&old), &texts(&new));
        lines.extend(live);
        Ok(lines)
    }
}
