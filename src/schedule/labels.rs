//! An index of labels: finds the items that a selector matches without visiting each.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use model::api::placement::{LabelSelector, LabelSelectorOperator};

/// Slots kept as a list; a value that more items share gets a bit per item. A label with a different value on every item would
/// otherwise need quadratic memory.
const LISTED_MAX: usize = 32;

/// A set of slots, small where it holds few.
#[derive(Clone, Debug)]
pub(super) enum Slots {
    /// Sorted.
    Few(Vec<usize>),
    /// A bit for each.
    Many(FixedBitSet),
}

impl Default for Slots {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Slots {
    /// Adds a slot of `len`.
    pub(crate) fn insert(&mut self, slot: usize, len: usize) {
        match self {
            Self::Few(list) => {
                let Err(at) = list.binary_search(&slot) else { return };
                list.insert(at, slot);
                if list.len() > LISTED_MAX {
                    let mut bits = FixedBitSet::with_capacity(len);
                    bits.extend(list.iter().copied());
                    *self = Self::Many(bits);
                }
            }
            Self::Many(bits) => bits.insert(slot),
        }
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, slot: usize) {
        match self {
            Self::Few(list) => list.retain(|&other| other != slot),
            Self::Many(bits) => bits.set(slot, false),
        }
    }

    /// Tells whether it holds none.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(bits) => bits.is_clear(),
        }
    }

    /// Adds its slots to a bit set of all items.
    pub(crate) fn add_to(&self, set: &mut FixedBitSet) {
        match self {
            Self::Few(list) => list.iter().for_each(|&slot| set.insert(slot)),
            Self::Many(bits) => set.union_with(bits),
        }
    }

    /// Removes its slots from a bit set of all items.
    pub(crate) fn take_from(&self, set: &mut FixedBitSet) {
        match self {
            Self::Few(list) => list.iter().for_each(|&slot| set.set(slot, false)),
            Self::Many(bits) => set.difference_with(bits),
        }
    }

    /// Calls `each` with every slot.
    pub(crate) fn for_each(&self, each: impl FnMut(usize)) {
        match self {
            Self::Few(list) => list.iter().copied().for_each(each),
            Self::Many(bits) => bits.ones().for_each(each),
        }
    }
}

/// The items with a label, by value.
#[derive(Clone, Debug, Default)]
struct LabelHolders {
    any: Slots,
    values: BTreeMap<String, Slots>,
}

/// The labels of a fixed number of items, which are numbered from zero: their slots.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    slots: Vec<BTreeMap<String, String>>,
    keys: BTreeMap<String, LabelHolders>,
}

impl Labels {
    /// Creates an index of `len` items without labels.
    pub fn new(len: usize) -> Self {
        Self { slots: vec![BTreeMap::new(); len], keys: BTreeMap::new() }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Tells whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Replaces the labels of an item.
    pub fn set(&mut self, slot: usize, labels: &BTreeMap<String, String>) {
        let len = self.slots.len();
        let before = std::mem::take(&mut self.slots[slot]);
        for (key, value) in before.iter().filter(|(key, value)| labels.get(*key) != Some(*value)) {
            let Some(found) = self.keys.get_mut(key) else { continue };
            if let Some(slots) = found.values.get_mut(value) {
                slots.remove(slot);
                if slots.is_empty() {
                    found.values.remove(value);
                }
            }
            if !labels.contains_key(key) {
                found.any.remove(slot);
            }
            // If the key returns with another value, the loop below creates it again.
            if found.values.is_empty() {
                self.keys.remove(key);
            }
        }
        for (key, value) in labels.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
            let found = self.keys.entry(key.clone()).or_default();
            found.any.insert(slot, len);
            found.values.entry(value.clone()).or_default().insert(slot, len);
        }
        self.slots[slot].clone_from(labels);
    }

    /// Returns the labels of an item.
    pub fn get(&self, slot: usize) -> &BTreeMap<String, String> {
        &self.slots[slot]
    }

    /// Returns the items that a selector matches, as a bit set: the same result as [`LabelSelector::matches`] for each item.
    pub fn matching(&self, selector: &LabelSelector) -> FixedBitSet {
        let mut found = all(self.len());
        for (key, value) in &selector.match_labels {
            found.intersect_with(&self.having(key, std::slice::from_ref(value)));
        }
        for requirement in &selector.match_expressions {
            let key = &requirement.key;
            match &requirement.operator {
                LabelSelectorOperator::In => found.intersect_with(&self.having(key, &requirement.values)),
                LabelSelectorOperator::NotIn => found.difference_with(&self.having(key, &requirement.values)),
                LabelSelectorOperator::Exists => found.intersect_with(&self.with_key(key)),
                LabelSelectorOperator::DoesNotExist => found.difference_with(&self.with_key(key)),
                LabelSelectorOperator::Unknown(_) => found.clear(),
            }
        }
        found
    }

    /// Calls `each` with every value of a label and an item with it, value by value.
    pub fn for_each_value(&self, key: &str, mut each: impl FnMut(&str, usize)) {
        for (value, slots) in self.keys.get(key).into_iter().flat_map(|key| &key.values) {
            slots.for_each(|slot| each(value, slot));
        }
    }

    fn having(&self, key: &str, values: &[String]) -> FixedBitSet {
        let mut found = FixedBitSet::with_capacity(self.len());
        if let Some(key) = self.keys.get(key) {
            values.iter().filter_map(|value| key.values.get(value)).for_each(|slots| slots.add_to(&mut found));
        }
        found
    }

    fn with_key(&self, key: &str) -> FixedBitSet {
        let mut found = FixedBitSet::with_capacity(self.len());
        if let Some(key) = self.keys.get(key) {
            key.any.add_to(&mut found);
        }
        found
    }
}

/// Returns the set of all slots.
pub(super) fn all(len: usize) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(len);
    set.insert_range(..);
    set
}

#[cfg(test)]
mod tests;
