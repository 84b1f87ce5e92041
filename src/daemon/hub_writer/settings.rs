//! Which hub is written to, and which of its failures pass.

use std::path::PathBuf;

use cluster::Error;
use engine::HubReport;
use model::api::table::OCM_GROUP;
use model::error::ErrorClass;
use model::work::SourceName;

/// The hub's location and the objects on it.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// The context in it; `None` for the current one.
    pub context: Option<String>,
    /// Programs that may run to sign in.
    pub allow_exec: Vec<String>,
    /// The namespace of Argo CD.
    pub namespace: String,
    /// The ConfigMap that ApplicationSets name.
    pub config_map: String,
    /// Identity of our source: objects of another source are left alone.
    pub source: SourceName,
}

/// Returns the report that the hub cannot be used.
pub(super) fn failed(error: &Error) -> HubReport {
    HubReport { done: None, failure: Some(failure_text(error)), is_passing: is_passing(error), problems: Vec::new() }
}

/// Tells whether the next try may succeed: the hub is busy, or did not answer.
pub(super) fn is_passing(error: &Error) -> bool {
    error.class() == ErrorClass::Transient
}

pub(super) fn failure_text(error: &Error) -> String {
    let advice = "apply deploy/argocd/placementdecisions.yaml there, or install OCM";
    match error {
        Error::Refused { code: 404, object, .. } if object.starts_with("PlacementDecision") => {
            format!("the hub knows no PlacementDecision ({OCM_GROUP}/v1beta1): {advice}")
        }
        error => error.to_string(),
    }
}
