use super::*;
use crate::store::MemoryStore;

fn filled() -> MemoryStore {
    let store = MemoryStore::new();
    let entry = |event: &str| {
        Op::Journal(JournalEntry {
            at: jiff::Timestamp::UNIX_EPOCH,
            event: event.into(),
            placement: None,
            cluster: None,
            facts: serde_json::json!({}),
        })
    };
    let put = |key: &str, value: &[u8]| Op::Put { key: key.into(), value: value.into(), expected: Expected::Any };
    store.batch(vec![put("a", b"{}"), put("forge/key", &[0, 255, 10]), entry("one"), entry("two")]).unwrap();
    store
}

#[test]
fn d11_a_backup_holds_everything() {
    let text = write(&filled()).unwrap();
    let restored = MemoryStore::new();
    restored.batch(read(&text).unwrap()).unwrap();
    assert_eq!(write(&restored).unwrap(), text);
    assert_eq!(restored.journal(0, 9).unwrap(), filled().journal(0, 9).unwrap());
}

#[test]
fn d11_what_is_no_whole_backup_is_refused() {
    let text = write(&filled()).unwrap();
    let cut = &text[..text.len() / 2];
    for (name, bad, wanted) in [
        ("empty", "", "no backup"),
        ("another file", "apiVersion: v1\n", "no backup"),
        ("newer", &text.replacen("backup 1", "backup 2", 1), "use the gitfleet that wrote it"),
        ("cut", cut, "cut"),
        ("changed", &text.replacen("\"a\"", "\"b\"", 1), "checksum"),
    ] {
        let error = read(bad).unwrap_err();
        assert!(error.contains(wanted), "{name}: {error}");
    }
}
