//! Folders of commits that were read, by id: nearly all folders of a commit are those of the one before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::repository::Reader;
use super::{Error, TREE_SIZE_MAX_BYTES};
use model::id::BlobId;

/// Memory for them, in bytes; with more, all are read again.
const KNOWN_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a folder has.
pub(super) type TreeEntries = Arc<[TreeEntry]>;

/// What stands in a folder under a name.
#[derive(Clone, Debug)]
pub(super) struct TreeEntry {
    pub name: Box<[u8]>,
    pub kind: EntryKind,
    pub id: ObjectId,
}

/// Folders by id. Cheap to clone: the clones know the same.
#[derive(Clone, Default)]
pub(super) struct KnownTrees(Arc<Mutex<TreeMemory>>);

#[derive(Default)]
struct TreeMemory {
    trees: BTreeMap<ObjectId, TreeEntries>,
    bytes: usize,
}

impl KnownTrees {
    fn get(&self, id: &ObjectId) -> Option<TreeEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).trees.get(id).cloned()
    }

    fn insert(&self, id: ObjectId, entries: &TreeEntries) {
        let names: usize = entries.iter().map(|entry| entry.name.len()).sum();
        let bytes = size_of_val::<[TreeEntry]>(entries) + names;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.trees.contains_key(&id) {
            return;
        }
        if known.bytes + bytes > KNOWN_BYTES_MAX {
            *known = TreeMemory::default();
        }
        if bytes <= KNOWN_BYTES_MAX {
            known.trees.insert(id, Arc::clone(entries));
            known.bytes += bytes;
        }
    }
}

impl Reader {
    /// Returns what stands in a folder.
    pub(super) fn tree(&self, repo: &gix::Repository, id: ObjectId) -> Result<TreeEntries, Error> {
        if let Some(known) = self.trees.get(&id) {
            return Ok(known);
        }
        // Asked of the header: the list of a hostile commit's folder could fill the memory.
        if self.size_in(repo, &BlobId::new(id.to_string()))? > TREE_SIZE_MAX_BYTES {
            return Err(Error::SourceTooLarge { location: self.location().to_owned() });
        }
        let reading = Error::at(self.location(), "read a folder of");
        let tree = self.find(repo, id)?.try_into_tree().map_err(&reading)?;
        let tree = tree.decode().map_err(&reading)?;
        let entry = |entry: &gix::objs::tree::EntryRef<'_>| TreeEntry {
            name: entry.filename.to_vec().into(),
            kind: entry.mode.kind(),
            id: entry.oid.to_owned(),
        };
        let entries: TreeEntries = tree.entries.iter().map(entry).collect();
        self.trees.insert(id, &entries);
        Ok(entries)
    }

    /// Returns what stands at a path below a folder; `None` where nothing does.
    pub(super) fn entry(
        &self,
        repo: &gix::Repository,
        root: ObjectId,
        path: &str,
    ) -> Result<Option<(EntryKind, ObjectId)>, Error> {
        let mut at = (EntryKind::Tree, root);
        for name in path.split('/') {
            if at.0 != EntryKind::Tree {
                return Ok(None);
            }
            let entries = self.tree(repo, at.1)?;
            let Some(entry) = entries.iter().find(|entry| *entry.name == *name.as_bytes()) else { return Ok(None) };
            at = (entry.kind, entry.id);
        }
        Ok(Some(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_has_a_limit() {
        let known = KnownTrees::default();
        let id = |number: u8| ObjectId::from_bytes_or_panic(&[number; 20]);
        let folder = |count: usize| -> TreeEntries {
            let entry = TreeEntry { name: vec![b'n'; 1_000].into(), kind: EntryKind::Blob, id: id(0) };
            vec![entry; count].into()
        };
        let third = KNOWN_BYTES_MAX / 3 / 1_100;
        (1..=3).for_each(|number| known.insert(id(number), &folder(third)));
        known.insert(id(3), &folder(third));
        assert!((1..=3).all(|number| known.get(&id(number)).is_some()), "one that is known counts once");
        known.insert(id(4), &folder(third));
        let kept: Vec<u8> = (1..=4).filter(|number| known.get(&id(*number)).is_some()).collect();
        assert_eq!(kept, [4], "all are read again");
        known.insert(id(5), &folder(4 * third));
        assert!(known.get(&id(5)).is_none(), "one that is larger than the limit is not kept");
    }
}
