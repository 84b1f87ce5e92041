//! A managed cluster for OCM Placements.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use model::api::check::{FieldError, quantity_nanos};
use model::api::ocm::{DEFAULT_SET, ManagedClusterTaint, Quantity, SET_LABEL};
use model::api::table;
use model::api::table::{Checked, OCM_GROUP};
use model::id::ClusterName;

/// KubeFleet's names of the properties for a resource: the resource, its allocatable and its total amount.
const PROPERTIES: [(&str, &str, &str); 2] = [
    ("cpu", "resources.kubernetes-fleet.io/allocatable-cpu", "resources.kubernetes-fleet.io/total-cpu"),
    ("memory", "resources.kubernetes-fleet.io/allocatable-memory", "resources.kubernetes-fleet.io/total-memory"),
];

/// A managed cluster for OCM Placements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OcmMember {
    /// `metadata.labels`, with the label of a set.
    pub labels: BTreeMap<String, String>,
    /// `status.clusterClaims` by name; the last of a name counts.
    pub claims: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<ManagedClusterTaint>,
    /// `status.allocatable`.
    pub allocatable: BTreeMap<String, Quantity>,
    /// `status.capacity`: a cluster has a rank by a resource only if it is here too.
    pub capacity: BTreeMap<String, Quantity>,
    /// Whether it is being deleted: nothing is placed there.
    pub deleting: bool,
    /// The whole object with the label of a set, for expressions.
    pub object: Arc<Value>,
}

impl OcmMember {
    /// Reads a ManagedCluster document. One whose label names no set is in the set `default`.
    ///
    /// Source: OCM, whose webhook writes that label where it is absent or empty.
    ///
    /// # Errors
    /// Every invalid field, and documents of another kind.
    pub fn read(document: &Value) -> Result<(ClusterName, Self), Vec<FieldError>> {
        let kind = table::lookup(OCM_GROUP, "ManagedCluster").expect("the kind is in the table");
        let Checked::ManagedCluster(mut cluster) = kind.check(document)? else {
            return Err(vec![FieldError::new("kind", "is not ManagedCluster")]);
        };
        let mut document = document.clone();
        if cluster.labels.get(SET_LABEL).is_none_or(String::is_empty) {
            cluster.labels.insert(SET_LABEL.to_owned(), DEFAULT_SET.to_owned());
            document["metadata"]["labels"] = json!(cluster.labels);
        }
        let metadata = &document["metadata"];
        let name = ClusterName::from(metadata["name"].as_str().unwrap_or_default());
        let status = cluster.status.unwrap_or_default();
        let member = Self {
            labels: cluster.labels,
            claims: status.cluster_claims.into_iter().map(|claim| (claim.name, claim.value)).collect(),
            taints: cluster.spec.taints,
            allocatable: status.allocatable,
            capacity: status.capacity,
            deleting: metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null()),
            object: Arc::new(document),
        };
        Ok((name, member))
    }

    /// Takes cpu and memory from properties if the object's status lacks them: a cluster without Open Cluster Management's
    /// agent is observed, or described by annotation, with KubeFleet's names.
    pub fn fill_resources(&mut self, properties: &BTreeMap<String, String>) {
        for (resource, allocatable, capacity) in PROPERTIES {
            for (target, property) in [(&mut self.allocatable, allocatable), (&mut self.capacity, capacity)] {
                if let Some(value) = properties.get(property) {
                    target.entry(resource.to_owned()).or_insert_with(|| Quantity::Text(value.clone()));
                }
            }
        }
    }

    /// Takes what the cluster claims of itself, where the object's status has no claim of that name. Expressions see it, too.
    pub fn fill_claims(&mut self, seen: &BTreeMap<String, String>) {
        let before = self.claims.len();
        for (name, value) in seen {
            self.claims.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if self.claims.len() > before {
            let claims: Vec<Value> =
                self.claims.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            Arc::make_mut(&mut self.object)["status"]["clusterClaims"] = claims.into();
        }
    }

    /// Returns the allocatable amount of a resource, in its unit; `None` for a cluster without a rank by it.
    pub(super) fn ranked_resource(&self, resource: &str) -> Option<f64> {
        self.capacity.get(resource)?;
        quantity(self.allocatable.get(resource)?)
    }
}

/// Returns a quantity as a number; `None` if it is invalid.
///
/// Source: Kubernetes apimachinery, `Quantity.AsApproximateFloat64`: digits times a power of ten.
fn quantity(quantity: &Quantity) -> Option<f64> {
    let nanos = match quantity {
        Quantity::Text(text) => quantity_nanos(text)?,
        Quantity::Number(number) => quantity_nanos(&number.to_string())?,
    };
    // Whole numbers are divided first: bytes of memory in billionths have more digits than a float.
    #[allow(clippy::cast_precision_loss, reason = "the original rounds, too")]
    let scaled = |unit: i128, factor: f64| (nanos % unit == 0).then(|| (nanos / unit) as f64 * factor);
    scaled(1_000_000_000, 1.0).or_else(|| scaled(1_000_000, 1e-3)).or_else(|| scaled(1, 1e-9))
}
