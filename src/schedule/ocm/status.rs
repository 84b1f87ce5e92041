//! The status of a placement: conditions, status, and the text of its ScoreUpdate event.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use super::groups::page_name;
use super::{Candidates, Decisions, Evaluation, Hub, Key, Notice, OcmOutcome, OnMisconfigured, Request, groups, taint};
use model::api::condition::{Condition, set_condition};
use model::conditions::{ConditionType, Reason};
use model::id::ClusterName;

/// Characters of a ScoreUpdate event's text, the mark that it continues not counted.
pub const SCORE_NOTE_LENGTH_MAX: usize = 1000;

/// The contents of the condition PlacementSatisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionVerdict {
    /// Whether it is true.
    pub holds: bool,
    /// The reason, as one word.
    pub reason: Reason,
    /// The reason, as a sentence.
    pub message: String,
}

/// `status` of a Placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// How many clusters are picked.
    pub number_of_selected_clusters: usize,
    /// The groups and their objects; absent if the present ones stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_groups: Option<Vec<DecisionGroupStatus>>,
    /// PlacementMisconfigured and PlacementSatisfied.
    pub conditions: Vec<Condition>,
}

/// One of `status.decisionGroups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// From 0.
    pub decision_group_index: usize,
    /// Its name in the strategy.
    pub decision_group_name: String,
    /// Names of its PlacementDecisions.
    pub decisions: Vec<String>,
    /// How many clusters it has.
    pub cluster_count: usize,
}

/// Assembles the result of an evaluation, successful or not.
pub(super) fn outcome(
    request: &Request<'_>,
    candidates: &Candidates,
    evaluation: Result<Evaluation, Notice>,
) -> OcmOutcome {
    let hub = request.hub;
    let (evaluation, notice) = match evaluation {
        Ok(evaluation) => (evaluation, None),
        Err(notice) => (Evaluation::nothing(request), Some(notice)),
    };
    // Groups are created last, and only the last error is reported in the original.
    let misconfigured = evaluation.groups.misconfigured.or(notice);
    let kept = match (&misconfigured, request.on_misconfigured) {
        (Some(notice), OnMisconfigured::Keep) => Some(notice),
        _ => None,
    };
    let selected = match (kept, hub.held(request.key)) {
        (Some(_), held) => held.cloned().unwrap_or_else(|| hub.no_clusters()),
        (None, _) => evaluation.selected,
    };
    let n = selected.count_ones(..);
    OcmOutcome {
        satisfied: verdict(request, candidates, n, evaluation.unscheduled, kept),
        requeue_at: [taint::ends(request, &candidates.clusters, &selected), evaluation.score_expires]
            .into_iter()
            .flatten()
            .min(),
        decisions: if kept.is_some() { Decisions::Kept } else { Decisions::Groups(evaluation.groups.groups) },
        selected,
        unscheduled: evaluation.unscheduled,
        scores: evaluation.scores,
        misconfigured,
        warning: evaluation.warning,
    }
}

impl Evaluation {
    /// The original's treatment of a misconfigured placement.
    fn nothing(request: &Request<'_>) -> Self {
        let selected = request.hub.no_clusters();
        let groups = groups::cut(request, &selected);
        Self { selected, unscheduled: 0, scores: Vec::new(), warning: None, groups, score_expires: None }
    }
}

/// Source: Open Cluster Management, condition PlacementSatisfied; gitfleet adds the row for kept decisions.
fn verdict(
    request: &Request<'_>,
    candidates: &Candidates,
    selected: usize,
    unscheduled: usize,
    kept: Option<&Notice>,
) -> ConditionVerdict {
    if !candidates.bound {
        let message = "No valid ManagedClusterSetBindings found in placement namespace";
        return unsatisfied(Reason::NoManagedClusterSetBindings, message.to_owned());
    }
    if candidates.sets.is_empty() {
        let sets = request.policy.spec().cluster_sets.join(",");
        return unsatisfied(
            Reason::NoIntersection,
            format!("None of ManagedClusterSets [{sets}] is bound to placement namespace"),
        );
    }
    if candidates.clusters.is_clear() {
        let sets = candidates.sets.join(",");
        return unsatisfied(
            Reason::AllManagedClusterSetsEmpty,
            format!("All ManagedClusterSets [{sets}] have no member ManagedCluster"),
        );
    }
    match (selected, unscheduled, kept) {
        (0, _, _) => {
            // Misconfigured or not: the original reports the same whenever nothing is selected.
            let message = "No ManagedCluster matches any of the cluster predicate";
            unsatisfied(Reason::NoManagedClusterMatched, message.to_owned())
        }
        (_, _, Some(notice)) => {
            let message = format!("The last good decisions are kept: {}", notice.message);
            unsatisfied(Reason::NotAllDecisionsScheduled, message)
        }
        (_, 0, None) => ConditionVerdict {
            holds: true,
            reason: Reason::AllDecisionsScheduled,
            message: "All cluster decisions scheduled".to_owned(),
        },
        (_, missing, None) => {
            unsatisfied(Reason::NotAllDecisionsScheduled, format!("{missing} cluster decisions unscheduled"))
        }
    }
}

fn unsatisfied(reason: Reason, message: String) -> ConditionVerdict {
    ConditionVerdict { holds: false, reason, message }
}

impl OcmOutcome {
    /// Returns the status to write, from the present conditions: a condition's time changes when its status changes.
    ///
    /// Source: Open Cluster Management, which sets no observedGeneration.
    pub fn status(&self, key: &Key, before: &[Condition], now: Timestamp) -> Status {
        let mut conditions = before.to_vec();
        let misconfigured = match &self.misconfigured {
            Some(Notice { plugin, message }) => {
                ConditionVerdict { holds: true, reason: Reason::Misconfigured, message: format!("{plugin}:{message}") }
            }
            None => ConditionVerdict {
                holds: false,
                reason: Reason::Succeedconfigured,
                message: "Placement configurations check pass".to_owned(),
            },
        };
        let verdicts = [
            (ConditionType::PlacementMisconfigured, misconfigured),
            (ConditionType::PlacementSatisfied, self.satisfied.clone()),
        ];
        for (type_, ConditionVerdict { holds, reason, message }) in verdicts {
            set_condition(&mut conditions, Condition::new(type_, holds, reason, message, 0, now));
        }
        Status {
            number_of_selected_clusters: self.selected.count_ones(..),
            decision_groups: self.group_statuses(key),
            conditions,
        }
    }

    fn group_statuses(&self, key: &Key) -> Option<Vec<DecisionGroupStatus>> {
        let Decisions::Groups(groups) = &self.decisions else { return None };
        let mut pages = 0;
        let statuses = groups.iter().enumerate().map(|(index, group)| {
            let first = pages;
            pages += group.pages().count();
            DecisionGroupStatus {
                decision_group_index: index,
                decision_group_name: group.name.clone(),
                decisions: (first..pages).map(|position| page_name(key, position)).collect(),
                cluster_count: group.clusters.len(),
            }
        });
        Some(statuses.collect())
    }

    /// Returns the total of every cluster that passed the filters.
    pub fn totals(&self, hub: &Hub) -> BTreeMap<ClusterName, i64> {
        self.scores.iter().map(|&(slot, total)| (hub.names()[slot as usize].clone(), total)).collect()
    }

    /// Returns the text of the ScoreUpdate event: totals by name, truncated to 1000 characters. `None` without scores.
    pub fn score_note(&self, hub: &Hub) -> Option<String> {
        if self.scores.is_empty() {
            return None;
        }
        let mut note = String::new();
        for (slot, total) in &self.scores {
            let start = note.len();
            write!(note, "{}:{total} ", hub.names()[*slot as usize]).expect("writing to text cannot fail");
            if note.len() > SCORE_NOTE_LENGTH_MAX {
                note.truncate(start);
                note.push_str("......");
                break;
            }
        }
        Some(note)
    }
}
