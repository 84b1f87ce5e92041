//! What the source step accepts, the snapshot step selects once.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use decide::snapshot::select;
use model::id::{BlobId, ObjectKey};
use model::manifest::InputError;
use model::tree::Tree;
use source::{Selection, assemble, parse_blob};

const FOLDERS: [&str; 5] = ["a", "a/b", "a/b/c", "ab", "d"];
const NAMESPACES: [&str; 3] = ["", ", namespace: one", ", namespace: two"];

/// An object of a few kinds and names in a folder.
fn object() -> impl Strategy<Value = (usize, String)> {
    let kinds = prop_oneof![
        (0..2_usize).prop_map(|name| format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}, labels: {{l: x}}}}\n",
            ["one", "two"][name]
        )),
        (0..2_usize, 0..3_usize).prop_map(|(name, namespace)| format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: n{name}{}}}\n",
            NAMESPACES[namespace]
        )),
        (0..2_usize).prop_map(|name| format!(
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: n{name}}}\n"
        )),
    ];
    (0..FOLDERS.len(), kinds)
}

fn selectors() -> impl Strategy<Value = Vec<&'static str>> {
    let scoped = "{group: '', version: v1, kind: Namespace, name: two, selectionScope: NamespaceWithResourceSelectors}";
    let classes = "{group: storage.k8s.io, version: v1, kind: StorageClass}";
    prop::sample::select(vec![
        vec!["{group: '', version: v1, kind: Namespace, name: one}"],
        vec!["{group: '', version: v1, kind: Namespace, labelSelector: {matchLabels: {l: x}}}"],
        vec!["{group: '', version: v1, kind: Namespace, name: one, selectionScope: NamespaceOnly}", classes],
        vec![scoped, "{group: '', version: v1, kind: ConfigMap, name: n0}"],
        vec![
            scoped,
            "{group: '', version: v1, kind: ConfigMap}",
            "{group: storage.k8s.io, version: v1, kind: StorageClass, name: n1}",
        ],
        vec![classes],
    ])
}

/// A placement: cluster-scoped, or of a namespace.
fn placement() -> impl Strategy<Value = (Option<usize>, String, String)> {
    let within = prop::sample::select(vec![
        "{group: '', version: v1, kind: ConfigMap}",
        "{group: '', version: v1, kind: ConfigMap, name: n1}",
    ]);
    let kinds = prop_oneof![
        3 => selectors().prop_map(|selectors| ("", selectors.join(", "))),
        1 => within.prop_map(|selector| ("one", selector.to_owned())),
    ];
    let given = prop::sample::select(vec!["", "", "one", "two"]);
    (kinds, prop::option::weighted(0.7, 0..FOLDERS.len()), given).prop_map(|((own, selectors), folder, given)| {
        let given = if own.is_empty() || given.is_empty() { given } else { own };
        let mut annotations: Vec<String> = folder.into_iter().map(|folder| format!("gitfleet.io/path: {}", FOLDERS[folder])).collect();
        annotations.extend((!given.is_empty()).then(|| format!("gitfleet.io/default-namespace: {given}")));
        let kind = if own.is_empty() { "ClusterResourcePlacement" } else { "ResourcePlacement" };
        let namespace = if own.is_empty() { String::new() } else { format!(", namespace: {own}") };
        let text = format!("apiVersion: placement.kubernetes-fleet.io/v1\nkind: {kind}\nmetadata: {{name: NAME{namespace}, annotations: {{{}}}}}\nspec: {{resourceSelectors: [{selectors}]}}\n", annotations.join(", "));
        (folder, given.to_owned(), text)
    })
}

fn assembled(files: &[(String, String)]) -> Result<Tree, Vec<InputError>> {
    let blob = |(path, text): &(String, String)| {
        (Arc::from(path.as_str()), BlobId::new(path.as_str()), Arc::new(parse_blob(text.as_bytes())))
    };
    assemble(None, &Selection::default(), files.iter().map(blob))
}

fn keys(tree: &Tree) -> BTreeSet<ObjectKey> {
    tree.manifests.iter().map(|manifest| manifest.id.key()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_placement_of_an_accepted_commit_selects_an_object_twice(
        objects in prop::collection::vec(object(), 1..9),
        placements in prop::collection::vec(placement(), 0..4),
    ) {
        let mut files: Vec<(String, String)> = objects.iter().enumerate()
            .map(|(number, (folder, text))| (format!("{}/{number}.yaml", FOLDERS[*folder]), text.clone())).collect();
        // Each folder is there, whoever names it.
        files.extend(FOLDERS.map(|folder| (format!("{folder}/values.yaml"), "a: 1\n".to_owned())));
        files.extend(placements.iter().enumerate()
            .map(|(number, (_, _, text))| (format!("p{number}.yaml"), text.replace("NAME", &format!("p{number}")))));
        let is_plain = placements.iter().all(|(folder, given, _)| folder.is_none() && given.is_empty());
        match assembled(&files) {
            Err(errors) => {
                let is_known = |error: &InputError| error.message.starts_with("the same object") || error.message.contains("names no namespace");
                prop_assert!(errors.iter().all(is_known), "{errors:?}");
            }
            Ok(tree) => {
                prop_assert!(!is_plain || keys(&tree).len() == tree.manifests.len(), "without folders each object is there once");
                for placement in tree.placements.values() {
                    let Ok(selected) = select(&tree, placement) else { continue };
                    let found: BTreeSet<ObjectKey> = selected.iter().map(|manifest| manifest.id.key()).collect();
                    prop_assert_eq!(found.len(), selected.len());
                    let is_outside = |path: &str| placement.folder().is_some_and(|folder| !model::folder::holds(folder, path));
                    for manifest in &selected {
                        let is_namespace = manifest.id.kind == "Namespace";
                        prop_assert!(is_namespace || !is_outside(&manifest.origin.path), "{} of {}", manifest.id, manifest.origin.path);
                        prop_assert!(manifest.id.kind != "ConfigMap" || !manifest.id.namespace.is_empty());
                    }
                }
            }
        }
    }
}
