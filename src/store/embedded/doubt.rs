//! A batch whose commit failed may still be on the disk. The caller got an error, so the batch is undone as soon as the
//! database can be opened again: the caller decides again from the state before it.

use redb::{ReadableDatabase as _, ReadableTable as _};

use super::parts::{self, PartBefore};
use super::{Handle, JOURNAL, META, META_VERSION, RECORDS, RawError};

/// A record before the batch: its version and bytes; `None` if there was none.
type Before = Option<(u64, Vec<u8>)>;

/// The state before a batch, of everything it wrote.
#[derive(Default)]
pub(super) struct Doubt {
    /// The number of the batch.
    pub version: u64,
    /// The records that it changed, in its order.
    pub records: Vec<(String, Before)>,
    /// The parts that it changed.
    pub parts: Vec<PartBefore>,
    /// The last entry of the journal before it.
    pub journal_last: u64,
    /// The entries that it dropped from the journal.
    pub dropped: Vec<(u64, Vec<u8>)>,
}

impl Doubt {
    /// Undoes the batch if the database has it. May be repeated.
    pub(super) fn settle(&self, handle: &Handle) -> Result<(), RawError> {
        let Handle::Writable(database) = handle else { return Ok(()) };
        let newest = database.begin_read()?.open_table(META)?.get(META_VERSION)?.map_or(0, |version| version.value());
        // The whole commit was lost: the disk has the earlier state.
        if newest != self.version {
            return Ok(());
        }
        let transaction = database.begin_write()?;
        parts::restore(&transaction, &self.parts)?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            // Backwards: a batch may write one record twice, and its first write saw the earlier state.
            for (key, before) in self.records.iter().rev() {
                match before {
                    Some((version, bytes)) => drop(records.insert(key.as_str(), (*version, bytes.as_slice()))?),
                    None => drop(records.remove(key.as_str())?),
                }
            }
            let mut journal = transaction.open_table(JOURNAL)?;
            while journal.last()?.is_some_and(|(number, _)| number.value() > self.journal_last) {
                journal.pop_last()?;
            }
            for (number, bytes) in &self.dropped {
                journal.insert(number, bytes.as_slice())?;
            }
        }
        // Its number stays used: records read from it must not look like the next batch's.
        transaction.commit()?;
        Ok(())
    }
}
