//! The store adapter: the trait and its implementations.
//!
//! A store holds small records under string keys and an append-only journal. The suite in `tests/testservers/doubles/store.rs`
//! defines the contract, and every backend runs it.
//!
//! All calls block: the daemon makes them on its own thread or in `spawn_blocking`.

pub mod backup;
pub mod lease;
pub mod memory;
pub mod records;
pub mod saved;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use model::records::JournalEntry;

pub use memory::MemoryStore;

/// Journal entries kept; the oldest are dropped beyond this. About 30 MB at 300 bytes an entry.
pub const JOURNAL_ENTRIES_MAX: usize = 100_000;

/// The name of the embedded database in the store's folder.
pub const DATABASE_FILE: &str = "records.redb";

/// Largest record in bytes. A snapshot of 10,000 objects takes about 4 MB; more than this is a mistake somewhere.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest key in bytes: two escaped names of 253 characters and a prefix fit several times.
pub const KEY_BYTES_MAX: usize = 2048;

/// A record with the version of its last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes, as they were put.
    pub value: Vec<u8>,
    /// The number of the batch that wrote it. Batches are numbered over the whole store and numbers are never used twice, so
    /// a record that was deleted and made again never has an old version.
    pub version: u64,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything, or nothing.
    Any,
    /// No record.
    Absent,
    /// The record at exactly this version.
    Version(u64),
}

impl Expected {
    /// Tells whether the present version fulfils the expectation; `None` means no record.
    pub fn allows(self, found: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Version(version) => found == Some(version),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Absent => f.write_str("no record"),
            Self::Version(version) => write!(f, "version {version}"),
        }
    }
}

/// One step of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Writes a record.
    Put {
        /// Where.
        key: String,
        /// What.
        value: Vec<u8>,
        /// What must be there before.
        expected: Expected,
    },
    /// Removes a record; removing none is no error unless a version is expected.
    Delete {
        /// Which.
        key: String,
        /// What must be there before.
        expected: Expected,
    },
    /// Appends to the journal.
    Journal(JournalEntry),
}

/// Keeps records and the journal. Object safe; shared between threads.
pub trait Store: Send + Sync {
    /// Returns the record at a key.
    fn get(&self, key: &str) -> Result<Option<Versioned>>;

    /// Passes key, bytes and version of the records whose keys start with one of the prefixes to `found`, prefix by prefix, in byte
    /// order of their keys, all from one moment, until it returns false. It may take its time: writers do not wait for it.
    fn scan_each(&self, prefixes: &[&str], found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()>;

    /// Does the same with one prefix.
    fn scan(&self, prefix: &str, found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        self.scan_each(&[prefix], found)
    }

    /// Returns the records whose keys start with a prefix, as [`Store::scan`] finds them.
    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>> {
        let mut records = Vec::new();
        self.scan(prefix, &mut |key, value, version| {
            records.push((key.to_owned(), Versioned { value: value.to_vec(), version }));
            true
        })?;
        Ok(records)
    }

    /// Executes all operations, in order, or none, and returns the new version of the written records.
    ///
    /// Operations see the ones before them. When it returns, the batch survives a crash. An empty batch does nothing and
    /// returns 0.
    ///
    /// # Errors
    /// `Conflict` if an expectation is not fulfilled: nothing was changed. After `Full` or `Io` all earlier data is intact; the
    /// batch itself was kept whole or not at all (a read tells which), and the same store can be written again as soon as the
    /// disk works.
    fn batch(&self, ops: Vec<Op>) -> Result<u64>;

    /// Returns up to `limit` journal entries with numbers greater than `after`, oldest first. The first number is 1.
    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>>;

    /// Returns up to `limit` journal entries with numbers less than `before`, newest first; without a number the last ones.
    fn journal_back(&self, before: Option<u64>, limit: usize) -> Result<Vec<(u64, JournalEntry)>>;

    /// Returns the number of the newest journal entry; 0 before the first.
    fn journal_end(&self) -> Result<u64> {
        Ok(self.journal_back(None, 1)?.first().map_or(0, |(number, _)| *number))
    }

    /// Returns the time by the clock of a store that several daemons share; `None` where it has one daemon.
    fn shared_time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    /// Appends to the journal in a batch of its own; steps that belong together take `Op::Journal` in their batch.
    fn append(&self, entries: Vec<JournalEntry>) -> Result<u64> {
        self.batch(entries.into_iter().map(Op::Journal).collect())
    }
}

/// The result of a store's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store refused or failed a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else wrote first.
    #[error("record {key:?} was expected at {expected} but {}; nothing of the batch was written", found_text(*.found))]
    Conflict {
        /// The record.
        key: String,
        /// What the batch expected.
        expected: Expected,
        /// The version that is there.
        found: Option<u64>,
    },
    /// Another process, or another handle of this one, has the store.
    #[error("store {} is in use{}; end that process or ask it through its API", path.display(), holder_text(*.pid))]
    Locked {
        /// The store's folder.
        path: PathBuf,
        /// The process that holds it, if it said so.
        pid: Option<u32>,
    },
    /// The disk is full.
    #[error("the disk of store {} is full, so a write was not accepted; nothing that was there is lost, and writes continue once there is space", path.display())]
    Full {
        /// The store's folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is no database, or a damaged one.
    #[error("store {} is damaged: {message}; {}", path.display(), rescue(path))]
    Corrupt {
        /// The store's folder.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The store was written by a newer gitfleet.
    #[error("store {} has format {found}, this gitfleet knows formats up to {known}; run the newer gitfleet that wrote it", path.display())]
    Newer {
        /// The store's folder.
        path: PathBuf,
        /// The format it has.
        found: u64,
        /// The newest format known here.
        known: u64,
    },
    /// There is no store to read.
    #[error("there is no store in {}; `gitfleet run` makes one", path.display())]
    Missing {
        /// The store's folder.
        path: PathBuf,
    },
    /// The store was opened for reading.
    #[error("store {} was opened for reading only", path.display())]
    ReadOnly {
        /// The store's folder.
        path: PathBuf,
    },
    /// A record is not what its key promises. It is left as it is.
    #[error("record {key:?} of the store cannot be read: it is damaged; {}", rescue(Path::new("")))]
    Unreadable {
        /// The record.
        key: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A value could not be serialized to a record.
    #[error("record {key:?} cannot be written as JSON")]
    Unwritable {
        /// The record.
        key: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A key or value is beyond its limit.
    #[error("{what} of record {key:?} has {bytes} bytes, more than the {max} allowed")]
    TooLarge {
        /// The record; cut where the key itself is too long.
        key: String,
        /// `key` or `value`.
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// Reading or writing files failed.
    #[error("{action} in store {} failed", path.display())]
    Io {
        /// The store's folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another daemon leads since: what this one decides must not be kept.
    #[error(
        "another daemon leads since, under epoch {found} (this one had epoch {epoch}); nothing of the batch was written"
    )]
    Replaced {
        /// The epoch of the refused batch.
        epoch: u64,
        /// The epoch that leads.
        found: u64,
    },
    /// A batch whose answer was lost was kept after all: what this process knows is not what the store holds any more.
    #[error(
        "an earlier batch was kept in {database} though its answer was lost; the daemon begins again with what is kept"
    )]
    Kept {
        /// The database.
        database: String,
    },
    /// The database does not answer.
    #[error("{action} in the database {database} failed: {message}")]
    Unavailable {
        /// Host, port and name.
        database: String,
        /// What was tried.
        action: &'static str,
        /// What it or the connection said.
        message: String,
    },
    /// The database answered with an error that time does not cure.
    #[error("the database {database} refused {action}: {message}")]
    DatabaseRefused {
        /// Host, port and name.
        database: String,
        /// What was tried.
        action: &'static str,
        /// What it said.
        message: String,
    },
    /// A daemon leads, and others do not write.
    #[error("the daemon at {url} leads on this store; ask it through its API, or end all daemons of the store")]
    Led {
        /// Where it answers; empty where it does not say.
        url: String,
    },
    /// The settings of the database cannot be used.
    #[error("store.postgres: {message}")]
    Settings {
        /// What is wrong with them.
        message: String,
    },
    /// A write ended because of an error in gitfleet: whether it was kept is not known.
    #[error("a write to the store ended because of an error in gitfleet ({message}); please report it")]
    Broken {
        /// What the panic said.
        message: String,
    },
    /// The database was used in a way it does not allow.
    #[error("the database of store {} refused: {message}", path.display())]
    Refused {
        /// The store's folder.
        path: PathBuf,
        /// What it said.
        message: String,
    },
}

/// Describes what to do about a damaged store.
fn rescue(folder: &Path) -> String {
    let file = folder.join(DATABASE_FILE);
    format!(
        "nothing on members is changed by that; stop the daemon and restore a backup with `gitfleet store restore FILE --force`, \
         or without one move {} away and take over what members hold with `gitfleet store adopt`",
        file.display()
    )
}

fn found_text(found: Option<u64>) -> String {
    found.map_or_else(|| "there is none".to_owned(), |version| format!("is at version {version}"))
}

fn holder_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

/// Refuses operations beyond the limits, before anything is written.
pub fn check_limits(ops: &[Op]) -> Result<()> {
    let too_large = |key: &str, what, bytes, max| {
        // A key may be the very thing that is too long: show its head.
        let key = key.chars().take(80).collect();
        Err(Error::TooLarge { key, what, bytes, max })
    };
    for op in ops {
        let (Op::Put { key, .. } | Op::Delete { key, .. }) = op else { continue };
        if key.len() > KEY_BYTES_MAX {
            return too_large(key, "key", key.len(), KEY_BYTES_MAX);
        }
        if let Op::Put { value, .. } = op
            && value.len() > VALUE_BYTES_MAX
        {
            return too_large(key, "value", value.len(), VALUE_BYTES_MAX);
        }
    }
    Ok(())
}

/// Returns the conflict, where there is one.
pub fn check_expected(key: &str, expected: Expected, found: Option<u64>) -> Result<()> {
    if expected.allows(found) { Ok(()) } else { Err(Error::Conflict { key: key.to_owned(), expected, found }) }
}

/// Returns the result of a batch that was written on a thread of its own. An error in gitfleet during the write becomes an error of
/// the store: the decisions have no effect.
///
/// # Errors
/// As [`Store::batch`].
pub fn batch_result(ended: std::result::Result<Result<u64>, impl fmt::Display>) -> Result<u64> {
    ended.unwrap_or_else(|error| Err(Error::Broken { message: error.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_and_what_to_do() {
        let path = PathBuf::from("/var/lib/gitfleet");
        let conflict = Error::Conflict { key: "placement/web".into(), expected: Expected::Version(3), found: Some(5) };
        insta::assert_snapshot!(conflict, @r#"record "placement/web" was expected at version 3 but is at version 5; nothing of the batch was written"#);
        let gone = Error::Conflict { key: "placement/web".into(), expected: Expected::Version(3), found: None };
        insta::assert_snapshot!(gone, @r#"record "placement/web" was expected at version 3 but there is none; nothing of the batch was written"#);
        insta::assert_snapshot!(Error::Locked { path: path.clone(), pid: Some(7) }, @"store /var/lib/gitfleet is in use by process 7; end that process or ask it through its API");
        insta::assert_snapshot!(Error::Locked { path, pid: None }, @"store /var/lib/gitfleet is in use; end that process or ask it through its API");
    }

    #[test]
    fn limits_are_checked_on_both_sides() {
        let put =
            |key: usize, value: usize| Op::Put { key: "k".repeat(key), value: vec![0; value], expected: Expected::Any };
        assert!(check_limits(&[put(KEY_BYTES_MAX, VALUE_BYTES_MAX)]).is_ok());
        for (op, text) in [(put(KEY_BYTES_MAX + 1, 0), "key"), (put(1, VALUE_BYTES_MAX + 1), "value")] {
            assert!(matches!(check_limits(&[op]), Err(Error::TooLarge { what, .. }) if what == text), "{text}");
        }
    }
}
