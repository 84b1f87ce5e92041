use serde_json::{Value, json};

use super::*;
use crate::store::MemoryStore;
use crate::store::records::{put, work_key};
use crate::store::{Expected, Op};

fn store(entries: &[(&str, Value)]) -> MemoryStore {
    let store = MemoryStore::new();
    let ops = entries.iter().map(|(key, value)| put((*key).to_owned(), value, Expected::Any).expect("JSON"));
    store.batch(ops.collect()).expect("memory takes it");
    store
}

#[test]
fn what_a_daemon_answers_and_what_a_store_holds_are_the_same_records() {
    let work = work_key(&PlacementKey::namespaced("app", "web"), &ClusterName::from("east"));
    let entries = [
        ("source/source", json!(SourceRecord::default())),
        (work.as_str(), json!({"generation": 7, "complete": true})),
        ("hub/argocd", json!({"namespace": "argocd", "online": true, "since": "1970-01-01T00:00:00Z"})),
        ("forge/heard/1", json!("kept for the git host")),
        ("of-another-version/1", json!([])),
    ];
    let read = Records::read(&store(&entries)).expect("they can be read");
    assert_eq!(read.works[&PlacementKey::namespaced("app", "web")][&ClusterName::from("east")].generation, 7);
    let mut answered = Records::default();
    for (key, value) in &entries {
        answered.take(key, &*serde_json::value::to_raw_value(value).expect("JSON")).expect("they can be read");
    }
    assert_eq!(format!("{read:?}"), format!("{answered:?}"));
    let of_placements = Records::of_placements(&store(&entries)).expect("they can be read");
    assert!(of_placements.source.is_none() && of_placements.works.len() == 1);
}

#[test]
fn a_damaged_record_is_named() {
    let store = store(&[("source/source", json!(SourceRecord::default()))]);
    let damaged = Op::Put { key: "cluster/east".into(), value: b"{".to_vec(), expected: Expected::Any };
    store.batch(vec![damaged]).expect("memory takes it");
    let error = Records::read(&store).expect_err("it is no cluster");
    assert!(matches!(&error, Error::Unreadable { key, .. } if key == "cluster/east"), "{error}");
}
