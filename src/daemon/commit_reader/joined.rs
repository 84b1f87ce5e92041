//! Reads several sources as one tree: the files of each are in a folder of its name.
//!
//! Each source is listed and rendered by itself, so nothing in one reaches into another: no link, no ignore file, no base.

use std::sync::Arc;

use super::owners::Owners;
use super::{Cache, Error, ListedFiles, ParsedFile, listed, read_listed, versions};
use crate::rendering::Lister;
use git::Reader;
use model::folder::{below, rendered_folder};
use model::id::CommitId;
use model::tree::{JoinedSource, Tree};

/// One of several sources, at a commit.
#[derive(Clone, Copy)]
pub struct SourceAt<'a> {
    /// Its name.
    pub name: &'a str,
    /// What reads it.
    pub reader: &'a Reader,
    /// The commit.
    pub commit: &'a CommitId,
}

impl SourceAt<'_> {
    /// Says of which source an error is.
    pub(super) fn named(&self, error: Error) -> Error {
        Error::OfSource { name: self.name.to_owned(), error: Box::new(error) }
    }
}

/// Reads the commit that joins sources. `reader` finds the blobs of all of them; `cache` is used as for one source.
///
/// # Errors
/// As [`read_commit`](super::read_commit); paths begin with the name of the source.
pub fn read_joined(
    reader: &Reader,
    commit: &CommitId,
    sources: &[SourceAt<'_>],
    cache: &mut Cache,
) -> Result<Tree, Error> {
    let mut all = ListedFiles::default();
    let mut owners = Vec::new();
    let mut differing = Vec::new();
    for source in sources {
        let listed = listed(source.reader, source.commit, &cache.rendering).and_then(|mut listed| {
            let owners = Owners::read(cache.code_owners, source.reader, source.commit, &mut listed)?;
            Ok((listed, owners))
        });
        match listed {
            Ok((listed, read)) => {
                owners.push(read.below(source.name));
                let warnings = versions::differing(source.reader, source.commit, &listed, &cache.rendering);
                differing.extend(warnings.into_iter().map(|warning| warning.below(source.name)));
                all.add(source.name, listed);
            }
            // Users get the errors of all sources at once.
            Err(Error::Refused(errors)) => all.errors.extend(errors.into_iter().map(|error| error.below(source.name))),
            Err(error) => return Err(source.named(error)),
        }
    }
    let mut tree = read_listed(reader, commit, all, cache, rooted)?;
    for owners in owners {
        owners.note(&mut tree);
    }
    tree.warnings.extend(differing);
    tree.sources =
        sources.iter().map(|it| JoinedSource { name: it.name.to_owned(), commit: it.commit.clone() }).collect();
    Ok(tree)
}

/// Returns a file whose placements name folders as they are in the joined tree.
pub(super) fn rooted((path, blob, parsed): ParsedFile) -> ParsedFile {
    let source = rendered_folder(path.split('/').next().unwrap_or_default());
    let parsed = source::rooted(source, parsed);
    (path, blob, parsed)
}

impl<L: Lister> ListedFiles<L> {
    /// Adds the files of a source below a folder of its name.
    pub(super) fn add(&mut self, name: &str, listed: Self) {
        let Self { selection, wanted, sources, errors } = listed;
        let below = |path: &str| below(name, path);
        self.selection.read.extend(selection.read.iter().map(|path| below(path)));
        self.selection.markers.extend(selection.markers.iter().map(|path| below(path)));
        self.selection.errors.extend(selection.errors.into_iter().map(|error| error.below(name)));
        self.wanted.extend(wanted.into_iter().map(|(path, blob)| (Arc::from(below(&path)), blob)));
        self.sources.extend(sources.into_iter().map(|source| source.below(name)));
        self.errors.extend(errors.into_iter().map(|error| error.below(name)));
    }
}
