//! JSON patches with variables for cluster data in their values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

use model::api::overrides::{JsonPatchOverride, PatchOperation};
use model::id::ClusterName;

/// The variable for the cluster's name.
const CLUSTER_NAME: &str = "${MEMBER-CLUSTER-NAME}";
/// The variable for a label, followed by its key and a closing brace.
const CLUSTER_LABEL: &str = "${MEMBER-CLUSTER-LABEL-KEY-";

/// The failed patch and the reason: without any value, which may be a secret.
#[derive(Debug)]
pub(super) struct PatchFailure<'a> {
    /// The patch.
    pub patch: &'a JsonPatchOverride,
    /// The reason, as text for users.
    pub why: String,
}

/// Applies the patches of one rule to an object.
///
/// # Errors
/// The first patch that fails; the object is then invalid.
///
/// Source: RFC 6902; KubeFleet's variables.
pub(super) fn apply<'a>(
    object: &mut Value,
    patches: &'a [JsonPatchOverride],
    cluster: &ClusterName,
    labels: &BTreeMap<String, String>,
) -> Result<(), PatchFailure<'a>> {
    let operations = patches
        .iter()
        .map(|patch| operation(patch, cluster, labels).map_err(|why| PatchFailure { patch, why }))
        .collect::<Result<Vec<_>, _>>()?;
    // No rollback, because the caller drops the object.
    json_patch::patch_unsafe(object, &operations).map_err(|error| PatchFailure {
        patch: &patches[error.operation],
        why: "path not found in the object".to_owned(),
    })
}

fn operation(
    patch: &JsonPatchOverride,
    cluster: &ClusterName,
    labels: &BTreeMap<String, String>,
) -> Result<json_patch::PatchOperation, String> {
    let at = PointerBuf::parse(patch.path.as_str()).map_err(|_| "the path is no JSON pointer".to_owned())?;
    let value = match &patch.value {
        // A removal has no use for its value, so nothing in it can fail.
        Some(value) if patch.op != PatchOperation::Remove => filled_in(&value.0, cluster, labels)?,
        _ => Value::Null,
    };
    Ok(match patch.op {
        PatchOperation::Add => json_patch::PatchOperation::Add(AddOperation { path: at, value }),
        PatchOperation::Remove => json_patch::PatchOperation::Remove(RemoveOperation { path: at }),
        PatchOperation::Replace => json_patch::PatchOperation::Replace(ReplaceOperation { path: at, value }),
    })
}

/// Returns the name of a patch's operation.
pub(super) fn operation_name(operation: PatchOperation) -> &'static str {
    match operation {
        PatchOperation::Add => "add",
        PatchOperation::Remove => "remove",
        PatchOperation::Replace => "replace",
    }
}

/// Inserts the cluster's name and labels into a value: into its JSON text, including keys of maps.
fn filled_in(value: &Value, cluster: &ClusterName, labels: &BTreeMap<String, String>) -> Result<Value, String> {
    let raw = value.to_string();
    if !raw.contains(CLUSTER_NAME) && !raw.contains(CLUSTER_LABEL) {
        return Ok(value.clone());
    }
    // The name first, as in KubeFleet: it may be part of a label's key.
    let named = raw.replace(CLUSTER_NAME, cluster.as_str());
    let mut filled = String::with_capacity(named.len());
    let mut rest = named.as_str();
    while let Some((before, after)) = rest.split_once(CLUSTER_LABEL) {
        let (key, after) =
            after.split_once('}').ok_or_else(|| format!("{CLUSTER_LABEL} in the value has no closing brace"))?;
        let label = labels.get(key).ok_or_else(|| {
            if is_label_key(key) {
                return format!("the cluster {cluster} has no label {key}");
            }
            // Any text may follow up to a brace, even a secret.
            format!("{CLUSTER_LABEL} in the value is not followed by a label's key and a closing brace")
        })?;
        filled.push_str(before);
        filled.push_str(label);
        rest = after;
    }
    filled.push_str(rest);
    serde_json::from_str(&filled)
        .map_err(|_| "the value is no JSON any more with the cluster's labels in it".to_owned())
}

fn is_label_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}

/// Represents the cluster's name in a label's key; no JSON text contains it.
const NAME_IN_KEY: &str = "\0";

/// Returns the keys of the labels in a patch's value, each for [`key_on`]: the cluster's name, which is inserted first, may be
/// part of one.
pub(super) fn label_keys(patch: &JsonPatchOverride) -> Vec<String> {
    let raw =
        patch.value.as_ref().map(|value| value.0.to_string()).unwrap_or_default().replace(CLUSTER_NAME, NAME_IN_KEY);
    raw.split(CLUSTER_LABEL).skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect()
}

/// Returns a label's key for a cluster.
pub(super) fn key_on<'a>(key: &'a str, cluster: &ClusterName) -> Cow<'a, str> {
    if key.contains(NAME_IN_KEY) { Cow::Owned(key.replace(NAME_IN_KEY, cluster.as_str())) } else { Cow::Borrowed(key) }
}
