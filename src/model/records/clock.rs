//! What is remembered of time.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The time, and what tells after a restart how much has passed since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockReading {
    /// The time that records were written with.
    pub at: Timestamp,
    /// Names one start of the machine; absent where it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// For how long the machine was up.
    #[serde(default)]
    pub up: Duration,
}
