//! Parts of records: lists that many records share, each once in the file, with the number of records that have it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable as _, Table, TableDefinition, TableError, WriteTransaction};

use super::packed::{Packer, PartId, Unpacker};
use super::{RawError, Result};

/// The bytes of parts.
const PARTS: TableDefinition<'static, PartId, &[u8]> = TableDefinition::new("parts");
/// How many records have a part.
const PART_USES: TableDefinition<'static, PartId, u64> = TableDefinition::new("part_uses");

/// Parts that a reader of many records keeps in memory; the records of a placement follow each other.
const REMEMBERED_MAX: usize = 16;

/// What a batch changes about parts.
#[derive(Default)]
pub(super) struct PartChanges<'a>(BTreeMap<PartId, PartChange<'a>>);

#[derive(Default)]
struct PartChange<'a> {
    added: u64,
    dropped: u64,
    bytes: Option<&'a [u8]>,
}

/// A part before a batch.
pub(super) struct PartBefore {
    id: PartId,
    uses: u64,
    /// Its kept bytes, where the batch removed them.
    bytes: Option<Vec<u8>>,
}

impl<'a> PartChanges<'a> {
    /// A record with this part was written.
    pub(super) fn add(&mut self, id: PartId, bytes: &'a [u8]) {
        let change = self.0.entry(id).or_default();
        change.added += 1;
        change.bytes = Some(bytes);
    }

    /// A record with this part was replaced or removed.
    pub(super) fn drop(&mut self, id: PartId) {
        self.0.entry(id).or_default().dropped += 1;
    }

    /// Writes new parts and removes those that no record has any more; returns what was before.
    pub(super) fn write(
        self,
        transaction: &WriteTransaction,
        packer: &mut Packer,
    ) -> Result<Vec<PartBefore>, RawError> {
        let mut parts = Tables::open(transaction)?;
        let mut before = Vec::new();
        for (id, change) in self.0 {
            let uses = parts.uses.get(id)?.map_or(0, |uses| uses.value());
            let now = (uses + change.added).saturating_sub(change.dropped);
            if now == uses {
                continue;
            }
            let bytes = if uses == 0 { change.bytes.map(|bytes| packer.compressed(bytes)) } else { None };
            before.push(PartBefore { id, uses, bytes: parts.set(id, now, bytes.as_deref())? });
        }
        Ok(before)
    }
}

/// Puts parts back as they were before a batch.
pub(super) fn restore(transaction: &WriteTransaction, before: &[PartBefore]) -> Result<(), RawError> {
    let mut parts = Tables::open(transaction)?;
    for PartBefore { id, uses, bytes } in before {
        parts.set(*id, *uses, bytes.as_deref())?;
    }
    Ok(())
}

/// Makes the tables.
pub(super) fn create(transaction: &WriteTransaction) -> Result<(), RawError> {
    Tables::open(transaction).map(drop)
}

/// Returns how many parts there are.
#[cfg(test)]
pub(super) fn count(transaction: &ReadTransaction) -> Result<u64, RawError> {
    use redb::ReadableTableMetadata as _;
    let parts = transaction.open_table(PARTS)?.len()?;
    let uses = transaction.open_table(PART_USES)?.len()?;
    assert_eq!(parts, uses);
    Ok(parts)
}

struct Tables<'t> {
    parts: Table<'t, PartId, &'static [u8]>,
    uses: Table<'t, PartId, u64>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, RawError> {
        Ok(Self { parts: transaction.open_table(PARTS)?, uses: transaction.open_table(PART_USES)? })
    }

    /// Sets how many records have a part, with its kept bytes where it is new; returns the bytes where it was removed.
    fn set(&mut self, id: PartId, uses: u64, bytes: Option<&[u8]>) -> Result<Option<Vec<u8>>, RawError> {
        if let Some(bytes) = bytes {
            self.parts.insert(id, bytes)?;
        }
        if uses > 0 {
            self.uses.insert(id, uses)?;
            return Ok(None);
        }
        self.uses.remove(id)?;
        Ok(self.parts.remove(id)?.map(|bytes| bytes.value().to_owned()))
    }
}

/// Reads records with their parts.
pub(super) struct PartReader {
    /// Absent in a file of an earlier format.
    table: Option<ReadOnlyTable<PartId, &'static [u8]>>,
    remembered: RefCell<BTreeMap<PartId, Vec<u8>>>,
    unpacker: RefCell<Unpacker>,
}

impl PartReader {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, RawError> {
        let table = match transaction.open_table(PARTS) {
            Ok(table) => Some(table),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { table, remembered: RefCell::default(), unpacker: RefCell::new(Unpacker::new()) })
    }

    /// Returns the bytes of a record from those that are kept.
    pub(super) fn record<'k>(&self, kept: &'k [u8]) -> Result<Cow<'k, [u8]>, PartError> {
        let record = self.unpacker.borrow_mut().unpacked(kept)?;
        record.assembled(|id| self.part(id))
    }

    fn part(&self, id: PartId) -> Result<Vec<u8>, PartError> {
        if let Some(part) = self.remembered.borrow().get(&id) {
            return Ok(part.clone());
        }
        let kept = self.table.as_ref().map(|table| table.get(id)).transpose()?.flatten();
        let kept = kept.ok_or_else(|| io::Error::other(format!("its part {id:032x} is missing")))?;
        let part = self.unpacker.borrow_mut().unpacked(kept.value())?.whole()?.into_owned();
        let mut remembered = self.remembered.borrow_mut();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(id, part.clone());
        Ok(part)
    }
}

/// Why a record cannot be put together.
pub(super) enum PartError {
    /// What is kept is damaged.
    Damaged(io::Error),
    /// The database cannot be read.
    Database(redb::Error),
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        Self::Damaged(error)
    }
}

impl From<redb::StorageError> for PartError {
    fn from(error: redb::StorageError) -> Self {
        Self::Database(error.into())
    }
}
