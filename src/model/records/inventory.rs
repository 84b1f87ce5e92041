//! The observed objects of a placement on a member, and whether they are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::ObjectKey;
use crate::shared::{Pool, Pooled, Shared};

/// Kinds that a complaint names; the rest is counted.
const NAMED_KINDS_MAX: usize = 3;

/// The objects on a member that carry a placement's inventory label.
///
/// A type and not a set, because an incomplete set looks like one with fewer objects: an object missing in an unknown inventory
/// may exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Inventory {
    /// Every kind was listed completely: exactly these objects.
    Known(Shared<BTreeSet<ObjectKey>>),
    /// Some kind was not: these objects, and perhaps others.
    Unknown(Glimpse),
}

/// The observed part of an incomplete inventory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Glimpse {
    /// The observed objects.
    #[serde(default)]
    pub seen: BTreeSet<ObjectKey>,
    /// Why a kind was not listed, as text for users, by `Kind.group`. Empty if the member was never observed.
    #[serde(default)]
    pub unlisted: BTreeMap<String, String>,
}

impl Default for Inventory {
    /// The inventory of a member that was never observed.
    fn default() -> Self {
        Self::Unknown(Glimpse::default())
    }
}

impl FromIterator<ObjectKey> for Inventory {
    /// Creates a complete inventory.
    fn from_iter<T: IntoIterator<Item = ObjectKey>>(objects: T) -> Self {
        Self::Known(objects.into_iter().collect::<BTreeSet<_>>().into())
    }
}

// By hand, because an untagged enum is read twice, and a set that is filled one by one compares every name with many.
impl<'de> Deserialize<'de> for Inventory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Inventory;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects, or what is known of an incomplete one")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<Inventory, A::Error> {
                let mut all: Vec<ObjectKey> = Vec::new();
                while let Some(object) = objects.next_element()? {
                    all.push(object);
                }
                Ok(all.into_iter().collect())
            }

            fn visit_map<A: MapAccess<'de>>(self, glimpse: A) -> Result<Inventory, A::Error> {
                Glimpse::deserialize(MapAccessDeserializer::new(glimpse)).map(Inventory::Unknown)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Pooled for BTreeSet<ObjectKey> {
    fn pool() -> &'static Pool<Self> {
        static POOL: Pool<BTreeSet<ObjectKey>> = Pool::new();
        &POOL
    }
}

impl Inventory {
    /// Returns the objects if they are complete.
    pub fn known(&self) -> Option<&BTreeSet<ObjectKey>> {
        match self {
            Self::Known(objects) => Some(objects),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the observed objects. Others may exist: a missing one is not known to be gone.
    pub fn seen(&self) -> &BTreeSet<ObjectKey> {
        match self {
            Self::Known(objects) => objects,
            Self::Unknown(glimpse) => &glimpse.seen,
        }
    }

    /// Tells whether the inventory is complete and empty.
    pub fn is_known_empty(&self) -> bool {
        self.known().is_some_and(BTreeSet::is_empty)
    }

    /// Returns why the inventory is unknown, as text for users; `None` if it is complete.
    pub fn complaint(&self) -> Option<String> {
        let Self::Unknown(glimpse) = self else { return None };
        let said = glimpse.unlisted.iter().take(NAMED_KINDS_MAX);
        let mut said: Vec<String> = said.map(|(kind, why)| format!("{kind}: {why}")).collect();
        let more = glimpse.unlisted.len().saturating_sub(NAMED_KINDS_MAX);
        if more > 0 {
            said.push(format!("{more} more kinds"));
        }
        if said.is_empty() {
            said.push("nobody has checked yet".to_owned());
        }
        Some(format!("what it holds is not known, so nothing is deleted there ({})", said.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_of_before_is_known_and_an_unknown_one_says_why() {
        let key = json!({"group": "", "kind": "ConfigMap", "namespace": "n", "name": "a"});
        let before: Inventory = serde_json::from_value(json!([key])).expect("a list of objects");
        assert_eq!(before.known().map(BTreeSet::len), Some(1));
        assert_eq!(before.complaint(), None);
        let unlisted = BTreeMap::from([("Secret".to_owned(), "403 Forbidden".to_owned())]);
        let unknown = Inventory::Unknown(Glimpse { seen: before.seen().clone(), unlisted });
        assert!(unknown.known().is_none() && !unknown.is_known_empty());
        let said = unknown.complaint().expect("it says why");
        assert!(said.contains("Secret: 403 Forbidden"), "{said}");
        let again: Inventory = serde_json::from_value(serde_json::to_value(&unknown).expect("JSON")).expect("JSON");
        assert_eq!(again, unknown);
        assert_eq!(Inventory::default().known(), None, "nobody has looked: that is not empty");
    }
}
