//! Snapshots: the contents of a frozen selection, when it is a new snapshot, and the names of its parts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use model::encrypted::is_of_encrypted;
use model::id::{BlobId, CommitId, Digest, ObjectId, PlacementKey};
use model::manifest::Manifest;
use model::records::{ResourceSnapshot, SnapshotResource, snapshot_name};
use model::variants::{ClusterField, ClusterInputs, SnapshotVariant, SnapshotVariants};

use super::hash::{fingerprint, value_digest};

/// The greatest size of one part in bytes of JSON: it fits into one object of an API server with room to spare.
///
/// Source: KubeFleet's limit of a resource snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 800 * 1024;

/// A selection, hashed and split: the data of a snapshot record.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// KubeFleet's resource hash.
    pub hash: Digest,
    /// The objects with their digests, in snapshot order.
    pub resources: Vec<SnapshotResource>,
    /// The number of objects in each part; the first is the master.
    pub parts: Vec<usize>,
    /// What clusters get instead, where it was rendered for clusters.
    pub variants: Option<SnapshotVariants>,
}

/// Hashes, digests and splits sanitised objects in snapshot order. `known` is an earlier snapshot: an encrypted object has the same digest
/// as there while its file is the same, whether or not it can be decrypted now.
pub fn freeze(manifests: &[Manifest], known: Option<&ResourceSnapshot>) -> Frozen {
    let known: BTreeMap<(&BlobId, u32, &ObjectId), &Digest> = known
        .into_iter()
        .flat_map(|snapshot| &snapshot.resources)
        .filter(|resource| is_of_encrypted(resource.digest.as_str()))
        .map(|resource| ((&resource.origin.blob, resource.origin.ordinal, &resource.id), &resource.digest))
        .collect();
    let fingerprint = fingerprint(manifests, |manifest| {
        known.get(&(&manifest.origin.blob, manifest.origin.ordinal, &manifest.id)).copied().cloned()
    });
    let parts = split(fingerprint.objects.iter().map(|(_, size)| *size));
    let resources = manifests.iter().zip(fingerprint.objects).map(|(manifest, (digest, _))| SnapshotResource {
        id: manifest.id.clone(),
        origin: manifest.origin.clone(),
        digest,
    });
    Frozen { hash: fingerprint.hash, resources: resources.collect(), parts, variants: None }
}

/// Adds what clusters get instead, by inputs: their sanitised objects in snapshot order.
///
/// The hash is that of `newest` where nothing changes for clusters that both are about: a cluster with other inputs brings a variant and
/// no snapshot, because the others would be rolled out again without a difference.
pub fn freeze_variants(
    frozen: Frozen,
    reads: BTreeSet<ClusterField>,
    variants: &[(ClusterInputs, Vec<Manifest>)],
    commit: &CommitId,
    newest: Option<&ResourceSnapshot>,
) -> Frozen {
    let made: Vec<SnapshotVariant> = variants
        .iter()
        .map(|(inputs, manifests)| {
            let resources = freeze(manifests, None).resources;
            SnapshotVariant::between(&frozen.resources, inputs.clone(), commit.clone(), &resources)
        })
        .collect();
    let variants = SnapshotVariants { reads, made };
    let hash = match newest.filter(|newest| is_same(newest, &frozen, &variants)) {
        Some(newest) => newest.hash.clone(),
        None => hash_of_variants(&frozen.hash, &variants),
    };
    Frozen { hash, variants: Some(variants), ..frozen }
}

/// Tells whether a snapshot has these objects, and the same for all inputs that both have.
fn is_same(known: &ResourceSnapshot, frozen: &Frozen, variants: &SnapshotVariants) -> bool {
    let Some(before) = known.variants.as_ref().filter(|before| before.reads == variants.reads) else { return false };
    if known.resources.len() != frozen.resources.len() {
        return false;
    }
    let mut pairs = known.resources.iter().zip(&frozen.resources);
    if pairs.any(|(old, new)| old.id != new.id || old.digest != new.digest) {
        return false;
    }
    let mut both = before.made.iter().filter_map(|old| Some((old, variants.of(&old.inputs)?))).peekable();
    // Where nothing can be compared it is another snapshot, unless one of them is about no cluster at all.
    let is_comparable = both.peek().is_some() || before.made.is_empty() || variants.made.is_empty();
    is_comparable && both.all(|(old, new)| old.is_like(new))
}

fn hash_of_variants(base: &Digest, variants: &SnapshotVariants) -> Digest {
    let made: Vec<Value> = variants
        .made
        .iter()
        .map(|variant| {
            let objects = variant.resources.iter().map(|one| json!([one.id, one.digest])).collect::<Vec<_>>();
            json!([variant.inputs, objects, variant.without])
        })
        .collect();
    value_digest(&json!([base, variants.reads, made]))
}

/// Returns `known` with the variants that only `frozen` has. A variant that `frozen` lacks is dropped unless `is_needed`. `None` if nothing
/// changes.
pub fn with_variants(
    known: &ResourceSnapshot,
    frozen: &Frozen,
    is_needed: impl Fn(&ClusterInputs) -> bool,
) -> Option<ResourceSnapshot> {
    let before = known.variants.as_ref()?;
    let now = frozen.variants.as_ref()?;
    // One that is there stays: its results are kept with its commit.
    let kept = before.made.iter().filter(|old| now.of(&old.inputs).is_some() || is_needed(&old.inputs));
    let mut made: Vec<SnapshotVariant> = kept.cloned().collect();
    made.extend(now.made.iter().filter(|new| before.of(&new.inputs).is_none()).cloned());
    made.sort_by(|a, b| a.inputs.cmp(&b.inputs));
    if made == before.made {
        return None;
    }
    let variants = Some(SnapshotVariants { reads: before.reads.clone(), made });
    Some(ResourceSnapshot { variants, ..known.clone() })
}

/// Returns the number of objects in each part of a snapshot, from their sizes in bytes: filled in order up to
/// [`SNAPSHOT_BYTES_MAX`]. A larger object has a part of its own; a snapshot without objects has one empty part.
///
/// Source: KubeFleet, splitting of resource snapshots.
pub fn split(sizes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut parts = Vec::new();
    let mut objects = 0_usize;
    let mut bytes = 0_usize;
    for size in sizes {
        if objects > 0 && bytes + size > SNAPSHOT_BYTES_MAX {
            parts.push(objects);
            objects = 0;
            bytes = 0;
        }
        objects += 1;
        bytes += size;
    }
    parts.push(objects);
    parts
}

/// Tells whether the same objects stand in other files: somebody encrypted them again.
pub fn is_encrypted_again(known: &[SnapshotResource], now: &[SnapshotResource]) -> bool {
    let mut pairs = known.iter().zip(now);
    pairs.any(|(old, new)| is_of_encrypted(new.digest.as_str()) && old.origin.blob != new.origin.blob)
}

/// How a hash relates to the existing snapshots.
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

/// Returns whether a hash needs a new snapshot, and which old ones are then pruned; the rule is the same for resource and
/// policy snapshots.
///
/// `existing` holds index and hash of the existing snapshots, in any order; only the newest is compared, so a return to older
/// content is a new snapshot. With the new one at most `limit` (`revisionHistoryLimit`) remain. A binding may still name a
/// pruned snapshot: the caller keeps such a record until no binding names it.
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
    // The new snapshot counts too.
    let kept = usize::try_from(limit).unwrap_or(0).saturating_sub(1);
    indexes.truncate(indexes.len().saturating_sub(kept));
    Next::Create { index: newest + 1, prune: indexes }
}

/// Returns the names of a resource snapshot's parts: the master's, then those of its sub-snapshots.
pub fn part_names(placement: &PlacementKey, index: u64, parts: usize) -> Vec<String> {
    let subs = (1..parts.max(1)).map(|part| format!("{}-{index}-{}", placement.name, part - 1));
    std::iter::once(snapshot_name(placement, index)).chain(subs).collect()
}

/// Returns the names of the works on each cluster for a snapshot with so many parts: `<base>-work`, then `<base>-0` and so on,
/// where the base is the placement's name, `<namespace>.<name>` for a ResourcePlacement.
pub fn work_names(placement: &PlacementKey, parts: usize) -> Vec<String> {
    let base = match &placement.namespace {
        Some(namespace) => format!("{namespace}.{}", placement.name),
        None => placement.name.clone(),
    };
    let subs = (1..parts.max(1)).map(|part| format!("{base}-{}", part - 1));
    std::iter::once(format!("{base}-work")).chain(subs).collect()
}

#[cfg(test)]
mod tests;
