//! Hooks of Helm: objects that belong to one moment of an installation and not to the state of a cluster.

use std::sync::Arc;

use crate::blob::{ParsedBlob, ParsedDocument};
use crate::blob_error::BlobError;

/// The annotation that makes an object a hook.
const HOOK: &str = "helm.sh/hook";

/// Takes hooks out of what Helm rendered, and warns of each: gitfleet runs none, and an object that Helm deletes when it has run must
/// not be kept on clusters.
pub fn without_hooks(blob: &Arc<ParsedBlob>) -> Arc<ParsedBlob> {
    if !blob.documents.iter().any(is_hook) {
        return Arc::clone(blob);
    }
    let mut blob = ParsedBlob::clone(blob);
    let (hooks, documents) = blob.documents.into_iter().partition(is_hook);
    blob.documents = documents;
    blob.warnings.extend(Vec::into_iter(hooks).map(|hook: ParsedDocument| BlobError {
        line: hook.line,
        object: Some(hook.id.to_string()),
        field: None,
        message: "is a hook of Helm; it is not delivered, because gitfleet runs no hooks".to_owned(),
        hint: None,
    }));
    Arc::new(blob)
}

fn is_hook(document: &ParsedDocument) -> bool {
    document.object.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(HOOK).is_some())
}
