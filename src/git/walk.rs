//! One walk for trees of a commit and for folders on disk, so that both are refused for the same reasons.

use std::sync::Arc;

use super::{ENTRIES_MAX, ERRORS_MAX, Error, FILES_MAX, PATH_DEPTH_MAX, PATH_SIZE_MAX_BYTES};
use model::id::BlobId;
use model::manifest::InputError;

/// The file name for asking the filter whether it reads any manifest in a folder.
const PROBE: &str = "manifest.yaml";

/// A file of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Path from the root of the source's subtree, with `/`.
    pub path: Arc<str>,
    /// Its content.
    pub blob: BlobId,
    /// Whether its mode has the executable bit.
    pub executable: bool,
}

/// The files of a source that are read, ordered by path, and everything that makes the commit unacceptable.
///
/// A listing with errors is refused whole: what could not be listed must not look deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files.
    pub files: Vec<File>,
    /// The problems, each with its path.
    pub errors: Vec<InputError>,
}

/// What stands in a folder.
pub(super) enum WalkedKind<D, F> {
    Folder(D),
    File {
        content: F,
        executable: bool,
    },
    Link(F),
    Submodule,
    /// A socket, a pipe, a device: on disk only.
    Special,
}

/// An entry of a folder, with its name as bytes.
pub(super) struct Child<D, F> {
    pub name: Vec<u8>,
    pub kind: WalkedKind<D, F>,
}

/// What stands in a folder of a level.
pub(super) type Children<L> = Vec<Child<<L as Level>::Folder, <L as Level>::Content>>;

/// Something made of folders.
pub(super) trait Level {
    type Folder;
    type Content;

    /// Returns what stands in a folder.
    fn children(&self, folder: &Self::Folder) -> Result<Children<Self>, Error>;

    /// Tells whether a link certainly leads to a file, and not to a folder whose manifests would be missed.
    fn leads_to_file(&self, path: &str, link: &Self::Content) -> Result<bool, Error>;
}

/// What a walk found.
pub(super) struct Found<C> {
    pub files: Vec<(Arc<str>, C, bool)>,
    pub errors: Vec<InputError>,
}

/// Makes the complaint about a path.
pub(super) fn complaint(path: &str, message: impl Into<String>, hint: &str) -> InputError {
    InputError {
        path: path.to_owned(),
        line: 0,
        object: None,
        field: None,
        message: message.into(),
        hint: Some(hint.to_owned()),
    }
}

/// Walks everything below `root` that may be read, and names every problem on the way.
///
/// `is_read` tells of a file's path whether it is read. A folder, link or submodule counts as ignored where a manifest
/// in it would not be read. Names starting with a dot are never read and never looked into.
pub(super) fn walk<L: Level>(
    level: &L,
    root: L::Folder,
    is_read: &dyn Fn(&str) -> bool,
) -> Result<Found<L::Content>, Error> {
    run(Walk { level, is_read, hidden: false, found: Found { files: Vec::new(), errors: Vec::new() } }, root)
}

/// Walks everything below `root`, hidden files too, and reads all of it; only `.git` is left out.
pub(super) fn walk_all<L: Level>(level: &L, root: L::Folder) -> Result<Found<L::Content>, Error> {
    run(Walk { level, is_read: &|_| true, hidden: true, found: Found { files: Vec::new(), errors: Vec::new() } }, root)
}

fn run<L: Level>(mut walk: Walk<'_, L>, root: L::Folder) -> Result<Found<L::Content>, Error> {
    let level = walk.level;
    let mut folders = vec![(String::new(), 0, root)];
    let mut entries = 0;
    while let Some((prefix, depth, folder)) = folders.pop() {
        let children = level.children(&folder)?;
        entries += children.len();
        if entries > ENTRIES_MAX {
            let message = format!("more than {ENTRIES_MAX} files and folders");
            walk.found.errors.push(complaint(".", message, "narrow `path`"));
            break;
        }
        for child in children {
            if let Some((path, folder)) = walk.visit(&prefix, depth, child)? {
                folders.push((path + "/", depth + 1, folder));
            }
        }
        if walk.found.errors.len() > ERRORS_MAX {
            walk.found.errors.truncate(ERRORS_MAX);
            walk.found.errors.push(complaint(
                ".",
                "too many problems, the rest is not listed",
                "solve the others first",
            ));
            break;
        }
        if walk.found.files.len() > FILES_MAX {
            let message = format!("more than {FILES_MAX} files to read");
            walk.found.errors.push(complaint(".", message, "narrow `path`, or list folders in .gitfleetignore"));
            break;
        }
    }
    walk.found.files.sort_by(|a, b| a.0.cmp(&b.0));
    walk.found.errors.sort();
    Ok(walk.found)
}

struct Walk<'a, L: Level> {
    level: &'a L,
    is_read: &'a dyn Fn(&str) -> bool,
    /// Names that start with a dot are walked too.
    hidden: bool,
    found: Found<L::Content>,
}

impl<L: Level> Walk<'_, L> {
    /// Tells whether the filter reads what is in a folder.
    fn reads_below(&self, path: &str) -> bool {
        (self.is_read)(&format!("{path}/{PROBE}"))
    }

    /// Takes one entry in; returns a folder that is to be looked into.
    fn visit(
        &mut self,
        prefix: &str,
        depth: usize,
        child: Child<L::Folder, L::Content>,
    ) -> Result<Option<(String, L::Folder)>, Error> {
        let text = String::from_utf8_lossy(&child.name);
        if prefix.len() + text.len() > PATH_SIZE_MAX_BYTES {
            // The folder is named, because the path itself is what is too long.
            let message = format!("a path below here has more than {PATH_SIZE_MAX_BYTES} bytes");
            self.found.errors.push(complaint(prefix.trim_end_matches('/'), message, "use shorter names"));
            return Ok(None);
        }
        let path = format!("{prefix}{text}");
        let refused = name_problem(&child.name);
        // Only of names that are sound: `..` starts with a dot, too, and must be complained about.
        if refused.is_none() && text.starts_with('.') && (!self.hidden || text == ".git") {
            return Ok(None);
        }
        let itself = (self.is_read)(&path);
        // A dot path is never read by any filter, so that a hostile `..` would pass as ignored.
        let hostile = matches!(&*text, "" | "." | "..");
        if let Some(problem) = refused {
            // A bad name that the filter leaves out anyway refuses no commit.
            let concerns = hostile
                || if matches!(child.kind, WalkedKind::File { .. }) {
                    itself
                } else {
                    itself || self.reads_below(&path)
                };
            if concerns {
                self.found.errors.push(complaint(&path, problem, "rename it, or list it in .gitfleetignore"));
            }
            return Ok(None);
        }
        let problem = match child.kind {
            WalkedKind::File { content, executable } => {
                if itself {
                    self.found.files.push((path.into(), content, executable));
                }
                return Ok(None);
            }
            WalkedKind::Folder(folder) if depth + 1 < PATH_DEPTH_MAX => return Ok(Some((path, folder))),
            // An ignored folder may be as deep as it likes.
            WalkedKind::Folder(_) if self.reads_below(&path) => {
                Some("folders are nested too deeply (32 names are the limit)")
            }
            // On a disk it could lead to any file of the daemon's machine; commits are read by the same rule.
            WalkedKind::Link(_) if itself => Some("a symbolic link: links are not followed"),
            WalkedKind::Link(link) if self.reads_below(&path) && !self.level.leads_to_file(&path, &link)? => {
                Some("a symbolic link to a folder, or to something outside: links are not followed")
            }
            WalkedKind::Submodule if itself || self.reads_below(&path) => {
                Some("a submodule: other repositories are not read")
            }
            WalkedKind::Special if itself => Some("not a regular file"),
            _ => None,
        };
        if let Some(problem) = problem {
            let hint = "put the files themselves here, or list it in .gitfleetignore";
            self.found.errors.push(complaint(&path, problem, hint));
        }
        Ok(None)
    }
}

/// Tells why a name must not be used as part of a path; `None` where it may.
fn name_problem(name: &[u8]) -> Option<&'static str> {
    let problems: [(bool, &'static str); 4] = [
        (std::str::from_utf8(name).is_err(), "the name is not UTF-8"),
        (matches!(name, b"" | b"." | b".."), "the name leads out of its folder"),
        (name.contains(&b'/') || name.contains(&b'\\'), "the name contains a slash or backslash"),
        (name.iter().any(u8::is_ascii_control), "the name contains a control character"),
    ];
    problems.into_iter().find_map(|(applies, problem)| applies.then_some(problem))
}

#[cfg(test)]
mod tests;
