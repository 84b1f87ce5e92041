//! What each member shall hold: the snapshot of its binding, made with the overrides that were picked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::overrides::{Objects, candidates, render};
use super::Pass;
use crate::api::condition::{Condition, ConditionStatus, set_condition};
use crate::model::id::{ClusterName, ObjectKey};
use crate::model::overrides::{OverrideRef, PickedOverrides};
use crate::model::records::{Binding, BindingState};
use crate::model::work::{Desired, WorkOrder};

impl Pass<'_> {
    /// Finds the overrides that concern each payload, once for all clusters.
    pub(super) fn find_candidates(&mut self) {
        if self.world.overrides.is_empty() {
            return;
        }
        let key = &self.state.record.key;
        let payloads = self.state.payloads.iter();
        self.candidates = payloads.map(|(index, payload)| (*index, candidates(self.world, key, payload))).collect();
    }

    /// Returns the overrides that a cluster's objects are to be made with at a snapshot, as overrides and labels stand now.
    /// Without the snapshot's payload nobody can say; what is there then stays.
    pub(super) fn desired_overrides(&self, cluster: &ClusterName, snapshot: u64) -> PickedOverrides {
        if !self.state.payloads.contains_key(&snapshot) {
            let held = self.state.bindings().find(|b| b.cluster == *cluster && b.snapshot == Some(snapshot));
            return held.map(|binding| binding.overrides.clone()).unwrap_or_default();
        }
        let candidates = self.candidates.get(&snapshot).filter(|candidates| !candidates.is_empty());
        let member = candidates.zip(self.world.clusters.get(cluster.as_str()));
        member.map(|(candidates, member)| candidates.pick(&member.labels)).unwrap_or_default()
    }

    /// Returns a cluster's objects of a snapshot; `None` where the payload is missing.
    pub(super) fn objects(
        &mut self,
        cluster: &ClusterName,
        snapshot: u64,
        picked: &PickedOverrides,
    ) -> Option<Objects> {
        let payload = self.state.payloads.get(&snapshot)?;
        if picked.is_empty() {
            return Some(Ok(Arc::clone(&payload.desired)));
        }
        if let Some(known) = self.state.rendered.get(cluster, snapshot, picked) {
            return Some(known.clone());
        }
        let objects = render(self.world, payload, cluster, picked);
        self.state.rendered.insert(cluster, snapshot, picked, objects.clone());
        Some(objects)
    }

    /// Writes down, for each binding that overrides concern, whether its objects can be made with them.
    pub(super) fn judge_overrides(&mut self) {
        let is_concerned =
            |b: &&mut Arc<Binding>| !b.deleting && b.state != BindingState::Scheduled && !b.overrides.is_empty();
        let mut bindings = std::mem::take(&mut self.state.bindings);
        for shared in bindings.values_mut().filter(is_concerned) {
            let binding = shared.as_ref();
            let objects = binding.snapshot.map(|snapshot| self.objects(&binding.cluster, snapshot, &binding.overrides));
            let (status, reason, message) = match objects.flatten() {
                None => continue,
                Some(Ok(_)) => {
                    let names = binding.overrides.cluster.iter().chain(&binding.overrides.namespaced);
                    let names = names.map(OverrideRef::name).collect::<Vec<_>>().join(", ");
                    (ConditionStatus::True, "OverriddenSucceeded", format!("made with {names}"))
                }
                Some(Err(error)) => (ConditionStatus::False, "OverriddenFailed", error),
            };
            let condition = Condition {
                type_: "Overridden".to_owned(),
                status,
                reason: reason.to_owned(),
                message,
                observed_generation: binding.generation,
                last_transition_time: self.now,
            };
            let mut conditions = binding.conditions.clone();
            set_condition(&mut conditions, condition);
            if binding.conditions != conditions {
                Arc::make_mut(shared).conditions = conditions;
            }
        }
        self.state.bindings = bindings;
    }

    /// Returns what each cluster that stays is to hold at the newest snapshot, after overrides; one whose objects cannot be made
    /// keeps what it has. Without that snapshot's payload `None`.
    pub(super) fn desired_keys(&mut self) -> Option<BTreeMap<ClusterName, Arc<BTreeSet<ObjectKey>>>> {
        let newest = self.state.newest()?.index;
        let payload = Arc::clone(self.state.payloads.get(&newest)?);
        let stays = |b: &&Binding| !b.deleting && b.state != BindingState::Unscheduled;
        let clusters: Vec<ClusterName> = self.state.bindings().filter(stays).map(|b| b.cluster.clone()).collect();
        let common: Arc<BTreeSet<ObjectKey>> = Arc::new(payload.keys().cloned().collect());
        let mut desired = BTreeMap::new();
        for cluster in clusters {
            let picked = self.desired_overrides(&cluster, newest);
            let keys = if picked.is_empty() {
                Arc::clone(&common)
            } else {
                Arc::new(match self.objects(&cluster, newest, &picked)? {
                    Ok(objects) => objects.iter().map(|object| object.key.clone()).collect(),
                    Err(_) => self.state.works.get(&cluster).map(|work| work.inventory.clone()).unwrap_or_default(),
                })
            };
            desired.insert(cluster, keys);
        }
        Some(desired)
    }

    /// Returns what each member shall hold. A binding that is being removed comes before a newer one of its cluster.
    pub(super) fn orders(&mut self) -> Vec<Arc<WorkOrder>> {
        let mut orders: BTreeMap<ClusterName, Arc<WorkOrder>> = BTreeMap::new();
        let bindings = std::mem::take(&mut self.state.bindings);
        for binding in bindings.values() {
            if orders.get(&binding.cluster).is_some_and(|order| order.remove) {
                continue;
            }
            if let Some(order) = self.order(binding) {
                orders.insert(binding.cluster.clone(), Arc::new(order));
            }
        }
        self.state.bindings = bindings;
        orders.into_values().collect()
    }

    /// Returns a binding's order; `None` where the payload is missing or cannot be made for its cluster, which then keeps what
    /// it has.
    fn order(&mut self, binding: &Binding) -> Option<WorkOrder> {
        let snapshot = binding.snapshot.and_then(|index| self.state.snapshots.get(&index)).cloned();
        let manifests: Arc<[Desired]> = match (binding.deleting, &snapshot) {
            (true, _) => Arc::from([]),
            (false, None) => return None,
            (false, Some(snapshot)) => self.objects(&binding.cluster, snapshot.index, &binding.overrides)?.ok()?,
        };
        let record = &self.state.record;
        let held =
            record.closed_gate().and_then(|gate| gate.deletions.get(&binding.cluster)).cloned().unwrap_or_default();
        let snapshot = snapshot.as_deref();
        Some(WorkOrder {
            placement: record.key.clone(),
            cluster: binding.cluster.clone(),
            generation: binding.generation,
            source: self.world.source.clone(),
            snapshot: snapshot.map_or(0, |s| s.index),
            commit: snapshot.map_or_else(|| "".into(), |s| s.commit.clone()),
            digest: snapshot.map_or_else(|| "".into(), |s| s.hash.clone()),
            strategy: binding.apply_strategy.clone(),
            manifests,
            held,
            remove: binding.deleting,
        })
    }

    /// Forgets clusters' objects that no binding is made of or comes to.
    pub(super) fn forget_rendered(&mut self) {
        let newest = self.state.newest().map(|newest| newest.index);
        let mut rendered = std::mem::take(&mut self.state.rendered);
        let mut held: BTreeMap<&ClusterName, Vec<(u64, &PickedOverrides)>> = BTreeMap::new();
        for binding in self.state.bindings() {
            held.entry(&binding.cluster).or_default().extend(binding.snapshot.map(|index| (index, &binding.overrides)));
        }
        rendered.retain(|cluster, snapshot, picked| {
            held.get(cluster).is_some_and(|held| {
                held.contains(&(snapshot, picked))
                    || (newest == Some(snapshot) && self.desired_overrides(cluster, snapshot) == *picked)
            })
        });
        self.state.rendered = rendered;
    }
}

#[cfg(test)]
mod tests;
