use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::snapshot::tests::manifest;
use model::encrypted::Encrypted;

fn existing(hashes: &[&str]) -> Vec<(u64, Digest)> {
    (0..).zip(hashes).map(|(index, hash)| (index, Digest::from(*hash))).collect()
}

#[test]
fn example_34_nothing_selected_is_one_empty_master() {
    let frozen = freeze(&[], None);
    assert_eq!(frozen.hash.as_str(), "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1");
    assert_eq!((frozen.resources.len(), frozen.parts), (0, vec![0]));
}

#[test]
fn example_35_a_split_selection() {
    let key = PlacementKey::cluster_scoped("p");
    let parts = split([500_000, 300_000, 400_000]);
    assert_eq!(parts, [2, 1]);
    assert_eq!(part_names(&key, 0, parts.len()), ["p-0-snapshot", "p-0-0"]);
    assert_eq!(work_names(&key, parts.len()), ["p-work", "p-0"]);
    assert_eq!(work_names(&PlacementKey::namespaced("app", "web"), 1), ["app.web-work"]);
}

#[test]
fn example_36_an_object_larger_than_a_part() {
    assert_eq!(split([900_000, 10]), [1, 1]);
    assert_eq!(split([10, 900_000, 10]), [1, 1, 1]);
    assert_eq!(split([SNAPSHOT_BYTES_MAX - 1, 1]), [2]);
    assert_eq!(split([SNAPSHOT_BYTES_MAX, 1]), [1, 1]);
}

#[test]
fn example_39_the_oldest_snapshot_goes() {
    let next = next_snapshot(&existing(&["a", "b", "c"]), &"d".into(), 3);
    assert_eq!(next, Next::Create { index: 3, prune: vec![0] });
}

#[test]
fn example_41_going_back_is_a_new_snapshot() {
    let mut history = Vec::new();
    for (hash, index) in [("a", 0), ("b", 1), ("a", 2)] {
        assert_eq!(next_snapshot(&history, &hash.into(), 10), Next::Create { index, prune: vec![] });
        history.push((index, Digest::from(hash)));
        assert_eq!(next_snapshot(&history, &hash.into(), 10), Next::Keep(index));
    }
}

#[test]
fn histories() {
    let rows = [
        ("shorter than the limit", existing(&["a", "b"]), 3, 2, vec![]),
        ("a limit of one keeps the new one", existing(&["a", "b"]), 1, 2, vec![0, 1]),
        ("a lowered limit", existing(&["a", "b", "c", "e"]), 2, 4, vec![0, 1, 2]),
        ("unsorted, with a gap", vec![(7, "b".into()), (3, "a".into())], 2, 8, vec![3]),
    ];
    for (name, history, limit, index, prune) in rows {
        assert_eq!(next_snapshot(&history, &"d".into(), limit), Next::Create { index, prune }, "{name}");
    }
}

#[test]
fn a_frozen_selection_names_each_object_with_its_digest() {
    let objects = [manifest("v1", "Namespace", "", "a"), manifest("v1", "ConfigMap", "a", "b")];
    let frozen = freeze(&objects, None);
    assert_eq!(frozen.parts, [2]);
    assert_eq!(frozen.resources[1].id, objects[1].id);
    assert_eq!(frozen.resources[1].digest, crate::snapshot::object_digest(&objects[1]));
    assert_ne!(frozen.resources[0].digest, frozen.resources[1].digest);
}

proptest! {
    #[test]
    fn parts_hold_all_objects_within_the_limit(sizes in prop::collection::vec(1..SNAPSHOT_BYTES_MAX * 2, 0..40)) {
        let parts = split(sizes.iter().copied());
        prop_assert_eq!(parts.iter().sum::<usize>(), sizes.len());
        let mut rest = &sizes[..];
        for part in parts {
            let (held, next) = rest.split_at(part);
            prop_assert!(part <= 1 || held.iter().sum::<usize>() <= SNAPSHOT_BYTES_MAX);
            rest = next;
        }
    }
}

/// A manifest of an encrypted file in a blob; `values` is the digest of its values, where they are known.
fn encrypted(blob: &str, cipher: &str, values: Option<&str>) -> Manifest {
    let mut manifest = manifest("v1", "Secret", "a", "b");
    let value = format!("ENC[AES256_GCM,data:{cipher}]");
    Arc::make_mut(&mut manifest.object)["data"] = serde_json::json!({"x": value});
    manifest.origin.blob = blob.into();
    manifest.encrypted =
        Some(Encrypted { file: cipher.into(), ordinal: 0, values: values.map(Digest::new), made_of: None });
    manifest
}

#[test]
fn an_encrypted_object_is_the_same_while_its_values_are() {
    let frozen = |manifest: &Manifest, known: Option<&ResourceSnapshot>| freeze(std::slice::from_ref(manifest), known);
    let first = frozen(&encrypted("b1", "1", Some("k")), None);
    let again = frozen(&encrypted("b2", "2", Some("k")), None);
    assert_eq!((&first.hash, &first.resources[0].digest), (&again.hash, &again.resources[0].digest));
    assert!(
        is_encrypted_again(&first.resources, &again.resources)
            && !is_encrypted_again(&first.resources, &first.resources)
    );
    assert_ne!(frozen(&encrypted("b2", "2", Some("l")), None).hash, first.hash, "other values");
    assert_ne!(frozen(&encrypted("b2", "2", None), None).hash, first.hash, "nobody could tell");

    // The same file has the digest that it had, though the key is gone.
    let snapshot = ResourceSnapshot {
        placement: PlacementKey::cluster_scoped("p"),
        index: 0,
        commit: "c".into(),
        changed_sources: Vec::new(),
        encrypted_at: None,
        hash: first.hash.clone(),
        resources: first.resources.clone(),
        parts: first.parts.clone(),
        variants: None,
        created_at: jiff::Timestamp::UNIX_EPOCH,
    };
    assert_eq!(frozen(&encrypted("b1", "1", None), Some(&snapshot)), first);
    assert_ne!(frozen(&encrypted("b3", "3", None), Some(&snapshot)).hash, first.hash, "another file");
    assert!(first.resources[0].digest.as_str().starts_with("sops:"), "members tell by it");
}
