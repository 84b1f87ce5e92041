//! The store in memory, for simulation and tests.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{JOURNAL_ENTRIES_MAX, Op, Result, Store, Versioned, check_expected, check_limits};
use model::records::JournalEntry;

/// A store that is gone with its handle.
#[derive(Debug)]
pub struct MemoryStore {
    content: Mutex<Content>,
    journal_max: usize,
}

#[derive(Debug, Default)]
struct Content {
    records: BTreeMap<String, Versioned>,
    journal: VecDeque<(u64, JournalEntry)>,
    journal_last: u64,
    version: u64,
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
        Self { content: Mutex::default(), journal_max: journal_max.max(1) }
    }

    // Nothing under the lock can panic between the first and the last change of a batch, so a poisoned lock is harmless.
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>> {
        Ok(self.lock().records.get(key).cloned())
    }

    fn scan_each(&self, prefixes: &[&str], found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        let records: Vec<(String, Versioned)> = {
            let content = self.lock();
            let under = |prefix: &&str| {
                let prefix = (*prefix).to_owned();
                let from = content.records.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
                from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
            };
            prefixes.iter().flat_map(|prefix| -> Vec<_> { under(prefix) }).collect()
        };
        // Without the lock: `found` may take its time.
        records.iter().all(|(key, record)| found(key, &record.value, record.version));
        Ok(())
    }

    fn batch(&self, ops: Vec<Op>) -> Result<u64> {
        check_limits(&ops)?;
        if ops.is_empty() {
            return Ok(0);
        }
        let mut content = self.lock();
        // All expectations before the first change, so that nothing ever has to be undone.
        content.check(&ops)?;
        content.version += 1;
        for op in ops {
            content.take(op, self.journal_max);
        }
        Ok(content.version)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        let content = self.lock();
        Ok(content.journal.iter().filter(|(number, _)| *number > after).take(limit).cloned().collect())
    }

    fn journal_back(&self, before: Option<u64>, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        let content = self.lock();
        let earlier = content.journal.iter().rev().filter(|(number, _)| before.is_none_or(|before| *number < before));
        Ok(earlier.take(limit).cloned().collect())
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
