//! The limits of a strategy, resolved to numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use model::api::annotations;
use model::api::annotations::{MAX_FAILURES, PROGRESS_DEADLINE};
use model::api::placement::{IntOrPercent, RollingUpdateConfig};

/// KubeFleet's default for `maxUnavailable` and `maxSurge`.
const LIMIT_DEFAULT: &str = "25%";
/// KubeFleet's default for `unavailablePeriodSeconds`.
const UNAVAILABLE_PERIOD_DEFAULT: Duration = Duration::from_mins(1);

/// An invalid limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value:?}; write {expected}")]
pub struct Error {
    /// The field or annotation.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// The expected form.
    pub expected: &'static str,
}

/// The limits of one placement's rolling update, resolved against its desired number of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The desired number of clusters.
    pub target: usize,
    /// Clusters that the rollout may make unavailable; a percentage is rounded up.
    pub max_unavailable: usize,
    /// Clusters that may be added beyond the target; a percentage is rounded up.
    pub max_surge: usize,
    /// Failed clusters of the current snapshot that do not halt the rollout; a percentage is rounded down, because it promises
    /// a limit.
    pub max_failures: usize,
    /// After this time untrackable objects count as available.
    pub unavailable_period: Duration,
    /// After this time an unavailable cluster counts as failed.
    pub progress_deadline: Duration,
}

impl Limits {
    /// Resolves a strategy's limits and the placement's annotations against `target` clusters, with KubeFleet's defaults
    /// of 25 %, 25 % and 60 s, no failures and a deadline of 10 minutes.
    ///
    /// # Errors
    /// The first value that is neither a number, a percentage nor a duration, as required.
    pub fn resolve(
        config: Option<&RollingUpdateConfig>,
        annotations: &BTreeMap<String, String>,
        target: usize,
    ) -> Result<Self, Error> {
        let config = config.cloned().unwrap_or_default();
        let period = config.unavailable_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Self {
            target,
            max_unavailable: limit("spec.strategy.rollingUpdate.maxUnavailable", config.max_unavailable, target)?,
            max_surge: limit("spec.strategy.rollingUpdate.maxSurge", config.max_surge, target)?,
            max_failures: MaxFailures::read(annotations)?.of(target),
            unavailable_period: period.map_or(UNAVAILABLE_PERIOD_DEFAULT, Duration::from_secs),
            progress_deadline: progress_deadline(annotations)?,
        })
    }
}

/// Resolves a limit against `target` clusters; an absent one is KubeFleet's default.
fn limit(field: &'static str, value: Option<IntOrPercent>, target: usize) -> Result<usize, Error> {
    let value = value.unwrap_or_else(|| IntOrPercent::Text(LIMIT_DEFAULT.to_owned()));
    value.rounded_up(target).ok_or_else(|| Error {
        field,
        value: text(&value),
        expected: "a number from 0 on, or a percentage such as 25%",
    })
}

fn text(value: &IntOrPercent) -> String {
    match value {
        IntOrPercent::Int(number) => number.to_string(),
        IntOrPercent::Text(text) => text.clone(),
    }
}

/// How many clusters may fail before nothing new starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxFailures {
    /// This number.
    Number(usize),
    /// This percentage, 0 to 100; rounded down, because it promises a limit.
    Percent(usize),
}

impl Default for MaxFailures {
    /// The first failed cluster is one too many.
    fn default() -> Self {
        Self::Number(0)
    }
}

impl MaxFailures {
    /// Parses a placement's annotation; absent is the default.
    ///
    /// # Errors
    /// The annotation is neither a number nor a percentage up to 100 %.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, Error> {
        let Some(value) = annotations.get(MAX_FAILURES) else { return Ok(Self::default()) };
        let limit = match value.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(Self::Percent),
            None => value.parse().ok().map(Self::Number),
        };
        limit.ok_or_else(|| Error {
            field: MAX_FAILURES,
            value: value.clone(),
            expected: "a number from 0 on, or a percentage such as 10%",
        })
    }

    /// Returns how many clusters of a number may fail.
    pub fn of(self, clusters: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => percent * clusters / 100,
        }
    }
}

fn progress_deadline(annotations: &BTreeMap<String, String>) -> Result<Duration, Error> {
    annotations::progress_deadline(annotations).map_err(|value| Error {
        field: PROGRESS_DEADLINE,
        value: value.to_owned(),
        expected: "a duration such as 10m or 1h30m",
    })
}
