//! Lookups in sorted order.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;

/// A cursor over a sorted map: finds keys one after the other if they come in its order, else from the root.
///
/// Bindings are sorted by their names, which start with the cluster's name, so usually the next binding's cluster is the next
/// key of a map by cluster. Any other order costs time and changes no result.
pub struct Along<'a, K, V> {
    map: &'a BTreeMap<K, V>,
    ahead: Peekable<Range<'a, K, V>>,
    /// The key before the cursor; none at the start.
    behind: Option<&'a K>,
}

impl<'a, K: Ord, V> Along<'a, K, V> {
    /// Starts at the first key.
    pub fn new(map: &'a BTreeMap<K, V>) -> Self {
        Self { map, ahead: map.range(..).peekable(), behind: None }
    }

    /// Returns the value of a key.
    pub fn get(&mut self, key: &K) -> Option<&'a V> {
        // Usually it is the next one, and telling that is cheaper than an order: interned names are equal by their address.
        if let Some((next, value)) = self.ahead.next_if(|(next, _)| *next == key) {
            self.behind = Some(next);
            return Some(value);
        }
        if self.behind.is_none_or(|behind| behind < key) {
            for _ in 0..STEPS_MAX {
                // A larger next key, or none, means that the map does not have this one.
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

/// Keys to skip before a lookup from the root.
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
