//! Selects the objects of a placement from the tree.

use std::collections::BTreeMap;

use model::api::RESERVED_NAMESPACE;
use model::api::groups::is_of_other_hubs;
use model::api::placement::{LabelSelector, ResourceSelector, SelectionScope};
use model::api::table::PLACEMENT_GROUP;
use model::id::ObjectId;
use model::kinds;
use model::manifest::Manifest;
use model::tree::{Placement, Scope, SeenObjects, Tree};
use model::variants::ClusterInputs;

use super::sanitise::{sanitised, sort_for_snapshot};

/// Groups whose objects are never placed: selectors ignore them.
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

/// The kinds of the placement group that are payload: their contents are delivered.
const ENVELOPES: [&str; 2] = ["ClusterResourceEnvelope", "ResourceEnvelope"];

/// Why a placement's selectors cannot be evaluated. An error affects only that placement, which keeps its last good state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A ResourcePlacement selects a Namespace.
    #[error("{field} selects a Namespace, which a ResourcePlacement cannot place; use a ClusterResourcePlacement")]
    NamespaceInResourcePlacement {
        /// The selector.
        field: String,
    },
    /// A placement must not select this Namespace with its resources.
    #[error(
        "{field} selects the reserved namespace {namespace} with its resources; select others, or use selectionScope NamespaceOnly"
    )]
    ReservedNamespace {
        /// The selector.
        field: String,
        /// The namespace.
        namespace: String,
    },
    /// An object that belongs to gitfleet on every member.
    #[error(
        "{object} is reserved: inventories of gitfleet are in the namespace {RESERVED_NAMESPACE} of every member; narrow the selectors, or use another namespace"
    )]
    Reserved {
        /// The object, or the placement in that namespace.
        object: String,
    },
    /// `NamespaceWithResourceSelectors` names no namespace of the tree.
    #[error(
        "{field} names the namespace {namespace}, which has no Namespace document{place}; add one, or correct the name"
    )]
    NamespaceNotFound {
        /// The selector.
        field: String,
        /// The namespace.
        namespace: String,
        /// The folder that the placement sees, as text for users; empty if it sees everything.
        place: String,
    },
    /// A ClusterResourcePlacement selects a namespaced kind directly.
    #[error(
        "{field} selects {kind}, which is namespaced; select its Namespace, with selectionScope NamespaceWithResourceSelectors to take only some kinds, or use a ResourcePlacement"
    )]
    NamespacedKind {
        /// The selector.
        field: String,
        /// The kind, with its group.
        kind: String,
    },
    /// A ResourcePlacement selects a cluster-scoped kind.
    #[error(
        "{field} selects {kind}, which is cluster-scoped; a ResourcePlacement places objects of its namespace only, use a ClusterResourcePlacement"
    )]
    ClusterScopedKind {
        /// The selector.
        field: String,
        /// The kind, with its group.
        kind: String,
    },
    /// The kind is not built in, not defined by the tree, and not the kind of any document.
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
}

/// Returns the objects of a placement among those that it sees: sanitised, in snapshot order. An object is copied only if
/// sanitising or a given namespace changes it. A selector without a match contributes nothing.
///
/// Selectors match by group and kind; their version is only required. An API server would convert the object to the selector's
/// version; here the object keeps the version of its document.
///
/// # Errors
/// Every error of a selector against the tree; the whole placement then selects nothing.
///
/// Source: KubeFleet, resource selection of the placement controller; persistent volume claims are placed, because the
/// hub here is git and runs no workloads.
pub fn select(tree: &Tree, placement: &Placement) -> Result<Vec<Manifest>, SelectionError> {
    if placement.key.namespace.as_deref() == Some(RESERVED_NAMESPACE) {
        return Err(SelectionError::Reserved { object: format!("ResourcePlacement {}", placement.key) });
    }
    selected(&Selection::new(tree, placement)?, placement)
}

/// As [`select`], of what a placement sees for clusters with these inputs; `None` where nothing was rendered for them.
///
/// # Errors
/// As [`select`].
pub fn select_for(
    tree: &Tree,
    placement: &Placement,
    inputs: &ClusterInputs,
) -> Option<Result<Vec<Manifest>, SelectionError>> {
    let seen = tree.seen_for(placement, inputs)?;
    Some(Selection::among(tree, seen, placement).and_then(|selection| selected(&selection, placement)))
}

fn selected(selection: &Selection<'_>, placement: &Placement) -> Result<Vec<Manifest>, SelectionError> {
    let mut found = Vec::new();
    for (index, selector) in placement.spec.resource_selectors.iter().enumerate() {
        selection.evaluate(&field(index), selector, &mut found)?;
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    if let Some(pair) = found.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(SelectionError::Duplicate { object: pair[0].id.to_string() });
    }
    if let Some(reserved) = found.iter().find(|manifest| manifest.id.is_reserved()) {
        return Err(SelectionError::Reserved { object: reserved.id.to_string() });
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
    kinds::qualified(&selector.group, &selector.kind)
}

fn is_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty() && selector.kind == "Namespace"
}

/// Namespaces that are never placed with their resources.
fn is_reserved(namespace: &str) -> bool {
    namespace == "default"
        || namespace == RESERVED_NAMESPACE
        || namespace.starts_with("kube-")
        || namespace.starts_with("fleet-")
}

fn is_disabled(group: &str, kind: &str) -> bool {
    DISABLED_GROUPS.contains(&group)
        || DISABLED_KINDS.contains(&(group, kind))
        || is_of_other_hubs(group, kind)
        // KubeFleet's list of disabled kinds leaves AppliedWork out.
        || (group == PLACEMENT_GROUP && kind != "AppliedWork" && !ENVELOPES.contains(&kind))
}

/// One placement's selectors over one tree.
pub(super) struct Selection<'a> {
    pub(super) tree: &'a Tree,
    /// What the selectors see.
    pub(super) seen: SeenObjects<'a>,
    /// The namespace for selectors of namespaced kinds; `None` if they are not allowed.
    namespace: Option<&'a str>,
    /// Whether the placement is a ResourcePlacement.
    namespaced: bool,
}

impl<'a> Selection<'a> {
    /// Resolves the one namespace that selectors of namespaced kinds look into.
    pub(super) fn new(tree: &'a Tree, placement: &'a Placement) -> Result<Self, SelectionError> {
        Self::among(tree, tree.seen_by(placement), placement)
    }

    fn among(tree: &'a Tree, seen: SeenObjects<'a>, placement: &'a Placement) -> Result<Self, SelectionError> {
        let namespace = placement.key.namespace.as_deref();
        let mut selection = Self { tree, seen, namespace, namespaced: namespace.is_some() };
        if selection.namespaced {
            return Ok(selection);
        }
        let chosen = placement.spec.resource_selectors.iter().enumerate().find(|(_, selector)| {
            is_namespace(selector) && selector.selection_scope == SelectionScope::NamespaceWithResourceSelectors
        });
        if let Some((index, selector)) = chosen {
            let field = field(index);
            let namespace = selector.name.clone();
            if is_reserved(&namespace) {
                return Err(SelectionError::ReservedNamespace { field, namespace });
            }
            if !selection.seen.of_kind("", "Namespace").any(|m| m.id.name == namespace && !is_terminating(m)) {
                let place = match placement.folder() {
                    Some(folder) => {
                        format!(" in the folder {folder}{}", elsewhere(tree, "", "Namespace", &namespace))
                    }
                    None => String::new(),
                };
                return Err(SelectionError::NamespaceNotFound { field, namespace, place });
            }
            selection.namespace = Some(&selector.name);
        }
        Ok(selection)
    }

    fn evaluate<'s>(
        &'s self,
        field: &str,
        selector: &'s ResourceSelector,
        found: &mut Vec<&'s Manifest>,
    ) -> Result<(), SelectionError> {
        // Before the scope is determined: the scope of a kind that is never placed may be unknown.
        if is_disabled(&selector.group, &selector.kind) {
            return Ok(());
        }
        if is_namespace(selector) {
            if self.namespaced {
                return Err(SelectionError::NamespaceInResourcePlacement { field: field.to_owned() });
            }
            return self.evaluate_namespaces(field, selector, found);
        }
        let Some(scope) = self.scope(selector) else {
            return Err(SelectionError::UnknownKind { field: field.to_owned(), kind: kind_name(selector) });
        };
        let namespace = match (scope, self.namespace) {
            (Scope::Cluster, _) if self.namespaced => {
                return Err(SelectionError::ClusterScopedKind { field: field.to_owned(), kind: kind_name(selector) });
            }
            (Scope::Namespaced, None) => {
                return Err(SelectionError::NamespacedKind { field: field.to_owned(), kind: kind_name(selector) });
            }
            (Scope::Cluster, _) => "",
            (Scope::Namespaced, Some(namespace)) => namespace,
        };
        found.extend(self.matching(selector).filter(|m| m.id.namespace == namespace && self.is_placed(m)));
        Ok(())
    }

    /// Selects Namespace objects and, by default, everything in them.
    fn evaluate_namespaces<'s>(
        &'s self,
        field: &str,
        selector: &'s ResourceSelector,
        found: &mut Vec<&'s Manifest>,
    ) -> Result<(), SelectionError> {
        let whole = selector.selection_scope == SelectionScope::NamespaceWithResources;
        // Even if git has no such Namespace: the name itself is the mistake.
        if whole && is_reserved(&selector.name) {
            return Err(reserved(field, &selector.name));
        }
        for namespace in self.matching(selector) {
            let name = namespace.id.name.as_str();
            // A match by labels also fails the placement, as in KubeFleet: leaving it out would hide the omission.
            if whole && is_reserved(name) {
                return Err(reserved(field, name));
            }
            if is_terminating(namespace) {
                continue;
            }
            found.push(namespace);
            if whole {
                found.extend(self.seen.in_namespace(name).filter(|m| self.is_placed(m)));
            }
        }
        Ok(())
    }

    /// Returns the scope of a selector's kind, or `None` for a kind nobody knows.
    fn scope(&self, selector: &ResourceSelector) -> Option<Scope> {
        let known = self.tree.scopes.get(&(selector.group.clone(), selector.kind.clone())).copied();
        known.or_else(|| {
            let document = self.seen.of_kind(&selector.group, &selector.kind).next()?;
            Some(if document.id.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced })
        })
    }

    /// Returns the documents of a selector's kind that have its name or fit its labels.
    fn matching<'s>(&'s self, selector: &'s ResourceSelector) -> impl Iterator<Item = &'s Manifest> {
        self.seen.of_kind(&selector.group, &selector.kind).filter(move |manifest| {
            (selector.name.is_empty() || manifest.id.name == selector.name)
                && selector.label_selector.as_ref().is_none_or(|labels| fits(labels, manifest))
        })
    }

    /// Returns the documents of a selector's kind that it means, whether they are placed or not.
    pub(super) fn found<'s>(&'s self, selector: &'s ResourceSelector) -> impl Iterator<Item = &'s Manifest> {
        let namespace = match self.scope(selector) {
            Some(Scope::Namespaced) => self.namespace,
            Some(Scope::Cluster) => Some(""),
            None => None,
        };
        self.matching(selector).filter(move |manifest| Some(manifest.id.namespace.as_str()) == namespace)
    }

    /// Leaves out what a cluster makes by itself and what is going away.
    fn is_placed(&self, manifest: &Manifest) -> bool {
        let id = &manifest.id;
        if is_terminating(manifest) || is_disabled(&id.group, &id.kind) {
            return false;
        }
        let object = &manifest.object;
        match (id.group.as_str(), id.kind.as_str()) {
            // Their owner makes them on each member.
            ("apps", "ReplicaSet" | "ControllerRevision") => {
                object.pointer("/metadata/ownerReferences").and_then(|o| o.as_array()).is_none_or(Vec::is_empty)
            }
            // Every cluster puts this ConfigMap and this ServiceAccount into every namespace by itself.
            ("", "ConfigMap") => id.name != "kube-root-ca.crt",
            ("", "ServiceAccount") => id.name != "default",
            // Such a token is good for one API server.
            ("", "Secret") => object.get("type").is_none_or(|t| t != "kubernetes.io/service-account-token"),
            ("", "Endpoints") => !self.has_service(id),
            // The label names the controller that makes them, on the member too.
            ("discovery.k8s.io", "EndpointSlice") => manifest.label("endpointslice.kubernetes.io/managed-by").is_none(),
            _ => true,
        }
    }

    /// Tells whether a Service of this name makes the Endpoints by itself.
    fn has_service(&self, endpoints: &ObjectId) -> bool {
        let service = ObjectId { kind: "Service".to_owned(), version: "v1".to_owned(), ..endpoints.clone() };
        // They are in order of their ids.
        self.seen.manifests().binary_search_by(|m| m.id.cmp(&service)).is_ok()
    }
}

fn reserved(field: &str, namespace: &str) -> SelectionError {
    SelectionError::ReservedNamespace { field: field.to_owned(), namespace: namespace.to_owned() }
}

/// Returns where the tree has an object that a placement does not see, as text for users; nothing where it has none.
pub(super) fn elsewhere(tree: &Tree, group: &str, kind: &str, name: &str) -> String {
    let found = tree.of_kind(group, kind).find(|found| found.id.name == name && !is_terminating(found));
    found.map(|found| format!(" (one is at {}:{})", found.origin.path, found.origin.line)).unwrap_or_default()
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
