//! Envelopes: objects that hold others, which are delivered in their stead. The snapshot keeps the envelope itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::envelope;
use crate::model::id::{ObjectId, ObjectKey, PlacementKey};
use crate::model::manifest::Manifest;

use super::hash::{go_json, sha256};
use super::sanitise::sanitise;

/// Hexadecimal digits by which the name of an envelope's work tells envelopes apart.
const NAME_DIGITS: usize = 16;

/// Tells whether a manifest is an envelope: of one of the two kinds, or a ConfigMap with their annotation.
pub fn is_envelope(manifest: &Manifest) -> bool {
    envelope::is_envelope(&manifest.object)
}

/// Returns what the envelopes among a placement's selected objects hold, sanitised: envelope by envelope, in each by the bytes
/// of its JSON, descending. They are said to stand where their envelope stands.
///
/// # Errors
/// The envelope and its entry that is no object, does not fit, or is delivered from elsewhere too, for people.
///
/// Source: KubeFleet's work generator.
pub fn enveloped(manifests: &[Manifest], placement: &PlacementKey) -> Result<Vec<Manifest>, String> {
    let mut contents = Vec::new();
    if !manifests.iter().any(is_envelope) {
        return Ok(contents);
    }
    let plain = manifests.iter().filter(|manifest| !is_envelope(manifest));
    let mut known: BTreeMap<ObjectKey, String> =
        plain.map(|manifest| (manifest.id.key(), "by itself".to_owned())).collect();
    for envelope in manifests.iter().filter(|manifest| is_envelope(manifest)) {
        let fail = |entry: &str, why: String| format!("{}, entry {entry}: {why}", envelope.id);
        let mut entries = envelope::entries(&envelope.object).map_err(|(entry, why)| fail(&entry, why))?;
        entries.sort_by_cached_key(|(_, object)| Reverse(go_json(object)));
        for (entry, object) in entries {
            let id = ObjectId::of(&object).ok_or_else(|| fail(&entry, "is no object".to_owned()))?;
            if id.is_reserved() {
                let why = format!("{id} is reserved: inventories of gitfleet are there; take the entry out");
                return Err(fail(&entry, why));
            }
            if placement.namespace.is_some() && id.namespace.is_empty() {
                let why =
                    format!("{id} lives in no namespace; a ResourcePlacement places objects of its namespace only");
                return Err(fail(&entry, why));
            }
            let place = format!("by entry {entry} of {}", envelope.id);
            if let Some(other) = known.insert(id.key(), place) {
                return Err(fail(&entry, format!("{id} is placed {other} too; remove one of the two")));
            }
            contents.push(Manifest { id, object: Arc::new(sanitise(&object)), origin: envelope.origin.clone() });
        }
    }
    Ok(contents)
}

/// Returns the name of an envelope's work on each cluster, given that of the work for the part of the snapshot it is in.
///
/// Source: KubeFleet's work generator.
pub fn envelope_work_name(work: &str, envelope: &ObjectId) -> String {
    let digest = sha256(format!("{}/{}/{}", envelope.kind, envelope.namespace, envelope.name).as_bytes());
    format!("{work}-envelope-{}", &digest.as_str()[..NAME_DIGITS])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::table::PLACEMENT_GROUP;
    use crate::snapshot::tests::{manifest, manifest_of};
    use crate::snapshot::work_names;

    fn envelope(kind: &str, name: &str, data: &Value) -> Manifest {
        let namespace = if kind == "ClusterResourceEnvelope" { "" } else { "app" };
        manifest_of(json!({"apiVersion": format!("{PLACEMENT_GROUP}/v1beta1"), "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "data": data}))
    }

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}})
    }

    #[test]
    fn example_40_names_of_envelope_works() {
        let placement = PlacementKey::namespaced("app", "web");
        let work = &work_names(&placement, 1)[0];
        assert_eq!(work, "app.web-work");
        let named = |kind: &str| envelope_work_name(work, &envelope(kind, "env1", &json!({})).id);
        assert_eq!(named("ResourceEnvelope"), "app.web-work-envelope-b8cf6b607ef55b5e");
        assert_eq!(named("ClusterResourceEnvelope"), "app.web-work-envelope-706715ce411cc776");
    }

    #[test]
    fn contents_come_by_their_bytes_descending() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "app"},
            "status": {"x": 1}});
        let selected = [
            manifest("v1", "Namespace", "", "app"),
            envelope("ResourceEnvelope", "one", &json!({"1": config_map("a"), "2": secret, "3": config_map("b")})),
            envelope("ResourceEnvelope", "two", &json!({"1": config_map("c")})),
        ];
        let found = enveloped(&selected, &PlacementKey::cluster_scoped("p")).unwrap();
        let names: Vec<String> = found.iter().map(|m| m.id.to_string()).collect();
        assert_eq!(names, ["Secret app/a", "ConfigMap app/b", "ConfigMap app/a", "ConfigMap app/c"]);
        assert!(found[0].object.get("status").is_none() && found[0].origin == selected[1].origin);
        assert_eq!(enveloped(&selected[..1], &PlacementKey::cluster_scoped("p")), Ok(vec![]));
    }

    #[test]
    fn what_an_envelope_may_not_hold() {
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        let one = |data: &Value| envelope("ResourceEnvelope", "one", data);
        let (cluster, namespaced) = (PlacementKey::cluster_scoped("p"), PlacementKey::namespaced("app", "p"));
        let wrong = "ResourceEnvelope.placement.kubernetes-fleet.io app/one, entry ";
        let rows = [
            ("a scope", vec![one(&json!({"e": role}))], &cluster, "e: a ClusterRole does not fit"),
            (
                "a plain object again",
                vec![manifest("v1", "ConfigMap", "app", "a"), one(&json!({"e": config_map("a")}))],
                &cluster,
                "e: ConfigMap app/a is placed by itself too",
            ),
            (
                "one object twice",
                vec![one(&json!({"e": config_map("a"), "f": config_map("a")}))],
                &cluster,
                "f: ConfigMap app/a is placed by entry e of ResourceEnvelope",
            ),
            (
                "d13: the namespace of the inventories",
                vec![envelope(
                    "ClusterResourceEnvelope",
                    "two",
                    &json!({"e": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gitfleet-system"}}}),
                )],
                &cluster,
                "e: Namespace gitfleet-system is reserved",
            ),
            (
                "outside the placement's namespace",
                vec![envelope("ClusterResourceEnvelope", "two", &json!({"e": role}))],
                &namespaced,
                "ClusterRole.rbac.authorization.k8s.io r lives in no namespace",
            ),
        ];
        for (name, selected, placement, wanted) in rows {
            let error = enveloped(&selected, placement).unwrap_err();
            assert!(error.contains(wanted), "{name}: {error}");
            assert!(error.starts_with(wrong) || error.contains(" two, entry e"), "{name}: {error}");
        }
    }
}
