//! The observed objects of a member: their state, and which placements want them.
//!
//! A fleet has many of them, so identities are shared with the orders, which all members share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::by_object::ByObject;
use super::live::LiveObject;
use model::id::{ObjectKey, PlacementKey};

/// The objects of a member that carry an ApplySet's label, by identity and by ApplySet.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    // Boxed, because a map has room for nearly twice as many as it holds.
    objects: ByObject<Box<LiveObject>>,
    labelled: BTreeMap<Arc<str>, BTreeSet<Arc<ObjectKey>>>,
    namespaces: BTreeSet<Arc<ObjectKey>>,
}

impl Holdings {
    /// Returns an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&LiveObject> {
        self.objects.get(key).map(AsRef::as_ref)
    }

    /// Returns the objects of an ApplySet, in order of their identities.
    pub fn labelled(&self, applyset: &str) -> impl Iterator<Item = (&ObjectKey, &LiveObject)> {
        let keys = self.labelled.get(applyset).into_iter().flatten();
        keys.filter_map(|key| Some((key.as_ref(), self.get(key)?)))
    }

    /// Returns the ApplySets that have objects in a Namespace or of a definition.
    pub fn labels_in(&self, container: &ObjectKey) -> impl Iterator<Item = &str> {
        let there = self.labelled.iter().filter(move |(_, keys)| keys.iter().any(|key| key.is_inside(container)));
        there.map(|(label, _)| label.as_ref())
    }

    /// Returns the names of the Namespaces, in order.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|key| key.name.as_str())
    }

    /// Takes an object in, in the stead of what was known of it. `key` is its identity, shared where somebody has it.
    pub fn insert(&mut self, key: Arc<ObjectKey>, live: LiveObject) {
        let known = self.objects.get_mut(&key);
        match known {
            Some(known) if known.applyset == live.applyset => {
                **known = live;
                return;
            }
            Some(_) => self.unlabel(&key),
            None => {}
        }
        self.labelled.entry(Arc::clone(&live.applyset)).or_default().insert(Arc::clone(&key));
        if key.is_namespace() {
            self.namespaces.insert(Arc::clone(&key));
        }
        self.objects.insert(key, Box::new(live));
    }

    /// Drops an object, and returns its state.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<LiveObject> {
        // First, because the label of the object is read from `objects`.
        self.unlabel(key);
        self.namespaces.remove(key);
        self.objects.remove(key).map(|live| *live)
    }

    /// Drops the objects that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&ObjectKey) -> bool) {
        self.objects.retain(&is_wanted);
        self.namespaces.retain(|key| is_wanted(key));
        self.labelled.retain(|_, keys| {
            keys.retain(|key| is_wanted(key));
            !keys.is_empty()
        });
    }

    fn unlabel(&mut self, key: &ObjectKey) {
        let Some(live) = self.objects.get(key) else { return };
        if let Some(keys) = self.labelled.get_mut(&live.applyset) {
            keys.remove(key);
            if keys.is_empty() {
                self.labelled.remove(&live.applyset);
            }
        }
    }
}

impl FromIterator<LiveObject> for Holdings {
    fn from_iter<T: IntoIterator<Item = LiveObject>>(objects: T) -> Self {
        let mut holdings = Self::default();
        for live in objects {
            holdings.insert(live.key(), live);
        }
        holdings
    }
}

/// Which placements want an object on a member. Objects of the same placements share the list.
#[derive(Clone, Debug, Default)]
pub struct Wanted(ByObject<Arc<[Arc<PlacementKey>]>>);

impl Wanted {
    /// Returns the placements that want an object, in order; nearly always it is one.
    pub fn by(&self, key: &ObjectKey) -> &[Arc<PlacementKey>] {
        self.0.get(key).map_or(&[], AsRef::as_ref)
    }

    /// Records that a placement wants an object; `placement` is a list of it alone.
    pub fn insert(&mut self, key: &Arc<ObjectKey>, placement: &Arc<[Arc<PlacementKey>]>) {
        let placements = self.0.get_or_insert_with(key, || Arc::clone(placement));
        for placement in placement.iter() {
            if let Err(position) = placements.binary_search(placement) {
                let mut more = placements.to_vec();
                more.insert(position, Arc::clone(placement));
                *placements = more.into();
            }
        }
    }

    /// Records that a placement no longer wants an object.
    pub fn remove(&mut self, key: &ObjectKey, placement: &PlacementKey) {
        let Some(placements) = self.0.get_mut(key) else { return };
        let others: Vec<_> = placements.iter().filter(|other| other.as_ref() != placement).cloned().collect();
        if others.is_empty() {
            self.0.remove(key);
        } else if others.len() < placements.len() {
            *placements = others.into();
        }
    }
}

#[cfg(test)]
mod tests;
