//! Values that are in memory once, however many hold them: equal reports of a thousand members take the memory of one.
//!
//! Sharing is invisible: two values are equal if their contents are, and a change makes a copy of its own.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod interned;
mod pool;

pub use interned::Interned;
pub use pool::Pool;

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

    /// Returns a reference that does not keep the value.
    pub fn downgrade(&self) -> Weak<T> {
        Arc::downgrade(&self.0)
    }

    /// Returns the value that a reference of [`Shared::downgrade`] leads to, while somebody keeps it.
    pub fn upgrade(value: &Weak<T>) -> Option<Self> {
        value.upgrade().map(Self)
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

impl Pooled for str {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<str> = Pool::new();
        &POOL
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
