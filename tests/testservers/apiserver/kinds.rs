//! The kinds a cluster serves: the built-in ones by a table, others by their definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use model::kinds::BUILT_IN;
use model::tree::Scope;
use serde_json::Value;

use super::answer::{Status, no_path, not_served};

/// The group of CustomResourceDefinitions.
pub(super) const DEFINITIONS_GROUP: &str = "apiextensions.k8s.io";
/// Questions and parts of other objects: they are not stored.
const NOT_STORED: [&str; 3] = ["Binding", "ComponentStatus", "TokenReview"];
/// Kinds that have a stable version since Kubernetes 1.37: this server is of 1.36.
const NEWER: [&str; 4] = ["ClusterTrustBundle", "DeviceTaintRule", "PodCertificateRequest", "StorageVersionMigration"];
/// Kinds whose status only the sub-resource writes.
const WITH_STATUS: [&str; 21] = [
    "APIService",
    "CertificateSigningRequest",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "FlowSchema",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Job",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "Service",
    "StatefulSet",
];
/// Built-in groups whose objects count their generations.
const COUNTED_GROUPS: [&str; 8] = [
    "apps",
    "batch",
    "networking.k8s.io",
    "policy",
    "admissionregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "apiextensions.k8s.io",
    "discovery.k8s.io",
];

/// The group and the name in URLs of a kind.
pub(super) type KindKey = (String, String);

/// A kind that is served.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that kinds differ in, and none depends on another"
)]
pub(super) struct Kind {
    pub group: String,
    /// The first is preferred.
    pub versions: Vec<String>,
    /// Such as `Deployment`.
    pub name: String,
    pub list: String,
    pub plural: String,
    pub is_namespaced: bool,
    pub has_status: bool,
    /// Whether changes of anything but metadata and status are counted.
    pub has_generation: bool,
    /// Defined by a CustomResourceDefinition.
    pub is_custom: bool,
}

impl Kind {
    pub(super) fn key(&self) -> KindKey {
        (self.group.clone(), self.plural.clone())
    }

    /// Returns `group/version`, or the version alone in the core group.
    pub(super) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Returns `plural.group`, as messages name it.
    pub(super) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(super) fn is_core(&self, kind: &str) -> bool {
        self.group.is_empty() && self.name == kind
    }

    pub(super) fn is_definition(&self) -> bool {
        self.group == DEFINITIONS_GROUP && self.name == "CustomResourceDefinition"
    }

    /// Reads the kind that a definition defines.
    pub(super) fn defined(definition: &Value) -> Option<Self> {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let kind = text("/spec/names/kind")?;
        let all = definition.pointer("/spec/versions")?.as_array()?;
        let served = all.iter().filter(|version| version["served"] != false);
        Some(Self {
            group: text("/spec/group")?,
            versions: served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect(),
            list: text("/spec/names/listKind").unwrap_or_else(|| format!("{kind}List")),
            name: kind,
            plural: text("/spec/names/plural")?,
            is_namespaced: text("/spec/scope").is_some_and(|scope| scope == "Namespaced"),
            has_status: all.iter().any(|version| version.pointer("/subresources/status").is_some()),
            has_generation: true,
            is_custom: true,
        })
    }
}

/// The built-in kinds.
pub(super) fn built_in() -> &'static BTreeMap<KindKey, Arc<Kind>> {
    static KINDS: OnceLock<BTreeMap<KindKey, Arc<Kind>>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let mut kinds: BTreeMap<KindKey, Kind> = BTreeMap::new();
        for known in BUILT_IN {
            // As an API server does by default: no version that is not stable.
            let is_stable = !known.version.contains("alpha") && !known.version.contains("beta");
            let is_left_out = NOT_STORED.contains(&known.kind) || NEWER.contains(&known.kind);
            if !is_stable || known.kind.ends_with("Review") || is_left_out {
                continue;
            }
            let kind = kinds.entry((known.group.to_owned(), known.plural.to_owned())).or_insert_with(|| Kind {
                group: known.group.to_owned(),
                versions: Vec::new(),
                name: known.kind.to_owned(),
                list: format!("{}List", known.kind),
                plural: known.plural.to_owned(),
                is_namespaced: known.scope == Scope::Namespaced,
                has_status: WITH_STATUS.contains(&known.kind),
                has_generation: COUNTED_GROUPS.contains(&known.group),
                is_custom: false,
            });
            kind.versions.push(known.version.to_owned());
        }
        kinds.into_iter().map(|(key, kind)| (key, Arc::new(kind))).collect()
    })
}

/// Finds a kind in a version, among the built-in ones and those that a cluster defines.
pub(super) fn find(
    custom: &BTreeMap<KindKey, Arc<Kind>>,
    group: &str,
    version: &str,
    plural: &str,
) -> Result<Arc<Kind>, Status> {
    let key = (group.to_owned(), plural.to_owned());
    let is_in = |kind: &&Arc<Kind>| kind.versions.iter().any(|v| v == version);
    if let Some(kind) = built_in().get(&key).or_else(|| custom.get(&key)).filter(is_in) {
        return Ok(Arc::clone(kind));
    }
    let mut all = built_in().values().chain(custom.values());
    Err(if all.any(|kind| kind.group == group && is_in(&kind)) { not_served() } else { no_path() })
}
