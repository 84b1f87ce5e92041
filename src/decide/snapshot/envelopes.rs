//! Envelopes: objects that contain others, which are delivered in their place. The snapshot keeps the envelope itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use model::api::envelope;
use model::encrypted::is_encrypted;
use model::id::{ObjectId, ObjectKey, PlacementKey};
use model::manifest::Manifest;

use super::hash::{go_json, sha256};
use super::sanitise::sanitise;

/// Hexadecimal digits that distinguish the names of envelopes' works.
const NAME_DIGITS: usize = 16;

/// Tells whether a manifest is an envelope: of one of the two kinds, or a ConfigMap with their annotation.
pub fn is_envelope(manifest: &Manifest) -> bool {
    envelope::is_envelope(&manifest.object)
}

/// Returns the sanitised contents of the envelopes among a placement's selected objects: envelope by envelope, in each by the
/// bytes of its JSON, descending. Their origin is that of their envelope.
///
/// # Errors
/// The envelope and its entry that is no object, is invalid there, or is also delivered from elsewhere, as text for users.
///
/// Source: KubeFleet's work generator.
pub fn enveloped(manifests: &[Manifest], placement: &PlacementKey) -> Result<Vec<Manifest>, String> {
    let mut contents = Vec::new();
    // Most placements have no envelopes and skip the index of all their objects.
    if !manifests.iter().any(is_envelope) {
        return Ok(contents);
    }
    let plain = manifests.iter().filter(|manifest| !is_envelope(manifest));
    // An object beside an envelope and inside one would be written twice, and the last write would win.
    let mut known: BTreeMap<ObjectKey, String> =
        plain.map(|manifest| (manifest.id.key(), "by itself".to_owned())).collect();
    for envelope in manifests.iter().filter(|manifest| is_envelope(manifest)) {
        let mut entries =
            envelope::entries(&envelope.object).map_err(|(entry, why)| entry_failure(envelope, &entry, &why))?;
        entries.sort_by_cached_key(|(_, object)| Reverse(go_json(object)));
        for (entry, object) in entries {
            let id = entry_id(&object, placement).map_err(|why| entry_failure(envelope, &entry, &why))?;
            let place = format!("by entry {entry} of {}", envelope.id);
            if let Some(other) = known.insert(id.key(), place) {
                let why = format!("{id} is placed {other} too; remove one of the two");
                return Err(entry_failure(envelope, &entry, &why));
            }
            let object = Arc::new(sanitise(&object));
            let origin = envelope.origin.clone();
            contents.push(Manifest { id, object, origin, encrypted: None });
        }
    }
    Ok(contents)
}

/// Returns the identity of an object in an envelope, if it may be there.
fn entry_id(object: &Value, placement: &PlacementKey) -> Result<ObjectId, String> {
    let Some(id) = ObjectId::of(object) else { return Err("is no object".to_owned()) };
    if is_encrypted(object) {
        return Err("is encrypted; encrypt objects in files of their own".to_owned());
    }
    if id.is_reserved() {
        return Err(format!("{id} is reserved: inventories of gitfleet are there; take the entry out"));
    }
    if placement.namespace.is_some() && id.namespace.is_empty() {
        return Err(format!("{id} is cluster-scoped; a ResourcePlacement places objects of its namespace only"));
    }
    Ok(id)
}

fn entry_failure(envelope: &Manifest, entry: &str, why: &str) -> String {
    format!("{}, entry {entry}: {why}", envelope.id)
}

/// Returns the name of an envelope's work on each cluster, from the name of the work for its part of the snapshot.
///
/// Source: KubeFleet's work generator.
pub fn envelope_work_name(work: &str, envelope: &ObjectId) -> String {
    let digest = sha256(format!("{}/{}/{}", envelope.kind, envelope.namespace, envelope.name).as_bytes());
    format!("{work}-envelope-{}", &digest.as_str()[..NAME_DIGITS])
}

#[cfg(test)]
mod tests;
