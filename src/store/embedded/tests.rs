use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use sha2::{Digest as _, Sha256};

use super::*;
use engine::store::Expected;
use testservers::doubles::store as conformance;

fn put(key: &str, value: &str) -> Vec<Op> {
    vec![Op::Put { key: key.into(), value: value.into(), expected: Expected::Any }]
}

/// Entries of the journal that are called by their numbers.
fn said(numbers: std::ops::RangeInclusive<u64>) -> Vec<Op> {
    let entry = |number: u64| JournalEntry {
        at: jiff::Timestamp::UNIX_EPOCH,
        event: number.to_string().as_str().into(),
        placement: None,
        cluster: None,
        facts: serde_json::json!({}),
    };
    numbers.map(|number| Op::Journal(entry(number))).collect()
}

/// Writes and syncs after which a batch must be through.
const MOMENTS: u64 = 32;

fn open(folder: &Path) -> Box<dyn Store> {
    Box::new(EmbeddedStore::open_with(folder, conformance::JOURNAL_MAX, CACHE_BYTES_DEFAULT).unwrap())
}

/// A disk in memory that can be full, and that survives the handles on it.
#[derive(Clone, Debug, Default)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    full: Arc<AtomicBool>,
    // Writes and syncs that still succeed once `full` is set.
    left: Arc<AtomicU64>,
}

impl Disk {
    fn room(&self) -> io::Result<()> {
        let full = self.full.load(Ordering::SeqCst)
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err();
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn fill(&self, after: u64) {
        self.left.store(after, Ordering::SeqCst);
        self.full.store(true, Ordering::SeqCst);
    }

    fn free(&self) {
        self.full.store(false, Ordering::SeqCst);
    }

    fn store(&self) -> Result<EmbeddedStore> {
        let disk = self.clone();
        let open =
            Box::new(move || Ok(Handle::Writable(builder(CACHE_BYTES_DEFAULT).create_with_backend(disk.clone())?)));
        EmbeddedStore::with_opener(Path::new("/disk"), conformance::JOURNAL_MAX, open, None)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let bytes = self.bytes.lock().unwrap();
        out.copy_from_slice(bytes.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.room()?;
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.room()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.room()?;
        let start = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[test]
fn keeps_every_promise() {
    conformance::suite(|| Box::new(Disk::default().store().unwrap()));
}

#[test]
fn agrees_with_the_model() {
    conformance::model(24, || Box::new(Disk::default().store().unwrap()));
}

#[test]
fn a_file_keeps_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    conformance::reopen(|| open(folder.path()));
}

/// Whatever the moment at which the disk fills up: no earlier write is lost, a batch is there if and only if the store said so,
/// and once there is space the same handle continues.
#[test]
fn a_full_disk_loses_nothing() {
    let mut through = None;
    for after in 0..MOMENTS {
        let disk = Disk::default();
        let store = disk.store().unwrap();
        store.batch([put("old", "1"), put("gone", "1"), said(1..=5)].concat()).unwrap();
        disk.fill(after);
        let big = "x".repeat(2 * 1024 * 1024);
        let gone = Op::Delete { key: "gone".into(), expected: Expected::Any };
        let batch = [put("new/a", &big), put("new/b", "1"), put("old", "2"), vec![gone], said(6..=7)].concat();
        let is_kept = match store.batch(batch.clone()) {
            // Enough was left for it: the next write is the one that finds the disk full.
            Ok(_) => true,
            Err(error) => {
                assert!(matches!(error, Error::Full { .. }), "{after}: {error:?}");
                false
            }
        };
        disk.free();
        let value = |key: &str| store.get(key).unwrap().map(|record| record.value);
        let found = (value("old"), value("gone"), store.list("new/").unwrap().len());
        let whole = (Some(b"2".to_vec()), None, 2);
        let absent = (Some(b"1".to_vec()), Some(b"1".to_vec()), 0);
        assert_eq!(found, if is_kept { whole } else { absent }, "{after}");
        let journal = store.journal(0, 9).unwrap().into_iter();
        let journal: Vec<(u64, String)> = journal.map(|(number, entry)| (number, entry.event.to_string())).collect();
        let wanted = if is_kept { 3..=7 } else { 1..=5 };
        assert_eq!(journal, wanted.map(|number| (number, number.to_string())).collect::<Vec<_>>(), "{after}");
        store.batch(batch).unwrap();
        drop(store);
        let again = disk.store().unwrap();
        let keys: Vec<_> = again.list("").unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["new/a", "new/b", "old"], "{after}");
        if is_kept {
            through = Some(after);
            break;
        }
    }
    assert!(through.is_some_and(|after| after > 0), "the disk was full at no moment, or at each: {through:?}");
}

#[test]
fn a_disk_that_stays_full_keeps_saying_so() {
    let disk = Disk::default();
    let store = disk.store().unwrap();
    store.batch(put("old", "1")).unwrap();
    disk.fill(0);
    for _ in 0..3 {
        let error = store.batch(put("new", "1")).unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error:?}");
    }
    insta::assert_snapshot!(store.batch(put("new", "1")).unwrap_err(), @"the disk of store /disk is full, so a write was not accepted; nothing that was there is lost, and writes continue once there is space");
    disk.free();
    store.batch(put("new", "2")).unwrap();
    assert_eq!(store.list("").unwrap().len(), 2);
}

#[test]
fn a_second_handle_is_refused_with_the_holder() {
    let folder = tempfile::tempdir().unwrap();
    let first = EmbeddedStore::open(folder.path()).unwrap();
    for second in [EmbeddedStore::open(folder.path()), EmbeddedStore::open_read_only(folder.path())] {
        let pid = Some(std::process::id());
        assert!(
            matches!(&second, Err(Error::Locked { path, pid: p }) if path == folder.path() && *p == pid),
            "{second:?}"
        );
    }
    drop(first);
    drop(EmbeddedStore::open(folder.path()).unwrap());
}

#[test]
fn readers_share_and_do_not_write() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(EmbeddedStore::open_read_only(folder.path()), Err(Error::Missing { .. })));
    drop(EmbeddedStore::open(folder.path()).unwrap());
    let store = EmbeddedStore::open(folder.path()).unwrap();
    store.batch(put("a", "1")).unwrap();
    drop(store);
    let one = EmbeddedStore::open_read_only(folder.path()).unwrap();
    let two = EmbeddedStore::open_read_only(folder.path()).unwrap();
    assert_eq!(one.get("a").unwrap(), two.get("a").unwrap());
    assert!(matches!(one.batch(put("a", "2")), Err(Error::ReadOnly { .. })));
    assert!(matches!(EmbeddedStore::open(folder.path()), Err(Error::Locked { pid: None, .. })));
    drop((one, two));
    EmbeddedStore::open(folder.path()).unwrap().batch(put("a", "2")).unwrap();
}

#[test]
fn a_reader_repairs_what_a_killed_writer_left() {
    let folder = tempfile::tempdir().unwrap();
    let killed = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    store.batch(put("a", "1")).unwrap();
    // The file as a `kill -9` leaves it: committed, not closed.
    fs::copy(folder.path().join(DATABASE_FILE), killed.path().join(DATABASE_FILE)).unwrap();
    let raw = builder(CACHE_BYTES_DEFAULT).open_read_only(killed.path().join(DATABASE_FILE));
    assert!(matches!(raw, Err(redb::DatabaseError::RepairAborted)), "the copy needs no repair: the test shows nothing");
    let reader = EmbeddedStore::open_read_only(killed.path()).unwrap();
    assert_eq!(reader.get("a").unwrap().unwrap().value, b"1");
}

#[test]
fn a_newer_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    store.batch(put("a", "1")).unwrap();
    drop(store);
    let set = |schema: u64| {
        let database = Database::open(folder.path().join(DATABASE_FILE)).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert(META_SCHEMA, schema).unwrap();
        transaction.commit().unwrap();
    };
    set(SCHEMA_VERSION + 1);
    for refused in [EmbeddedStore::open(folder.path()), EmbeddedStore::open_read_only(folder.path())] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Newer { found: 4, known: 3, .. }), "{error}");
    }
    set(0);
    assert!(matches!(EmbeddedStore::open(folder.path()), Err(Error::Corrupt { .. })));
    set(SCHEMA_VERSION);
    assert_eq!(EmbeddedStore::open(folder.path()).unwrap().get("a").unwrap().unwrap().value, b"1");
}

#[test]
fn a_store_of_an_earlier_format_is_read_and_gets_the_present_one() {
    let folder = tempfile::tempdir().unwrap();
    drop(EmbeddedStore::open(folder.path()).unwrap());
    let long = format!("\"{}\"", "x".repeat(1000));
    let file = folder.path().join(DATABASE_FILE);
    let database = Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert(META_SCHEMA, 1).unwrap();
    transaction.open_table(RECORDS).unwrap().insert("a", (1, long.as_bytes())).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let reader = EmbeddedStore::open_read_only(folder.path()).unwrap();
    assert_eq!(reader.get("a").unwrap().unwrap().value, long.as_bytes());
    drop(reader);
    let store = EmbeddedStore::open(folder.path()).unwrap();
    store.batch(put("b", &long)).unwrap();
    for (key, found) in store.list("").unwrap() {
        assert_eq!(found.value, long.as_bytes(), "{key}");
    }
    drop(store);
    let database = Database::open(&file).unwrap();
    let read = database.begin_read().unwrap();
    let schema = read.open_table(META).unwrap().get(META_SCHEMA).unwrap().unwrap().value();
    let kept = read.open_table(RECORDS).unwrap().get("b").unwrap().unwrap().value().1.len();
    assert_eq!(schema, SCHEMA_VERSION);
    assert!(kept < long.len() / 10, "{kept} bytes");
}

#[test]
fn damaged_files_are_named_and_left_alone() {
    let intact = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(intact.path()).unwrap();
    store.batch(put("a", "1")).unwrap();
    drop(store);
    let bytes = fs::read(intact.path().join(DATABASE_FILE)).unwrap();
    let mut garbled = bytes.clone();
    garbled[..64].fill(0x55);
    for (name, content) in [
        ("text", b"apiVersion: v1\n".repeat(1000)),
        ("garbled header", garbled),
        ("cut", bytes[..bytes.len() / 2].to_vec()),
        ("cut in the header", bytes[..100].to_vec()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(DATABASE_FILE), &content).unwrap();
        for refused in [EmbeddedStore::open(folder.path()), EmbeddedStore::open_read_only(folder.path())] {
            let error = refused.map(|_| ()).unwrap_err();
            assert!(matches!(&error, Error::Corrupt { path, .. } if path == folder.path()), "{name}: {error:?}");
        }
    }
}

#[test]
fn an_unreadable_journal_entry_is_named() {
    let folder = tempfile::tempdir().unwrap();
    drop(EmbeddedStore::open(folder.path()).unwrap());
    let database = Database::open(folder.path().join(DATABASE_FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(JOURNAL).unwrap().insert(4, b"nonsense".as_slice()).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let store = EmbeddedStore::open(folder.path()).unwrap();
    assert!(matches!(store.journal(0, 9), Err(Error::Unreadable { key, .. }) if key == "journal/4"));
}

#[test]
#[cfg(unix)]
fn the_folder_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let nested = folder.path().join("state/store");
    drop(EmbeddedStore::open(&nested).unwrap());
    assert_eq!(fs::metadata(&nested).unwrap().permissions().mode() & 0o777, 0o700);
}

/// What one thread finds when another one's write broke the handle under it.
#[test]
fn a_handle_broken_by_another_call_is_replaced_at_once() {
    for read_first in [true, false] {
        let disk = Disk::default();
        let store = disk.store().unwrap();
        store.batch(put("old", "1")).unwrap();
        disk.fill(0);
        if let Some(Handle::Writable(database)) = &*store.handle.read().unwrap() {
            let transaction = database.begin_write().unwrap();
            let broken = write(&transaction, &put("lost", "1"), 1).and_then(|_| Ok(transaction.commit()?));
            assert!(matches!(broken, Err(RawError::Database(redb::Error::Io(_)))));
            assert!(matches!(database.begin_write().map_err(begun), Err(RawError::Stale)));
        }
        disk.free();
        if read_first {
            assert_eq!(store.get("old").unwrap().unwrap().value, b"1");
        }
        store.batch(put("new", "1")).unwrap();
        let keys: Vec<_> = store.list("").unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["new", "old"]);
    }
}

/// Pages of a store that are damaged, one at a time.
const DAMAGES: u64 = 160;
/// What redb divides its file into.
const PAGE: usize = 4096;

/// Fills a store so that every table has several levels, and closes it.
fn filled(folder: &Path) -> Vec<u8> {
    let store = EmbeddedStore::open(folder).unwrap();
    for round in 0..8 {
        // Digests, because they stay long when they are compressed.
        let digest = |n: u64, part: u64| format!("{:x}", Sha256::digest(format!("{round}-{n}-{part}")));
        let text = |n: u64| (0..12).map(|part| digest(n, part)).collect::<Vec<_>>().concat();
        let records = (0..60).flat_map(|n| put(&format!("record/{n}"), &text(n)));
        store.batch(records.chain(said(round * 40 + 1..=round * 40 + 40)).collect()).unwrap();
    }
    drop(store);
    fs::read(folder.join(DATABASE_FILE)).unwrap()
}

/// Opens a store and asks it for everything that it can do.
fn use_all(folder: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut note = |result: Result<()>| errors.extend(result.err());
    match EmbeddedStore::open_read_only(folder) {
        Ok(store) => note(store.list("").map(drop)),
        Err(error) => note(Err(error)),
    }
    match EmbeddedStore::open(folder) {
        Ok(store) => {
            note(store.list("").map(drop));
            note(store.journal(0, usize::MAX).map(drop));
            for n in 0..60 {
                note(store.get(&format!("record/{n}")).map(drop));
            }
            note(store.batch([put("record/7", "new"), put("another", "1"), said(1..=1)].concat()).map(drop));
            note(store.batch(put("record/8", &"x".repeat(50_000))).map(drop));
        }
        Err(error) => note(Err(error)),
    }
    errors
}

/// D12: whatever page is damaged, and however, the answer is what was asked for or says that the store is damaged and what to do.
#[test]
fn d12_a_damaged_page_is_no_panic() {
    let intact = tempfile::tempdir().unwrap();
    let bytes = filled(intact.path());
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let pages = bytes.len() / PAGE;
    let mut found = 0;
    for round in 0..DAMAGES {
        let mut damaged = bytes.clone();
        let page = usize::try_from(next()).unwrap() % pages;
        let whole = &mut damaged[page * PAGE..(page + 1) * PAGE];
        match round % 4 {
            0 => whole.fill_with(|| next().to_le_bytes()[0]),
            1 => whole.fill(0),
            2 => whole[..16].fill_with(|| next().to_le_bytes()[0]),
            _ => whole[usize::try_from(next()).unwrap() % PAGE] ^= 0x40,
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(DATABASE_FILE), &damaged).unwrap();
        let errors = use_all(folder.path());
        found += usize::from(!errors.is_empty());
        for error in errors {
            let is_expected = matches!(error, Error::Corrupt { .. } | Error::Unreadable { .. });
            assert!(is_expected, "page {page} in round {round}: {error:?}");
            let words = error.to_string();
            assert!(words.contains("gitfleet store restore") && words.contains(DATABASE_FILE), "{words}");
        }
    }
    assert!(found > 20, "only {found} damages of {DAMAGES} were found: the test shows little");
}

/// A report whose list is long enough to be kept once.
fn report(number: u64, list: &str) -> String {
    format!(r#"{{"generation":{number},"manifests":[{}]}}"#, vec![format!("{list:?}"); 100].join(","))
}

/// Returns how many lists a store keeps beside its records.
fn lists_kept(store: &EmbeddedStore) -> u64 {
    let count = |handle: &Handle| parts::count(&handle.read()?);
    store.with("counting", count).unwrap()
}

#[test]
fn lists_that_records_share_are_kept_once_and_go_with_the_last_of_them() {
    let disk = Disk::default();
    let store = disk.store().unwrap();
    let reports = (0..50).flat_map(|number| put(&format!("work/web/{number}"), &report(number, "same")));
    store.batch(reports.collect()).unwrap();
    assert_eq!(lists_kept(&store), 1);
    store.batch(put("work/web/7", &report(7, "other"))).unwrap();
    assert_eq!(lists_kept(&store), 2);
    for number in 0..50 {
        let found = store.get(&format!("work/web/{number}")).unwrap().expect("it is there");
        let list = if number == 7 { "other" } else { "same" };
        assert_eq!(String::from_utf8(found.value).unwrap(), report(number, list));
    }
    assert_eq!(store.list("work/").unwrap().len(), 50);

    // A batch that the disk refuses leaves what was there, its lists too.
    disk.fill(2);
    store.batch([put("work/web/7", &report(7, "same")), put("work/web/8", &report(8, "third"))].concat()).unwrap_err();
    disk.free();
    assert_eq!(store.get("work/web/7").unwrap().unwrap().value, report(7, "other").into_bytes());
    assert_eq!(lists_kept(&store), 2);

    let gone = (0..50).map(|number| Op::Delete { key: format!("work/web/{number}"), expected: Expected::Any });
    store.batch(gone.collect()).unwrap();
    assert_eq!(lists_kept(&store), 0);
}

#[test]
fn a_file_with_many_free_pages_is_smaller_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let size = || fs::metadata(folder.path().join(DATABASE_FILE)).unwrap().len();
    let key = |number: u32| format!("work/app/{number:06}");
    // Texts that compress badly, in many batches that touch the whole tree.
    let digest = |number: u32, line: u32| format!("{:x}", Sha256::digest(format!("{number}.{line}")));
    let text = |number: u32| (0..24).map(|line| digest(number, line)).collect::<Vec<_>>().concat();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    for part in 0..4 {
        let records = (0..800).map(|n| n * 4 + part);
        store.batch(records.flat_map(|n| put(&key(n), &text(n))).collect()).unwrap();
    }
    let gone = (0..3_200).filter(|n| n % 8 != 0).map(|n| Op::Delete { key: key(n), expected: Expected::Any });
    store.batch(gone.collect()).unwrap();
    drop(store);
    let before = size();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    assert!(size() < before / 2, "{} of {before} bytes", size());
    assert_eq!(store.list("work/").unwrap().len(), 400);
}
