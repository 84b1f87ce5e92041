//! The hub: indexes of everything that placements read. Clusters, sets, bindings, scores, and all decisions.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use jiff::Timestamp;

use super::change::{self, Change, ClusterChange};
use super::member::OcmMember;
use super::{Key, predicate};
use crate::labels::Labels;
use model::api::ocm::{
    AddOnScoreStatus, DEFAULT_SET, GLOBAL_SET, ManagedClusterSelector, ManagedClusterSetSpec, ManagedTaintEffect,
    SET_LABEL, SelectorType,
};
use model::api::placement::LabelSelector;
use model::id::ClusterName;

/// A taint without its time. Equal taints are evaluated once for all clusters that have them.
pub(super) type TaintText = (String, String, ManagedTaintEffect);

#[derive(Clone, Debug)]
struct Set {
    spec: ManagedClusterSetSpec,
    members: Result<FixedBitSet, String>,
}

/// AddOnPlacementScores of one name.
#[derive(Clone, Debug, Default)]
struct Scores {
    objects: BTreeMap<ClusterName, AddOnScoreStatus>,
    /// Score by name, by slot; 0 where a cluster has none.
    values: BTreeMap<String, Vec<i32>>,
    until: Vec<Option<Timestamp>>,
}

impl Scores {
    fn place(&mut self, slot: usize, status: Option<&AddOnScoreStatus>, slots: usize) {
        // A score that the new object does not have must be removed.
        for values in self.values.values_mut() {
            values[slot] = 0;
        }
        self.until.resize(slots, None);
        self.until[slot] = status.and_then(|status| status.valid_until);
        for score in status.into_iter().flat_map(|status| &status.scores) {
            // If several entries have one name, the last one counts, as in the original.
            self.values.entry(score.name.clone()).or_insert_with(|| vec![0; slots])[slot] = score.value;
        }
    }
}

/// The resources that a placement can rank by, and their prioritizers.
pub(super) const RESOURCES: [(&str, &str); 2] =
    [("cpu", "ResourceAllocatableCPU"), ("memory", "ResourceAllocatableMemory")];

/// The decisions of one placement: its clusters, and names that the hub does not know or that occur twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HeldDecisions {
    slots: FixedBitSet,
    others: BTreeMap<ClusterName, u32>,
}

/// The data that placements read.
///
/// Changing, adding or removing one item updates the indexes; a cluster that is added or removed shifts slots and rebuilds
/// them.
#[derive(Clone, Debug)]
pub struct Hub {
    names: Vec<ClusterName>,
    members: Vec<OcmMember>,
    staying: FixedBitSet,
    labels: Labels,
    claims: Labels,
    taints: BTreeMap<TaintText, FixedBitSet>,
    /// By resource, by slot; NaN for clusters that are not ranked by it.
    allocatable: [Vec<f64>; RESOURCES.len()],
    sets: BTreeMap<String, Set>,
    bindings: BTreeMap<String, BTreeSet<String>>,
    scores: BTreeMap<String, Scores>,
    held: BTreeMap<Key, HeldDecisions>,
    /// The number of decisions that name a cluster, by slot, and by name for those the hub does not know or that occur twice.
    counts: Vec<u32>,
    other_counts: BTreeMap<ClusterName, u32>,
}

impl Default for Hub {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

impl Hub {
    /// Returns a hub of clusters with the sets that every hub has, without bindings, scores and decisions.
    pub fn new(clusters: BTreeMap<ClusterName, OcmMember>) -> Self {
        let (names, members) = clusters.into_iter().unzip();
        let mut hub = Self {
            names,
            members,
            staying: FixedBitSet::default(),
            labels: Labels::default(),
            claims: Labels::default(),
            taints: BTreeMap::new(),
            allocatable: Default::default(),
            sets: BTreeMap::new(),
            bindings: BTreeMap::new(),
            scores: BTreeMap::new(),
            held: BTreeMap::new(),
            counts: Vec::new(),
            other_counts: BTreeMap::new(),
        };
        hub.rebuild();
        for name in [DEFAULT_SET, GLOBAL_SET] {
            hub.set_set(name, None);
        }
        hub
    }

    /// Returns the clusters by slot, in order of name.
    pub fn names(&self) -> &[ClusterName] {
        &self.names
    }

    /// Returns a cluster by its slot.
    pub fn member(&self, slot: u32) -> &OcmMember {
        &self.members[slot as usize]
    }

    /// Returns the slot of a cluster.
    pub fn slot(&self, name: &str) -> Option<u32> {
        let slot = self.names.binary_search_by(|probe| probe.as_str().cmp(name)).ok()?;
        Some(u32::try_from(slot).expect("a hub has fewer than four billion clusters"))
    }

    /// Sets, replaces or (`None`) removes a cluster. Adding or removing one shifts the slots of others.
    pub fn set_cluster(&mut self, name: &ClusterName, member: Option<OcmMember>) -> Change {
        let position = self.names.binary_search(name);
        let before = position.ok().map(|slot| (self.members[slot].clone(), self.sets_of(slot)));
        match (position, member) {
            (Ok(slot), Some(member)) => self.replace(slot, member),
            (Err(slot), Some(member)) => {
                self.move_slots(|hub| {
                    hub.names.insert(slot, name.clone());
                    hub.members.insert(slot, member);
                });
            }
            (Ok(slot), None) => {
                self.move_slots(|hub| {
                    hub.names.remove(slot);
                    hub.members.remove(slot);
                });
            }
            (Err(_), None) => return Change::Nothing,
        }
        let after = self.names.binary_search(name).ok().map(|slot| (&self.members[slot], self.sets_of(slot)));
        match ClusterChange::between(before.as_ref().map(|(m, s)| (m, s)), after.as_ref().map(|(m, s)| (*m, s))) {
            Some(change) => Change::Cluster(change),
            None => Change::Nothing,
        }
    }

    /// Sets, replaces or removes a ManagedClusterSet. One that every hub has goes back to what it is there.
    pub fn set_set(&mut self, name: &str, spec: Option<ManagedClusterSetSpec>) -> Change {
        let spec = spec.or_else(|| on_every_hub(name));
        if self.sets.get(name).map(|set| &set.spec) == spec.as_ref() {
            return Change::Nothing;
        }
        match spec {
            Some(spec) => {
                let members = self.select_members(name, &spec);
                self.sets.insert(name.to_owned(), Set { spec, members });
            }
            None => drop(self.sets.remove(name)),
        }
        Change::Set(name.to_owned())
    }

    /// Binds a set to a namespace, or removes the binding. A binding counts while its set exists.
    pub fn set_binding(&mut self, namespace: &str, set: &str, bound: bool) -> Change {
        let sets = self.bindings.entry(namespace.to_owned()).or_default();
        let changed = if bound { sets.insert(set.to_owned()) } else { sets.remove(set) };
        if changed { Change::Binding { namespace: namespace.to_owned(), set: set.to_owned() } } else { Change::Nothing }
    }

    /// Sets, replaces or removes the AddOnPlacementScore of a name in the namespace of a cluster.
    pub fn set_score(&mut self, resource: &str, cluster: &ClusterName, status: Option<AddOnScoreStatus>) -> Change {
        let slots = self.names.len();
        let slot = self.slot(cluster.as_str());
        let scores = self.scores.entry(resource.to_owned()).or_default();
        if scores.objects.get(cluster) == status.as_ref() {
            return Change::Nothing;
        }
        let names = change::differing_scores(scores.objects.get(cluster), status.as_ref());
        // The object is kept without its cluster: the cluster may be added later.
        if let Some(slot) = slot {
            scores.place(slot as usize, status.as_ref(), slots);
        }
        match status {
            Some(status) => drop(scores.objects.insert(cluster.clone(), status)),
            None => drop(scores.objects.remove(cluster)),
        }
        Change::Score { resource: resource.to_owned(), cluster: cluster.clone(), names }
    }

    /// Sets the clusters in a placement's decision objects, with repetitions. Objects without a placement share the key with an
    /// empty name. This is no change: decisions of others do not cause an evaluation.
    pub fn set_decisions<'n>(&mut self, key: &Key, clusters: impl IntoIterator<Item = &'n str>) {
        let mut held = HeldDecisions { slots: self.no_clusters(), others: BTreeMap::new() };
        for name in clusters {
            match self.slot(name) {
                // `Balance` counts every occurrence of a cluster, and a bit holds only one.
                Some(slot) if !held.slots.put(slot as usize) => {}
                _ => *held.others.entry(ClusterName::from(name)).or_default() += 1,
            }
        }
        self.hold(key, held);
    }

    /// Sets a placement's clusters to those that an evaluation selected.
    pub fn set_selected(&mut self, key: &Key, selected: &FixedBitSet) {
        self.hold(key, HeldDecisions { slots: selected.clone(), others: BTreeMap::new() });
    }

    fn hold(&mut self, key: &Key, held: HeldDecisions) {
        let empty = held.slots.is_clear() && held.others.is_empty();
        let before = if empty { self.held.remove(key) } else { self.held.insert(key.clone(), held.clone()) };
        for slot in held.slots.ones() {
            self.counts[slot] += 1;
        }
        for (name, count) in held.others {
            *self.other_counts.entry(name).or_default() += count;
        }
        let Some(before) = before else { return };
        for slot in before.slots.ones() {
            self.counts[slot] -= 1;
        }
        for (name, count) in before.others {
            if let Some(total) = self.other_counts.get_mut(&name) {
                *total -= count;
                if *total == 0 {
                    self.other_counts.remove(&name);
                }
            }
        }
    }

    /// Returns a placement's clusters; `None` if it has none.
    pub fn held(&self, key: &Key) -> Option<&FixedBitSet> {
        self.held.get(key).map(|held| &held.slots)
    }

    /// Returns the number of other placements' decisions that name each cluster, by slot, and the largest such count over all
    /// names.
    pub(super) fn counts_of_others(&self, key: &Key) -> (Vec<u32>, u32) {
        let mut counts = self.counts.clone();
        let mut own_others = None;
        if let Some(held) = self.held.get(key) {
            held.slots.ones().for_each(|slot| counts[slot] -= 1);
            own_others = Some(&held.others);
        }
        let mut largest = 0;
        for (name, total) in &self.other_counts {
            let count = total - own_others.and_then(|own| own.get(name)).unwrap_or(&0);
            match self.slot(name.as_str()) {
                Some(slot) => counts[slot as usize] += count,
                None => largest = largest.max(count),
            }
        }
        let largest = counts.iter().copied().max().unwrap_or(0).max(largest);
        (counts, largest)
    }

    /// Returns an empty set with a place for each cluster.
    pub(super) fn no_clusters(&self) -> FixedBitSet {
        FixedBitSet::with_capacity(self.names.len())
    }

    pub(super) fn staying(&self) -> &FixedBitSet {
        &self.staying
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(super) fn claims(&self) -> &Labels {
        &self.claims
    }

    pub(super) fn taints(&self) -> &BTreeMap<TaintText, FixedBitSet> {
        &self.taints
    }

    /// Returns the allocatable amount of a resource (of `RESOURCES`), by slot; NaN for clusters without a rank by it.
    pub(super) fn allocatable(&self, resource: usize) -> &[f64] {
        &self.allocatable[resource]
    }

    /// Returns the values of an add-on's score by slot, and until when each object is valid; `None` if no cluster has the
    /// score.
    #[allow(clippy::type_complexity, reason = "two columns, each of which may be absent")]
    pub(super) fn score_columns(&self, resource: &str, score: &str) -> Option<(Option<&[i32]>, &[Option<Timestamp>])> {
        let scores = self.scores.get(resource)?;
        Some((scores.values.get(score).map(Vec::as_slice), &scores.until))
    }

    /// Returns the AddOnPlacementScores in the namespace of a cluster, by name.
    pub(super) fn score_objects(&self, cluster: &ClusterName) -> impl Iterator<Item = (&str, &AddOnScoreStatus)> {
        self.scores.iter().filter_map(|(name, scores)| Some((name.as_str(), scores.objects.get(cluster)?)))
    }

    /// Returns the existing sets bound to a namespace, by name.
    pub fn bound_sets(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let bound = self.bindings.get(namespace).into_iter().flatten();
        bound.map(String::as_str).filter(|set| self.sets.contains_key(*set))
    }

    /// Tells whether a set is bound to a namespace, whether it exists or not.
    pub(super) fn is_bound(&self, namespace: &str, set: &str) -> bool {
        self.bindings.get(namespace).is_some_and(|sets| sets.contains(set))
    }

    /// Returns the clusters of a set, or why its selector cannot be read; `None` where there is no such set.
    pub(super) fn members_of(&self, set: &str) -> Option<Result<&FixedBitSet, &String>> {
        self.sets.get(set).map(|set| set.members.as_ref())
    }

    /// Returns the sets that have a cluster.
    pub(super) fn sets_of(&self, slot: usize) -> BTreeSet<String> {
        let having =
            self.sets.iter().filter(|(_, set)| set.members.as_ref().is_ok_and(|members| members.contains(slot)));
        having.map(|(name, _)| name.clone()).collect()
    }

    fn replace(&mut self, slot: usize, member: OcmMember) {
        let old = std::mem::replace(&mut self.members[slot], member);
        let new = &self.members[slot];
        let relabelled = old.labels != new.labels;
        if relabelled {
            self.labels.set(slot, &new.labels);
        }
        if old.claims != new.claims {
            self.claims.set(slot, &new.claims);
        }
        if old.taints != new.taints {
            // Removed from all of them first: `place` adds the cluster to the right ones.
            self.taints.retain(|_, clusters| {
                clusters.remove(slot);
                !clusters.is_clear()
            });
        }
        self.place(slot);
        if relabelled {
            self.regroup(slot);
        }
    }

    /// Writes a cluster's taints and columns at its slot.
    fn place(&mut self, slot: usize) {
        let slots = self.names.len();
        let member = &self.members[slot];
        self.staying.set(slot, !member.deleting);
        for (column, (resource, _)) in self.allocatable.iter_mut().zip(RESOURCES) {
            column[slot] = member.ranked_resource(resource).unwrap_or(f64::NAN);
        }
        for taint in &member.taints {
            let text = (taint.key.clone(), taint.value.clone(), taint.effect);
            self.taints.entry(text).or_insert_with(|| FixedBitSet::with_capacity(slots)).insert(slot);
        }
    }

    /// Updates the sets of a relabelled cluster.
    fn regroup(&mut self, slot: usize) {
        let labels = &self.members[slot].labels;
        for (name, set) in &mut self.sets {
            if let Ok(members) = &mut set.members {
                members.set(slot, is_member(name, &set.spec, labels));
            }
        }
    }

    /// Changes the list of clusters, and moves the decisions to the new slots.
    fn move_slots(&mut self, change: impl FnOnce(&mut Self)) {
        let held = std::mem::take(&mut self.held);
        // Decisions are stored by slot, so they are converted to names before slots shift.
        let decisions: Vec<(Key, Vec<ClusterName>)> =
            held.iter().map(|(key, held)| (key.clone(), self.names_of(held))).collect();
        change(self);
        self.rebuild();
        for (key, names) in decisions {
            self.set_decisions(&key, names.iter().map(ClusterName::as_str));
        }
    }

    /// Returns the names in decisions, each as often as it is there.
    fn names_of(&self, held: &HeldDecisions) -> Vec<ClusterName> {
        let mut names: Vec<ClusterName> = held.slots.ones().map(|slot| self.names[slot].clone()).collect();
        names.extend(held.others.iter().flat_map(|(name, count)| (0..*count).map(|_| name.clone())));
        names
    }

    fn rebuild(&mut self) {
        let slots = self.names.len();
        self.staying = FixedBitSet::with_capacity(slots);
        self.labels = Labels::new(slots);
        self.claims = Labels::new(slots);
        self.taints.clear();
        self.allocatable = std::array::from_fn(|_| vec![f64::NAN; slots]);
        self.counts = vec![0; slots];
        self.other_counts = BTreeMap::new();
        for slot in 0..slots {
            self.labels.set(slot, &self.members[slot].labels);
            self.claims.set(slot, &self.members[slot].claims);
            self.place(slot);
        }
        let specs: Vec<(String, ManagedClusterSetSpec)> =
            self.sets.iter().map(|(name, set)| (name.clone(), set.spec.clone())).collect();
        for (name, spec) in specs {
            let members = self.select_members(&name, &spec);
            self.sets.insert(name, Set { spec, members });
        }
        for scores in self.scores.values_mut() {
            scores.values = BTreeMap::new();
            scores.until = vec![None; slots];
            for (cluster, status) in std::mem::take(&mut scores.objects) {
                if let Ok(slot) = self.names.binary_search(&cluster) {
                    scores.place(slot, Some(&status), slots);
                }
                scores.objects.insert(cluster, status);
            }
        }
    }

    fn select_members(&self, name: &str, spec: &ManagedClusterSetSpec) -> Result<FixedBitSet, String> {
        if let Some(selector) = &spec.cluster_selector.label_selector
            && let Some(message) = predicate::selector_error(selector)
        {
            return Err(message);
        }
        let mut members = self.no_clusters();
        members.extend((0..self.names.len()).filter(|&slot| is_member(name, spec, &self.members[slot].labels)));
        Ok(members)
    }
}

/// Returns the set of this name that a hub has though nobody wrote it.
///
/// Source: OCM, whose hub makes both of these sets.
fn on_every_hub(name: &str) -> Option<ManagedClusterSetSpec> {
    let (selector_type, label_selector) = match name {
        DEFAULT_SET => (SelectorType::ExclusiveClusterSetLabel, None),
        GLOBAL_SET => (SelectorType::LabelSelector, Some(LabelSelector::default())),
        _ => return None,
    };
    let cluster_selector = ManagedClusterSelector { selector_type, label_selector };
    Some(ManagedClusterSetSpec { cluster_selector, managed_namespaces: Vec::new() })
}

/// Tells whether labels match a set.
fn is_member(set: &str, spec: &ManagedClusterSetSpec, labels: &BTreeMap<String, String>) -> bool {
    let selector = &spec.cluster_selector;
    match selector.selector_type {
        SelectorType::ExclusiveClusterSetLabel => labels.get(SET_LABEL).is_some_and(|value| value == set),
        SelectorType::LabelSelector => {
            selector.label_selector.as_ref().is_some_and(|selector| selector.matches(labels))
        }
    }
}
