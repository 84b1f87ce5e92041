//! The report about a pull request: the plan of its merge, the differences of objects, and the predicted duration. Pure.

mod pairs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use similar::TextDiff;

use super::simulate::scenario::{Scenario, simulate};
use super::stops::stops;
use super::works::{FinalState, picked};
use super::{Baseline, Planned};
use decide::state::{FleetState, Payload, PlacementState};
use model::folder::holds;
use model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use model::manifest::InputError;
use model::names::first_of;
use model::plan::{PlacementPlan, Plan, Resource};
use model::tree::Tree;
use model::work::Desired;
use model::yaml;
use pairs::{Changed, Pair, by_key, changed, key_of, own_changes, pairs};
use views::pull_request::{ObjectChange, ObjectDiff, OverrideEffect, PullReport, Timeline, concerned, is_changed};
use views::redact::{MaskKey, masked};
use views::simulation::APPROVED_AFTER;
use views::simulation::gantt::{gantt, shows_work};

/// A pull request with the tree of its merge.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The accepted commit that it was merged with.
    pub base: CommitId,
    /// Its head commit.
    pub head: CommitId,
    /// The tree after the merge. Its commit is the head: the merge commit does not exist yet.
    pub tree: Arc<Tree>,
    /// Paths that both sides changed differently; the tree has the head's file.
    pub conflicts: Vec<String>,
}

/// Context lines around a difference.
const CONTEXT_LINES: usize = 3;
/// Differences that are printed, of all placements together; the other objects are only named.
const DIFFS_MAX: usize = 200;
/// The largest object, in bytes of YAML, whose difference is printed.
const DIFF_BYTES_MAX: usize = 100_000;
/// Clusters of one placement whose objects are rendered for the effects of overrides.
const OVERRIDDEN_CLUSTERS_MAX: usize = 500;
/// Moves of clusters that are simulated: more would take too long for a comment.
const TIMELINE_MOVES_MAX: usize = 1_000;
/// Characters of a chart that every host renders.
///
/// Source: Gitea, `MERMAID_MAX_SOURCE_CHARACTERS`.
const CHART_CHARS_MAX: usize = 50_000;
/// Names in one note.
const NAMED_MAX: usize = 10;

/// How much of a change is shown.
#[derive(Clone, Debug)]
pub struct Showing<'a> {
    /// The differences of each object, not only their names.
    pub diffs: bool,
    /// The key of markers for hidden values.
    pub key: &'a MaskKey,
    /// The folder of the source that the pull request is of, where there are several: objects that stand elsewhere are only named, because
    /// its readers need not be readers of the others.
    pub only: Option<&'a str>,
}

/// Returns what there is to say about a pull request, from where the fleet stands. Nothing of it holds a value that must not be
/// read; what people wrote is as they wrote it.
pub fn pull_report(baseline: &Baseline, candidate: &Candidate, showing: &Showing<'_>, now: Timestamp) -> PullReport {
    let planned = Planned::of(baseline, &candidate.tree, now);
    let plan = planned.plan(Some(baseline));
    let changed: Vec<&PlacementPlan> = plan.placements.iter().filter(|placement| is_changed(placement)).collect();
    let mut report = PullReport {
        base: Some(candidate.base.clone()),
        head: Some(candidate.head.clone()),
        conflicts: candidate.conflicts.clone(),
        ..PullReport::default()
    };
    report.stops = stopped_by(baseline, &planned);
    let shown = showing.only.map(|folder| objects_in(folder, [baseline.tree(), &candidate.tree]));
    let differences = Differences { diffs: showing.diffs, mask: Some(showing.key), shown, left: DIFFS_MAX };
    (report.objects, report.overrides) = differences.of(baseline, &planned, &plan);
    report.notes = notes(baseline, &candidate.tree, &planned.fleet, &changed);
    report.timeline = timeline(baseline.tree(), candidate, &changed);
    report.plan = plan;
    // What was odd before is nobody's news; lines move.
    let known: BTreeSet<InputError> = baseline.warnings().into_iter().map(without_line).collect();
    report.plan.warnings.retain(|warning| !known.contains(&without_line(warning.clone())));
    report
}

/// Returns the plan of a head as [`super::plan_from`] does, and the differences of objects that it makes, with secret values masked
/// where there is a key for their markers.
pub fn plan_with_differences(
    baseline: &Baseline,
    head: &Arc<Tree>,
    mask: Option<&MaskKey>,
    now: Timestamp,
) -> (Plan, Vec<ObjectDiff>, Vec<OverrideEffect>) {
    let planned = Planned::of(baseline, head, now);
    let plan = planned.plan(Some(baseline));
    let (objects, overrides) =
        Differences { diffs: true, mask, shown: None, left: DIFFS_MAX }.of(baseline, &planned, &plan);
    (plan, objects, overrides)
}

/// Returns the objects that stand in a folder of these trees and nowhere else in them.
fn objects_in(folder: &str, trees: [&Tree; 2]) -> BTreeSet<ObjectKey> {
    let manifests = trees.into_iter().flat_map(|tree| tree.manifests.iter());
    let (own, other): (Vec<_>, Vec<_>) = manifests.partition(|manifest| holds(folder, &manifest.origin.path));
    let others: BTreeSet<ObjectKey> = other.into_iter().map(|manifest| manifest.id.key()).collect();
    own.into_iter().map(|manifest| manifest.id.key()).filter(|key| !others.contains(key)).collect()
}

/// Returns the running rollouts that a head stops, a sentence each.
pub fn stopped(baseline: &Baseline, head: &Arc<Tree>, now: Timestamp) -> Vec<String> {
    stopped_by(baseline, &Planned::of(baseline, head, now))
}

fn stopped_by(baseline: &Baseline, planned: &Planned) -> Vec<String> {
    let mut stopped = Vec::new();
    for after in &planned.after {
        let key = &after.record.key;
        // What has another name in the head is told with that one.
        if planned.renamed.values().any(|from| from == key) {
            continue;
        }
        if let Some(before) = planned.before(baseline, key) {
            stopped.extend(stops(before, after));
        }
    }
    stopped
}

fn without_line(warning: InputError) -> InputError {
    InputError { line: 0, ..warning }
}

/// Returns the newest snapshot's objects; `None` if they cannot be read.
fn newest(state: Option<&PlacementState>) -> Option<Arc<Payload>> {
    let Some(state) = state.filter(|state| !state.record.removed) else { return Some(Arc::default()) };
    let Some(newest) = state.newest() else { return Some(Arc::default()) };
    state.payloads.get(&newest.index).cloned()
}

/// What placements take over from others.
struct Handed {
    /// The object as it was, and the clusters where it changes hands, by the placement that takes it over.
    taken: BTreeMap<(PlacementKey, ObjectKey), (Desired, usize)>,
}

impl Handed {
    fn of(baseline: &Baseline, plan: &Plan) -> Self {
        let mut taken: BTreeMap<(PlacementKey, ObjectKey), (Desired, usize)> = BTreeMap::new();
        for giving in &plan.placements {
            let Some(held) = newest(baseline.placements.get(&giving.key())) else { continue };
            let held: BTreeMap<&ObjectKey, &Desired> = held.desired.iter().map(|one| (&*one.key, one)).collect();
            for handed in &giving.hands_over {
                for key in handed.resources.iter().map(|resource| resource.0.key()) {
                    let Some(object) = held.get(&key) else { continue };
                    let known = taken.entry((handed.to.clone(), key)).or_insert_with(|| (Desired::clone(object), 0));
                    known.1 += 1;
                }
            }
        }
        Self { taken }
    }

    /// Returns an object as it was, if all clusters of a placement had it of another.
    fn everywhere(&self, plan: &PlacementPlan, key: &ObjectKey) -> Option<&Desired> {
        let (object, clusters) = self.taken.get(&(plan.key(), key.clone()))?;
        (*clusters == plan.works.len()).then_some(object)
    }
}

/// Prints differences up to the limit.
struct Differences<'a> {
    /// Whether more than names is printed.
    diffs: bool,
    mask: Option<&'a MaskKey>,
    /// The only objects whose content is printed; absent: all.
    shown: Option<BTreeSet<ObjectKey>>,
    left: usize,
}

impl Differences<'_> {
    /// Returns what changes of the objects of each placement that changes, and on some clusters by overrides.
    fn of(mut self, baseline: &Baseline, planned: &Planned, plan: &Plan) -> (Vec<ObjectDiff>, Vec<OverrideEffect>) {
        let mut objects = Vec::new();
        let mut overrides = Vec::new();
        let handed = Handed::of(baseline, plan);
        for placement in plan.placements.iter().filter(|placement| is_changed(placement)) {
            let key = placement.key();
            let Some(after) = planned.after.iter().find(|state| state.record.key == key) else { continue };
            let before = planned.before(baseline, &key);
            let found = self.objects(before, after, placement, &handed);
            let before = before.map(|state| (state, &baseline.fleet));
            overrides.extend(self.overrides(before, (after, &planned.fleet), placement, &found));
            objects.extend(found);
        }
        (objects, overrides)
    }

    /// Returns the changed objects, by identity.
    fn objects(
        &mut self,
        before: Option<&PlacementState>,
        after: &PlacementState,
        plan: &PlacementPlan,
        handed: &Handed,
    ) -> Vec<ObjectDiff> {
        let key = &after.record.key;
        let (Some(old), Some(new)) = (newest(before), newest(Some(after))) else { return names(key, plan) };
        // A placement with changes only in its clusters has the same payload: nothing is compared.
        if Arc::ptr_eq(&old, &new) {
            return Vec::new();
        }
        let mut old = by_key(&old.desired);
        let new = by_key(&new.desired);
        // What changes hands is deleted nowhere; it is compared with what its new placement makes of it.
        old.retain(|one, _| new.contains_key(one) || !plan.only_changes_hands(one));
        for one in new.keys().filter(|one| !old.contains_key(*one)).cloned().collect::<Vec<_>>() {
            if let Some(held) = handed.everywhere(plan, &one) {
                old.insert(one, held.clone());
            }
        }
        let keys: BTreeSet<&Arc<ObjectKey>> = old.keys().chain(new.keys()).collect();
        let mut found = Vec::new();
        for one in keys {
            let (change, id) = match (old.get(one), new.get(one)) {
                (None, Some(new)) => (ObjectChange::Added, &new.id),
                (Some(old), None) => (ObjectChange::Deleted, &old.id),
                (Some(old), Some(new)) if old.digest != new.digest || old.id != new.id => {
                    (ObjectChange::Changed, &new.id)
                }
                _ => continue,
            };
            let text = self.text(old.get(one), new.get(one));
            found.push(ObjectDiff { placement: key.clone(), id: id.clone(), change, text });
        }
        found
    }

    /// Returns what a change does on clusters that overrides or values make otherwise, equal clusters together: what a cluster holds
    /// against what it will hold, and of a cluster that gets the placement what it gets against what most get.
    fn overrides(
        &mut self,
        before: Option<(&PlacementState, &FleetState)>,
        (after, fleet): (&PlacementState, &FleetState),
        plan: &PlacementPlan,
        objects: &[ObjectDiff],
    ) -> Vec<OverrideEffect> {
        if after.record.removed {
            return Vec::new();
        }
        let Some(last) = FinalState::of(after, fleet) else { return Vec::new() };
        let mut edited: BTreeSet<ObjectKey> = objects.iter().map(|object| object.id.key()).collect();
        // Also those that differ only for some clusters.
        edited.extend(plan.changes.iter().flat_map(|changes| &changes.resources.changed).map(|one| one.0.key()));

        let first = before.and_then(|(state, fleet)| FinalState::of(state, fleet));
        let had: BTreeSet<&ClusterName> = before.into_iter().flat_map(|(state, _)| picked(state)).collect();

        let common = &last.payload.desired;
        let mut groups: BTreeMap<Vec<Changed>, Group> = BTreeMap::new();
        for work in plan.works.iter().take(OVERRIDDEN_CLUSTERS_MAX) {
            let cluster = &work.cluster_name;
            let Ok(made) = last.objects(cluster, &last.picked(cluster)) else { continue };
            let held = match &first {
                Some(first) if had.contains(cluster) => first.objects(cluster, &first.picked(cluster)).ok(),
                _ => None,
            };
            let pairs = if let (Some(first), Some(held)) = (&first, &held) {
                own_changes((&first.payload.desired, held), (common, &made))
            } else {
                let pairs = pairs(common, &made);
                let is_edited = pairs.iter().filter_map(key_of).any(|key| edited.contains(&**key));
                if is_edited || is_moved(plan, cluster) { pairs } else { Vec::new() }
            };
            if !pairs.is_empty() {
                let same = pairs.iter().filter_map(changed).collect();
                groups.entry(same).or_insert_with(|| (Vec::new(), pairs)).0.push(cluster.clone());
            }
        }
        groups.into_values().map(|group| self.effect(&after.record.key, group)).collect()
    }

    /// Prints what a group of clusters gets; without text if one of the differences is over the limit.
    fn effect(&mut self, placement: &PlacementKey, (clusters, pairs): Group) -> OverrideEffect {
        let mut text = Some(String::new());
        for (old, new) in &pairs {
            let one = self.text(old.as_ref(), new.as_ref());
            let id = old.as_ref().or(new.as_ref()).map(|one| one.id.to_string()).unwrap_or_default();
            text = text.zip(one).map(|(text, one)| format!("{text} {id}\n{one}"));
        }
        OverrideEffect { placement: placement.clone(), clusters, text }
    }

    /// Returns the diff of two objects, with secret values masked in both.
    fn text(&mut self, old: Option<&Desired>, new: Option<&Desired>) -> Option<String> {
        if !self.diffs {
            return None;
        }
        if let Some(shown) = &self.shown
            && old.into_iter().chain(new).any(|desired| !shown.contains(&*desired.key))
        {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let old = self.yaml(old);
        let new = self.yaml(new);
        if old.len().max(new.len()) > DIFF_BYTES_MAX {
            return None;
        }
        let diff = TextDiff::from_lines(&old, &new);
        // Without hunk headers: the line numbers belong to no file.
        let mut unified = diff.unified_diff();
        let mut text = String::new();
        for (position, hunk) in unified.context_radius(CONTEXT_LINES).iter_hunks().enumerate() {
            text.push_str(if position == 0 { "" } else { " …\n" });
            for change in hunk.iter_changes() {
                write!(text, "{}{change}", change.tag()).expect("a String takes it");
            }
        }
        Some(text)
    }

    fn yaml(&self, desired: Option<&Desired>) -> String {
        let Some(desired) = desired else { return String::new() };
        match self.mask {
            Some(key) => yaml::to_string(&masked(&desired.object, key)),
            None => yaml::to_string(&desired.object),
        }
    }
}

/// Tells whether a cluster gets the placement, or other overrides of it than before.
fn is_moved(plan: &PlacementPlan, cluster: &ClusterName) -> bool {
    let Some(changes) = &plan.changes else { return false };
    changes.overridden.contains(cluster) || changes.clusters.gained.contains(cluster)
}

/// Clusters with the same objects, and those objects.
type Group = (Vec<ClusterName>, Vec<Pair>);

/// Names the changed objects in the plan, if the objects themselves cannot be read.
fn names(key: &PlacementKey, plan: &PlacementPlan) -> Vec<ObjectDiff> {
    let Some(changes) = &plan.changes else { return Vec::new() };
    let kinds = [
        (ObjectChange::Added, &changes.resources.added),
        (ObjectChange::Changed, &changes.resources.changed),
        (ObjectChange::Deleted, &changes.resources.removed),
    ];
    let mut names = Vec::new();
    for (change, resources) in kinds {
        for Resource(id) in resources {
            names.push(ObjectDiff { placement: key.clone(), id: id.clone(), change, text: None });
        }
    }
    names
}

/// Returns what else is worth knowing before a merge.
fn notes(baseline: &Baseline, head: &Tree, fleet: &FleetState, changed: &[&PlacementPlan]) -> Vec<String> {
    let base = baseline.tree();
    let mut notes = Vec::new();
    let new: Vec<_> = head.clusters.keys().filter(|name| !base.clusters.contains_key(*name)).collect();
    let left = base.clusters.keys().filter(|name| !head.clusters.contains_key(*name)).collect();
    let silent: BTreeSet<&ClusterName> = changed.iter().flat_map(|placement| concerned(placement)).collect();
    let silent =
        silent.into_iter().filter(|name| fleet.records.contains_key(*name) && !fleet.is_online(name)).collect();
    let kinds = [
        (new, "new in the fleet, and taken to answer"),
        (left, "leaving the fleet: what is there stays there"),
        (silent, "not answering now: their turn comes when they do"),
    ];
    for (clusters, what) in kinds {
        let listed = first_of(clusters.iter().map(|name| name.as_str()), NAMED_MAX);
        match clusters.len() {
            0 => {}
            1 => notes.push(format!("1 cluster is {what}: {listed}")),
            count => notes.push(format!("{count} clusters are {what}: {listed}")),
        }
    }
    for placement in changed {
        let key = placement.key();
        // Bindings are under the name that it had.
        let before = placement.renamed_from.as_ref().unwrap_or(&key);
        let Some(state) = baseline.placements.get(before) else { continue };
        let newest = state.newest().map(|newest| newest.index);
        if state.bindings().any(|binding| !binding.deleting && binding.snapshot != newest) {
            notes.push(format!(
                "{key} is on its way to snapshot {}: it is compared with that",
                newest.unwrap_or_default()
            ));
        }
        if state.record.paused.is_some() {
            notes.push(format!("{key} is paused: nothing of it moves until somebody resumes it"));
        }
    }
    notes
}

/// Predicts the duration: of the changed placements only, from a settled fleet.
fn timeline(base: &Arc<Tree>, candidate: &Candidate, changed: &[&PlacementPlan]) -> Timeline {
    let moves: usize = changed.iter().map(|placement| concerned(placement).len()).sum();
    if moves == 0 {
        return Timeline::None;
    }
    if moves > TIMELINE_MOVES_MAX {
        let why = format!("{moves} moves of clusters are more than the {TIMELINE_MOVES_MAX} that are simulated");
        return Timeline::LeftOut(format!("{why}; run `gitfleet simulate`"));
    }
    let keys = changed.iter().flat_map(|placement| placement.renamed_from.clone().into_iter().chain([placement.key()]));
    let keys: BTreeSet<PlacementKey> = keys.collect();
    let mut base = narrowed(base, &keys);
    base.commit = Some(candidate.base.clone());
    let head = narrowed(&candidate.tree, &keys);
    let simulated = simulate(&Scenario::undisturbed(Some(Arc::new(base)), Arc::new(head), keys));
    let takes = simulated.placements.iter().filter_map(|placement| Some((placement.key(), placement.ended_at?.text())));
    let takes = takes.collect();
    let mut chart = None;
    if shows_work(&simulated) {
        // A chart that no host draws is none.
        chart = Some(gantt(&simulated)).filter(|chart| chart.chars().count() <= CHART_CHARS_MAX);
    }
    Timeline::Predicted { takes, approvals_after: APPROVED_AFTER.1.to_owned(), chart }
}

/// Returns a tree with these placements only: others would be rolled out with the base, which takes time and changes nothing.
fn narrowed(tree: &Tree, keys: &BTreeSet<PlacementKey>) -> Tree {
    let mut tree = tree.clone();
    tree.placements.retain(|key, _| keys.contains(key));
    tree
}

/// Returns a marker key derived from the content of the trees: equal trees give equal text, and a guess of one value can be
/// checked only together with guesses of all others. If texts are stored, use a secret key instead.
pub fn derived_key(trees: &[&Arc<Tree>]) -> MaskKey {
    use sha2::Digest as _;
    let objects = trees.iter().flat_map(|tree| &tree.manifests).map(|manifest| &manifest.object);
    let hash = objects.fold(sha2::Sha256::new(), |hash, object: &Arc<Value>| {
        let text = object.to_string();
        hash.chain_update((text.len() as u64).to_be_bytes()).chain_update(text)
    });
    MaskKey::new(hash.finalize().into())
}

#[cfg(test)]
mod tests;
