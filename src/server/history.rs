//! What git holds of the source. The daemon reads it; pages and `status` show it.

use decide::status::records::PlacementRecords;
use model::id::ClusterName;
use model::overrides::OverrideSnapshot;
use views::subjects::Subjects;
use views::tree::Line;

/// Which objects of a placement are compared.
#[derive(Debug)]
pub enum Compared {
    /// Those of two snapshots, as git holds them.
    Snapshots {
        /// The earlier one; absent is nothing.
        from: Option<u64>,
        /// The later one.
        to: u64,
    },
    /// What a cluster holds with what it is to hold with a snapshot, overrides applied, and what it was seen to hold otherwise.
    OnCluster {
        /// The cluster.
        cluster: ClusterName,
        /// The snapshot.
        to: u64,
        /// All overrides.
        overrides: Vec<OverrideSnapshot>,
    },
}

/// Reads what git holds of the source.
pub trait SourceHistory: Subjects + Send + Sync {
    /// Returns the lines that differ, secret values masked. Takes as long as the objects take to be read.
    ///
    /// # Errors
    /// Git does not have a snapshot's commit, or the placement is not on the cluster, as text for users.
    fn differences(&self, of: &PlacementRecords, compared: Compared) -> Result<Vec<Line>, String>;
}
