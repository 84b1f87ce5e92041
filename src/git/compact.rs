//! Building a mirror anew: gix has no garbage collection, and every fetch leaves one more pack.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gix::objs::{Kind, Write};
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::mirror::{Mirror, REPLACED};
use super::{Error, REF_PREFIX};

/// The extension of the mirror that is being built.
const FRESH: &str = "fresh";

/// Replaces a mirror that has more than `packs_max` packs; tells whether it did.
pub(super) fn compact(mirror: &mut Mirror, packs_max: usize, interrupt: &AtomicBool) -> Result<bool, Error> {
    let dir = mirror.dir.clone();
    let disk = |source| Error::Disk { path: dir.clone(), source };
    if count_packs(&dir).map_err(disk)? <= packs_max {
        return Ok(false);
    }
    let (fresh_dir, replaced) = (dir.with_extension(FRESH), dir.with_extension(REPLACED));
    for leftover in [&fresh_dir, &replaced] {
        if leftover.exists() {
            fs::remove_dir_all(leftover).map_err(disk)?;
        }
    }
    let mut fresh = mirror.beside(fresh_dir.clone())?;
    fresh.poll(interrupt)?;
    copy(mirror, &fresh)?;
    drop(fresh);
    fs::rename(&dir, &replaced).map_err(disk)?;
    fs::rename(&fresh_dir, &dir).map_err(disk)?;
    mirror.reopen()?;
    fs::remove_dir_all(&replaced).map_err(disk)?;
    Ok(true)
}

fn count_packs(dir: &Path) -> std::io::Result<usize> {
    let mut packs = 0;
    for entry in fs::read_dir(dir.join("objects").join("pack"))? {
        packs += usize::from(entry?.path().extension().is_some_and(|extension| extension == "pack"));
    }
    Ok(packs)
}

/// Copies every ref of ours, and what it needs and the new mirror lacks: commits that a force-push took off the branch.
fn copy(from: &Mirror, to: &Mirror) -> Result<(), Error> {
    let (old, new) = (from.reader.local(), to.reader.local());
    let copying = Error::at(from.reader.location(), "compact the mirror of");
    let refs = old.references().map_err(&copying)?;
    for reference in refs.prefixed(REF_PREFIX).map_err(&copying)? {
        let reference = reference.map_err(&copying)?;
        let Some(id) = reference.try_id().map(gix::Id::detach) else { continue };
        copy_object(&old, &new, id, from, &copying)?;
        // The branch itself may have moved between the two fetches; what is newer stays.
        if new.try_find_reference(reference.name()).map_err(&copying)?.is_none() {
            let edit = RefEdit::update(reference.name().to_owned(), id, PreviousValue::MustNotExist, "compact");
            new.edit_reference(edit).map_err(&copying)?;
        }
    }
    Ok(())
}

/// Copies an object and all it leads to. An object that is there already is complete: it came with a whole pack, or it
/// was copied in this pass, which counts only when it ends well.
fn copy_object(
    old: &gix::Repository,
    new: &gix::Repository,
    id: gix::ObjectId,
    from: &Mirror,
    copying: &impl Fn(gix::Error) -> Error,
) -> Result<(), Error> {
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        if new.has_object(id) {
            continue;
        }
        let missing = || Error::ObjectMissing { location: from.reader.location().to_owned(), id: id.to_string() };
        let object = old.try_find_object(id).map_err(copying)?.ok_or_else(missing)?;
        let written = new.objects.write_buf(object.kind, &object.data).map_err(copying)?;
        if written != id {
            // The old copy is damaged: what it says is not what its name promises.
            return Err(missing());
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
                open.extend(entries.iter().filter(|e| !e.mode.is_commit()).map(|e| e.oid.to_owned()));
            }
            Kind::Tag => open.push(object.into_tag().target_id().map_err(copying)?.detach()),
            Kind::Blob => {}
        }
    }
    Ok(())
}
