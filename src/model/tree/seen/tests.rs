use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::api::annotations::{DEFAULT_NAMESPACE, PATH};
use crate::id::{ObjectId, PlacementKey};
use crate::manifest::Origin;
use crate::tree::Scope;

fn at(path: &str, kind: &str, namespace: &str, name: &str) -> Manifest {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "from": path});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    Manifest {
        id: ObjectId::of(&object).expect("an object"),
        object: Arc::new(object),
        origin: Origin { path: path.into(), line: 1, blob: "b".into(), ordinal: 0 },
        encrypted: None,
    }
}

fn tree(manifests: Vec<Manifest>, folders: &[&str]) -> Tree {
    let mut tree = Tree::default();
    for (kind, scope) in [("Namespace", Scope::Cluster), ("ConfigMap", Scope::Namespaced), ("Node", Scope::Cluster)] {
        tree.scopes.insert((String::new(), kind.to_owned()), scope);
    }
    tree.folders = folders.iter().map(|folder| (*folder).to_owned()).collect();
    tree.set_manifests(manifests);
    tree
}

fn placement(annotations: &[(&str, &str)]) -> Placement {
    Placement {
        key: PlacementKey::cluster_scoped("p"),
        spec: serde_json::from_value(json!({"resourceSelectors": []})).expect("a spec"),
        annotations: annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        origin: at("p.yaml", "Node", "", "n").origin,
        owners: Vec::new(),
    }
}

/// What a placement sees, each with its file.
fn seen(tree: &Tree, annotations: &[(&str, &str)]) -> Vec<String> {
    let seen = tree.seen_by(&placement(annotations));
    let of_kinds: usize = ["Namespace", "ConfigMap", "Node"].iter().map(|kind| seen.of_kind("", kind).count()).sum();
    assert_eq!(of_kinds, seen.manifests().len(), "the index has each object");
    assert!(seen.manifests().is_sorted_by(|a, b| a.id <= b.id));
    for manifest in seen.manifests() {
        let namespace = manifest.object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        assert_eq!(namespace, manifest.id.namespace, "identity and object agree");
        let mut beside = seen.in_namespace(namespace);
        assert!(namespace.is_empty() || beside.any(|other| other == manifest), "{}", manifest.id);
    }
    seen.manifests().iter().map(|manifest| format!("{} {}", manifest.id, manifest.origin.path)).collect()
}

#[test]
fn a_placement_sees_its_folder() {
    let tree = tree(
        vec![
            at("apps/production", "ConfigMap", "shop", "rendered"),
            at("apps/production#2", "ConfigMap", "shop", "rendered-more"),
            at("apps/production#a.yaml", "Node", "", "beside"),
            at("apps/production-old/a.yaml", "ConfigMap", "shop", "a"),
            at("apps/production/a.yaml", "ConfigMap", "shop", "a"),
            at("apps/production/eu/b.yaml", "ConfigMap", "shop", "b"),
            at("apps/staging/a.yaml", "ConfigMap", "shop", "a"),
            at("apps/staging.yaml", "Node", "", "n"),
        ],
        &[],
    );
    let all = "ConfigMap shop/a apps/production-old/a.yaml\n\
               ConfigMap shop/a apps/production/a.yaml\n\
               ConfigMap shop/a apps/staging/a.yaml\n\
               ConfigMap shop/b apps/production/eu/b.yaml\n\
               ConfigMap shop/rendered apps/production\n\
               ConfigMap shop/rendered-more apps/production#2\n\
               Node beside apps/production#a.yaml\n\
               Node n apps/staging.yaml";
    assert_eq!(seen(&tree, &[]).join("\n"), all);
    let production = ["ConfigMap shop/a apps/production/a.yaml", "ConfigMap shop/b apps/production/eu/b.yaml"];
    let rendered = ["ConfigMap shop/rendered apps/production", "ConfigMap shop/rendered-more apps/production#2"];
    assert_eq!(seen(&tree, &[(PATH, "apps/production")]), [production[0], production[1], rendered[0], rendered[1]]);
    assert_eq!(seen(&tree, &[(PATH, "apps/production/eu")]), [production[1]]);
    assert_eq!(seen(&tree, &[(PATH, "apps/staging")]), ["ConfigMap shop/a apps/staging/a.yaml"]);
    assert_eq!(seen(&tree, &[(PATH, "apps/staging.yaml")]), ["Node n apps/staging.yaml"]);
    assert_eq!(seen(&tree, &[(PATH, "apps")]).join("\n"), all);
    assert_eq!(seen(&tree, &[(PATH, "app")]), Vec::<String>::new());
    let found: Vec<_> = tree.at(&tree.manifests[0].id).iter().map(|manifest| &*manifest.origin.path).collect();
    assert_eq!(found, ["apps/production-old/a.yaml", "apps/production/a.yaml", "apps/staging/a.yaml"]);
}

#[test]
fn a_namespace_is_given_to_what_is_namespaced_and_names_none() {
    let tree = tree(
        vec![
            at("a/a.yaml", "ConfigMap", "", "bare"),
            at("a/a.yaml", "ConfigMap", "own", "named"),
            at("a/a.yaml", "Node", "", "n"),
            at("b/a.yaml", "ConfigMap", "", "bare"),
        ],
        &[],
    );
    let shop = [(PATH, "a"), (DEFAULT_NAMESPACE, "shop")];
    assert_eq!(seen(&tree, &shop), ["ConfigMap own/named a/a.yaml", "ConfigMap shop/bare a/a.yaml", "Node n a/a.yaml"]);
    let everywhere = seen(&tree, &[(DEFAULT_NAMESPACE, "shop")]);
    assert_eq!(everywhere.iter().filter(|object| object.starts_with("ConfigMap shop/bare")).count(), 2);
    assert_eq!(seen(&tree, &[(PATH, "a")])[0], "ConfigMap bare a/a.yaml", "who gives none changes nothing");
}

#[test]
fn a_namespace_outside_belongs_to_the_folder_that_needs_it() {
    let file = |path: &str| at(path, "Namespace", "", "shop");
    let rows: [(&str, Vec<Manifest>, Option<&str>); 8] = [
        ("its own", vec![file("apps/production/ns.yaml"), file("ns.yaml")], Some("apps/production/ns.yaml")),
        ("beside the folders", vec![file("namespaces/shop.yaml")], Some("namespaces/shop.yaml")),
        ("of a folder around it", vec![file("apps/ns.yaml")], Some("apps/ns.yaml")),
        ("the nearest", vec![file("ns.yaml"), file("apps/ns.yaml")], Some("apps/ns.yaml")),
        ("the nearest, listed first", vec![file("a.yaml"), file("apps/ns.yaml")], Some("apps/ns.yaml")),
        ("not of a folder beside it", vec![file("apps/staging/ns.yaml")], None),
        ("not of a folder below it", vec![file("apps/production/eu/ns.yaml")], Some("apps/production/eu/ns.yaml")),
        ("not another", vec![at("ns.yaml", "Namespace", "", "other")], None),
    ];
    for (name, mut manifests, wanted) in rows {
        manifests.push(at("apps/production/a.yaml", "ConfigMap", "", "a"));
        let tree = tree(manifests, &["apps", "apps/production", "apps/staging"]);
        let sees = |annotations| -> Vec<String> {
            let found: Vec<String> = seen(&tree, annotations);
            let found = found.iter().filter_map(|object| object.strip_prefix("Namespace shop "));
            found.map(str::to_owned).collect()
        };
        let found = sees(&[(PATH, "apps/production"), (DEFAULT_NAMESPACE, "shop")]);
        assert_eq!(found, wanted.into_iter().collect::<Vec<_>>(), "{name}");
        let inside = wanted.filter(|path| path.starts_with("apps/production/"));
        assert_eq!(
            sees(&[(PATH, "apps/production")]),
            inside.into_iter().collect::<Vec<_>>(),
            "{name}: nothing needs it"
        );
    }
}
