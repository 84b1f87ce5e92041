//! Reads the journal.

use redb::{AccessGuard, StorageError};

use super::packed::{Unpacked, Unpacker};
use super::{Error, RawError};
use model::records::JournalEntry;

/// An entry as it is stored: its number and its bytes.
type StoredEntry<'a> = (AccessGuard<'a, u64>, AccessGuard<'a, &'static [u8]>);

/// Reads entries of the journal in the order in which they come.
pub(super) fn entries<'a>(
    items: impl Iterator<Item = Result<StoredEntry<'a>, StorageError>>,
) -> Result<Vec<(u64, JournalEntry)>, RawError> {
    let mut entries = Vec::new();
    let mut unpacker = Unpacker::new();
    for item in items {
        let (number, bytes) = item?;
        let number = number.value();
        let unreadable = |source| RawError::Store(Error::Unreadable { key: format!("journal/{number}"), source });
        let entry = unpacker.unpacked(bytes.value()).and_then(Unpacked::whole).map_err(serde_json::Error::io);
        let entry = entry.and_then(|entry| serde_json::from_slice(&entry)).map_err(unreadable)?;
        entries.push((number, entry));
    }
    Ok(entries)
}
