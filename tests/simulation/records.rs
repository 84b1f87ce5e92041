//! What records say, as far as promises are about it, and the looks at them that more than one promise takes.

use std::collections::{BTreeMap, BTreeSet};

use engine::store::records::snapshot_key;
use jiff::Timestamp;
use model::api::condition::ConditionStatus;
use model::api::placement::{
    ApplyStrategy, ApplyStrategyType, DeleteStrategy, IntOrPercent, PropagationPolicy, StrategyType,
};
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::records::{ApplyOutcome, Availability, BindingState, DeletionGate, HeldSnapshot, Pause};
use serde::Deserialize;
use simulated::Fact;

use super::check::{Checker, Verdict};

/// A binding's record, as far as promises are about it: reading all of every record costs as much as a third of the deciding.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Binding {
    pub(super) placement: PlacementKey,
    pub(super) cluster: ClusterName,
    pub(super) state: BindingState,
    pub(super) snapshot: Option<u64>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) generation: i64,
    #[serde(default)]
    pub(super) conditions: Vec<Condition>,
    pub(super) deleting: bool,
    #[serde(default)]
    pub(super) overrides: serde_json::Value,
    #[serde(default)]
    pub(super) apply_strategy: serde_json::Value,
    #[serde(default)]
    pub(super) removes: BTreeSet<ObjectKey>,
}

/// What a member reported, likewise.
#[derive(Deserialize)]
pub(super) struct Work {
    generation: i64,
    complete: bool,
    manifests: Vec<Manifest>,
}

/// How one object stands.
#[derive(Deserialize)]
struct Manifest {
    applied: ApplyOutcome,
    availability: Option<Availability>,
}

impl Work {
    /// It tells of what a binding held before, and some object of it was refused or not available.
    pub(super) fn was_down_before(&self, binding: &Binding) -> bool {
        let is_up = |manifest: &Manifest| {
            manifest.applied == ApplyOutcome::Applied
                && manifest.availability != Some(Availability::ManifestNotAvailableYet)
        };
        self.generation < binding.generation && self.complete && !self.manifests.iter().all(is_up)
    }
}

/// A condition, without its words.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: ConditionStatus,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) observed_generation: i64,
}

/// A placement's record, likewise.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlacementRecord {
    pub(super) generation: i64,
    pub(super) spec: PlacementSpec,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    pub(super) deletion_gate: Option<DeletionGate>,
    #[serde(default)]
    pub(super) removed: bool,
    pub(super) paused: Option<Pause>,
    pub(super) held: Option<HeldSnapshot>,
    #[serde(default)]
    pub(super) handing_over: BTreeSet<ClusterName>,
    #[serde(default)]
    pub(super) inherited: BTreeMap<PlacementKey, u64>,
    halted: Option<String>,
    error: Option<String>,
    #[serde(default)]
    unreadable: BTreeSet<u64>,
}

impl PlacementRecord {
    /// Deletions of it wait for nobody: the guard is off, or it only reports.
    pub(super) fn is_unguarded(&self) -> bool {
        let reports = |strategy: &ApplyStrategy| strategy.type_ == ApplyStrategyType::ReportDiff;
        let is_off = self.annotations.get("gitfleet.io/deletion-guard").is_some_and(|value| value == "Off");
        is_off || self.spec.strategy.applies.as_ref().is_some_and(reports)
    }

    /// It leaves its objects behind.
    pub(super) fn abandons(&self) -> bool {
        let policy = self.spec.strategy.deletes.as_ref().map(|strategy| strategy.propagation_policy);
        policy == Some(PropagationPolicy::Abandon)
    }

    /// It writes where it is placed: what it is to hold there is its own.
    pub(super) fn takes_over(&self) -> bool {
        let reports = |strategy: &ApplyStrategy| strategy.type_ == ApplyStrategyType::ReportDiff;
        !self.removed && !self.spec.strategy.applies.as_ref().is_some_and(reports)
    }

    /// It moves its clusters itself, and nothing holds the newest snapshot back.
    pub(super) fn rolls_by_itself(&self) -> bool {
        let stands = self.paused.is_some() || self.held.is_some() || self.halted.is_some() || self.error.is_some();
        self.takes_over() && !self.is_external() && !stands && self.unreadable.is_empty()
    }

    /// It halted because clusters failed, and names this one.
    pub(super) fn says_failed(&self, cluster: &ClusterName) -> bool {
        self.halted.as_ref().is_some_and(|why| why.starts_with("clusters failed") && why.contains(cluster.as_str()))
    }

    /// Clusters that may fail before nothing new begins; `None` for a percentage, which depends on what a stage holds.
    pub(super) fn failures_allowed(&self) -> Option<usize> {
        self.annotations.get("gitfleet.io/max-failures").map_or(Some(0), |value| value.parse().ok())
    }

    /// How long a cluster may take.
    pub(super) fn progress_deadline(&self) -> Option<jiff::SignedDuration> {
        let deadline = model::api::annotations::progress_deadline(&self.annotations).ok()?;
        jiff::SignedDuration::try_from(deadline).ok()
    }

    /// Staged runs move it.
    pub(super) fn is_external(&self) -> bool {
        self.spec.strategy.type_ == Some(StrategyType::External)
    }
}

#[derive(Deserialize)]
pub(super) struct PlacementSpec {
    pub(super) strategy: Strategy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Strategy {
    #[serde(rename = "type")]
    type_: Option<StrategyType>,
    #[serde(rename = "applyStrategy")]
    applies: Option<ApplyStrategy>,
    #[serde(rename = "deleteStrategy")]
    deletes: Option<DeleteStrategy>,
    pub(super) rolling_update: Option<RollingUpdate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RollingUpdate {
    pub(super) max_unavailable: Option<IntOrPercent>,
}

impl Binding {
    /// It was seen to fail, or not to be available.
    pub(super) fn has_failed(&self) -> bool {
        let is_false = |c: &Condition| c.status == ConditionStatus::False && c.observed_generation == self.generation;
        let refused = |c: &Condition| c.type_ == "Applied" && c.reason == "NotAllWorkHaveBeenApplied";
        let down = |c: &Condition| matches!(c.type_.as_str(), "Available" | "Overridden") || refused(c);
        self.conditions.iter().any(|c| is_false(c) && down(c))
    }

    /// Tells whether a condition of the newest generation says so, for a reason where one is asked for.
    pub(super) fn says(&self, status: ConditionStatus, type_: &str, reason: Option<&str>) -> bool {
        let is_it = |c: &Condition| {
            c.type_ == type_
                && c.status == status
                && c.observed_generation == self.generation
                && reason.is_none_or(|reason| c.reason == reason)
        };
        self.conditions.iter().any(is_it)
    }
}

impl Checker {
    /// Tells whether a cluster had failed with what it had before, because it never had all of it until its deadline. No report says that.
    pub(super) fn was_late(&self, before: &Binding, after: &Binding) -> bool {
        let spot = (before.placement.clone(), before.cluster.clone());
        let had_all = self.was_complete.get(&spot) == Some(&before.generation);
        if had_all || before.says(ConditionStatus::True, "Available", None) {
            return false;
        }
        let deadline = self.placements.get(&before.placement).and_then(PlacementRecord::progress_deadline);
        let times = before.started_at.zip(after.started_at);
        let lasted = times.map(|(from, to)| to.duration_since(from));
        deadline.zip(lasted).is_some_and(|(deadline, lasted)| lasted >= deadline)
    }

    /// Looks at what other files promise.
    pub(super) fn see_beside(&mut self, fact: &Fact) -> Verdict {
        self.note_start(fact);
        self.note_approvers(fact);
        self.respects_owners(fact)?;
        self.abandons(fact)?;
        self.hands_over(fact)
    }

    /// Looks at a whole batch that was kept.
    pub(super) fn see_batch(&mut self) -> Verdict {
        self.note_abandoned();
        self.settle_approvers();
        self.note_fixes();
        self.forgotten_runs.clear();
        self.words_stand()?;
        self.returns_with_runs()?;
        self.asks_before_all()?;
        self.asks_about_no_hand_over()
    }

    /// Returns the index of a placement's newest snapshot.
    pub(super) fn newest_snapshot(&self, placement: &PlacementKey) -> Option<u64> {
        self.snapshots.values().filter(|s| s.placement == *placement).map(|s| s.index).max()
    }

    /// Tells whether a snapshot has an object.
    pub(super) fn snapshot_has(&self, placement: &PlacementKey, index: u64, key: &ObjectKey) -> bool {
        let snapshot = self.snapshots.get(&snapshot_key(placement, index));
        snapshot.is_some_and(|snapshot| snapshot.resources.iter().any(|resource| resource.id.key() == *key))
    }

    /// Returns the bindings of a placement to a cluster that do not go, each with its state and snapshot.
    pub(super) fn spots(
        &self,
        placement: &PlacementKey,
        cluster: &ClusterName,
    ) -> impl Iterator<Item = (BindingState, Option<u64>)> {
        let is_here = move |b: &&Binding| b.placement == *placement && b.cluster == *cluster && !b.deleting;
        self.bindings.values().filter(is_here).map(|b| (b.state, b.snapshot))
    }

    /// Records which bindings go while their placement leaves its objects behind.
    fn note_abandoned(&mut self) {
        self.abandoned.retain(|key, _| self.bindings.get(key).is_some_and(|binding| binding.deleting));
        for (key, binding) in self.bindings.iter().filter(|(_, binding)| binding.deleting) {
            let record = self.placements.get(&binding.placement);
            let abandons = record.is_some_and(PlacementRecord::abandons);
            self.abandoned.entry(key.clone()).or_insert(abandons);
        }
    }

    /// 4: what a placement leaves behind is abandoned by the order, too.
    fn abandons(&self, fact: &Fact) -> Verdict {
        let Fact::Ordered(order) = fact else { return Ok(()) };
        let is_it = |(key, _): &(&String, &bool)| {
            let binding = self.bindings.get(*key);
            binding.is_some_and(|b| (&b.placement, &b.cluster) == (&order.placement, &order.cluster) && order.remove)
        };
        let mut going = self.abandoned.iter().filter(is_it).map(|(_, abandons)| *abandons).peekable();
        if going.peek().is_none() || going.any(|abandons| abandons == order.abandon) {
            return Ok(());
        }
        let what = if order.abandon { "leaves behind" } else { "has the order to delete" };
        Err(format!("4: {} {what} what {} has there, and its document says otherwise", order.cluster, order.placement))
    }
}
