//! Open Cluster Management's Placement: which managed clusters, in which groups, with which scores.
//!
//! [`Hub`] holds the data that placements read, [`OcmPolicy`] is a prepared spec, [`schedule`] runs one evaluation, [`explain`]
//! explains it cluster by cluster, and [`reads`] finds the placements that a change affects. Clusters are slots: their
//! positions by name, valid until the hub gains or loses a cluster.
//!
//! Source: Open Cluster Management's placement controller; the functions restate its rules.

mod change;
mod explain;
mod groups;
mod hub;
mod load;
mod member;
mod policy;
mod predicate;
mod prioritize;
pub mod reads;
mod status;
mod taint;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use fixedbitset::FixedBitSet;
use jiff::Timestamp;

use model::api::ocm::SCHEDULING_DISABLED;

pub use change::{Change, ClusterChange};
pub use explain::explain;
pub use groups::{Group, Page};
pub use hub::Hub;
pub use member::OcmMember;
pub use policy::OcmPolicy;
pub use status::{ConditionVerdict, DecisionGroupStatus, SCORE_NOTE_LENGTH_MAX, Status};

/// Names a Placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `metadata.namespace`: its bindings determine the sets it may pick from.
    pub namespace: String,
    /// `metadata.name`; empty for decision objects without a placement.
    pub name: String,
}

impl Key {
    /// Names a Placement.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How to treat the decisions of a misconfigured placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMisconfigured {
    /// Withdraw them, as the original does: a typing error in a toleration removes the workload from every cluster.
    Withdraw,
    /// Keep the last good ones; the condition reports the error.
    Keep,
}

/// One evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The placement.
    pub key: &'a Key,
    /// Its prepared spec.
    pub policy: &'a OcmPolicy,
    /// The hub, including its own decisions and those of others.
    pub hub: &'a Hub,
    /// The time at which tolerations and scores expire or not.
    pub now: Timestamp,
    /// How to treat the decisions if the placement is misconfigured.
    pub on_misconfigured: OnMisconfigured,
}

/// A message of one part of the evaluation, with the part's name in the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// `Predicate`, `TaintToleration`, a prioritizer; empty where the original names none.
    pub plugin: String,
    /// The error, in the original's words.
    pub message: String,
}

impl Notice {
    fn new(plugin: &str, message: impl Into<String>) -> Self {
        Self { plugin: plugin.to_owned(), message: message.into() }
    }
}

/// The decisions to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decisions {
    /// These groups, in order of their index. Empty means no decision object at all.
    Groups(Vec<Group>),
    /// The published ones stay: the placement is misconfigured.
    Kept,
}

/// The result of an evaluation. Slots belong to the given hub.
#[derive(Clone, Debug, PartialEq)]
pub struct OcmOutcome {
    /// What is to be published.
    pub decisions: Decisions,
    /// The picked clusters; for [`Decisions::Kept`] the placement's present ones.
    pub selected: FixedBitSet,
    /// The number of missing clusters.
    pub unscheduled: usize,
    /// The total of every cluster that passed the filters, in order of name.
    pub scores: Vec<(u32, i64)>,
    /// The condition PlacementSatisfied.
    pub satisfied: ConditionVerdict,
    /// The error that makes the placement misconfigured.
    pub misconfigured: Option<Notice>,
    /// A warning without effect: expired scores.
    pub warning: Option<Notice>,
    /// When to evaluate again without a change: a toleration of a picked cluster ends, or a score in use expires.
    pub requeue_at: Option<Timestamp>,
}

/// Why a placement was not evaluated. It keeps its decisions and its conditions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// One of its sets has an unreadable selector.
    #[error("ManagedClusterSet {set} cannot be read, and placement {placement} picks from it: {message}")]
    ClusterSet {
        /// The placement.
        placement: Key,
        /// The set.
        set: String,
        /// The error in the selector.
        message: String,
    },
}

/// Tells whether annotations disable scheduling of a placement: it keeps its decisions and its conditions.
pub fn is_disabled(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(SCHEDULING_DISABLED).is_some_and(|value| value == "true")
}

/// Decides which clusters a placement gets.
///
/// Filters run first, Predicate before TaintToleration, then prioritizers; the best by total and then by name are picked.
///
/// # Errors
/// [`Error::ClusterSet`] if the candidates cannot be determined.
///
/// Source: Open Cluster Management, one scheduling cycle. It differs for expiring scores: the original does not wake up for
/// them.
pub fn schedule(request: &Request<'_>) -> Result<OcmOutcome, Error> {
    let candidates = candidates(request)?;
    let evaluation = evaluate(request, &candidates);
    Ok(status::outcome(request, &candidates, evaluation))
}

/// The clusters of the eligible sets, and why there are none.
struct Candidates {
    bound: bool,
    sets: Vec<String>,
    clusters: FixedBitSet,
}

/// Returns the clusters of all sets that are bound to the namespace, exist, and are requested; without those being deleted.
fn candidates(request: &Request<'_>) -> Result<Candidates, Error> {
    let hub = request.hub;
    let wanted = &request.policy.spec().cluster_sets;
    let bound: Vec<&str> = hub.bound_sets(&request.key.namespace).collect();
    let sets: Vec<String> = bound
        .iter()
        .filter(|set| wanted.is_empty() || wanted.iter().any(|w| w == *set))
        .map(|set| (*set).to_owned())
        .collect();
    let mut clusters = hub.no_clusters();
    for set in &sets {
        match hub.members_of(set) {
            Some(Ok(members)) => clusters.union_with(members),
            Some(Err(message)) => {
                return Err(Error::ClusterSet {
                    placement: request.key.clone(),
                    set: set.clone(),
                    message: message.clone(),
                });
            }
            None => {}
        }
    }
    clusters.intersect_with(hub.staying());
    Ok(Candidates { bound: !bound.is_empty(), sets, clusters })
}

/// The results of filters and prioritizers, before they are split into groups.
struct Evaluation {
    selected: FixedBitSet,
    unscheduled: usize,
    scores: Vec<(u32, i64)>,
    warning: Option<Notice>,
    groups: groups::Grouped,
    score_expires: Option<Timestamp>,
}

/// Runs filters and prioritizers and selects.
///
/// # Errors
/// The first misconfigured part of the placement.
fn evaluate(request: &Request<'_>, candidates: &Candidates) -> Result<Evaluation, Notice> {
    let mut passed = predicate::filter(request, &candidates.clusters)?;
    taint::filter(request, &mut passed)?;
    let prioritized = prioritize::totals(request, &passed)?;
    let (selected, unscheduled) = select(request, &prioritized.totals);
    let groups = groups::cut(request, &selected);
    Ok(Evaluation {
        selected,
        unscheduled,
        scores: prioritized.totals,
        warning: prioritized.warning,
        groups,
        score_expires: prioritized.expires,
    })
}

/// Returns the best clusters by total, with names as tie break, and the number of missing clusters.
fn select(request: &Request<'_>, totals: &[(u32, i64)]) -> (FixedBitSet, usize) {
    let mut selected = request.hub.no_clusters();
    let wanted = request.policy.spec().number_of_clusters.map(|n| usize::try_from(n).unwrap_or(0));
    match wanted {
        Some(wanted) if wanted < totals.len() => {
            let mut ranked: Vec<(std::cmp::Reverse<i64>, u32)> =
                totals.iter().map(|&(slot, total)| (std::cmp::Reverse(total), slot)).collect();
            if wanted > 0 {
                // The set of the best clusters matters, not their order.
                ranked.select_nth_unstable(wanted - 1);
            }
            selected.extend(ranked[..wanted].iter().map(|&(_, slot)| slot as usize));
        }
        _ => selected.extend(totals.iter().map(|&(slot, _)| slot as usize)),
    }
    (selected, wanted.map_or(0, |wanted| wanted.saturating_sub(totals.len())))
}
