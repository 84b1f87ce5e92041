//! What gitfleet itself wrote to a folder last: its own changes are no news.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use super::names::FileName;

/// Own changes of a folder that are remembered until its watches have seen them. What is forgotten is read once more.
const REMEMBERED_MAX: usize = 1024;

/// The files that were written (with the hash of their text) or removed and not seen by a watch yet.
#[derive(Debug, Default)]
pub(super) struct OwnChanges(Mutex<BTreeMap<FileName, Option<u64>>>);

impl OwnChanges {
    /// Remembers a change before it is made: `None` removes the file.
    pub(super) fn note(&self, name: &FileName, text: Option<&str>) {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() >= REMEMBERED_MAX {
            changes.clear();
        }
        changes.insert(name.clone(), text.map(hash));
    }

    /// Tells whether a file is as gitfleet left it, and forgets the change.
    pub(super) fn take(&self, name: &FileName, text: Option<&str>) -> bool {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.remove(name).is_some_and(|known| known == text.map(hash))
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_change_is_known_once_and_only_as_it_was_made() {
        let own = OwnChanges::default();
        let name = FileName::listed("a").unwrap();
        own.note(&name, Some("x"));
        assert!(own.take(&name, Some("x")));
        assert!(!own.take(&name, Some("x")), "somebody wrote the same again: read it");
        own.note(&name, Some("x"));
        assert!(!own.take(&name, Some("y")), "somebody changed it since");
        own.note(&name, None);
        assert!(own.take(&name, None));
    }
}
