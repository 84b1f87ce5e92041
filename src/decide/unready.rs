//! Why a run has not begun.

/// Why a run does not begin yet.
pub(super) enum Unready {
    /// It will, automatically.
    Waits(String),
    /// It will with the first cluster that is picked.
    WithoutClusters,
    /// Something about the run must change first.
    Refused(String),
}
