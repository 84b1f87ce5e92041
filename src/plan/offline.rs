//! `gitfleet schedule`: scheduling alone, from objects to decisions: pure.
//!
//! It runs the daemon's steps over a fleet that the objects describe; objects that a hub exported continue the hub's decisions.

mod kubefleet;
mod ocm;

use jiff::Timestamp;
use serde_json::Value;

use model::api::FieldError;
use model::manifest::{InputError, Manifest};
use model::tree::Tree;

/// Returns the decisions about every placement of the objects: for KubeFleet's its policy snapshot with status, for OCM's its
/// PlacementDecisions and the Placement with status.
///
/// # Errors
/// All errors in the objects; then there are no decisions at all, because one object may affect all.
pub fn schedule(tree: &Tree, now: Timestamp) -> Result<Vec<Value>, Vec<InputError>> {
    // First: KubeFleet placements may take the clusters that these pick.
    let decided = ocm::decisions(tree, now)?;
    let mut objects = kubefleet::policy_snapshots(tree, &decided.clusters, now)?;
    objects.extend(decided.objects);
    Ok(objects)
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
