//! The secret values of an object. One rule for comments, records and plans:
//!
//! | where | what |
//! |---|---|
//! | Secret (v1) | every value of `data` and `stringData` |
//! | ConfigMap (v1) | values of `data` and `binaryData` whose key names a secret |
//! | anywhere | `value` of an entry of a list `env` whose name names a secret |
//! | anywhere | the annotation in which kubectl keeps the applied object, which repeats all of the above |
//!
//! An object inside another, such as in an envelope, follows the same rule. Values encrypted by SOPS or a SealedSecret are not
//! secret.

use serde_json::{Map, Value};

/// Words that mark a name as secret, in lower case and in the singular.
const WORDS: [&str; 13] = [
    "pass",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "key",
    "cred",
    "credential",
    "dsn",
    "cert",
    "certificate",
];
/// Ends of words without a separator, such as `dbpassword` and `apikey`. `key` alone is not among them: `monkey`.
const ENDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "signingkey",
    "sshkey",
];
/// This word counts only without a number: `key1` numbers the keys of a map.
const UNNUMBERED: &str = "key";
/// The annotation in which kubectl keeps the applied object.
///
/// Source: kubectl, client-side apply.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The prefix of values that SOPS has encrypted, and the field that proves it.
///
/// Source: SOPS, its format of encrypted files.
const SOPS: (&str, &str) = ("sops", "ENC[");

/// Visits every secret value of an object, and tells whether it is base64. The replacement must be no map and no list.
pub fn for_each_secret(object: &mut Value, visit: &mut dyn FnMut(&mut Value, bool)) {
    match object {
        Value::Array(list) => list.iter_mut().for_each(|one| for_each_secret(one, visit)),
        Value::Object(map) => in_map(map, visit),
        _ => {}
    }
}

fn in_map(map: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value, bool)) {
    let is_core = map.get("apiVersion").is_some_and(|version| version == "v1");
    let kind = if is_core { map.get("kind").and_then(Value::as_str) } else { None };
    let fields: &[(&str, bool)] = match kind {
        Some("Secret") => &[("data", true), ("stringData", false)],
        Some("ConfigMap") => &[("data", false), ("binaryData", true)],
        _ => &[],
    };
    let hides_all = kind == Some("Secret");
    let encrypted = map.contains_key(SOPS.0);
    for (field, is_base64) in fields {
        match map.get_mut(*field) {
            Some(Value::Object(entries)) => {
                for (_, value) in entries.iter_mut().filter(|(name, _)| hides_all || speaks_of_secrets(name)) {
                    // Anybody may write `ENC[`: it proves encryption only beside the field that SOPS adds.
                    let is_encrypted = encrypted && value.as_str().is_some_and(|text| text.starts_with(SOPS.1));
                    if !is_encrypted && !value.is_null() {
                        visit(value, *is_base64);
                    }
                }
            }
            // No map: its meaning is unknown.
            Some(other) if hides_all && !other.is_null() => visit(other, *is_base64),
            _ => {}
        }
    }
    // In every map: pod templates, and objects in envelopes, have their own annotations and variables.
    for (name, value) in map.iter_mut() {
        match (name.as_str(), value) {
            ("annotations", Value::Object(annotations)) => {
                annotations.get_mut(LAST_APPLIED).into_iter().for_each(|applied| visit(applied, false));
            }
            ("env", Value::Array(entries)) => {
                let named = entries.iter_mut().filter_map(Value::as_object_mut);
                let speaking =
                    named.filter(|entry| entry.get("name").and_then(Value::as_str).is_some_and(speaks_of_secrets));
                for entry in speaking {
                    entry.get_mut("value").filter(|value| !value.is_null()).into_iter().for_each(|v| visit(v, false));
                }
            }
            _ => {}
        }
    }
    // A visited value is a string by now, without children.
    map.iter_mut().for_each(|(_, value)| for_each_secret(value, visit));
}

/// Tells whether a name marks its value as secret: by its words, so that `monkey` and `key1` do not, and `apiKey` does.
pub fn speaks_of_secrets(name: &str) -> bool {
    split_words(name).iter().any(|word| {
        let bare = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let singular = bare.strip_suffix('s').unwrap_or(bare);
        let is_word = |text: &str| WORDS.contains(&text) && (text != UNNUMBERED || bare.len() == word.len());
        // `pass` ends with an s of its own, so the unchanged word is looked up too.
        is_word(bare) || is_word(singular) || ENDS.iter().any(|end| bare.ends_with(end) || singular.ends_with(end))
    })
}

/// Splits a name into words: at signs, before a capital, and before the last of several capitals.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let letters: Vec<char> = name.chars().collect();
    for (at, c) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let is_hump = c.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || letters.get(at + 1).is_some_and(|after| after.is_lowercase())
            });
        if !c.is_alphanumeric() || is_hump {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is always one").extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
