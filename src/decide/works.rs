//! The desired objects of each member: the snapshot of its binding, rendered with its overrides.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Pass;
use super::bindings::BindingEdit;
use super::objects::stays;
use super::overrides::{NewlyMade, Objects};
use super::render::{candidates, render};
use super::variants::pick;
use crate::snapshot::Candidates;
use model::along::Along;
use model::id::{ClusterName, Digest, ObjectKey};
use model::overrides::{OverrideRef, PickedOverrides};
use model::records::{Binding, BindingState, Kept, ResourceSnapshot};
use model::work::{Desired, WorkOrder};

impl Pass<'_> {
    /// Finds the overrides for each payload, once for all clusters.
    pub(super) fn find_candidates(&mut self) {
        if self.fleet.overrides.is_empty() {
            return;
        }
        let record = &self.state.record;
        let payloads = self.state.payloads.iter();
        self.candidates = payloads.map(|(index, payload)| (*index, candidates(self.fleet, record, payload))).collect();
    }

    /// Returns the overrides of the accepted commit that concern a snapshot, as far as its payload is known.
    pub(super) fn candidate_ids(&self, snapshot: u64) -> impl Iterator<Item = &OverrideRef> {
        self.candidates.get(&snapshot).into_iter().flat_map(Candidates::ids)
    }

    /// Returns the overrides for a cluster's objects at a snapshot, by the present overrides and labels. Without the snapshot's
    /// payload they are unknown, and the present ones stay.
    pub(super) fn desired_overrides(&self, cluster: &ClusterName, snapshot: u64) -> PickedOverrides {
        if !self.state.payloads.contains_key(&snapshot) {
            let held = self.state.bindings().find(|b| b.cluster == *cluster && b.snapshot == Some(snapshot));
            return held.map(|binding| binding.overrides.clone()).unwrap_or_default();
        }
        let today = self.picked_today(cluster, snapshot);
        self.overrides_back(cluster, snapshot, &today).unwrap_or(today)
    }

    /// Returns the overrides of the accepted commit for a cluster's objects at a snapshot, whatever is held.
    pub(super) fn picked_today(&self, cluster: &ClusterName, snapshot: u64) -> PickedOverrides {
        let Some(of) = self.state.snapshots.get(&snapshot) else { return PickedOverrides::default() };
        pick(self.fleet, of, self.candidates.get(&snapshot), cluster)
    }

    /// Returns a cluster's objects for a snapshot; `None` without its payload. What has to be rendered for that is added to `newly_made`.
    pub(super) fn objects(
        &self,
        cluster: &ClusterName,
        snapshot: u64,
        picked: &PickedOverrides,
        newly_made: &mut NewlyMade,
    ) -> Option<Objects> {
        let payload = self.state.payloads.get(&snapshot)?;
        if !picked.has_overrides() {
            return Some(payload.variant(picked.variant.as_ref()).map(|of_cluster| Arc::clone(&of_cluster.desired)));
        }
        if let Some(known) = self.state.memo.rendered.get(cluster, snapshot, picked) {
            return Some(known.clone());
        }
        let objects = render(self.fleet, payload, cluster, picked);
        newly_made.push((cluster.clone(), (snapshot, picked.clone(), objects.clone())));
        Some(objects)
    }

    /// Returns the digest of a cluster's desired content: the snapshot's, or that of its rendered objects.
    pub(super) fn works_digest(&self, cluster: &ClusterName, snapshot: u64, picked: &PickedOverrides) -> Digest {
        let hash = self.state.snapshots[&snapshot].hash.clone();
        if picked.is_empty() {
            return hash;
        }
        let Some(payload) = self.state.payloads.get(&snapshot) else { return hash };
        let known = self.state.memo.rendered.get(cluster, snapshot, picked).cloned();
        let text = match known.unwrap_or_else(|| render(self.fleet, payload, cluster, picked)) {
            Ok(objects) => objects.iter().map(|object| object.digest.as_str()).collect::<Vec<_>>().join("\n"),
            // An approval of a failed rendering must not count for a repaired override.
            Err(error) => error,
        };
        Digest::new(format!("{:x}", Sha256::digest(format!("{hash}\n{text}"))))
    }

    /// Returns which of its objects each staying cluster keeps, if not all: those in every snapshot that it was assigned or may
    /// get, after overrides. A snapshot without payload, or one that cannot be rendered, removes nothing.
    /// Returns the objects that had to be rendered for that, too.
    pub(super) fn kept(&self, upcoming: &BTreeSet<u64>) -> (BTreeMap<ClusterName, BTreeSet<ObjectKey>>, NewlyMade) {
        let payloads = self.state.payloads.iter();
        let common: BTreeMap<u64, BTreeSet<&ObjectKey>> =
            payloads.map(|(index, payload)| (*index, payload.keys().collect())).collect();
        // Members share equal inventories, so that each is compared once. The addresses only tell whether they are the same.
        let mut covered: BTreeSet<(u64, *const BTreeSet<ObjectKey>)> = BTreeSet::new();
        let mut held = Along::new(&self.state.works);
        let mut newly_made = NewlyMade::new();
        let mut all = BTreeMap::new();
        for binding in self.state.bindings().filter(|b| stays(b)) {
            let cluster = &binding.cluster;
            // Nothing is pruned from an unknown inventory. What is seen of it is lost all the same: another placement may be to have it.
            let Some(inventory) = held.get(cluster).map(|work| work.inventory.seen()) else { continue };
            let may_hold = self.may_hold(binding, upcoming);
            let mut lost: BTreeSet<&ObjectKey> = BTreeSet::new();
            for (index, picked) in may_hold {
                if let Some(keys) = common.get(&index)
                    && picked.is_empty()
                {
                    if covered.contains(&(index, std::ptr::from_ref(inventory))) {
                        continue;
                    }
                    let missing: Vec<&ObjectKey> = inventory.iter().filter(|key| !keys.contains(key)).collect();
                    if missing.is_empty() {
                        covered.insert((index, std::ptr::from_ref(inventory)));
                    }
                    lost.extend(missing);
                } else if let Some(Ok(objects)) = self.objects(cluster, index, &picked, &mut newly_made) {
                    let keys: BTreeSet<&ObjectKey> = objects.iter().map(|object| object.key.as_ref()).collect();
                    lost.extend(inventory.iter().filter(|key| !keys.contains(key)));
                }
            }
            if !lost.is_empty() {
                let kept = inventory.iter().filter(|key| !lost.contains(key)).cloned().collect();
                all.insert(cluster.clone(), kept);
            }
        }
        (all, newly_made)
    }

    /// Returns the snapshots that a cluster was assigned or may get, with what its objects are made with.
    fn may_hold(&self, binding: &Binding, upcoming: &BTreeSet<u64>) -> Vec<(u64, PickedOverrides)> {
        let mut may_hold = Vec::new();
        if let Some(assigned) = binding.snapshot
            && binding.state == BindingState::Bound
        {
            may_hold.push((assigned, binding.overrides.clone()));
        }
        if !self.state.record.ignores(binding) {
            for index in upcoming {
                let to_come = (*index, self.desired_overrides(&binding.cluster, *index));
                if !may_hold.contains(&to_come) {
                    may_hold.push(to_come);
                }
            }
        }
        may_hold
    }

    /// Tells whether a cluster is no longer picked and has not been ordered to remove its objects.
    pub(super) fn leaves_a_cluster(&self) -> bool {
        self.state.bindings().any(|b| !b.deleting && b.state == BindingState::Unscheduled)
    }

    /// Tells whether a cluster is picked, by a binding that is not being removed.
    pub(super) fn is_picked(&self, cluster: &ClusterName) -> bool {
        self.state.bindings().any(|b| b.cluster == *cluster && stays(b))
    }

    /// Tells whether a cluster's content is known: without a report it has none.
    pub(super) fn knows_inventory(&self, cluster: &ClusterName) -> bool {
        self.state.works.get(cluster).is_none_or(|work| work.inventory.known().is_some())
    }

    /// Returns objects on clusters that appeared after the decision about their removal.
    pub(super) fn turned_up(&self) -> BTreeMap<ClusterName, BTreeSet<ObjectKey>> {
        let mut turned_up = BTreeMap::new();
        for binding in self.state.bindings().filter(|binding| binding.deleting) {
            let work = self.state.works.get(&binding.cluster);
            let Some(held) = work.and_then(|work| work.inventory.known()) else { continue };
            let more = self.state.unclaimed(&binding.cluster, held.difference(&binding.removes));
            let more: BTreeSet<ObjectKey> = more.cloned().collect();
            if !more.is_empty() {
                turned_up.insert(binding.cluster.clone(), more);
            }
        }
        turned_up
    }

    /// Records what each leaving binding removes: known objects that wait for no approval, by the guard's last result.
    pub(super) fn note_removals(&mut self) {
        let turned_up = self.turned_up();
        let held = self.state.record.closed_gate().map(|gate| &gate.deletions);
        let mut changes = Vec::new();
        for binding in self.state.bindings().filter(|binding| binding.deleting) {
            let Some(more) = turned_up.get(&binding.cluster) else { continue };
            let held = held.and_then(|held| held.get(&binding.cluster));
            let more: BTreeSet<ObjectKey> =
                more.iter().filter(|key| !held.is_some_and(|held| held.contains(*key))).cloned().collect();
            if !more.is_empty() {
                changes.push((binding.name.clone(), BindingEdit::RemoveMore(more)));
            }
        }
        self.change_all(changes);
    }

    /// Returns which objects of a cluster may be pruned: those that the decision knows, that its order does not contain and
    /// that wait for no approval.
    fn pruned(
        &self,
        binding: &Binding,
        manifests: Option<&[Desired]>,
        held: &BTreeSet<ObjectKey>,
        losing: &BTreeSet<ClusterName>,
    ) -> BTreeSet<ObjectKey> {
        if binding.deleting {
            // Not the inventory: it includes objects that appeared after the guard ran.
            let goes = binding.removes.difference(held);
            return self.state.unclaimed(&binding.cluster, goes).cloned().collect();
        }
        // Usually nothing is left over, and that is cheaper to check than what is.
        if binding.state != BindingState::Unscheduled && !losing.contains(&binding.cluster) {
            return BTreeSet::new();
        }
        // Without the source the guard does not see objects that appeared since. What could not be rendered deletes nothing.
        if self.fleet.source_unread {
            return BTreeSet::new();
        }
        let Some(manifests) = manifests else { return BTreeSet::new() };
        let known = self.state.works.get(&binding.cluster).and_then(|work| work.inventory.known());
        let wanted: BTreeSet<&ObjectKey> = manifests.iter().map(|d| d.key.as_ref()).collect();
        let left_over = known.into_iter().flatten().filter(|key| !wanted.contains(key) && !held.contains(*key));
        self.state.unclaimed(&binding.cluster, left_over).cloned().collect()
    }

    /// Returns what a binding that leaves now removes: known objects that are not handed over.
    pub(super) fn goes(&self, cluster: &ClusterName) -> BTreeSet<ObjectKey> {
        let known = self.state.works.get(cluster).and_then(|work| work.inventory.known());
        self.state.unclaimed(cluster, known.into_iter().flatten()).cloned().collect()
    }

    /// Returns the order of each member, sorted by member. A leaving binding comes before a newer one of its cluster. An
    /// unchanged order is the same `Arc` as before. Clusters in `losing` hold something they may not keep.
    pub(super) fn orders(&self, losing: &BTreeSet<ClusterName>) -> Orders {
        let before = &self.state.memo.orders;
        let kept = Kept::of(&self.state.record);
        let mut orders: Vec<Arc<WorkOrder>> = Vec::with_capacity(self.state.bindings.len());
        let mut forbidden = None;
        // Usually the next binding's cluster is the next one with an order.
        let mut guess = 0;
        for binding in self.state.bindings() {
            let is_guessed = before.get(guess).is_some_and(|order| order.cluster == binding.cluster);
            let place = if is_guessed {
                Some(guess)
            } else {
                before.binary_search_by(|order| order.cluster.cmp(&binding.cluster)).ok()
            };
            guess = place.map_or(guess, |place| place + 1);
            match self.order(binding, place.map(|place| &before[place]), &kept, losing) {
                Ok(order) => orders.push(order),
                Err(NoOrder::Forbidden(why)) => {
                    // One reason is enough: the first.
                    forbidden.get_or_insert(why);
                }
                Err(NoOrder::NotKnown) => {}
            }
        }
        orders.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        // One order per cluster: the newer binding's order would apply what the removal still deletes.
        orders.dedup_by(|later, first| {
            let is_same = later.cluster == first.cluster;
            if is_same && !first.remove {
                std::mem::swap(later, first);
            }
            is_same
        });
        Orders { orders: Arc::new(orders), forbidden }
    }

    /// Returns a binding's order. One that leaves gets an order without objects where these are not known.
    fn order(
        &self,
        binding: &Binding,
        known: Option<&Arc<WorkOrder>>,
        kept: &Kept,
        losing: &BTreeSet<ClusterName>,
    ) -> Result<Arc<WorkOrder>, NoOrder> {
        let snapshot = binding.snapshot.and_then(|index| self.state.snapshots.get(&index)).cloned();
        let manifests = self.ordered(binding, snapshot.as_ref().map(|snapshot| snapshot.index), known)?;
        let record = &self.state.record;
        let tenant = self.fleet.tenant_of(record);
        let user = tenant.and_then(|tenant| tenant.user.clone());
        let tenant = tenant.map(|tenant| tenant.name.clone());
        let abandon = binding.deleting && binding.abandons;
        let held = &self.held_on(binding);
        let prune = self.pruned(binding, manifests.as_deref(), held, losing);
        let snapshot = snapshot.as_deref();
        // Mostly nothing has changed, which the same value says to all that compare orders by identity.
        if let Some(known) = known
            && has_manifests(known, manifests.as_ref())
            && known.generation == binding.generation
            && known.remove == binding.deleting
            && known.abandon == abandon
            && known.source == self.fleet.source
            && snapshot.is_none_or(|of| is_of_snapshot(known, of))
            && known.strategy == binding.apply_strategy
            && known.held == **held
            && known.prune == prune
            && known.kept == *kept
            && known.user == user
            && known.tenant == tenant
        {
            return Ok(Arc::clone(known));
        }
        // Only a changed order may be forbidden: what a cluster has been ordered stays its order.
        if let Some(why) = self.forbidden(binding) {
            return Err(NoOrder::Forbidden(why));
        }
        Ok(Arc::new(WorkOrder {
            placement: record.key.clone(),
            cluster: binding.cluster.clone(),
            generation: binding.generation,
            source: self.fleet.source.clone(),
            snapshot: snapshot.map_or(0, |s| s.index),
            commit: snapshot.map_or_else(|| "".into(), |s| s.commit.clone()),
            digest: snapshot.map_or_else(|| "".into(), |s| s.hash.clone()),
            strategy: binding.apply_strategy.clone(),
            manifests: manifests.unwrap_or_else(|| Arc::from([])),
            held: held.clone().into_owned(),
            prune,
            kept: kept.clone(),
            user,
            tenant,
            remove: binding.deleting,
            abandon,
        }))
    }

    /// Returns the objects of a binding's order, `None` for a removal. A binding that leaves gets an order without objects where these are not
    /// known, so that the member reports what it holds.
    fn ordered(
        &self,
        binding: &Binding,
        index: Option<u64>,
        known: Option<&Arc<WorkOrder>>,
    ) -> Result<Option<Arc<[Desired]>>, NoOrder> {
        if binding.deleting {
            return Ok(None);
        }
        let Some(index) = index else {
            // What an earlier binding left there is known after the member has listed it.
            let is_asked = binding.state == BindingState::Unscheduled && !self.knows_inventory(&binding.cluster);
            return if is_asked { Ok(None) } else { Err(NoOrder::NotKnown) };
        };
        // What a binding has was rendered when the binding was evaluated.
        let objects = self.objects(&binding.cluster, index, &binding.overrides, &mut NewlyMade::new());
        let objects = objects.and_then(Result::ok);
        let objects = objects.map(|objects| self.without_yielded(&binding.cluster, objects, known));
        if objects.is_some() || binding.state == BindingState::Unscheduled {
            Ok(objects)
        } else {
            Err(NoOrder::NotKnown)
        }
    }

    /// Returns what is not deleted on a cluster although its order lacks it: what waits for an approval, and what another placement takes
    /// over later.
    fn held_on(&self, binding: &Binding) -> Cow<'_, BTreeSet<ObjectKey>> {
        let gate = self.state.record.closed_gate();
        let held = gate.and_then(|gate| gate.deletions.get(&binding.cluster)).map_or_else(Cow::default, Cow::Borrowed);
        match self.state.others.claimed.get(&binding.cluster) {
            Some(claimed) if !binding.deleting => Cow::Owned(held.union(claimed).cloned().collect()),
            _ => held,
        }
    }

    /// Returns the objects of an order without those that another placement holds from now on; those of the `known` order where they are
    /// the same, since orders are compared by identity.
    fn without_yielded(
        &self,
        cluster: &ClusterName,
        objects: Arc<[Desired]>,
        known: Option<&Arc<WorkOrder>>,
    ) -> Arc<[Desired]> {
        let Some(yielded) = self.state.others.yielded.get(cluster) else { return objects };
        let rest: Vec<Desired> = objects.iter().filter(|of| !yielded.contains(of.key.as_ref())).cloned().collect();
        match known.map(|order| &order.manifests).filter(|known| are_alike(known, &rest)) {
            Some(known) => Arc::clone(known),
            None => rest.into(),
        }
    }

    /// Drops rendered objects that no binding has or will get.
    pub(super) fn forget_rendered(&mut self) {
        if self.state.memo.rendered.is_empty() {
            return;
        }
        let newest = self.state.newest().map(|newest| newest.index);
        // Taken, since a second owner would make a copy of it with each change.
        let mut rendered = std::mem::take(&mut self.state.memo.rendered);
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
        self.state.memo.rendered = rendered;
    }
}

/// Tells whether an order has these objects, by identity: payloads and rendered objects are shared, and comparing content is expensive.
fn has_manifests(order: &WorkOrder, manifests: Option<&Arc<[Desired]>>) -> bool {
    match manifests {
        Some(manifests) => Arc::ptr_eq(manifests, &order.manifests),
        None => order.manifests.is_empty(),
    }
}

fn is_of_snapshot(order: &WorkOrder, snapshot: &ResourceSnapshot) -> bool {
    order.snapshot == snapshot.index && order.commit == snapshot.commit && order.digest == snapshot.hash
}

/// Tells whether two lists have the same objects with the same content.
fn are_alike(some: &[Desired], others: &[Desired]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(a, b)| (&a.key, &a.digest) == (&b.key, &b.digest))
}

/// The orders of a placement.
pub(super) struct Orders {
    /// Those of its members, sorted by member.
    pub orders: Arc<Vec<Arc<WorkOrder>>>,
    /// Why the first cluster that may not be written to gets none.
    pub forbidden: Option<String>,
}

/// Why a cluster gets no order, and keeps what it has.
enum NoOrder {
    /// Its binding has no snapshot, its payload is missing, or its objects cannot be rendered.
    NotKnown,
    /// gitfleet may not write there.
    Forbidden(String),
}

#[cfg(test)]
mod tests;
