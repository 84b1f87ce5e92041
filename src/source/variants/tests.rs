use super::*;
use crate::{assemble, parse_blob, select};

const PLACEMENT: &str = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\n";

fn placement(annotations: &str, policy: &str) -> String {
    format!(
        "{PLACEMENT}metadata: {{name: web, annotations: {{{annotations}}}}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: web}}]\n  policy: {policy}\n"
    )
}

fn cluster(name: &str, labels: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}, labels: {{{labels}}}}}\nspec: {{}}\n"
    )
}

fn map(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: web}}\ndata: {{key: {value}}}\n"
    )
}

/// A tree with the folder `charts/web` rendered, as a file of that path.
fn tree(placement: &str, clusters: &[(&str, &str)]) -> Tree {
    let clusters: String = clusters.iter().map(|(name, labels)| cluster(name, labels)).collect();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n---\napiVersion: apiextensions.k8s.io/v1\n\
                     kind: CustomResourceDefinition\nmetadata: {name: things.e.io}\nspec: {group: e.io, scope: Cluster, names: {kind: Thing}}\n"
        .to_owned();
    let rendered = [map("a", "none"), map("b", "same")].concat();
    let files =
        [("c.yaml", clusters), ("p.yaml", placement.to_owned()), ("ns.yaml", namespace), ("charts/web", rendered)];
    let selection = select(["c.yaml", "p.yaml", "ns.yaml"], None);
    let files = files.map(|(path, text)| (Arc::from(path), BlobId::new(path), Arc::new(parse_blob(text.as_bytes()))));
    assemble(None, &selection, files).expect("it is a tree")
}

fn templates(text: &str) -> BTreeMap<String, ValuesTemplate> {
    let template = ValuesTemplate::read("charts/web/values.gitfleet.yaml", text.as_bytes()).expect("it is read");
    BTreeMap::from([("charts/web".to_owned(), template)])
}

const FOR_CLUSTER: &str = "gitfleet.io/render-for: cluster, gitfleet.io/path: charts/web";
const REGION: &str = "region: '{{ .Cluster.Labels.region }}'\n";
const ALL: &str = "{placementType: PickAll}";

/// What is rendered, each with the first cluster, or the errors.
fn wanted(placement: &str, clusters: &[(&str, &str)], values: &str) -> Vec<String> {
    match wanted_variants(&tree(placement, clusters), &templates(values)) {
        Ok(wanted) => {
            wanted["charts/web"].iter().map(|(inputs, name)| format!("{} {name}", described(inputs))).collect()
        }
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn each_different_list_of_values_is_rendered_once() {
    let clusters = [("east", "region: eu, size: a"), ("north", "region: eu, size: b"), ("west", "region: us")];
    let of = |policy: &str, values: &str| wanted(&placement(FOR_CLUSTER, policy), &clusters, values);
    assert_eq!(of(ALL, REGION), ["label region=eu east", "label region=us west"]);
    assert_eq!(of(ALL, "a: '{{ .Cluster.Name }}'\n"), ["name=east east", "name=north north", "name=west west"]);
    assert_eq!(of(ALL, "a: b\n"), ["none of the values east"]);
    assert_eq!(
        of(ALL, "a: '{{ .Cluster.Labels.size | default \"x\" }}'\n"),
        ["none of the values west", "label size=a east", "label size=b north"]
    );
    // Clusters that the placement cannot pick ask for nothing.
    assert_eq!(of("{placementType: PickFixed, clusterNames: [west, other]}", REGION), ["label region=us west"]);
    let affinity = "{placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                    {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: us}}}]}}}}";
    assert_eq!(of(affinity, REGION), ["label region=us west"]);
    // Another placement without the annotation asks for nothing at all.
    let plain = placement("gitfleet.io/path: charts/web", ALL);
    assert!(wanted_variants(&tree(&plain, &clusters), &templates(REGION)).expect("no error").is_empty());
    let everywhere = placement("gitfleet.io/render-for: cluster", ALL);
    assert_eq!(wanted(&everywhere, &clusters, REGION).len(), 2);
}

#[test]
fn what_cannot_be_rendered_for_clusters_is_refused() {
    let path = placement("gitfleet.io/render-for: cluster, gitfleet.io/path: charts", ALL);
    let errors = wanted_variants(&tree(&path, &[]), &BTreeMap::new()).expect_err("there is no file");
    assert_eq!(
        errors[0].to_string(),
        "p.yaml:1: ClusterResourcePlacement web: metadata.annotations.gitfleet.io/render-for: no rendered folder in the folder charts has a \
         file values.gitfleet.yaml (add it beside the Chart.yaml or the kustomization.yaml)"
    );
    let names: Vec<String> = (0..=VARIANTS_MAX).map(|n| format!("c{n}")).collect();
    let clusters: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "region: eu")).collect();
    let values = "a: '{{ .Cluster.Name }}-{{ .Cluster.Labels.region }}'\n";
    let found = wanted(&placement(FOR_CLUSTER, ALL), &clusters, values);
    assert!(
        found[0].contains(
            "its clusters would get 201 variants, the limit is 200; different values of name: 201, label region: 1"
        ),
        "{found:?}"
    );
    assert_eq!(wanted(&placement(FOR_CLUSTER, ALL), &clusters[1..], values).len(), VARIANTS_MAX);
    let long = format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: x, annotations: {{gitfleet.io/properties: '{{\"p\": \"{}\"}}'}}}}\nspec: {{}}\n",
        "y".repeat(VALUE_BYTES_MAX + 1)
    );
    let placement = format!("{}{long}", placement(FOR_CLUSTER, ALL));
    let found = wanted(&placement, &[], "a: '{{ .Cluster.Properties.p }}'\n");
    assert!(found[0].contains("a cluster has a property p of 1025 bytes, the limit is 1024"), "{found:?}");
}

/// Adds one result of `charts/web` for region eu.
fn added(placement: &str, text: &str) -> Result<Tree, Vec<String>> {
    let mut tree = tree(placement, &[("east", "region: eu")]);
    let inputs = ClusterInputs::from([(ClusterField::Label("region".to_owned()), "eu".to_owned())]);
    let parts = vec![(Arc::from("charts/web"), BlobId::new("eu"), Arc::new(parse_blob(text.as_bytes())))];
    let results = vec![VariantFiles { folder: "charts/web".to_owned(), inputs, parts }];
    let errors = |errors: Vec<InputError>| errors.iter().map(ToString::to_string).collect();
    add_variants(&mut tree, &templates(REGION), results).map_err(errors).map(|()| tree)
}

#[test]
fn a_placement_sees_the_objects_of_its_clusters() {
    let placement_text = placement(FOR_CLUSTER, ALL);
    let tree = added(&placement_text, &[map("a", "eu"), map("b", "same"), map("c", "new")].concat()).expect("no error");
    let placement = tree.placements.values().next().expect("there is one");
    let inputs = tree.inputs_for(placement).pop_first().expect("one cluster");
    let seen = tree.seen_for(placement, &inputs).expect("it was rendered");
    let text = |manifest: &Manifest| {
        format!("{} {}", manifest.id, manifest.object["data"]["key"].as_str().unwrap_or_default())
    };
    let found: Vec<String> = seen.manifests().iter().map(text).collect();
    assert_eq!(found, ["ConfigMap web/a eu", "ConfigMap web/b same", "ConfigMap web/c new", "Namespace web "]);
    let plain: Vec<String> = tree.seen_by(placement).manifests().iter().map(text).collect();
    assert_eq!(plain, ["ConfigMap web/a none", "ConfigMap web/b same", "Namespace web "]);
    // What does not differ is in memory once.
    assert!(Arc::ptr_eq(&seen.manifests()[1].object, &tree.seen_by(placement).manifests()[1].object));
    assert!(tree.seen_for(placement, &ClusterInputs::new()).is_none());
}

#[test]
fn results_are_checked_as_files_are() {
    let placement = placement(FOR_CLUSTER, ALL);
    let rows = [
        ("kind: ConfigMap\n", "charts/web:1: apiVersion: for clusters with label region=eu: required and missing"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            "charts/web:1: ConfigMap a: metadata.namespace: for clusters with label region=eu: a ConfigMap is namespaced, and this one names no namespace",
        ),
        (
            "apiVersion: e.io/v1\nkind: Thing\nmetadata: {name: a, namespace: b}\n",
            "for clusters with label region=eu: a Thing is cluster-scoped",
        ),
        (
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: own}\nspec: {}\n",
            "own: kind: for clusters with label region=eu: a MemberCluster cannot differ by cluster",
        ),
    ];
    for (text, wanted) in rows {
        let errors = added(&placement, text).expect_err(text);
        assert!(errors.iter().any(|error| error.contains(wanted)), "{text}: {errors:?}");
    }
    let errors = added(&placement, &[map("a", "1"), map("a", "2")].concat()).expect_err("it is there twice");
    assert!(errors[0].contains("the same object stands at line 2 too"), "{errors:?}");
}
