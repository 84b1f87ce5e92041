//! Assigns clusters to stages, and orders them there.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use model::api::annotations::{CLUSTERS_IN_NO_STAGE, InNoStage};
use model::api::placement::IntOrPercent;
use model::api::staged::{Stage, StageTaskType, StagedUpdateStrategySpec};
use model::id::ClusterName;
use model::names::first_of;

/// Clusters in two stages that an error names; the others are counted.
const NAMED_CLUSTERS_MAX: usize = 10;
/// Clusters in no stage that a text names, so that a person finds every one of a large fleet; the others are counted.
pub const IN_NO_STAGE_NAMED_MAX: usize = 1_000;
/// The stage of clusters that are in no other one.
const OWN_STAGE: &str = "unassigned";

/// A stage with its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStage {
    /// Its name.
    pub name: String,
    /// Its clusters, in update order.
    pub clusters: Vec<ClusterName>,
    /// Clusters that may move at the same time, at least 1.
    pub max_concurrency: usize,
}

/// A strategy that does not fit its clusters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// Selectors overlap.
    #[error(
        "stages {first} and {second} both select {clusters}; a cluster moves once, so change the labelSelector of one of them"
    )]
    TwoStages {
        /// The earlier stage.
        first: String,
        /// The later one.
        second: String,
        /// Their common clusters: the first ten by name, and how many more.
        clusters: String,
    },
    /// Selectors omit clusters.
    #[error(
        "{total} clusters that the placement picked are in no stage: {clusters}; widen a labelSelector (an absent one selects no cluster, an empty one every cluster), label the clusters, or write on the strategy what becomes of them ({CLUSTERS_IN_NO_STAGE}: Ignore, First or Last)"
    )]
    NoStage {
        /// How many.
        total: usize,
        /// Their names, at most [`IN_NO_STAGE_NAMED_MAX`], and how many more.
        clusters: String,
    },
    /// A cluster has no place in the order.
    #[error(
        "stage {stage} moves its clusters in order of the label {key:?}, and cluster {cluster} {}; set it to an integer, or remove sortingLabelKey",
        .value.as_ref().map_or("does not have it".to_owned(), |value| format!("has {value:?} there"))
    )]
    SortingLabel {
        /// The stage.
        stage: String,
        /// The label.
        key: String,
        /// The first cluster by name.
        cluster: ClusterName,
        /// Its value, if it has one.
        value: Option<String>,
    },
    /// A task is not allowed in its position.
    #[error("stage {stage}: {what}")]
    Task {
        /// The stage.
        stage: String,
        /// The problem, and what to do.
        what: String,
    },
}

/// Assigns clusters, given with their labels, to the stages of a strategy. A stage may be empty. Clusters in no stage are
/// left out, or get a stage of their own without tasks, that updates one after the other.
///
/// Source: KubeFleet's update run initialisation. A cluster without the sorting label is an error there, too, although its API
/// text says otherwise.
///
/// # Errors
/// The first stage with an invalid task or order, or with clusters of an earlier one; else the clusters in no stage, unless
/// the strategy says what becomes of them.
pub fn stages(
    strategy: &StagedUpdateStrategySpec,
    in_no_stage: InNoStage,
    clusters: &BTreeMap<ClusterName, BTreeMap<String, String>>,
) -> Result<Vec<PlannedStage>, StageError> {
    let mut stage_of: BTreeMap<&ClusterName, &str> = BTreeMap::new();
    let mut planned = Vec::with_capacity(strategy.stages.len());
    for stage in &strategy.stages {
        check_tasks(stage)?;
        if let Some(first) = selected(stage, clusters).find_map(|(name, _)| stage_of.get(name)).copied() {
            let names = selected(stage, clusters).map(|(name, _)| name);
            let both = names.filter(|name| stage_of.get(name) == Some(&first));
            let clusters = first_of(both.map(ClusterName::as_str), NAMED_CLUSTERS_MAX);
            return Err(StageError::TwoStages { first: first.to_owned(), second: stage.name.clone(), clusters });
        }
        let mut members: Vec<(i64, &ClusterName)> = Vec::new();
        for (name, labels) in selected(stage, clusters) {
            members.push((position(stage, name, labels)?, name));
        }
        // No two are equal, because their names differ.
        members.sort_unstable();
        stage_of.extend(members.iter().map(|(_, name)| (*name, stage.name.as_str())));
        planned.push(PlannedStage {
            name: stage.name.clone(),
            max_concurrency: max_concurrency(stage.max_concurrency.as_ref(), members.len()),
            clusters: members.into_iter().map(|(_, name)| name.clone()).collect(),
        });
    }
    let others: Vec<&ClusterName> = clusters.keys().filter(|name| !stage_of.contains_key(name)).collect();
    match in_no_stage {
        _ if others.is_empty() => {}
        InNoStage::Ignore => {}
        InNoStage::First => planned.insert(0, own_stage(strategy, others)),
        InNoStage::Last => planned.push(own_stage(strategy, others)),
        InNoStage::Refuse => {
            let clusters = first_of(others.iter().map(|name| name.as_str()), IN_NO_STAGE_NAMED_MAX);
            return Err(StageError::NoStage { total: others.len(), clusters });
        }
    }
    Ok(planned)
}

/// Returns the clusters that a stage selects, with their labels.
fn selected<'a>(
    stage: &'a Stage,
    clusters: &'a BTreeMap<ClusterName, BTreeMap<String, String>>,
) -> impl Iterator<Item = (&'a ClusterName, &'a BTreeMap<String, String>)> {
    let selector = stage.label_selector.as_ref();
    // An absent selector selects no cluster, an empty one selects all.
    clusters.iter().filter(move |(_, labels)| selector.is_some_and(|selector| selector.matches(labels)))
}

/// Tells whether a stage of a strategy selects a cluster with these labels.
pub fn is_in_a_stage(strategy: &StagedUpdateStrategySpec, labels: &BTreeMap<String, String>) -> bool {
    let mut selectors = strategy.stages.iter().filter_map(|stage| stage.label_selector.as_ref());
    selectors.any(|selector| selector.matches(labels))
}

/// Returns the stage of clusters, in order of their names, that are in no other one.
fn own_stage(strategy: &StagedUpdateStrategySpec, clusters: Vec<&ClusterName>) -> PlannedStage {
    let numbered = (2..).map(|number| format!("{OWN_STAGE}{number}"));
    let mut names = iter::once(OWN_STAGE.to_owned()).chain(numbered);
    let name = names.find(|name| strategy.stages.iter().all(|stage| stage.name != *name));
    PlannedStage {
        name: name.expect("numbers do not end"),
        clusters: clusters.into_iter().cloned().collect(),
        max_concurrency: 1,
    }
}

/// Returns the sort key of a cluster in its stage; its name if the stage has no sorting label.
fn position(stage: &Stage, cluster: &ClusterName, labels: &BTreeMap<String, String>) -> Result<i64, StageError> {
    let Some(key) = &stage.sorting_label_key else { return Ok(0) };
    let value = labels.get(key);
    // Go's Atoi and this parser both accept exactly a sign and decimal digits.
    value.and_then(|value| value.parse().ok()).ok_or_else(|| StageError::SortingLabel {
        stage: stage.name.clone(),
        key: key.clone(),
        cluster: cluster.clone(),
        value: value.cloned(),
    })
}

/// Returns how many of `clusters` may move at the same time: a number unchanged, a percentage rounded down, at least 1.
///
/// Source: KubeFleet.
fn max_concurrency(limit: Option<&IntOrPercent>, clusters: usize) -> usize {
    let number = match limit {
        None => 1,
        Some(IntOrPercent::Int(number)) => usize::try_from(*number).unwrap_or(1),
        // Other values are refused with the commit; if one arrives here, one cluster at a time is the safe value.
        Some(IntOrPercent::Text(text)) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<usize>().ok());
            percent.map_or(1, |percent| percent * clusters / 100)
        }
    };
    number.max(1)
}

fn check_tasks(stage: &Stage) -> Result<(), StageError> {
    if stage.before_stage_tasks.iter().any(|task| task.type_ != StageTaskType::Approval) {
        let what = "a task before a stage can only be an Approval; move the TimedWait after the stage before it";
        return Err(wrong_task(stage, what));
    }
    if stage.before_stage_tasks.len() > 1 {
        return Err(wrong_task(stage, "it has several tasks before it; one Approval is enough, remove the others"));
    }
    for (index, task) in stage.after_stage_tasks.iter().enumerate() {
        if stage.after_stage_tasks[..index].iter().any(|other| other.type_ == task.type_) {
            return Err(wrong_task(stage, format!("it has two {:?} tasks after it; remove one", task.type_)));
        }
    }
    for task in stage.before_stage_tasks.iter().chain(&stage.after_stage_tasks) {
        match (task.type_, task.wait()) {
            (StageTaskType::TimedWait, None | Some(Duration::ZERO)) => {
                let given = task.wait_time.as_deref().unwrap_or_default();
                let what = format!(
                    "the waitTime {given:?} of its TimedWait is no time; write one such as 1h30m, or remove the task"
                );
                return Err(wrong_task(stage, what));
            }
            (StageTaskType::Approval, Some(_)) => {
                return Err(wrong_task(stage, "its Approval has a waitTime; remove it"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn wrong_task(stage: &Stage, what: impl Into<String>) -> StageError {
    StageError::Task { stage: stage.name.clone(), what: what.into() }
}
