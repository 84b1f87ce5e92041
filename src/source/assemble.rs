//! Assembles the files of a commit: identities, scopes, members.

mod check;
mod fill;
mod folders;

use std::sync::Arc;

use self::check::{FoundObject, namespaces, overrides, scopes, unused_fields};
use self::fill::fill;
use self::folders::{duplicates, empty_folders, lost_overrides, sights, twins_in_given_namespaces};
use super::blob::ParsedBlob;
use super::budget::COMMIT;
use super::paths::Selection;
use model::id::{BlobId, CommitId};
use model::manifest::{InputError, Origin};
use model::tree::{Skipped, Tree};

/// Bytes of all files of one source together.
pub const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Errors of one commit that are listed.
pub(crate) const ERRORS_MAX: usize = 1_000;

/// Returns the checked tree of a commit.
///
/// `files` are the files to read by `selection`, in any order: path, blob id, content.
///
/// # Errors
/// All errors of the commit, sorted by path and line, at most about 1,000. A commit with any error is refused whole. If it
/// exceeds [`COMMIT`], no other check runs.
pub fn assemble(
    commit: Option<CommitId>,
    selection: &Selection,
    files: impl IntoIterator<Item = (Arc<str>, BlobId, Arc<ParsedBlob>)>,
) -> Result<Tree, Vec<InputError>> {
    let mut files: Vec<_> = files.into_iter().collect();
    // The result must not depend on the order of the files: which of two duplicates is the second, and which file exceeds the
    // limit.
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let mut errors = selection.errors.clone();
    let bytes: usize = files.iter().map(|(_, _, blob)| blob.size_bytes).sum();
    if bytes > BYTES_MAX {
        errors.push(InputError {
            path: String::new(),
            line: 0,
            object: None,
            field: None,
            message: format!("the files have {bytes} bytes together, the limit is {BYTES_MAX}"),
            hint: Some("narrow `source.path`, or add folders to .gitfleetignore".to_owned()),
        });
    }
    // If the meter ran over, files are read in part, so every other error in them may be wrong.
    if let Some(refusal) = COMMIT.refusal(files.iter().map(|(path, _, blob)| (path.clone(), blob.weight))) {
        errors.push(refusal);
        return Err(limited(errors));
    }
    let mut tree = Tree::default();
    tree.commit = commit;
    let mut found = Vec::new();
    for (path, id, blob) in &files {
        tree.skipped.extend(skipped(path, blob));
        errors.extend(blob.errors.iter().map(|error| error.at(path)));
        tree.warnings.extend(blob.warnings.iter().map(|warning| warning.at(path)));
        found.extend(blob.documents.iter().map(|document| FoundObject {
            document,
            origin: Origin { path: path.clone(), line: document.line, blob: id.clone(), ordinal: document.ordinal },
            path: selection.within_place(path),
        }));
    }
    (tree.scopes, tree.guessed) = scopes(&found);
    let sights = sights(&found);
    // First: errors about objects would name files again that have an error already.
    if selection.places.is_none() {
        // With one folder that cannot be rendered none is, so there are no files of the others either.
        let is_unrendered = errors.iter().any(|error| selection.markers.contains(&error.path));
        let unrendered = if is_unrendered { &selection.markers[..] } else { &[] };
        let there = files.iter().map(|(path, _, _)| &**path).chain(unrendered.iter().map(String::as_str));
        empty_folders(&sights, &there, &mut errors);
    }
    // Else each object of a folder might be an error, because one placement has one.
    if !files.iter().any(|(_, _, blob)| blob.unread_sight) {
        duplicates(&found, &tree.scopes, &sights, &mut errors);
        twins_in_given_namespaces(&found, &tree.scopes, &sights, &mut errors);
        namespaces(&found, &tree.scopes, &sights, &mut errors);
        lost_overrides(&found, &sights, &mut errors);
    }
    overrides(&found, &mut errors);
    if !errors.is_empty() {
        return Err(limited(errors));
    }
    tree.warnings.extend(unused_fields(&found));
    fill(&mut tree, found);
    Ok(tree)
}

/// Returns the documents of a file that are no Kubernetes objects.
pub fn skipped<'a>(path: &'a str, blob: &'a ParsedBlob) -> impl Iterator<Item = Skipped> + 'a {
    blob.skipped.iter().map(move |(line, why)| Skipped { path: path.to_owned(), line: *line, why: *why })
}

/// Sorts errors, and drops those beyond the limit.
fn limited(mut errors: Vec<InputError>) -> Vec<InputError> {
    errors.sort();
    errors.dedup();
    let more = errors.len().saturating_sub(ERRORS_MAX);
    if more > 0 {
        errors.truncate(ERRORS_MAX);
        errors.push(InputError {
            path: ".".to_owned(),
            line: 0,
            object: None,
            field: None,
            message: format!("{more} more errors are not listed"),
            hint: Some("correct the others first".to_owned()),
        });
    }
    errors
}

#[cfg(test)]
#[allow(clippy::type_complexity, clippy::format_push_string, reason = "tables read better so")]
mod tests;
