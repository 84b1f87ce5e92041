//! Scheduling within a decision: the policy, delegated decisions, and evictions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::bindings::BindingEdit;
use super::ocm::{key_named, key_of, reason};
use super::state::{FleetState, PlacementState};
use super::{Pass, evaluate};
use crate::snapshot::{Next, next_snapshot, policy_hash, scheduled_policy};
use model::api::annotations::OCM_PLACEMENT;
use model::api::condition::ConditionStatus;
use model::cluster::Cluster;
use model::conditions::ConditionType;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::ocm::OcmPlacementRecord;
use model::overrides::PickedOverrides;
use model::records::{Binding, BindingState, PlacementRecord, PolicySnapshot};
use schedule::{Action, BadValues, BindingChange, Request, schedule, schedule_decided};

/// A placement whose clusters an OCM Placement picks.
struct Delegated<'a> {
    record: &'a OcmPlacementRecord,
}

impl<'a> Delegated<'a> {
    /// Returns the OCM Placement that picks for a placement; `None` if it has a policy of its own.
    ///
    /// # Errors
    /// The annotation names a Placement that git does not have, or that was never decided.
    fn of(placement: &PlacementRecord, fleet: &'a FleetState) -> Result<Option<Self>, String> {
        let Some(name) = placement.annotations.get(OCM_PLACEMENT) else { return Ok(None) };
        let key = key_named(name).filter(|key| fleet.ocm.is_wished(key));
        let Some(key) = key else {
            return Err(format!(
                "the annotation {OCM_PLACEMENT} names the OCM Placement {name}, which the source does not have; add it, or \
                 give the placement a policy instead"
            ));
        };
        match fleet.ocm.record(&key) {
            // Also for a Placement that is invalid by now: its last valid decisions stay.
            Some(record) if !record.groups.is_empty() => Ok(Some(Self { record })),
            Some(record) => {
                let why = record.error.clone().or_else(|| record.misconfiguration().map(str::to_owned));
                let why = why.unwrap_or_else(|| "it has no decisions yet".to_owned());
                Err(format!("the OCM Placement {name} picks no clusters: {why}"))
            }
            None => Err(format!("the OCM Placement {name} was not decided yet")),
        }
    }

    /// Returns the clusters with the reason to record.
    fn clusters(&self) -> BTreeMap<ClusterName, String> {
        let name = key_of(self.record).to_string();
        let mut clusters = BTreeMap::new();
        for group in &self.record.groups {
            let reason = reason(&name, &group.name);
            clusters.extend(group.clusters.iter().map(|cluster| (cluster.clone(), reason.clone())));
        }
        clusters
    }
}

/// Which clusters a placement is to have.
pub(super) struct Scheduled {
    /// The policy that picked them, with the decisions.
    policy: PolicySnapshot,
    /// The indexes of policies beyond the history limit.
    outdated: Vec<u64>,
    /// What becomes of the bindings.
    changes: Vec<BindingChange>,
}

impl Pass<'_> {
    /// Schedules the placement; `None` while a mass removal waits for a person: nothing changes then, so no replacement clusters are picked
    /// either.
    ///
    /// # Errors
    /// The policy is invalid, or delegates to an OCM Placement that picks no clusters.
    pub(super) fn scheduled(&self) -> Result<Option<Scheduled>, String> {
        if !self.leaving().is_empty() {
            return Ok(None);
        }
        let key = self.state.record.key.clone();
        let delegated = Delegated::of(&self.state.record, self.fleet)?;
        let policy = scheduled_policy(&key, self.state.wanted_policy());
        let hash = policy_hash(policy.as_ref());
        let existing: Vec<_> = self.state.policies.values().map(|p| (p.index, p.hash.clone())).collect();
        let limit = self.state.record.spec.revision_history_limit;
        let (index, outdated) = match next_snapshot(&existing, &hash, limit) {
            Next::Keep(index) => (index, Vec::new()),
            Next::Create { index, prune } => (index, prune),
        };
        let bindings = self.state.shared_bindings();
        let tenant = self.fleet.tenant_of(&self.state.record);
        let request = Request {
            placement: &key,
            policy: policy.as_ref(),
            policy_index: index,
            clusters: &self.fleet.clusters,
            bindings: &bindings,
            keep_held: true,
            bad_values: BadValues::Mismatch,
            tenant,
        };
        let outcome = match &delegated {
            Some(decided) => schedule_decided(&request, &self.permitted_clusters(decided.clusters())),
            None => schedule(&request),
        };
        let mut outcome = outcome.map_err(|error| error.to_string())?;
        if let Some(decided) = &delegated {
            outcome.fulfilled &= decided.record.is_satisfied();
        }
        let created_at = self.state.policies.get(&index).map_or(self.now, |p| p.created_at);
        let policy = PolicySnapshot {
            placement: key,
            index,
            hash,
            // Not part of the policy: another decision of the Placement is no new policy.
            number_of_clusters: match &delegated {
                Some(decided) => i32::try_from(decided.record.clusters().count()).ok(),
                None => policy.as_ref().and_then(|p| p.number_of_clusters),
            },
            policy,
            observed_generation: self.state.record.generation,
            fulfilled: outcome.fulfilled,
            target_clusters: outcome.decisions,
            created_at,
        };
        Ok(Some(Scheduled { policy, outdated, changes: outcome.bindings }))
    }

    /// Records the policy and changes the bindings.
    pub(super) fn take_scheduled(&mut self, scheduled: Option<Scheduled>) {
        let Some(Scheduled { policy, outdated, changes }) = scheduled else { return };
        let policies = &mut self.state.policies;
        policies.retain(|index, _| !outdated.contains(index));
        // An unchanged one stays shared.
        if policies.get(&policy.index).is_none_or(|known| **known != policy) {
            policies.insert(policy.index, Arc::new(policy));
        }
        for change in changes {
            self.rebind(change);
        }
    }

    /// Returns which of these clusters the placement would pick if they had its Namespace.
    pub(super) fn would_pick(&self, clusters: &BTreeSet<ClusterName>) -> BTreeSet<ClusterName> {
        if clusters.is_empty() {
            return BTreeSet::new();
        }
        let Ok(delegated) = Delegated::of(&self.state.record, self.fleet) else { return BTreeSet::new() };
        if let Some(decided) = &delegated {
            let picked = self.permitted_clusters(decided.clusters()).into_keys();
            return picked.filter(|cluster| clusters.contains(cluster)).collect();
        }
        let with_namespace = self.fleet.clusters.iter().map(|(name, cluster)| {
            let namespaces = if clusters.contains(name) { None } else { cluster.namespaces.clone() };
            (name.clone(), Cluster { namespaces, ..cluster.clone() })
        });
        let fleet = with_namespace.collect();
        let key = &self.state.record.key;
        let policy = scheduled_policy(key, self.state.wanted_policy());
        let bindings = self.state.shared_bindings();
        let request = Request {
            placement: key,
            policy: policy.as_ref(),
            policy_index: self.state.policy().map_or(0, |policy| policy.index),
            clusters: &fleet,
            bindings: &bindings,
            keep_held: true,
            bad_values: BadValues::Mismatch,
            tenant: self.fleet.tenant_of(&self.state.record),
        };
        let Ok(outcome) = schedule(&request) else { return BTreeSet::new() };
        let picked = outcome.decisions.into_iter().filter(|decision| decision.selected).map(|d| d.cluster_name);
        picked.filter(|cluster| clusters.contains(cluster)).collect()
    }

    /// Returns the decided clusters that the tenant of the placement may use.
    fn permitted_clusters(&self, decided: BTreeMap<ClusterName, String>) -> BTreeMap<ClusterName, String> {
        match self.fleet.tenant_of(&self.state.record) {
            Some(tenant) => decided.into_iter().filter(|(cluster, _)| self.may_place_on(tenant, cluster)).collect(),
            None => decided,
        }
    }

    /// Applies a scheduling change to a binding.
    fn rebind(&mut self, change: BindingChange) {
        let mut binding = change.binding;
        if change.action == Action::Create
            && let Some(returned) = self.taken_back(&binding)
        {
            binding = returned;
        }
        let event = match change.action {
            Action::Create => Some(JournalKind::ClusterPicked),
            Action::Unschedule => Some(JournalKind::ClusterDropped),
            // The cluster keeps its objects, so it gets no order.
            Action::Leave => {
                self.change(&binding.name, BindingEdit::Drop);
                return;
            }
            Action::Patch => None,
        };
        if let Some(event) = event {
            self.note(event, Some(&binding.cluster), json!({"binding": binding.name}));
        }
        // No report covers the new generation. By the time of its last move, a healthy cluster would count as failed until its
        // next report, and be updated beyond the limits.
        let known = self.state.bindings.get(&binding.name);
        if known.is_none() {
            binding.created_at = Some(self.now);
            binding.generation = binding.generation.max(self.last_generation(&binding.cluster) + 1);
        }
        if known.is_some_and(|known| known.generation != binding.generation) {
            binding.started_at = binding.started_at.map(|_| self.now);
        }
        // Another placement has taken everything over meanwhile: it is delivered again, within the limits.
        let returns = known.is_some_and(|known| known.state == BindingState::Unscheduled && !known.deleting);
        if returns
            && binding.state == BindingState::Bound
            && self.state.works.get(&binding.cluster).is_some_and(|work| work.inventory.is_known_empty())
        {
            binding.state = BindingState::Scheduled;
            binding.snapshot = None;
            binding.started_at = None;
            binding.overrides = PickedOverrides::default();
        }
        self.change(&binding.name.clone(), BindingEdit::Put(Box::new(binding)));
    }

    /// Returns the last generation that a cluster was told or reported of the placement: a report about a binding before is not about a
    /// new one.
    fn last_generation(&self, cluster: &ClusterName) -> i64 {
        let others = self.state.bindings().filter(|binding| binding.cluster == *cluster).map(|b| b.generation);
        let reported = self.state.works.get(cluster).map(|work| work.generation);
        others.chain(reported).max().unwrap_or_default()
    }

    /// Returns the binding that leaves a cluster which is picked again, if its removal has nothing left to delete because other
    /// placements were to take the rest over: it continues from what it holds, as one that waits for an approval does.
    fn taken_back(&self, new: &Binding) -> Option<Binding> {
        let mut leaving = self.state.bindings().filter(|b| b.deleting && b.cluster == new.cluster);
        let known = leaving.next().filter(|binding| self.is_kept_whole(&binding.cluster))?;
        Some(Binding {
            name: known.name.clone(),
            state: if known.snapshot.is_some() { BindingState::Bound } else { BindingState::Scheduled },
            snapshot: known.snapshot,
            apply_strategy: known.apply_strategy.clone(),
            overrides: known.overrides.clone(),
            created_at: known.created_at,
            started_at: known.started_at,
            generation: known.generation + 1,
            ..new.clone()
        })
    }

    /// Tells whether all that a cluster is known to hold of the placement stays there although its binding leaves.
    pub(super) fn is_kept_whole(&self, cluster: &ClusterName) -> bool {
        let known = self.state.works.get(cluster).and_then(|work| work.inventory.known());
        known.is_some_and(|known| !known.is_empty() && self.state.unclaimed(cluster, known).next().is_none())
    }

    /// Executes the evictions of git. Returns whether a cluster is left because of them.
    pub(super) fn evict(&mut self) -> bool {
        let Ok(limits) = self.limits() else { return false };
        let PlacementState { record, bindings, works, others, .. } = &self.state;
        let failed = |binding: &Binding| {
            let work = works.get(&binding.cluster).map(AsRef::as_ref);
            let heard = self.fleet.heard(&binding.placement, &binding.cluster);
            evaluate(binding, work, &others.taking_over, heard, &limits, self.now).failed
        };
        let evicted = self.fleet.disruptions.evaluate(record, bindings, failed, self.now);
        let known = std::mem::replace(&mut self.state.record.evictions, evicted.records);
        let is_left = !evicted.left.is_empty();
        for (name, cluster) in evicted.left {
            // A person named the cluster, so its known objects are removed.
            let objects = self.goes(&cluster);
            self.change(&name, BindingEdit::Remove { objects, abandons: self.state.record.abandons() });
            self.note(JournalKind::RemovalStarted, Some(&cluster), json!({"binding": name}));
        }
        let evaluated = self.state.record.evictions.iter().filter(|(name, _)| !known.contains_key(*name));
        for (name, eviction) in evaluated.map(|(name, eviction)| (name.clone(), eviction.clone())).collect::<Vec<_>>() {
            let mut conditions = eviction.conditions.iter();
            let executed = conditions.any(|c| c.type_ == ConditionType::Executed && c.status == ConditionStatus::True);
            let facts = json!({"eviction": name, "executed": executed});
            self.note(JournalKind::EvictionJudged, Some(&eviction.cluster), facts);
        }
        is_left
    }
}
