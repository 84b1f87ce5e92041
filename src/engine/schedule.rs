//! `gitfleet schedule`: scheduling alone, objects in and decisions out: pure.
//!
//! It runs the rooms that the daemon runs, over a fleet that the objects describe: what a hub exported goes on from where the
//! hub stands.

mod kubefleet;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::FieldError;
use crate::model::cluster::Cluster;
use crate::model::manifest::{InputError, Manifest};
use crate::model::tree::Tree;
use crate::schedule::Fleet;

/// Returns the decisions about every placement of the objects: for KubeFleet's its policy snapshot with status.
///
/// # Errors
/// Everything that is wrong with the objects; then there are no decisions at all, because one object may matter to all.
pub fn schedule(tree: &Tree, now: Timestamp) -> Result<Vec<Value>, Vec<InputError>> {
    kubefleet::policy_snapshots(tree, now)
}

/// Returns the fleet that MemberClusters describe.
fn fleet(tree: &Tree, _now: Timestamp) -> Fleet {
    tree.clusters.iter().map(|(name, member)| (name.clone(), Cluster::from(member))).collect()
}

/// Says of an object what is wrong with it.
fn complain(manifest: &Manifest, error: FieldError) -> InputError {
    InputError {
        path: manifest.origin.path.to_string(),
        line: manifest.origin.line,
        object: Some(manifest.id.to_string()),
        field: Some(error.field).filter(|field| !field.is_empty()),
        message: error.message,
        hint: error.hint,
    }
}
