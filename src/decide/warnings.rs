//! Warnings about a decided placement: they refuse nothing; `validate`, `plan` and `status` show them.

use std::collections::BTreeSet;

use super::state::{FleetState, PlacementState};
use crate::rollout::staged::IN_NO_STAGE_NAMED_MAX;
use model::api::annotations::{CLUSTERS_IN_NO_STAGE, STAGED_UPDATE_STRATEGY};
use model::api::placement::{PlacementType, StrategyType};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::names::first_of;
use model::records::{PickReason, PlacementRecord, PolicySnapshot};
use model::text::suggest;
use model::warning::{Warning, WarningKind};

/// So many clusters that every nonzero percentage allows at least one.
const CLUSTERS_MANY: usize = 1_000;
/// Clusters of a policy that a warning names; the rest is counted.
const NAMED_MAX: usize = 5;

/// Returns the warnings about a placement; `None` where this process has not selected anything yet: earlier warnings stay.
pub(super) fn warnings(state: &PlacementState, fleet: &FleetState) -> Option<Vec<Warning>> {
    let record = &state.record;
    let inhabited = state.others.inhabited.iter().map(inhabited);
    if record.removed {
        return Some(inhabited.collect());
    }
    let selected = state.memo.selected.as_ref()?;
    let scheduled = state.policy().filter(|policy| policy.observed_generation == record.generation);
    let near = |name: &str| suggest(name, fleet.clusters.iter().map(|(name, _)| name.as_str())).map(str::to_owned);
    let has_run = fleet.staged.runs(&record.key).next().is_some() || state.runs.values().next().is_some();
    let mut warnings = found(record, scheduled, has_run, near);
    warnings.extend(selected.warnings.iter().cloned());
    warnings.extend(inhabited);
    Some(warnings)
}

/// Says of a Namespace or a definition why it stays.
fn inhabited((of, by): (&ObjectKey, &BTreeSet<PlacementKey>)) -> Warning {
    let placements: Vec<String> = by.iter().map(|key| format!("{} {key}", key.kind())).collect();
    let named = first_of(placements.iter().map(String::as_str), NAMED_MAX);
    Warning::new(
        WarningKind::StillInUse,
        format!(
            "the {} {} stays on clusters that the placement leaves: {named} has objects in it, or is to have some",
            of.kind, of.name
        ),
    )
    .hint("take that placement off these clusters first")
}

/// Returns the warnings about a placement, from its documents and its scheduling: the only place that finds them.
fn found(
    record: &PlacementRecord,
    policy: Option<&PolicySnapshot>,
    has_run: bool,
    near: impl Fn(&str) -> Option<String>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(policy.filter(|policy| !policy.fulfilled).map(|policy| unfulfilled(policy, near)));
    let strategy = &record.spec.strategy;
    let is_rolling = strategy.type_ == StrategyType::RollingUpdate;
    let limits = if is_rolling { strategy.rolling_update.as_ref() } else { None };
    let unavailable = limits.and_then(|limits| limits.max_unavailable.as_ref());
    if unavailable.is_some_and(|limit| limit.rounded_up(CLUSTERS_MANY) == Some(0)) {
        warnings.push(
            Warning::new(WarningKind::NoUpdateStarts, "0 lets no update start: clusters keep what they have")
                .at("spec.strategy.rollingUpdate.maxUnavailable")
                .hint("write at least 1"),
        );
    }
    if strategy.type_ == StrategyType::External && !has_run && !record.annotations.contains_key(STAGED_UPDATE_STRATEGY)
    {
        let message =
            "is External, and neither a run nor an annotation names a staged strategy: nothing moves its clusters";
        let hint = format!("annotate the placement with {STAGED_UPDATE_STRATEGY}, or add a run");
        warnings.push(Warning::new(WarningKind::NoRun, message).at("spec.strategy.type").hint(hint));
    }
    warnings.extend(Some(&record.ignored).filter(|ignored| !ignored.is_empty()).map(ignored));
    warnings
}

/// Names every cluster that runs leave as it is.
fn ignored(clusters: &BTreeSet<ClusterName>) -> Warning {
    let names = first_of(clusters.iter().map(ClusterName::as_str), IN_NO_STAGE_NAMED_MAX);
    let message = format!(
        "the strategy ignores picked clusters in no stage ({CLUSTERS_IN_NO_STAGE}), and these keep what they have: {names}"
    );
    Warning::new(WarningKind::ClustersIgnored, message)
}

/// Describes the unfulfilled part of a policy.
fn unfulfilled(policy: &PolicySnapshot, near: impl Fn(&str) -> Option<String>) -> Warning {
    let picked = policy.target_clusters.iter().filter(|decision| decision.selected).count();
    let kind = policy.policy.as_ref().map(|policy| policy.placement_type);
    if kind != Some(PlacementType::PickFixed) {
        let wanted = policy.number_of_clusters.unwrap_or_default();
        let message = format!("cannot be fulfilled: {picked} of {wanted} clusters fit");
        return Warning::new(WarningKind::PolicyUnfulfilled, message).at("spec.policy");
    }
    let left_out: Vec<_> = policy.target_clusters.iter().filter(|decision| !decision.selected).collect();
    let reasons: Vec<String> = left_out.iter().take(NAMED_MAX).map(|decision| decision.reason.of_named()).collect();
    let more = left_out.len() - reasons.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("cannot be fulfilled: {}{more}", reasons.join("; "));
    let warning = Warning::new(WarningKind::PolicyUnfulfilled, message).at("spec.policy.clusterNames");
    let close = left_out
        .iter()
        .filter(|decision| matches!(decision.reason, PickReason::NotInFleet(_)))
        .find_map(|decision| near(decision.cluster_name.as_str()));
    match close {
        Some(close) => warning.hint(format!("did you mean `{close}`?")),
        None => warning,
    }
}
