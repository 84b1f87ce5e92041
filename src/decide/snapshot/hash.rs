//! Go's JSON and the hashes over it. KubeFleet hashes what `json.Marshal` writes, so equal hashes need equal bytes.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use model::api::placement::{PlacementPolicy, TolerationOperator, UnsatisfiableAction};
use model::encrypted::{SOPS_FIELD, digest_of as encrypted_digest, is_of_encrypted};
use model::id::{Digest, PlacementKey};
use model::manifest::Manifest;
use model::overrides::OverrideSpec;

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
        // Zero is below the limit too, and Go writes it without an exponent.
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

/// Returns hash, digests and sizes of sanitised objects in snapshot order. `known` may know the digest of an encrypted object.
pub(super) fn fingerprint(manifests: &[Manifest], known: impl Fn(&Manifest) -> Option<Digest>) -> Fingerprint {
    let mut objects = Vec::with_capacity(manifests.len());
    let hash = hash_objects(manifests, known, |digest, bytes| objects.push((digest, bytes)));
    Fingerprint { hash, objects }
}

/// Hashes `{"selectedResources":[...]}` and passes each object's digest, and the size of its JSON, to `see`. For an encrypted object its
/// digest is hashed.
fn hash_objects(
    manifests: &[Manifest],
    known: impl Fn(&Manifest) -> Option<Digest>,
    mut see: impl FnMut(Digest, usize),
) -> Digest {
    let mut hasher = Sha256::new_with_prefix(br#"{"selectedResources":["#);
    // One buffer for all objects: the JSON of a whole snapshot is never in memory at once.
    let mut buffer = Vec::new();
    for (position, manifest) in manifests.iter().enumerate() {
        buffer.clear();
        append_go_json(&*manifest.object, &mut buffer);
        if position > 0 {
            hasher.update(b",");
        }
        if manifest.encrypted.is_some() {
            let digest = known(manifest).unwrap_or_else(|| object_digest(manifest));
            hasher.update(go_json(&json!({ SOPS_FIELD: digest.as_str() })));
            see(digest, buffer.len());
        } else {
            hasher.update(&buffer);
            see(sha256(&buffer), buffer.len());
        }
    }
    hasher.update(b"]}");
    digest_of(hasher)
}

/// Returns KubeFleet's resource hash over sanitised objects in snapshot order, before they are split.
///
/// Source: KubeFleet, the hash of a resource snapshot's spec.
pub fn resource_hash(manifests: &[Manifest]) -> Digest {
    hash_objects(manifests, |_| None, |_, _| {})
}

/// Returns the SHA-256 over Go's JSON of one object; of an encrypted one over what identifies it.
pub fn object_digest(manifest: &Manifest) -> Digest {
    match &manifest.encrypted {
        None => sha256(&go_json(&manifest.object)),
        Some(encrypted) => encrypted_digest(&sha256(&go_json(&encrypted.identity(&manifest.object)))),
    }
}

/// Tells whether a manifest that was read again is what a digest was made of.
pub fn is_of_digest(manifest: &Manifest, digest: &Digest) -> bool {
    // What its values were may not be known any more. It is in the same blob, so it is the same.
    manifest.encrypted.is_some() && is_of_encrypted(digest.as_str()) || object_digest(manifest) == *digest
}

/// Returns the SHA-256 over Go's JSON of a value.
pub fn value_digest(value: &Value) -> Digest {
    sha256(&go_json(value))
}

/// Returns the digest of an override's whole spec, and of the folder that it is about; another digest means a change.
pub fn override_hash(spec: &OverrideSpec, folder: Option<&str>) -> Digest {
    let mut buffer = Vec::new();
    append_go_json(spec, &mut buffer);
    // Without a folder it is KubeFleet's hash.
    if let Some(folder) = folder {
        append_go_json(folder, &mut buffer);
    }
    sha256(&buffer)
}

/// Returns KubeFleet's policy hash: over the policy in the API's field order without `numberOfClusters`; `null` for none.
///
/// Fields are hashed unchanged: fill in defaults first ([`scheduled_policy`]), as KubeFleet's API server does.
pub fn policy_hash(policy: Option<&PlacementPolicy>) -> Digest {
    // Another number is not another policy: it must not cause a new evaluation of every binding.
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
mod tests;
