//! Has what was written stay where the power is cut.

use std::fs::File;
use std::path::Path;

use super::Error;

/// Has files and the folders they stand in written to the disk, in this order.
pub(super) fn sync(paths: &[&Path]) -> Result<(), Error> {
    for path in paths {
        File::open(path).and_then(|file| file.sync_all()).map_err(Error::disk(path))?;
        // A new name is on the disk only once the folder that holds it is, too.
        if let Some(folder) = path.parent() {
            File::open(folder).and_then(|file| file.sync_all()).map_err(Error::disk(path))?;
        }
    }
    Ok(())
}

/// Has everything written to the disk that was written below a folder: many small files, such as loose objects.
pub(super) fn sync_below(dir: &Path) -> Result<(), Error> {
    let folder = File::open(dir).map_err(Error::disk(dir))?;
    // One call for the whole file system: loose objects are many. Other systems have no such call.
    #[cfg(target_os = "linux")]
    nix::unistd::syncfs(&folder).map_err(std::io::Error::from).map_err(Error::disk(dir))?;
    folder.sync_all().map_err(Error::disk(dir))
}
