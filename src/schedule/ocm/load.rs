//! Builds a hub from documents, for `schedule` and `plan`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Hub, Key, OcmMember};
use model::api::check::FieldError;
use model::api::object::Metadata;
use model::api::ocm::{AddOnPlacementScore, ManagedClusterSetSpec, PLACEMENT_LABEL, PlacementDecision};
use model::api::table;
use model::api::table::OCM_GROUP;
use model::id::ClusterName;

/// A document whose name and spec matter only; an absent spec is empty.
#[derive(serde::Deserialize)]
struct Plain<S> {
    metadata: Metadata,
    #[serde(default)]
    spec: S,
}

impl Hub {
    /// Reads the documents of a hub: managed clusters, sets, bindings, scores and decisions of any version; others are skipped.
    /// The order of documents does not matter.
    ///
    /// # Errors
    /// The position of the first invalid document, with all its invalid fields.
    pub fn read<'d>(documents: impl IntoIterator<Item = &'d Value>) -> Result<Self, (usize, Vec<FieldError>)> {
        let documents: Vec<(&str, &Value)> = documents.into_iter().map(|document| (kind(document), document)).collect();
        let mut members = BTreeMap::new();
        for (position, (kind, document)) in documents.iter().enumerate() {
            if !matches!(*kind, "" | "Placement")
                && let Some(kind) = table::lookup(OCM_GROUP, kind)
            {
                kind.check(document).map_err(|errors| (position, errors))?;
            }
            // Clusters first, in any position: all else is indexed by their slots, which each new cluster would shift.
            if *kind == "ManagedCluster" {
                let (name, member) = OcmMember::read(document).map_err(|errors| (position, errors))?;
                members.insert(name, member);
            }
        }
        let mut hub = Self::new(members);
        let mut decisions: BTreeMap<Key, Vec<String>> = BTreeMap::new();
        for (position, (kind, document)) in documents.into_iter().enumerate() {
            hub.add(kind, document, &mut decisions).map_err(|errors| (position, errors))?;
        }
        // All pages of a placement together: setting its decisions replaces the present ones.
        for (key, clusters) in &decisions {
            hub.set_decisions(key, clusters.iter().map(String::as_str));
        }
        Ok(hub)
    }

    fn add(
        &mut self,
        kind: &str,
        document: &Value,
        decisions: &mut BTreeMap<Key, Vec<String>>,
    ) -> Result<(), Vec<FieldError>> {
        match kind {
            "ManagedClusterSet" => {
                let set: Plain<ManagedClusterSetSpec> = typed(document)?;
                self.set_set(&set.metadata.name, Some(set.spec));
            }
            "ManagedClusterSetBinding" => {
                let binding: Plain<Value> = typed(document)?;
                self.set_binding(&binding.metadata.namespace, &binding.metadata.name, true);
            }
            "AddOnPlacementScore" => {
                let score: AddOnPlacementScore = typed(document)?;
                let cluster = ClusterName::from(score.metadata.namespace.as_str());
                self.set_score(&score.metadata.name, &cluster, Some(score.status));
            }
            "PlacementDecision" => {
                let decision: PlacementDecision = typed(document)?;
                // A page without the label belongs to no placement, but `Balance` counts it.
                let placement = decision.metadata.labels.get(PLACEMENT_LABEL).cloned().unwrap_or_default();
                let clusters = decision.status.decisions.into_iter().map(|decision| decision.cluster_name);
                decisions.entry(Key::new(decision.metadata.namespace, placement)).or_default().extend(clusters);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the kind of a document of Open Cluster Management's group; that of any other document is empty.
fn kind(document: &Value) -> &str {
    let group = document["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(group, _)| group);
    if group != Some(OCM_GROUP) {
        return "";
    }
    document["kind"].as_str().unwrap_or_default()
}

fn typed<T: DeserializeOwned>(document: &Value) -> Result<T, Vec<FieldError>> {
    let document = model::api::object::without_nulls(document);
    serde_json::from_value(document).map_err(|error| vec![FieldError::new("", error.to_string())])
}
