//! The three placement types: which clusters are picked, in which order, and how the decisions read.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::placement::PlacementPolicy;
use crate::model::id::ClusterName;
use crate::model::records::{Binding, ClusterDecision, ClusterScore};

use super::bindings::{Class, Classified, patch, unschedule};
use super::filter::{Rejection, rejection};
use super::{BindingChange, DECISIONS_MAX, Error, Outcome, Request, UNSELECTED_DECISIONS_MAX};

/// A cluster that passed the filters. The order is the picking order reversed: by score, then by name, so that among
/// equals the largest name comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<'a> {
    /// Topology spread, then affinity; all zero until they are built.
    topology: i32,
    affinity: i32,
    /// One where the cluster has a binding of an earlier policy: an edit should move few clusters.
    obsolete: i32,
    cluster: &'a ClusterName,
}

impl Candidate<'_> {
    fn decision(&self, selected: bool) -> ClusterDecision {
        let Self { topology, affinity, cluster, .. } = self;
        let scores = format!("affinity score {affinity}, topology spread score {topology}");
        let reason = if selected {
            format!("picked: {cluster} passed every filter ({scores})")
        } else {
            format!("not picked: clusters that rank higher than {cluster} fill the number asked for ({scores})")
        };
        let cluster_score = Some(ClusterScore { affinity_score: *affinity, priority_score: *topology });
        ClusterDecision { cluster_name: (*cluster).clone(), selected, cluster_score, reason }
    }
}

/// A decision without scores.
fn unscored(cluster: &str, selected: bool, reason: String) -> ClusterDecision {
    ClusterDecision { cluster_name: ClusterName::new(cluster), selected, cluster_score: None, reason }
}

/// The fleet after filtering, both lists by name.
struct Filtered<'a> {
    passed: Vec<Candidate<'a>>,
    rejected: Vec<(&'a ClusterName, Rejection<'a>)>,
}

/// Filters the fleet. A cluster that passes and already has a binding of this policy is in neither list.
fn filter<'a>(request: &Request<'a>, bindings: &Classified<'_>) -> Filtered<'a> {
    let mut filtered = Filtered { passed: Vec::new(), rejected: Vec::new() };
    for (cluster, facts) in request.clusters {
        if let Some(rejection) = rejection(request.policy, facts) {
            filtered.rejected.push((cluster, rejection));
            continue;
        }
        let class = bindings.class(cluster);
        if !matches!(class, Some(Class::Scheduled | Class::Bound)) {
            let obsolete = i32::from(class == Some(Class::Obsolete));
            filtered.passed.push(Candidate { topology: 0, affinity: 0, obsolete, cluster });
        }
    }
    filtered
}

/// What picked clusters mean for bindings.
struct Crossed {
    created: Vec<BindingChange>,
    patched: Vec<BindingChange>,
    unscheduled: Vec<BindingChange>,
}

impl Crossed {
    /// Returns all changes, with the bindings of clusters that left at the end.
    fn into_changes(self, bindings: &Classified<'_>) -> Vec<BindingChange> {
        [self.created, self.patched, self.unscheduled].into_iter().flatten().chain(bindings.leaves()).collect()
    }
}

/// Matches picked clusters with bindings: obsolete and unscheduled ones of picked clusters are taken in, other obsolete
/// ones are unscheduled, and clusters without a binding get one.
///
/// Source: KubeFleet, the cross reference of picked clusters and bindings.
fn cross_reference(
    request: &Request<'_>,
    bindings: &Classified<'_>,
    picked: &[ClusterDecision],
) -> Result<Crossed, Error> {
    let decisions: BTreeMap<&ClusterName, &ClusterDecision> = picked.iter().map(|d| (&d.cluster_name, d)).collect();
    let mut crossed = Crossed { created: Vec::new(), patched: Vec::new(), unscheduled: Vec::new() };
    for binding in &bindings.obsolete {
        match decisions.get(&binding.cluster) {
            Some(&decision) => crossed.patched.push(patch(request, binding, decision.clone())?),
            None => crossed.unscheduled.push(unschedule(binding)),
        }
    }
    for binding in &bindings.unscheduled {
        if let Some(&decision) = decisions.get(&binding.cluster) {
            crossed.patched.push(patch(request, binding, decision.clone())?);
        }
    }
    let new = picked.iter().filter(|decision| bindings.class(&decision.cluster_name).is_none());
    crossed.created = new.map(|decision| bindings.create(request, decision.clone())).collect();
    Ok(crossed)
}

/// Lists the decisions of a full cycle: created, patched, scheduled, bound; then clusters that scored but were not picked,
/// then rejected ones by name. A rejected cluster that keeps its binding is not listed again, but counts.
///
/// Source: KubeFleet, the order and limits of `status.targetClusters`.
fn full_decisions(
    crossed: &Crossed,
    bindings: &Classified<'_>,
    not_picked: &[Candidate<'_>],
    rejected: &[(&ClusterName, Rejection<'_>)],
) -> Vec<ClusterDecision> {
    let changed = [&crossed.created, &crossed.patched].into_iter().flatten().map(|change| &change.binding);
    let kept = [&bindings.scheduled, &bindings.bound].into_iter().flatten().copied();
    let mut decisions: Vec<ClusterDecision> =
        changed.chain(kept).map(|binding| binding.decision.clone()).take(DECISIONS_MAX).collect();
    let listed: BTreeSet<ClusterName> = decisions.iter().map(|decision| decision.cluster_name.clone()).collect();

    let scored = not_picked.iter().take(UNSELECTED_DECISIONS_MAX).map(|candidate| candidate.decision(false));
    let rest = UNSELECTED_DECISIONS_MAX.saturating_sub(not_picked.len());
    let rejected =
        rejected.iter().take(rest).filter(|(cluster, _)| !listed.contains(*cluster)).map(|(cluster, rejection)| {
            unscored(cluster.as_str(), false, format!("ClusterUnschedulable, {rejection}"))
        });
    decisions.extend(scored.chain(rejected));
    decisions.truncate(DECISIONS_MAX);
    decisions
}

/// Lists the decisions of bindings as they were recorded.
fn recorded<'a>(bindings: impl IntoIterator<Item = &'a Binding>) -> Vec<ClusterDecision> {
    bindings.into_iter().map(|binding| binding.decision.clone()).take(DECISIONS_MAX).collect()
}

/// Picks every cluster that passes the filters; always fulfilled.
pub(super) fn pick_all(request: &Request<'_>, bindings: &Classified<'_>) -> Result<Outcome, Error> {
    let filtered = filter(request, bindings);
    let picked: Vec<_> = filtered.passed.iter().map(|candidate| candidate.decision(true)).collect();
    let crossed = cross_reference(request, bindings, &picked)?;
    let count = picked.len() + bindings.scheduled.len() + bindings.bound.len();
    Ok(Outcome {
        decisions: full_decisions(&crossed, bindings, &[], &filtered.rejected),
        bindings: crossed.into_changes(bindings),
        fulfilled: true,
        message: format!("clusters found: {count}"),
    })
}

/// Picks the named clusters that are there and eligible; fulfilled if all of them are.
///
/// A binding of this policy stays when its cluster becomes ineligible; one of an earlier policy goes then.
pub(super) fn pick_fixed(
    request: &Request<'_>,
    bindings: &Classified<'_>,
    policy: &PlacementPolicy,
) -> Result<Outcome, Error> {
    if policy.cluster_names.is_empty() {
        return Err(Error::Incomplete { field: "spec.policy.clusterNames", placement_type: "PickFixed" });
    }
    let (mut valid, mut invalid, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for name in policy.cluster_names.iter().filter(|name| seen.insert(name.as_str())) {
        match request.clusters.get(name.as_str()).map(|cluster| &cluster.eligible) {
            Some(Ok(())) => valid.push(unscored(name, true, format!("picked: the policy names {name}"))),
            Some(Err(why)) => {
                let reason = format!("not picked: the policy names {name}, which is not eligible: {why}");
                invalid.push(unscored(name, false, reason));
            }
            None => {
                let reason = format!("not picked: the policy names {name}, which is not in the fleet");
                missing.push(unscored(name, false, reason));
            }
        }
    }
    let crossed = cross_reference(request, bindings, &valid)?;
    let message = format!("{} of {} named clusters found", valid.len(), seen.len());
    Ok(Outcome {
        bindings: crossed.into_changes(bindings),
        fulfilled: invalid.is_empty() && missing.is_empty(),
        decisions: [valid, invalid, missing].into_iter().flatten().collect(),
        message,
    })
}

/// Picks N clusters: removes the worst where there are too many, keeps what there is where it is enough, and otherwise
/// picks the best of those that pass the filters.
pub(super) fn pick_n(
    request: &Request<'_>,
    bindings: &Classified<'_>,
    policy: &PlacementPolicy,
) -> Result<Outcome, Error> {
    let number = policy.number_of_clusters.and_then(|n| usize::try_from(n).ok());
    let incomplete = Error::Incomplete { field: "spec.policy.numberOfClusters", placement_type: "PickN" };
    let number = number.ok_or(incomplete)?;
    let present = bindings.scheduled.len() + bindings.bound.len();
    let outcome = |changes, decisions, count: usize| Outcome {
        bindings: changes,
        decisions,
        fulfilled: count >= number,
        message: format!("{count} of {number} clusters found"),
    };
    if number <= present {
        if number == present && bindings.obsolete.is_empty() {
            let kept = bindings.bound.iter().chain(&bindings.scheduled).copied();
            return Ok(outcome(bindings.leaves().collect(), recorded(kept), present));
        }
        let (changes, kept) = downscale(bindings, present - number);
        return Ok(outcome(changes, recorded(kept), number));
    }

    let mut filtered = filter(request, bindings);
    filtered.passed.sort_unstable_by(|a, b| b.cmp(a));
    let not_picked = filtered.passed.split_off((number - present).min(filtered.passed.len()));
    let picked: Vec<_> = filtered.passed.iter().map(|candidate| candidate.decision(true)).collect();
    let crossed = cross_reference(request, bindings, &picked)?;
    let decisions = full_decisions(&crossed, bindings, &not_picked, &filtered.rejected);
    Ok(outcome(crossed.into_changes(bindings), decisions, present + picked.len()))
}

/// Unschedules every obsolete binding and `surplus` others: scheduled ones before bound ones, the lowest recorded score
/// first, then the smallest name. Returns the changes, and what is kept.
///
/// Source: KubeFleet, downscaling.
fn downscale<'a>(bindings: &Classified<'a>, surplus: usize) -> (Vec<BindingChange>, Vec<&'a Binding>) {
    let (removed_scheduled, kept_scheduled) = lowest(&bindings.scheduled, surplus);
    let (removed_bound, kept_bound) = lowest(&bindings.bound, surplus - removed_scheduled.len());
    let removed = [&bindings.obsolete, &removed_scheduled, &removed_bound].into_iter().flatten();
    let changes = removed.map(|&binding| unschedule(binding)).chain(bindings.leaves()).collect();
    (changes, [kept_scheduled, kept_bound].concat())
}

/// Splits bindings into the `count` lowest, lowest first, and the others by name. A binding without a score is lowest.
fn lowest<'a>(bindings: &[&'a Binding], count: usize) -> (Vec<&'a Binding>, Vec<&'a Binding>) {
    let mut sorted = bindings.to_vec();
    sorted.sort_by_key(|binding| {
        let score = binding.decision.cluster_score.map(|score| (score.priority_score, score.affinity_score));
        (score, &binding.cluster)
    });
    let mut kept = sorted.split_off(count.min(sorted.len()));
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    (sorted, kept)
}
