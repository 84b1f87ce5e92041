//! Go's JSON and the hashes over it. KubeFleet hashes what `json.Marshal` writes, so equal hashes need equal bytes.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;
use sha2::{Digest as _, Sha256};

use crate::api::placement::{PlacementPolicy, TolerationOperator, UnsatisfiableAction};
use crate::model::id::{Digest, PlacementKey};
use crate::model::manifest::Manifest;
use crate::model::overrides::OverrideSpec;

/// KubeFleet's default for `maxSkew`.
const MAX_SKEW_DEFAULT: i32 = 1;

/// Below this magnitude Go writes a number with an exponent.
const GO_EXPONENT_BELOW: f64 = 1e-6;
/// From this magnitude on Go writes a number with an exponent.
const GO_EXPONENT_FROM: f64 = 1e21;

/// Writes JSON as Go's `json.Marshal` does: no whitespace, `<`, `>`, `&` and the two line separators escaped, numbers in
/// Go's form.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let magnitude = value.abs();
        let exponent = magnitude != 0.0 && !(GO_EXPONENT_BELOW..GO_EXPONENT_FROM).contains(&magnitude);
        if !exponent {
            return write!(writer, "{value}");
        }
        // Rust's exponent has no plus sign; Go's has one.
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => write!(writer, "{digits}e+{power}"),
            _ => writer.write_all(text.as_bytes()),
        }
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        let mut start = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            let (escape, length) = match byte {
                b'<' => ("\\u003c", 1),
                b'>' => ("\\u003e", 1),
                b'&' => ("\\u0026", 1),
                0xE2 if bytes[at..].starts_with("\u{2028}".as_bytes()) => ("\\u2028", 3),
                0xE2 if bytes[at..].starts_with("\u{2029}".as_bytes()) => ("\\u2029", 3),
                _ => continue,
            };
            writer.write_all(&bytes[start..at])?;
            writer.write_all(escape.as_bytes())?;
            start = at + length;
        }
        writer.write_all(&bytes[start..])
    }
}

/// Appends a value to a buffer as Go would write it.
fn append_go_json<T: Serialize + ?Sized>(value: &T, buffer: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(buffer, GoFormatter);
    value.serialize(&mut serializer).expect("plain values have text keys and a buffer takes all bytes");
}

/// Returns a JSON value as Go's `json.Marshal` writes it: keys sorted by bytes, no whitespace, `<`, `>`, `&`, U+2028 and
/// U+2029 escaped, floating-point numbers in their shortest form with an exponent only below 1e-6 and from 1e21 on.
///
/// Integers are exact up to `u64`, where Kubernetes would round those beyond `i64`.
///
/// Source: Go's `encoding/json`.
pub fn go_json(value: &Value) -> Vec<u8> {
    let mut buffer = Vec::new();
    append_go_json(value, &mut buffer);
    buffer
}

fn digest_of(hasher: Sha256) -> Digest {
    Digest::new(format!("{:x}", hasher.finalize()))
}

/// Returns the SHA-256 of bytes as lowercase hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> Digest {
    digest_of(Sha256::new_with_prefix(bytes))
}

/// Digests and sizes of sanitised objects in snapshot order, from one pass over their JSON.
pub(super) struct Fingerprint {
    /// KubeFleet's resource hash over all of them.
    pub hash: Digest,
    /// Each object's digest and its JSON's size in bytes.
    pub objects: Vec<(Digest, usize)>,
}

/// Returns hash, digests and sizes of sanitised objects in snapshot order.
pub(super) fn fingerprint(manifests: &[Manifest]) -> Fingerprint {
    let mut objects = Vec::with_capacity(manifests.len());
    let hash = hash_objects(manifests, |json| objects.push((sha256(json), json.len())));
    Fingerprint { hash, objects }
}

/// Hashes `{"selectedResources":[...]}` and shows each object's JSON to `see`.
fn hash_objects(manifests: &[Manifest], mut see: impl FnMut(&[u8])) -> Digest {
    let mut hasher = Sha256::new_with_prefix(br#"{"selectedResources":["#);
    let mut buffer = Vec::new();
    for (position, manifest) in manifests.iter().enumerate() {
        buffer.clear();
        append_go_json(&*manifest.object, &mut buffer);
        if position > 0 {
            hasher.update(b",");
        }
        hasher.update(&buffer);
        see(&buffer);
    }
    hasher.update(b"]}");
    digest_of(hasher)
}

/// Returns KubeFleet's resource hash over sanitised objects in snapshot order, before they are split.
///
/// Source: KubeFleet, the hash of a resource snapshot's spec.
pub fn resource_hash(manifests: &[Manifest]) -> Digest {
    hash_objects(manifests, |_| {})
}

/// Returns the SHA-256 over Go's JSON of one object.
pub fn object_digest(manifest: &Manifest) -> Digest {
    sha256(&go_json(&manifest.object))
}

/// Returns the digest by which an override is known to have changed: over its whole spec.
pub fn override_hash(spec: &OverrideSpec) -> Digest {
    let mut buffer = Vec::new();
    append_go_json(spec, &mut buffer);
    sha256(&buffer)
}

/// Returns KubeFleet's policy hash: over the policy in the API's field order without `numberOfClusters`; `null` for none.
///
/// Fields are hashed as they stand: fill in defaults first ([`scheduled_policy`]), as KubeFleet's API server does.
pub fn policy_hash(policy: Option<&PlacementPolicy>) -> Digest {
    let counted = policy.map(|policy| PlacementPolicy { number_of_clusters: None, ..policy.clone() });
    let mut buffer = Vec::new();
    append_go_json(&counted, &mut buffer);
    sha256(&buffer)
}

/// Returns the policy that is scheduled, hashed and recorded: with KubeFleet's defaults, so that writing a default out
/// changes nothing.
///
/// An absent policy of a ClusterResourcePlacement becomes `PickAll`; that of a ResourcePlacement stays absent, because
/// KubeFleet fills it in for the cluster-scoped kind only. Both pick every cluster.
pub fn scheduled_policy(placement: &PlacementKey, policy: Option<&PlacementPolicy>) -> Option<PlacementPolicy> {
    let mut policy = match policy {
        Some(policy) => policy.clone(),
        None if placement.namespace.is_none() => PlacementPolicy::default(),
        None => return None,
    };
    for constraint in &mut policy.topology_spread_constraints {
        constraint.max_skew.get_or_insert(MAX_SKEW_DEFAULT);
        constraint.when_unsatisfiable.get_or_insert(UnsatisfiableAction::DoNotSchedule);
    }
    for toleration in &mut policy.tolerations {
        toleration.operator.get_or_insert(TolerationOperator::Equal);
    }
    Some(policy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::snapshot::tests::manifest;

    fn policy(value: Value) -> PlacementPolicy {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn json_is_written_as_go_writes_it() {
        let rows = [
            ("sorted, compact", json!({"b": 1, "a": [true, null]}), r#"{"a":[true,null],"b":1}"#),
            ("html", json!("a<b>&c"), r#""a\u003cb\u003e\u0026c""#),
            ("html in keys", json!({"<": 1}), r#"{"\u003c":1}"#),
            ("line separators", json!("x\u{2028}y\u{2029}"), r#""x\u2028y\u2029""#),
            ("their neighbours are plain", json!("\u{2027}\u{2030}ü"), "\"\u{2027}\u{2030}ü\""),
            ("controls", json!("\u{1}\t\n\r\u{8}\u{c}\u{7f}\"\\/"), "\"\\u0001\\t\\n\\r\\b\\f\u{7f}\\\"\\\\/\""),
            ("fraction", json!(0.1), "0.1"),
            ("integral float", json!(3.0), "3"),
            ("zero", json!(0.0), "0"),
            ("small, plain", json!(0.000_001), "0.000001"),
            ("small, exponent", json!(0.000_000_15), "1.5e-7"),
            ("large, plain", json!(1e20), "100000000000000000000"),
            ("large, exponent", json!(1e21), "1e+21"),
            ("negative", json!(-2.5e22), "-2.5e+22"),
            ("beyond i64", json!(12_345_678_901_234_567_890_u64), "12345678901234567890"),
        ];
        for (name, value, expected) in rows {
            assert_eq!(String::from_utf8(go_json(&value)).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn example_32_policy_hashes() {
        let none = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";
        let pick_all = "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a";
        assert_eq!(policy_hash(None).as_str(), none);
        assert_eq!(policy_hash(Some(&policy(json!({"placementType": "PickAll"})))).as_str(), pick_all);

        let cluster = PlacementKey::cluster_scoped("p");
        let namespaced = PlacementKey::namespaced("ns", "p");
        assert_eq!(policy_hash(scheduled_policy(&cluster, None).as_ref()).as_str(), pick_all);
        assert_eq!(policy_hash(scheduled_policy(&namespaced, None).as_ref()).as_str(), none);
    }

    #[test]
    fn example_33_the_number_of_clusters_is_not_hashed_and_tolerations_are() {
        let three = policy(json!({"placementType": "PickN", "numberOfClusters": 3}));
        let five = policy(json!({"placementType": "PickN", "numberOfClusters": 5}));
        let tolerant = policy(json!({"placementType": "PickN", "tolerations": [{"operator": "Exists"}]}));
        assert_eq!(policy_hash(Some(&three)), policy_hash(Some(&five)));
        assert_ne!(policy_hash(Some(&three)), policy_hash(Some(&tolerant)));
        let hash = policy_hash(Some(&three));
        assert!(hash.as_str().starts_with("479f405e") && hash.as_str().ends_with("5416a"), "{hash}");
    }

    #[test]
    fn policies_are_hashed_in_the_field_order_of_the_api() {
        let full = policy(json!({
            "tolerations": [{"value": "b<c", "key": "a", "operator": "Equal", "effect": "NoSchedule"}],
            "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "zone", "maxSkew": 2}],
            "affinity": {"clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": {}, "weight": 5}],
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                    {"labelSelector": {"matchExpressions": [{"values": ["x"], "operator": "In", "key": "k"}], "matchLabels": {"b": "1", "a": "2"}}},
                ]},
            }},
            "numberOfClusters": 4,
            "placementType": "PickN",
        }));
        let expected = concat!(
            r#"{"placementType":"PickN","affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":"#,
            r#"{"clusterSelectorTerms":[{"labelSelector":{"matchLabels":{"a":"2","b":"1"},"matchExpressions":"#,
            r#"[{"key":"k","operator":"In","values":["x"]}]}}]},"preferredDuringSchedulingIgnoredDuringExecution":"#,
            r#"[{"weight":5,"preference":{}}]}},"topologySpreadConstraints":[{"maxSkew":2,"topologyKey":"zone","#,
            r#""whenUnsatisfiable":"ScheduleAnyway"}],"tolerations":[{"key":"a","operator":"Equal","value":"b\u003cc","#,
            r#""effect":"NoSchedule"}]}"#,
        );
        assert_eq!(policy_hash(Some(&full)), sha256(expected.as_bytes()));
    }

    #[test]
    fn writing_defaults_out_keeps_the_hash() {
        let short = policy(json!({
            "placementType": "PickN",
            "topologySpreadConstraints": [{"topologyKey": "zone"}],
            "tolerations": [{"key": "a"}],
        }));
        let long = policy(json!({
            "placementType": "PickN",
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "tolerations": [{"key": "a", "operator": "Equal"}],
        }));
        let key = PlacementKey::cluster_scoped("p");
        assert_eq!(scheduled_policy(&key, Some(&short)), scheduled_policy(&key, Some(&long)));
    }

    #[test]
    fn example_34_nothing_selected() {
        let expected = "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1";
        assert_eq!(resource_hash(&[]).as_str(), expected);
        assert_eq!(fingerprint(&[]).hash.as_str(), expected);
    }

    #[test]
    fn the_resource_hash_is_over_the_list_of_objects() {
        let objects = [manifest("v1", "ConfigMap", "ns", "a"), manifest("v1", "ConfigMap", "ns", "b")];
        let list: Vec<&Value> = objects.iter().map(|m| &*m.object).collect();
        let expected = sha256(&go_json(&json!({ "selectedResources": list })));
        assert_eq!(resource_hash(&objects), expected);
        let fingerprint = fingerprint(&objects);
        assert_eq!(fingerprint.hash, expected);
        assert_eq!(fingerprint.objects[1], (object_digest(&objects[1]), go_json(&objects[1].object).len()));
    }
}
