//! Where a bot's records are.

use serde::Serialize;

use engine::store::records::{FORGE_PREFIX, put};
use engine::store::{Expected, Op, Result};

/// Where the records of the bots of several sources are, each below the source's name.
const SOURCES: &str = "source/";

/// Where a bot's records are: of several sources each has a bot of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace(String);

impl RecordPlace {
    /// Returns the place of a source's bot; the only source has no name.
    pub(crate) fn of(source: &str) -> Self {
        Self(if source.is_empty() { FORGE_PREFIX.to_owned() } else { format!("{FORGE_PREFIX}{SOURCES}{source}/") })
    }

    /// Returns the key of a record at this place.
    pub(crate) fn key(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Returns the write of a record at this place, or its deletion for `None`.
    pub(crate) fn op<T: Serialize>(&self, path: &str, value: Option<&T>) -> Result<Op> {
        let key = self.key(path);
        match value {
            Some(value) => put(key, value, Expected::Any),
            None => Ok(Op::Delete { key, expected: Expected::Any }),
        }
    }
}
