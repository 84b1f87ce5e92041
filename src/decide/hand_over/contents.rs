//! What a placement has on its clusters and is to have there. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::objects::{SnapshotObjects, ids_of};
use crate::only_reports;
use crate::render::candidates;
use crate::snapshot::{Candidates, left_out};
use crate::state::{FleetState, PlacementState};
use crate::variants::pick;
use model::id::ObjectKey;
use model::overrides::PickedOverrides;
use model::records::Binding;
use model::variants::ClusterInputs;

/// What a placement is to have on its clusters, by its newest snapshot and by the one that each of them is bound to.
pub(crate) struct Contents<'a> {
    state: &'a PlacementState,
    fleet: &'a FleetState,
    newest: Option<u64>,
    /// Clusters get the newest snapshot: it is not held, and not only compared.
    pub(crate) comes: bool,
    candidates: Option<Candidates>,
    objects: BTreeMap<(u64, Option<ClusterInputs>), Rc<SnapshotObjects<'a>>>,
    /// What one of them has and another lacks. The addresses only tell which ones.
    gone: BTreeMap<(*const SnapshotObjects<'a>, *const SnapshotObjects<'a>), BTreeSet<ObjectKey>>,
}

/// What one cluster is to have of a snapshot.
pub(crate) struct Selected<'a> {
    of_snapshot: Rc<SnapshotObjects<'a>>,
    /// What overrides remove.
    left_out: BTreeSet<ObjectKey>,
}

impl Selected<'_> {
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.of_snapshot.keys.contains(key) && !self.left_out.contains(key)
    }

    /// Tells whether objects of the snapshot are in a Namespace or of a definition.
    pub(crate) fn inhabits(&self, key: &ObjectKey) -> bool {
        if key.is_namespace() {
            return self.of_snapshot.namespaces.contains(&*key.name);
        }
        key.is_container() && self.of_snapshot.keys.iter().any(|object| object.is_inside(key))
    }
}

impl<'a> Contents<'a> {
    pub(crate) fn of(state: &'a PlacementState, fleet: &'a FleetState) -> Self {
        let newest = state.newest().map(|newest| newest.index);
        let payload = newest.and_then(|index| state.payloads.get(&index));
        let candidates = match payload {
            Some(payload) if !fleet.overrides.is_empty() => Some(candidates(fleet, &state.record, payload)),
            _ => None,
        };
        let held = state.record.held.as_ref().map(|held| &held.hash);
        let is_held = state.newest().is_some_and(|newest| held == Some(&newest.hash));
        let comes = !is_held && !only_reports(&state.record);
        Self { state, fleet, newest, comes, candidates, objects: BTreeMap::new(), gone: BTreeMap::new() }
    }

    /// Returns what a cluster is to have once its turn comes, unless runs leave it as it is.
    pub(crate) fn newest_on(&mut self, binding: &Binding) -> Option<Selected<'a>> {
        let (index, picked) = self.to_come(binding)?;
        Some(self.selected(index, &picked))
    }

    /// Returns the newest snapshot, and what it is made with for a cluster, unless runs leave that as it is.
    fn to_come(&self, binding: &Binding) -> Option<(u64, PickedOverrides)> {
        if self.state.record.ignores(binding) {
            return None;
        }
        let index = self.newest?;
        // Without the newest snapshot's payload its overrides are unknown: the present content of the cluster counts.
        let is_known = self.candidates.is_some() || self.fleet.overrides.is_empty();
        let picked = match self.state.snapshots.get(&index) {
            Some(of) if is_known => pick(self.fleet, of, self.candidates.as_ref(), &binding.cluster),
            _ => binding.overrides.clone(),
        };
        Some((index, picked))
    }

    pub(crate) fn held_on(&mut self, binding: &Binding) -> Option<Selected<'a>> {
        Some(self.selected(binding.snapshot?, &binding.overrides))
    }

    /// Returns what a cluster has by its snapshot and loses when its turn comes. What snapshots lack of each other is found once for all
    /// clusters. Envelopes are compared with envelopes, and their contents with contents.
    pub(crate) fn lost_on(&mut self, binding: &Binding) -> BTreeSet<ObjectKey> {
        let (Some(index), Some((newest, picked))) = (binding.snapshot, self.to_come(binding)) else {
            return BTreeSet::new();
        };
        let payloads = &self.state.payloads;
        let waits = (index, &binding.overrides) != (newest, &picked);
        if !self.comes || !waits || payloads.contains_key(&index) != payloads.contains_key(&newest) {
            return BTreeSet::new();
        }
        let held = self.selected(index, &binding.overrides);
        let newest = self.selected(newest, &picked);
        let has = &held.of_snapshot;
        let to_have = &newest.of_snapshot;
        let gone = self.gone.entry((Rc::as_ptr(has), Rc::as_ptr(to_have)));
        let gone = gone.or_insert_with(|| &has.keys - &to_have.keys);
        gone.union(&newest.left_out).filter(|key| held.has(key)).cloned().collect()
    }

    fn selected(&mut self, index: u64, picked: &PickedOverrides) -> Selected<'a> {
        let state = self.state;
        let inputs = picked.variant.as_ref();
        let of_snapshot = self.objects.entry((index, picked.variant.clone()));
        let of_snapshot = of_snapshot.or_insert_with(|| Rc::new(SnapshotObjects::of(state, index, inputs)));
        let left_out = left_out(ids_of(state, index, inputs), picked, |id| self.fleet.overrides.get(id));
        Selected { of_snapshot: Rc::clone(of_snapshot), left_out }
    }
}
