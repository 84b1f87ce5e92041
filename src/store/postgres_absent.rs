//! In the place of PostgreSQL, in a program that was built without it: opening says so, and how to get one with it.

use std::time::Duration;

use engine::store::lease::{Holder, Lease, Leases, Taken};
use engine::store::{Error, Op, Result, Store, Versioned};
use model::records::JournalEntry;

use crate::postgres_settings::PostgresSettings;

/// The store in PostgreSQL, which this program has not.
#[derive(Debug)]
pub enum PostgresStore {}

impl PostgresStore {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this program was built without PostgreSQL.
    pub fn open(_settings: &PostgresSettings, _source: &str) -> Result<Self> {
        let message =
            "this gitfleet was built without PostgreSQL; use a released one, or build it with `--features postgres`";
        Err(Error::Settings { message: message.to_owned() })
    }

    /// Refuses.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn open_read_only(settings: &PostgresSettings, source: &str) -> Result<Self> {
        Self::open(settings, source)
    }

    /// Writes under an epoch from now on; there is no value to call it on.
    pub fn lead(&self, _epoch: u64) {
        match *self {}
    }
}

impl Store for PostgresStore {
    fn get(&self, _: &str) -> Result<Option<Versioned>> {
        match *self {}
    }

    fn scan_each(&self, _: &[&str], _: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        match *self {}
    }

    fn batch(&self, _: Vec<Op>) -> Result<u64> {
        match *self {}
    }

    fn journal(&self, _: u64, _: usize) -> Result<Vec<(u64, JournalEntry)>> {
        match *self {}
    }

    fn journal_back(&self, _: Option<u64>, _: usize) -> Result<Vec<(u64, JournalEntry)>> {
        match *self {}
    }
}

impl Leases for PostgresStore {
    fn take(&self, _: &Holder, _: Duration) -> Result<Taken> {
        match *self {}
    }

    fn prolong(&self, _: u64, _: Duration) -> Result<bool> {
        match *self {}
    }

    fn release(&self, _: u64) -> Result<()> {
        match *self {}
    }

    fn read(&self) -> Result<Option<Lease>> {
        match *self {}
    }
}
