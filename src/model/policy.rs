//! The minimum that the configuration demands of every commit, and that no commit can lower.

use super::glob::glob_matches;

/// The minimum. The default demands nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Large deletions wait for a person, whatever annotations say.
    pub deletion_guard: bool,
    /// Patterns of stages that need an approval.
    pub stages: Vec<String>,
    /// Patterns of clusters that need an approval: only stages may move them.
    pub clusters: Vec<String>,
    /// An approval must name the digest.
    pub digest: bool,
}

impl Floor {
    /// Tells whether a stage with these clusters needs an approval.
    pub fn asks_before<'a>(&self, stage: &str, mut clusters: impl Iterator<Item = &'a str>) -> bool {
        self.stages.iter().any(|pattern| glob_matches(pattern, stage)) || clusters.any(|cluster| self.asks_for(cluster))
    }

    /// Tells whether a cluster needs an approval before it moves.
    pub fn asks_for(&self, cluster: &str) -> bool {
        self.clusters.iter().any(|pattern| glob_matches(pattern, cluster))
    }
}
