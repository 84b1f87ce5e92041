//! The checks of a stage and what was seen of them, and the queries that ask.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::api::stage_checks::{Checks, MetricCheck};
use crate::id::PlacementKey;

/// Significant digits of a number that is shown.
const DIGITS_SHOWN: usize = 6;

/// The checks of a stage, frozen with its run, and their state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChecksRecord {
    /// What the strategy says.
    pub given: Checks,
    /// Since when the stage waits for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
    /// When they held, and the stage was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Timestamp>,
    /// Since when the stage waits and all its clusters are available; absent while one is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Timestamp>,
    /// The state of each metric, by name; empty before the stage waits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricState>,
}

impl ChecksRecord {
    /// Returns checks that nobody has asked yet.
    pub fn new(given: Checks) -> Self {
        Self { given, asked_at: None, done_at: None, healthy_since: None, metrics: BTreeMap::new() }
    }

    /// Returns when the clusters have been available for long enough; `None` if that is not asked, or one is not available.
    pub fn healthy_at(&self) -> Option<Timestamp> {
        let wait = SignedDuration::try_from(self.given.healthy()?).unwrap_or(SignedDuration::MAX);
        Some(self.healthy_since?.checked_add(wait).unwrap_or(Timestamp::MAX))
    }

    /// Returns the metrics with their state; `None` before the stage waits.
    pub fn metrics(&self) -> impl Iterator<Item = (&MetricCheck, Option<&MetricState>)> {
        self.given.metrics.iter().map(|check| (check, self.metrics.get(&check.name)))
    }
}

/// What was answered to the query of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricState {
    /// Since when it is asked: the stage began to wait, or a person said retry.
    pub asked_since: Timestamp,
    /// The last answer since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<MetricAnswer>,
    /// The first answer outside the limits that no answer within them has followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<MetricAnswer>,
    /// Why the last request had no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl MetricState {
    /// Returns the state of a metric that is asked from now on.
    pub fn asked(since: Timestamp) -> Self {
        Self { asked_since: since, answer: None, failed: None, problem: None }
    }
}

/// One answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricAnswer {
    /// When it came.
    pub at: Timestamp,
    /// The number; always finite.
    pub value: f64,
}

/// A query to be asked again and again while its stage waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricQuery {
    /// The placement.
    pub placement: PlacementKey,
    /// The run.
    pub run: String,
    /// The stage.
    pub stage: String,
    /// The name of the check.
    pub metric: String,
    /// As [`MetricState::asked_since`]: another instant is another query, asked at once.
    pub since: Timestamp,
    /// The server, by its name in the configuration.
    pub server: String,
    /// The query in PromQL.
    pub query: String,
}

/// What a server said to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricReply {
    /// When.
    pub at: Timestamp,
    /// A finite number, or why there is none, as text for users.
    pub value: Result<f64, String>,
}

/// The Prometheus servers of the configuration, and how often each is asked a query.
pub type MetricServers = BTreeMap<String, Duration>;

/// Returns a number as users see it: a few significant digits, and none that say nothing.
pub fn number_text(value: f64) -> String {
    let rounded: f64 = format!("{value:.*e}", DIGITS_SHOWN - 1).parse().unwrap_or(value);
    let is_plain = rounded == 0.0 || (1e-4..1e9).contains(&rounded.abs());
    if is_plain { rounded.to_string() } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let table = [
            (0.0, "0"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.3"),
            (0.010_04, "0.01004"),
            (0.001_342_281_879_194_630_8, "0.00134228"),
            (123_456_789.0, "123457000"),
            (1e-9, "1e-9"),
            (f64::MAX, "1.79769e308"),
        ];
        for (value, expected) in table {
            assert_eq!(number_text(value), expected);
        }
    }
}
