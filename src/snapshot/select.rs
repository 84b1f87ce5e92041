//! Which objects of the tree a placement places.

use std::collections::BTreeMap;

use crate::api::placement::{LabelSelector, ResourceSelector, SelectionScope};
use crate::error::{Classify, ErrorClass};
use crate::model::id::ObjectId;
use crate::model::manifest::Manifest;
use crate::model::tree::{Placement, Scope, Tree};

use super::sanitise::{sanitised, sort_for_snapshot};

const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";

/// Groups whose objects are never placed: a selector for them contributes nothing.
const DISABLED_GROUPS: [&str; 4] =
    ["cluster.kubernetes-fleet.io", "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"];

/// Kinds of other groups that are never placed.
const DISABLED_KINDS: [(&str, &str); 6] = [
    ("", "Pod"),
    ("", "Node"),
    ("", "Event"),
    ("networking.fleet.azure.com", "ServiceImport"),
    ("networking.fleet.azure.com", "TrafficManagerProfile"),
    ("networking.fleet.azure.com", "TrafficManagerBackend"),
];

/// The kinds of the placement group that are payload.
const ENVELOPES: [&str; 2] = ["ClusterResourceEnvelope", "ResourceEnvelope"];

/// Why a placement's selectors cannot be evaluated. Each concerns that placement alone, which keeps its last good state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A ResourcePlacement selects a Namespace.
    #[error("{field} selects a Namespace, which a ResourcePlacement cannot place; use a ClusterResourcePlacement")]
    NamespaceInResourcePlacement {
        /// The selector.
        field: String,
    },
    /// A Namespace that a placement must not take with its resources.
    #[error(
        "{field} selects the reserved namespace {namespace} with its resources; select others, or use selectionScope NamespaceOnly"
    )]
    ReservedNamespace {
        /// The selector.
        field: String,
        /// The namespace.
        namespace: String,
    },
    /// `NamespaceWithResourceSelectors` names no namespace of the tree.
    #[error("{field} names the namespace {namespace}, which has no Namespace document; add one, or correct the name")]
    NamespaceNotFound {
        /// The selector.
        field: String,
        /// The namespace.
        namespace: String,
    },
    /// A ClusterResourcePlacement selects a namespaced kind by itself.
    #[error(
        "{field} selects {kind}, which lives in namespaces; select its Namespace, with selectionScope NamespaceWithResourceSelectors to take only some kinds, or use a ResourcePlacement"
    )]
    NamespacedKind {
        /// The selector.
        field: String,
        /// The kind, with its group.
        kind: String,
    },
    /// A ResourcePlacement selects a cluster-scoped kind.
    #[error(
        "{field} selects {kind}, which lives in no namespace; a ResourcePlacement places objects of its namespace only, use a ClusterResourcePlacement"
    )]
    ClusterScopedKind {
        /// The selector.
        field: String,
        /// The kind, with its group.
        kind: String,
    },
    /// Neither a built-in kind, nor defined by the tree, nor any document's.
    #[error(
        "{field} selects {kind}, which is no built-in kind, has no CustomResourceDefinition here and no document; correct the group or kind, or add its definition"
    )]
    UnknownKind {
        /// The selector.
        field: String,
        /// The kind, with its group.
        kind: String,
    },
    /// Two selectors select one object.
    #[error("{object} is selected more than once; narrow the selectors so that each object is selected by one of them")]
    Duplicate {
        /// The object.
        object: String,
    },
    /// Envelopes are not unwrapped yet.
    #[error("{object} is an envelope, which gitfleet cannot unwrap yet; place its contents directly")]
    Envelope {
        /// The envelope, or the kind selected.
        object: String,
    },
}

impl Classify for SelectionError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Invalid
    }
}

/// Returns the objects a placement places: sanitised, in snapshot order. An object is copied only where sanitising
/// changes it. A selector that matches nothing contributes nothing.
///
/// Selectors match by group and kind; their version only has to be there. An API server would convert the object to the
/// selector's version; a tree has the version it was written in, and that is what is placed.
///
/// # Errors
/// Every rule a selector can break with the tree; the whole placement then selects nothing.
///
/// Source: KubeFleet, resource selection of the placement controller; persistent volume claims are placed, because the
/// hub here is git and runs no workloads.
pub fn select(tree: &Tree, placement: &Placement) -> Result<Vec<Manifest>, SelectionError> {
    let selection = Selection::new(tree, placement)?;
    let mut found: Vec<&Manifest> = Vec::new();
    for (index, selector) in placement.spec.resource_selectors.iter().enumerate() {
        selection.evaluate(&field(index), selector, &mut found)?;
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    if let Some(pair) = found.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(SelectionError::Duplicate { object: pair[0].id.to_string() });
    }
    let mut manifests: Vec<Manifest> = found.into_iter().map(sanitised).collect();
    sort_for_snapshot(&mut manifests);
    Ok(manifests)
}

fn field(index: usize) -> String {
    format!("spec.resourceSelectors[{index}]")
}

/// Returns `Kind.group`, as kubectl names kinds.
fn kind_name(selector: &ResourceSelector) -> String {
    if selector.group.is_empty() { selector.kind.clone() } else { format!("{}.{}", selector.kind, selector.group) }
}

fn is_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty() && selector.kind == "Namespace"
}

/// Namespaces that are never placed with their resources.
fn is_reserved(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-") || namespace.starts_with("fleet-")
}

fn is_disabled(group: &str, kind: &str) -> bool {
    DISABLED_GROUPS.contains(&group)
        || DISABLED_KINDS.contains(&(group, kind))
        || (group == PLACEMENT_GROUP && kind != "AppliedWork" && !ENVELOPES.contains(&kind))
}

/// One placement's selectors over one tree.
struct Selection<'a> {
    tree: &'a Tree,
    /// The namespace to which selectors of namespaced kinds are confined; `None` where they are not allowed.
    namespace: Option<&'a str>,
    /// Whether the placement is a ResourcePlacement.
    namespaced: bool,
}

impl<'a> Selection<'a> {
    /// Resolves the one namespace that selectors of namespaced kinds look into.
    fn new(tree: &'a Tree, placement: &'a Placement) -> Result<Self, SelectionError> {
        let mut selection =
            Self { tree, namespace: placement.key.namespace.as_deref(), namespaced: placement.key.namespace.is_some() };
        if selection.namespaced {
            return Ok(selection);
        }
        let chosen = placement.spec.resource_selectors.iter().enumerate().find(|(_, selector)| {
            is_namespace(selector) && selector.selection_scope == SelectionScope::NamespaceWithResourceSelectors
        });
        if let Some((index, selector)) = chosen {
            let (field, namespace) = (field(index), selector.name.clone());
            if is_reserved(&namespace) {
                return Err(SelectionError::ReservedNamespace { field, namespace });
            }
            if !tree.of_kind("", "Namespace").any(|m| m.id.name == namespace && !is_terminating(m)) {
                return Err(SelectionError::NamespaceNotFound { field, namespace });
            }
            selection.namespace = Some(&selector.name);
        }
        Ok(selection)
    }

    fn evaluate(
        &self,
        field: &str,
        selector: &ResourceSelector,
        found: &mut Vec<&'a Manifest>,
    ) -> Result<(), SelectionError> {
        let field = || field.to_owned();
        if is_disabled(&selector.group, &selector.kind) {
            return Ok(());
        }
        if is_namespace(selector) {
            if self.namespaced {
                return Err(SelectionError::NamespaceInResourcePlacement { field: field() });
            }
            return self.evaluate_namespaces(&field(), selector, found);
        }
        let kind = || kind_name(selector);
        if selector.group == PLACEMENT_GROUP && ENVELOPES.contains(&selector.kind.as_str()) {
            return Err(SelectionError::Envelope { object: kind() });
        }
        let scope = self.scope(selector).ok_or_else(|| SelectionError::UnknownKind { field: field(), kind: kind() })?;
        let namespace = match (scope, self.namespace) {
            (Scope::Cluster, _) if self.namespaced => {
                return Err(SelectionError::ClusterScopedKind { field: field(), kind: kind() });
            }
            (Scope::Namespaced, None) => {
                return Err(SelectionError::NamespacedKind { field: field(), kind: kind() });
            }
            (Scope::Cluster, _) => "",
            (Scope::Namespaced, Some(namespace)) => namespace,
        };
        found.extend(self.matching(selector).filter(|m| m.id.namespace == namespace && self.is_placed(m)));
        Ok(())
    }

    /// Selects Namespace objects and, by default, all that is in them.
    fn evaluate_namespaces(
        &self,
        field: &str,
        selector: &ResourceSelector,
        found: &mut Vec<&'a Manifest>,
    ) -> Result<(), SelectionError> {
        let reserved = |namespace: &str| SelectionError::ReservedNamespace {
            field: field.to_owned(),
            namespace: namespace.to_owned(),
        };
        let whole = selector.selection_scope == SelectionScope::NamespaceWithResources;
        if whole && is_reserved(&selector.name) {
            return Err(reserved(&selector.name));
        }
        for namespace in self.matching(selector) {
            let name = namespace.id.name.as_str();
            if whole && is_reserved(name) {
                return Err(reserved(name));
            }
            if is_terminating(namespace) {
                continue;
            }
            found.push(namespace);
            if whole {
                self.refuse_envelopes(name)?;
                found.extend(self.tree.in_namespace(name).filter(|m| self.is_placed(m)));
            }
        }
        Ok(())
    }

    fn refuse_envelopes(&self, namespace: &str) -> Result<(), SelectionError> {
        let envelope = self.tree.inputs.iter().find(|input| {
            input.id.namespace == namespace
                && input.id.group == PLACEMENT_GROUP
                && ENVELOPES.contains(&input.id.kind.as_str())
        });
        envelope.map_or(Ok(()), |input| Err(SelectionError::Envelope { object: input.id.to_string() }))
    }

    /// Returns the scope of a selector's kind, or `None` for a kind nobody knows.
    fn scope(&self, selector: &ResourceSelector) -> Option<Scope> {
        let known = self.tree.scopes.get(&(selector.group.clone(), selector.kind.clone())).copied();
        known.or_else(|| {
            let document = self.tree.of_kind(&selector.group, &selector.kind).next()?;
            Some(if document.id.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced })
        })
    }

    /// Returns the documents of a selector's kind that have its name or fit its labels.
    fn matching<'s>(&self, selector: &'s ResourceSelector) -> impl Iterator<Item = &'a Manifest> + use<'a, 's> {
        self.tree.of_kind(&selector.group, &selector.kind).filter(move |manifest| {
            (selector.name.is_empty() || manifest.id.name == selector.name)
                && selector.label_selector.as_ref().is_none_or(|labels| fits(labels, manifest))
        })
    }

    /// Leaves out what a cluster makes by itself and what is going away.
    fn is_placed(&self, manifest: &Manifest) -> bool {
        let id = &manifest.id;
        if is_terminating(manifest) || is_disabled(&id.group, &id.kind) {
            return false;
        }
        let object = &manifest.object;
        match (id.group.as_str(), id.kind.as_str()) {
            ("apps", "ReplicaSet" | "ControllerRevision") => {
                object.pointer("/metadata/ownerReferences").and_then(|o| o.as_array()).is_none_or(Vec::is_empty)
            }
            ("", "ConfigMap") => id.name != "kube-root-ca.crt",
            ("", "ServiceAccount") => id.name != "default",
            ("", "Secret") => object.get("type").is_none_or(|t| t != "kubernetes.io/service-account-token"),
            ("", "Endpoints") => !self.has_service(id),
            ("discovery.k8s.io", "EndpointSlice") => manifest.label("endpointslice.kubernetes.io/managed-by").is_none(),
            _ => true,
        }
    }

    /// Tells whether a Service of this name makes the Endpoints by itself.
    fn has_service(&self, endpoints: &ObjectId) -> bool {
        let service = ObjectId { kind: "Service".to_owned(), version: "v1".to_owned(), ..endpoints.clone() };
        self.tree.manifests.binary_search_by(|m| m.id.cmp(&service)).is_ok()
    }
}

fn is_terminating(manifest: &Manifest) -> bool {
    manifest.object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

fn fits(selector: &LabelSelector, manifest: &Manifest) -> bool {
    let labels = manifest.object.pointer("/metadata/labels").and_then(|labels| labels.as_object());
    let labels: BTreeMap<String, String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    selector.matches(&labels)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::id::PlacementKey;
    use crate::model::manifest::Origin;

    pub fn manifest_of(object: Value) -> Manifest {
        Manifest {
            id: ObjectId::of(&object).unwrap(),
            object: Arc::new(object),
            origin: Origin { path: "a.yaml".into(), line: 1, blob: "b10b".into(), ordinal: 0 },
        }
    }

    pub fn manifest(api_version: &str, kind: &str, namespace: &str, name: &str) -> Manifest {
        let metadata =
            if namespace.is_empty() { json!({"name": name}) } else { json!({"name": name, "namespace": namespace}) };
        manifest_of(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
    }

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let scopes = [
            ("", "Namespace", Scope::Cluster),
            ("", "ConfigMap", Scope::Namespaced),
            ("", "Secret", Scope::Namespaced),
            ("rbac.authorization.k8s.io", "ClusterRole", Scope::Cluster),
        ];
        tree.scopes = scopes.into_iter().map(|(g, k, s)| ((g.to_owned(), k.to_owned()), s)).collect();
        let object = |mut m: Manifest, pointer: &str, value: Value| {
            let object = Arc::make_mut(&mut m.object);
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.insert(key.to_owned(), value);
            m
        };
        let team = |name: &str| object(manifest("v1", "Namespace", "", name), "/metadata/labels", json!({"team": "x"}));
        tree.set_manifests(vec![
            team("app"),
            team("kube-x"),
            manifest("v1", "Namespace", "", "other"),
            object(
                manifest("v1", "Namespace", "", "going"),
                "/metadata/deletionTimestamp",
                json!("2026-01-01T00:00:00Z"),
            ),
            manifest("v1", "ConfigMap", "going", "c"),
            manifest("v1", "ConfigMap", "app", "c"),
            object(manifest("v1", "ConfigMap", "app", "d"), "/metadata/labels", json!({"team": "x"})),
            manifest("v1", "ConfigMap", "app", "kube-root-ca.crt"),
            manifest("v1", "ConfigMap", "kube-x", "k"),
            manifest("v1", "ConfigMap", "other", "c"),
            manifest("v1", "ServiceAccount", "app", "default"),
            manifest("v1", "ServiceAccount", "app", "robot"),
            object(manifest("v1", "Secret", "app", "token"), "/type", json!("kubernetes.io/service-account-token")),
            object(manifest("v1", "Secret", "app", "plain"), "/type", json!("Opaque")),
            manifest("v1", "PersistentVolumeClaim", "app", "data"),
            manifest("v1", "Pod", "app", "p"),
            manifest("v1", "Service", "app", "web"),
            manifest("v1", "Endpoints", "app", "web"),
            manifest("v1", "Endpoints", "app", "orphan"),
            object(
                manifest("apps/v1", "ReplicaSet", "app", "owned"),
                "/metadata/ownerReferences",
                json!([{"kind": "Deployment"}]),
            ),
            manifest("apps/v1", "ReplicaSet", "app", "free"),
            object(
                manifest("discovery.k8s.io/v1", "EndpointSlice", "app", "managed"),
                "/metadata/labels",
                json!({"endpointslice.kubernetes.io/managed-by": "x"}),
            ),
            manifest("coordination.k8s.io/v1", "Lease", "app", "l"),
            manifest("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader"),
            manifest("example.com/v1", "Widget", "app", "w"),
        ]);
        tree
    }

    fn names(key: PlacementKey, selectors: Value) -> Result<Vec<String>, SelectionError> {
        let spec = serde_json::from_value(json!({ "resourceSelectors": selectors })).unwrap();
        let origin = manifest("v1", "Namespace", "", "x").origin;
        let placement = Placement { key, spec, annotations: BTreeMap::new(), origin };
        Ok(select(&tree(), &placement)?.iter().map(|m| m.id.to_string()).collect())
    }

    const APP: [&str; 10] = [
        "Namespace app",
        "ServiceAccount app/robot",
        "Secret app/plain",
        "ConfigMap app/c",
        "ConfigMap app/d",
        "PersistentVolumeClaim app/data",
        "Service app/web",
        "ReplicaSet.apps app/free",
        "Endpoints app/orphan",
        "Widget.example.com app/w",
    ];

    #[test]
    fn selectors_select() {
        let cluster = || PlacementKey::cluster_scoped("p");
        let namespaced = || PlacementKey::namespaced("app", "p");
        let app = &APP[..];
        let scope = "NamespaceWithResourceSelectors";
        let rows: Vec<(&str, PlacementKey, Value, &[&str])> = vec![
            (
                "a namespace with all in it",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]),
                app,
            ),
            (
                "a namespace alone",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app", "selectionScope": "NamespaceOnly"}]),
                &["Namespace app"],
            ),
            (
                "reserved names do not matter then",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "Namespace", "selectionScope": "NamespaceOnly", "labelSelector": {"matchLabels": {"team": "x"}}}]),
                &["Namespace app", "Namespace kube-x"],
            ),
            (
                "a missing namespace",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "nowhere"}]),
                &[],
            ),
            (
                "a namespace being deleted",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "going"}]),
                &[],
            ),
            (
                "some kinds of a namespace",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "ConfigMap"}, {"group": "", "version": "v1", "kind": "Namespace", "name": "app", "selectionScope": scope}, {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}]),
                &[
                    "Namespace app",
                    "ConfigMap app/c",
                    "ConfigMap app/d",
                    "ClusterRole.rbac.authorization.k8s.io reader",
                ],
            ),
            (
                "cluster-scoped by name",
                cluster(),
                json!([{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "reader"}]),
                &["ClusterRole.rbac.authorization.k8s.io reader"],
            ),
            (
                "the version of the document counts",
                cluster(),
                json!([{"group": "rbac.authorization.k8s.io", "version": "v1beta1", "kind": "ClusterRole"}]),
                &["ClusterRole.rbac.authorization.k8s.io reader"],
            ),
            (
                "a name that is not there",
                cluster(),
                json!([{"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "writer"}]),
                &[],
            ),
            (
                "a disabled kind",
                cluster(),
                json!([{"group": "", "version": "v1", "kind": "Pod"}, {"group": PLACEMENT_GROUP, "version": "v1", "kind": "Work"}, {"group": "metrics.k8s.io", "version": "v1", "kind": "NodeMetrics"}]),
                &[],
            ),
            (
                "in one's own namespace",
                namespaced(),
                json!([{"group": "", "version": "v1", "kind": "ConfigMap"}]),
                &["ConfigMap app/c", "ConfigMap app/d"],
            ),
            (
                "by label",
                namespaced(),
                json!([{"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}]),
                &["ConfigMap app/d"],
            ),
            (
                "a kind only documents know",
                namespaced(),
                json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]),
                &["Widget.example.com app/w"],
            ),
            (
                "filters hold for single kinds too",
                namespaced(),
                json!([{"group": "", "version": "v1", "kind": "Secret"}]),
                &["Secret app/plain"],
            ),
        ];
        for (name, key, selectors, expected) in rows {
            assert_eq!(names(key, selectors).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn selectors_that_cannot_be_evaluated() {
        let cluster = || PlacementKey::cluster_scoped("p");
        let namespaced = || PlacementKey::namespaced("app", "p");
        let namespace = |extra: Value| {
            let mut selector = json!({"group": "", "version": "v1", "kind": "Namespace"});
            selector.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            selector
        };
        let kind = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
        let first = || "spec.resourceSelectors[0]".to_owned();
        let reserved =
            |namespace: &str| SelectionError::ReservedNamespace { field: first(), namespace: namespace.into() };
        let scope = "NamespaceWithResourceSelectors";
        let rows = [
            ("a reserved name", cluster(), json!([namespace(json!({"name": "kube-system"}))]), reserved("kube-system")),
            ("default", cluster(), json!([namespace(json!({"name": "default"}))]), reserved("default")),
            (
                "a label that touches a reserved name",
                cluster(),
                json!([namespace(json!({"labelSelector": {"matchLabels": {"team": "x"}}}))]),
                reserved("kube-x"),
            ),
            ("all namespaces", cluster(), json!([namespace(json!({}))]), reserved("kube-x")),
            (
                "a reserved name for some kinds",
                cluster(),
                json!([namespace(json!({"name": "fleet-x", "selectionScope": scope}))]),
                reserved("fleet-x"),
            ),
            (
                "a missing name for some kinds",
                cluster(),
                json!([namespace(json!({"name": "nowhere", "selectionScope": scope}))]),
                SelectionError::NamespaceNotFound { field: first(), namespace: "nowhere".into() },
            ),
            (
                "a namespaced kind alone",
                cluster(),
                json!([kind("", "ConfigMap")]),
                SelectionError::NamespacedKind { field: first(), kind: "ConfigMap".into() },
            ),
            (
                "a namespace in a ResourcePlacement",
                namespaced(),
                json!([namespace(json!({}))]),
                SelectionError::NamespaceInResourcePlacement { field: first() },
            ),
            (
                "a cluster-scoped kind in a ResourcePlacement",
                namespaced(),
                json!([kind("rbac.authorization.k8s.io", "ClusterRole")]),
                SelectionError::ClusterScopedKind {
                    field: first(),
                    kind: "ClusterRole.rbac.authorization.k8s.io".into(),
                },
            ),
            (
                "an unknown kind",
                cluster(),
                json!([kind("example.com", "Gadget")]),
                SelectionError::UnknownKind { field: first(), kind: "Gadget.example.com".into() },
            ),
            (
                "an object twice",
                cluster(),
                json!([
                    namespace(json!({"name": "app"})),
                    namespace(json!({"name": "app", "selectionScope": "NamespaceOnly"}))
                ]),
                SelectionError::Duplicate { object: "Namespace app".into() },
            ),
            (
                "an envelope",
                cluster(),
                json!([kind(PLACEMENT_GROUP, "ClusterResourceEnvelope")]),
                SelectionError::Envelope { object: "ClusterResourceEnvelope.placement.kubernetes-fleet.io".into() },
            ),
        ];
        for (name, key, selectors, expected) in rows {
            assert_eq!(names(key, selectors).unwrap_err(), expected, "{name}");
        }
    }

    #[test]
    fn an_envelope_in_a_selected_namespace_is_not_left_out_silently() {
        let mut tree = tree();
        tree.inputs.push(manifest("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", "app", "env"));
        let spec = serde_json::from_value(
            json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]}),
        )
        .unwrap();
        let origin = tree.inputs[0].origin.clone();
        let placement =
            Placement { key: PlacementKey::cluster_scoped("p"), spec, annotations: BTreeMap::new(), origin };
        let expected =
            SelectionError::Envelope { object: "ResourceEnvelope.placement.kubernetes-fleet.io app/env".into() };
        assert_eq!(select(&tree, &placement).unwrap_err(), expected);
    }
}
