//! The folders of a commit, as the walk goes through them.

use gix::objs::tree::EntryKind;

use super::Error;
use super::repository::Reader;
use super::trees::TreeEntry;
use super::walk::{Child, Children, Level, WalkedKind};
use model::id::BlobId;

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
        let child = |entry: &TreeEntry| {
            let content = entry.id;
            let kind = match entry.kind {
                EntryKind::Tree => WalkedKind::Folder(content),
                EntryKind::Blob => WalkedKind::File { content, executable: false },
                EntryKind::BlobExecutable => WalkedKind::File { content, executable: true },
                EntryKind::Link => WalkedKind::Link(content),
                EntryKind::Commit => WalkedKind::Submodule,
            };
            Child { name: entry.name.to_vec(), kind }
        };
        Ok(self.reader.tree(self.repo, *folder)?.iter().map(child).collect())
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
