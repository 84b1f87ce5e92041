use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::snapshot::tests::{manifest, manifest_of};
use model::overrides::OverrideKey;

/// An override with rules, for objects as `kind/name` of the core group; with a namespace a ResourceOverride.
fn snapshot(namespace: &str, name: &str, index: u64, objects: &[&str], rules: &Value) -> Arc<OverrideSnapshot> {
    let selector = |object: &&str| {
        let (kind, name) = object.split_once('/').unwrap();
        let group = if kind == "Deployment" { "apps" } else { "" };
        json!({"group": group, "version": "v1", "kind": kind, "name": name})
    };
    let selectors: Vec<Value> = objects.iter().map(selector).collect();
    let policy = json!({"overrideRules": rules});
    let spec = match namespace {
        "" => OverrideSpec::Cluster(
            serde_json::from_value(json!({"clusterResourceSelectors": selectors, "policy": policy})).unwrap(),
        ),
        _ => OverrideSpec::Namespaced(
            serde_json::from_value(json!({"resourceSelectors": selectors, "policy": policy})).unwrap(),
        ),
    };
    let namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
    let key = OverrideKey { namespace, name: name.to_owned() };
    let created_at = jiff::Timestamp::UNIX_EPOCH;
    Arc::new(OverrideSnapshot {
        id: OverrideRef { key, index },
        hash: "h".into(),
        spec,
        folder: None,
        commit: "c".into(),
        created_at,
    })
}

/// A rule for every cluster.
fn patch(op: &str, path: &str, value: &Value) -> Value {
    patch_where(&json!({}), op, path, value)
}

fn patch_where(selector: &Value, op: &str, path: &str, value: &Value) -> Value {
    let mut operation = json!({"op": op, "path": path});
    if op != "remove" {
        operation["value"] = value.clone();
    }
    json!({"clusterSelector": selector, "jsonPatchOverrides": [operation]})
}

/// Terms that match a label.
fn having(key: &str, value: &str) -> Value {
    json!({"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {key: value}}}]})
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn objects() -> Vec<Manifest> {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "app"},
        "spec": {"replicas": 1, "list": [1]}});
    vec![
        manifest("v1", "Namespace", "", "app"),
        manifest("v1", "PersistentVolume", "", "disk"),
        manifest("v1", "ConfigMap", "app", "m"),
        manifest_of(web),
    ]
}

/// Picks and renders for a cluster `east` of these labels.
fn render(overrides: &[Arc<OverrideSnapshot>], cluster: &BTreeMap<String, String>) -> Result<Vec<Manifest>, String> {
    let objects = objects();
    let picked = Candidates::of(overrides.iter(), &PlacementKey::cluster_scoped("p"), objects.iter())
        .pick(&"east".into(), cluster);
    let lookup = |id: &OverrideRef| overrides.iter().find(|s| s.id == *id).map(AsRef::as_ref);
    works_for_cluster(&objects, &"east".into(), &picked, lookup).map(Cow::into_owned)
}

#[test]
fn whom_an_override_concerns() {
    let rules = json!([patch("add", "/x", &json!(1))]);
    let named = |mut snapshot: Arc<OverrideSnapshot>, name: &str, scope: PlacementScope| {
        let placement = Some(PlacementRef { name: name.to_owned(), scope });
        match &mut Arc::make_mut(&mut snapshot).spec {
            OverrideSpec::Cluster(spec) => spec.placement = placement,
            OverrideSpec::Namespaced(spec) => spec.placement = placement,
        }
        snapshot
    };
    let mut other_version = snapshot("app", "o", 0, &["Deployment/web"], &rules);
    if let OverrideSpec::Namespaced(spec) = &mut Arc::make_mut(&mut other_version).spec {
        spec.resource_selectors[0].version = "v1beta1".into();
    }
    let all = |objects: &[&str]| snapshot("", "o", 0, objects, &rules);
    let web = || snapshot("app", "o", 0, &["Deployment/web"], &rules);
    let (crp, rp) = (PlacementKey::cluster_scoped("p"), PlacementKey::namespaced("app", "p"));
    let rows = [
        ("a cluster-scoped object", all(&["PersistentVolume/disk"]), &crp, true),
        ("a namespace", all(&["Namespace/app"]), &crp, true),
        ("a namespace, for a ResourcePlacement", all(&["Namespace/app"]), &rp, true),
        ("one of several", all(&["Namespace/x", "PersistentVolume/disk"]), &crp, true),
        ("a namespaced object by itself", all(&["ConfigMap/m"]), &crp, false),
        ("another namespace", all(&["Namespace/other"]), &crp, false),
        ("in its namespace", web(), &crp, true),
        ("in another namespace", snapshot("other", "o", 0, &["Deployment/web"], &rules), &crp, false),
        ("another version", other_version, &crp, false),
        ("for this placement", named(all(&["Namespace/app"]), "p", PlacementScope::Cluster), &crp, true),
        ("for another placement", named(all(&["Namespace/app"]), "q", PlacementScope::Cluster), &crp, false),
        ("not for a ResourcePlacement of its name", named(web(), "p", PlacementScope::Cluster), &rp, false),
        ("for the ResourcePlacement beside it", named(web(), "p", PlacementScope::Namespaced), &rp, true),
        ("not for the ClusterResourcePlacement", named(web(), "p", PlacementScope::Namespaced), &crp, false),
    ];
    for (name, snapshot, placement, wanted) in rows {
        let objects: Vec<Manifest> =
            objects().into_iter().filter(|m| placement.namespace.is_none() || !m.id.namespace.is_empty()).collect();
        assert_eq!(!Candidates::of([snapshot].iter(), placement, objects.iter()).is_empty(), wanted, "{name}");
    }
}

#[test]
fn which_clusters_a_rule_is_for() {
    let rows = [
        ("no selector", json!(null), false),
        ("no terms", json!({}), true),
        ("a term without a selector", json!({"clusterSelectorTerms": [{}]}), false),
        ("an empty selector", json!({"clusterSelectorTerms": [{"labelSelector": {}}]}), true),
        ("its label", having("tier", "gold"), true),
        ("another value", having("tier", "iron"), false),
        (
            "any of the terms",
            json!({"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"tier": "iron"}}},
                {"labelSelector": {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}}]}),
            true,
        ),
    ];
    for (name, selector, wanted) in rows {
        let rule: OverrideRule = serde_json::from_value(patch_where(&selector, "add", "/x", &json!(1))).unwrap();
        assert_eq!(fits_rule(&rule, &labels(&[("tier", "gold"), ("zone", "z")])), wanted, "{name}");
    }
}

#[test]
fn what_is_picked_has_the_labels_that_matter() {
    let value = json!("${MEMBER-CLUSTER-LABEL-KEY-zone}");
    let rules = json!([
        patch_where(&having("tier", "gold"), "add", "/x", &value),
        patch_where(&having("gone", "x"), "add", "/x", &json!("${MEMBER-CLUSTER-LABEL-KEY-unread}")),
    ]);
    let overrides = [
        snapshot("", "b", 10, &["Namespace/app"], &rules),
        snapshot("", "b-2", 0, &["PersistentVolume/disk"], &rules),
        snapshot("app", "a", 0, &["ConfigMap/m"], &rules),
        snapshot(
            "app",
            "z",
            3,
            &["Deployment/web"],
            &json!([patch_where(&having("tier", "iron"), "add", "/x", &value)]),
        ),
    ];
    let candidates = Candidates::of(overrides.iter().rev(), &PlacementKey::cluster_scoped("p"), objects().iter());
    let picked =
        candidates.pick(&"east".into(), &labels(&[("tier", "gold"), ("zone", "z"), ("unread", "u"), ("more", "m")]));
    let names = |refs: &[OverrideRef]| refs.iter().map(OverrideRef::name).collect::<Vec<_>>();
    assert_eq!(names(&picked.cluster), ["b-10", "b-2-0"], "by the snapshot's name");
    assert_eq!(names(&picked.namespaced), ["a-0"]);
    assert_eq!(picked.labels, labels(&[("tier", "gold"), ("zone", "z")]));
    assert_eq!(candidates.pick(&"east".into(), &labels(&[("zone", "z")])), PickedOverrides::default());
}

#[test]
fn the_order_in_which_overrides_act() {
    let set = |value: &str| patch("add", "/spec/by", &json!(value));
    let rows = [
        ("rules from the first to the last", vec![("", "a", json!([set("1"), set("2")]))], Some("2")),
        ("overrides by name", vec![("", "b", json!([set("b")])), ("", "a", json!([set("a")]))], Some("b")),
        (
            "those of the namespace last",
            vec![("app", "a", json!([set("ro")])), ("", "z", json!([set("cro")]))],
            Some("ro"),
        ),
        (
            "what is deleted stays deleted, and nothing after it fails",
            vec![
                (
                    "",
                    "a",
                    json!([{"clusterSelector": {}, "overrideType": "Delete"}, patch("remove", "/no", &json!(null))]),
                ),
                ("app", "b", json!([patch("remove", "/no", &json!(null))])),
            ],
            None,
        ),
    ];
    for (name, overrides, wanted) in rows {
        let overrides: Vec<_> = overrides
            .into_iter()
            .map(|(namespace, name, rules)| {
                let object = if namespace.is_empty() { "Namespace/app" } else { "Deployment/web" };
                let rules: Vec<Value> = rules.as_array().unwrap().clone();
                // The namespace's other objects have no spec to write into.
                let with_spec =
                    json!({"clusterSelector": {}, "jsonPatchOverrides": [{"op": "add", "path": "/spec", "value": {}}]});
                let is_delete = rules[0].get("overrideType").is_some();
                let rules = if is_delete { rules } else { [vec![with_spec], rules].concat() };
                snapshot(namespace, name, 0, &[object], &json!(rules))
            })
            .collect();
        let works = render(&overrides, &BTreeMap::new()).unwrap();
        let web = works.iter().find(|m| m.id.kind == "Deployment");
        let by = web.and_then(|m| m.object.pointer("/spec/by")).and_then(Value::as_str);
        assert_eq!((by, web.is_some()), (wanted, wanted.is_some()), "{name}");
    }
}

#[test]
fn a_namespace_stands_for_all_that_is_in_it() {
    let rules = json!([patch("add", "/metadata/labels", &json!({"team": "x"}))]);
    let works = render(&[snapshot("", "o", 0, &["Namespace/app"], &rules)], &BTreeMap::new()).unwrap();
    let labelled: Vec<_> = works.iter().filter(|m| m.label("team").is_some()).map(|m| m.id.to_string()).collect();
    assert_eq!(labelled, ["Namespace app", "ConfigMap app/m", "Deployment.apps app/web"]);
    assert!(Arc::ptr_eq(&works[1].object, &works[1].clone().object));
}

#[test]
fn what_differs_by_cluster() {
    let east = labels(&[("region", "eu"), ("example.com/size", "5"), ("zone-of-east", "z")]);
    let rows = [
        (json!("${MEMBER-CLUSTER-NAME}.example"), Ok(json!("east.example"))),
        (json!("${MEMBER-CLUSTER-LABEL-KEY-region}-${MEMBER-CLUSTER-LABEL-KEY-example.com/size}"), Ok(json!("eu-5"))),
        (json!({"${MEMBER-CLUSTER-NAME}": ["${MEMBER-CLUSTER-LABEL-KEY-region}"]}), Ok(json!({"east": ["eu"]}))),
        (json!("${MEMBER-CLUSTER-LABEL-KEY-zone-of-${MEMBER-CLUSTER-NAME}}"), Ok(json!("z"))),
        (json!("${OTHER}"), Ok(json!("${OTHER}"))),
        (json!("${MEMBER-CLUSTER-LABEL-KEY-gone}"), Err("the cluster east has no label gone")),
        (json!("${MEMBER-CLUSTER-LABEL-KEY-region"), Err("no closing brace")),
        (
            json!({"a": "${MEMBER-CLUSTER-LABEL-KEY-region", "b": "secret"}),
            Err("not followed by a label's key and a closing brace"),
        ),
    ];
    for (value, wanted) in rows {
        let rules = json!([patch("add", "/spec/by", &value)]);
        let works = render(&[snapshot("app", "o", 0, &["Deployment/web"], &rules)], &east);
        match (works, wanted) {
            (Ok(works), Ok(wanted)) => assert_eq!(works[3].object.pointer("/spec/by"), Some(&wanted), "{value}"),
            (Err(error), Err(wanted)) => {
                assert!(error.contains(wanted) && !error.contains("secret"), "{value}: {error}");
            }
            (works, _) => unreachable!("{value}: {works:?}"),
        }
    }
}

#[test]
fn a_patch_that_fails_is_named() {
    let rows = [
        ("replace", "/spec/gone", "replace /spec/gone on Deployment.apps app/web: path not found"),
        ("remove", "/spec/gone", "remove /spec/gone on Deployment.apps app/web: path not found"),
        ("add", "/no/parent", "add /no/parent on Deployment.apps app/web: path not found"),
        ("add", "/spec/list/5", "add /spec/list/5 on Deployment.apps app/web: path not found"),
        ("add", "/spec/~x", "add /spec/~x on Deployment.apps app/web: the path is no JSON pointer"),
    ];
    for (op, path, wanted) in rows {
        let rules = json!([patch("add", "/spec/ok", &json!(1)), patch(op, path, &json!("secret"))]);
        let error = render(&[snapshot("app", "ro-1", 4, &["Deployment/web"], &rules)], &BTreeMap::new()).unwrap_err();
        assert!(error.starts_with("ResourceOverride app/ro-1 rule 2: ") && error.contains(wanted), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let picked =
        PickedOverrides { cluster: vec![snapshot("", "x", 3, &[], &json!([])).id.clone()], ..Default::default() };
    let error = works_for_cluster(&objects(), &"east".into(), &picked, |_| None).unwrap_err();
    assert!(error.contains("x-3"), "{error}");
}

#[test]
fn patches_that_remove_and_append() {
    let rows = [
        (patch("remove", "/spec/list/0", &json!(null)), "/spec/list", Some(json!([]))),
        (patch("remove", "/spec/replicas", &json!(null)), "/spec/replicas", None),
        (patch("add", "/spec/list/-", &json!(2)), "/spec/list", Some(json!([1, 2]))),
        (patch("add", "/spec/list/0", &json!(0)), "/spec/list", Some(json!([0, 1]))),
    ];
    for (rule, at, wanted) in rows {
        let overrides = [snapshot("app", "o", 0, &["Deployment/web"], &json!([rule]))];
        let works = render(&overrides, &BTreeMap::new()).expect("the patch fits");
        assert_eq!(works[3].object.pointer(at), wanted.as_ref(), "{rule}");
    }
}

#[test]
fn what_an_override_may_not_leave() {
    let rows = [
        (
            "labels that are text",
            patch("add", "/metadata/labels", &json!("secret")),
            "metadata.labels of Deployment.apps app/web unusable: is not a map",
        ),
        (
            "a label that is a number",
            patch("add", "/metadata/labels", &json!({"a": 5})),
            "unusable: the value of a is not text",
        ),
        (
            "d03: another kind",
            patch("replace", "/kind", &json!("../prod/secret")),
            "it makes another object of Deployment.apps app/web",
        ),
        (
            "d03: no name",
            patch("remove", "/metadata/name", &json!(null)),
            "it makes another object of Deployment.apps app/web",
        ),
        (
            "d13: another namespace",
            patch("replace", "/metadata", &json!({"name": "web", "namespace": "gitfleet-system"})),
            "it makes another object of Deployment.apps app/web",
        ),
        (
            "annotations that are a list",
            patch("add", "/metadata/annotations", &json!(["secret"])),
            "metadata.annotations",
        ),
        (
            "a label of the cluster that ends the text it is put into",
            patch("add", "/spec/by", &json!("${MEMBER-CLUSTER-LABEL-KEY-quote}")),
            "the value is no JSON any more with the cluster's labels in it",
        ),
    ];
    for (name, rule, wanted) in rows {
        let overrides = [snapshot("app", "ro-1", 4, &["Deployment/web"], &json!([rule]))];
        let error = render(&overrides, &labels(&[("quote", "secret\"")])).expect_err(name);
        assert!(error.starts_with("ResourceOverride app/ro-1 rule 1: ") && error.contains(wanted), "{name}: {error}");
        assert!(!error.contains("secret"), "{name}: {error}");
    }
}

proptest! {
    /// No override, no copy; and the objects follow from the snapshot and what was picked, whatever other labels there are.
    #[test]
    fn objects_follow_from_what_was_picked(
        tier in prop_oneof![Just("gold"), Just("iron")],
        zone in "[a-c]",
        more in prop::collection::btree_map("x[a-c]", "[a-c]", 0..3),
    ) {
        let objects = objects();
        let borrowed = works_for_cluster(&objects, &"east".into(), &PickedOverrides::default(), |_| None).unwrap();
        prop_assert!(matches!(borrowed, Cow::Borrowed(_)));
        let rules = json!([
            patch_where(&having("tier", "gold"), "add", "/spec/zone", &json!("${MEMBER-CLUSTER-LABEL-KEY-zone}")),
            patch_where(&having("zone", "b"), "replace", "/spec/replicas", &json!(3)),
        ]);
        let overrides = [snapshot("app", "o", 0, &["Deployment/web"], &rules)];
        let candidates = Candidates::of(overrides.iter(), &PlacementKey::cluster_scoped("p"), objects.iter());
        let few = labels(&[("tier", tier), ("zone", &zone)]);
        let mut many = more;
        many.extend(few.clone());
        let (picked, again) = (candidates.pick(&"east".into(), &few), candidates.pick(&"east".into(), &many));
        prop_assert_eq!(&picked, &again);
        let lookup = |id: &OverrideRef| overrides.iter().find(|s| s.id == *id).map(AsRef::as_ref);
        let works = works_for_cluster(&objects, &"east".into(), &picked, lookup).unwrap();
        let spec = &works[3].object["spec"];
        prop_assert_eq!(spec.get("zone").is_some(), tier == "gold");
        prop_assert_eq!(&spec["replicas"], if zone == "b" { 3 } else { 1 });
        prop_assert!(works.iter().zip(&objects).take(3).all(|(a, b)| Arc::ptr_eq(&a.object, &b.object)));
    }
}
