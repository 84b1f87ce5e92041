//! Texts of which the process has one copy.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Pooled as _;

/// A text of which the process has one copy: equal texts have the same address, so comparing and hashing two of them reads no text. Only
/// the order of different texts does.
#[derive(Clone)]
pub struct Interned(Arc<str>);

impl Interned {
    /// Tells whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Interned {
    fn from(text: &str) -> Self {
        Self(str::pool().share(text))
    }
}

impl From<String> for Interned {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Default for Interned {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for Interned {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Interned {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Interned {}

impl PartialEq<str> for Interned {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Interned {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<String> for Interned {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl Ord for Interned {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Interned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Interned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

impl fmt::Display for Interned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Interned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Interned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Interned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'_, str>::deserialize(deserializer).map(|text| text.as_ref().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_copy_and_are_ordered_as_texts() {
        let [one, same, other] = ["b".to_owned(), "b".to_owned(), "a".to_owned()].map(Interned::from);
        assert!(one == same && one.as_ptr() == same.as_ptr() && one != other);
        assert!(other < one && one.cmp(&same).is_eq());
        assert_eq!(serde_json::from_str::<Interned>("\"\\u0062\"").expect("a text"), one);
    }
}
