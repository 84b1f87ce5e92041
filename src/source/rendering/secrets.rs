//! Takes secret values out of what a program says about its inputs.

use std::collections::BTreeSet;

use model::secrets::speaks_of_secrets;

/// What stands for a hidden value.
const HIDDEN: &str = "(hidden)";

/// The shortest text that is hidden, in bytes: shorter ones stand everywhere.
const VALUE_BYTES_MIN: usize = 4;

/// Keys whose values say what an object is: without them a message would help nobody.
const SHOWN: [&str; 8] = ["apiVersion", "kind", "name", "namespace", "type", "metadata", "path", "resources"];

/// Hides the values of secrets in a message. `inputs` are the files that the program read, which may be no YAML at all: each line is
/// taken by itself. In a file that speaks of a Secret every value is hidden; elsewhere the values of keys that speak of secrets.
pub fn hide_secrets<'a>(message: &str, inputs: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut values = BTreeSet::new();
    for input in inputs {
        let Ok(text) = std::str::from_utf8(input) else { continue };
        let all = text.contains("Secret") || text.contains("secretGenerator") || text.contains("ENC[");
        for line in text.lines() {
            values.extend(secret_values(line, all).filter(|value| message.contains(value)));
        }
    }
    let mut values: Vec<&str> = values.into_iter().collect();
    // A value may be part of another.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values.iter().fold(message.to_owned(), |text, value| text.replace(value, HIDDEN))
}

/// Returns what a line of a file may give values to, in YAML, JSON and files of variables: whole and in its parts.
fn secret_values(line: &str, all: bool) -> impl Iterator<Item = &str> {
    const MARKS: [char; 9] = ['"', '\'', ',', '{', '}', '[', ']', ' ', '-'];
    let whole = std::iter::once(line);
    let parts = whole.chain(line.split(['{', '}', '[', ']', ',']));
    parts.flat_map(move |part| {
        let bare = part.trim().trim_start_matches("- ");
        let given = [':', '='].into_iter().filter_map(move |sign| bare.split_once(sign));
        let hidden = given.filter(move |(key, _)| {
            let key = key.trim_matches(MARKS);
            if all { !SHOWN.contains(&key) } else { speaks_of_secrets(key) }
        });
        // A line of a block of text has no key.
        let is_text = all && !bare.contains([':', '=']);
        let values = hidden.chain(is_text.then_some(("", bare))).map(|(_, value)| value.trim().trim_matches(MARKS));
        values.filter(|value| value.len() >= VALUE_BYTES_MIN)
    })
}
