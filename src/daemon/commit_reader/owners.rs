//! Reads which approvers the CODEOWNERS file of a commit names for the files of its placements.

use std::collections::BTreeMap;

use super::{Error, ListedFiles, OfCommit, refused_if_large};
use git::{Reader, RootFile};
use model::folder::{below, rendered_folder, within};
use model::id::CommitId;
use model::manifest::InputError;
use model::tree::Tree;
use source::{CodeOwners, OwnersSyntax};

/// The owners of a commit's files; none where no such file is read.
#[derive(Default)]
pub(super) struct Owners {
    file: Option<CodeOwners>,
    /// The folder of the tree in which the files of this source are; no name where it is the only source.
    folder: String,
    /// The folder of the repository that is read.
    subtree: String,
    /// The files that have folders rendered, by folder: what is rendered there is of whoever owns that file.
    markers: BTreeMap<String, String>,
}

impl Owners {
    /// Reads the file of a commit, and adds what is wrong with it to the errors of the commit.
    pub(super) fn read(
        syntax: Option<OwnersSyntax>,
        reader: &Reader,
        commit: &CommitId,
        listed: &mut ListedFiles<OfCommit<'_>>,
    ) -> Result<Self, Error> {
        let Some(syntax) = syntax else { return Ok(Self::default()) };
        let marker = |path: &String| (path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned(), path.clone());
        let markers = listed.selection.markers.iter().map(marker).collect();
        let file = match code_owners(syntax, reader, commit)? {
            Ok(file) => file,
            Err(errors) => {
                listed.errors.extend(errors);
                None
            }
        };
        Ok(Self { file, folder: String::new(), subtree: reader.subtree().to_owned(), markers })
    }

    /// Returns the owners as those of the files in a folder of the tree.
    pub(super) fn below(self, folder: &str) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// Notes the owners of each placement's file, and warnings about the file.
    pub(super) fn note(self, tree: &mut Tree) {
        let Some(file) = self.file else { return };
        for placement in tree.placements.values_mut() {
            let Some(path) = within(&self.folder, &placement.origin.path) else { continue };
            let path = self.markers.get(rendered_folder(path)).map_or(path, String::as_str);
            placement.owners = file.of(&below(&self.subtree, path));
        }
        tree.warnings.extend(file.warnings.into_iter().map(|warning| warning.below(&self.folder)));
    }
}

/// Reads the first of the places that has a file.
fn code_owners(
    syntax: OwnersSyntax,
    reader: &Reader,
    commit: &CommitId,
) -> Result<Result<Option<CodeOwners>, Vec<InputError>>, Error> {
    let complain = |place: &str, message: String| InputError {
        path: place.to_owned(),
        line: 0,
        object: None,
        field: None,
        message,
        hint: Some("put the file itself there".to_owned()),
    };
    for place in syntax.places() {
        match reader.file_of_root(commit, place) {
            Ok(RootFile::Absent) => {}
            Ok(RootFile::Link) => {
                return Ok(Err(vec![complain(place, "is a symbolic link: links are not followed".to_owned())]));
            }
            Ok(RootFile::Content(content)) => return Ok(CodeOwners::read(syntax, place, &content).map(Some)),
            Err(error @ git::Error::BlobTooLarge { .. }) => return Ok(Err(vec![complain(place, error.to_string())])),
            Err(error) => return Err(refused_if_large(error)),
        }
    }
    Ok(Ok(None))
}

#[cfg(test)]
mod tests;
