//! Whole numbers as text in JSON: readers of JSON round numbers of more than 53 bits.

use serde::{Deserialize, Deserializer, Serializer};

/// Writes a number as text.
pub(super) fn serialize<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Reads a number from text.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// The same for a map of numbers.
pub(super) mod map {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Writes each number as text.
    pub(in crate::facts) fn serialize<S: Serializer>(
        numbers: &BTreeMap<String, u128>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(numbers.iter().map(|(name, number)| (name, number.to_string())))
    }

    /// Reads each number from text.
    pub(in crate::facts) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, u128>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
        let parsed = texts.into_iter().map(|(name, text)| Ok((name, text.parse()?)));
        parsed.collect::<Result<_, std::num::ParseIntError>>().map_err(serde::de::Error::custom)
    }
}
