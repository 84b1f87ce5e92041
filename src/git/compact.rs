//! What rebuilding a mirror takes: gix has no garbage collection, every fetch adds a pack, and a damaged mirror is best cloned again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gix::objs::{Kind, Write};
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::bare::REPLACED;
use super::repository::Reader;
use super::{Error, REF_PINS, REF_PREFIX, durable, heal};

/// The extension of the mirror that is being built.
const FRESH: &str = "fresh";

/// Returns where a mirror is built, and makes room there.
pub(super) fn room_beside(dir: &Path) -> std::io::Result<PathBuf> {
    // The mirror itself is in its place, so both are leftovers: of a copy that was not finished, of a finished swap.
    for extension in [FRESH, REPLACED] {
        let leftover = dir.with_extension(extension);
        if leftover.exists() {
            fs::remove_dir_all(leftover)?;
        }
    }
    Ok(dir.with_extension(FRESH))
}

/// Puts the new mirror into the place of the old one, and returns where that is now. It is on the disk before it counts.
pub(super) fn swap(dir: &Path) -> Result<PathBuf, Error> {
    let fresh = dir.with_extension(FRESH);
    let replaced = dir.with_extension(REPLACED);
    durable::sync_below(&fresh)?;
    // A crash between the two renames leaves no mirror; `create_bare` takes the replaced one back.
    fs::rename(dir, &replaced).map_err(Error::disk(dir))?;
    fs::rename(&fresh, dir).map_err(Error::disk(dir))?;
    durable::sync(&[dir])?;
    Ok(replaced)
}

pub(super) fn put_away(old: &Path, dir: &Path, lost: &[String]) -> std::io::Result<()> {
    if lost.is_empty() { fs::remove_dir_all(old) } else { heal::set_aside(old, dir) }
}

pub(super) fn count_packs(dir: &Path) -> std::io::Result<usize> {
    let mut packs = 0;
    for entry in fs::read_dir(dir.join("objects").join("pack"))? {
        packs += usize::from(entry?.path().extension().is_some_and(|extension| extension == "pack"));
    }
    Ok(packs)
}

/// Copies all complete refs, and returns the pins that are incomplete: other refs are fetched when they are needed.
pub(super) fn copy_what_is_whole(from: &Reader, to: &Reader) -> Result<Vec<String>, Error> {
    let mut lost = Vec::new();
    let copied = copy(from, to, |name, error| {
        if name.starts_with(REF_PINS) {
            lost.push(format!("{name}: {error}"));
        }
        Ok(())
    });
    match copied {
        // The refs of the damaged one cannot even be listed.
        Err(error @ Error::Repository { .. }) => lost.push(error.to_string()),
        other => other?,
    }
    Ok(lost)
}

/// Copies every ref of gitfleet, with the objects that the new mirror lacks: commits that a force-push removed from the branch.
/// `failed` decides about incomplete refs.
pub(super) fn copy(
    from: &Reader,
    to: &Reader,
    mut failed: impl FnMut(&str, Error) -> Result<(), Error>,
) -> Result<(), Error> {
    let old = from.local();
    let new = to.local();
    let copying = Error::at(from.location(), "copy the mirror of");
    let refs = old.references().map_err(&copying)?;
    for reference in refs.prefixed(REF_PREFIX).map_err(&copying)? {
        let reference = reference.map_err(&copying)?;
        let Some(id) = reference.try_id().map(gix::Id::detach) else { continue };
        if let Err(error) = copy_object(&old, &new, id, from, &copying) {
            failed(&reference.name().as_bstr().to_string(), error)?;
            continue;
        }
        // The branch itself may have moved between the two fetches; what is newer stays.
        if new.try_find_reference(reference.name()).map_err(&copying)?.is_none() {
            let edit = RefEdit::update(reference.name().to_owned(), id, PreviousValue::MustNotExist, "copy");
            new.edit_reference(edit).map_err(&copying)?;
        }
    }
    Ok(())
}

/// Copies an object and all it leads to, or nothing. An object that is there already is complete: it came with a whole pack,
/// or it was copied in this pass.
fn copy_object(
    old: &gix::Repository,
    new: &gix::Repository,
    id: gix::ObjectId,
    from: &Reader,
    copying: &impl Fn(gix::Error) -> Error,
) -> Result<(), Error> {
    let mut open = vec![id];
    let mut needed = BTreeSet::new();
    while let Some(id) = open.pop() {
        if new.has_object(id) || !needed.insert(id) {
            continue;
        }
        let object = old.try_find_object(id).map_err(copying)?.ok_or_else(|| from.missing(&id))?;
        let held = gix::objs::compute_hash(id.kind(), object.kind, &object.data).map_err(copying)?;
        if held != id {
            // The old copy is damaged: what it says is not what its name promises.
            return Err(from.missing(&id));
        }
        match object.kind {
            Kind::Commit => {
                let commit = object.into_commit();
                open.push(commit.tree_id().map_err(copying)?.detach());
                open.extend(commit.parent_ids().map(gix::Id::detach));
            }
            Kind::Tree => {
                let tree = object.into_tree();
                let entries = tree.decode().map_err(copying)?.entries;
                // The commit that a submodule names is in another repository.
                open.extend(entries.iter().filter(|e| !e.mode.is_commit()).map(|e| e.oid.to_owned()));
            }
            Kind::Tag => open.push(object.into_tag().target_id().map_err(copying)?.detach()),
            Kind::Blob => {}
        }
    }
    // Written only now that all of it is known to be whole: an object that is there counts as complete.
    // Read a second time, so that the content of a commit is never held all at once.
    for id in needed {
        let object = old.try_find_object(id).map_err(copying)?.ok_or_else(|| from.missing(&id))?;
        new.objects.write_buf(object.kind, &object.data).map_err(copying)?;
    }
    Ok(())
}
