//! The record of commits that the followed branch dropped.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::CommitId;

/// Commits that records name and that are no part of the branch any more, because its history was rewritten. Where several daemons share
/// the store, their objects are here: the next leader may have a mirror that never had them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DroppedCommits {
    /// The tip of the branch. What it holds is not repeated here.
    pub tip: Option<CommitId>,
    /// The commits whose objects are here.
    pub commits: BTreeSet<CommitId>,
    /// Those whose objects are in the leader's mirror alone: all together would be too large.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left_out: BTreeSet<CommitId>,
    /// The objects, packed by the git adapter, in base64.
    pub objects: String,
}
