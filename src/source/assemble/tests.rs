use super::*;
use crate::{BLOB_BYTES_MAX, parse_blob, select};
use model::api::table::MEMBER_NAME_LABEL;
use model::id::PlacementKey;
use model::tree::NoObject;
use model::tree::Scope;

fn tree(files: &[(&str, &[u8])]) -> Result<Tree, Vec<InputError>> {
    let selection = select(files.iter().map(|(path, _)| *path), None);
    let parsed = files
        .iter()
        .filter(|(path, _)| selection.read.iter().any(|read| read == path))
        .map(|(path, content)| (Arc::from(*path), BlobId::new(*path), Arc::new(parse_blob(content))));
    assemble(None, &selection, parsed)
}

const PLACEMENT: &str = "
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: p}
spec:
  resourceSelectors:
    - {group: '', version: v1, kind: Namespace, name: a}
";

/// Every row is one bad file (or two) and the complaints about it.
#[test]
fn bad_input_is_named() {
    let overrides = (override_of("one"), override_of("two"));
    let big = vec![b'#'; BLOB_BYTES_MAX + 1];
    let bomb = {
        let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..10 {
            text += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(","));
        }
        text
    };
    let typo = format!("---\na: 1\n---{PLACEMENT}  strategy:\n    rollingUpdate: {{maxUnavailabel: 1}}\n");
    let bad_and_good = format!("a: [\n---{}", PLACEMENT.replace("spec:", "spec:\n  zzz: 1"));
    let configs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns}\n";
    let table: &[Bad<'_>] = &[
        ("not YAML", &[("a.yaml", b"a: 1\nb: [\n")], &["a.yaml:2: not YAML"]),
        (
            "one bad document hides no other",
            &[("a.yaml", bad_and_good.as_bytes())],
            &["a.yaml:1: not YAML", "a.yaml:7: ClusterResourcePlacement.placement.kubernetes-fleet.io p: spec.zzz: unknown"],
        ),
        (
            "unknown field",
            &[("a.yaml", typo.as_bytes())],
            &["a.yaml:11: ClusterResourcePlacement.placement.kubernetes-fleet.io p: spec.strategy.rollingUpdate.maxUnavailabel: unknown field (did you mean `maxUnavailable`?)"],
        ),
        (
            "two documents, one identity",
            &[("a.yaml", configs.as_bytes()), ("b/c.yaml", configs.as_bytes())],
            &["b/c.yaml:1: ConfigMap ns/a: metadata.name: the same object stands at a.yaml:1 too"],
        ),
        (
            "one identity in two versions",
            &[
                ("a.yaml", PLACEMENT.as_bytes()),
                ("b.yaml", b"apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacement\nmetadata: {name: p}\nspec: {resourceSelectors: [{group: '', version: v1, kind: Namespace}]}"),
            ],
            &["b.yaml:1: ClusterResourcePlacement.placement.kubernetes-fleet.io p: metadata.name: the same object stands at a.yaml:2 too"],
        ),
        (
            "no namespace",
            &[("a.yaml", b"\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")],
            &["a.yaml:2: ConfigMap a: metadata.namespace: a ConfigMap is namespaced"],
        ),
        (
            "a namespace on one of gitfleet's own kinds",
            &[("a.yaml", b"apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: a, namespace: b}\n")],
            &["a.yaml:1: MemberCluster.cluster.kubernetes-fleet.io b/a: metadata.namespace: a MemberCluster is cluster-scoped (remove"],
        ),
        (
            "the same object with and without a namespace that has no effect",
            &[("a.yaml", b"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")],
            &["a.yaml:5: Namespace a: metadata.name: the same object stands at a.yaml:1 too"],
        ),
        (
            "a definition decides the scope",
            &[
                ("a.yaml", b"apiVersion: e.io/v1\nkind: Thing\nmetadata: {name: a}\n"),
                ("b.yaml", b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.e.io}\nspec: {group: e.io, scope: Namespaced, names: {kind: Thing}}\n"),
            ],
            &["a.yaml:1: Thing.e.io a: metadata.namespace: a Thing is namespaced"],
        ),
        ("alias bomb", &[("a.yaml", bomb.as_bytes())], &["a.yaml:5: the document's aliases expand"]),
        ("large file", &[("a.yaml", &big)], &["a.yaml: has 5242881 bytes, the limit is 5242880"]),
        (
            "LFS pointer",
            &[("a.yaml", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")],
            &["a.yaml: is a git LFS pointer"],
        ),
        ("not UTF-8", &[("a.yaml", b"a: 1\nb: \xff\n")], &["a.yaml:2: is not UTF-8"]),
        (
            "generateName",
            &[("a.yaml", b"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-}\n")],
            &["a.yaml:3: Job: metadata.generateName: a name that changes"],
        ),
        ("kind alone", &[("a.yaml", b"kind: Job\n")], &["a.yaml:1: apiVersion: required and missing"]),
        ("apiVersion alone", &[("a.yaml", b"apiVersion: v1\n")], &["a.yaml:1: kind: required and missing"]),
        (
            "number as a name",
            &[("a.yaml", b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: 12\n")],
            &["a.yaml:4: Namespace: metadata.name: 12 is not text (put it in quotes)"],
        ),
        (
            "unknown kind of ours",
            &[("a.yaml", b"apiVersion: gitfleet.io/v1alpha1\nkind: Fleet\nmetadata: {name: a}\n")],
            &["a.yaml:2: Fleet.gitfleet.io a: kind: group gitfleet.io has no kind"],
        ),
        (
            "inside a list",
            &[("a.yaml", b"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: a}\n")],
            &["a.yaml:7: Secret a: metadata.namespace: a Secret is namespaced"],
        ),
        (
            "two overrides on one object",
            &[("a.yaml", overrides.0.as_bytes()), ("b.yaml", overrides.1.as_bytes())],
            &["b.yaml:1: ClusterResourceOverride.placement.kubernetes-fleet.io two: spec.clusterResourceSelectors[0]: one at a.yaml:1 overrides Namespace ns too"],
        ),
    ];
    are_named(table);
}

#[test]
fn point_11_truth_keys_are_errors_where_keys_are_names() {
    let table: &[Bad<'_>] = &[
        (
            "point 11: a label key that is a truth value",
            &[("a.yaml", b"apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: a\n  labels:\n    n: x\n")],
            &["a.yaml:6: MemberCluster.cluster.kubernetes-fleet.io a: metadata.labels.n: the key n is read as \"false\", as kubectl reads it (put it in quotes: \"n\")"],
        ),
        (
            "point 11: where payload has names of somebody's choice",
            &[
                ("a.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns}\ndata:\n  on: x\n"),
                ("b.yaml", b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a, namespace: ns}\n  spec:\n    selector: {y: z}\n"),
            ],
            &["a.yaml:5: ConfigMap ns/a: data.on: the key on is read as \"true\"", "b.yaml:9: Service ns/a: spec.selector.y: the key y"],
        ),
    ];
    are_named(table);
}

type Bad<'a> = (&'a str, &'a [(&'a str, &'a [u8])], &'a [&'a str]);

fn are_named(table: &[Bad<'_>]) {
    for (name, files, expected) in table {
        let errors: Vec<String> = tree(files).expect_err(name).iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), expected.len(), "{name}: {errors:#?}");
        for (error, expected) in errors.iter().zip(*expected) {
            assert!(error.starts_with(expected), "{name}: {error}");
        }
    }
}

#[test]
fn d03_identities_that_kubernetes_refuses_are_named() {
    are_named(&[
        (
            "d03: a kind, a namespace and a name that lead elsewhere",
            &[
                ("a.yaml", b"apiVersion: v1\nkind: ../prod/secret\nmetadata: {name: db, namespace: app}\n"),
                ("b.yaml", b"apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  namespace: ../prod\n"),
                ("c.yaml", b"apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata:\n    namespace: app\n    name: oops a space\n"),
            ],
            &[
                "a.yaml:2: ../prod/secret: kind: \"../prod/secret\" is no kind",
                "b.yaml:5: Secret: metadata.namespace: \"../prod\" is no namespace",
                "c.yaml:6: ConfigMap: metadata.name: \"oops a space\" cannot be the name of a ConfigMap",
            ],
        ),
        (
            "d03: in an annotated ConfigMap",
            &[("a.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: e\n  namespace: app\n  annotations: {kubernetes-fleet.io/envelope-configmap: \"true\"}\n\
                data:\n  x: |\n    {apiVersion: v1, kind: \"../x\", metadata: {name: a, namespace: app}}\n")],
            &["a.yaml:8: ConfigMap app/e: data.x: kind: \"../x\" is no kind"],
        ),
        (
            "d03: in an envelope",
            &[("a.yaml", b"apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceEnvelope\nmetadata: {name: e}\n\
                data:\n  x: {apiVersion: v1, kind: \"../x\", metadata: {name: a}}\n")],
            &["a.yaml:5: ClusterResourceEnvelope.placement.kubernetes-fleet.io e: data.x: kind: \"../x\" is no kind"],
        ),
    ]);
}

#[test]
fn labels_and_annotations_are_maps_of_texts() {
    let rows: [(&[u8], &str); 2] = [
        (
            b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: x\n",
            "a.yaml:5: Namespace a: metadata.labels: is not a map (write a map of texts",
        ),
        (
            b"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  annotations:\n    version: 1.0\n",
            "a.yaml:5: Namespace a: metadata.annotations: the value of version is not text (write a map of texts",
        ),
    ];
    for (text, wanted) in rows {
        let errors = tree(&[("a.yaml", text)]).expect_err(wanted);
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].to_string().starts_with(wanted), "{}", errors[0]);
    }
}

fn override_of(name: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {{name: {name}}}\nspec:\n  \
         clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: ns}}]\n  policy:\n    overrideRules: \
         [{{overrideType: Delete}}]\n"
    )
}

#[test]
fn a_tree_knows_what_is_what() {
    let files: &[(&str, &[u8])] = &[
        ("p.yaml", PLACEMENT.as_bytes()),
        ("gitfleet.yaml", b"apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: x}\n"),
        ("values.yaml", b"a: 1\n---\n- 1\n"),
        (
            "c.yaml",
            b"apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: one, labels: {env: a}}\n---\n\
              apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: one, labels: {env: b, x: z}}\n---\n\
              apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: two}\nspec: {hubAcceptsClient: true}\n",
        ),
        (
            "l.json",
            br#"{"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "b", "namespace": "ns"}},
                {"metadata": {"name": "a", "namespace": "ns"}}]}"#,
        ),
        ("n.yaml", b"apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n---\napiVersion: e.io/v1\nkind: Odd\nmetadata: {name: o}\n"),
    ];
    let tree = tree(files).unwrap();
    let ids: Vec<String> = tree.manifests.iter().map(|m| m.id.to_string()).collect();
    assert_eq!(ids, ["ConfigMap ns/a", "ConfigMap ns/b", "Namespace ns", "Odd.e.io o"]);
    assert_eq!(tree.manifests[0].origin.ordinal, 1);
    assert_eq!(tree.placements.keys().map(ToString::to_string).collect::<Vec<_>>(), ["p"]);
    let skipped: Vec<_> = tree.skipped.iter().map(|s| (s.path.as_str(), s.line, s.why)).collect();
    assert_eq!(skipped, [("values.yaml", 1, NoObject::Untyped), ("values.yaml", 3, NoObject::List)]);
    let one = &tree.clusters["one"];
    assert_eq!((one.labels["env"].as_str(), one.labels["x"].as_str()), ("a", "z"));
    assert_eq!(one.labels[MEMBER_NAME_LABEL], "one");
    assert!(one.managed.as_ref().is_some_and(|m| m.labels["env"] == "b"));
    assert_eq!(tree.clusters["two"].labels[MEMBER_NAME_LABEL], "two");
    assert_eq!(tree.scopes[&("e.io".to_owned(), "Odd".to_owned())], Scope::Cluster);
    assert_eq!(tree.scopes[&(String::new(), "Pod".to_owned())], Scope::Namespaced);
}

#[test]
fn point_11_truth_keys_elsewhere_in_payload_are_warnings_and_no_object_is_checked() {
    let thing = "apiVersion: e.io/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  point: {x: 1, y: 2}\n";
    let held = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceEnvelope\nmetadata: {name: e}\ndata:\n  \
                one: {apiVersion: e.io/v1, kind: Thing,\n    metadata: {name: b},\n    spec: {off: 1}}\n";
    let files: &[(&str, &[u8])] = &[
        ("a.yaml", &[thing, held].concat().into_bytes()),
        ("values.yaml", b"on: {push: 1}\nlabels: {n: x}\n"),
        ("config.yaml", b"apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nmetadata: {labels: {n: x}}\n"),
    ];
    let tree = tree(files).unwrap();
    let warnings: Vec<String> = tree.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "a.yaml:5: Thing.e.io a: spec.point.y: the key y is read as \"true\", as kubectl reads it (put it in quotes: \"y\")",
            "a.yaml:13: ClusterResourceEnvelope.placement.kubernetes-fleet.io e: data.one.spec.off: the key off is read as \"false\", as kubectl reads it (put it in quotes: \"off\")",
        ]
    );
    let wrong = String::from_utf8(files[0].1.to_vec())
        .unwrap()
        .replace("metadata: {name: b}", "metadata: {name: b, labels: {n: c}}");
    let errors = self::tree(&[("a.yaml", wrong.as_bytes())]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((errors[0].line, errors[0].field.as_deref()), (12, Some("data.one.metadata.labels.n")));
}

/// Manifests of prometheus-adapter name one, and kubectl applies them.
#[test]
fn the_namespace_of_a_cluster_scoped_object_is_dropped_as_api_servers_do() {
    let role = b"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a, namespace: b}\n";
    let tree = tree(&[("a.yaml", role)]).unwrap();
    assert_eq!(tree.manifests[0].id.to_string(), "ClusterRole.rbac.authorization.k8s.io a");
    assert_eq!(tree.manifests[0].object["metadata"], serde_json::json!({"name": "a"}));
    let warnings: Vec<String> = tree.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "a.yaml:1: ClusterRole.rbac.authorization.k8s.io a: metadata.namespace: a ClusterRole is cluster-scoped, so the namespace has no \
          effect (remove metadata.namespace)"
        ]
    );
}

#[test]
fn the_examples_are_read_unedited() {
    let files: &[(&str, &[u8])] = &[
        ("1.yaml", include_bytes!("../../../tests/fixtures/examples/argocd-applicationset.yaml")),
        ("2.yaml", include_bytes!("../../../tests/fixtures/examples/crp-properties.yaml")),
        ("3.yaml", include_bytes!("../../../tests/fixtures/examples/crp-rolling-update.yaml")),
        ("4.yaml", include_bytes!("../../../tests/fixtures/examples/crp-topology-spread.yaml")),
        ("5.yaml", include_bytes!("../../../tests/fixtures/examples/ocm-placement.yaml")),
        ("6.yaml", include_bytes!("../../../tests/fixtures/examples/staged-update.yaml")),
    ];
    let tree = tree(files).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let placements: Vec<String> = tree.placements.keys().map(ToString::to_string).collect();
    assert_eq!(placements, ["crp-1", "crp-example", "crp-filter", "crp-rank", "crp-staged-update-sample"]);
    let rank = tree.placements[&PlacementKey::cluster_scoped("crp-rank")].spec.policy.as_ref().unwrap();
    let affinity = rank.affinity.as_ref().unwrap().cluster_affinity.as_ref().unwrap();
    let term = &affinity.preferred_during_scheduling_ignored_during_execution[0].preference;
    assert_eq!(term.property_sorter.as_ref().unwrap().name, "resources.kubernetes-fleet.io/total-cpu");
    let inputs: Vec<&str> = tree.inputs.iter().map(|m| m.id.kind.as_str()).collect();
    let placements = ["ClusterResourcePlacement"; 5];
    let others = ["ClusterStagedUpdateRun", "ClusterStagedUpdateStrategy"];
    assert_eq!(inputs, [&["Placement"][..], &placements, &others].concat());
    assert_eq!(tree.manifests.len(), 1);
}

/// A typed list names once what its elements are, and each element is given it.
#[test]
fn d05_what_a_list_gives_its_elements_is_counted() {
    let text = format!("apiVersion: {}\nkind: ThingList\nitems: [{}{{}}]\n", "x".repeat(1_000_000), "{},".repeat(400));
    let errors = tree(&[("a.yaml", text.as_bytes())]).unwrap_err();
    assert_eq!(errors.len(), 1, "{}", errors.len());
    let said = errors[0].to_string();
    assert!(said.starts_with("a.yaml: with this file there are 20") && said.contains("bytes of memory"), "{said}");
}

#[test]
fn d05_complaints_are_counted_and_cut() {
    let name = "n".repeat(500_000);
    let wrong = format!("apiVersion: v1\nkind: {name}\nmetadata: {{name: [1]}}\n---\n").repeat(5);
    let many = "kind: x\n---\n".repeat(3_000);
    let errors = tree(&[("a.yaml", wrong.as_bytes()), ("b.yaml", many.as_bytes())]).unwrap_err();
    assert!(errors.len() <= super::ERRORS_MAX + 1, "{}", errors.len());
    assert!(errors.iter().map(|error| error.to_string().len()).sum::<usize>() < 2_000_000);
    assert!(errors.iter().any(|error| error.message.contains("more than 1000 errors")), "what is left out is said");
}
