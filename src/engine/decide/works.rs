//! What each member shall hold: the snapshot of its binding, made with the overrides that were picked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::super::overrides::{Objects, candidates, render};
use super::Pass;
use crate::api::condition::{Condition, ConditionStatus, set_condition};
use crate::model::id::{ClusterName, Digest, ObjectKey};
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
        member.map(|(candidates, member)| candidates.pick(cluster, &member.labels)).unwrap_or_default()
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

    /// Returns what a cluster is to hold as a digest: the snapshot's, or that of what overrides make of it.
    pub(super) fn works_digest(&self, cluster: &ClusterName, snapshot: u64, picked: &PickedOverrides) -> Digest {
        let hash = self.state.snapshots[&snapshot].hash.clone();
        let Some(payload) = self.state.payloads.get(&snapshot).filter(|_| !picked.is_empty()) else { return hash };
        let known = self.state.rendered.get(cluster, snapshot, picked).cloned();
        let text = match known.unwrap_or_else(|| render(self.world, payload, cluster, picked)) {
            Ok(objects) => objects.iter().map(|object| object.digest.as_str()).collect::<Vec<_>>().join("\n"),
            Err(error) => error,
        };
        Digest::new(format!("{:x}", Sha256::digest(format!("{hash}\n{text}"))))
    }

    /// Returns what each cluster that stays keeps of what it holds, where that is not all: what every snapshot has that it was
    /// told to hold or may come to, after overrides. A snapshot without payload, or whose objects cannot be made, takes nothing
    /// from anybody.
    pub(super) fn kept(&mut self, aims: &BTreeSet<u64>) -> BTreeMap<ClusterName, BTreeSet<ObjectKey>> {
        let payloads = self.state.payloads.iter();
        let common: BTreeMap<u64, BTreeSet<ObjectKey>> =
            payloads.map(|(index, payload)| (*index, payload.keys().cloned().collect())).collect();
        let bindings = std::mem::take(&mut self.state.bindings);
        let mut all = BTreeMap::new();
        for binding in bindings.values().filter(|b| !b.deleting && b.state != BindingState::Unscheduled) {
            let cluster = &binding.cluster;
            let Some(work) = self.state.works.get(cluster).cloned() else { continue };
            let told = binding.snapshot.filter(|_| binding.state == BindingState::Bound);
            let mut may_hold: Vec<_> = told.map(|index| (index, binding.overrides.clone())).into_iter().collect();
            for index in aims {
                let to_come = (*index, self.desired_overrides(cluster, *index));
                if !may_hold.contains(&to_come) {
                    may_hold.push(to_come);
                }
            }
            let mut lost: BTreeSet<&ObjectKey> = BTreeSet::new();
            for (index, picked) in may_hold {
                if let Some(keys) = common.get(&index).filter(|_| picked.is_empty()) {
                    // Nearly always, and cheaper to tell than what is lost.
                    if work.inventory.is_subset(keys) {
                        continue;
                    }
                    lost.extend(work.inventory.iter().filter(|key| !keys.contains(*key)));
                } else if let Some(Ok(objects)) = self.objects(cluster, index, &picked) {
                    let keys: BTreeSet<&ObjectKey> = objects.iter().map(|object| &object.key).collect();
                    lost.extend(work.inventory.iter().filter(|key| !keys.contains(key)));
                }
            }
            if !lost.is_empty() {
                let kept = work.inventory.iter().filter(|key| !lost.contains(key)).cloned().collect();
                all.insert(cluster.clone(), kept);
            }
        }
        self.state.bindings = bindings;
        all
    }

    /// Tells whether a cluster is no longer picked and has not been told to remove what it holds.
    pub(super) fn leaves_a_cluster(&self) -> bool {
        self.state.bindings().any(|b| !b.deleting && b.state == BindingState::Unscheduled)
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
