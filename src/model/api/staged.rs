//! Staged update strategies and runs: the order in which an External placement moves.
//!
//! Source: KubeFleet API, `placement.kubernetes-fleet.io` v1, v1beta1 and v1alpha1.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{self, FieldError, count, unique};
use super::object::Validate;
use super::placement::{IntOrPercent, LabelSelector};
use super::placement_rules::int_or_percent;
use super::selector::check_selector;

/// Stages of one strategy.
pub const STAGES_MAX: usize = 31;
/// Tasks before a stage.
pub const BEFORE_TASKS_MAX: usize = 1;
/// Tasks after a stage.
pub const AFTER_TASKS_MAX: usize = 2;
/// Characters of the names a run refers to.
pub const REFERENCE_LENGTH_MAX: usize = 255;

/// `spec` of both strategy kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StagedUpdateStrategySpec {
    /// The stages, in order.
    #[schemars(length(max = 31))]
    pub stages: Vec<Stage>,
}

/// Clusters that move together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// Lowercase letters and digits.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]+$"))]
    pub name: String,
    /// The clusters; absent selects none, empty selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// The label whose integer value orders the clusters; absent orders by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sorting_label_key: Option<String>,
    /// Clusters that may move at once, number or percent; 1 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<IntOrPercent>,
    /// What must be done before the first cluster moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1))]
    pub before_stage_tasks: Vec<StageTask>,
    /// What must be done before the next stage begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub after_stage_tasks: Vec<StageTask>,
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StageTask {
    /// What it waits for.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// How long, as Go writes durations; for `TimedWait` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_time: Option<String>,
}

impl StageTask {
    /// Returns how long a `TimedWait` waits.
    pub fn wait(&self) -> Option<Duration> {
        self.wait_time.as_deref().and_then(check::duration)
    }
}

/// What a gate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum StageTaskType {
    /// Time.
    TimedWait,
    /// A person.
    Approval,
}

/// `spec` of both run kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StagedUpdateRunSpec {
    /// The placement that moves.
    #[schemars(length(max = 255))]
    pub placement_name: String,
    /// The snapshot it moves to; the newest where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_snapshot_index: Option<String>,
    /// The strategy it moves by.
    pub staged_rollout_strategy_name: String,
    /// Whether it runs; absent means `Run`, a written `Initialize` waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
}

/// Whether a run proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunState {
    /// Prepared, and waits.
    Initialize,
    /// It runs.
    Run,
    /// Stopped; `Run` continues it.
    Stop,
}

/// `spec` of both approval request kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalRequestSpec {
    /// The run.
    pub parent_stage_rollout: String,
    /// The stage.
    pub target_stage: String,
}

impl Validate for StagedUpdateStrategySpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        count(&mut errors, "spec.stages", self.stages.len(), 0, STAGES_MAX);
        unique(&mut errors, "spec.stages", self.stages.iter().map(|s| s.name.as_str()));
        for (index, stage) in self.stages.iter().enumerate() {
            stage_errors(&mut errors, &format!("spec.stages[{index}]"), stage);
        }
        errors
    }
}

fn stage_errors(errors: &mut Vec<FieldError>, path: &str, stage: &Stage) {
    let plain = !stage.name.is_empty() && stage.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !plain || stage.name.len() > check::LABEL_LENGTH_MAX {
        let message = format!("{:?} is not 1 to 63 lowercase letters and digits", stage.name);
        errors.push(FieldError::new(format!("{path}.name"), message));
    }
    if let Some(labels) = &stage.label_selector {
        check_selector(errors, &format!("{path}.labelSelector"), labels);
    }
    if let Some(key) = stage.sorting_label_key.as_ref().filter(|key| !check::is_qualified_name(key)) {
        errors.push(FieldError::new(format!("{path}.sortingLabelKey"), format!("{key:?} is not a label key")));
    }
    if let Some(concurrency) = &stage.max_concurrency {
        int_or_percent(errors, &format!("{path}.maxConcurrency"), concurrency, 1);
    }
    let lists = [
        ("beforeStageTasks", &stage.before_stage_tasks, BEFORE_TASKS_MAX),
        ("afterStageTasks", &stage.after_stage_tasks, AFTER_TASKS_MAX),
    ];
    for (field, tasks, max) in lists {
        let path = format!("{path}.{field}");
        count(errors, &path, tasks.len(), 0, max);
        for (index, task) in tasks.iter().enumerate() {
            let path = format!("{path}[{index}]");
            task_errors(errors, &path, task);
            if field == "beforeStageTasks" && task.type_ == StageTaskType::TimedWait {
                errors.push(FieldError::new(format!("{path}.type"), "a task before a stage cannot be TimedWait"));
            }
            if tasks[..index].iter().any(|t| t.type_ == task.type_) {
                errors.push(FieldError::new(path, format!("a second {:?} task", task.type_)));
            }
        }
    }
}

fn task_errors(errors: &mut Vec<FieldError>, path: &str, task: &StageTask) {
    let path = format!("{path}.waitTime");
    match (task.type_, &task.wait_time) {
        (StageTaskType::Approval, Some(_)) => errors.push(FieldError::new(path, "Approval takes no waitTime")),
        (StageTaskType::TimedWait, None) => errors.push(FieldError::new(path, "TimedWait needs it")),
        (StageTaskType::TimedWait, Some(text)) if !is_wait_time(text) => {
            let error = FieldError::new(path, format!("{text:?} is not a duration"));
            errors.push(error.hint("numbers with the units s, m and h, such as 1h30m"));
        }
        _ => {}
    }
}

/// `(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+`: stricter than Go, as the API has it.
fn is_wait_time(text: &str) -> bool {
    let mut parts = text.split_inclusive(['s', 'm', 'h']);
    check::duration(text).is_some()
        && parts.all(|part| {
            let number = part.trim_end_matches(['s', 'm', 'h']);
            let whole = number.split_once('.').map_or(number, |(whole, _)| whole);
            !whole.is_empty()
                && whole.bytes().all(|b| b.is_ascii_digit())
                && (whole == "0" || !whole.starts_with('0'))
                && !number.ends_with('.')
        })
        && !text.contains("ms")
}

impl Validate for StagedUpdateRunSpec {
    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let names = [
            ("spec.placementName", &self.placement_name),
            ("spec.stagedRolloutStrategyName", &self.staged_rollout_strategy_name),
        ];
        for (path, name) in names {
            count_characters(&mut errors, path, name);
        }
        if let Some(index) = &self.resource_snapshot_index
            // An empty index means the newest snapshot, as an absent one does.
            && !index.is_empty()
            && index.parse::<u64>().is_err()
        {
            let message = format!("{index:?} is not a snapshot index");
            errors.push(FieldError::new("spec.resourceSnapshotIndex", message));
        }
        errors
    }
}

pub(super) fn count_characters(errors: &mut Vec<FieldError>, path: &str, name: &str) {
    if name.is_empty() || name.len() > REFERENCE_LENGTH_MAX {
        errors.push(FieldError::new(path, format!("must have 1 to {REFERENCE_LENGTH_MAX} characters")));
    }
}

impl Validate for ApprovalRequestSpec {
    fn validate(&self) -> Vec<FieldError> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
