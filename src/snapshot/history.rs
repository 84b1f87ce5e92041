//! Snapshots as values: what a frozen selection consists of, when it is a new one, and how its parts are called.

use crate::model::id::{Digest, PlacementKey};
use crate::model::manifest::Manifest;
use crate::model::records::{SnapshotResource, snapshot_name};

use super::hash::fingerprint;

/// Bytes of JSON one part of a snapshot holds at most: what fits into one object of an API server with room to spare.
///
/// Source: KubeFleet's limit of a resource snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 800 * 1024;

/// A selection, hashed and split: what a snapshot record says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// KubeFleet's resource hash.
    pub hash: Digest,
    /// The objects with their digests, in snapshot order.
    pub resources: Vec<SnapshotResource>,
    /// How many objects each part holds; the first is the master.
    pub parts: Vec<usize>,
}

/// Hashes, digests and splits sanitised objects in snapshot order.
pub fn freeze(manifests: &[Manifest]) -> Frozen {
    let fingerprint = fingerprint(manifests);
    let parts = split(fingerprint.objects.iter().map(|(_, size)| *size));
    let resources = manifests.iter().zip(fingerprint.objects).map(|(manifest, (digest, _))| SnapshotResource {
        id: manifest.id.clone(),
        origin: manifest.origin.clone(),
        digest,
    });
    Frozen { hash: fingerprint.hash, resources: resources.collect(), parts }
}

/// Returns how many objects each part of a snapshot holds, given their sizes in bytes: filled in order up to
/// [`SNAPSHOT_BYTES_MAX`]. A larger object has a part of its own; no objects make one empty part.
///
/// Source: KubeFleet, splitting of resource snapshots.
pub fn split(sizes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut parts = Vec::new();
    let (mut objects, mut bytes) = (0_usize, 0_usize);
    for size in sizes {
        if objects > 0 && bytes + size > SNAPSHOT_BYTES_MAX {
            parts.push(objects);
            (objects, bytes) = (0, 0);
        }
        objects += 1;
        bytes += size;
    }
    parts.push(objects);
    parts
}

/// What a hash means for the snapshots there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The newest snapshot has this hash.
    Keep(u64),
    /// A new snapshot.
    Create {
        /// Its index: one above the newest, 0 for the first.
        index: u64,
        /// Indexes beyond the history limit, oldest first.
        prune: Vec<u64>,
    },
}

/// Returns whether a hash needs a new snapshot, and which old ones then go; the rule is one for resource and policy
/// snapshots.
///
/// `existing` holds index and hash of the snapshots there are, in any order; only the newest is compared, so going back
/// to older content is a new snapshot. With the new one at most `limit` (`revisionHistoryLimit`) remain. A snapshot to be
/// pruned may still be named by a binding: the caller keeps such a record until no binding names it.
///
/// Source: KubeFleet, life cycles of both snapshot kinds; without its delay before a new resource snapshot, because a
/// commit is atomic.
pub fn next_snapshot(existing: &[(u64, Digest)], hash: &Digest, limit: i32) -> Next {
    let Some((newest, newest_hash)) = existing.iter().max_by_key(|(index, _)| *index) else {
        return Next::Create { index: 0, prune: Vec::new() };
    };
    if newest_hash == hash {
        return Next::Keep(*newest);
    }
    let mut indexes: Vec<u64> = existing.iter().map(|(index, _)| *index).collect();
    indexes.sort_unstable();
    let kept = usize::try_from(limit).unwrap_or(0).saturating_sub(1);
    indexes.truncate(indexes.len().saturating_sub(kept));
    Next::Create { index: newest + 1, prune: indexes }
}

/// Returns the names of a resource snapshot's parts: the master's, then those of its sub-snapshots.
pub fn part_names(placement: &PlacementKey, index: u64, parts: usize) -> Vec<String> {
    let subs = (1..parts.max(1)).map(|part| format!("{}-{index}-{}", placement.name, part - 1));
    std::iter::once(snapshot_name(placement, index)).chain(subs).collect()
}

/// Returns the names of the works that a snapshot of so many parts makes on each cluster: `<base>-work`, then `<base>-0`
/// and so on, where the base is the placement's name, `<namespace>.<name>` for a ResourcePlacement.
pub fn work_names(placement: &PlacementKey, parts: usize) -> Vec<String> {
    let base = match &placement.namespace {
        Some(namespace) => format!("{namespace}.{}", placement.name),
        None => placement.name.clone(),
    };
    let subs = (1..parts.max(1)).map(|part| format!("{base}-{}", part - 1));
    std::iter::once(format!("{base}-work")).chain(subs).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::snapshot::tests::manifest;

    fn existing(hashes: &[&str]) -> Vec<(u64, Digest)> {
        (0..).zip(hashes).map(|(index, hash)| (index, Digest::from(*hash))).collect()
    }

    #[test]
    fn example_34_nothing_selected_is_one_empty_master() {
        let frozen = freeze(&[]);
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
        let frozen = freeze(&objects);
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
}
