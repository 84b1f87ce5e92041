//! Hides the values of Secrets, but shows whether two values are equal.
//!
//! A marker is `<secret:` and the first 48 bits of a SHA-256 over a key and the value. The key is a SHA-256 over every Secret
//! value of the plan. So the same tree gives the same plan byte for byte, unlike with a random key, and a guess of one value
//! can be checked only together with guesses of all others. The snapshot's hash, which covers the real content by contract,
//! reveals as much; for more protection keep plain Secrets out of git.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use model::plan::Plan;

/// Hexadecimal digits of a marker: 48 bits, so that a million values do not collide by accident.
const MARKER_DIGITS: usize = 12;
/// The fields of a Secret that are hidden; whether values in them are base64.
const FIELDS: [(&str, bool); 2] = [("data", true), ("stringData", false)];

/// Replaces every value of every Secret of a plan by a marker: equal values have equal markers, whether written in `data` or in
/// `stringData`. Names, keys and hashes stay.
pub fn hide_secrets(plan: &mut Plan) {
    let mut hash = Sha256::new();
    for list in distinct_lists(plan) {
        for object in list.iter().filter(|object| is_secret(object)) {
            for_each_value(object, &mut |_, bytes| {
                // With its length: otherwise different values could join to the same key.
                hash.update((bytes.len() as u64).to_be_bytes());
                hash.update(bytes);
            });
        }
    }
    let key: [u8; 32] = hash.finalize().into();
    // By address, which identifies a list while the plan holds it: clusters share lists, and each is hidden once.
    let hidden: BTreeMap<usize, Arc<[Arc<Value>]>> = distinct_lists(plan)
        .filter(|list| list.iter().any(|object| is_secret(object)))
        .map(|list| (identity(list), list.iter().map(|object| hidden(object, &key)).collect()))
        .collect();
    for work in plan.placements.iter_mut().flat_map(|p| &mut p.works) {
        if let Some(list) = hidden.get(&identity(&work.manifests)) {
            work.manifests = Arc::clone(list);
        }
    }
}

/// Returns the lists of the works; a list that neighbours share only once.
fn distinct_lists(plan: &Plan) -> impl Iterator<Item = &Arc<[Arc<Value>]>> {
    let lists = plan.placements.iter().flat_map(|p| p.works.iter().map(|w| &w.manifests));
    let mut last = None;
    lists.filter(move |list| last.replace(identity(list)) != Some(identity(list)))
}

fn identity(list: &Arc<[Arc<Value>]>) -> usize {
    Arc::as_ptr(list).cast::<()>() as usize
}

fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

/// Visits the values as bytes with their JSON pointers; a field that is no map as a whole.
fn for_each_value(object: &Value, visit: &mut dyn FnMut(String, &[u8])) {
    for (field, is_base64) in FIELDS {
        match object.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (key, value) in entries {
                    // `~` first: the other order would escape the `~` of `~1` again.
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    visit(format!("/{field}/{escaped}"), &bytes(value, is_base64));
                }
            }
            Some(other) => visit(format!("/{field}"), &bytes(other, is_base64)),
        }
    }
}

fn bytes(value: &Value, is_base64: bool) -> Vec<u8> {
    match value {
        // An API server would refuse invalid base64; the text may still be a secret.
        Value::String(text) if is_base64 => STANDARD.decode(text).unwrap_or_else(|_| text.clone().into_bytes()),
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

fn hidden(object: &Arc<Value>, key: &[u8; 32]) -> Arc<Value> {
    if !is_secret(object) {
        return Arc::clone(object);
    }
    let mut clean = Value::clone(object);
    for_each_value(object, &mut |pointer, bytes| {
        let digest = format!("{:x}", Sha256::new().chain_update(key).chain_update(bytes).finalize());
        if let Some(value) = clean.pointer_mut(&pointer) {
            *value = Value::String(format!("<secret:{}>", &digest[..MARKER_DIGITS]));
        }
    });
    Arc::new(clean)
}

#[cfg(test)]
mod tests;
