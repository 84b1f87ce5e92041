//! The folders of a commit, as the walk goes through them.

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::repository::Reader;
use super::trees::{TreeEntries, TreeEntry};
use super::walk::{Child, Children, File, Level, Listing, WalkedKind};
use super::{Error, walk};
use crate::limits::TREE_SIZE_MAX_BYTES;
use model::id::{BlobId, CommitId};

/// The folders of a commit.
pub(super) struct CommitLevel<'r> {
    pub reader: &'r Reader,
    pub repo: &'r gix::Repository,
    pub root: gix::ObjectId,
}

impl Level for CommitLevel<'_> {
    type Folder = gix::ObjectId;
    type Content = gix::ObjectId;

    fn children(&self, folder: &gix::ObjectId) -> Result<Children<Self>, Error> {
        let entries = self.reader.tree(self.repo, *folder)?;
        let children = entries.iter().map(|entry| {
            let content = entry.id;
            let kind = match entry.kind {
                EntryKind::Tree => WalkedKind::Folder(content),
                EntryKind::Blob => WalkedKind::File { content, executable: false },
                EntryKind::BlobExecutable => WalkedKind::File { content, executable: true },
                EntryKind::Link => WalkedKind::Link(content),
                EntryKind::Commit => WalkedKind::Submodule,
            };
            Child { name: entry.name.to_vec(), kind }
        });
        Ok(children.collect())
    }

    fn leads_to_file(&self, path: &str, link: &gix::ObjectId) -> Result<bool, Error> {
        let target = self.reader.blob(&BlobId::new(link.to_string()))?;
        let Ok(target) = std::str::from_utf8(&target) else { return Ok(false) };
        // From the root of the commit: a link may lead out of the subtree that is read.
        let mut names: Vec<&str> =
            self.reader.subtree().split('/').chain(path.split('/')).filter(|n| !n.is_empty()).collect();
        // A target is relative to the folder that the link is in.
        names.pop();
        if target.starts_with('/') {
            return Ok(false);
        }
        for name in target.split('/') {
            match name {
                ".." if names.pop().is_none() => return Ok(false),
                "" | "." | ".." => {}
                name => names.push(name),
            }
        }
        if names.is_empty() {
            return Ok(false);
        }
        // One step only: a link that leads to a link does not certainly lead to a file.
        let entry = self.reader.entry(self.repo, self.root, &names.join("/"))?;
        Ok(matches!(entry, Some((EntryKind::Blob | EntryKind::BlobExecutable, _))))
    }
}

impl Reader {
    /// Lists the files of the subtree at a commit; see [`Listing`].
    ///
    /// `is_read` decides by path below the subtree; the name `<path>/manifest.yaml` asks whether a folder is ignored.
    ///
    /// # Errors
    /// `PathMissing`, `ObjectMissing`. Problems of single paths are in the listing.
    pub fn files(&self, commit: &CommitId, is_read: &dyn Fn(&str) -> bool) -> Result<Listing, Error> {
        let repo = self.local();
        let top = self.folder(&repo, commit)?;
        let level = CommitLevel { reader: self, root: self.tree_of(&repo, commit)?, repo: &repo };
        let found = walk::walk(&level, top, is_read)?;
        Ok(listing(found))
    }

    /// Returns what stands in a folder.
    pub(super) fn tree(&self, repo: &gix::Repository, id: ObjectId) -> Result<TreeEntries, Error> {
        if let Some(known) = self.trees.get(&id) {
            return Ok(known);
        }
        // Asked of the header: the list of a hostile commit's folder could fill the memory.
        if self.size_in(repo, &BlobId::new(id.to_string()))? > TREE_SIZE_MAX_BYTES {
            return Err(Error::SourceTooLarge { location: self.location().to_owned() });
        }
        let reading = Error::at(self.location(), "read a folder of");
        let tree = self.find(repo, id)?.try_into_tree().map_err(&reading)?;
        let tree = tree.decode().map_err(&reading)?;
        let entries = tree.entries.iter().map(|entry| TreeEntry {
            name: entry.filename.to_vec().into(),
            kind: entry.mode.kind(),
            id: entry.oid.to_owned(),
        });
        let entries: TreeEntries = entries.collect();
        self.trees.insert(id, &entries);
        Ok(entries)
    }

    /// Returns what stands at a path below a folder; `None` where nothing does.
    pub(super) fn entry(
        &self,
        repo: &gix::Repository,
        root: ObjectId,
        path: &str,
    ) -> Result<Option<(EntryKind, ObjectId)>, Error> {
        let mut at = (EntryKind::Tree, root);
        for name in path.split('/') {
            if at.0 != EntryKind::Tree {
                return Ok(None);
            }
            let entries = self.tree(repo, at.1)?;
            let Some(entry) = entries.iter().find(|entry| *entry.name == *name.as_bytes()) else { return Ok(None) };
            at = (entry.kind, entry.id);
        }
        Ok(Some(at))
    }
}

pub(super) fn listing(found: walk::Found<gix::ObjectId>) -> Listing {
    let files = found.files.into_iter().map(|(path, id, executable)| File {
        path,
        blob: BlobId::new(id.to_string()),
        executable,
    });
    Listing { files: files.collect(), errors: found.errors }
}
