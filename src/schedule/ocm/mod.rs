//! Open Cluster Management's Placement: which managed clusters, in which groups, with which scores.
//!
//! [`Hub`] is what placements read, [`OcmPolicy`] a placement's spec made ready, [`schedule`] one evaluation, [`explain`] the same
//! evaluation told cluster by cluster, and [`reads`] says which placements a change concerns. Clusters are slots: their
//! positions in order of name, good until the hub gains or loses a cluster.
//!
//! Source: Open Cluster Management's placement controller; its rules are restated where they are carried out.

mod cel;
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

use crate::api::ocm::SCHEDULING_DISABLED;
use crate::error::{Classify, ErrorClass};

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
    /// `metadata.namespace`: its bindings say which sets it may pick from.
    pub namespace: String,
    /// `metadata.name`; empty for decision objects that name no placement.
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

/// What becomes of the decisions of a placement that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMisconfigured {
    /// They are withdrawn, as the original does: a typing error in a toleration takes the workload off every cluster.
    Withdraw,
    /// The last good ones stay, and the condition says so.
    Keep,
}

/// One evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The placement.
    pub key: &'a Key,
    /// Its spec, made ready.
    pub policy: &'a OcmPolicy,
    /// What it reads, its own decisions and those of the others included.
    pub hub: &'a Hub,
    /// The time at which tolerations and scores expire or not.
    pub now: Timestamp,
    /// What becomes of the decisions where the placement is misconfigured.
    pub on_misconfigured: OnMisconfigured,
}

/// A part of the evaluation that has something to say, by its name in the original, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// `Predicate`, `TaintToleration`, a prioritizer; empty where the original names none.
    pub plugin: String,
    /// What is wrong, in the original's words.
    pub message: String,
}

impl Notice {
    fn new(plugin: &str, message: impl Into<String>) -> Self {
        Self { plugin: plugin.to_owned(), message: message.into() }
    }
}

/// What is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decisions {
    /// These groups, in order of their index. None means no decision object at all.
    Groups(Vec<Group>),
    /// What is published stays: the placement is misconfigured.
    Kept,
}

/// What came of an evaluation. Slots are those of the hub that was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct OcmOutcome {
    /// What is to be published.
    pub decisions: Decisions,
    /// The picked clusters; for [`Decisions::Kept`] those that the placement has.
    pub selected: FixedBitSet,
    /// How many clusters are missing to the number asked for.
    pub unscheduled: usize,
    /// The total of every cluster that passed the filters, in order of name.
    pub scores: Vec<(u32, i64)>,
    /// The condition PlacementSatisfied.
    pub satisfied: ConditionVerdict,
    /// What makes the placement one that cannot be carried out.
    pub misconfigured: Option<Notice>,
    /// What is to be known, and changes nothing: expired scores.
    pub warning: Option<Notice>,
    /// When to evaluate again though nothing changes: a toleration of a picked cluster ends, or a score that counts expires.
    pub requeue_at: Option<Timestamp>,
}

/// Why a placement was not evaluated. It keeps what it has, conditions included.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A set that it may pick from has a selector that cannot be read.
    #[error("ManagedClusterSet {set} cannot be read, and placement {placement} picks from it: {message}")]
    ClusterSet {
        /// The placement.
        placement: Key,
        /// The set.
        set: String,
        /// What is wrong with the selector.
        message: String,
    },
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        ErrorClass::Invalid
    }
}

/// Tells whether annotations keep a placement from being scheduled: it is then to be left as it is, conditions included.
pub fn is_disabled(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(SCHEDULING_DISABLED).is_some_and(|value| value == "true")
}

/// Decides which clusters a placement gets.
///
/// Filters are asked first, Predicate before TaintToleration, then prioritizers; the best by total and then by name are picked.
///
/// # Errors
/// [`Error::ClusterSet`] where the candidates cannot be told.
///
/// Source: Open Cluster Management, one scheduling cycle. It differs where scores expire: there nobody looks at the clock.
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

/// Returns the clusters of all sets that are bound to the namespace, exist, and are asked for; without those being deleted.
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
                let (placement, set, message) = (request.key.clone(), set.clone(), message.clone());
                return Err(Error::ClusterSet { placement, set, message });
            }
            None => {}
        }
    }
    clusters.intersect_with(hub.staying());
    Ok(Candidates { bound: !bound.is_empty(), sets, clusters })
}

/// What filters and prioritizers said, before it is cut into groups.
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
/// The first part of the placement that cannot be carried out.
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

/// Returns the best clusters by total, names deciding between equals, and how many are missing to the number asked for.
fn select(request: &Request<'_>, totals: &[(u32, i64)]) -> (FixedBitSet, usize) {
    let mut selected = request.hub.no_clusters();
    let wanted = request.policy.spec().number_of_clusters.map(|n| usize::try_from(n).unwrap_or(0));
    match wanted {
        Some(wanted) if wanted < totals.len() => {
            let mut ranked: Vec<(std::cmp::Reverse<i64>, u32)> =
                totals.iter().map(|&(slot, total)| (std::cmp::Reverse(total), slot)).collect();
            if wanted > 0 {
                // Which clusters are the best matters, not their order: the answer is a set.
                ranked.select_nth_unstable(wanted - 1);
            }
            selected.extend(ranked[..wanted].iter().map(|&(_, slot)| slot as usize));
        }
        _ => selected.extend(totals.iter().map(|&(slot, _)| slot as usize)),
    }
    (selected, wanted.map_or(0, |wanted| wanted.saturating_sub(totals.len())))
}
