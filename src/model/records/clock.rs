//! The stored clock reading.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The time, and what tells after a restart how much time has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockReading {
    /// The time that records were written with.
    pub at: Timestamp,
    /// The id of the machine's boot; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The uptime of the machine.
    #[serde(default)]
    pub up: Duration,
    /// The time by the clock of the database that daemons share: read after `at` where the reading is stored, and before `at` where a
    /// process begins. Absent where the store has one daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Timestamp>,
}
