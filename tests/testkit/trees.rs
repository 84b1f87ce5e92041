//! Trees for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::id::{BlobId, CommitId};
use model::tree::Tree;
use model::variants::inputs_of;
use source::{ParsedBlob, ValuesTemplate, VariantFiles};

/// Returns the commit of these files, by path; a file's blob is known by its text.
pub fn tree(files: &[(&str, &str)]) -> Arc<Tree> {
    let selection = source::select(files.iter().map(|(path, _)| *path), None);
    let blob = |(path, text): &(&str, &str)| {
        (Arc::from(*path), BlobId::new(*text), Arc::new(source::parse_blob(text.as_bytes())))
    };
    let commit = CommitId::new(files.iter().flat_map(|(path, text)| [*path, ":", *text]).collect::<String>());
    Arc::new(source::assemble(Some(commit), &selection, files.iter().map(blob)).expect("the test's tree has no errors"))
}

/// Returns a commit whose folder `charts/web` is rendered for the regions of its clusters; `none` is that of no cluster, and of those without
/// the label. Clusters are given with their regions.
pub fn varied(
    commit: &str,
    clusters: &[(&str, &str)],
    others: &[&str],
    rendered: impl Fn(&str) -> String,
) -> Arc<Tree> {
    let parsed = |path: &str, text: &str| -> (Arc<str>, BlobId, Arc<ParsedBlob>) {
        (path.into(), BlobId::new(text), Arc::new(source::parse_blob(text.as_bytes())))
    };
    let labels = |region: &str| if region.is_empty() { String::new() } else { format!("labels: {{region: {region}}}") };
    let members: String = clusters.iter().map(|(name, region)| member(name, &labels(region))).collect();
    let files = [("clusters.yaml", members), ("others.yaml", others.concat()), ("charts/web", rendered("none"))];
    let selection = source::select(["clusters.yaml", "others.yaml"], None);
    let files = files.iter().map(|(path, text)| parsed(path, text));
    let mut tree = source::assemble(Some(CommitId::new(commit)), &selection, files).expect("it has no errors");
    let values = b"region: '{{ .Cluster.Labels.region | default \"none\" }}'\n";
    let template = ValuesTemplate::read("charts/web/values.gitfleet.yaml", values).expect("it is read");
    let members = tree.clusters.iter().map(|(name, member)| inputs_of(&template.reads, name, member));
    let results = members.collect::<BTreeSet<_>>().into_iter().map(|inputs| {
        let text = rendered(inputs.values().next().map_or("none", String::as_str));
        VariantFiles { folder: "charts/web".to_owned(), inputs, parts: vec![parsed("charts/web", &text)] }
    });
    let (results, templates) = (results.collect(), BTreeMap::from([("charts/web".to_owned(), template)]));
    source::add_variants(&mut tree, &templates, results).expect("it has no errors");
    Arc::new(tree)
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
