//! Reads several sources as one tree: the files of each are in a folder of its name.
//!
//! Each source is listed and rendered by itself, so nothing in one reaches into another: no link, no ignore file, no base.

use std::sync::Arc;

use super::{Cache, Error, ListedFiles, listed, read_listed};
use crate::git::Reader;
use crate::model::id::CommitId;
use crate::model::manifest::InputError;
use crate::model::tree::{JoinedSource, Tree};
use crate::source;

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
    for source in sources {
        match listed(source.reader, source.commit, &cache.rendering) {
            Ok(listed) => all.add(source.name, listed),
            // Users get the errors of all sources at once.
            Err(Error::Refused(errors)) => all.errors.extend(placed(source.name, errors)),
            Err(error) => return Err(error),
        }
    }
    let rooted = |(path, blob, parsed): super::ParsedFile| {
        let parsed = source::rooted(path.split('/').next().unwrap_or_default(), parsed);
        (path, blob, parsed)
    };
    let mut tree = read_listed(reader, commit, all, cache, |files| files.into_iter().map(rooted).collect())?;
    tree.sources =
        sources.iter().map(|it| JoinedSource { name: it.name.to_owned(), commit: it.commit.clone() }).collect();
    Ok(tree)
}

impl ListedFiles {
    /// Adds the files of a source below a folder of its name.
    fn add(&mut self, name: &str, listed: Self) {
        let Self { selection, wanted, mut rendered, errors } = listed;
        let below = |path: &str| below(name, path);
        self.selection.read.extend(selection.read.iter().map(|path| below(path)));
        self.selection.markers.extend(selection.markers.iter().map(|path| below(path)));
        self.selection.errors.extend(placed(name, selection.errors));
        self.wanted.extend(wanted.into_iter().map(|(path, blob)| (Arc::from(below(&path)), blob)));
        for file in &mut rendered.files {
            file.path = below(&file.path).into();
        }
        self.rendered.files.extend(rendered.files);
        self.rendered.keys.extend(rendered.keys);
        self.errors.extend(placed(name, errors));
    }
}

/// Returns errors with their place in the joined tree.
fn placed(name: &str, errors: Vec<InputError>) -> impl Iterator<Item = InputError> {
    errors.into_iter().map(move |error| InputError { path: below(name, &error.path), ..error })
}

/// Returns a path of a source as a path of the joined tree. The source as a whole is `.` or nothing, and `.#2` the second part of what it
/// is rendered to.
fn below(name: &str, path: &str) -> String {
    match path {
        "" | "." => name.to_owned(),
        _ => match path.strip_prefix(".#") {
            Some(part) => format!("{name}#{part}"),
            None => format!("{name}/{path}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_with_the_name_of_the_source() {
        let rows = [
            ("apps/web.yaml", "shop/apps/web.yaml"),
            ("", "shop"),
            (".", "shop"),
            (".#2", "shop#2"),
            ("apps#2", "shop/apps#2"),
            (".gitfleetignore", "shop/.gitfleetignore"),
        ];
        for (path, wanted) in rows {
            assert_eq!(below("shop", path), wanted, "{path}");
        }
    }
}
