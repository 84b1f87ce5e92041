//! The store in one redb file: the default.
//!
//! The folder contains `records.redb` and `lock`. A writer locks `lock` exclusively and writes its process id into it; readers
//! without a daemon share it. The system releases the lock with the process, so a killed daemon leaves nothing to clean up.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use redb::{
    Builder, Database, ReadOnlyDatabase, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _, TableDefinition, WriteTransaction,
};

use engine::store::{
    DATABASE_FILE, Error, JOURNAL_ENTRIES_MAX, Op, Result, Store, Versioned, check_expected, check_limits,
};
use model::records::JournalEntry;

mod doubt;
mod guard;
mod journal;
mod lock;
mod packed;
mod parts;
mod shrink;
mod verify;

use doubt::Doubt;
use guard::guarded;
use journal::entries;
use lock::Lock;
use packed::{Packer, parts_of};
use parts::{PartChanges, PartError, PartReader};
use shrink::shrink;
use verify::verify;

/// The format written here. It grows when an older gitfleet could misread what is written: 2 compresses records, 3 keeps
/// lists that records share once and compresses the journal.
pub const SCHEMA_VERSION: u64 = 3;
/// The oldest format that is read here. A store of it gets the present one when it is opened for writing.
const SCHEMA_OLDEST: u64 = 1;

/// Memory in bytes that redb may use for pages unless the configuration says otherwise; its own default of 1 GiB is the machine of a
/// small edge site.
pub const CACHE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;

/// A record: the version and the bytes, by key.
const RECORDS: TableDefinition<'static, &str, (u64, &[u8])> = TableDefinition::new("records");
/// The journal: entries as JSON, by number.
const JOURNAL: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("journal");
/// What describes the store itself.
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
/// The format of the store.
const META_SCHEMA: &str = "schema";
/// The number of the last batch.
const META_VERSION: &str = "version";

/// Opens the database again: at the start, and after an error of the disk, when redb refuses to continue with the old handle.
type Opener = Box<dyn Fn() -> Result<Handle, redb::Error> + Send + Sync>;

/// A store in a folder.
pub struct EmbeddedStore {
    path: PathBuf,
    journal_max: usize,
    open: Opener,
    // `None` after a failure of the disk, until the next call opens it again.
    handle: RwLock<Option<Handle>>,
    // The last batch whose commit failed, until the disk is known not to have it.
    doubt: Mutex<Option<Doubt>>,
    // After the handle, so that it is dropped last.
    _lock: Option<Lock>,
}

enum Handle {
    Writable(Database),
    ReadOnly(ReadOnlyDatabase),
}

/// An error of either side, before the store's path is added.
enum RawError {
    Store(Error),
    Database(redb::Error),
    /// An earlier call broke the handle, and this one did nothing yet.
    Stale,
    /// The database panicked: the content of a page is invalid.
    Nonsense,
}

impl<E: Into<redb::Error>> From<E> for RawError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store of a folder for writing, and creates both if they are missing.
    ///
    /// # Errors
    /// `Locked` while another handle has it; `Newer`, `Corrupt`, `Full` and `Io` as their names say.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_with(folder, JOURNAL_ENTRIES_MAX, CACHE_BYTES_DEFAULT)
    }

    /// Opens the store of a folder for reading, while nobody writes: for `get` and `status` without a daemon. Several readers
    /// may have it at once.
    ///
    /// A store that a killed daemon left is repaired first, which writes to it.
    ///
    /// # Errors
    /// `Locked` while a daemon has it, `Missing` where there is none; every write is `ReadOnly`.
    pub fn open_read_only(folder: &Path) -> Result<Self> {
        let file = folder.join(DATABASE_FILE);
        if !file.exists() {
            return Err(Error::Missing { path: folder.to_owned() });
        }
        let read = || {
            let lock = Lock::shared(folder)?;
            let file = file.clone();
            let open: Opener =
                Box::new(move || Ok(Handle::ReadOnly(builder(CACHE_BYTES_DEFAULT).open_read_only(&file)?)));
            let checked = guarded(|| {
                let handle = open().map_err(RawError::Database);
                handle.and_then(|handle| check_schema(folder, &handle.read()?).map(|_| handle))
            });
            Ok((lock, open, checked))
        };
        let (mut lock, mut open, mut checked) = read()?;
        if let Err(RawError::Database(redb::Error::RepairAborted | redb::Error::TableDoesNotExist(_))) = checked {
            // A daemon was killed before it closed the database, or before it had created the tables. The shared lock is
            // released first: the exclusive one would conflict with it.
            drop((lock, open));
            drop(Self::open(folder)?);
            (lock, open, checked) = read()?;
        }
        let handle = checked.map_err(|failure| failure.with_path(folder, "opening the database"))?;
        Ok(Self::new(folder, JOURNAL_ENTRIES_MAX, open, handle, Some(lock)))
    }

    /// As [`EmbeddedStore::open`], with a journal of at most so many entries, and pages in memory of at most so many bytes.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_with(folder: &Path, journal_max: usize, cache_bytes: usize) -> Result<Self> {
        make_folder(folder).map_err(|source| RawError::from(source).with_path(folder, "making the folder"))?;
        let lock = Lock::exclusive(folder)?;
        let file = folder.join(DATABASE_FILE);
        let open = Box::new(move || {
            // Finds a damaged page now, while a backup can be restored, and not in the first batch that reads it.
            verify(&file, cache_bytes)?;
            let mut database = builder(cache_bytes).create(&file)?;
            // A store that cannot be made smaller, as on a full disk, is used as it is.
            if let Err(error) = shrink(&mut database, &file) {
                tracing::warn!(file = %file.display(), %error, "the store's file could not be compacted and keeps its size");
                drop(database);
                database = builder(cache_bytes).create(&file)?;
            }
            Ok(Handle::Writable(database))
        });
        Self::with_opener(folder, journal_max, open, Some(lock))
    }

    fn with_opener(path: &Path, journal_max: usize, open: Opener, lock: Option<Lock>) -> Result<Self> {
        let opened = guarded(|| {
            let handle = open().map_err(RawError::Database)?;
            handle.prepare(path).map(|()| handle)
        });
        let handle = opened.map_err(|failure| failure.with_path(path, "opening the database"))?;
        Ok(Self::new(path, journal_max, open, handle, lock))
    }

    fn new(path: &Path, journal_max: usize, open: Opener, handle: Handle, lock: Option<Lock>) -> Self {
        Self {
            path: path.to_owned(),
            journal_max: journal_max.max(1),
            open,
            handle: RwLock::new(Some(handle)),
            doubt: Mutex::new(None),
            _lock: lock,
        }
    }

    /// Calls the database, which is opened again if an earlier call broke it.
    fn with<T>(&self, action: &'static str, call: impl Fn(&Handle) -> Result<T, RawError>) -> Result<T> {
        // The guard must end with the block: `reopen` takes the same lock for writing.
        let first = {
            let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
            handle.as_ref().map(|handle| guarded(|| call(handle)))
        };
        let answer = match first {
            // Nothing was done yet: it is safe to do it on a new handle.
            None | Some(Err(RawError::Stale)) => guarded(|| self.reopen()).and_then(|()| {
                let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
                handle.as_ref().map_or(Err(RawError::Stale), |handle| guarded(|| call(handle)))
            }),
            Some(answer) => answer,
        };
        if let Err(
            RawError::Stale | RawError::Nonsense | RawError::Database(redb::Error::Io(_) | redb::Error::PreviousIo),
        ) = &answer
        {
            self.close();
        }
        answer.map_err(|failure| failure.with_path(&self.path, action))
    }

    /// Drops the database handle; the next call opens it again.
    fn close(&self) {
        let closed = self.handle.write().unwrap_or_else(PoisonError::into_inner).take();
        // A broken handle may panic again while it is dropped, which is harmless.
        let _ = guarded(|| {
            drop(closed);
            Ok(())
        });
    }

    fn read_record<'a>(&self, key: &str, kept: &'a [u8], parts: &PartReader) -> Result<Cow<'a, [u8]>, RawError> {
        parts.record(kept).map_err(|error| match error {
            PartError::Database(error) => RawError::Database(error),
            PartError::Damaged(error) => {
                let message = format!("record {key:?}: {error}");
                RawError::Store(Error::Corrupt { path: self.path.clone(), message })
            }
        })
    }

    fn reopen(&self) -> Result<(), RawError> {
        // The file lock of the old handle has to go before the new one can have it.
        self.close();
        let new = (self.open)()?;
        new.prepare(&self.path)?;
        // Before the new handle is used: no reader may see a batch that was answered with an error.
        let mut doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batch) = &*doubt {
            batch.settle(&new)?;
        }
        *doubt = None;
        *self.handle.write().unwrap_or_else(PoisonError::into_inner) = Some(new);
        Ok(())
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for EmbeddedStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>> {
        self.with("reading a record", |handle| {
            let transaction = handle.read()?;
            let Some(record) = transaction.open_table(RECORDS)?.get(key)? else { return Ok(None) };
            let (version, kept) = record.value();
            let value = self.read_record(key, kept, &PartReader::open(&transaction)?)?.into_owned();
            Ok(Some(Versioned { value, version }))
        })
    }

    fn scan_each(&self, prefixes: &[&str], found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        const ACTION: &str = "listing records";
        // Only the beginning needs the handle, so that a slow caller does not keep it.
        let transaction = self.with(ACTION, Handle::read)?;
        let scanned = guarded(|| {
            let table = transaction.open_table(RECORDS)?;
            let parts = PartReader::open(&transaction)?;
            for prefix in prefixes {
                for item in table.range(*prefix..)? {
                    let (key, record) = item?;
                    let (version, kept) = record.value();
                    if !key.value().starts_with(prefix) {
                        break;
                    }
                    if !found(key.value(), &self.read_record(key.value(), kept, &parts)?, version) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        if let Err(RawError::Nonsense | RawError::Database(redb::Error::Io(_) | redb::Error::PreviousIo)) = &scanned {
            self.close();
        }
        scanned.map_err(|failure| failure.with_path(&self.path, ACTION))
    }

    fn batch(&self, ops: Vec<Op>) -> Result<u64> {
        check_limits(&ops)?;
        if ops.is_empty() {
            return Ok(0);
        }
        self.with("writing a batch", |handle| {
            let Handle::Writable(database) = handle else {
                return Err(RawError::Store(Error::ReadOnly { path: self.path.clone() }));
            };
            // The default durability of redb: `commit` returns after fsync.
            let transaction = database.begin_write().map_err(begun)?;
            match write(&transaction, &ops, self.journal_max) {
                Ok(before) => {
                    let version = before.version;
                    let written = transaction.commit();
                    // After an error of `commit` the batch may be on the disk or not.
                    let doubt = written.is_err().then_some(before);
                    *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = doubt;
                    Ok(written.map(|()| version)?)
                }
                Err(failure) => {
                    // The first error is reported; a transaction that cannot be aborted is dropped as broken.
                    let _ = transaction.abort();
                    Err(failure)
                }
            }
        })
    }

    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
        self.with("reading the journal", |handle| {
            let table = handle.read()?.open_table(JOURNAL)?;
            entries(table.range(first..)?.take(limit))
        })
    }

    fn journal_back(&self, before: Option<u64>, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.with("reading the journal", |handle| {
            let table = handle.read()?.open_table(JOURNAL)?;
            entries(table.range(..before.unwrap_or(u64::MAX))?.rev().take(limit))
        })
    }
}

impl Handle {
    fn read(&self) -> Result<ReadTransaction, RawError> {
        Ok(match self {
            Self::Writable(database) => database.begin_read().map_err(begun)?,
            Self::ReadOnly(database) => database.begin_read().map_err(begun)?,
        })
    }

    /// Makes the tables of a new store; refuses a newer one. Reads first, so that an intact store is opened without a write.
    fn prepare(&self, path: &Path) -> Result<(), RawError> {
        match (check_schema(path, &self.read()?), self) {
            (Err(RawError::Database(redb::Error::TableDoesNotExist(_))), Self::Writable(database)) => {
                let transaction = database.begin_write()?;
                transaction.open_table(RECORDS)?;
                transaction.open_table(JOURNAL)?;
                parts::create(&transaction)?;
                transaction.open_table(META)?.insert(META_SCHEMA, SCHEMA_VERSION)?;
                transaction.commit()?;
                Ok(())
            }
            (Ok(SCHEMA_VERSION), _) | (Ok(_), Self::ReadOnly(_)) => Ok(()),
            (Ok(_), Self::Writable(database)) => {
                let transaction = database.begin_write()?;
                parts::create(&transaction)?;
                transaction.open_table(META)?.insert(META_SCHEMA, SCHEMA_VERSION)?;
                Ok(transaction.commit()?)
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// Returns the format of a store, unless a newer gitfleet wrote it.
fn check_schema(path: &Path, transaction: &ReadTransaction) -> Result<u64, RawError> {
    let schema = transaction.open_table(META)?.get(META_SCHEMA)?.map(|schema| schema.value());
    let path = path.to_owned();
    match schema {
        Some(found @ SCHEMA_OLDEST..=SCHEMA_VERSION) => Ok(found),
        Some(found) if found > SCHEMA_VERSION => {
            Err(RawError::Store(Error::Newer { path, found, known: SCHEMA_VERSION }))
        }
        other => {
            let message = format!("its format is {other:?}, which no gitfleet wrote");
            Err(RawError::Store(Error::Corrupt { path, message }))
        }
    }
}

/// Writes a batch; returns its number, with what it found where it wrote.
fn write(transaction: &WriteTransaction, ops: &[Op], journal_max: usize) -> Result<Doubt, RawError> {
    let mut meta = transaction.open_table(META)?;
    let mut records = transaction.open_table(RECORDS)?;
    let mut journal = transaction.open_table(JOURNAL)?;
    let version = meta.get(META_VERSION)?.map_or(0, |version| version.value()) + 1;
    meta.insert(META_VERSION, version)?;
    let journal_last = journal.last()?.map_or(0, |(number, _)| number.value());
    let mut before = Doubt { version, journal_last, ..Doubt::default() };
    let mut parts = PartChanges::default();
    let mut packer = Packer::new();
    for op in ops {
        if let Op::Put { key, expected, .. } | Op::Delete { key, expected } = op {
            let found = records.get(key.as_str())?.map(|record| record.value().0);
            check_expected(key, *expected, found).map_err(RawError::Store)?;
        }
        match op {
            Op::Put { key, value, .. } => {
                let record = packer.pack(value);
                record.parts.into_iter().for_each(|(id, part)| parts.add(id, part));
                let old = records.insert(key.as_str(), (version, &*record.bytes))?.map(|old| owned(old.value()));
                old.iter().flat_map(|(_, kept)| parts_of(kept)).for_each(|id| parts.drop(id));
                before.records.push((key.clone(), old));
            }
            Op::Delete { key, .. } => {
                let old = records.remove(key.as_str())?.map(|old| owned(old.value()));
                old.iter().flat_map(|(_, kept)| parts_of(kept)).for_each(|id| parts.drop(id));
                before.records.push((key.clone(), old));
            }
            Op::Journal(entry) => {
                // The journal is never empty again after its first entry, so its last number is the last one given.
                let number = journal.last()?.map_or(0, |(number, _)| number.value()) + 1;
                let bytes = serde_json::to_vec(entry).map_err(|source| {
                    RawError::Store(Error::Unwritable { key: format!("journal/{number}"), source })
                })?;
                journal.insert(number, packer.compressed(&bytes).as_slice())?;
                if journal.len()? > journal_max as u64
                    && let Some((number, bytes)) = journal.pop_first()?
                {
                    before.dropped.push((number.value(), bytes.value().to_owned()));
                }
            }
        }
    }
    before.parts = parts.write(transaction, &mut packer)?;
    Ok(before)
}

fn owned((version, value): (u64, &[u8])) -> (u64, Vec<u8>) {
    (version, value.to_owned())
}

fn builder(cache_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    builder
}

/// Makes a folder that only its owner reads: a token file may come to lie in it.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut maker = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    maker.recursive(true).create(folder)
}

/// Distinguishes a handle that was already broken from a failure now.
fn begun(error: redb::TransactionError) -> RawError {
    match error.into() {
        redb::Error::PreviousIo => RawError::Stale,
        error => RawError::Database(error),
    }
}

impl RawError {
    /// Returns the error with the store's path.
    fn with_path(self, path: &Path, action: &'static str) -> Error {
        let path = path.to_owned();
        match self {
            Self::Store(error) => error,
            Self::Stale | Self::Database(redb::Error::PreviousIo) => {
                let source = io::Error::other("an earlier read or write of the file failed");
                Error::Io { path, action, source }
            }
            Self::Database(redb::Error::Io(source)) => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { path, source },
                // So redb says that a file is no database, or was cut.
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    Error::Corrupt { path, message: source.to_string() }
                }
                _ => Error::Io { path, action, source },
            },
            Self::Database(
                error @ (redb::Error::Corrupted(_)
                | redb::Error::RepairAborted
                | redb::Error::UpgradeRequired(_)
                | redb::Error::TableTypeMismatch { .. }
                | redb::Error::TypeDefinitionChanged { .. }
                | redb::Error::TableIsMultimap(_)
                | redb::Error::TableDoesNotExist(_)),
            ) => Error::Corrupt { path, message: error.to_string() },
            Self::Nonsense => {
                let message = format!("{action} met an invalid page");
                Error::Corrupt { path, message }
            }
            Self::Database(redb::Error::DatabaseAlreadyOpen) => Error::Locked { path, pid: None },
            Self::Database(error) => Error::Refused { path, message: error.to_string() },
        }
    }
}

#[cfg(test)]
mod tests;
