//! Trees for tests.

use std::sync::Arc;

use crate::model::id::{BlobId, CommitId};
use crate::model::tree::Tree;
use crate::source;

/// Returns the commit of these files, by path; a file's blob is known by its text.
pub fn tree(files: &[(&str, &str)]) -> Arc<Tree> {
    let selection = source::select(files.iter().map(|(path, _)| *path), None);
    let blob = |(path, text): &(&str, &str)| {
        (Arc::from(*path), BlobId::new(*text), Arc::new(source::parse_blob(text.as_bytes())))
    };
    let commit = CommitId::new(files.iter().flat_map(|(path, text)| [*path, ":", *text]).collect::<String>());
    Arc::new(source::assemble(Some(commit), &selection, files.iter().map(blob)).expect("the test's tree has no errors"))
}

/// A MemberCluster with further lines of its metadata, such as `labels: {a: b}`.
pub fn member(name: &str, metadata: &str) -> String {
    format!(
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  {metadata}\n\
         spec: {{}}\n---\n"
    )
}

/// A ManagedCluster with labels and taints, both in flow style.
pub fn managed(name: &str, labels: &str, taints: &str) -> String {
    format!(
        "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{name: {name}, labels: {labels}}}\n\
         spec: {{taints: {taints}}}\n---\n"
    )
}

/// A ManagedClusterSet of all clusters, bound to namespace `ns`.
pub const BOUND: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\n\
    metadata: {name: all}\nspec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}\n---\n\
    apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\n\
    metadata: {name: all, namespace: ns}\nspec: {clusterSet: all}\n---\n";

/// An OCM Placement in namespace `ns`; its spec in flow style.
pub fn ocm_placement(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n\
         metadata: {{name: {name}, namespace: ns}}\nspec: {spec}\n---\n"
    )
}

/// A ClusterResourcePlacement of Namespace `a`, with annotations and more of its spec, both in flow style without braces.
pub fn placement(name: &str, annotations: &str, more: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\n\
         metadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
         spec: {{resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: a}}]{more}}}\n---\n"
    )
}

/// Namespace `a` with a ConfigMap of a value.
pub fn payload(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: a}}\n---\napiVersion: v1\nkind: ConfigMap\n\
         metadata: {{name: m, namespace: a}}\ndata: {{v: '{value}'}}\n---\n"
    )
}

/// A ClusterResourcePlacementEviction.
pub fn eviction(name: &str, placement: &str, cluster: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementEviction\n\
         metadata: {{name: {name}}}\nspec: {{placementName: {placement}, clusterName: {cluster}}}\n---\n"
    )
}
