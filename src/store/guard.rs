//! A store that is led for as long as somebody writes to it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::PostgresStore;
use engine::store::lease::Leases as _;
use engine::store::{Op, Result, Store, Versioned};
use model::records::JournalEntry;

/// A store in PostgreSQL, under a lease that is released when this is dropped.
pub struct StoreGuard {
    store: Arc<PostgresStore>,
    epoch: u64,
}

impl StoreGuard {
    /// Takes a store whose lease is held under this epoch.
    pub fn new(store: Arc<PostgresStore>, epoch: u64) -> Self {
        Self { store, epoch }
    }
}

impl Drop for StoreGuard {
    fn drop(&mut self) {
        // Where it fails, the lease ends by itself.
        drop(self.store.release(self.epoch));
    }
}

impl Store for StoreGuard {
    fn get(&self, key: &str) -> Result<Option<Versioned>> {
        self.store.get(key)
    }

    fn scan_each(&self, prefixes: &[&str], found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        self.store.scan_each(prefixes, found)
    }

    fn batch(&self, ops: Vec<Op>) -> Result<u64> {
        self.store.batch(ops)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.store.journal(after, limit)
    }

    fn journal_back(&self, before: Option<u64>, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.store.journal_back(before, limit)
    }

    fn shared_time(&self) -> Result<Option<Timestamp>> {
        self.store.shared_time()
    }
}
