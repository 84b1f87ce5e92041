//! Values that are in memory once, however many hold them: equal reports of a thousand members take the memory of one.
//!
//! Sharing is invisible: two values are equal if their contents are, and a change makes a copy of its own.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Entries of a pool before it is searched for values that nobody holds any more; from then on whenever it has doubled.
const SEARCHED_FROM: usize = 1024;

/// The values of one type that somebody holds, by the hash of their content.
pub struct Pool<T: ?Sized>(Mutex<Entries<T>>);

struct Entries<T: ?Sized> {
    by_hash: BTreeMap<u64, Vec<Weak<T>>>,
    searched_at: usize,
}

impl<T: ?Sized> Pool<T> {
    /// Creates an empty pool.
    pub const fn new() -> Self {
        Self(Mutex::new(Entries { by_hash: BTreeMap::new(), searched_at: SEARCHED_FROM }))
    }

    /// Returns the one copy of a value.
    pub fn share<V: Borrow<T> + Into<Arc<T>>>(&self, value: V) -> Arc<T>
    where
        T: Hash + PartialEq,
    {
        let mut hasher = DefaultHasher::new();
        value.borrow().hash(&mut hasher);
        // What a panic leaves is whole: a list of values that may be gone.
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.by_hash.len() >= entries.searched_at {
            entries.by_hash.retain(|_, held| {
                held.retain(|value| value.strong_count() > 0);
                !held.is_empty()
            });
            entries.searched_at = entries.by_hash.len().saturating_mul(2).max(SEARCHED_FROM);
        }
        let held = entries.by_hash.entry(hasher.finish()).or_default();
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

/// A type with a pool for the whole process.
pub trait Pooled: Hash + PartialEq + 'static {
    /// Returns its pool.
    fn pool() -> &'static Pool<Self>;
}

/// A value of a pool.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared<T: ?Sized>(Arc<T>);

impl<T: Pooled + ?Sized> Shared<T> {
    /// Returns the one copy of a value.
    pub fn new(value: impl Borrow<T> + Into<Arc<T>>) -> Self {
        Self(T::pool().share(value))
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<[T]> {
    /// Returns the values for a change; other holders keep theirs.
    fn deref_mut(&mut self) -> &mut [T] {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Pooled> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> From<Vec<T>> for Shared<[T]>
where
    [T]: Pooled,
{
    fn from(values: Vec<T>) -> Self {
        Self::new(values)
    }
}

impl<T> FromIterator<T> for Shared<[T]>
where
    [T]: Pooled,
{
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::new(values.into_iter().collect::<Vec<T>>())
    }
}

impl<'a, T> IntoIterator for &'a Shared<[T]> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> Default for Shared<[T]>
where
    [T]: Pooled,
{
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T: ?Sized + Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Pooled + Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<[T]>
where
    [T]: Pooled,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_while_somebody_holds_them() {
        let pool: Pool<[u8]> = Pool::new();
        let (one, other) = (pool.share(vec![1, 2]), pool.share(vec![1, 2]));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(!Arc::ptr_eq(&one, &pool.share(vec![1])));
        drop((one, other));
        for number in 0..10 * SEARCHED_FROM {
            drop(pool.share(number.to_be_bytes().to_vec()));
        }
        let entries = pool.0.lock().expect("nobody panicked").by_hash.len();
        assert!(entries <= SEARCHED_FROM, "{entries}: what nobody holds goes");
    }
}
