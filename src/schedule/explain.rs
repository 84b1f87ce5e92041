//! Explains why a cluster was picked or not, with the values of the decision, cluster by cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::bindings::Classified;
use super::filter::Filter;
use super::fleet::Fleet;
use super::properties::RESOURCES;
use super::rank::{Candidate, Ranking, rank};
use super::{Action, Error, Outcome, Request, pick, schedule};
use model::api::placement::{
    LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, PlacementPolicy, PlacementType, SortOrder,
};
use model::explanation::{ClusterExplanation, Explanation, Moved, Refusal, ScoreTerm};
use model::id::ClusterName;

/// Explains the decision of [`schedule`] for the same request.
///
/// # Errors
/// The errors of [`schedule`].
pub fn explain(request: &Request<'_>) -> Result<Explanation, Error> {
    let outcome = schedule(request)?;
    let bindings = Classified::of(request)?;
    let sight = Sight::of(request, &outcome, &bindings)?;
    let fleet = request.clusters;
    let mut clusters: Vec<ClusterExplanation> = (0..fleet.len()).map(|slot| sight.cluster(slot)).collect();
    clusters.extend(sight.missing());
    // The sort is stable: clusters without a rank stay in order of name.
    clusters.sort_by_key(|cluster| cluster.rank.unwrap_or(usize::MAX));
    Ok(Explanation {
        kind: request.placement.kind().to_owned(),
        namespace: request.placement.namespace.clone().unwrap_or_default(),
        name: request.placement.name.clone(),
        wanted: wanted(request.policy),
        fulfilled: outcome.fulfilled,
        message: outcome.message,
        clusters,
    })
}

fn wanted(policy: Option<&PlacementPolicy>) -> String {
    match policy.map(|policy| (policy.placement_type, policy)) {
        Some((PlacementType::PickN, policy)) => format!("PickN {}", policy.number_of_clusters.unwrap_or_default()),
        Some((PlacementType::PickFixed, policy)) if policy.cluster_names.is_empty() => {
            "PickFixed without names".to_owned()
        }
        Some((PlacementType::PickFixed, policy)) => format!("PickFixed {}", policy.cluster_names.join(", ")),
        _ => "every cluster that passes".to_owned(),
    }
}

/// The inputs for every cluster.
struct Sight<'a, 'b> {
    fleet: &'a Fleet,
    policy: Option<&'a PlacementPolicy>,
    filter: Filter<'a>,
    bindings: &'b Classified<'a>,
    ranking: Ranking<'a>,
    /// Ranks from one, by slot.
    ranks: BTreeMap<usize, usize>,
    /// The clusters with the placement afterwards.
    picked: BTreeSet<ClusterName>,
}

impl<'a, 'b> Sight<'a, 'b> {
    fn of(request: &Request<'a>, outcome: &Outcome, bindings: &'b Classified<'a>) -> Result<Self, Error> {
        let kept = [&bindings.scheduled, &bindings.bound].into_iter().flatten().map(|binding| &binding.cluster);
        let mut picked: BTreeSet<ClusterName> = kept.cloned().collect();
        for change in &outcome.bindings {
            match change.action {
                Action::Create | Action::Patch => picked.insert(change.binding.cluster.clone()),
                Action::Unschedule | Action::Leave => picked.remove(&change.binding.cluster),
            };
        }
        let filter = Filter::of(request, &bindings.held_at(request))?;
        let pick_n = request.policy.filter(|policy| policy.placement_type == PlacementType::PickN);
        let ranking = match pick_n {
            Some(policy) => {
                let number = policy.number_of_clusters.and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
                let open = number.saturating_sub(bindings.scheduled.len() + bindings.bound.len());
                let has = (&bindings.current_at, &bindings.obsolete_at);
                // A decision lists only a few of the clusters not picked; people may ask about any.
                rank(request, policy, &filter.passed, has, (open, usize::MAX))?
            }
            None => Ranking::default(),
        };
        let order = ranking.picked.iter().chain(&ranking.next).enumerate();
        let ranks = order.map(|(place, candidate)| (candidate.slot, place + 1)).collect();
        Ok(Self { fleet: request.clusters, policy: request.policy, filter, bindings, ranking, ranks, picked })
    }

    fn cluster(&self, slot: usize) -> ClusterExplanation {
        let name = self.fleet.name(slot);
        let picked = self.picked.contains(name);
        let kept = picked && self.bindings.current_at.contains(slot);
        let rank = self.ranks.get(&slot).copied();
        let rejected = if picked { None } else { self.refusal(slot) };
        let reason = match (&rejected, rank) {
            (Some(refusal), _) => short(refusal),
            _ if kept => "kept: picked earlier, and not judged again".to_owned(),
            (None, Some(rank)) => {
                let word = if picked { "picked" } else { "not picked" };
                format!("{word}: rank {rank} of {}", self.ranks.len())
            }
            (None, None) if picked && self.named().is_some() => "picked: the policy names it".to_owned(),
            (None, None) if picked => "picked: passes every filter".to_owned(),
            (None, None) => "not picked: fewer clusters are wanted".to_owned(),
        };
        ClusterExplanation {
            cluster_name: name.clone(),
            picked,
            kept,
            picked_at: None,
            scores: if rejected.is_some() { Vec::new() } else { self.scores(slot, rank) },
            rejected,
            decided_score: None,
            rank,
            tie_break: rank.and_then(|rank| self.tie_break(rank)),
            reason,
        }
    }

    /// The clusters in a `PickFixed` policy.
    fn named(&self) -> Option<&'a [String]> {
        let fixed = self.policy.filter(|policy| policy.placement_type == PlacementType::PickFixed)?;
        Some(&fixed.cluster_names)
    }

    fn refusal(&self, slot: usize) -> Option<Refusal> {
        let Some(named) = self.named() else {
            // A cluster that was dropped because N decreased was no candidate: no constraint rejected it, whatever its skew.
            let refusal = self.filter.refusal(slot);
            if refusal.is_none() && self.ranking.violating.contains(slot) {
                return self.ranking.refusal(slot);
            }
            return refusal;
        };
        let name = self.fleet.name(slot);
        if named.iter().any(|named| named == name.as_str()) {
            return self.filter.refusal(slot);
        }
        Some(Refusal {
            filter: "PickFixed".into(),
            subject: "clusterNames".into(),
            observed: None,
            wanted: "its name".into(),
        })
    }

    /// The clusters in the policy that the fleet does not have.
    fn missing(&self) -> impl Iterator<Item = ClusterExplanation> {
        let named: BTreeSet<&String> = self.named().into_iter().flatten().collect();
        named.into_iter().filter(|name| !self.fleet.contains(name)).map(|name| {
            let refusal = Refusal {
                filter: "PickFixed".into(),
                subject: "the cluster".into(),
                observed: None,
                wanted: "in the fleet".into(),
            };
            ClusterExplanation {
                cluster_name: ClusterName::new(name.as_str()),
                picked: false,
                kept: false,
                picked_at: None,
                reason: short(&refusal),
                rejected: Some(refusal),
                scores: Vec::new(),
                decided_score: None,
                rank: None,
                tie_break: None,
            }
        })
    }

    fn candidate(&self, rank: usize) -> Option<&Candidate> {
        self.ranking.picked.iter().chain(&self.ranking.next).nth(rank.checked_sub(1)?)
    }

    fn tie_break(&self, rank: usize) -> Option<String> {
        let own = self.candidate(rank)?;
        let (other, word) = match (self.candidate(rank + 1), self.candidate(rank - 1)) {
            (Some(next), _) if is_tie(own, next) => (next, "before"),
            (_, Some(previous)) if is_tie(own, previous) => (previous, "after"),
            _ => return None,
        };
        Some(format!("as good as {}, and {word} it: the larger name comes first", self.fleet.name(other.slot)))
    }

    fn scores(&self, slot: usize, rank: Option<usize>) -> Vec<ScoreTerm> {
        let labels = &self.fleet.cluster(slot).labels;
        let mut scores = Vec::new();
        let candidate = rank.and_then(|rank| self.candidate(rank));
        if let Some(candidate) = candidate
            && !self.ranking.spreads.is_empty()
        {
            let keys: Vec<&str> = self.ranking.spreads.iter().map(|s| s.constraint.topology_key.as_str()).collect();
            let domains: Vec<&str> =
                keys.iter().map(|key| labels.get(*key).map_or("no value", String::as_str)).collect();
            scores.push(ScoreTerm {
                name: format!("topology spread on {}", keys.join(", ")),
                weight: None,
                observed: Some(domains.join(", ")),
                score: candidate.topology.into(),
            });
        }
        for term in &self.ranking.terms {
            let sorter = term.preferred.preference.property_sorter.as_ref();
            let labels_wanted = term.preferred.preference.label_selector.as_ref().map(format_selector);
            let order = sorter.map(|sorter| {
                let order = if sorter.sort_order == SortOrder::Descending { "descending" } else { "ascending" };
                format!("{} {order}", sorter.name.trim_start_matches(RESOURCES))
            });
            let what: Vec<String> = [labels_wanted, order].into_iter().flatten().collect();
            scores.push(ScoreTerm {
                name: format!("preferred[{}] {}", term.index, what.join(", ")),
                weight: Some(term.preferred.weight.into()),
                observed: sorter.and_then(|sorter| self.fleet.cluster(slot).properties.get(&sorter.name).cloned()),
                score: term.score(slot).into(),
            });
        }
        if candidate.is_some_and(|candidate| candidate.obsolete > 0) {
            let name = "has the placement by an earlier policy".to_owned();
            scores.push(ScoreTerm { name, weight: None, observed: None, score: 1 });
        }
        scores
    }
}

/// Tells whether only the names decide which of two candidates is picked first.
fn is_tie(one: &Candidate, other: &Candidate) -> bool {
    one.topology == other.topology && one.affinity == other.affinity && one.obsolete == other.obsolete
}

/// Formats a selector: `region=east, env in (dev, prod)`.
fn format_selector(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let other = selector.match_expressions.iter().map(|LabelSelectorRequirement { key, operator, values }| {
        let values = values.join(", ");
        match operator {
            LabelSelectorOperator::In => format!("{key} in ({values})"),
            LabelSelectorOperator::NotIn => format!("{key} notin ({values})"),
            LabelSelectorOperator::Exists => key.clone(),
            LabelSelectorOperator::DoesNotExist => format!("!{key}"),
            LabelSelectorOperator::Unknown(operator) => format!("{key} {operator} ({values})"),
        }
    });
    equal.chain(other).collect::<Vec<_>>().join(", ")
}

/// Formats a refusal in a few words: `available-cpu 3 is below 4`.
fn short(refusal: &Refusal) -> String {
    const COMPARISONS: [(&str, &str); 6] = [
        (">= ", "is below"),
        ("> ", "is not above"),
        ("<= ", "is above"),
        ("< ", "is not below"),
        ("!= ", "is the one value excluded:"),
        ("= ", "is not"),
    ];
    if refusal.filter == "PickFixed" {
        return match refusal.subject.as_str() {
            "clusterNames" => "the policy does not name it".to_owned(),
            _ => "the policy names it, and it is not in the fleet".to_owned(),
        };
    }
    let compared = refusal.observed.as_ref().and_then(|observed| {
        let subject = refusal.subject.trim_start_matches("property ").trim_start_matches(RESOURCES);
        let (sign, text) = COMPARISONS.iter().find(|(sign, _)| refusal.wanted.starts_with(sign))?;
        // The text after the semicolon says why the property cannot be read, which is more than a comparison says.
        let comparable = refusal.wanted.len() > sign.len() && !refusal.wanted.contains(';');
        comparable.then(|| format!("{subject} {observed} {text} {}", &refusal.wanted[sign.len()..]))
    });
    compared.unwrap_or_else(|| match refusal.subject.strip_prefix("property ") {
        Some(name) => {
            let subject = name.trim_start_matches(RESOURCES).to_owned();
            pick::describe(&Refusal { subject, ..refusal.clone() })
        }
        None => pick::describe(refusal),
    })
}

/// Lists the clusters that a placement gained and lost between two explanations, by name.
pub fn differences(before: &Explanation, after: &Explanation) -> Vec<Moved> {
    fn by_name(explanation: &Explanation) -> BTreeMap<&ClusterName, &ClusterExplanation> {
        explanation.clusters.iter().map(|cluster| (&cluster.cluster_name, cluster)).collect()
    }
    let old = by_name(before);
    let new = by_name(after);
    let names: BTreeSet<&ClusterName> = old.keys().chain(new.keys()).copied().collect();
    let mut found = Vec::new();
    for name in names {
        let was = old.get(name).copied();
        let is = new.get(name).copied();
        // A cluster that was picked and still is has not moved, whatever its reason; nor has one that never was.
        let text = match (was.filter(|was| was.picked), is.filter(|is| is.picked)) {
            (Some(_), None) => {
                let why = is.map_or("it left the fleet", |is| is.reason.trim_start_matches("not picked: "));
                format!("{name} dropped: {why}")
            }
            (None, Some(is)) => {
                let was = match was {
                    None => "joined the fleet".to_owned(),
                    Some(was) if was.rejected.is_some() => format!("was rejected: {}", was.reason),
                    Some(was) => format!("was {}", was.reason),
                };
                format!("{name} {} ({was})", is.reason)
            }
            _ => continue,
        };
        found.push(Moved { cluster_name: name.clone(), text });
    }
    found
}

#[cfg(test)]
mod tests;
