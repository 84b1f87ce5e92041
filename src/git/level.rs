//! The folders of a commit, as the walk goes through them.

use gix::objs::tree::EntryKind;

use super::repository::Reader;
use super::walk::{Child, Children, Level, WalkedKind};
use super::{Error, TREE_SIZE_MAX_BYTES};
use crate::model::id::BlobId;

/// The folders of a commit.
pub(super) struct CommitLevel<'r> {
    pub reader: &'r Reader,
    pub repo: gix::Repository,
    pub root: gix::ObjectId,
}

impl Level for CommitLevel<'_> {
    type Folder = gix::ObjectId;
    type Content = gix::ObjectId;

    fn children(&self, folder: &gix::ObjectId) -> Result<Children<Self>, Error> {
        let reading = Error::at(self.reader.location(), "read a folder of");
        let size = self.reader.size_in(&self.repo, &BlobId::new(folder.to_string()))?;
        // Asked of the header: the list of a hostile commit's folder could fill the memory.
        if size > TREE_SIZE_MAX_BYTES {
            return Err(Error::SourceTooLarge { location: self.reader.location().to_owned() });
        }
        let tree = self.reader.find(&self.repo, *folder)?.try_into_tree().map_err(&reading)?;
        let tree = tree.decode().map_err(&reading)?;
        let child = |entry: &gix::objs::tree::EntryRef<'_>| {
            let content = entry.oid.to_owned();
            let kind = match entry.mode.kind() {
                EntryKind::Tree => WalkedKind::Folder(content),
                EntryKind::Blob => WalkedKind::File { content, executable: false },
                EntryKind::BlobExecutable => WalkedKind::File { content, executable: true },
                EntryKind::Link => WalkedKind::Link(content),
                EntryKind::Commit => WalkedKind::Submodule,
            };
            Child { name: entry.filename.to_vec(), kind }
        };
        Ok(tree.entries.iter().map(child).collect())
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
        let entry = self.reader.entry(&self.repo, self.root, &names.join("/"))?;
        Ok(matches!(entry, Some((EntryKind::Blob | EntryKind::BlobExecutable, _))))
    }
}
