//! The promises of a store as tests, run against every backend.
//!
//! Every function panics where a promise is broken. `make` gives an empty store that keeps `JOURNAL_MAX` journal entries.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use engine::store::{Error, Expected, Op, Store};
use model::records::JournalEntry;

/// Journal entries that the stores under test keep.
pub const JOURNAL_MAX: usize = 5;

/// Runs every promise against fresh stores.
pub fn suite(make: impl Fn() -> Box<dyn Store>) {
    for promise in [
        reads_what_was_put,
        lists_by_prefix_in_order,
        checks_expectations,
        changes_all_or_nothing,
        never_uses_a_version_twice,
        steps_see_the_steps_before,
        keeps_the_journal_in_order_and_capped,
        readers_see_whole_batches,
    ] {
        promise(&*make());
    }
}

/// Runs random batches against a store and a map; they must agree after every batch.
pub fn model(cases: u32, make: impl Fn() -> Box<dyn Store>) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let batches = prop::collection::vec(prop::collection::vec(step(), 0..5), 1..20);
    let outcome = TestRunner::new(config).run(&batches, |batches| {
        let store = make();
        let mut model = Model::default();
        for batch in batches {
            model.apply_both(&*store, &batch)?;
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Checks that a second handle sees everything that the first left, and continues where it stopped.
///
/// `open` gives handles on one and the same store, one after the other.
pub fn reopen(open: impl Fn() -> Box<dyn Store>) {
    let first = open();
    let version = first.batch(vec![put("a", "1", Expected::Absent), note("one"), note("two")]).unwrap();
    drop(first);
    let second = open();
    let kept = second.get("a").unwrap().unwrap();
    assert_eq!((kept.value.as_slice(), kept.version), (b"1".as_slice(), version));
    assert!(second.batch(vec![put("a", "2", Expected::Version(version)), note("three")]).unwrap() > version);
    drop(second);
    let third = open();
    assert_eq!(third.get("a").unwrap().unwrap().value, b"2");
    assert_eq!(events(&*third, 0, 10), [(1, "one".into()), (2, "two".into()), (3, "three".into())]);
}

fn put(key: &str, value: &str, expected: Expected) -> Op {
    Op::Put { key: key.into(), value: value.into(), expected }
}

fn delete(key: &str, expected: Expected) -> Op {
    Op::Delete { key: key.into(), expected }
}

fn note(event: &str) -> Op {
    Op::Journal(entry(event))
}

fn entry(event: &str) -> JournalEntry {
    JournalEntry {
        at: jiff::Timestamp::UNIX_EPOCH,
        event: event.into(),
        placement: Some(model::id::PlacementKey::namespaced("team", "web")),
        cluster: None,
        facts: json!({"why": "because"}),
    }
}

fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    store.list(prefix).unwrap().into_iter().map(|(key, _)| key).collect()
}

fn events(store: &dyn Store, after: u64, limit: usize) -> Vec<(u64, String)> {
    store.journal(after, limit).unwrap().into_iter().map(|(number, entry)| (number, entry.event.to_string())).collect()
}

fn reads_what_was_put(store: &dyn Store) {
    assert_eq!(store.get("a").unwrap(), None);
    assert_eq!(store.batch(vec![]).unwrap(), 0);
    let version = store.batch(vec![put("a", "1", Expected::Any), put("empty", "", Expected::Any)]).unwrap();
    assert!(version > 0);
    let a = store.get("a").unwrap().unwrap();
    assert_eq!((a.value.as_slice(), a.version), (b"1".as_slice(), version));
    assert_eq!(store.get("empty").unwrap().unwrap().value, b"");
    assert_eq!(store.get("").unwrap(), None);
    store.batch(vec![delete("a", Expected::Any), delete("never-there", Expected::Any)]).unwrap();
    assert_eq!(store.get("a").unwrap(), None);
}

fn lists_by_prefix_in_order(store: &dyn Store) {
    let all = ["b/2", "a/10", "a/1", "a", "ab", "a0", "b/1", "c/é", "c/\u{10FFFF}"];
    store.batch(all.iter().map(|key| put(key, key, Expected::Any)).collect()).unwrap();
    for (prefix, expected) in [
        ("", vec!["a", "a/1", "a/10", "a0", "ab", "b/1", "b/2", "c/é", "c/\u{10FFFF}"]),
        ("a/", vec!["a/1", "a/10"]),
        ("a", vec!["a", "a/1", "a/10", "a0", "ab"]),
        ("b/2", vec!["b/2"]),
        ("c/", vec!["c/é", "c/\u{10FFFF}"]),
        ("d", vec![]),
    ] {
        assert_eq!(keys(store, prefix), expected, "prefix {prefix:?}");
    }
    for (key, record) in store.list("").unwrap() {
        assert_eq!(record.value, key.as_bytes());
    }
    let scanned = |prefixes: &[&str], most: usize| {
        let mut found = Vec::new();
        store
            .scan_each(prefixes, &mut |key, _, _| {
                found.push(key.to_owned());
                found.len() < most
            })
            .unwrap();
        found
    };
    assert_eq!(scanned(&["c/", "d", "a/"], 9), ["c/é", "c/\u{10FFFF}", "a/1", "a/10"]);
    assert_eq!(
        scanned(&["c/", "d", "a/"], 3),
        ["c/é", "c/\u{10FFFF}", "a/1"],
        "no prefix after the last one that is wanted"
    );
    assert_eq!(scanned(&[], 9), [""; 0]);
}

fn checks_expectations(store: &dyn Store) {
    let old = store.batch(vec![put("a", "1", Expected::Absent)]).unwrap();
    let new = store.batch(vec![put("a", "2", Expected::Version(old))]).unwrap();
    let refused = [
        ("put over a record", put("a", "x", Expected::Absent), "a", Some(new)),
        ("put over a newer version", put("a", "x", Expected::Version(old)), "a", Some(new)),
        ("put where there is none", put("b", "x", Expected::Version(new)), "b", None),
        ("delete a newer version", delete("a", Expected::Version(old)), "a", Some(new)),
        ("delete what shall be absent", delete("a", Expected::Absent), "a", Some(new)),
        ("delete where there is none", delete("b", Expected::Version(new)), "b", None),
    ];
    for (name, op, key, found) in refused {
        match store.batch(vec![op]) {
            Err(Error::Conflict { key: k, found: f, .. }) => assert_eq!((k.as_str(), f), (key, found), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(store.get("a").unwrap().unwrap().version, new, "{name}");
        assert_eq!(store.get("b").unwrap(), None, "{name}");
    }
    store.batch(vec![delete("b", Expected::Absent), delete("a", Expected::Version(new))]).unwrap();
    assert_eq!(keys(store, ""), Vec::<String>::new());
}

fn changes_all_or_nothing(store: &dyn Store) {
    let version = store.batch(vec![put("a", "1", Expected::Any), note("one")]).unwrap();
    let batch = vec![
        put("a", "2", Expected::Any),
        note("two"),
        put("b", "1", Expected::Any),
        delete("a", Expected::Any),
        put("c", "1", Expected::Version(77)),
    ];
    assert!(matches!(store.batch(batch), Err(Error::Conflict { key, .. }) if key == "c"));
    assert_eq!(store.get("a").unwrap().unwrap().version, version);
    assert_eq!(keys(store, ""), ["a"]);
    assert_eq!(events(store, 0, 10), [(1, "one".into())]);
    let too_long = "k".repeat(engine::store::KEY_BYTES_MAX + 1);
    let refused = store.batch(vec![put("d", "1", Expected::Any), put(&too_long, "1", Expected::Any)]);
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    assert_eq!(keys(store, ""), ["a"]);
    store.batch(vec![note("two")]).unwrap();
    assert_eq!(events(store, 1, 10), [(2, "two".into())], "a refused batch takes no journal number");
}

fn never_uses_a_version_twice(store: &dyn Store) {
    let mut last = 0;
    for _ in 0..3 {
        let made = store.batch(vec![put("a", "same", Expected::Absent)]).unwrap();
        assert!(made > last);
        last = store.batch(vec![delete("a", Expected::Version(made))]).unwrap();
        assert!(last > made);
    }
}

fn steps_see_the_steps_before(store: &dyn Store) {
    let version = store
        .batch(vec![
            put("a", "1", Expected::Absent),
            delete("a", Expected::Any),
            put("a", "2", Expected::Absent),
            put("a", "3", Expected::Any),
        ])
        .unwrap();
    let a = store.get("a").unwrap().unwrap();
    assert_eq!((a.value.as_slice(), a.version), (b"3".as_slice(), version));
    let twice = vec![put("b", "1", Expected::Absent), put("b", "2", Expected::Absent)];
    assert!(matches!(store.batch(twice), Err(Error::Conflict { .. })));
    assert_eq!(keys(store, ""), ["a"]);
}

fn keeps_the_journal_in_order_and_capped(store: &dyn Store) {
    assert_eq!((events(store, 0, 10), store.journal_end().unwrap()), (vec![], 0));
    store.append(vec![entry("e1"), entry("e2")]).unwrap();
    assert_eq!(store.journal_end().unwrap(), 2);
    assert_eq!(store.journal(0, 10).unwrap()[0], (1, entry("e1")), "an entry comes back whole");
    store.append((3..=JOURNAL_MAX).map(|n| entry(&format!("e{n}"))).collect()).unwrap();
    let numbers = |after, limit| events(store, after, limit).into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(numbers(0, 10), [1, 2, 3, 4, 5], "exactly full: none is dropped");
    store.append(vec![entry("e6")]).unwrap();
    assert_eq!(numbers(0, 10), [2, 3, 4, 5, 6]);
    assert_eq!(numbers(0, 2), [2, 3]);
    assert_eq!(numbers(4, 10), [5, 6]);
    assert_eq!(numbers(6, 10), Vec::<u64>::new());
    assert_eq!(numbers(u64::MAX, 10), Vec::<u64>::new());
    assert_eq!(numbers(0, 0), Vec::<u64>::new());
    let back = |before, limit| -> Vec<u64> {
        store.journal_back(before, limit).unwrap().into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(back(None, 2), [6, 5], "the last come first");
    assert_eq!(back(Some(5), 10), [4, 3, 2]);
    assert_eq!(back(Some(2), 10), Vec::<u64>::new());
    assert_eq!(back(Some(0), 10), Vec::<u64>::new());
    store.append((7..=20).map(|n| entry(&format!("e{n}"))).collect()).unwrap();
    assert_eq!(events(store, 0, 10)[0], (16, "e16".into()), "a batch longer than the cap keeps its end");
    assert_eq!(store.journal_end().unwrap(), 20);
    assert_eq!(keys(store, ""), Vec::<String>::new(), "the journal is no record");
}

/// One writer moves two records together; readers never see them apart, and versions never run backwards.
fn readers_see_whole_batches(store: &dyn Store) {
    const BATCHES: u32 = 20;
    store.batch(vec![put("pair/a", "0", Expected::Any), put("pair/b", "0", Expected::Any)]).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=BATCHES {
                let text = n.to_string();
                store.batch(vec![put("pair/a", &text, Expected::Any), put("pair/b", &text, Expected::Any)]).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                loop {
                    let last_look = done.load(Ordering::SeqCst);
                    let pair = store.list("pair/").unwrap();
                    assert_eq!(pair[0].1, pair[1].1);
                    assert!(pair[0].1.version >= last);
                    last = pair[0].1.version;
                    if last_look {
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(store.get("pair/a").unwrap().unwrap().value, BATCHES.to_string().as_bytes());
}

#[derive(Clone, Copy, Debug)]
enum Guess {
    Any,
    Absent,
    Current,
    Old,
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, Guess),
    Delete(u8, Guess),
    Note(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let guess = || prop_oneof![3 => Just(Guess::Any), 1 => Just(Guess::Absent), 3 => Just(Guess::Current), 1 => Just(Guess::Old)];
    prop_oneof![
        4 => (0..4u8, any::<u8>(), guess()).prop_map(|(key, value, guess)| Step::Put(key, value, guess)),
        2 => (0..4u8, guess()).prop_map(|(key, guess)| Step::Delete(key, guess)),
        1 => any::<u8>().prop_map(Step::Note),
    ]
}

#[derive(Clone, Default)]
struct Model {
    records: BTreeMap<String, (Vec<u8>, u64)>,
    journal: Vec<(u64, String)>,
    journal_last: u64,
}

impl Model {
    fn apply_both(&mut self, store: &dyn Store, steps: &[Step]) -> Result<(), TestCaseError> {
        // What "current" means is settled before the batch, as a caller would.
        let expected = |key: &str, guess| match (guess, self.records.get(key)) {
            (Guess::Any, _) => Expected::Any,
            (Guess::Absent, _) | (Guess::Current, None) => Expected::Absent,
            (Guess::Current, Some((_, version))) => Expected::Version(*version),
            (Guess::Old, found) => Expected::Version(found.map_or(0, |(_, version)| version - 1)),
        };
        let name = |key: u8| ["a", "a/1", "a/2", "b"][usize::from(key)].to_owned();
        let ops: Vec<Op> = steps
            .iter()
            .map(|step| match step {
                Step::Put(key, value, guess) => {
                    Op::Put { key: name(*key), value: vec![*value], expected: expected(&name(*key), *guess) }
                }
                Step::Delete(key, guess) => Op::Delete { key: name(*key), expected: expected(&name(*key), *guess) },
                Step::Note(n) => note(&n.to_string()),
            })
            .collect();
        let answer = store.batch(ops.clone());
        match (self.after(&ops), answer) {
            (Ok(mut next), Ok(version)) => {
                for record in next.records.values_mut().filter(|record| record.1 == u64::MAX) {
                    record.1 = version;
                }
                *self = next;
            }
            (Err(expected), Err(Error::Conflict { key, .. })) => prop_assert_eq!(key, expected),
            (model, answer) => prop_assert!(false, "model {:?}, store {answer:?}", model.map(|_| ())),
        }
        for prefix in ["", "a", "a/", "b"] {
            let stored = store.list(prefix).unwrap().into_iter().map(|(key, r)| (key, (r.value, r.version)));
            let modelled = self.records.iter().filter(|(key, _)| key.starts_with(prefix));
            prop_assert!(stored.eq(modelled.map(|(key, record)| (key.clone(), record.clone()))));
        }
        prop_assert_eq!(&events(store, 0, 100), &self.journal);
        Ok(())
    }

    /// Returns the model after the steps, with `u64::MAX` for the version they will have, or the key in conflict.
    fn after(&self, ops: &[Op]) -> Result<Self, String> {
        let mut next = self.clone();
        for op in ops {
            if let Op::Put { key, expected, .. } | Op::Delete { key, expected } = op
                && !expected.allows(next.records.get(key).map(|(_, version)| *version))
            {
                return Err(key.clone());
            }
            match op {
                Op::Put { key, value, .. } => drop(next.records.insert(key.clone(), (value.clone(), u64::MAX))),
                Op::Delete { key, .. } => drop(next.records.remove(key)),
                Op::Journal(entry) => {
                    next.journal_last += 1;
                    next.journal.push((next.journal_last, entry.event.to_string()));
                }
            }
        }
        let surplus = next.journal.len().saturating_sub(JOURNAL_MAX);
        next.journal.drain(..surplus);
        Ok(next)
    }
}
