//! The lock file: who may write, who may read.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use super::RawError;
use engine::store::{Error, Result};

/// The lock file in the store's folder.
pub(super) const LOCK_FILE: &str = "lock";

/// Holds the lock file of a folder.
pub(super) struct Lock {
    /// Absent on a read-only disk without one: nobody writes there.
    file: Option<File>,
    exclusive: bool,
}

impl Lock {
    pub(super) fn exclusive(folder: &Path) -> Result<Self> {
        let mut file = lock_file(folder)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(error) => return Err(lock_error(folder, &mut file, error)),
        }
        // The process id is only informative: a full disk must not prevent opening the store.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self { file: Some(file), exclusive: true })
    }

    /// Shares the lock with other readers. On a read-only disk reading still works: an existing lock file is shared as usual,
    /// and without one there is no writer to wait for.
    pub(super) fn shared(folder: &Path) -> Result<Self> {
        let mut file = match lock_file(folder) {
            Ok(file) => file,
            Err(error) if cannot_write(&error) => match File::open(folder.join(LOCK_FILE)) {
                Ok(file) => file,
                // If only the permission is missing, a daemon of another user may still start to write.
                Err(missing) if missing.kind() == io::ErrorKind::NotFound && is_read_only(&error) => {
                    return Ok(Self { file: None, exclusive: false });
                }
                Err(_) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Self { file: Some(file), exclusive: false }),
            Err(error) => Err(lock_error(folder, &mut file, error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        if self.exclusive {
            // So that the next process to wait is not shown a process that ended long ago.
            let _ = file.set_len(0);
        }
        let _ = file.unlock();
    }
}

/// Returns the kind of a failure of the disk.
fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    if let Error::Io { source, .. } = error { Some(source.kind()) } else { None }
}

fn cannot_write(error: &Error) -> bool {
    is_read_only(error) || io_kind(error) == Some(io::ErrorKind::PermissionDenied)
}

fn is_read_only(error: &Error) -> bool {
    io_kind(error) == Some(io::ErrorKind::ReadOnlyFilesystem)
}

fn lock_file(folder: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(LOCK_FILE))
        .map_err(|source| RawError::from(source).with_path(folder, "opening the lock file"))
}

fn lock_error(folder: &Path, file: &mut File, error: TryLockError) -> Error {
    match error {
        TryLockError::WouldBlock => {
            let mut text = String::new();
            let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
            Error::Locked { path: folder.to_owned(), pid: read.ok().and_then(|_| text.trim().parse().ok()) }
        }
        TryLockError::Error(source) => RawError::from(source).with_path(folder, "locking"),
    }
}
