//! Says which encrypted objects of results and of other files cannot be delivered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{RenderedTree, complaint};
use model::id::BlobId;
use model::manifest::InputError;
use model::rendering::Renderer;
use source::ParsedBlob;

/// A file with its blob and its parsed content.
type ParsedFile = (Arc<str>, BlobId, Arc<ParsedBlob>);

/// Returns what is wrong with encrypted objects of files that were read: they are of a chart, whose templates make text of text, or say by
/// themselves what they were made of, which only Kustomize's results do.
pub fn encryption_errors<'a>(
    rendered: impl IntoIterator<Item = &'a RenderedTree>,
    files: &[ParsedFile],
) -> Vec<InputError> {
    let parts: BTreeMap<(&str, &BlobId), Renderer> = rendered
        .into_iter()
        .flat_map(|tree| &tree.files)
        .map(|file| ((&*file.path, &file.blob), file.renderer))
        .collect();
    let error = |(path, blob, parsed): &ParsedFile| {
        let mut encrypted = parsed.documents.iter().filter_map(|document| document.encrypted.as_ref()).peekable();
        encrypted.peek()?;
        let message = match parts.get(&(&**path, blob)) {
            Some(Renderer::Helm) => "is of a chart, and what Helm renders of an encrypted file cannot be decrypted",
            None if encrypted.any(|of| of.made_of.is_some()) => "has a field sops.gitfleet, which only gitfleet writes",
            Some(Renderer::Kustomize) | None => return None,
        };
        Some(encrypted_object(path, parsed, message))
    };
    files.iter().filter_map(error).collect()
}

/// Returns an error about the first encrypted object of a file.
fn encrypted_object(path: &str, parsed: &ParsedBlob, message: &str) -> InputError {
    let first = parsed.documents.iter().find(|document| document.encrypted.is_some());
    InputError {
        line: first.map_or(0, |document| document.line),
        object: first.map(|document| document.id.to_string()),
        ..complaint(
            path,
            message.to_owned(),
            "move the file as SOPS encrypted it out of the folder: gitfleet reads it by itself",
        )
    }
}

/// Returns an error for each result for clusters with an encrypted object: it has another one for each list of values, which no digest tells apart.
pub fn encrypted_for_clusters(files: &[ParsedFile]) -> Vec<InputError> {
    let message = "is rendered for clusters, and has an object that SOPS encrypted";
    let encrypted = files.iter().filter(|(_, _, parsed)| !parsed.encrypted_files().is_empty());
    encrypted.map(|(path, _, parsed)| encrypted_object(path, parsed, message)).collect()
}
