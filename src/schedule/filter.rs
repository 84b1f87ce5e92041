//! Which clusters may take a placement at all.

use std::fmt;

use crate::api::cluster::Taint;
use crate::api::placement::{
    ClusterAffinity, ClusterSelectorTerm, PlacementPolicy, PlacementType, Toleration, TolerationOperator,
};
use crate::model::cluster::Cluster;

use super::Error;

const AFFINITY: &str = "spec.policy.affinity.clusterAffinity";

fn affinity(policy: Option<&PlacementPolicy>) -> Option<&ClusterAffinity> {
    policy?.affinity.as_ref()?.cluster_affinity.as_ref()
}

/// Returns the terms of which a cluster must fit one; empty where every cluster fits.
fn required_terms(policy: Option<&PlacementPolicy>) -> &[ClusterSelectorTerm] {
    affinity(policy)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref())
        .map_or(&[], |selector| &selector.cluster_selector_terms)
}

/// Refuses what is not built yet and would change the decision. Scores only count for `PickN`, and a preference without
/// weight never does.
pub(super) fn refuse_unsupported(policy: Option<&PlacementPolicy>) -> Result<(), Error> {
    let unsupported = |field: String| Err(Error::Unsupported { field });
    for (index, term) in required_terms(policy).iter().enumerate() {
        let path = format!("{AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[{index}]");
        if term.property_selector.as_ref().is_some_and(|selector| !selector.match_expressions.is_empty()) {
            return unsupported(format!("{path}.propertySelector"));
        }
        if term.property_sorter.is_some() {
            return unsupported(format!("{path}.propertySorter"));
        }
    }
    let Some(policy) = policy.filter(|policy| policy.placement_type == PlacementType::PickN) else { return Ok(()) };
    let preferred = affinity(Some(policy)).and_then(|affinity| {
        affinity.preferred_during_scheduling_ignored_during_execution.iter().position(|term| term.weight != 0)
    });
    if let Some(index) = preferred {
        return unsupported(format!("{AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"));
    }
    if !policy.topology_spread_constraints.is_empty() {
        return unsupported("spec.policy.topologySpreadConstraints[0]".to_owned());
    }
    Ok(())
}

/// Why a cluster may not take a placement. Its text follows `ClusterUnschedulable, `.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rejection<'a> {
    /// No required term fits.
    Affinity,
    /// The cluster takes no new placements.
    Ineligible(&'a str),
    /// The first taint that nothing tolerates.
    Taint(&'a Taint),
}

impl fmt::Display for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity => f.write_str("no required affinity term matches its labels"),
            Self::Ineligible(why) => write!(f, "not eligible: {why}"),
            Self::Taint(Taint { key, value, .. }) if value.is_empty() => {
                write!(f, "taint {key}:NoSchedule is not tolerated")
            }
            Self::Taint(Taint { key, value, .. }) => write!(f, "taint {key}={value}:NoSchedule is not tolerated"),
        }
    }
}

/// Returns the first reason why a cluster may not take a placement: affinity, then eligibility, then taints.
///
/// Source: KubeFleet, the order of its filter plugins.
pub(super) fn rejection<'a>(policy: Option<&PlacementPolicy>, cluster: &'a Cluster) -> Option<Rejection<'a>> {
    let terms = required_terms(policy);
    if !terms.is_empty() && !terms.iter().any(|term| fits(term, cluster)) {
        return Some(Rejection::Affinity);
    }
    if let Err(why) = &cluster.eligible {
        return Some(Rejection::Ineligible(why));
    }
    let tolerations = policy.map_or(&[][..], |policy| &policy.tolerations);
    let untolerated = cluster.taints.iter().find(|taint| !tolerations.iter().any(|t| tolerates(t, taint)));
    untolerated.map(Rejection::Taint)
}

/// A term without a label selector does not look at labels.
fn fits(term: &ClusterSelectorTerm, cluster: &Cluster) -> bool {
    term.label_selector.as_ref().is_none_or(|selector| selector.matches(&cluster.labels))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let matches = match toleration.operator.unwrap_or_default() {
        TolerationOperator::Exists => toleration.key.is_empty() || toleration.key == taint.key,
        TolerationOperator::Equal => toleration.key == taint.key && toleration.value == taint.value,
    };
    matches && toleration.effect.is_none_or(|effect| effect == taint.effect)
}
