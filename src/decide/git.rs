//! The accepted commit's data about a placement and the fleet.

use std::collections::BTreeMap;

use serde_json::json;

use super::state::{FleetState, PlacementState};
use super::{Pass, is_guarded, only_reports};
use model::along::Along;
use model::api::annotations::{DELETION_GUARD, STAGED_UPDATE_STRATEGY};
use model::api::placement::StrategyType;
use model::approvers::{Ownership, ReplacedOwnership};
use model::id::{ClusterName, CommitId};
use model::journal::JournalKind;
use model::records::{Binding, ClusterRecord, MassLeave, PlacementRecord};
use model::runs::{RunPhase, RunRecord};

impl Pass<'_> {
    /// Copies spec and annotations from the accepted commit.
    pub(super) fn follow_git(&mut self) {
        self.follow_owners();
        self.follow_spec();
        let (fleet, record) = (self.fleet, &self.state.record);
        let of_file = Some(fleet.owners_of(record)).filter(|owners| !owners.is_empty());
        let of_path = || fleet.approvers_at(&record.origin.as_ref()?.path);
        self.state.record.approvers = of_file.or_else(of_path).map(|approvers| approvers.join(", "));
        self.state.record.digest_required = fleet.floor.digest;
        self.follow_narrowed();
    }

    /// Copies who owns its file from the accepted commit, and remembers who decided before. A removed placement keeps its owners: who
    /// may approve what it deletes stays as it was.
    fn follow_owners(&mut self) {
        let fleet = self.fleet;
        self.forget_replaced();
        let Some(placement) = fleet.tree.placements.get(&self.state.record.key) else { return };
        let old = ownership(&self.state.record);
        self.state.record.owners.clone_from(&placement.owners);
        let new = Ownership {
            path: placement.origin.path.to_string(),
            owners: placement.owners.clone(),
            narrowed: self.state.record.narrowed.clone(),
        };
        self.replace(old.filter(|old| fleet.approving(old) != fleet.approving(&new)));
    }

    /// Copies whom the strategy names from the accepted commit, and remembers who decided before. Where there is no strategy any more those
    /// before still decide about what waits.
    pub(super) fn follow_narrowed(&mut self) {
        let narrowed = narrowed(&self.state, self.fleet).map(str::to_owned);
        let old = ownership(&self.state.record);
        let known = std::mem::replace(&mut self.state.record.narrowed, narrowed);
        self.replace(old.filter(|_| known.is_some() && known != self.state.record.narrowed));
    }

    /// Forgets who decided before a commit that is rolled out, where another one is accepted. At the end of a decision, too: before the
    /// next one a person may begin another rollout, and those would have to agree to that.
    pub(super) fn forget_replaced(&mut self) {
        let commit = &self.fleet.tree.commit;
        let is_settled = self.is_settled();
        let is_rolled_out = is_settled && self.newest_rollout_is_of(commit.as_ref());
        let replaced = &mut self.state.record.replaced;
        replaced.retain(|replaced| replaced.by == *commit || !is_settled && !replaced.agreed);
        // Whom the commit named decides about the next one, whatever begins before that. Not where another placement hands over: that may come
        // after the rollout.
        for own in replaced.iter_mut().filter(|replaced| is_rolled_out && is_own(replaced)) {
            own.agreed = true;
        }
    }

    /// Keeps an ownership as one that still counts, where none does that is older.
    fn replace(&mut self, before: Option<Ownership>) {
        let record = &mut self.state.record;
        if let Some(before) = before.filter(|_| record.generation > 0 && !record.replaced.iter().any(is_own)) {
            let by = self.fleet.tree.commit.clone();
            record.replaced.push(ReplacedOwnership { before, by, agreed: false, from: None });
        }
    }

    /// Tells whether what a commit brought is rolled out with the consent of those who decided before it: its run has succeeded. A rollout
    /// that failed or that a person rejected changes nothing about who decides. A placement without stages must not be paused: it is paused
    /// when it loses stages with approvals, and who resumes it agrees.
    fn is_settled(&self) -> bool {
        let is_staged = self.state.record.spec.strategy.type_ == StrategyType::External;
        let agreed = if is_staged {
            self.newest_rollout().is_none_or(|run| run.phase == RunPhase::Succeeded)
        } else {
            self.state.record.paused.is_none()
        };
        agreed && self.state.record.closed_gate().is_none() && self.state.runs.values().all(|run| run.phase.is_final())
    }

    fn newest_rollout(&self) -> Option<&RunRecord> {
        let rolls_out = |run: &&RunRecord| run.frozen.is_some() && run.cause.brings_a_snapshot();
        self.state.runs.values().filter(rolls_out).max_by_key(|run| run.sequence)
    }

    /// Tells whether the newest rollout is that of a commit's own content. Until it exists, that of an earlier commit is the newest one.
    fn newest_rollout_is_of(&self, commit: Option<&CommitId>) -> bool {
        let index = self.newest_rollout().and_then(RunRecord::snapshot);
        let snapshot = index.and_then(|index| self.state.snapshots.get(&index));
        snapshot.is_some_and(|snapshot| Some(&snapshot.commit) == commit)
    }

    fn follow_spec(&mut self) {
        let record = &mut self.state.record;
        match self.fleet.tree.placements.get(&record.key) {
            None => record.removed = true,
            Some(placement) => {
                (record.removed, record.renamed_to) = (false, None);
                record.origin = Some(placement.origin.clone());
                if record.generation == 0
                    || record.spec != placement.spec
                    || record.annotations != placement.annotations
                {
                    let is_off = |annotations: &BTreeMap<String, String>| {
                        annotations.get(DELETION_GUARD).is_some_and(|value| value == "Off")
                    };
                    // A new placement has nothing to lose.
                    if record.generation > 0 && is_off(&placement.annotations) != is_off(&record.annotations) {
                        record.guard_off_at = self.fleet.tree.commit.clone().filter(|_| is_off(&placement.annotations));
                    }
                    record.spec = placement.spec.clone();
                    record.annotations.clone_from(&placement.annotations);
                    record.generation += 1;
                }
            }
        }
    }

    /// Handles clusters that left the fleet: their bindings go, and nothing on them changes. If more than half of the fleet
    /// left at once, bindings wait for a person. Returns the clusters that left.
    pub(super) fn leave(&mut self) -> Vec<ClusterName> {
        let mut is_member = self.fleet.clusters.contains_in_order();
        let has_left = |b: &&Binding| !is_member(&b.cluster) && self.mass_leave(&b.cluster).is_none();
        let left: Vec<Binding> = self.state.bindings().filter(has_left).cloned().collect();
        for binding in &left {
            self.state.bindings.remove(&binding.name);
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
        record.left_with.filter(|_| !gate.is_some_and(|gate| gate.leaving.contains(cluster)))
    }

    /// Returns the clusters of this placement whose removal waits for a person.
    pub(super) fn leaving(&self) -> BTreeMap<ClusterName, MassLeave> {
        let mut records = Along::new(&self.fleet.records);
        let leaves = |b: &Binding| Some((b.cluster.clone(), self.mass_leave_of(&b.cluster, records.get(&b.cluster))?));
        self.state.bindings().filter_map(leaves).collect()
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
fn narrowed<'a>(state: &'a PlacementState, fleet: &'a FleetState) -> Option<&'a str> {
    let record = &state.record;
    if record.spec.strategy.type_ != StrategyType::External {
        return None;
    }
    let active = state.runs.values().find(|run| run.frozen.is_some() && !run.phase.is_final());
    let newest = active.or_else(|| state.runs.values().max_by_key(|run| run.sequence));
    let named = active.map(|run| &run.strategy).or_else(|| record.annotations.get(STAGED_UPDATE_STRATEGY));
    let named = named.or_else(|| newest.map(|run| &run.strategy));
    match named.and_then(|name| fleet.staged.strategy(&record.key, name)) {
        Some(strategy) => strategy.approvers.as_deref(),
        None => record.narrowed.as_deref().or_else(|| newest.and_then(|run| run.approvers.as_deref())),
    }
}
