use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::frame::inflate_within;
use super::*;
use deliver::inventory::Held;
use engine::MemberEvent;
use model::encrypted::EncryptedWork;
use model::facts::{Facts, NodeFacts, Totals};
use model::id::{ClusterName, Digest, ObjectId, ObjectKey, PlacementKey};
use model::records::{
    ApplyOutcome, Availability, Difference, Glimpse, HeldSnapshot, Inventory, Kept, ManifestStatus, Pause, WorkStatus,
};
use model::work::{Desired, SourceName, WorkOrder};

fn key(name: &str) -> ObjectKey {
    ObjectId {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: "n".into(),
        name: name.into(),
        group: String::new(),
    }
    .key()
}

fn text() -> impl Strategy<Value = String> {
    "[a-zäß\"\\\\/\n ]{0,12}"
}

fn keys() -> impl Strategy<Value = BTreeSet<ObjectKey>> {
    proptest::collection::btree_set("[a-z]{1,8}".prop_map(|name| key(&name)), 0..4)
}

fn inventory() -> impl Strategy<Value = Inventory> {
    prop_oneof![
        keys().prop_map(|keys| keys.into_iter().collect()),
        (keys(), proptest::collection::btree_map(text(), text(), 0..3))
            .prop_map(|(seen, unlisted)| Inventory::Unknown(Glimpse { seen, unlisted })),
    ]
}

fn kept() -> impl Strategy<Value = Kept> {
    let at = jiff::Timestamp::UNIX_EPOCH;
    (proptest::option::of(text()), proptest::option::of(any::<u64>())).prop_map(move |(by, held)| Kept {
        paused: by.map(|by| Pause { by, at, reason: None }),
        held: held.map(|index| HeldSnapshot {
            index,
            hash: "ab".into(),
            why: "it failed".into(),
            since: at,
            returns: false,
            inputs: None,
        }),
    })
}

fn totals() -> impl Strategy<Value = Totals> {
    (any::<u128>(), any::<u128>(), proptest::collection::btree_map(text(), any::<u128>(), 0..3))
        .prop_map(|(cpu_milli, memory_bytes, extended)| Totals { cpu_milli, memory_bytes, extended })
}

fn facts() -> impl Strategy<Value = Facts> {
    let nodes = (any::<u32>(), totals(), totals(), proptest::collection::btree_map(text(), any::<u128>(), 0..3))
        .prop_map(|(count, capacity, allocatable, machine_types)| NodeFacts {
            count: count as usize,
            capacity,
            allocatable,
            machine_types,
        });
    let claims = proptest::option::of(proptest::collection::btree_map(text(), text(), 0..3));
    (
        proptest::result::maybe_ok(nodes, text()),
        proptest::result::maybe_ok(totals(), text()),
        claims,
        proptest::option::of(text()),
    )
        .prop_map(|(nodes, requested, claims, claims_failed)| Facts { nodes, requested, claims, claims_failed })
}

fn status() -> impl Strategy<Value = WorkStatus> {
    let manifest = (text(), any::<Option<i64>>(), text()).prop_map(|(message, generation, path)| ManifestStatus {
        id: ObjectId { kind: "ConfigMap".into(), version: "v1".into(), name: "a".into(), ..ObjectId::default() },
        applied: ApplyOutcome::FoundDrifts,
        message,
        availability: Some(Availability::NotTrackable),
        generation,
        manifest: Some("d1".into()),
        owned: None,
        differences: vec![Difference { path, value_in_member: Some("1".into()), value_in_hub: None }],
        differs_since: Some(jiff::Timestamp::UNIX_EPOCH),
        observed_at: None,
    });
    let manifests = proptest::collection::vec(manifest, 0..3);
    (any::<i64>(), any::<bool>(), proptest::option::of(text()), manifests, inventory(), keys(), kept()).prop_map(
        |(generation, complete, failure, manifests, inventory, held_deletions, kept)| WorkStatus {
            generation,
            complete,
            failure,
            manifests: manifests.into(),
            available_since: None,
            inventory,
            held_deletions,
            kept,
        },
    )
}

fn event() -> impl Strategy<Value = MemberEvent> {
    let cluster = || "[a-z]{1,8}".prop_map(|name| ClusterName::from(name.as_str()));
    let placement = || "([a-z]{1,5}/)?[a-z]{1,5}".prop_map(|text| text.parse::<PlacementKey>().expect("a key"));
    let held =
        proptest::option::of(any::<u64>().prop_map(|index| Held { index, commit: "c".into(), digest: "d".into() }));
    let holds = proptest::collection::btree_map(placement(), held, 0..3);
    let kept = proptest::collection::btree_map(placement(), kept(), 0..3);
    let inventories = proptest::collection::btree_map(placement(), inventory(), 0..3);
    let names = proptest::collection::btree_set(text(), 0..3);
    prop_oneof![
        (cluster(), proptest::option::of(text()), proptest::option::of(text()), holds, kept, inventories).prop_map(
            |(cluster, version, server, holds, kept, inventory)| MemberEvent::Online {
                cluster,
                version,
                server,
                holds,
                kept,
                inventory
            }
        ),
        (cluster(), text()).prop_map(|(cluster, reason)| MemberEvent::Offline { cluster, reason }),
        cluster().prop_map(|cluster| MemberEvent::Restarted { cluster }),
        (cluster(), placement(), status()).prop_map(|(cluster, placement, status)| MemberEvent::Work {
            cluster,
            placement,
            status: Arc::new(status)
        }),
        (cluster(), facts()).prop_map(|(cluster, facts)| MemberEvent::Facts { cluster, facts: Box::new(facts) }),
        (cluster(), proptest::result::maybe_ok(names, text()))
            .prop_map(|(cluster, namespaces)| MemberEvent::Namespaces { cluster, namespaces }),
        (cluster(), text()).prop_map(|(cluster, reason)| MemberEvent::Unwatched { cluster, reason }),
    ]
}

proptest! {
    #[test]
    fn every_event_of_a_member_arrives_as_it_was(events in proptest::collection::vec(event(), 0..6)) {
        let sent: Vec<ToServer> = events.iter().cloned().map(ToServer::from).collect();
        let reports = Reports { session: "s".into(), seq: u64::MAX, events: sent };
        let read: Reports = unpack(&pack(&reports).expect("packs")).expect("unpacks");
        let read: Vec<_> = read.events.into_iter().filter_map(ToServer::into_event).collect();
        prop_assert_eq!(read, events);
    }

    #[test]
    fn frames_arrive_however_the_stream_is_cut(texts in proptest::collection::vec(text(), 0..6), piece in 1_usize..40) {
        let stream: Vec<u8> = texts.iter().flat_map(|text| frame(text).expect("a frame")).collect();
        let (mut frames, mut read) = (Frames::default(), Vec::new());
        for bytes in stream.chunks(piece) {
            frames.push(bytes);
            while let Some(text) = frames.take::<String>().expect("whole frames") {
                read.push(text);
            }
        }
        frames.finish().expect("it ends between two frames");
        prop_assert_eq!(read, texts);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut frames = Frames::default();
        frames.push(&bytes);
        drop(frames.take::<FromServer>());
        drop(frames.finish());
        drop(unpack::<Reports>(&bytes));
    }
}

fn order() -> WorkOrder {
    let desired = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}});
        let id = ObjectId::of(&object).expect("an id");
        Desired {
            key: id.key().shared(),
            id,
            object: Arc::new(object),
            digest: format!("digest-{name}").as_str().into(),
            wave: 3,
            encrypted: None,
        }
    };
    WorkOrder {
        placement: PlacementKey::namespaced("n", "p"),
        cluster: "eu".into(),
        generation: 4,
        source: SourceName { name: "fleet".into(), formerly: Arc::new(BTreeSet::from(["old".to_owned()])) },
        snapshot: 2,
        commit: "c0ffee".into(),
        digest: "hash".into(),
        strategy: serde_json::from_value(json!({"type": "ServerSideApply", "whenToApply": "IfNotDrifted"}))
            .expect("a strategy"),
        manifests: [desired("a"), desired("b")].into(),
        held: BTreeSet::from([key("held")]),
        prune: BTreeSet::from([key("gone")]),
        kept: Kept::default(),
        user: Some("system:serviceaccount:n:deployer".to_owned()),
        tenant: Some("n".to_owned()),
        remove: false,
        abandon: true,
    }
}

#[test]
fn an_order_and_its_objects_are_split_and_joined() {
    let order = order();
    let whole = WholeOrder::of(&order);
    let (digest, json) = whole.order.encode().expect("JSON");
    assert!(!String::from_utf8_lossy(&json).contains("apiVersion"), "no object is in the order");
    let read = AgentOrder::decode(&digest, &json).expect("the form").expect("the digest");
    let joined = WholeOrder { order: read, objects: whole.objects.clone() };
    assert_eq!(joined.join(), Ok(order));

    assert_eq!(AgentOrder::decode(&Digest::from("other"), &json).expect("the form"), None, "another digest");
    let without = WholeOrder { objects: BTreeMap::new(), ..joined.clone() };
    assert_eq!(without.join(), Err("digest-a".into()), "the object that is missing is named");
    let mut swapped = joined;
    let b = swapped.objects["digest-b" as &str].clone();
    swapped.objects.insert("digest-a".into(), b);
    assert_eq!(swapped.join(), Err("digest-a".into()), "an object under the name of another is refused");
}

#[test]
fn what_a_newer_side_sends_is_skipped() {
    let sent = json!([{"type": "restartEverything", "now": true}, {"type": "bye", "reason": "x", "newField": 1}]);
    let read: Vec<FromServer> = serde_json::from_value(sent).expect("both are read");
    assert_eq!(read, [FromServer::Unknown, FromServer::Bye { reason: "x".into() }]);
    let sent = json!({"session": "s", "seq": 1, "later": [], "events": [{"type": "dreamt", "of": ["sheep"]}, {"type": "bye"}]});
    let read: Reports = serde_json::from_value(sent).expect("it is read");
    assert_eq!(read.events, [ToServer::Unknown, ToServer::Bye]);
}

#[test]
fn the_highest_version_that_both_speak_counts() {
    let of = |oldest, newest| Protocols { oldest, newest };
    let rows = [
        (of(1, 1), of(1, 1), Some(1)),
        (of(1, 2), of(2, 3), Some(2)),
        (of(2, 3), of(1, 2), Some(2)),
        (of(1, 3), of(1, 3), Some(3)),
        (of(1, 1), of(2, 3), None),
        (of(3, 4), of(1, 2), None),
    ];
    for (ours, theirs, wanted) in rows {
        assert_eq!(ours.common(theirs), wanted, "{ours:?} {theirs:?}");
    }
}

#[test]
fn what_is_too_large_cut_or_damaged_is_an_error_for_people() {
    let mut frames = Frames::default();
    frames.push(&u32::MAX.to_be_bytes());
    let large = frames.take::<Value>().expect_err("a frame of 4 GiB");
    let zeros = pack(&"0".repeat(100_000)).expect("it packs well");
    let bomb = inflate_within(&zeros, 1_000).expect_err("much out of little");
    let mut cut = Frames::default();
    cut.push(&frame(&json!({"a": 1})).expect("a frame")[..9]);
    assert!(cut.take::<Value>().expect("no error yet").is_none());
    let cut = cut.finish().expect_err("it ended in the middle");
    let damaged = unpack::<Value>(b"plain text").expect_err("no zlib");
    let form = unpack::<Reports>(&pack(&json!({"session": "canary"})).expect("packs")).expect_err("no seq");
    let text = [large, bomb, cut, damaged, form].map(|error| error.to_string()).join("\n");
    insta::assert_snapshot!(text, @r"
    a frame has more than 32 MiB; the limit protects the memory of this process
    a decompressed message has more than 0 MiB; the limit protects the memory of this process
    the stream ended in the middle of a frame: 10 bytes are missing
    a body is not compressed by zlib, or it is damaged
    a body has another form than expected (line 1, column 20); are both sides of versions that fit?
    ");
}

#[test]
fn an_encrypted_object_passes_with_its_file_under_a_name_of_both() {
    let file = "data: {}\nsops: {}\n";
    let encrypted = EncryptedWork { file: file.into(), path: "a.yaml".into(), ordinal: 1, content: "both".into() };
    let mut order = order();
    order.manifests = [Desired { encrypted: Some(encrypted), ..order.manifests[0].clone() }].into();
    let whole = WholeOrder::of(&order);
    assert_eq!(whole.order.objects(), BTreeSet::from([&Digest::from("both")]));
    let joined = whole.join().expect("it is whole");
    assert_eq!(joined, order);
    // Encrypted again the object has the same digest, and is fetched again.
    let again = Desired {
        encrypted: Some(EncryptedWork {
            content: "other".into(),
            ..order.manifests[0].encrypted.clone().expect("it is")
        }),
        ..order.manifests[0].clone()
    };
    order.manifests = [again].into();
    assert_ne!(AgentOrder::from(&order).encode().expect("JSON").0, whole.order.encode().expect("JSON").0);
}
