//! Decision groups and the objects they are written to.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::taint::slot_number;
use super::{Decisions, Hub, Key, Notice, OcmOutcome, Request, predicate};
use model::api::check;
use model::api::check::FieldError;
use model::api::ocm::{
    DecisionGroup, GROUP_INDEX_LABEL, GROUP_NAME_LABEL, OcmPlacementSpec, PAGE_CLUSTERS_MAX, PLACEMENT_LABEL,
};
use model::api::placement::IntOrPercent;
use model::id::ClusterName;

/// A group of decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name in the strategy; empty for the group of the remaining clusters. Several groups may have one name.
    pub name: String,
    /// Its clusters, in order of name.
    pub clusters: Vec<u32>,
}

/// One desired PlacementDecision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`: the placement, the index and the name of the group.
    pub labels: BTreeMap<String, String>,
    /// The clusters of `status.decisions`, in order of name.
    pub clusters: Vec<ClusterName>,
}

/// Selected clusters in groups, and errors in the strategy.
pub(super) struct Grouped {
    pub(super) groups: Vec<Group>,
    pub(super) misconfigured: Option<Notice>,
}

/// Splits the selected clusters into groups.
///
/// Named groups come first and take the matching clusters, each split into groups of the same name and of limited length; then
/// the remaining clusters. Without selected clusters there is one empty group, so that one empty object exists.
///
/// Source: Open Cluster Management. An unreadable length results in no group at all; an unreadable selector keeps the groups
/// before it.
pub(super) fn cut(request: &Request<'_>, selected: &FixedBitSet) -> Grouped {
    let strategy = &request.policy.spec().decision_strategy.group_strategy;
    let mut groups = Vec::new();
    let length = match group_length(strategy.clusters_per_decision_group.as_ref(), selected.count_ones(..)) {
        Ok(length) => length,
        Err(message) => return Grouped { groups, misconfigured: Some(Notice::new("", message)) },
    };
    let mut rest = selected.clone();
    for group in &strategy.decision_groups {
        if let Some(message) = group_error(group) {
            return Grouped { groups, misconfigured: Some(Notice::new("", message)) };
        }
        let selector = &group.group_cluster_selector;
        let mut taken = predicate::fitting(request.hub, &selector.label_selector, &selector.claim_selector);
        taken.intersect_with(&rest);
        rest.difference_with(&taken);
        chunks(&mut groups, &group.group_name, &taken, length);
    }
    chunks(&mut groups, "", &rest, length);
    if groups.is_empty() {
        groups.push(Group::default());
    }
    Grouped { groups, misconfigured: None }
}

fn chunks(groups: &mut Vec<Group>, name: &str, clusters: &FixedBitSet, length: usize) {
    let slots: Vec<u32> = clusters.ones().map(slot_number).collect();
    groups.extend(slots.chunks(length).map(|chunk| Group { name: name.to_owned(), clusters: chunk.to_vec() }));
}

/// Returns the greatest length of a group for `n` clusters; at least 1.
fn group_length(wanted: Option<&IntOrPercent>, n: usize) -> Result<usize, String> {
    let length = match wanted {
        None => n,
        // A negative length means all, as zero does.
        Some(IntOrPercent::Int(length)) => usize::try_from(*length).unwrap_or(0),
        Some(IntOrPercent::Text(text)) => match check::percent(text) {
            Some(percent) => (n * usize::from(percent)).div_ceil(100),
            None => return Err(format!("{text} invalid type: string is not a percentage")),
        },
    };
    // At least 1, also without selected clusters: `chunks` panics at zero.
    Ok(if length == 0 || length > n { n.max(1) } else { length })
}

fn group_error(group: &DecisionGroup) -> Option<String> {
    let selector = &group.group_cluster_selector;
    predicate::selector_error(&selector.label_selector)
        .or_else(|| predicate::selector_error(&predicate::claims(&selector.claim_selector)))
}

/// Returns the errors in the strategy, by field.
pub(super) fn complaints(spec: &OcmPlacementSpec) -> Vec<FieldError> {
    let path = "spec.decisionStrategy.groupStrategy";
    let strategy = &spec.decision_strategy.group_strategy;
    // Whether a length is valid does not depend on the number of clusters.
    let length = group_length(strategy.clusters_per_decision_group.as_ref(), 0).err();
    let mut complaints: Vec<FieldError> =
        length.map(|m| FieldError::new(format!("{path}.clustersPerDecisionGroup"), m)).into_iter().collect();
    for (index, group) in strategy.decision_groups.iter().enumerate() {
        let path = format!("{path}.decisionGroups[{index}].groupClusterSelector");
        complaints.extend(group_error(group).map(|message| FieldError::new(path, message)));
    }
    complaints
}

impl OcmOutcome {
    /// Returns the desired decision objects; all others with the placement's label must be deleted. `None` if all stay as they
    /// are.
    ///
    /// Source: Open Cluster Management: names are numbered from 1 across all groups.
    pub fn pages(&self, key: &Key, hub: &Hub) -> Option<Vec<Page>> {
        let Decisions::Groups(groups) = &self.decisions else { return None };
        let mut pages = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            for slots in group.pages() {
                let labels = [
                    (PLACEMENT_LABEL, key.name.clone()),
                    (GROUP_INDEX_LABEL, index.to_string()),
                    (GROUP_NAME_LABEL, group.name.clone()),
                ];
                pages.push(Page {
                    name: page_name(key, pages.len()),
                    labels: labels.map(|(label, value)| (label.to_owned(), value)).into(),
                    clusters: slots.iter().map(|&slot| hub.names()[slot as usize].clone()).collect(),
                });
            }
        }
        Some(pages)
    }
}

impl Group {
    /// Returns the clusters of each of its objects: one empty object if it has no clusters.
    pub(super) fn pages(&self) -> impl Iterator<Item = &[u32]> {
        let empty = self.clusters.is_empty().then_some(&[][..]);
        empty.into_iter().chain(self.clusters.chunks(PAGE_CLUSTERS_MAX))
    }
}

/// Returns the name of a placement's decision object by its position across all groups.
pub(super) fn page_name(key: &Key, position: usize) -> String {
    format!("{}-decision-{}", key.name, position + 1)
}
