//! A document of the source.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::encrypted::Encrypted;
use super::folder::below;
use super::id::{BlobId, ObjectId};
use crate::text::one_line;

/// The position of a document in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// Path from the root of the source's subtree.
    pub path: Arc<str>,
    /// One-based line where the document starts.
    pub line: u32,
    /// The blob it is in.
    pub blob: BlobId,
    /// Zero-based position among the objects of the file, after lists are unfolded.
    pub ordinal: u32,
}

/// One Kubernetes object of the source with its identity and origin.
///
/// `id` always agrees with `object`.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The identity, with the version the document is written in.
    pub id: ObjectId,
    /// The object; shared, because snapshots, works and caches all hold it.
    pub object: Arc<Value>,
    /// Its origin.
    pub origin: Origin,
    /// Where it is encrypted, if it is: `object` is then as the file has it.
    pub encrypted: Option<Encrypted>,
}

impl Manifest {
    /// Returns the value of a label, if the object has it.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.object.get("metadata")?.get("labels")?.get(key)?.as_str()
    }

    /// Returns it in a namespace: a copy with another identity.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        let mut object = Value::clone(&self.object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        let id = ObjectId { namespace: namespace.to_owned(), ..self.id.clone() };
        Self { id, object: Arc::new(object), ..self.clone() }
    }

    /// Returns the value of an annotation, if the object has it.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }
}

/// Returns what an API server would refuse in an object's labels and annotations: the field and the problem.
///
/// Both are maps of strings. A null is skipped, as API servers do; values are not repeated, because they may be secrets.
pub fn malformed_metadata(object: &Value) -> Option<(&'static str, String)> {
    let metadata = object.get("metadata").filter(|metadata| !metadata.is_null())?;
    if !metadata.is_object() {
        return Some(("metadata", "is not a map".to_owned()));
    }
    [("labels", "metadata.labels"), ("annotations", "metadata.annotations")].into_iter().find_map(|(name, field)| {
        let complaint = match metadata.get(name)? {
            Value::Null => return None,
            Value::Object(entries) => {
                let (key, _) = entries.iter().find(|(_, value)| !value.is_string() && !value.is_null())?;
                format!("the value of {key} is not text")
            }
            _ => "is not a map".to_owned(),
        };
        Some((field, complaint))
    })
}

/// One error in the source, as text for users.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputError {
    /// Path from the root of the source's subtree.
    pub path: String,
    /// One-based line; 0 if the error concerns the whole file.
    pub line: u32,
    /// The object it concerns, as kubectl would name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The field, as a JSON path such as `spec.policy.clusterNames[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong, and with which value.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl InputError {
    /// Returns an error in a file of a folder with the path that the file has in the tree that holds the folder.
    #[must_use]
    pub fn below(self, folder: &str) -> Self {
        Self { path: below(folder, &self.path), ..self }
    }
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // File names and contents come from others: none of them may start a log line.
        f.write_str(&one_line(&self.path))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": ")?;
        if let Some(object) = &self.object {
            write!(f, "{}: ", one_line(object))?;
        }
        if let Some(field) = &self.field {
            write!(f, "{}: ", one_line(field))?;
        }
        f.write_str(&one_line(&self.message))?;
        if let Some(hint) = &self.hint {
            write!(f, " ({})", one_line(hint))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_api_servers_take_as_labels_and_annotations() {
        let rows = [
            (json!({"name": "a"}), None),
            (json!({"labels": null, "annotations": {}}), None),
            (json!({"labels": {"a": "b", "c": null}}), None),
            (json!(null), None),
            (json!("x"), Some(("metadata", "is not a map"))),
            (json!({"labels": "x"}), Some(("metadata.labels", "is not a map"))),
            (json!({"labels": {"a": "b"}, "annotations": ["x"]}), Some(("metadata.annotations", "is not a map"))),
            (json!({"labels": {"a": 1}}), Some(("metadata.labels", "the value of a is not text"))),
            (json!({"annotations": {"a": {"b": "c"}}}), Some(("metadata.annotations", "the value of a is not text"))),
        ];
        for (metadata, wanted) in rows {
            let object = json!({"metadata": metadata});
            let found = malformed_metadata(&object);
            assert_eq!(found.as_ref().map(|(field, why)| (*field, why.as_str())), wanted, "{object}");
        }
    }
}
