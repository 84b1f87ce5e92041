//! Fuzz target: whatever is damaged in a store's file, the answer is what was asked for or says that the store is damaged and what
//! to do; and a backup is read whole or not at all.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use engine::store::{DATABASE_FILE, Error, Expected, Op, Store as _, backup};
use model::records::JournalEntry;
use store::embedded::EmbeddedStore;

/// Records of the store; enough for pages that point to others.
const RECORDS: usize = 60;

/// A store's file as it was closed, and the text of its backup.
static INTACT: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path()).unwrap();
    for round in 0..4 {
        store.batch((0..RECORDS).flat_map(|n| [put(n, &format!("{round}-{n}").repeat(60)), said()]).collect()).unwrap();
    }
    let text = backup::write(&store).unwrap();
    drop(store);
    (fs::read(folder.path().join(DATABASE_FILE)).unwrap(), text)
});

fn put(n: usize, value: &str) -> Op {
    Op::Put { key: format!("record/{n}"), value: value.into(), expected: Expected::Any }
}

fn said() -> Op {
    Op::Journal(JournalEntry {
        at: jiff::Timestamp::UNIX_EPOCH,
        event: "Fuzzed".into(),
        placement: None,
        cluster: None,
        facts: serde_json::json!({}),
    })
}

/// Opens a store and asks it for everything that it can do. Returns the first answer that is an error.
fn use_all(folder: &Path) -> Result<(), Error> {
    let store = EmbeddedStore::open(folder)?;
    store.list("")?;
    store.journal(0, usize::MAX)?;
    store.batch(vec![put(7, "new"), said()])?;
    store.batch(vec![put(8, &"x".repeat(20_000))])?;
    store.get("record/9")?;
    drop(store);
    // Only now: a reader does not check all pages first, and the database reserves whatever a damaged one asks for.
    EmbeddedStore::open_read_only(folder)?.list("").map(drop)
}

pub(super) fn run(input: &[u8]) {
    let (intact, text) = &*INTACT;
    let mut damaged = intact.clone();
    // Where, in four bytes, and what to write there.
    for edit in input.chunks_exact(6).take(16) {
        let at = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize % damaged.len();
        let end = (at + 1 + usize::from(edit[4] & 63)).min(damaged.len());
        damaged[at..end].iter_mut().for_each(|byte| *byte ^= edit[5]);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(DATABASE_FILE), &damaged).unwrap();
    if let Err(error) = use_all(folder.path()) {
        let is_expected = matches!(error, Error::Corrupt { .. } | Error::Unreadable { .. } | Error::Newer { .. });
        assert!(is_expected, "{error:?}");
    }

    let mut changed = text.clone().into_bytes();
    for edit in input.chunks_exact(6).take(1) {
        let at = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize % changed.len();
        changed[at] ^= edit[5];
    }
    let changed = String::from_utf8_lossy(&changed);
    assert_eq!(backup::read(&changed).is_ok(), *changed == *text, "a changed backup is refused");
}
