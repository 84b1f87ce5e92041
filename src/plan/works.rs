//! The final objects of each cluster, and objects that two placements want.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use decide::overrides::Objects;
use decide::render::{candidates, render};
use decide::snapshot::Candidates;
use decide::state::{FleetState, Payload, PlacementState};
use decide::variants::{by_inputs, pick};
use model::api::placement::ApplyStrategyType;
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::overrides::PickedOverrides;
use model::plan::{VariantPlan, WorkPlan};
use model::records::{BindingState, ResourceSnapshot};
use model::variants::ClusterInputs;
use model::work::Desired;

/// The final objects of one cluster.
#[derive(Clone, Default)]
pub(super) struct Target {
    /// The objects.
    pub keys: Arc<BTreeSet<ObjectKey>>,
    /// Why rendering fails; the cluster then keeps its objects.
    pub error: Option<String>,
    /// What they are made with.
    pub overrides: PickedOverrides,
    manifests: Arc<[Arc<Value>]>,
}

impl Target {
    fn new(objects: &[Desired]) -> Self {
        let mut ordered: Vec<&Desired> = objects.iter().collect();
        ordered.sort_by_key(|object| object.wave);
        Self {
            keys: Arc::new(objects.iter().map(|object| ObjectKey::clone(&object.key)).collect()),
            manifests: ordered.into_iter().map(|object| Arc::clone(&object.object)).collect(),
            ..Self::default()
        }
    }
}

/// A placement once its newest snapshot is everywhere: it makes clusters' objects of it.
pub(super) struct FinalState<'a> {
    /// The newest snapshot's objects, as clusters without overrides hold them.
    pub payload: Arc<Payload>,
    snapshot: Arc<ResourceSnapshot>,
    candidates: Candidates,
    fleet: &'a FleetState,
}

impl<'a> FinalState<'a> {
    /// Looks for the newest snapshot and the overrides that concern it; `None` where there is none.
    pub(crate) fn of(state: &PlacementState, fleet: &'a FleetState) -> Option<Self> {
        let snapshot = Arc::clone(state.newest()?);
        let payload = Arc::clone(state.payloads.get(&snapshot.index)?);
        Some(Self { candidates: candidates(fleet, &state.record, &payload), snapshot, payload, fleet })
    }

    /// Picks the overrides and the variant of a cluster.
    pub(crate) fn picked(&self, cluster: &ClusterName) -> PickedOverrides {
        pick(self.fleet, &self.snapshot, Some(&self.candidates), cluster)
    }

    /// Renders a cluster's objects with its picked overrides.
    pub(crate) fn objects(&self, cluster: &ClusterName, picked: &PickedOverrides) -> Objects {
        render(self.fleet, &self.payload, cluster, picked)
    }
}

/// Makes the final objects of clusters; those that get the same share them.
struct Targets<'a> {
    last: FinalState<'a>,
    /// What clusters get without overrides and variant.
    common: Target,
    /// What clusters get without overrides, by variant.
    of_variants: BTreeMap<ClusterInputs, Target>,
}

impl<'a> Targets<'a> {
    fn new(last: FinalState<'a>) -> Self {
        Self { common: Target::new(&last.payload.desired), last, of_variants: BTreeMap::new() }
    }

    fn of(&mut self, cluster: &ClusterName) -> Target {
        let overrides = self.last.picked(cluster);
        let target = match self.last.objects(cluster, &overrides) {
            Ok(objects) if Arc::ptr_eq(&objects, &self.last.payload.desired) => self.common.clone(),
            Ok(objects) => match &overrides.variant {
                Some(inputs) if !overrides.has_overrides() => {
                    self.of_variants.entry(inputs.clone()).or_insert_with(|| Target::new(&objects)).clone()
                }
                _ => Target::new(&objects),
            },
            Err(error) => Target { error: Some(error), ..Target::default() },
        };
        Target { overrides, ..target }
    }
}

/// A placement after its decision.
pub(super) struct Projection<'a> {
    /// The placement.
    pub state: &'a PlacementState,
    /// The fleet of the decision.
    pub fleet: &'a FleetState,
    /// Its picked clusters with their final objects.
    pub clusters: BTreeMap<ClusterName, Target>,
    /// It writes and prunes nothing.
    pub reports_only: bool,
}

impl<'a> Projection<'a> {
    /// Looks at a placement's end: every picked cluster at the newest snapshot, whatever moves it there, except those that its
    /// runs leave as they are.
    pub(crate) fn new(state: &'a PlacementState, fleet: &'a FleetState) -> Self {
        let strategy = state.record.spec.strategy.apply_strategy.as_ref();
        let mut targets = FinalState::of(state, fleet).map(Targets::new);
        let mut clusters = BTreeMap::new();
        for cluster in picked(state) {
            let target = if state.record.ignored.contains(cluster) {
                let held = state.works.get(cluster).map(|work| work.inventory.seen().iter().cloned().collect());
                Target { keys: Arc::new(held.unwrap_or_default()), ..Target::default() }
            } else if let Some(targets) = &mut targets {
                targets.of(cluster)
            } else {
                let error = "the payload of its newest snapshot cannot be read; it keeps what it has".to_owned();
                Target { error: Some(error), ..Target::default() }
            };
            clusters.insert(cluster.clone(), target);
        }
        Self {
            state,
            fleet,
            clusters,
            reports_only: strategy.is_some_and(|s| s.type_ == ApplyStrategyType::ReportDiff),
        }
    }

    /// Returns the variants of the clusters that get the newest snapshot, by their values; none where it is not rendered for clusters.
    pub(crate) fn variants(&self) -> Vec<VariantPlan> {
        let overrides = self.moved().map(|(cluster, target)| (cluster, &target.overrides));
        let mut variants = Vec::new();
        for (values, clusters) in by_inputs(overrides) {
            let clusters = clusters.into_iter().cloned().collect();
            variants.push(VariantPlan { values: values.clone(), clusters });
        }
        variants
    }

    /// Returns the clusters that get the newest snapshot: all but those that the strategy leaves as they are.
    fn moved(&self) -> impl Iterator<Item = (&ClusterName, &Target)> {
        self.clusters.iter().filter(|(cluster, _)| !self.state.record.ignored.contains(*cluster))
    }

    /// Returns the clusters that keep the placement and get other overrides or another variant than before.
    pub(crate) fn overridden_otherwise(&self, before: &PlacementState, fleet: &FleetState) -> BTreeSet<ClusterName> {
        let Some(last) = FinalState::of(before, fleet) else { return BTreeSet::new() };
        let had: BTreeSet<&ClusterName> =
            picked(before).filter(|cluster| before.works.contains_key(*cluster)).collect();
        let kept = self.moved().filter(|(cluster, _)| had.contains(cluster));
        let other = kept.filter(|(cluster, target)| target.overrides != last.picked(cluster));
        other.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// Tells whether a cluster keeps an object.
    pub(crate) fn keeps(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        self.clusters.get(cluster).is_some_and(|target| target.error.is_some() || target.keys.contains(key))
    }

    /// Returns the works of the clusters that get the newest snapshot; one that wants what an earlier placement has there says so.
    pub(crate) fn works(&self, projections: &Projections<'_>) -> Vec<WorkPlan> {
        let works = self.moved().map(|(cluster, target)| WorkPlan {
            cluster_name: cluster.clone(),
            manifests: Arc::clone(&target.manifests),
            error: target.error.clone().or_else(|| projections.clash(self, cluster, target)),
        });
        works.collect()
    }
}

impl<'a> Projection<'a> {
    /// Orders the placements that want an object on a cluster, as members do: the lowest has it.
    fn rank(&self, cluster: &ClusterName, key: &ObjectKey) -> (bool, bool, &'a PlacementKey) {
        let record = &self.state.record;
        let holds = self.state.works.get(cluster).is_some_and(|work| work.inventory.seen().contains(key));
        (self.fleet.tenant_of(record).is_some(), !holds, &record.key)
    }
}

/// Returns the clusters of a placement.
pub(super) fn picked(state: &PlacementState) -> impl Iterator<Item = &ClusterName> {
    state.bindings().filter(|b| !b.deleting && b.state != BindingState::Unscheduled).map(|b| &b.cluster)
}

/// All placements together.
pub(super) struct Projections<'a> {
    /// The placements, in order of their keys.
    pub all: Vec<Projection<'a>>,
    /// Objects that more than one placement places, on whichever clusters: positions in `all`, in order.
    shared: BTreeMap<ObjectKey, Vec<usize>>,
}

impl<'a> Projections<'a> {
    /// Finds what placements have in common.
    pub(crate) fn new(all: Vec<Projection<'a>>) -> Self {
        let mut holders: BTreeMap<&ObjectKey, Vec<usize>> = BTreeMap::new();
        for (position, projection) in all.iter().enumerate().filter(|(_, projection)| !projection.reports_only) {
            let mut last: Option<&Arc<BTreeSet<ObjectKey>>> = None;
            for target in projection.clusters.values() {
                // Clusters without overrides share one set: a thousand of them cost as much as one.
                if last.replace(&target.keys).is_some_and(|seen| Arc::ptr_eq(seen, &target.keys)) {
                    continue;
                }
                for key in target.keys.iter() {
                    let positions = holders.entry(key).or_default();
                    // Positions only grow, so if the placement is present it is the last one.
                    if positions.last() != Some(&position) {
                        positions.push(position);
                    }
                }
            }
        }
        let shared = holders.into_iter().filter(|(_, positions)| positions.len() > 1);
        let shared = shared.map(|(key, positions)| (key.clone(), positions)).collect();
        Self { all, shared }
    }

    /// Returns another placement that places an object on a cluster, the first by key.
    pub(crate) fn other_holder(
        &self,
        of: &Projection<'_>,
        cluster: &ClusterName,
        key: &ObjectKey,
    ) -> Option<&Projection<'a>> {
        // An object that one placement drops and another takes over is no shared one, so all are asked.
        self.all.iter().find(|projection| {
            !projection.reports_only
                && projection.state.record.key != of.state.record.key
                && projection.clusters.get(cluster).is_some_and(|target| target.keys.contains(key))
        })
    }

    /// Tells whether a key is a Namespace or a definition in which another placement will have objects on a cluster: then it is not deleted.
    pub(crate) fn is_inhabited(&self, of: &Projection<'_>, cluster: &ClusterName, key: &ObjectKey) -> bool {
        if !key.is_container() {
            return false;
        }
        let others = self.all.iter().filter(|other| other.state.record.key != of.state.record.key);
        let writing = others.filter(|other| !other.reports_only);
        let mut targets = writing.filter_map(|other| other.clusters.get(cluster));
        targets.any(|target| target.keys.iter().any(|other| other.is_inside(key)))
    }

    /// Says what another placement has on a cluster.
    fn clash(&self, projection: &Projection<'_>, cluster: &ClusterName, target: &Target) -> Option<String> {
        if self.shared.is_empty() || projection.reports_only {
            return None;
        }
        let mut clashes = Vec::new();
        for (key, positions) in self.shared.iter().filter(|(key, _)| target.keys.contains(*key)) {
            let all = positions.iter().map(|&position| &self.all[position]);
            let holding = all.filter(|other| other.clusters.get(cluster).is_some_and(|t| t.keys.contains(key)));
            let Some(first) = holding.map(|other| other.rank(cluster, key)).min() else { continue };
            // Members leave the object to the lowest rank, whichever order comes first.
            if first < projection.rank(cluster, key) {
                clashes.push((key, first.2));
            }
        }
        let (key, holder) = clashes.first()?;
        let more = match clashes.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more of its objects are placed by others)"),
        };
        Some(format!(
            "{key} is placed there by {} {holder}{more}; an object of a cluster belongs to one placement, narrow one of them",
            holder.kind()
        ))
    }
}
