//! Checks of stages: what must hold, beside a stage's tasks, before the next stage begins. KubeFleet's API has no field for
//! them, so a strategy carries them in an annotation.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::annotations::STAGE_CHECKS;
use super::check::{self, FieldError, count, unique};
use super::staged::StagedUpdateStrategySpec;
use crate::text::suggest;
use crate::yaml;

/// Metrics of one stage.
pub const METRICS_MAX: usize = 5;
/// Bytes of one query.
pub const QUERY_BYTES_MAX: usize = 4096;

/// The checks of a strategy, by the name of their stage.
pub type StageChecks = BTreeMap<String, Checks>;

/// The checks of one stage. All of them must hold at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checks {
    /// How long the clusters of the stage must be available without interruption, as Go writes durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_for: Option<String>,
    /// Queries whose answers must be within limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricCheck>,
}

/// A query and the limits of its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetricCheck {
    /// Its name, unique in its stage.
    pub name: String,
    /// The Prometheus server, by its name in the configuration; absent means the only one there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The query in PromQL. Its answer is one number.
    pub query: String,
    /// The smallest number that is within the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest number that is within the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl Checks {
    /// Returns how long the clusters must be available.
    pub fn healthy(&self) -> Option<Duration> {
        self.healthy_for.as_deref().and_then(check::duration)
    }
}

impl MetricCheck {
    /// Tells whether a number is within the limits.
    pub fn admits(&self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// Returns the limits, as text for users.
    pub fn limits(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => "any number".to_owned(),
        }
    }
}

/// Reads the checks among a strategy's annotations.
///
/// # Errors
/// The annotation is no map from stages to checks. The fields are those inside the annotation's value.
pub fn parse(annotations: &BTreeMap<String, String>) -> Result<StageChecks, Vec<FieldError>> {
    let Some(text) = annotations.get(STAGE_CHECKS) else { return Ok(StageChecks::new()) };
    let mut documents = yaml::parse_documents(text);
    match (documents.pop(), documents.is_empty()) {
        (Some(Ok(document)), true) if matches!(document.value, Value::Object(_)) => yaml::typed(&document.value),
        (Some(Err(error)), true) => Err(vec![FieldError::new("", format!("cannot be read as YAML: {error}"))]),
        _ => Err(vec![FieldError::new("", "is not a map from the names of stages to their checks")]),
    }
}

/// Returns everything that is wrong with the checks of a strategy.
pub fn errors(annotations: &BTreeMap<String, String>, strategy: &StagedUpdateStrategySpec) -> Vec<FieldError> {
    let errors: Vec<FieldError> = match parse(annotations) {
        Ok(checks) => checks.iter().flat_map(|(stage, checks)| stage_errors(stage, checks, strategy)).collect(),
        Err(errors) => errors,
    };
    // The file has a line for the annotation, and none for a field inside its value.
    let errors = errors.into_iter().map(|error| {
        let inner = if error.field.is_empty() { String::new() } else { format!("{}: ", error.field) };
        let message = format!("{inner}{}", error.message);
        FieldError { field: format!("metadata.annotations.{STAGE_CHECKS}"), message, hint: error.hint }
    });
    errors.collect()
}

fn stage_errors(stage: &str, checks: &Checks, strategy: &StagedUpdateStrategySpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names: Vec<&str> = strategy.stages.iter().map(|stage| stage.name.as_str()).collect();
    if !names.contains(&stage) {
        let error = FieldError::new(stage, "the strategy has no stage of this name");
        errors.push(match suggest(stage, names.iter().copied()) {
            Some(close) => error.hint(format!("did you mean `{close}`?")),
            None => error.hint(format!("its stages are: {}", names.join(", "))),
        });
    }
    if checks.healthy_for.is_none() && checks.metrics.is_empty() {
        errors.push(FieldError::new(stage, "has neither healthyFor nor metrics"));
    }
    if let Some(text) = &checks.healthy_for
        && checks.healthy().is_none_or(|time| time.is_zero())
    {
        let message = format!("{text:?} is not a duration such as 10m or 1h30m");
        errors.push(FieldError::new(format!("{stage}.healthyFor"), message));
    }
    let path = format!("{stage}.metrics");
    count(&mut errors, &path, checks.metrics.len(), 0, METRICS_MAX);
    unique(&mut errors, &path, checks.metrics.iter().map(|metric| metric.name.as_str()));
    for (index, metric) in checks.metrics.iter().enumerate() {
        metric_errors(&mut errors, &format!("{path}[{index}]"), metric);
    }
    errors
}

fn metric_errors(errors: &mut Vec<FieldError>, path: &str, metric: &MetricCheck) {
    for (field, name) in [("name", Some(&metric.name)), ("server", metric.server.as_ref())] {
        if let Some(name) = name.filter(|name| !check::is_dns_label(name)) {
            let message = format!("{name:?} is not 1 to 63 lowercase letters, digits and inner dashes");
            errors.push(FieldError::new(format!("{path}.{field}"), message));
        }
    }
    if metric.query.trim().is_empty() || metric.query.len() > QUERY_BYTES_MAX {
        let message = format!("has {} bytes; a query has 1 to {QUERY_BYTES_MAX}", metric.query.len());
        errors.push(FieldError::new(format!("{path}.query"), message));
    }
    match (metric.min, metric.max) {
        (None, None) => errors.push(FieldError::new(path, "has neither min nor max, so every answer would do")),
        (Some(min), Some(max)) if min > max => {
            errors.push(FieldError::new(path, format!("min {min} is larger than max {max}, so no answer would do")));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
