//! A repository that one caller reads many times.

use std::sync::{Mutex, PoisonError};

use gix::objs::tree::EntryKind;

use super::level::{CommitLevel, listing};
use super::repository::{Blob, Reader, normal_subtree};
use super::walk::{self, Listing};
use super::{BLOB_SIZE_MAX_BYTES, Error};
use model::id::{BlobId, CommitId};

/// Reads folders and files one by one through a view that is opened once: opening it costs as much as reading dozens of files.
pub struct OpenedReader<'r> {
    reader: &'r Reader,
    repo: Mutex<gix::Repository>,
}

impl Reader {
    /// Opens a view for reading folders and files one by one.
    pub fn opened(&self) -> OpenedReader<'_> {
        OpenedReader { reader: self, repo: Mutex::new(self.local()) }
    }
}

impl OpenedReader<'_> {
    /// Lists everything in and below a folder of the subtree at a commit, hidden files too: what a program that renders it may read.
    /// The paths are relative to that folder, and every link is an error. A folder that is not there holds nothing.
    ///
    /// # Errors
    /// As [`Reader::files`].
    pub fn files_below(&self, commit: &CommitId, folder: &str) -> Result<Listing, Error> {
        let repo = self.repo.lock().unwrap_or_else(PoisonError::into_inner);
        let mut top = self.reader.folder(&repo, commit)?;
        let below = normal_subtree(folder)?;
        if !below.is_empty() {
            match self.reader.entry(&repo, top, &below)? {
                Some((EntryKind::Tree, id)) => top = id,
                _ => return Ok(Listing::default()),
            }
        }
        let level = CommitLevel { reader: self.reader, root: self.reader.tree_of(&repo, commit)?, repo: &repo };
        Ok(listing(walk::walk_all(&level, top)?))
    }

    /// Reads one file.
    ///
    /// # Errors
    /// `ObjectMissing`.
    pub fn blob(&self, blob: &BlobId) -> Result<Blob, Error> {
        let repo = self.repo.lock().unwrap_or_else(PoisonError::into_inner);
        let size = self.reader.size_in(&repo, blob)?;
        if size > BLOB_SIZE_MAX_BYTES {
            return Ok(Blob::TooLarge(size));
        }
        self.reader.data(&repo, blob).map(Blob::of)
    }
}
