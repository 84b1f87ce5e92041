//! Values by object, found by a hash.
//!
//! A member has thousands of objects whose names begin alike. Comparing such names, once for each level of an ordered map, was two
//! thirds of the processor time of a restart. The order of a hash map changes from run to run, so nothing here returns one.

#![expect(clippy::disallowed_types, reason = "no function returns the order of the map")]

use std::collections::HashMap;
use std::sync::Arc;

use model::id::ObjectKey;

/// Values by object; no function returns them in an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByObject<V>(HashMap<Arc<ObjectKey>, V>);

/// Objects; no function returns them in an order.
pub type ObjectSet = ByObject<()>;

impl<V> Default for ByObject<V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<V> ByObject<V> {
    /// Returns the value of an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&V> {
        self.0.get(key)
    }

    /// Returns the value of an object for a change.
    pub fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Tells whether an object has a value.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.0.contains_key(key)
    }

    /// Gives an object a value; returns the one it had.
    pub fn insert(&mut self, key: Arc<ObjectKey>, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Returns the value of an object for a change; one without a value gets it from `value`.
    pub fn get_or_insert_with(&mut self, key: &Arc<ObjectKey>, value: impl FnOnce() -> V) -> &mut V {
        self.0.entry(Arc::clone(key)).or_insert_with(value)
    }

    /// Takes the value of an object out.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<V> {
        self.0.remove(key)
    }

    /// Drops the objects that are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|key, _| is_wanted(key));
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> FromIterator<(Arc<ObjectKey>, V)> for ByObject<V> {
    fn from_iter<I: IntoIterator<Item = (Arc<ObjectKey>, V)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
