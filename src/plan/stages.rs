//! The rollout of a placement: the stages of a staged rollout, or why there are none.

use std::collections::BTreeMap;

use super::works::picked;
use decide::rollout::staged::stages;
use decide::state::{FleetState, PlacementState};
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::api::placement::StrategyType;
use model::api::staged::{StageTask, StageTaskType};
use model::plan::{GatePlan, RolloutPlan, StagePlan};

/// Plans the rollout of a placement. External placements with a strategy or a run have stages.
pub(super) fn rollout_plan(state: &PlacementState, fleet: &FleetState) -> RolloutPlan {
    let record = &state.record;
    let type_ = record.spec.strategy.type_;
    let mut rollout = RolloutPlan { type_, ..RolloutPlan::default() };
    if record.removed {
        return rollout;
    }
    let run = fleet.staged.runs(&record.key).next();
    rollout.run = run.map(|(name, _)| name.clone());
    if type_ == StrategyType::RollingUpdate {
        rollout.error = run.map(|(name, _)| {
            format!(
                "the run {name} names this placement, whose strategy is RollingUpdate; set strategy.type External, or remove \
                 the run"
            )
        });
        return rollout;
    }
    let named = run.map(|(_, run)| run.spec.staged_rollout_strategy_name.clone());
    // A written run names its own strategy; the annotation is for automatic runs.
    rollout.strategy = named.or_else(|| record.annotations.get(STAGED_UPDATE_STRATEGY).cloned());
    match staged(state, fleet, rollout.strategy.as_deref()) {
        Ok(stages) => rollout.stages = stages,
        Err(why) => rollout.error = Some(why),
    }
    rollout.ignored = record.ignored.iter().cloned().collect();
    rollout
}

fn staged(state: &PlacementState, fleet: &FleetState, strategy: Option<&str>) -> Result<Vec<StagePlan>, String> {
    if let Some(policy) = state.policy().filter(|policy| !policy.fulfilled) {
        let picked = policy.target_clusters.iter().filter(|d| d.selected).count();
        return Err(format!(
            "the policy is not fulfilled ({picked} clusters were found), and staged rollouts wait until it is"
        ));
    }
    let Some(name) = strategy else { return Ok(Vec::new()) };
    let key = &state.record.key;
    let Some(strategy) = fleet.staged.strategy(key, name) else {
        let kind = if key.namespace.is_some() { "StagedUpdateStrategy" } else { "ClusterStagedUpdateStrategy" };
        return Err(format!("the {kind} {name} is missing; add it to the source"));
    };
    let mut clusters = BTreeMap::new();
    for cluster in picked(state) {
        let member = fleet.clusters.get(cluster.as_str());
        clusters.insert(cluster.clone(), member.map(|member| member.labels.clone()).unwrap_or_default());
    }
    let planned = stages(&strategy.spec, strategy.in_no_stage, &clusters)
        .map_err(|error| format!("the stages of {name}: {error}"))?;
    let plan = planned.into_iter().map(|stage| {
        let written = strategy.spec.stages.iter().find(|written| written.name == stage.name);
        let approvers = strategy.approvers.as_ref();
        StagePlan {
            before: written.map(|written| gates(&written.before_stage_tasks, approvers)).unwrap_or_default(),
            after: written.map(|written| gates(&written.after_stage_tasks, approvers)).unwrap_or_default(),
            checks: strategy.checks.get(&stage.name).cloned(),
            name: stage.name,
            clusters: stage.clusters,
            max_concurrency: stage.max_concurrency,
        }
    });
    Ok(plan.collect())
}

fn gates(tasks: &[StageTask], approvers: Option<&String>) -> Vec<GatePlan> {
    let gates = tasks.iter().map(|task| GatePlan {
        type_: task.type_,
        wait_time: task.wait_time.clone(),
        approvers: if task.type_ == StageTaskType::Approval { approvers.cloned() } else { None },
    });
    gates.collect()
}
