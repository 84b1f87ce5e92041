//! Folders that placements and overrides of one of several sources name: they count from the root of that source.

use std::sync::Arc;

use serde_json::Value;

use super::blob::{ParsedBlob, ParsedDocument};
use model::api::annotations::PATH;

/// Returns the objects of a file as they stand in the joined tree: the folder that one of gitfleet's own kinds names with
/// `gitfleet.io/path` is below the folder of the source. So a file means the same whether its source is the only one or one of several.
pub fn rooted(source: &str, blob: Arc<ParsedBlob>) -> Arc<ParsedBlob> {
    if !blob.documents.iter().any(names_folder) {
        return blob;
    }
    let mut blob = ParsedBlob::clone(&blob);
    for document in blob.documents.iter_mut().filter(|document| names_folder(document)) {
        if let Some(Value::String(folder)) = Arc::make_mut(&mut document.object)
            .pointer_mut("/metadata/annotations")
            .and_then(|annotations| annotations.get_mut(PATH))
        {
            *folder = format!("{source}/{folder}");
        }
    }
    Arc::new(blob)
}

fn names_folder(document: &ParsedDocument) -> bool {
    !document.is_payload() && folder(&document.object).is_some()
}

fn folder(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(PATH)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::super::parse_blob;
    use super::*;

    #[test]
    fn folders_count_from_the_root_of_the_source() {
        let text = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\n\
            metadata: {name: web, annotations: {gitfleet.io/path: apps/web}}\n\
            spec: {resourceSelectors: [{group: '', kind: Namespace, version: v1, name: web}], policy: {placementType: PickAll}}\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note, namespace: web, annotations: {gitfleet.io/path: apps/web}}\n";
        let blob = Arc::new(parse_blob(text.as_bytes()));
        assert_eq!(blob.errors, []);
        let rooted = rooted("shop", Arc::clone(&blob));
        let folders: Vec<_> = rooted.documents.iter().map(|document| folder(&document.object)).collect();
        // An object that is delivered stays as it is written.
        assert_eq!(folders, [Some("shop/apps/web"), Some("apps/web")]);
        assert_eq!(folder(&blob.documents[0].object), Some("apps/web"));
    }
}
