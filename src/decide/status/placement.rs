//! The status of a placement: the fields of KubeFleet's API, and gitfleet's own.
//!
//! KubeFleet's condition types carry the placement's kind as prefix. gitfleet adds types of its own, which exist only while
//! they apply and are always `True`: see [`model::conditions::ConditionType`].
//!
//! The messages of RolloutStarted name a snapshot that was superseded before a cluster finished it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::binding::binding_lists;
pub use super::links::chain;
use super::links::{Link, ROLLOUT_STARTED};
use super::rollup;
use super::staged_run::placement_word;
use super::work::{DiffedObject, DriftedObject, FailedObject, Mode};
use model::api::condition::{Condition, ConditionStatus, find_condition};
use model::api::placement::{PlacementType, StrategyType};
use model::conditions::{ConditionType, Reason};
use model::id::{ClusterName, ObjectId};
use model::overrides::OverrideRef;
use model::records::{
    Binding, ClusterDecision, ClusterRecord, PlacementRecord, PolicySnapshot, ResourceSnapshot, WorkStatus,
};
use model::runs::Runs;

/// All inputs of the status of one placement.
///
/// The bindings' conditions must be up to date ([`super::binding::binding_conditions`]): they are copied, not computed again.
#[derive(Clone, Copy, Debug)]
pub struct PlacementView<'a> {
    /// The placement.
    pub record: &'a PlacementRecord,
    /// Its latest policy snapshot.
    pub policy: Option<&'a PolicySnapshot>,
    /// Its latest resource snapshot.
    pub snapshot: Option<&'a ResourceSnapshot>,
    /// Kept resource snapshots, by index.
    pub history: &'a BTreeMap<u64, Arc<ResourceSnapshot>>,
    /// All its bindings.
    pub bindings: &'a [Arc<Binding>],
    /// What each cluster holds of it.
    pub works: &'a BTreeMap<ClusterName, Arc<WorkStatus>>,
    /// Its staged update runs, by name.
    pub runs: &'a Runs,
    /// The records of its clusters; may contain further ones.
    pub clusters: &'a BTreeMap<ClusterName, ClusterRecord>,
    /// A name of it or of an unfinished run of it may also mean another placement: commands name it in full.
    pub shared_name: bool,
    /// The moment of the view.
    pub now: Timestamp,
}

impl<'a> PlacementView<'a> {
    /// Returns the word that commands name the placement by.
    pub fn word(&self) -> String {
        placement_word(&self.record.key, self.shared_name)
    }

    /// Returns its bindings.
    pub fn bindings(&self) -> impl Iterator<Item = &'a Binding> + use<'a> {
        self.bindings.iter().map(AsRef::as_ref)
    }

    /// Returns the picked clusters in decision order, each with its present binding: of the latest policy snapshot and not
    /// being deleted. Of a placement that is gone, the clusters that still have one.
    pub fn picked(&self) -> Vec<(&'a ClusterDecision, Option<&'a Binding>)> {
        let Some(policy) = self.policy else { return Vec::new() };
        let mut present: Vec<&Binding> =
            self.bindings().filter(|b| b.policy_index == policy.index && !b.deleting).collect();
        // If a cluster has several, the first one counts.
        present.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        present.dedup_by(|later, first| later.cluster == first.cluster);
        // Decisions mostly name clusters in the same order.
        let mut guess = 0;
        let mut picked = Vec::new();
        for decision in self.selected() {
            let is_next = present.get(guess).is_some_and(|b| b.cluster == decision.cluster_name);
            let position = if is_next {
                Some(guess)
            } else {
                present.binary_search_by(|b| b.cluster.cmp(&decision.cluster_name)).ok()
            };
            if let Some(position) = position {
                guess = position + 1;
                picked.push((decision, Some(present[position])));
            } else if !self.record.removed {
                // A placement that is gone from git gets no new binding.
                picked.push((decision, None));
            }
        }
        picked
    }

    /// Returns the bindings without a picked cluster: their objects must be removed.
    pub fn leftovers(&self) -> Vec<&'a Binding> {
        self.leftovers_of(&self.picked())
    }

    /// Returns the [`PlacementView::leftovers`] for a known result of [`PlacementView::picked`].
    pub fn leftovers_of(&self, picked: &[(&ClusterDecision, Option<&Binding>)]) -> Vec<&'a Binding> {
        if bound_names(picked).count() == self.bindings.len() {
            return Vec::new();
        }
        let present: BTreeSet<&str> = bound_names(picked).collect();
        self.bindings().filter(|b| !present.contains(b.name.as_str())).collect()
    }

    /// Returns what a cluster holds of the placement.
    pub fn work(&self, cluster: &ClusterName) -> Option<&'a WorkStatus> {
        self.works.get(cluster).map(AsRef::as_ref)
    }

    /// Returns the index of the newest resource snapshot.
    pub fn newest(&self) -> Option<u64> {
        self.snapshot.map(|s| s.index)
    }

    /// Returns the index of the desired resource snapshot: the newest, unless it was rolled back.
    pub fn goal(&self) -> Option<u64> {
        match self.record.goal {
            Some(goal) if !self.is_external() => Some(goal),
            _ => self.newest(),
        }
    }

    /// Tells whether a binding's cluster has the newest snapshot, available or compared.
    pub fn has_newest(&self, binding: &Binding) -> bool {
        binding.snapshot.is_some() && binding.snapshot == self.newest() && is_right(binding, self.mode())
    }

    /// Tells whether a binding's cluster has the newest snapshot as the accepted commit wants it there, available or compared.
    pub fn is_up_to_date(&self, binding: &Binding) -> bool {
        self.has_newest(binding) && !self.record.behind.contains(&binding.cluster)
    }

    /// Tells whether staged update runs move the clusters.
    pub fn is_external(&self) -> bool {
        self.record.spec.strategy.type_ == StrategyType::External
    }

    /// Returns whether the placement applies or only compares.
    pub fn mode(&self) -> Mode {
        self.record.spec.strategy.apply_strategy.as_ref().map_or(Mode::Apply, Mode::of)
    }

    /// Returns the snapshot index to show for a cluster with a binding: the newest, reached or not; for External the one it is
    /// assigned.
    pub fn shown_index(&self, binding: Option<&Binding>) -> Option<u64> {
        let held = binding.and_then(|b| b.snapshot);
        if self.is_external() { held.filter(|index| self.snapshot_at(*index).is_some()) } else { self.newest() }
    }

    /// Tells whether a rolling update has not yet assigned the newest snapshot to a binding.
    fn is_outdated(&self, binding: &Binding) -> bool {
        !self.is_external() && binding.snapshot != self.newest()
    }

    /// Returns the record of a cluster that does not answer.
    pub fn offline(&self, cluster: &ClusterName) -> Option<&'a ClusterRecord> {
        self.clusters.get(cluster).filter(|c| !c.online)
    }

    /// Returns the picked clusters' decisions, in decision order.
    pub fn selected(&self) -> impl Iterator<Item = &'a ClusterDecision> {
        self.policy.into_iter().flat_map(|p| &p.target_clusters).filter(|d| d.selected)
    }

    /// Tells whether the latest policy snapshot has been scheduled for the placement as it is now.
    pub fn is_scheduled(&self) -> bool {
        self.policy.is_some_and(|p| p.observed_generation >= self.record.generation)
    }

    /// Returns the resource snapshot of an index, if it is still kept.
    pub fn snapshot_at(&self, index: u64) -> Option<&'a ResourceSnapshot> {
        self.snapshot.filter(|s| s.index == index).or_else(|| Some(&**self.history.get(&index)?))
    }
}

/// Returns the names of the bindings of picked clusters.
fn bound_names<'p>(picked: &'p [(&ClusterDecision, Option<&Binding>)]) -> impl Iterator<Item = &'p str> {
    picked.iter().filter_map(|(_, binding)| Some(binding.as_ref()?.name.as_str()))
}

/// `status` of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The placed objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selected_resources: Vec<ObjectId>,
    /// The index of the observed resource snapshot; empty if there is none or clusters differ.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_resource_index: String,
    /// One entry for each picked cluster, then one without a name for each missing cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement_statuses: Vec<ClusterPlacementStatus>,
    /// The placement's conditions, in chain order.
    pub conditions: Vec<Condition>,
}

/// `status.placementStatuses[]`: the placement on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPlacementStatus {
    /// The cluster; empty for a missing one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// For RollingUpdate the latest index, reached or not; for External the index the cluster is assigned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_resource_index: String,
    /// Snapshots of the ResourceOverrides that its objects are made with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applicable_resource_overrides: Vec<NamespacedName>,
    /// Snapshots of the ClusterResourceOverrides that its objects are made with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applicable_cluster_resource_overrides: Vec<String>,
    /// Objects that failed, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_placements: Vec<FailedObject>,
    /// Objects that drifted, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drifted_placements: Vec<DriftedObject>,
    /// Objects that differ, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diffed_placements: Vec<DiffedObject>,
    /// Scheduled and the chain as far as it holds, without prefix.
    pub conditions: Vec<Condition>,
}

/// Names an object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespacedName {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// Returns the status of a placement.
///
/// Transition times of the placement's own conditions come from `record.conditions`, those of clusters from the bindings, so
/// that an unchanged fleet has an unchanged status at any time.
///
/// Source: KubeFleet's placement controller; the messages and the types of the table above belong to gitfleet.
pub fn placement_status(view: &PlacementView) -> PlacementStatus {
    // An invalid placement keeps the clusters that were picked before.
    let is_decided = view.is_scheduled() || (view.record.error.is_some() && view.policy.is_some());
    let picked = if is_decided { view.picked() } else { Vec::new() };
    let common = rollup::common_index(view, &picked);
    let (spoken_of, index) = match view.is_external() {
        true if picked.is_empty() => (view.snapshot, None),
        true => (common.and_then(|index| view.snapshot_at(index)), common),
        false => (view.snapshot, view.newest()),
    };
    let mut status = PlacementStatus {
        selected_resources: spoken_of.map(identities).unwrap_or_default(),
        observed_resource_index: index.map(|i| i.to_string()).unwrap_or_default(),
        placement_statuses: picked.into_iter().map(|(d, b)| cluster_status(view, d, b)).collect(),
        conditions: rollup::placement_conditions(view),
    };
    if is_decided {
        status.placement_statuses.extend(not_found(view));
    }
    status
}

/// Returns the identities of a snapshot's objects, in snapshot order.
pub fn identities(snapshot: &ResourceSnapshot) -> Vec<ObjectId> {
    snapshot.resources.iter().map(|r| r.id.clone()).collect()
}

/// Returns how many clusters the policy wants beyond those it found.
fn missing_count(policy: &PolicySnapshot) -> usize {
    let selected = policy.target_clusters.iter().filter(|d| d.selected).count();
    let wanted = match &policy.policy {
        Some(p) if p.placement_type == PlacementType::PickN => {
            usize::try_from(policy.number_of_clusters.or(p.number_of_clusters).unwrap_or(0)).unwrap_or(0)
        }
        Some(p) if p.placement_type == PlacementType::PickFixed => p.cluster_names.len(),
        _ => 0,
    };
    wanted.saturating_sub(selected)
}

fn not_found(view: &PlacementView) -> Vec<ClusterPlacementStatus> {
    let Some(policy) = view.policy else { return Vec::new() };
    let unselected = policy.target_clusters.iter().filter(|d| !d.selected);
    let missing = unselected.take(missing_count(policy)).map(|decision| ClusterPlacementStatus {
        conditions: vec![scheduled_condition(view, policy, decision)],
        ..ClusterPlacementStatus::default()
    });
    missing.collect()
}

fn scheduled_condition(view: &PlacementView, policy: &PolicySnapshot, decision: &ClusterDecision) -> Condition {
    let (status, reason) = if decision.selected {
        (ConditionStatus::True, Reason::Scheduled)
    } else {
        (ConditionStatus::False, Reason::ScheduleFailed)
    };
    Condition {
        type_: ConditionType::Scheduled,
        status,
        reason,
        message: decision.reason.to_string(),
        observed_generation: view.record.generation,
        last_transition_time: policy.created_at,
    }
}

fn cluster_status(
    view: &PlacementView,
    decision: &ClusterDecision,
    binding: Option<&Binding>,
) -> ClusterPlacementStatus {
    let mut status = ClusterPlacementStatus {
        cluster_name: decision.cluster_name.to_string(),
        observed_resource_index: view.shown_index(binding).map(|i| i.to_string()).unwrap_or_default(),
        conditions: view.policy.map(|p| scheduled_condition(view, p, decision)).into_iter().collect(),
        ..ClusterPlacementStatus::default()
    };
    status.conditions.extend(cluster_chain(view, &decision.cluster_name, binding));
    let started = find_condition(&status.conditions, &ConditionType::RolloutStarted);
    if let Some(binding) = binding
        && started.is_some_and(|condition| condition.status == ConditionStatus::True)
    {
        status.applicable_resource_overrides = binding.overrides.namespaced.iter().map(namespaced_name).collect();
        status.applicable_cluster_resource_overrides =
            binding.overrides.cluster.iter().map(OverrideRef::name).collect();
    }
    if let Some(binding) = binding
        && status.conditions.iter().any(|c| matches!(c.type_, ConditionType::Applied | ConditionType::DiffReported))
    {
        let lists = binding_lists(binding, view.work(&binding.cluster));
        status.failed_placements = lists.failed;
        status.drifted_placements = lists.drifted;
        status.diffed_placements = lists.diffed;
    }
    status
}

fn namespaced_name(id: &OverrideRef) -> NamespacedName {
    NamespacedName { name: id.name(), namespace: id.key.namespace.clone().unwrap_or_default() }
}

/// Returns the chain's conditions of one cluster, up to the first that is not true.
fn cluster_chain(view: &PlacementView, cluster: &ClusterName, binding: Option<&Binding>) -> Vec<Condition> {
    let Some(binding) = binding else {
        return vec![unknown_condition(view, &ROLLOUT_STARTED, "picked; not bound yet".to_owned())];
    };
    let mut conditions = Vec::new();
    for (link, own) in reported(view, Some(binding)) {
        let mut condition = match own {
            Some(own) => Condition { observed_generation: view.record.generation, ..own.clone() },
            None => unknown_condition(view, link, format!("cluster {cluster} has not reported yet")),
        };
        if view.is_outdated(binding) {
            condition.message = waiting_message(view, binding);
        }
        conditions.push(condition);
    }
    conditions
}

fn unknown_condition(view: &PlacementView, link: &Link, message: String) -> Condition {
    // No record has a time for Unknown; the time of the newest snapshot does not change with each call.
    let since = view.snapshot.map(|s| s.created_at).or(view.policy.map(|p| p.created_at)).unwrap_or_default();
    let reason = link.unknown.clone();
    let generation = view.record.generation;
    Condition::new(link.type_.clone(), ConditionStatus::Unknown, reason, message, generation, since)
}

/// Returns the links of a cluster's chain up to the first that is not true, each with its binding's condition; `None` if that
/// is unknown.
pub fn reported<'a>(
    view: &PlacementView,
    binding: Option<&'a Binding>,
) -> impl Iterator<Item = (&'static Link, Option<&'a Condition>)> {
    let outdated = binding.is_some_and(|binding| view.is_outdated(binding));
    let mut ended = false;
    chain(view.mode()).iter().map_while(move |link| {
        if ended {
            return None;
        }
        let own = binding.and_then(|binding| known_condition(binding, link, outdated));
        ended = own.is_none_or(|own| own.status != ConditionStatus::True);
        Some((link, own))
    })
}

/// Returns a binding's condition for a link; `None` if it is unknown or of an earlier generation.
fn known_condition<'a>(binding: &'a Binding, link: &Link, outdated: bool) -> Option<&'a Condition> {
    let condition = find_condition(&binding.conditions, &link.type_)?;
    let counts = match condition.status {
        ConditionStatus::Unknown => false,
        ConditionStatus::False => true,
        // What is true of an older snapshot says nothing of the newest.
        ConditionStatus::True => !outdated,
    };
    (counts && condition.observed_generation == binding.generation).then_some(condition)
}

/// Describes why a cluster does not have the newest snapshot.
pub fn waiting_message(view: &PlacementView, binding: &Binding) -> String {
    if view.record.ignores(binding) {
        let kept = binding.snapshot.map_or_else(|| "gets nothing".to_owned(), |held| format!("keeps snapshot {held}"));
        return format!("{kept}: it is in no stage, and its strategy ignores such clusters");
    }
    let newest = view.snapshot.map_or_else(|| "the first snapshot".to_owned(), |s| format!("snapshot {}", s.index));
    let mut text = match binding.snapshot {
        None => format!("waits for its turn for {newest}"),
        Some(held) if Some(held) == view.newest() => {
            format!("holds snapshot {held} with earlier overrides or another apply strategy; waits for its turn")
        }
        Some(held) if is_right(binding, view.mode()) => {
            format!("holds snapshot {held}; waits for its turn for {newest}")
        }
        Some(held) => format!("snapshot {held} was superseded by {newest} before it was done here; waits for its turn"),
    };
    // A held snapshot gives the cluster no turn: why it is held explains more.
    if let Some(held) = view.record.held.as_ref().filter(|held| Some(held.index) == view.newest()) {
        let kept = binding.snapshot.map(|index| format!("holds snapshot {index}; ")).unwrap_or_default();
        text = format!("{kept}snapshot {} is held: it {}", held.index, held.why);
    }
    // What stops this cluster is said before what stops all of them.
    if let Some(offline) = view.offline(&binding.cluster) {
        text = format!("deferred, the cluster is offline{}: {text}", why(offline));
    } else if let Some(pause) = &view.record.paused {
        text = format!("{text}; paused by {}", pause.by);
    } else if let Some(halted) = &view.record.halted {
        text = format!("{text}; the rollout is halted: {halted}");
    }
    text
}

/// Tells whether a binding's last link is true at its own generation: its snapshot is available, or compared.
pub fn is_right(binding: &Binding, mode: Mode) -> bool {
    let last = if mode == Mode::Apply { ConditionType::Available } else { ConditionType::DiffReported };
    find_condition(&binding.conditions, &last).is_some_and(|c| c.is(ConditionStatus::True, binding.generation))
}

/// Returns the parenthesis with the reason why a cluster does not answer.
pub fn why(cluster: &ClusterRecord) -> String {
    cluster.message.as_ref().map(|m| format!(" ({m})")).unwrap_or_default()
}
