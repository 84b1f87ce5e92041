//! Hides values in objects that are shown where anybody may read and nothing is forgotten: comments on a git host stand in mails
//! and in the history of their edits.
//!
//! | where | what |
//! |---|---|
//! | Secret (v1) | every value of `data` and `stringData` |
//! | ConfigMap (v1) | values of `data` and `binaryData` whose key speaks of a secret |
//! | anywhere | `value` of an entry of a list `env` whose name speaks of a secret |
//! | anywhere | the annotation in which kubectl keeps the object as it was applied, which repeats all of the above |
//!
//! An object inside another, such as in an envelope, is hidden the same. What SOPS or a SealedSecret has encrypted stays.
//!
//! A hidden value is a marker that says neither the value nor how long it is. Equal values have equal markers, so that a change
//! is seen; a marker is made with a key, so that no guess can be checked without it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use serde_json::{Map, Value};
use sha2::Sha256;

/// Hexadecimal digits of a marker: 48 bits, so that a million values do not collide by accident.
const MARKER_DIGITS: usize = 12;
/// Parts of names that speak of a secret, in lower case.
const SPEAKING: [&str; 7] = ["pass", "token", "secret", "key", "cred", "dsn", "cert"];
/// Where kubectl keeps an object as it was applied.
///
/// Source: kubectl, client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How a value begins that SOPS has encrypted, and the field that says so.
///
/// Source: SOPS, its format of encrypted files.
const SOPS: (&str, &str) = ("sops", "ENC[");

/// What markers are made with. Whoever has it can check guesses.
#[derive(Clone)]
pub struct MaskKey([u8; 32]);

impl std::fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MaskKey(..)")
    }
}

impl MaskKey {
    /// Takes 32 bytes that nobody can guess and that stay the same, or markers change from one text to the next.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the marker of a value.
    fn marker(&self, value: &[u8]) -> Value {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length is taken");
        mac.update(value);
        let digest = format!("{:x}", mac.finalize().into_bytes());
        Value::String(format!("<masked:{}>", &digest[..MARKER_DIGITS]))
    }
}

/// Returns an object with everything hidden that must not be read.
pub fn masked(object: &Value, key: &MaskKey) -> Value {
    let mut object = object.clone();
    hide(&mut object, key);
    object
}

fn hide(value: &mut Value, key: &MaskKey) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|one| hide(one, key)),
        Value::Object(map) => hide_in(map, key),
        _ => {}
    }
}

fn hide_in(map: &mut Map<String, Value>, key: &MaskKey) {
    let is_core = map.get("apiVersion").is_some_and(|version| version == "v1");
    let kind = map.get("kind").and_then(Value::as_str).filter(|_| is_core).unwrap_or_default();
    let fields: &[(&str, bool)] = match kind {
        "Secret" => &[("data", true), ("stringData", false)],
        "ConfigMap" => &[("data", false), ("binaryData", true)],
        _ => &[],
    };
    let hides_all = kind == "Secret";
    let encrypted = map.contains_key(SOPS.0);
    for (field, is_base64) in fields {
        match map.get_mut(*field) {
            Some(Value::Object(entries)) => {
                for (_, value) in entries.iter_mut().filter(|(name, _)| hides_all || speaks_of_secrets(name)) {
                    let is_encrypted = encrypted && value.as_str().is_some_and(|text| text.starts_with(SOPS.1));
                    if !is_encrypted {
                        replace(value, *is_base64, key);
                    }
                }
            }
            // No map: nobody knows what it is.
            Some(other) if hides_all => replace(other, *is_base64, key),
            _ => {}
        }
    }
    for (name, value) in map.iter_mut() {
        match (name.as_str(), value) {
            ("annotations", Value::Object(annotations)) => {
                annotations.get_mut(LAST_APPLIED).into_iter().for_each(|applied| replace(applied, false, key));
            }
            ("env", Value::Array(entries)) => {
                let named = entries.iter_mut().filter_map(Value::as_object_mut);
                let speaking =
                    named.filter(|entry| entry.get("name").and_then(Value::as_str).is_some_and(speaks_of_secrets));
                for entry in speaking {
                    entry.get_mut("value").into_iter().for_each(|value| replace(value, false, key));
                }
            }
            _ => {}
        }
    }
    // What is hidden already is a text, and stays.
    map.iter_mut().for_each(|(_, value)| hide(value, key));
}

/// Tells whether a name says that its value is to be hidden.
fn speaks_of_secrets(name: &str) -> bool {
    let name = name.to_lowercase();
    SPEAKING.iter().any(|part| name.contains(part))
}

/// Puts the marker in a value's place. The same bytes have the same marker however they are written.
fn replace(value: &mut Value, is_base64: bool, key: &MaskKey) {
    let bytes = match &*value {
        Value::Null => return,
        Value::String(text) => {
            let decoded = is_base64.then(|| STANDARD.decode(text.split_whitespace().collect::<String>()).ok());
            decoded.flatten().unwrap_or_else(|| text.clone().into_bytes())
        }
        other => other.to_string().into_bytes(),
    };
    *value = key.marker(&bytes);
}

#[cfg(test)]
mod tests;
