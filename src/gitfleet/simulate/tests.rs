use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use model::manifest::{Manifest, Origin};

fn manifest(object: Value) -> Manifest {
    let id = ObjectId::of(&object).expect("an object");
    Manifest {
        id,
        object: Arc::new(object),
        origin: Origin { path: "a.yaml".into(), line: 1, blob: "b".into(), ordinal: 0 },
        encrypted: None,
    }
}

#[test]
fn objects_are_found_by_kind_and_name_in_envelopes_too() {
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "app"}});
    let mut wrapped = object("ConfigMap", "wrapped");
    wrapped["metadata"]["annotations"] = json!({"kubernetes-fleet.io/envelope-configmap": "true"});
    wrapped["data"] = json!({"e": object("Secret", "inner").to_string()});
    let mut tree = Tree::default();
    tree.set_manifests(vec![manifest(object("ConfigMap", "plain")), manifest(wrapped)]);
    tree.inputs.push(manifest(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "env", "namespace": "app"}, "data": {"e": object("ResourceQuota", "quota")}})));
    let rows = [
        ("ConfigMap/plain", true),
        ("Secret/inner", true),
        ("secret/app/inner", true),
        ("ResourceQuota/quota", true),
        ("ResourceQuota/other/quota", false),
        ("Secret/gone", false),
    ];
    for (what, wanted) in rows {
        let found = objects_of("--fail", what, &tree);
        assert_eq!(found.as_ref().map(BTreeSet::len).unwrap_or_default(), usize::from(wanted), "{what}: {found:?}");
    }
}
