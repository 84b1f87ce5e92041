//! What the configuration demands of every commit: a floor that no repository content lowers.

use super::glob::glob_matches;

/// The floor. The default demands nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Large deletions wait for a person, whatever annotations say.
    pub deletion_guard: bool,
    /// Patterns of stages before which a person is asked.
    pub stages: Vec<String>,
    /// Patterns of clusters before which a person is asked: they are moved by stages only.
    pub clusters: Vec<String>,
    /// An approval names the digest of what was looked at.
    pub digest: bool,
}

impl Floor {
    /// Tells whether a person is asked before a stage with these clusters.
    pub fn asks_before<'a>(&self, stage: &str, mut clusters: impl Iterator<Item = &'a str>) -> bool {
        self.stages.iter().any(|pattern| glob_matches(pattern, stage)) || clusters.any(|cluster| self.asks_for(cluster))
    }

    /// Tells whether a person is asked before a cluster is moved.
    pub fn asks_for(&self, cluster: &str) -> bool {
        self.clusters.iter().any(|pattern| glob_matches(pattern, cluster))
    }
}
