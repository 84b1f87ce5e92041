//! Explains an evaluation, cluster by cluster.

use std::cmp::Reverse;

use fixedbitset::FixedBitSet;

use super::hub::RESOURCES;
use super::prioritize::{self, PrioritizerKind};
use super::taint::slot_number;
use super::{Error, Hub, OcmMember, OcmOutcome, Request, candidates, evaluate, predicate, status, taint};
use model::api::ocm::{ClusterPredicate, GLOBAL_SET, Quantity};
use model::api::placement::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
use model::explanation::{ClusterExplanation, Explanation, Refusal, ScoreTerm};

/// The name for the choice of candidates, for which the original has none.
const SET_FILTER: &str = "ManagedClusterSet";
const SET_SUBJECT: &str = "cluster set";

/// Returns for every cluster of the hub the first filter that rejected it, or its scores and rank.
///
/// # Errors
/// As [`super::schedule`].
pub fn explain(request: &Request<'_>) -> Result<Explanation, Error> {
    let candidates = candidates(request)?;
    let by_predicate = predicate::filter(request, &candidates.clusters).unwrap_or_else(|_| request.hub.no_clusters());
    let outcome = status::outcome(request, &candidates, evaluate(request, &candidates));
    let mut clusters = ranked(request, &outcome);
    let evaluated: FixedBitSet = outcome.scores.iter().map(|&(slot, _)| slot as usize).collect();
    for slot in (0..request.hub.names().len()).filter(|&slot| !evaluated.contains(slot)) {
        let number = slot_number(slot);
        let rejected =
            // No cluster was evaluated. The message gives the reason once, without a rejected cluster.
            if outcome.misconfigured.is_some() && outcome.scores.is_empty() && candidates.clusters.contains(slot) {
                None
            } else if !candidates.clusters.contains(slot) {
                Some(not_a_candidate(request, &candidates.sets, number))
            } else if by_predicate.contains(slot) {
                taint::repelling(request, number).map(by_taint)
            } else {
                Some(by_nearest_predicate(request, number))
            };
        clusters.push(unranked(request.hub, number, outcome.selected.contains(slot), rejected));
    }
    let spec = request.policy.spec();
    Ok(Explanation {
        kind: "Placement".to_owned(),
        namespace: request.key.namespace.clone(),
        name: request.key.name.clone(),
        wanted: match spec.number_of_clusters {
            None => "every cluster that passes".to_owned(),
            Some(1) => "1 cluster".to_owned(),
            Some(number) => format!("{number} clusters"),
        },
        fulfilled: outcome.satisfied.holds,
        message: outcome
            .misconfigured
            .as_ref()
            .map_or(outcome.satisfied.message.clone(), |notice| notice.message.clone()),
        clusters,
    })
}

/// Returns the clusters that passed, best first.
fn ranked(request: &Request<'_>, outcome: &OcmOutcome) -> Vec<ClusterExplanation> {
    let hub = request.hub;
    let slots: Vec<u32> = outcome.scores.iter().map(|&(slot, _)| slot).collect();
    let mut terms: Vec<Vec<ScoreTerm>> = vec![Vec::new(); slots.len()];
    let (counts, _) = hub.counts_of_others(request.key);
    for prioritizer in request.policy.prioritizers.iter().flatten() {
        let scored = prioritize::score(request, &prioritizer.kind, &slots);
        for ((terms, &slot), score) in terms.iter_mut().zip(&slots).zip(scored.scores) {
            terms.push(ScoreTerm {
                name: prioritizer.name(),
                weight: Some(prioritizer.weight),
                observed: observed(request, &prioritizer.kind, slot, counts[slot as usize]),
                score: prioritizer.weight * score,
            });
        }
    }
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by_key(|&position| (Reverse(outcome.scores[position].1), slots[position]));
    let explained = order.iter().enumerate().map(|(at, &position)| {
        let slot = slots[position];
        let picked = outcome.selected.contains(slot as usize);
        let verb = if picked { "picked" } else { "not picked" };
        ClusterExplanation {
            cluster_name: hub.names()[slot as usize].clone(),
            picked,
            kept: false,
            picked_at: None,
            rejected: None,
            scores: std::mem::take(&mut terms[position]),
            decided_score: None,
            rank: Some(at + 1),
            tie_break: tie_break(hub, &outcome.scores, &order, at),
            reason: format!("{verb}: rank {} of {}", at + 1, slots.len()),
        }
    });
    explained.collect()
}

/// Returns why the cluster at a place of the order stands beside another with the same total.
fn tie_break(hub: &Hub, scores: &[(u32, i64)], order: &[usize], at: usize) -> Option<String> {
    let (_, total) = scores[order[at]];
    let next = order.get(at + 1).map(|&position| scores[position]);
    let previous = at.checked_sub(1).map(|before| scores[order[before]]);
    let (slot, word) = match (next, previous) {
        (Some((slot, of_next)), _) if of_next == total => (slot, "before"),
        (_, Some((slot, of_previous))) if of_previous == total => (slot, "after"),
        _ => return None,
    };
    let name = &hub.names()[slot as usize];
    Some(format!("as good as {name}, and {word} it: the smaller name comes first"))
}

/// Returns the input of a prioritizer; `count` is the number of decisions of others that name the cluster.
fn observed(request: &Request<'_>, kind: &PrioritizerKind, slot: u32, count: u32) -> Option<String> {
    let hub = request.hub;
    match kind {
        PrioritizerKind::Balance => match count {
            1 => Some("1 decision of another placement".to_owned()),
            count => Some(format!("{count} decisions of other placements")),
        },
        PrioritizerKind::Steady => {
            let held = hub.held(request.key).is_some_and(|held| held.contains(slot as usize));
            Some(if held { "picked before" } else { "not picked before" }.to_owned())
        }
        PrioritizerKind::Resource(resource) => match hub.member(slot).allocatable.get(RESOURCES[*resource].0)? {
            Quantity::Text(text) => Some(text.clone()),
            Quantity::Number(number) => Some(number.to_string()),
        },
        PrioritizerKind::AddOn(coordinate) => {
            let (values, until) = hub.score_columns(&coordinate.resource_name, &coordinate.score_name)?;
            let value = values.map_or(0, |values| values[slot as usize]);
            match until.get(slot as usize).copied().flatten() {
                Some(end) if request.now > end => Some(format!("{value}, expired {end}")),
                _ => Some(value.to_string()),
            }
        }
    }
}

fn unranked(hub: &Hub, slot: u32, picked: bool, rejected: Option<Refusal>) -> ClusterExplanation {
    let reason = match (&rejected, picked) {
        (Some(refusal), _) => describe(refusal),
        (None, true) => "kept: the placement is misconfigured, its last good decisions stay".to_owned(),
        (None, false) => "not judged: the placement is misconfigured".to_owned(),
    };
    ClusterExplanation {
        cluster_name: hub.names()[slot as usize].clone(),
        picked,
        kept: picked,
        picked_at: None,
        rejected,
        scores: Vec::new(),
        decided_score: None,
        rank: None,
        tie_break: None,
        reason,
    }
}

/// Formats a refusal as a sentence.
fn describe(refusal: &Refusal) -> String {
    let Refusal { filter, subject, observed, wanted } = refusal;
    match (filter.as_str(), observed) {
        (SET_FILTER, Some(sets)) if subject == SET_SUBJECT => format!("in cluster set {sets}, not in {wanted}"),
        (SET_FILTER, None) => format!("not in {wanted}"),
        (SET_FILTER, Some(_)) => "the cluster is being deleted".to_owned(),
        (taint::PLUGIN, Some(observed)) => format!("taint {observed} is not tolerated"),
        (_, Some(_)) if subject == "expression" => format!("the expression {wanted} does not hold"),
        (_, Some(observed)) => format!("{subject} is {observed:?}, wanted {wanted}"),
        (_, None) => format!("{subject} is missing, wanted {wanted}"),
    }
}

fn not_a_candidate(request: &Request<'_>, sets: &[String], slot: u32) -> Refusal {
    if request.hub.member(slot).deleting {
        return Refusal {
            filter: SET_FILTER.to_owned(),
            subject: "deletion".to_owned(),
            observed: Some("in progress".to_owned()),
            wanted: "none".to_owned(),
        };
    }
    let mut of_cluster = request.hub.sets_of(slot as usize);
    // It has every cluster, so to be in it says nothing.
    of_cluster.remove(GLOBAL_SET);
    let of_cluster: Vec<String> = of_cluster.into_iter().collect();
    Refusal {
        filter: SET_FILTER.to_owned(),
        subject: SET_SUBJECT.to_owned(),
        observed: (!of_cluster.is_empty()).then(|| of_cluster.join(", ")),
        wanted: wanted_sets(sets),
    }
}

fn wanted_sets(sets: &[String]) -> String {
    match sets {
        [] => "a cluster set that is bound to the namespace and that the placement takes".to_owned(),
        [set] => format!("cluster set {set}"),
        sets => format!("one of the cluster sets {}", sets.join(", ")),
    }
}

fn by_taint(taint: &model::api::ocm::ManagedClusterTaint) -> Refusal {
    let since = taint.time_added.map_or(String::new(), |since| format!(" since {since}"));
    Refusal {
        filter: taint::PLUGIN.to_owned(),
        subject: format!("taint {}", taint.key),
        observed: Some(format!("{}={}:{:?}{since}", taint.key, taint.value, taint.effect)),
        wanted: "a toleration that holds".to_owned(),
    }
}

/// Returns the first failing part of the predicate with the fewest failing parts.
fn by_nearest_predicate(request: &Request<'_>, slot: u32) -> Refusal {
    let member = request.hub.member(slot);
    let predicates = &request.policy.spec().predicates;
    let failures = predicates.iter().map(|predicate| failing(member, predicate));
    let (position, mut nearest) = failures
        .enumerate()
        .min_by_key(|(_, failing)| if failing.is_empty() { usize::MAX } else { failing.len() })
        .unwrap_or_default();
    if !nearest.is_empty() {
        return nearest.swap_remove(0);
    }
    // Labels and claims match, so an expression is false.
    let expressions =
        predicates.get(position).map(|p| p.required_cluster_selector.cel_selector.cel_expressions.join(" && "));
    Refusal {
        filter: predicate::PLUGIN.to_owned(),
        subject: "expression".to_owned(),
        observed: Some("false, or an error".to_owned()),
        wanted: expressions.unwrap_or_default(),
    }
}

fn failing(member: &OcmMember, predicate: &ClusterPredicate) -> Vec<Refusal> {
    let selector = &predicate.required_cluster_selector;
    let claims = predicate::claims(&selector.claim_selector);
    let mut failing = failing_requirements("label", &member.labels, &selector.label_selector);
    failing.extend(failing_requirements("claim", &member.claims, &claims));
    failing
}

fn failing_requirements(
    what: &str,
    found: &std::collections::BTreeMap<String, String>,
    selector: &LabelSelector,
) -> Vec<Refusal> {
    let refusal = |key: &String, wanted: String| Refusal {
        filter: predicate::PLUGIN.to_owned(),
        subject: format!("{what} {key}"),
        observed: found.get(key).cloned(),
        wanted,
    };
    let equalities = selector.match_labels.iter().filter(|(key, value)| found.get(*key) != Some(value));
    let mut refusals: Vec<Refusal> = equalities.map(|(key, value)| refusal(key, format!("{value:?}"))).collect();
    for requirement in &selector.match_expressions {
        let LabelSelectorRequirement { key, operator, values } = requirement;
        let alone = LabelSelector { match_expressions: vec![requirement.clone()], ..LabelSelector::default() };
        if !alone.matches(found) {
            refusals.push(refusal(
                key,
                match operator {
                    LabelSelectorOperator::In => format!("In [{}]", values.join(", ")),
                    LabelSelectorOperator::NotIn => format!("NotIn [{}]", values.join(", ")),
                    LabelSelectorOperator::Exists => "Exists".to_owned(),
                    LabelSelectorOperator::DoesNotExist => "DoesNotExist".to_owned(),
                    LabelSelectorOperator::Unknown(operator) => format!("{operator} [{}]", values.join(", ")),
                },
            ));
        }
    }
    refusals
}
