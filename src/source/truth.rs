//! Keys like `on` and `yes`, which kubectl reads as `true` or `false`: when they refuse a commit, and their messages.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::blob_error::{BlobError, shortened};
use model::api::{envelope, table};
use model::id::ObjectId;
use model::yaml::TruthKey;

/// Maps of an object whose keys are chosen by users.
const NAMED: [&str; 4] = ["metadata", "data", "stringData", "binaryData"];

/// Maps anywhere in an object whose keys are chosen by users; also those that end with "elector".
const NAMED_ANYWHERE: [&str; 4] = ["metadata", "labels", "annotations", "matchLabels"];

/// Tells whether a key refuses the commit: in gitfleet's own kinds, and in payload maps with user-chosen keys, a truth value is
/// never intended.
pub(super) fn refuses(key: &TruthKey, id: &ObjectId, object: &Value) -> bool {
    let path = match key.path.as_slice() {
        // What an envelope holds is payload.
        [data, _, rest @ ..] if data == "data" && envelope::is_envelope(object) => rest,
        // An unknown version of gitfleet's kinds is refused too, so it needs no distinction here.
        _ if !matches!(table::find(&id.group, &id.version, &id.kind), Ok(None)) => return true,
        path => path,
    };
    path.first().is_some_and(|first| NAMED.contains(&first.as_str()))
        || path.last().is_some_and(|last| NAMED_ANYWHERE.contains(&last.as_str()) || last.ends_with("elector"))
}

/// Describes how a key is read, and what to do.
pub(super) fn complaint(key: TruthKey, object: &str) -> BlobError {
    let TruthKey { mut path, written, read, line } = key;
    path.push(written.clone());
    BlobError {
        line,
        object: Some(shortened(object.to_owned())),
        field: Some(shortened(path.join(".").replace(".[", "["))),
        message: format!("the key {written} is read as \"{read}\", as kubectl reads it"),
        hint: Some(format!("put it in quotes: \"{written}\"")),
    }
}

/// Sorts the keys of a list by its elements.
pub(super) fn by_element(keys: Vec<TruthKey>) -> BTreeMap<usize, Vec<TruthKey>> {
    let mut sorted: BTreeMap<usize, Vec<TruthKey>> = BTreeMap::new();
    for mut key in keys {
        let mut path = key.path.into_iter();
        let items = path.next();
        let position = path.next().and_then(|step| step.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
        if let (Some("items"), Some(position)) = (items.as_deref(), position) {
            key.path = path.collect();
            sorted.entry(position).or_default().push(key);
        }
    }
    sorted
}
