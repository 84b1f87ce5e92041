//! Bare repositories below the state folder, which are made here.

use std::path::Path;

use super::Error;
use super::repository::open_options;

/// The extension of a mirror that is being swapped for a compacted one.
pub(super) const REPLACED: &str = "replaced";

/// Creates a bare repository unless there is one. Built beside and moved, so that a crash leaves none half made.
pub(super) fn create_bare(dir: &Path, location: &str) -> Result<(), Error> {
    if dir.exists() {
        return Ok(());
    }
    let replaced = dir.with_extension(REPLACED);
    if replaced.exists() {
        // A crash in the middle of a compaction's swap.
        return std::fs::rename(&replaced, dir).map_err(Error::disk(dir));
    }
    let parent = dir.parent().unwrap_or(dir);
    std::fs::create_dir_all(parent).map_err(Error::disk(dir))?;
    let fresh = dir.with_extension("new");
    // Left by a crash before the rename below; it may be half made.
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(Error::disk(dir))?;
    }
    let kind = gix::create::Kind::Bare;
    let create = gix::create::Options::default();
    gix::ThreadSafeRepository::init_opts(&fresh, kind, create, open_options([]))
        .map_err(Error::at(location, "create a mirror for"))?;
    std::fs::rename(&fresh, dir).map_err(Error::disk(dir))
}
