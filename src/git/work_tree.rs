//! A new repository with a work tree: files, index and branch agree after each commit, so that git itself continues from there.

use std::fs;
use std::path::{Path, PathBuf};

use super::repository::open_options;
use super::{Error, NewCommit, Reader};
use model::id::CommitId;

/// A repository that was made here, whose work tree follows each commit.
pub struct WorkTree {
    dir: PathBuf,
    reader: Reader,
    head: Option<CommitId>,
}

impl WorkTree {
    /// Makes a repository without commits in a folder. Its branch is called `main`.
    ///
    /// # Errors
    /// `Repository` where it cannot be written, or the folder holds a repository.
    pub fn create(dir: &Path) -> Result<Self, Error> {
        let location = dir.display().to_string();
        let kind = gix::create::Kind::WithWorktree;
        let create = gix::create::Options::default();
        gix::ThreadSafeRepository::init_opts(dir, kind, create, open_options([]))
            .map_err(Error::at(&location, "create"))?;
        let reader = Reader::open(dir, open_options([]), &location, "")?;
        Ok(Self { dir: dir.to_owned(), reader, head: None })
    }

    /// Writes files, and commits them on top of the last commit that was made here.
    ///
    /// # Errors
    /// `Disk` where a file cannot be written; `Repository` where the commit cannot, such as after a commit by somebody else.
    pub fn commit(&mut self, new: &NewCommit<'_>) -> Result<CommitId, Error> {
        let repo = self.reader.local();
        let parent = self.head.as_ref().map(|head| self.reader.commit_id(&repo, head)).transpose()?;
        // The branch first: who committed meanwhile keeps the files.
        let commit = self.reader.commit_after(parent, new)?;
        for (path, content) in new.files {
            let path = self.dir.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&self.dir)).map_err(Error::disk(&path))?;
            fs::write(&path, content).map_err(Error::disk(&path))?;
        }
        self.write_index(&commit)?;
        self.head = Some(commit.clone());
        Ok(commit)
    }

    /// Writes the index of a commit: without it git would take every file for a new one.
    fn write_index(&self, commit: &CommitId) -> Result<(), Error> {
        let repo = self.reader.local();
        let id = self.reader.commit_id(&repo, commit)?;
        write_index(&repo, id).map_err(Error::at(self.reader.location(), "write the index of"))
    }
}

fn write_index(repo: &gix::Repository, commit: gix::ObjectId) -> gix::Result<()> {
    let tree = repo.find_object(commit)?.try_into_commit()?.tree_id()?.detach();
    repo.index_from_tree(&tree)?.write(gix::index::write::Options::default())
}
