//! The accepted commit's data about a placement and the fleet.

use std::collections::BTreeMap;

use serde_json::json;

use super::bindings::BindingEdit;
use super::state::{FleetState, PlacementState};
use super::{Pass, is_guarded, only_reports};
use model::along::Along;
use model::api::annotations::{DELETION_GUARD, STAGED_UPDATE_STRATEGY};
use model::api::placement::StrategyType;
use model::approvers::{Ownership, ReplacedOwnership};
use model::id::{ClusterName, CommitId};
use model::journal::JournalKind;
use model::records::{Binding, ClusterRecord, MassLeave, PlacementRecord};
use model::runs::{RunPhase, RunRecord, Runs};

/// Returns the record of a placement as the accepted commit has it: its spec and annotations, and who may approve its rollouts.
pub(super) fn followed(state: &PlacementState, fleet: &FleetState) -> PlacementRecord {
    let mut record = state.record.clone();
    record.replaced = still_counting(state, fleet);
    let record = with_spec(with_owners(record, fleet), fleet);
    let of_file = fleet.owners_of(&record);
    let of_path = record.origin.as_ref().and_then(|origin| fleet.approvers_at(&origin.path));
    let approvers = if of_file.is_empty() { of_path } else { Some(of_file) }.map(|approvers| approvers.join(", "));
    let mut record = PlacementRecord { approvers, digest_required: fleet.floor.digest, ..record };
    let named = named_by_strategy(&record, &state.runs, fleet);
    record.narrowed = named.narrowed;
    record.replaced.extend(named.replaced);
    record
}

/// Copies who owns its file from the accepted commit, and remembers who decided before. A removed placement keeps its owners: who
/// may approve what it deletes stays as it was.
fn with_owners(mut record: PlacementRecord, fleet: &FleetState) -> PlacementRecord {
    let Some(placement) = fleet.tree.placements.get(&record.key) else { return record };
    let old = ownership(&record);
    record.owners.clone_from(&placement.owners);
    let new = Ownership {
        path: placement.origin.path.to_string(),
        owners: placement.owners.clone(),
        narrowed: record.narrowed.clone(),
    };
    if let Some(old) = old
        && fleet.approving(&old) != fleet.approving(&new)
    {
        let replaced = replaced(&record, old, fleet);
        record.replaced.extend(replaced);
    }
    record
}

/// Whom the strategy of a placement names as approvers.
pub(super) struct NamedByStrategy {
    /// They; absent means no restriction.
    pub narrowed: Option<String>,
    /// Who decided before, where that is another list.
    pub replaced: Option<ReplacedOwnership>,
}

/// Returns whom the strategy names in the accepted commit. Where there is no strategy any more those before still decide about what waits.
pub(super) fn named_by_strategy(record: &PlacementRecord, runs: &Runs, fleet: &FleetState) -> NamedByStrategy {
    let narrowed = narrowed(record, runs, fleet).map(str::to_owned);
    let replaced = match ownership(record) {
        Some(old) if record.narrowed.is_some() && record.narrowed != narrowed => replaced(record, old, fleet),
        _ => None,
    };
    NamedByStrategy { narrowed, replaced }
}

/// Returns who decided before and still counts: no more before a commit that is rolled out, where another one is accepted. Asked at the end
/// of a decision, too: before the next one a person may begin another rollout, and those would have to agree to that.
pub(super) fn still_counting(state: &PlacementState, fleet: &FleetState) -> Vec<ReplacedOwnership> {
    let commit = &fleet.tree.commit;
    let is_settled = is_settled(&state.record, &state.runs);
    let is_rolled_out = is_settled && newest_rollout_is_of(state, commit.as_ref());
    let mut counting = state.record.replaced.clone();
    counting.retain(|replaced| replaced.by == *commit || !is_settled && !replaced.agreed);
    // Whom the commit named decides about the next one, whatever begins before that. Not where another placement hands over: that may come
    // after the rollout.
    if is_rolled_out {
        for own in counting.iter_mut().filter(|replaced| is_own(replaced)) {
            own.agreed = true;
        }
    }
    counting
}

/// Returns an ownership as one that still counts, where none does that is older.
fn replaced(record: &PlacementRecord, before: Ownership, fleet: &FleetState) -> Option<ReplacedOwnership> {
    if record.generation == 0 || record.replaced.iter().any(is_own) {
        return None;
    }
    Some(ReplacedOwnership { before, by: fleet.tree.commit.clone(), agreed: false, from: None })
}

/// Tells whether what a commit brought is rolled out with the consent of those who decided before it: its run has succeeded. A rollout
/// that failed or that a person rejected changes nothing about who decides. A placement without stages must not be paused: it is paused
/// when it loses stages with approvals, and who resumes it agrees.
fn is_settled(record: &PlacementRecord, runs: &Runs) -> bool {
    let is_agreed = if record.spec.strategy.type_ == StrategyType::External {
        newest_rollout(runs).is_none_or(|run| run.phase == RunPhase::Succeeded)
    } else {
        record.paused.is_none()
    };
    is_agreed && record.closed_gate().is_none() && runs.values().all(|run| run.phase.is_final())
}

fn newest_rollout(runs: &Runs) -> Option<&RunRecord> {
    let rollouts = runs.values().filter(|run| run.frozen.is_some() && run.cause.brings_a_snapshot());
    rollouts.max_by_key(|run| run.sequence)
}

/// Tells whether the newest rollout is that of a commit's own content. Until it exists, that of an earlier commit is the newest one.
fn newest_rollout_is_of(state: &PlacementState, commit: Option<&CommitId>) -> bool {
    let index = newest_rollout(&state.runs).and_then(RunRecord::snapshot);
    let snapshot = index.and_then(|index| state.snapshots.get(&index));
    snapshot.is_some_and(|snapshot| Some(&snapshot.commit) == commit)
}

/// Copies spec and annotations from the accepted commit. Another generation begins with each change of them.
fn with_spec(mut record: PlacementRecord, fleet: &FleetState) -> PlacementRecord {
    let Some(placement) = fleet.tree.placements.get(&record.key) else {
        record.removed = true;
        return record;
    };
    record.removed = false;
    record.renamed_to = None;
    record.origin = Some(placement.origin.clone());
    let is_new = record.generation == 0;
    if is_new || record.spec != placement.spec || record.annotations != placement.annotations {
        let is_off = is_guard_off(&placement.annotations);
        // A new placement has nothing to lose.
        if !is_new && is_off != is_guard_off(&record.annotations) {
            record.guard_off_at = if is_off { fleet.tree.commit.clone() } else { None };
        }
        record.spec = placement.spec.clone();
        record.annotations.clone_from(&placement.annotations);
        record.generation += 1;
    }
    record
}

fn is_guard_off(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(DELETION_GUARD).is_some_and(|value| value == "Off")
}

impl Pass<'_> {
    /// Handles clusters that left the fleet: their bindings go, and nothing on them changes. If more than half of the fleet
    /// left at once, bindings wait for a person. Returns the clusters that left.
    pub(super) fn leave(&mut self) -> Vec<ClusterName> {
        let mut is_member = self.fleet.clusters.contains_in_order();
        let left = self.state.bindings().filter(|b| !is_member(&b.cluster) && self.mass_leave(&b.cluster).is_none());
        let left: Vec<Binding> = left.cloned().collect();
        for binding in &left {
            self.change(&binding.name, BindingEdit::Drop);
            self.state.works.remove(&binding.cluster);
            self.note(JournalKind::ClusterLeft, Some(&binding.cluster), json!({"binding": binding.name}));
        }
        left.into_iter().map(|binding| binding.cluster).collect()
    }

    /// Tells whether a cluster belongs to the fleet; in a mass removal it does until a person has agreed.
    pub(super) fn is_of_fleet(&self, cluster: &ClusterName) -> bool {
        self.fleet.clusters.contains(cluster.as_str()) || self.mass_leave(cluster).is_some()
    }

    /// Returns the mass removal that a cluster is part of, while it waits for a person.
    fn mass_leave(&self, cluster: &ClusterName) -> Option<MassLeave> {
        self.mass_leave_of(cluster, self.fleet.records.get(cluster))
    }

    fn mass_leave_of(&self, cluster: &ClusterName, record: Option<&ClusterRecord>) -> Option<MassLeave> {
        let placement = &self.state.record;
        let record = record.filter(|record| record.left)?;
        if only_reports(placement) || !is_guarded(placement, self.fleet) {
            return None;
        }
        let gate = self.state.record.deletion_gate.as_ref().filter(|gate| gate.opened_at.is_some());
        let is_agreed = gate.is_some_and(|gate| gate.leaving.contains(cluster));
        if is_agreed { None } else { record.left_with }
    }

    /// Returns the clusters of this placement whose removal waits for a person.
    pub(super) fn leaving(&self) -> BTreeMap<ClusterName, MassLeave> {
        let mut records = Along::new(&self.fleet.records);
        let mut leaving = BTreeMap::new();
        for binding in self.state.bindings() {
            if let Some(with) = self.mass_leave_of(&binding.cluster, records.get(&binding.cluster)) {
                leaving.insert(binding.cluster.clone(), with);
            }
        }
        leaving
    }
}

fn is_own(replaced: &ReplacedOwnership) -> bool {
    replaced.from.is_none()
}

/// Returns what decides about a placement so far; `None` where its file was never known.
pub(super) fn ownership(record: &PlacementRecord) -> Option<Ownership> {
    let path = record.origin.as_ref()?.path.to_string();
    Some(Ownership { path, owners: record.owners.clone(), narrowed: record.narrowed.clone() })
}

/// Returns whom the strategy of a placement names as approvers, at the last commit that had the strategy: that of the active run, of the
/// annotation, or of the newest run. Absent means no restriction.
fn narrowed<'a>(record: &'a PlacementRecord, runs: &'a Runs, fleet: &'a FleetState) -> Option<&'a str> {
    if record.spec.strategy.type_ != StrategyType::External {
        return None;
    }
    let active = runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final());
    let newest = active.or_else(|| runs.values().max_by_key(|run| run.sequence));
    let named = active.map(|run| &run.strategy).or_else(|| record.annotations.get(STAGED_UPDATE_STRATEGY));
    let named = named.or_else(|| newest.map(|run| &run.strategy));
    match named.and_then(|name| fleet.staged.strategy(&record.key, name)) {
        Some(strategy) => strategy.approvers.as_deref(),
        None => record.narrowed.as_deref().or_else(|| newest.and_then(|run| run.approvers.as_deref())),
    }
}
