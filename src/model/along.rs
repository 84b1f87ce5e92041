//! Looking things up in the order they stand in.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;

/// Looks keys up in a sorted map: one after the other where they come in its order, else from its root.
///
/// Bindings stand in the order of their names, which begin with those of their clusters, so nearly always the next binding's
/// cluster is the next of what is known of clusters. Any other order costs time and changes no answer.
pub struct Along<'a, K, V> {
    map: &'a BTreeMap<K, V>,
    ahead: Peekable<Range<'a, K, V>>,
    /// The key before those ahead; none while all are.
    behind: Option<&'a K>,
}

impl<'a, K: Ord, V> Along<'a, K, V> {
    /// Begins at the first key.
    pub fn new(map: &'a BTreeMap<K, V>) -> Self {
        Self { map, ahead: map.range(..).peekable(), behind: None }
    }

    /// Returns the value of a key.
    pub fn get(&mut self, key: &K) -> Option<&'a V> {
        if self.behind.is_none_or(|behind| behind < key) {
            for _ in 0..STEPS_MAX {
                // A larger key next, or none, means that the map does not have this one.
                let (next, value) = self.ahead.peek().copied().filter(|(next, _)| *next <= key)?;
                self.behind = Some(next);
                self.ahead.next();
                if next == key {
                    return Some(value);
                }
            }
        }
        let (found, value) = self.map.get_key_value(key)?;
        self.ahead = self.map.range((Bound::Excluded(found), Bound::Unbounded)).peekable();
        self.behind = Some(found);
        Some(value)
    }
}

/// Keys that are skipped before the map is asked from its root.
const STEPS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_order_finds_what_the_map_has(
            keys in proptest::collection::btree_set(0..40_u8, 0..30),
            wanted in proptest::collection::vec(0..40_u8, 0..60),
            sorted: bool,
        ) {
            let map: BTreeMap<u8, u8> = keys.into_iter().map(|key| (key, key + 100)).collect();
            let mut wanted = wanted;
            if sorted {
                wanted.sort_unstable();
            }
            let mut along = Along::new(&map);
            for key in wanted {
                prop_assert_eq!(along.get(&key), map.get(&key));
            }
        }
    }
}
