use super::*;
use crate::store::{Expected, conformance};

fn put(key: &str) -> Vec<Op> {
    vec![Op::Put { key: key.into(), value: b"x".to_vec(), expected: Expected::Any }]
}

#[test]
fn keeps_every_promise() {
    conformance::suite(|| Box::new(MemoryStore::with_journal_max(conformance::JOURNAL_MAX)));
}

#[test]
fn agrees_with_the_model() {
    conformance::model(256, || Box::new(MemoryStore::with_journal_max(conformance::JOURNAL_MAX)));
}

#[test]
fn faults_strike_once_and_where_told() {
    let rows = [
        ("full", Fault::Full, false, vec!["a", "c"]),
        ("crash before the commit", Fault::CrashBefore, true, vec!["a", "c"]),
        ("crash after the commit", Fault::CrashAfter, true, vec!["a", "b", "c"]),
    ];
    for (name, fault, down, kept) in rows {
        let store = MemoryStore::new();
        store.fail_write(2, fault);
        store.batch(put("a")).unwrap();
        let error = store.batch(put("b")).unwrap_err();
        assert_eq!(matches!(error, Error::Full { .. }), fault == Fault::Full, "{name}: {error}");
        assert_eq!(store.get("a").is_err(), down, "{name}");
        assert_eq!(store.batch(vec![]).is_err(), down, "{name}");
        store.restart();
        store.batch(put("c")).unwrap();
        let keys: Vec<_> = store.list("").unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, kept, "{name}");
        assert_eq!(store.writes(), 3, "{name}");
    }
}
