//! Folders of commits that were read, by id: nearly all folders of a commit are those of the one before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

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
    pub(super) fn get(&self, id: &ObjectId) -> Option<TreeEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).trees.get(id).cloned()
    }

    pub(super) fn insert(&self, id: ObjectId, entries: &TreeEntries) {
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
