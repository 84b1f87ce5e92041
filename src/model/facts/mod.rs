//! Facts about a member cluster: how many nodes it has and of which machine types, how much cpu, memory and extended
//! resources, and how much of these pods have asked for.
//!
//! Pure: watches feed a [`Tally`] with nodes and pods, and it returns the sums at any time without visiting them again. A node
//! or pod costs an identity and its amounts, whatever its size as an object.

mod amounts;
mod decimal;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use amounts::{Amounts, NodeStatus, PodSpec, PodStatus, Totals};
pub use tally::Tally;

use crate::api::annotations;
use crate::api::cluster::MemberCluster;

/// The property with the number of nodes, including unready and cordoned ones.
pub const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";
/// The same number with the name of KubeFleet's Azure provider.
pub const NODE_COUNT_AZURE: &str = "kubernetes.azure.com/node-count";
/// What stands before and behind a machine type in the name of the property that counts nodes of it.
pub const MACHINE_TYPE_COUNT: (&str, &str) = ("kubernetes.azure.com/vm-sizes/", "/count");
/// Labels of a node that name its machine type; the first that is there counts.
pub const MACHINE_TYPE_LABELS: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];
/// Machine types of one cluster that become properties; further ones, in the order of their names, do not.
pub const MACHINE_TYPES_MAX: usize = 256;
/// The property with the version of the API server.
pub const KUBERNETES_VERSION: &str = "k8s.io/k8s-version";
/// The prefix of properties about cpu and memory: `total-cpu`, `available-memory` and so on follow.
pub const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";
/// The greatest number of properties in git for one cluster; further ones, sorted by name, are ignored.
pub const STATED_MAX: usize = 256;

/// The parts of a cluster's resources: their names in `status.resourceUsage`, and in the properties.
pub const PARTS: [(&str, &str); 3] =
    [("capacity", "total"), ("allocatable", "allocatable"), ("available", "available")];

/// What is known of a cluster's nodes and pods, and what it claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The nodes, or why they are unknown, as text for users.
    pub nodes: Result<NodeFacts, String>,
    /// The requests of pods on nodes, or why they are unknown, as text for users.
    pub requested: Result<Totals, String>,
    /// What it claims of itself, by name; absent where that is not known.
    pub claims: Option<BTreeMap<String, String>>,
    /// Why its claims cannot be read, for people.
    pub claims_failed: Option<String>,
}

/// The sums over the nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// The number of nodes.
    pub count: usize,
    /// Their capacity.
    pub capacity: Totals,
    /// The amounts that pods may request.
    pub allocatable: Totals,
    /// How many there are of each machine type; a node whose labels name none is of none.
    #[serde(with = "decimal::map")]
    pub machine_types: BTreeMap<String, u128>,
}

impl Facts {
    /// Takes what nodes and pods say, where nothing is known of claims.
    pub fn new(nodes: Result<NodeFacts, String>, requested: Result<Totals, String>) -> Self {
        Self { nodes, requested, claims: None, claims_failed: None }
    }

    /// Returns what is left for pods, by resource never below zero; `None` where nodes or pods are not known.
    pub fn available(&self) -> Option<Totals> {
        let nodes = self.nodes.as_ref().ok()?;
        let requested = self.requested.as_ref().ok()?;
        Some(nodes.allocatable.less(requested))
    }

    /// Returns the properties; unknown values are left out.
    ///
    /// Source: KubeFleet's property names. Quantities have Kubernetes' canonical form.
    pub fn properties(&self) -> BTreeMap<String, String> {
        let mut properties = BTreeMap::new();
        let nodes = self.nodes.as_ref().ok();
        for name in [NODE_COUNT, NODE_COUNT_AZURE] {
            properties.extend(nodes.map(|nodes| (name.to_owned(), nodes.count.to_string())));
        }
        let (before, after) = MACHINE_TYPE_COUNT;
        let machines = nodes.into_iter().flat_map(|nodes| &nodes.machine_types).take(MACHINE_TYPES_MAX);
        properties.extend(machines.map(|(name, count)| (format!("{before}{name}{after}"), count.to_string())));
        let available = self.available();
        let parts = [nodes.map(|n| &n.capacity), nodes.map(|n| &n.allocatable), available.as_ref()];
        for ((_, word), totals) in PARTS.into_iter().zip(parts) {
            let Some(totals) = totals else { continue };
            properties.insert(format!("{RESOURCE_PREFIX}{word}-cpu"), totals.cpu());
            properties.insert(format!("{RESOURCE_PREFIX}{word}-memory"), totals.memory());
            properties
                .extend(totals.extended().map(|(name, amount)| (format!("{RESOURCE_PREFIX}{word}-{name}"), amount)));
        }
        properties
    }

    /// Returns why properties or claims are missing, for people; `None` where none is.
    pub fn complaint(&self) -> Option<String> {
        let failures = [self.nodes.as_ref().err(), self.requested.as_ref().err(), self.claims_failed.as_ref()];
        let failures: Vec<&str> = failures.into_iter().flatten().map(String::as_str).collect();
        (!failures.is_empty()).then(|| failures.join("; "))
    }
}

/// Groups the properties about resources by part (`capacity`, `allocatable`, `available`) and resource (`cpu`, ...).
///
/// This is the form of `status.resourceUsage` of a MemberCluster, and of `status.capacity` and `status.allocatable` of a
/// ManagedCluster.
pub fn resource_usage(properties: &BTreeMap<String, String>) -> BTreeMap<&'static str, BTreeMap<String, String>> {
    let mut usage: BTreeMap<&'static str, BTreeMap<String, String>> = BTreeMap::new();
    for (name, quantity) in properties {
        let split = name.strip_prefix(RESOURCE_PREFIX).and_then(|rest| rest.split_once('-'));
        let part = split.and_then(|(word, _)| PARTS.iter().find(|(_, known)| *known == word));
        if let (Some((_, resource)), Some((part, _))) = (split, part) {
            usage.entry(part).or_default().insert(resource.to_owned(), quantity.clone());
        }
    }
    usage
}

/// Returns a cluster's properties in git: those of its status, overridden by the annotation. At most [`STATED_MAX`].
pub fn stated(member: &MemberCluster) -> BTreeMap<String, String> {
    let status = member.status.as_ref();
    let listed = status.and_then(|s| s.get("properties")?.as_object()).into_iter().flatten();
    let listed = listed.filter_map(|(name, property)| Some((name.clone(), text(property.get("value")?)?)));
    let usage = PARTS.iter().flat_map(|(part, word)| {
        let quantities = status.and_then(|s| s.get("resourceUsage")?.get(part)?.as_object()).into_iter().flatten();
        quantities.filter_map(move |(resource, quantity)| {
            Some((format!("{RESOURCE_PREFIX}{word}-{resource}"), text(quantity)?))
        })
    });
    let annotation = member.annotations.get(annotations::PROPERTIES);
    let annotated = annotation.and_then(|text| annotations::parse_properties(text).ok()).unwrap_or_default();
    let all: BTreeMap<String, String> = listed.chain(usage).chain(annotated).collect();
    all.into_iter().take(STATED_MAX).collect()
}

/// Returns a quantity, which an API server takes as a number too.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
