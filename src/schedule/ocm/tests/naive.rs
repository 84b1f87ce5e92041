//! The rules of the reference carried out cluster by cluster on the documents, without any index: what decides fast has to
//! decide the same.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::worlds::World;
use super::*;

/// What is compared: totals by name, and group name, index and clusters of every object.
#[derive(Debug, PartialEq)]
pub(super) struct Decided {
    pub(super) totals: Vec<(String, i64)>,
    pub(super) objects: Vec<(String, String, Vec<String>)>,
    pub(super) unscheduled: usize,
}

/// What the indexed implementation decided.
pub(super) fn decided(hub: &Hub, outcome: &OcmOutcome) -> Decided {
    let name = |slot: u32| hub.names()[slot as usize].to_string();
    let pages = outcome.pages(&key(), hub).unwrap().into_iter();
    let object = |page: Page| {
        let clusters = page.clusters.iter().map(ToString::to_string).collect();
        (page.labels[GROUP_NAME_LABEL].clone(), page.labels[GROUP_INDEX_LABEL].clone(), clusters)
    };
    Decided {
        totals: outcome.scores.iter().map(|&(slot, total)| (name(slot), total)).collect(),
        objects: pages.map(object).collect(),
        unscheduled: outcome.unscheduled,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn of_kind<'w>(world: &'w World, kind: &'static str) -> impl Iterator<Item = &'w Value> {
    world.documents.iter().filter(move |document| document["kind"] == kind)
}

fn name(document: &Value) -> &str {
    text(&document["metadata"]["name"])
}

/// A name may be a claim's or a label's.
fn fits(selector: &Value, found: &dyn Fn(&str) -> Option<String>) -> bool {
    let equalities = selector["matchLabels"].as_object().into_iter().flatten();
    equalities.into_iter().all(|(key, value)| found(key).as_deref() == Some(text(value)))
        && list(&selector["matchExpressions"]).all(|requirement| {
            let found = found(text(&requirement["key"]));
            let listed = |found: &String| list(&requirement["values"]).any(|value| value == found.as_str());
            match text(&requirement["operator"]) {
                "In" => found.as_ref().is_some_and(listed),
                "NotIn" => !found.as_ref().is_some_and(listed),
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}

fn selected(selector: &Value, cluster: &Value) -> bool {
    let label = |key: &str| cluster["metadata"]["labels"].get(key).map(|value| text(value).to_owned());
    let claim = |key: &str| {
        let claims = list(&cluster["status"]["clusterClaims"]);
        claims.filter(|claim| claim["name"] == key).last().map(|claim| text(&claim["value"]).to_owned())
    };
    fits(&selector["labelSelector"], &label) && fits(&selector["claimSelector"], &claim)
}

fn in_set(set: &Value, cluster: &Value) -> bool {
    let selector = &set["spec"]["clusterSelector"];
    if selector["selectorType"] == "LabelSelector" {
        return selected(&json!({"labelSelector": selector["labelSelector"]}), cluster);
    }
    cluster["metadata"]["labels"][SET_LABEL] == name(set)
}

fn candidates(world: &World) -> Vec<&Value> {
    let wanted: Vec<&str> = list(&world.spec["clusterSets"]).map(text).collect();
    let sets: Vec<&Value> = of_kind(world, "ManagedClusterSetBinding")
        .filter(|binding| binding["metadata"]["namespace"] == "ns1")
        .filter(|binding| wanted.is_empty() || wanted.contains(&name(binding)))
        .flat_map(|binding| of_kind(world, "ManagedClusterSet").filter(move |set| name(set) == name(binding)))
        .collect();
    let mut clusters: Vec<&Value> = of_kind(world, "ManagedCluster")
        .filter(|cluster| cluster["metadata"].get("deletionTimestamp").is_none())
        .filter(|cluster| sets.iter().any(|set| in_set(set, cluster)))
        .collect();
    clusters.sort_by_key(|cluster| name(cluster));
    clusters
}

/// How often decisions name each cluster: those of the placement, or those of all others.
fn named(world: &World, own: bool) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for page in of_kind(world, "PlacementDecision") {
        let metadata = &page["metadata"];
        if own == (metadata["namespace"] == "ns1" && metadata["labels"][PLACEMENT_LABEL] == "demo") {
            for decision in list(&page["status"]["decisions"]) {
                *counts.entry(text(&decision["clusterName"])).or_insert(0) += 1;
            }
        }
    }
    counts
}

fn tolerated(world: &World, taint: &Value, held: bool) -> bool {
    if taint["effect"] == "PreferNoSelect" || (taint["effect"] == "NoSelectIfNew" && held) {
        return true;
    }
    list(&world.spec["tolerations"]).any(|toleration| {
        let same = |field: &str| text(&toleration[field]).is_empty() || toleration[field] == taint[field];
        let value = match text(&toleration["operator"]) {
            "" | "Equal" => text(&toleration["value"]) == text(&taint["value"]),
            operator => operator == "Exists",
        };
        let in_time = toleration["tolerationSeconds"].as_i64().is_none_or(|seconds| {
            let added = taint["timeAdded"].as_str().map(|added| added.parse::<Timestamp>().unwrap());
            added.is_some_and(|added| now() < added + jiff::SignedDuration::from_secs(seconds))
        });
        same("effect") && same("key") && value && in_time
    })
}

/// Whole billionths, so that any unit of the documents is one number.
fn amount(cluster: &Value, resource: &str) -> Option<f64> {
    cluster["status"]["capacity"].get(resource)?;
    let written = cluster["status"]["allocatable"].get(resource)?.as_str()?;
    let number = |digits: &str| digits.parse::<f64>().unwrap();
    Some(match (written.strip_suffix("Gi"), written.strip_suffix('m')) {
        (Some(digits), _) => number(digits) * 1_073_741_824.0,
        (_, Some(digits)) => number(digits) * 0.001,
        _ => number(written),
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::float_cmp, reason = "as the reference")]
fn score(world: &World, passed: &[&Value], coordinate: &Value, cluster: &Value) -> i64 {
    if coordinate["type"] == "AddOn" {
        let objects = of_kind(world, "AddOnPlacementScore");
        let mut objects = objects.filter(|object| object["metadata"]["namespace"] == name(cluster));
        let Some(object) = objects.find(|object| name(object) == text(&coordinate["addOn"]["resourceName"])) else {
            return 0;
        };
        let until = object["status"]["validUntil"].as_str().map(|until| until.parse::<Timestamp>().unwrap());
        let mut scores = list(&object["status"]["scores"]);
        let found = scores.find(|score| score["name"] == coordinate["addOn"]["scoreName"]);
        let expired = until.is_some_and(|until| now() > until);
        return found.filter(|_| !expired).map_or(0, |score| score["value"].as_i64().unwrap());
    }
    match text(&coordinate["builtIn"]) {
        "Balance" => {
            let counts = named(world, false);
            let largest = counts.values().max().copied().unwrap_or(0) as f64;
            counts.get(name(cluster)).map_or(100, |&count| 2 * ((100.0 * (0.5 - count as f64 / largest)) as i64))
        }
        "Steady" => i64::from(named(world, true).contains_key(name(cluster))) * 100,
        resource => {
            let resource = if resource.ends_with("CPU") { "cpu" } else { "memory" };
            let amounts: Vec<f64> = passed.iter().filter_map(|cluster| amount(cluster, resource)).collect();
            let least = amounts.iter().copied().fold(f64::INFINITY, f64::min);
            let most = amounts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            match amount(cluster, resource) {
                None => 0,
                Some(_) if least == most => 100,
                Some(amount) => ((((amount - least) / (most - least)) - 0.5) * 2.0 * 100.0) as i64,
            }
        }
    }
}

fn weights(world: &World) -> Vec<(Value, i64)> {
    let policy = &world.spec["prioritizerPolicy"];
    let mut weights: Vec<(Value, i64)> = match text(&policy["mode"]) {
        "Exact" => Vec::new(),
        _ => vec![(json!({"builtIn": "Balance"}), 1), (json!({"builtIn": "Steady"}), 1)],
    };
    for configured in list(&policy["configurations"]) {
        let weight = configured["weight"].as_i64().unwrap_or(1);
        weights.retain(|(coordinate, _)| *coordinate != configured["scoreCoordinate"]);
        weights.push((configured["scoreCoordinate"].clone(), weight));
    }
    weights
}

/// Decides about the placement of a world.
pub(super) fn decide(world: &World) -> Decided {
    let held = named(world, true);
    let predicates: Vec<&Value> = list(&world.spec["predicates"]).collect();
    let passed: Vec<&Value> = candidates(world)
        .into_iter()
        .filter(|cluster| {
            predicates.is_empty() || predicates.iter().any(|p| selected(&p["requiredClusterSelector"], cluster))
        })
        .filter(|cluster| {
            let held = held.contains_key(name(cluster));
            list(&cluster["spec"]["taints"]).all(|taint| tolerated(world, taint, held))
        })
        .collect();
    let weights = weights(world);
    let total = |cluster: &Value| -> i64 {
        weights.iter().map(|(coordinate, weight)| weight * score(world, &passed, coordinate, cluster)).sum()
    };
    let totals: Vec<(String, i64)> = passed.iter().map(|cluster| (name(cluster).to_owned(), total(cluster))).collect();
    let mut ranked = totals.clone();
    ranked.sort_by_key(|(name, total)| (Reverse(*total), name.clone()));
    let number = world.spec["numberOfClusters"].as_u64().map(|n| usize::try_from(n).unwrap());
    ranked.truncate(number.unwrap_or(usize::MAX));
    let picks: BTreeSet<&str> = ranked.iter().map(|(name, _)| name.as_str()).collect();
    let picked: Vec<&Value> = passed.iter().copied().filter(|cluster| picks.contains(name(cluster))).collect();
    Decided { unscheduled: number.map_or(0, |number| number - picked.len()), objects: objects(world, picked), totals }
}

fn objects(world: &World, mut rest: Vec<&Value>) -> Vec<(String, String, Vec<String>)> {
    let strategy = &world.spec["decisionStrategy"]["groupStrategy"];
    let n = rest.len();
    let length = match strategy.get("clustersPerDecisionGroup") {
        Some(Value::Number(number)) => usize::try_from(number.as_u64().unwrap()).unwrap(),
        Some(Value::String(percent)) => {
            let percent: usize = percent.trim_end_matches('%').parse().unwrap();
            (percent * n).div_ceil(100)
        }
        _ => n,
    };
    let length = if length == 0 || length > n { n.max(1) } else { length };
    let mut chunks: Vec<(String, Vec<String>)> = Vec::new();
    let everything = json!({"groupName": "", "groupClusterSelector": {}});
    for group in list(&strategy["decisionGroups"]).chain([&everything]) {
        let (taken, left): (Vec<&Value>, Vec<&Value>) =
            rest.into_iter().partition(|cluster| selected(&group["groupClusterSelector"], cluster));
        rest = left;
        let names: Vec<String> = taken.iter().map(|cluster| name(cluster).to_owned()).collect();
        chunks.extend(names.chunks(length).map(|chunk| (text(&group["groupName"]).to_owned(), chunk.to_vec())));
    }
    if chunks.is_empty() {
        chunks.push((String::new(), Vec::new()));
    }
    let indexed = chunks.into_iter().enumerate();
    indexed.map(|(index, (name, clusters))| (name, index.to_string(), clusters)).collect()
}
