//! The values of one type that somebody holds, each once.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Entries of a shard before it is searched for values that nobody holds any more; from then on whenever it has doubled.
const SEARCHED_FROM: usize = 32;

/// Parts of a pool, each with a lock of its own: two threads seldom wait for each other.
const SHARDS: usize = 64;

/// The values of one type that somebody holds, by the hash of their content.
pub struct Pool<T: ?Sized>([Mutex<Entries<T>>; SHARDS]);

struct Entries<T: ?Sized> {
    by_hash: BTreeMap<u64, Vec<Weak<T>>>,
    searched_at: usize,
}

impl<T: ?Sized> Pool<T> {
    /// Creates an empty pool.
    pub const fn new() -> Self {
        Self([const { Mutex::new(Entries { by_hash: BTreeMap::new(), searched_at: SEARCHED_FROM }) }; SHARDS])
    }

    /// Returns the one copy of a value.
    pub fn share<V: Borrow<T> + Into<Arc<T>>>(&self, value: V) -> Arc<T>
    where
        T: Hash + PartialEq,
    {
        let mut hasher = DefaultHasher::new();
        value.borrow().hash(&mut hasher);
        let hash = hasher.finish();
        let shard = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        // What a panic leaves is whole: a list of values that may be gone.
        let mut entries = self.0[shard].lock().unwrap_or_else(PoisonError::into_inner);
        if entries.by_hash.len() >= entries.searched_at {
            entries.by_hash.retain(|_, held| {
                held.retain(|value| value.strong_count() > 0);
                !held.is_empty()
            });
            entries.searched_at = entries.by_hash.len().saturating_mul(2).max(SEARCHED_FROM);
        }
        let held = entries.by_hash.entry(hash).or_default();
        if let Some(known) = held.iter().filter_map(Weak::upgrade).find(|known| **known == *value.borrow()) {
            return known;
        }
        let value = value.into();
        held.retain(|value| value.strong_count() > 0);
        held.push(Arc::downgrade(&value));
        value
    }
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_while_somebody_holds_them() {
        let pool: Pool<[u8]> = Pool::new();
        let one = pool.share(vec![1, 2]);
        let other = pool.share(vec![1, 2]);
        assert!(Arc::ptr_eq(&one, &other));
        assert!(!Arc::ptr_eq(&one, &pool.share(vec![1])));
        drop((one, other));
        for number in 0..10 * SHARDS * SEARCHED_FROM {
            drop(pool.share(number.to_be_bytes().to_vec()));
        }
        for shard in &pool.0 {
            let entries = shard.lock().expect("nobody panicked").by_hash.len();
            assert!(entries <= SEARCHED_FROM, "{entries}: what nobody holds goes");
        }
    }
}
