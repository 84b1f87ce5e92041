//! The store in memory, for tests and simulation, with faults on request.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Error, JOURNAL_ENTRIES_MAX, Op, Result, Store, Versioned, check_expected, check_limits};
use crate::model::records::JournalEntry;

/// What goes wrong with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full: the write is refused, later ones go on.
    Full,
    /// The process dies before the commit: the write is lost. Every call fails until `restart`.
    CrashBefore,
    /// The process dies after the commit: the write is kept, its answer is lost. Every call fails until `restart`.
    CrashAfter,
}

/// A store that is gone with its handle.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    journal_max: usize,
}

#[derive(Debug, Default)]
struct Content {
    records: BTreeMap<String, Versioned>,
    journal: VecDeque<(u64, JournalEntry)>,
    journal_last: u64,
    version: u64,
}

#[derive(Debug, Default)]
struct State {
    content: Content,
    writes: u64,
    faults: BTreeMap<u64, Fault>,
    crashed: bool,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::with_journal_max(JOURNAL_ENTRIES_MAX)
    }

    /// Makes an empty store that keeps so many journal entries, at least one.
    pub fn with_journal_max(journal_max: usize) -> Self {
        Self { state: Mutex::default(), journal_max: journal_max.max(1) }
    }

    /// Makes the `nth` write from now go wrong; 1 is the next one. Empty batches are no writes.
    pub fn fail_write(&self, nth: u64, fault: Fault) {
        let mut state = self.lock();
        let at = state.writes + nth;
        state.faults.insert(at, fault);
    }

    /// Comes back from a crash with everything that was committed, and nothing else. Faults that were not reached stay.
    pub fn restart(&self) {
        self.lock().crashed = false;
    }

    /// Returns how many batches were tried, failed ones included: what "zero writes" is measured by.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    // Nothing under the lock can panic between the first and the last change of a batch, so a poisoned lock is harmless.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.crashed { Err(crash()) } else { Ok(state) }
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>> {
        Ok(self.alive()?.content.records.get(key).cloned())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>> {
        let state = self.alive()?;
        let from_prefix = state.content.records.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        Ok(from_prefix.take_while(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn batch(&self, ops: Vec<Op>) -> Result<u64> {
        check_limits(&ops)?;
        let mut state = self.alive()?;
        if ops.is_empty() {
            return Ok(0);
        }
        state.writes += 1;
        let writes = state.writes;
        let fault = state.faults.remove(&writes);
        match fault {
            Some(Fault::Full) => {
                return Err(Error::Full { path: place(), source: io::ErrorKind::StorageFull.into() });
            }
            Some(Fault::CrashBefore) => {
                state.crashed = true;
                return Err(crash());
            }
            Some(Fault::CrashAfter) | None => {}
        }
        // All expectations before the first change, so that nothing ever has to be undone.
        state.content.check(&ops)?;
        state.content.version += 1;
        let version = state.content.version;
        for op in ops {
            state.content.take(op, self.journal_max);
        }
        if fault == Some(Fault::CrashAfter) {
            state.crashed = true;
            return Err(crash());
        }
        Ok(version)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        let state = self.alive()?;
        Ok(state.content.journal.iter().filter(|(number, _)| *number > after).take(limit).cloned().collect())
    }
}

impl Content {
    /// Checks every expectation, each against what the steps before it leave, and changes nothing.
    fn check(&self, ops: &[Op]) -> Result<()> {
        let mut staged: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        for op in ops {
            let (key, expected, after) = match op {
                Op::Put { key, expected, .. } => (key, expected, Some(self.version + 1)),
                Op::Delete { key, expected } => (key, expected, None),
                Op::Journal(_) => continue,
            };
            let stored = || self.records.get(key).map(|record| record.version);
            let found = staged.get(key.as_str()).copied().unwrap_or_else(stored);
            check_expected(key, *expected, found)?;
            staged.insert(key, after);
        }
        Ok(())
    }

    fn take(&mut self, op: Op, journal_max: usize) {
        match op {
            Op::Put { key, value, .. } => {
                self.records.insert(key, Versioned { value, version: self.version });
            }
            Op::Delete { key, .. } => {
                self.records.remove(&key);
            }
            Op::Journal(entry) => {
                self.journal_last += 1;
                self.journal.push_back((self.journal_last, entry));
                if self.journal.len() > journal_max {
                    self.journal.pop_front();
                }
            }
        }
    }
}

fn place() -> PathBuf {
    PathBuf::from("(memory)")
}

fn crash() -> Error {
    Error::Io { path: place(), action: "working after an injected crash", source: io::ErrorKind::BrokenPipe.into() }
}

#[cfg(test)]
mod tests;
