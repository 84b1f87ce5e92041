//! The promises of every store, and those of this one.

use engine::store::{Error, Expected, Op, Store};
use store::PostgresStore;

use crate::postgres::promises;
use crate::postgres::server::{lead, leading, schema, settings};

/// Cases of the model test: each is a schema of its own.
const MODEL_CASES: u32 = 6;

fn put(key: &str, value: Vec<u8>) -> Op {
    Op::Put { key: key.to_owned(), value, expected: Expected::Any }
}

#[test]
fn keeps_the_promises_of_a_store() {
    promises::suite(|| Box::new(leading(&schema())));
}

#[test]
fn agrees_with_the_model() {
    promises::model(MODEL_CASES, || Box::new(leading(&schema())));
}

#[test]
fn a_second_handle_continues_where_the_first_stopped() {
    let schema = schema();
    promises::reopen(|| Box::new(leading(&schema)));
}

#[test]
fn a_batch_may_be_large() {
    let store = leading(&schema());
    let many = (0..20_000).map(|number| put(&format!("many/{number:05}"), vec![b'x'; 100]));
    let large = (0..3).map(|number| put(&format!("large/{number}"), vec![b'y'; 16 * 1024 * 1024]));
    let version = store.batch(many.chain(large).collect()).unwrap();
    let (mut records, mut bytes) = (0, 0);
    store
        .scan("", &mut |_, value, of| {
            (records, bytes) = (records + 1, bytes + value.len());
            of == version
        })
        .unwrap();
    assert_eq!((records, bytes), (20_003, 20_000 * 100 + 3 * 16 * 1024 * 1024));
}

#[test]
fn a_leader_that_was_replaced_writes_nothing() {
    let schema = schema();
    let (old, new) = (leading(&schema), PostgresStore::open(&settings(&schema), "default").unwrap());
    old.batch(vec![put("a", b"old".to_vec())]).unwrap();
    let before = lead(&new) - 1;
    let refused = old.batch(vec![put("a", b"late".to_vec())]).unwrap_err();
    assert!(matches!(refused, Error::Replaced { epoch, found } if epoch == before && found == before + 1), "{refused}");
    new.batch(vec![put("b", b"new".to_vec())]).unwrap();
    assert_eq!(old.get("a").unwrap().unwrap().value, b"old");
    assert_eq!(old.get("b").unwrap().unwrap().value, b"new", "who does not lead reads all the same");
}

#[test]
fn who_leads_nothing_writes_nothing() {
    let schema = schema();
    let store = PostgresStore::open(&settings(&schema), "default").unwrap();
    assert!(matches!(store.batch(vec![put("a", Vec::new())]), Err(Error::ReadOnly { .. })));
    assert_eq!(store.get("a").unwrap(), None);
}

#[test]
fn without_tables_there_is_nothing_to_read() {
    let missing = PostgresStore::open_read_only(&settings(&schema()), "default");
    assert!(matches!(missing, Err(Error::Missing { .. })), "{missing:?}");
}

#[test]
fn competing_writers_lose_no_record() {
    let schema = schema();
    let first = leading(&schema);
    let second = PostgresStore::open(&settings(&schema), "default").unwrap();
    second.lead(engine::store::lease::Leases::read(&first).unwrap().unwrap().epoch);
    // Two threads of one leader: each record is written by exactly one of them, and the other learns of it.
    let written: usize = std::thread::scope(|scope| {
        let (first, second) = (&first, &second);
        let write = |store: &PostgresStore| {
            let ops = |number: u32| {
                vec![Op::Put { key: format!("one/{number}"), value: vec![1], expected: Expected::Absent }]
            };
            (0..50).filter(|number| store.batch(ops(*number)).is_ok()).count()
        };
        let other = scope.spawn(move || write(second));
        write(first) + other.join().unwrap()
    });
    assert_eq!(written, 50);
    assert_eq!(first.list("one/").unwrap().len(), 50);
}

#[test]
fn a_wrong_password_is_said_and_not_shown() {
    let mut settings = settings(&schema());
    settings.password = Some(secrecy::SecretString::from("no-such-password".to_owned()));
    let error = PostgresStore::open(&settings, "default").unwrap_err();
    let text = format!("{error} {error:?} {settings:?}");
    assert!(error.to_string().contains("password authentication failed"), "{error}");
    assert!(!text.contains("no-such-password"), "{text}");
}

#[test]
fn the_journal_has_columns_for_people() {
    let schema = schema();
    promises::reopen(|| Box::new(leading(&schema)));
    let entries = leading(&schema).journal_back(None, 1).unwrap();
    assert_eq!(entries[0].0, 3);
}
