use proptest::prelude::*;

use super::*;
use crate::store::MemoryStore;
use model::id::{Digest, ObjectId, ObjectKey};
use model::records::{ApplyOutcome, JournalEntry, ManifestStatus, SourceRecord, WorkStatus};

#[test]
fn keys_are_what_the_layout_says() {
    let web = PlacementKey::cluster_scoped("web");
    let team = PlacementKey::namespaced("team-a", "web");
    let east = ClusterName::from("east");
    for (key, expected) in [
        (source_key("fleet"), "source/fleet"),
        (placement_key(&web), "placement/web"),
        (placement_key(&team), "placement/team-a%2Fweb"),
        (snapshot_key(&web, 7), "snapshot/web/00000000000000000007"),
        (snapshot_key(&web, u64::MAX), "snapshot/web/18446744073709551615"),
        (policy_key(&team, 0), "policy/team-a%2Fweb/00000000000000000000"),
        (binding_key(&team, "east"), "binding/team-a%2Fweb/east"),
        (work_key(&web, &east), "work/web/east"),
        (cluster_key(&east), "cluster/east"),
        (decisions_key(&DecisionsKey::from(&web)), "decisions/ClusterResourcePlacement/web"),
        (decisions_key(&DecisionsKey::from(&team)), "decisions/ResourcePlacement/team-a%2Fweb"),
        (hub_key("argocd"), "hub/argocd"),
    ] {
        assert_eq!(key, expected);
    }
}

#[test]
fn a_namespaced_placement_is_never_another_ones_prefix() {
    // Without escaping, the binding of `a` to cluster `b` and the record of `a/b` would share a key.
    let a = PlacementKey::cluster_scoped("a");
    let ab = PlacementKey::namespaced("a", "b");
    assert!(!binding_key(&ab, "c").starts_with(&binding_prefix(&a)));
    assert!(
        !snapshot_key(&PlacementKey::cluster_scoped("web-2"), 1)
            .starts_with(&snapshot_prefix(&PlacementKey::cluster_scoped("web")))
    );
}

proptest! {
    #[test]
    fn names_come_back_from_keys(
        namespace in proptest::option::of("[a-z0-9.-]{1,20}"), name in "[^/]{1,20}", cluster in "\\PC{1,20}", index: u64,
    ) {
        let placement = PlacementKey { namespace, name };
        let cluster = ClusterName::new(cluster);
        for (key, prefix) in [
            (placement_key(&placement), PLACEMENT_PREFIX),
            (snapshot_key(&placement, index), SNAPSHOT_PREFIX),
            (policy_key(&placement, index), POLICY_PREFIX),
            (binding_key(&placement, cluster.as_str()), BINDING_PREFIX),
            (work_key(&placement, &cluster), WORK_PREFIX),
        ] {
            prop_assert_eq!(placement_of(&key, prefix), Some(placement.clone()), "{}", key);
        }
        prop_assert_eq!(cluster_of(&work_key(&placement, &cluster), WORK_PREFIX), Some(cluster.clone()));
        prop_assert_eq!(cluster_of(&cluster_key(&cluster), CLUSTER_PREFIX), Some(cluster.clone()));
    }

    #[test]
    fn index_order_is_key_order(a: u64, b: u64) {
        let web = PlacementKey::cluster_scoped("web");
        prop_assert_eq!(snapshot_key(&web, a).cmp(&snapshot_key(&web, b)), a.cmp(&b));
    }
}

#[test]
fn what_escape_does_not_make_is_not_read() {
    for text in ["%", "%2", "%zz", "%FF"] {
        assert_eq!(unescape(text), None, "{text}");
    }
    assert_eq!(placement_of("binding/web/east", PLACEMENT_PREFIX), None);
}

#[test]
fn records_come_back_typed() {
    let store = MemoryStore::new();
    let id = ObjectId { version: "v1".into(), kind: "ConfigMap".into(), name: "c".into(), ..ObjectId::default() };
    let status = WorkStatus {
        generation: 3,
        inventory: [ObjectKey { kind: "ConfigMap".into(), ..id.key() }].into_iter().collect(),
        manifests: vec![ManifestStatus {
            id,
            applied: ApplyOutcome::Applied,
            message: String::new(),
            availability: None,
            generation: None,
            manifest: None,
            owned: None,
            differences: vec![],
            differs_since: None,
            observed_at: None,
        }]
        .into(),
        ..WorkStatus::default()
    };
    let key = work_key(&PlacementKey::namespaced("team", "web"), &"east".into());
    let version = store.batch(vec![put(key.clone(), &status, Expected::Absent).unwrap()]).unwrap();
    assert_eq!(load::<WorkStatus>(&store, &key).unwrap(), Some(Record { key: key.clone(), version, value: status }));
    assert_eq!(load_all::<WorkStatus>(&store, WORK_PREFIX).unwrap().len(), 1);
    assert_eq!(load::<WorkStatus>(&store, "work/none/east").unwrap(), None);
}

#[test]
fn an_unreadable_record_is_named_and_stays() {
    let store = MemoryStore::new();
    let good = put(source_key("a"), &SourceRecord::default(), Expected::Any).unwrap();
    let bad = Op::Put { key: source_key("b"), value: b"{\"url\":".to_vec(), expected: Expected::Any };
    store.batch(vec![good, bad]).unwrap();
    let error = load_all::<SourceRecord>(&store, SOURCE_PREFIX).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { key, .. } if key == "source/b"), "{error}");
    assert!(matches!(load::<SourceRecord>(&store, "source/b"), Err(Error::Unreadable { .. })));
    assert_eq!(store.list(SOURCE_PREFIX).unwrap().len(), 2);
}

#[test]
fn journal_entries_survive_json() {
    let entry = JournalEntry {
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
        event: "SnapshotCreated".into(),
        placement: Some(PlacementKey::namespaced("team", "web")),
        cluster: None,
        facts: serde_json::json!({"hash": Digest::from("ab")}),
    };
    let bytes = serde_json::to_vec(&entry).unwrap();
    assert_eq!(serde_json::from_slice::<JournalEntry>(&bytes).unwrap(), entry);
}
