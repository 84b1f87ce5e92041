//! The three placement types: the picked clusters, their order, and the decisions' texts.

use std::collections::{BTreeMap, BTreeSet};

use model::api::placement::PlacementPolicy;
use model::explanation::Refusal;
use model::id::ClusterName;
use model::records::{Binding, ClusterDecision, ClusterScore, PickReason};

use super::bindings::{Classified, patch, unschedule};
use super::filter::Filter;
use super::fleet::Fleet;
use super::rank::{Candidate, Ranking, rank};
use super::{BindingChange, DECISIONS_MAX, Error, Outcome, Request, UNSELECTED_DECISIONS_MAX};

/// A decision with the scores of a candidate.
fn scored(fleet: &Fleet, candidate: &Candidate, selected: bool) -> ClusterDecision {
    let Candidate { topology, affinity, slot, .. } = *candidate;
    let cluster = fleet.name(slot);
    let scores = format!("affinity score {affinity}, topology spread score {topology}");
    let reason = if selected {
        format!("picked: {cluster} passed every filter ({scores})")
    } else {
        format!("not picked: clusters that rank higher than {cluster} fill the number asked for ({scores})")
    };
    let cluster_score = Some(ClusterScore { affinity_score: affinity, priority_score: topology });
    ClusterDecision { cluster_name: cluster.clone(), selected, cluster_score, reason: PickReason::Other(reason) }
}

/// A decision without scores.
fn unscored(cluster: &str, selected: bool, reason: PickReason) -> ClusterDecision {
    ClusterDecision { cluster_name: ClusterName::new(cluster), selected, cluster_score: None, reason }
}

/// The consequences of picked clusters for bindings.
struct Crossed {
    created: Vec<BindingChange>,
    patched: Vec<BindingChange>,
    unscheduled: Vec<BindingChange>,
}

impl Crossed {
    /// Returns the bindings of the picked clusters, except those that are current already.
    fn new_or_patched(&self) -> impl Iterator<Item = &Binding> {
        [&self.created, &self.patched].into_iter().flatten().map(|change| &change.binding)
    }

    /// Returns all changes, with the bindings of clusters that left at the end.
    fn into_changes(self, bindings: &Classified<'_>) -> Vec<BindingChange> {
        [self.created, self.patched, self.unscheduled].into_iter().flatten().chain(bindings.leaves()).collect()
    }
}

/// Matches picked clusters with bindings: obsolete and unscheduled ones of picked clusters move to this policy, other obsolete
/// ones are unscheduled, and clusters without a binding get one.
///
/// Source: KubeFleet, the cross reference of picked clusters and bindings.
fn cross_reference(
    request: &Request<'_>,
    bindings: &Classified<'_>,
    picked: Vec<(usize, ClusterDecision)>,
) -> Result<Crossed, Error> {
    let mut crossed = Crossed { created: Vec::new(), patched: Vec::new(), unscheduled: Vec::new() };
    let mut known = BTreeMap::new();
    for (slot, decision) in picked {
        if bindings.taken_at.contains(slot) {
            known.insert(decision.cluster_name.clone(), decision);
        } else {
            crossed.created.push(bindings.create(request, decision));
        }
    }
    // `PickFixed` also picks clusters with a current binding. They match nothing below and stay as they are.
    for binding in &bindings.obsolete {
        match known.remove(&binding.cluster) {
            Some(decision) => crossed.patched.push(patch(request, binding, decision)?),
            None => crossed.unscheduled.push(unschedule(binding)),
        }
    }
    for binding in &bindings.unscheduled {
        if let Some(decision) = known.remove(&binding.cluster) {
            crossed.patched.push(patch(request, binding, decision)?);
        }
    }
    Ok(crossed)
}

/// Lists the decisions of a full cycle: created, patched, scheduled, bound; then clusters that scored but were not picked, then
/// rejected ones by name. A rejected cluster that keeps its binding is not listed again, but counts.
///
/// `fresh` are the clusters picked in the last cycle: earlier picks are listed as the scheduled and bound bindings they have
/// become.
///
/// Source: KubeFleet, the order and limits of `status.targetClusters`.
fn full_decisions(
    fleet: &Fleet,
    crossed: &Crossed,
    bindings: &Classified<'_>,
    (filter, ranking): (&Filter<'_>, &Ranking<'_>),
) -> Vec<ClusterDecision> {
    let earlier: BTreeSet<&ClusterName> =
        ranking.picked[..ranking.picked.len() - ranking.fresh].iter().map(|c| fleet.name(c.slot)).collect();
    let mut kept: Vec<&Binding> = [&bindings.scheduled, &bindings.bound].into_iter().flatten().copied().collect();
    if !earlier.is_empty() {
        kept.extend(crossed.new_or_patched().filter(|binding| earlier.contains(&binding.cluster)));
        kept.sort_by(|a, b| (a.state, &a.name).cmp(&(b.state, &b.name)));
    }
    let fresh = crossed.new_or_patched().filter(|binding| !earlier.contains(&binding.cluster));
    let mut decisions: Vec<ClusterDecision> =
        fresh.chain(kept).map(|binding| binding.decision.clone()).take(DECISIONS_MAX).collect();

    let rest = UNSELECTED_DECISIONS_MAX.saturating_sub(ranking.scored);
    let room = DECISIONS_MAX - decisions.len();
    let unpicked = ranking.next.iter().take(UNSELECTED_DECISIONS_MAX).map(|candidate| scored(fleet, candidate, false));
    let unpicked: Vec<ClusterDecision> = unpicked.chain(rejected(fleet, (filter, ranking), rest, &decisions)).collect();
    decisions.extend(unpicked.into_iter().take(room));
    decisions
}

/// Lists the first `count` rejected clusters by name that are not listed yet.
fn rejected(
    fleet: &Fleet,
    (filter, ranking): (&Filter<'_>, &Ranking<'_>),
    count: usize,
    listed: &[ClusterDecision],
) -> Vec<ClusterDecision> {
    let slots: Vec<usize> = (0..fleet.len())
        .filter(|slot| !filter.passed.contains(*slot) || ranking.violating.contains(*slot))
        .take(count)
        .collect();
    if slots.is_empty() {
        return Vec::new();
    }
    let listed: BTreeSet<&str> = listed.iter().map(|decision| decision.cluster_name.as_str()).collect();
    let mut rejected = Vec::new();
    for slot in slots {
        let name = fleet.name(slot).as_str();
        if listed.contains(name) {
            continue;
        }
        if let Some(refusal) = filter.refusal(slot).or_else(|| ranking.refusal(slot)) {
            let reason = PickReason::Other(format!("ClusterUnschedulable, {}", describe(&refusal)));
            rejected.push(unscored(name, false, reason));
        }
    }
    rejected
}

/// Formats a refusal as a sentence.
pub(super) fn describe(refusal: &Refusal) -> String {
    let Refusal { filter, subject, observed, wanted } = refusal;
    match (filter.as_str(), observed) {
        ("ClusterEligibility", Some(why)) => format!("not eligible: {why}"),
        ("TenantClusters", _) => format!("{subject} has {wanted}"),
        ("TaintToleration", Some(taint)) => format!("taint {taint} is not tolerated"),
        (_, Some(observed)) if subject.starts_with("label ") => format!("{subject} is {observed:?}, wanted {wanted}"),
        (_, Some(observed)) => format!("{subject} is {observed}, wanted {wanted}"),
        (_, None) => format!("{subject} is missing, wanted {wanted}"),
    }
}

/// Lists the recorded decisions of bindings.
fn recorded<'a>(bindings: impl IntoIterator<Item = &'a Binding>) -> Vec<ClusterDecision> {
    bindings.into_iter().map(|binding| binding.decision.clone()).take(DECISIONS_MAX).collect()
}

/// Picks every cluster that passes the filters; always fulfilled.
pub(super) fn pick_all(request: &Request<'_>, bindings: &Classified<'_>) -> Result<Outcome, Error> {
    let fleet = request.clusters;
    let filter = Filter::of(request, &bindings.held_at(request))?;
    let mut picked = Vec::new();
    // Clusters with a current binding keep it, whether they pass or not.
    for slot in filter.passed.difference(&bindings.current_at) {
        let candidate = Candidate { topology: 0, affinity: 0, obsolete: 0, slot };
        picked.push((slot, scored(fleet, &candidate, true)));
    }
    let count = picked.len() + bindings.scheduled.len() + bindings.bound.len();
    let crossed = cross_reference(request, bindings, picked)?;
    Ok(Outcome {
        decisions: full_decisions(fleet, &crossed, bindings, (&filter, &Ranking::default())),
        bindings: crossed.into_changes(bindings),
        fulfilled: true,
        message: format!("clusters found: {count}"),
    })
}

/// Picks the named clusters that exist and are eligible; fulfilled if all of them are.
///
/// A binding of this policy stays when its cluster becomes ineligible; one of an earlier policy is unscheduled then. A list
/// without names picks no cluster.
pub(super) fn pick_fixed(
    request: &Request<'_>,
    bindings: &Classified<'_>,
    policy: &PlacementPolicy,
) -> Result<Outcome, Error> {
    let mut valid = Vec::new();
    let mut invalid = Vec::new();
    let mut missing = Vec::new();
    let mut seen = BTreeSet::new();
    let fleet = request.clusters;
    let held = bindings.held_at(request);
    for name in policy.cluster_names.iter().filter(|name| seen.insert(name.as_str())) {
        let slot = fleet.slot(name);
        let foreign =
            request.tenant.zip(slot).filter(|(tenant, slot)| !tenant.may_place_on(&fleet.cluster(*slot).labels));
        if let Some((tenant, _)) = foreign {
            let why = format!("it is none of the clusters of tenant {}", tenant.name);
            invalid.push(unscored(name, false, PickReason::NotEligible(name.as_str().into(), why)));
            continue;
        }
        match slot.map(|slot| (slot, &fleet.cluster(slot).eligible)) {
            // Taints, affinity and spread are ignored: the policy names its clusters.
            Some((slot, eligible)) if eligible.is_ok() || held.contains(slot) => {
                let reason = PickReason::Other(format!("picked: the policy names {name}"));
                valid.push((slot, unscored(name, true, reason)));
            }
            Some((_, eligible)) => {
                let why = eligible.as_ref().err().cloned().unwrap_or_default();
                invalid.push(unscored(name, false, PickReason::NotEligible(name.as_str().into(), why)));
            }
            None => missing.push(unscored(name, false, PickReason::NotInFleet(name.as_str().into()))),
        }
    }
    let decisions = valid.iter().map(|(_, decision)| decision).chain(&invalid).chain(&missing).cloned().collect();
    let message = format!("{} of {} named clusters found", valid.len(), seen.len());
    let crossed = cross_reference(request, bindings, valid)?;
    Ok(Outcome {
        bindings: crossed.into_changes(bindings),
        fulfilled: invalid.is_empty() && missing.is_empty(),
        decisions,
        message,
    })
}

/// Picks N clusters: removes the worst if there are too many, keeps them if there are enough, and otherwise picks the best of
/// those that pass the filters.
pub(super) fn pick_n<'a>(
    request: &Request<'a>,
    bindings: &Classified<'_>,
    policy: &'a PlacementPolicy,
) -> Result<Outcome, Error> {
    let number = policy.number_of_clusters.and_then(|n| usize::try_from(n).ok());
    let incomplete = Error::Incomplete { field: "spec.policy.numberOfClusters", placement_type: "PickN" };
    let number = number.ok_or(incomplete)?;
    let present = bindings.scheduled.len() + bindings.bound.len();
    if number <= present {
        // Even if labels or taints have changed since: a pick stays as long as its policy.
        if number == present && bindings.obsolete.is_empty() {
            // KubeFleet's order if nothing changes; otherwise it lists scheduled ones first.
            let kept = bindings.bound.iter().chain(&bindings.scheduled).copied();
            return Ok(n_picked(bindings.leaves().collect(), recorded(kept), present, number));
        }
        let (changes, kept) = downscale(bindings, present - number);
        return Ok(n_picked(changes, recorded(kept), number, number));
    }

    let fleet = request.clusters;
    let filter = Filter::of(request, &bindings.held_at(request))?;
    let has = (&bindings.current_at, &bindings.obsolete_at);
    let ranking = rank(request, policy, &filter.passed, has, (number - present, UNSELECTED_DECISIONS_MAX))?;
    let picked: Vec<_> =
        ranking.picked.iter().map(|candidate| (candidate.slot, scored(fleet, candidate, true))).collect();
    let crossed = cross_reference(request, bindings, picked)?;
    let decisions = full_decisions(fleet, &crossed, bindings, (&filter, &ranking));
    Ok(n_picked(crossed.into_changes(bindings), decisions, present + ranking.picked.len(), number))
}

/// Returns the outcome of a `PickN` policy that has `count` clusters of the `number` that it asks for.
fn n_picked(bindings: Vec<BindingChange>, decisions: Vec<ClusterDecision>, count: usize, number: usize) -> Outcome {
    let message = format!("{count} of {number} clusters found");
    Outcome { bindings, decisions, fulfilled: count >= number, message }
}

/// Unschedules every obsolete binding and `surplus` others: scheduled ones before bound ones, the lowest recorded score first,
/// then the smallest name. Returns the changes, and the kept bindings.
///
/// Source: KubeFleet, downscaling.
fn downscale<'a>(bindings: &Classified<'a>, surplus: usize) -> (Vec<BindingChange>, Vec<&'a Binding>) {
    // Scheduled ones first, because nothing was delivered there yet.
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
