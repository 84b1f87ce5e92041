//! The files of one folder, and nothing outside of it.
//!
//! Every operation names one segment below an open folder, and none follows a symbolic link: whatever the folder contains,
//! nothing else is read, written or removed. A file is written under another name first, so that nobody reads half of it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, fsync, linkat, unlinkat};

use super::names::FileName;

/// Bytes of a file that are read. A manifest has a third of that at most, and the text that we write of it may be longer.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An open folder.
pub(super) struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Folder {
    /// Opens a folder; it is followed where it is a symbolic link, because the configuration names it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self(nix::fcntl::open(path, flags, Mode::empty())?))
    }

    /// Opens a folder, made where it is not there.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if let Ok(folder) = Self::open(path) {
            return Ok(folder);
        }
        std::fs::create_dir_all(path)?;
        // A folder whose own name is lost in a power cut takes its files along.
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            File::open(above)?.sync_all()?;
        }
        Self::open(path)
    }

    /// Returns the names in the folder, sorted; names that are no text are ignored.
    pub(super) fn names(&self) -> io::Result<Vec<FileName>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut names = Vec::new();
        // Opened once more: reading moves a position that everybody who has the handle would share.
        for entry in Dir::openat(&self.0, ".", flags, Mode::empty())?.iter() {
            names.extend(entry?.file_name().to_str().ok().and_then(FileName::listed));
        }
        names.sort();
        Ok(names)
    }

    /// Reads a file; `None` where there is none.
    pub(super) fn read(&self, name: &FileName) -> io::Result<Option<String>> {
        // Without waiting: a pipe in the place of a file would hold us up for ever.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match openat(&self.0, name.as_str(), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => return Err(io::Error::other("it is a symbolic link, which is not followed")),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut text = String::new();
        if file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)? as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        Ok(Some(text))
    }

    /// Writes the content of a file under its temporary name. Once that is on the disk, [`Folder::replace`] puts it in its place.
    pub(super) fn write(&self, name: &FileName, text: &str) -> io::Result<OwnedFd> {
        let temporary = name.temporary();
        let mut file = self.create_file(&temporary)?;
        file.write_all(text.as_bytes()).inspect_err(|_| drop(self.remove(&temporary)))?;
        Ok(file.into())
    }

    /// Puts what was written in its place at once, whatever was there; its name is on the disk after the folder is synced.
    pub(super) fn replace(&self, name: &FileName) -> io::Result<()> {
        let temporary = name.temporary();
        let replaced = renameat(&self.0, temporary.as_str(), &self.0, name.as_str());
        Ok(replaced.inspect_err(|_| drop(self.remove(&temporary)))?)
    }

    fn create_file(&self, name: &FileName) -> io::Result<File> {
        // Only a file that is new: a link that somebody put in its place must not be written through.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let create = || openat(&self.0, name.as_str(), flags, Mode::from_bits_truncate(0o666));
        let created = create().or_else(|error| match error {
            // Left by a process that ended in the middle.
            Errno::EEXIST => self.remove(name).map_err(|_| error).and_then(|()| create()),
            error => Err(error),
        });
        Ok(created?.into())
    }

    /// Gives a file another name. There is no moment without it: under both names rather than under none.
    pub(super) fn rename(&self, from: &FileName, to: &FileName) -> io::Result<()> {
        let old = from.as_str();
        let new = to.as_str();
        if linkat(&self.0, old, &self.0, new, AtFlags::empty()).is_err() {
            // It is there already, or the file system knows one name a file.
            renameat(&self.0, old, &self.0, new)?;
        }
        self.remove(from)
    }

    /// Removes a file; one that is not there is no error.
    pub(super) fn remove(&self, name: &FileName) -> io::Result<()> {
        match unlinkat(&self.0, name.as_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until every name that was given or taken so far is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }

    /// Returns the open folder itself.
    pub(super) fn into_file(self) -> OwnedFd {
        self.0
    }
}
