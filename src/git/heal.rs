//! Repairs repositories that belong to gitfleet: leftovers of a dead process, files damaged by a power cut, and missing
//! objects. A damaged mirror of a remote is cloned again beside the old one; docs/design/018-memory-for-what-people-push.md has
//! the reasons.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::repository::Reader;
use super::{Error, REF_PREFIX};
use crate::bare::create_bare;

/// The extension of a damaged mirror that is kept, because something in it could not be taken along. There is one at most.
pub(super) const DAMAGED: &str = "damaged";

/// The extension of an index whose pack is broken.
const BROKEN: &str = "idx-of-broken-pack";

/// How old a lock below our refs in somebody else's repository must be before we remove it: one is held for milliseconds, and
/// another gitfleet may write there, too.
pub(super) const LOCK_STALE_AFTER: Duration = Duration::from_mins(1);

/// How names of pins start that say their commit.
const PIN_OF_COMMIT: &str = "commit-";

/// The standard configuration of a bare repository.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// Bytes of a checksum at the end of packs and their indices.
const CHECKSUM_BYTES: usize = 20;

/// Folders below refs that are looked into.
const REF_DEPTH_MAX: usize = 8;

/// Opens a bare repository that belongs to gitfleet alone, or creates it, and puts right what can be put right here. The second
/// answer is the damage that remains.
pub(super) fn open(
    dir: &Path,
    options: &gix::open::Options,
    location: &str,
    subtree: &str,
) -> Result<(Reader, Option<String>), Error> {
    create_bare(dir, location)?;
    remove_leftovers(dir).map_err(Error::disk(dir))?;
    let reader = match Reader::open(dir, options.clone(), location, subtree) {
        Ok(reader) => reader,
        // HEAD and config of a mirror say nothing of its content, so writing them again loses nothing.
        Err(error @ Error::Repository { .. }) => {
            tracing::warn!(mirror = %dir.display(), %error, "HEAD or config of the mirror is damaged; gitfleet writes it again");
            restore_frame(dir).map_err(Error::disk(dir))?;
            match Reader::open(dir, options.clone(), location, subtree) {
                // It is not the frame: an empty repository takes its place, and the next poll fetches everything.
                Err(Error::Repository { cause, .. }) => {
                    tracing::warn!(mirror = %dir.display(), %cause, "the mirror cannot be opened; it is set aside");
                    set_aside(dir, dir).map_err(Error::disk(dir))?;
                    create_bare(dir, location)?;
                    Reader::open(dir, options.clone(), location, subtree)?
                }
                other => other?,
            }
        }
        Err(error) => return Err(error),
    };
    // Before damage is looked for: a ref that can be repaired here is no reason to clone again.
    repair_refs(dir).map_err(Error::disk(dir))?;
    let damage = damage(&reader);
    Ok((reader, damage))
}

/// Keeps a damaged repository, instead of the one that was kept before.
pub(super) fn set_aside(from: &Path, dir: &Path) -> io::Result<()> {
    let kept = dir.with_extension(DAMAGED);
    if kept.exists() {
        fs::remove_dir_all(&kept)?;
    }
    fs::rename(from, kept)
}

/// Returns the first damage of a repository that belongs to gitfleet, as text for users.
///
/// An index whose pack is broken is renamed, so that nothing reads beyond the end of the pack: its objects are missing then.
pub(super) fn damage(reader: &Reader) -> Option<String> {
    let dir = reader.git_dir();
    let packs = broken_pack(&dir).and_then(|found| {
        let Some((index, damage)) = found else { return Ok(None) };
        if index.exists() {
            fs::rename(&index, index.with_extension(BROKEN))?;
        }
        Ok(Some(damage))
    });
    match packs {
        Ok(Some(damage)) => return Some(damage),
        Ok(None) => {}
        Err(error) => return Some(format!("objects/pack cannot be read: {error}")),
    }
    missing_target(&reader.local()).unwrap_or_else(|error| Some(format!("its refs cannot be read: {error}")))
}

/// Removes the locks and half-written files of a process that died. Only for a repository that nobody else writes.
fn remove_leftovers(dir: &Path) -> io::Result<()> {
    let mut stale = locks(dir, 1)?;
    stale.extend(locks(&dir.join("refs"), REF_DEPTH_MAX)?);
    for folder in ["objects", "objects/pack"] {
        stale.extend(
            files(&dir.join(folder), 1)?
                .into_iter()
                .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tmp"))),
        );
    }
    for path in stale {
        tracing::info!(path = %path.display(), "removing what a process left that ended too early");
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Repairs our refs in a repository of somebody else: old locks below them, and refs that hold nothing.
pub(super) fn repair_own_refs(git_dir: &Path) -> io::Result<()> {
    for lock in locks(&git_dir.join(REF_PREFIX), REF_DEPTH_MAX)? {
        // A time in the future counts as young: the clock may have been set back.
        let age = fs::metadata(&lock)?.modified()?.elapsed().unwrap_or_default();
        if age > LOCK_STALE_AFTER {
            tracing::info!(path = %lock.display(), "removing the lock of a process that ended too early");
            fs::remove_file(lock)?;
        }
    }
    repair_refs(git_dir)
}

/// Rewrites empty refs of gitfleet whose names contain their commit, and removes the others: they are fetched again.
fn repair_refs(git_dir: &Path) -> io::Result<()> {
    for path in files(&git_dir.join(REF_PREFIX), REF_DEPTH_MAX)? {
        // A lock that is still here may be held: another gitfleet may write into a repository that is read in place.
        if path.extension().is_some_and(|extension| extension == "lock") {
            continue;
        }
        let text = fs::read(&path)?;
        if is_id(&String::from_utf8_lossy(&text)) || text.starts_with(b"ref: ") {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(id) = name.strip_prefix(PIN_OF_COMMIT).filter(|id| is_id(id)) {
            tracing::warn!(path = %path.display(), "a pin held no commit; gitfleet writes it again from its name");
            fs::write(&path, format!("{id}\n"))?;
        } else {
            tracing::warn!(path = %path.display(), "a ref of ours held no commit and is removed");
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn is_id(text: &str) -> bool {
    gix::ObjectId::from_hex(text.trim_end().as_bytes()).is_ok()
}

/// Writes what every bare repository has and what says nothing about its content.
fn restore_frame(dir: &Path) -> io::Result<()> {
    for folder in ["objects/pack", "objects/info", "refs"] {
        fs::create_dir_all(dir.join(folder))?;
    }
    fs::write(dir.join("HEAD"), "ref: refs/heads/main\n")?;
    fs::write(dir.join("config"), CONFIG)
}

/// Returns what is wrong with the packs, as far as a few bytes of each show it: a pack's last bytes are its checksum, and its
/// index repeats them. The first answer is the index.
fn broken_pack(git_dir: &Path) -> io::Result<Option<(PathBuf, String)>> {
    for path in files(&git_dir.join("objects/pack"), 1)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let broken = match path.extension().and_then(|extension| extension.to_str()) {
            Some("pack") if !path.with_extension("idx").exists() => Some("has no index"),
            Some("idx") if !path.with_extension("pack").exists() => Some("has no pack"),
            // An earlier process found the pack broken and ended before the mirror was cloned again.
            Some(BROKEN) => Some("belongs to a pack that was broken"),
            Some("pack") => {
                let own = tail(&path, 1)?;
                let index = tail(&path.with_extension("idx"), 2)?;
                let same = own.zip(index).is_some_and(|(own, index)| own[..] == index[..CHECKSUM_BYTES]);
                (!same).then_some("is truncated or overwritten")
            }
            _ => None,
        };
        if let Some(how) = broken {
            return Ok(Some((path.with_extension("idx"), format!("{name} {how}"))));
        }
    }
    Ok(None)
}

/// Returns the last checksums of a file; `None` where it is shorter.
fn tail(path: &Path, checksums: usize) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; checksums * CHECKSUM_BYTES];
    let length = i64::try_from(bytes.len()).expect("a few bytes");
    if file.metadata()?.len() < bytes.len() as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-length))?;
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// Returns a ref of gitfleet whose commit or root is missing.
fn missing_target(repo: &gix::Repository) -> gix::Result<Option<String>> {
    for reference in repo.references()?.prefixed(REF_PREFIX)? {
        let reference = reference?;
        let Some(id) = reference.try_id() else { continue };
        // The commit and its root, no deeper: reading every object takes minutes, and one that is never read does no harm.
        let complete = repo
            .try_find_object(id.detach())?
            .and_then(|object| object.try_into_commit().ok())
            .and_then(|commit| commit.tree_id().ok())
            .is_some_and(|tree| repo.has_object(tree.detach()));
        if !complete {
            return Ok(Some(format!("{} leads to {id}, which is missing", reference.name().as_bstr())));
        }
    }
    Ok(None)
}

fn locks(folder: &Path, depth: usize) -> io::Result<Vec<PathBuf>> {
    let mut found = files(folder, depth)?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "lock"));
    Ok(found)
}

/// Returns the files below a folder, so many levels deep; none where there is no folder.
fn files(folder: &Path, depth: usize) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), depth)];
    while let Some((folder, depth)) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // git makes its folders when it needs them.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_file() {
                found.push(entry.path());
            } else if kind.is_dir() && depth > 1 {
                open.push((entry.path(), depth - 1));
            }
        }
    }
    found.sort();
    Ok(found)
}
