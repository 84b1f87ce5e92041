//! Objects before and after a change, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::id::ObjectKey;
use model::work::Desired;

/// An object, with its digests before and after.
pub(super) type Changed = (Arc<ObjectKey>, [String; 2]);

/// An object as it was or as most clusters get it, and as some get it; `None` if they do not have it.
pub(super) type Pair = (Option<Desired>, Option<Desired>);

/// Returns the key of the object of a pair.
pub(super) fn key_of(pair: &Pair) -> Option<&Arc<ObjectKey>> {
    pair.0.as_ref().or(pair.1.as_ref()).map(|one| &one.key)
}

/// Returns the object of a pair with the digests of its contents: equal for clusters where the same changes.
pub(super) fn changed(pair: &Pair) -> Option<Changed> {
    Some((key_of(pair)?.clone(), [digest(pair.0.as_ref()), digest(pair.1.as_ref())]))
}

fn digest(desired: Option<&Desired>) -> String {
    desired.map(|desired| desired.digest.to_string()).unwrap_or_default()
}

/// Returns objects by their keys.
pub(super) fn by_key(objects: &[Desired]) -> BTreeMap<Arc<ObjectKey>, Desired> {
    objects.iter().map(|desired| (Arc::clone(&desired.key), desired.clone())).collect()
}

/// Returns the objects that differ, in their order.
pub(super) fn pairs(old: &Arc<[Desired]>, new: &Arc<[Desired]>) -> Vec<Pair> {
    if Arc::ptr_eq(old, new) {
        return Vec::new();
    }
    let mut before = by_key(old);
    let mut after = by_key(new);
    let keys = old.iter().chain(new.iter()).map(|one| &one.key);
    let pairs = keys.map(|key| (before.remove(key), after.remove(key)));
    pairs.filter(|(old, new)| !is_same(old.as_ref(), new.as_ref())).collect()
}

fn is_same(one: Option<&Desired>, other: Option<&Desired>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.id == other.id && one.digest == other.digest,
        (None, None) => true,
        _ => false,
    }
}

/// Returns what changes of a cluster's objects, except what changes so for clusters without overrides. Each side is what those hold, and
/// what this one does.
pub(super) fn own_changes(
    (plain, held): (&Arc<[Desired]>, &Arc<[Desired]>),
    (common, made): (&Arc<[Desired]>, &Arc<[Desired]>),
) -> Vec<Pair> {
    if Arc::ptr_eq(plain, held) && Arc::ptr_eq(common, made) {
        return Vec::new();
    }
    let mut changes = pairs(held, made);
    changes.retain(|pair| {
        let Some(key) = key_of(pair) else { return false };
        !is_same(pair.0.as_ref(), named(plain, key)) || !is_same(pair.1.as_ref(), named(common, key))
    });
    changes
}

fn named<'a>(objects: &'a [Desired], key: &ObjectKey) -> Option<&'a Desired> {
    objects.iter().find(|desired| *desired.key == *key)
}
