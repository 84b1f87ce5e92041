//! OCM Placements: their documents in git, their inputs and their decisions. Pure.
//!
//! They pick clusters and deliver nothing. A ClusterResourcePlacement may take its clusters from one, and Argo CD may read the
//! decisions.

mod events;
mod scores;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::json;

use model::api::cluster::MemberCluster;
use model::api::condition::find_condition;
use model::api::object::{Object, without_nulls};
use model::api::ocm::{
    AddOnScoreStatus, ManagedClusterSetSpec, ManagedClusterTaint, ManagedTaintEffect, OcmPlacementSpec,
};
use model::api::table::OCM_GROUP;
use model::conditions::{ConditionType, Reason};
use model::explanation::Explanation;
use model::id::ClusterName;
use model::journal::JournalKind;
use model::manifest::{InputError, Manifest, Origin};
use model::ocm::{DecidedGroup, OcmPlacementRecord};
use model::records::JournalEntry;
use model::tree::Tree;
use model::yaml;
use schedule::ocm;
use schedule::ocm::reads::Readers;
use schedule::ocm::{Change, Decisions, Hub, Key, OcmMember, OcmPolicy, OnMisconfigured, Request};

use scores::ScoreKey;

/// The taint that marks a cluster as unreachable.
///
/// Source: OCM, the taint of its lease controller. There it has the effect `NoSelect`, which takes the placement off the
/// cluster; here `NoSelectIfNew`: an outage must not become a deletion when the cluster returns.
const UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";

/// Reasons of PlacementSatisfied that say that no cluster can be picked, whatever the Placement asks for.
const NOTHING_TO_PICK_FROM: [Reason; 3] =
    [Reason::NoManagedClusterSetBindings, Reason::NoIntersection, Reason::AllManagedClusterSetsEmpty];

/// A Placement of the accepted commit.
#[derive(Clone, Debug)]
struct Wish {
    spec: OcmPlacementSpec,
    policy: OcmPolicy,
    annotations: BTreeMap<String, String>,
    origin: Origin,
}

/// The data of a member beside its documents in git.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Properties with KubeFleet's names; cpu and memory come from them.
    pub properties: BTreeMap<String, String>,
    /// What it claims of itself, by name.
    pub claims: BTreeMap<String, String>,
    /// Scores that were pushed, by the name of their AddOnPlacementScore.
    pub scores: BTreeMap<String, AddOnScoreStatus>,
    /// Its taints with their dates: see [`dated_taints`].
    pub taints: Vec<ManagedClusterTaint>,
    /// Since when it is unreachable, if that is long.
    pub silent_since: Option<Timestamp>,
}

/// The Placements in git, their inputs, and their decisions.
#[derive(Clone, Debug, Default)]
pub struct Ocm {
    hub: Hub,
    readers: Readers,
    managed: BTreeMap<ClusterName, Manifest>,
    facts: BTreeMap<ClusterName, Facts>,
    wishes: BTreeMap<Key, Wish>,
    records: BTreeMap<Key, Arc<OcmPlacementRecord>>,
    sets: BTreeSet<String>,
    bindings: BTreeSet<(String, String)>,
    written_scores: BTreeMap<ScoreKey, AddOnScoreStatus>,
}

/// The result of one Placement's decision.
#[derive(Debug)]
pub struct OcmDecision {
    /// The Placement.
    pub key: Key,
    /// The state now; `None` where it is gone.
    pub record: Option<OcmPlacementRecord>,
    /// What happened, for the journal.
    pub journal: Vec<JournalEntry>,
    /// When time alone changes the answer.
    pub wake_at: Option<Timestamp>,
}

impl Ocm {
    /// Restores the decisions of an earlier process.
    pub fn restore(records: impl IntoIterator<Item = OcmPlacementRecord>) -> Self {
        let mut ocm = Self::default();
        for record in records {
            // Before any decision: the picks of one Placement count for the balance of the others.
            ocm.hold(&record);
            ocm.records.insert(key_of(&record), Arc::new(record));
        }
        ocm
    }

    /// Returns the record of a Placement, if it was ever decided.
    pub fn record(&self, key: &Key) -> Option<&Arc<OcmPlacementRecord>> {
        self.records.get(key)
    }

    /// Returns every Placement that was ever decided.
    pub fn records(&self) -> impl Iterator<Item = (&Key, &Arc<OcmPlacementRecord>)> {
        self.records.iter()
    }

    /// Tells whether the accepted commit has a Placement.
    pub fn is_wished(&self, key: &Key) -> bool {
        self.wishes.contains_key(key)
    }

    /// Updates the Placements and their inputs from a commit. Returns the Placements to decide again.
    pub fn follow(&mut self, tree: &Tree) -> BTreeSet<Key> {
        // First: a new hub has neither sets nor scores, and the next two calls fill it.
        let mut dirty = self.follow_clusters(tree);
        dirty.extend(self.follow_sets(tree));
        dirty.extend(self.follow_scores(tree));
        let mut seen = BTreeSet::new();
        for manifest in of_kind(tree, "Placement") {
            let key = Key::new(&manifest.id.namespace, &manifest.id.name);
            seen.insert(key.clone());
            if self.wishes.get(&key).is_some_and(|wish| same_text(&wish.origin, &manifest.origin)) {
                continue;
            }
            let Some(object) = read::<OcmPlacementSpec>(manifest) else { continue };
            let policy = OcmPolicy::new(object.spec.clone());
            self.readers.set(&key, Some(&policy));
            let annotations = object.metadata.annotations;
            let wish = Wish { spec: object.spec, policy, annotations, origin: manifest.origin.clone() };
            self.wishes.insert(key.clone(), wish);
            dirty.insert(key);
        }
        // A Placement that left git while no daemon ran is known only by its record.
        let known: BTreeSet<Key> = self.wishes.keys().chain(self.records.keys()).cloned().collect();
        for key in known.difference(&seen) {
            self.readers.set(key, None);
            self.wishes.remove(key);
            dirty.insert(key.clone());
        }
        dirty
    }

    /// Updates the facts of a member. Returns the Placements to decide again.
    pub fn observe(&mut self, name: &ClusterName, facts: Facts) -> BTreeSet<Key> {
        if self.facts.get(name).unwrap_or(&Facts::default()) == &facts {
            return BTreeSet::new();
        }
        let before = self.facts.insert(name.clone(), facts).unwrap_or_default();
        let mut dirty = self.set_cluster(name);
        dirty.extend(self.follow_pushed_scores(name, &before));
        dirty
    }

    fn set_cluster(&mut self, name: &ClusterName) -> BTreeSet<Key> {
        let Some(member) = self.member(name) else { return BTreeSet::new() };
        let change = self.hub.set_cluster(name, Some(member));
        self.readers.affected(&self.hub, &change)
    }

    /// Returns a cluster as git and its member describe it. Documents of a tree were checked, so they can be read.
    fn member(&self, name: &ClusterName) -> Option<OcmMember> {
        let (_, mut member) = OcmMember::read(&self.managed.get(name)?.object).ok()?;
        if let Some(facts) = self.facts.get(name) {
            enrich(&mut member, facts);
        }
        Some(member)
    }

    fn follow_clusters(&mut self, tree: &Tree) -> BTreeSet<Key> {
        let found = of_kind(tree, "ManagedCluster");
        let found = found.map(|manifest| (ClusterName::new(manifest.id.name.as_str()), manifest.clone())).collect();
        let before: BTreeMap<ClusterName, Manifest> = std::mem::replace(&mut self.managed, found);
        if before.keys().eq(self.managed.keys()) {
            let changed = self.managed.iter().filter(|(name, manifest)| {
                let old = before.get(*name);
                old.is_none_or(|old| !same_text(&old.origin, &manifest.origin))
            });
            let changed: Vec<ClusterName> = changed.map(|(name, _)| name.clone()).collect();
            return changed.iter().flat_map(|name| self.set_cluster(name)).collect();
        }
        // A member that joins or leaves shifts all slots: building one new hub is cheaper than shifting each.
        let members = self.managed.keys().filter_map(|name| Some((name.clone(), self.member(name)?))).collect();
        self.hub = Hub::new(members);
        self.sets.clear();
        self.bindings.clear();
        for record in self.records.clone().values() {
            self.hold(record);
        }
        self.wishes.keys().cloned().collect()
    }

    fn follow_sets(&mut self, tree: &Tree) -> BTreeSet<Key> {
        let mut changes = Vec::new();
        let mut sets = BTreeSet::new();
        for set in of_kind(tree, "ManagedClusterSet").filter_map(read::<ManagedClusterSetSpec>) {
            changes.push(self.hub.set_set(&set.metadata.name, Some(set.spec)));
            sets.insert(set.metadata.name);
        }
        for gone in self.sets.difference(&sets) {
            changes.push(self.hub.set_set(gone, None));
        }
        self.sets = sets;
        let mut bindings = BTreeSet::new();
        for binding in of_kind(tree, "ManagedClusterSetBinding") {
            let namespace = binding.id.namespace.clone();
            let name = binding.id.name.clone();
            changes.push(self.hub.set_binding(&namespace, &name, true));
            bindings.insert((namespace, name));
        }
        for (namespace, name) in self.bindings.difference(&bindings) {
            changes.push(self.hub.set_binding(namespace, name, false));
        }
        self.bindings = bindings;
        self.affected(&changes)
    }

    fn affected(&self, changes: &[Change]) -> BTreeSet<Key> {
        changes.iter().flat_map(|change| self.readers.affected(&self.hub, change)).collect()
    }

    fn hold(&mut self, record: &OcmPlacementRecord) {
        self.hub.set_decisions(&key_of(record), record.clusters().map(ClusterName::as_str));
    }

    /// Decides one Placement: returns its next state; `decided` holds the decisions made before it in the same pass.
    pub fn decide(&self, key: &Key, now: Timestamp) -> OcmDecision {
        let before = self.records.get(key);
        let Some(wish) = self.wishes.get(key) else {
            let journal =
                before.map(|_| entry(key, now, JournalKind::PlacementRemoved, json!({}))).into_iter().collect();
            return OcmDecision { key: key.clone(), record: None, journal, wake_at: None };
        };
        let mut record = begin(key, wish, before.map(AsRef::as_ref), now);
        let mut decision = OcmDecision { key: key.clone(), record: None, journal: Vec::new(), wake_at: None };
        // A disabled Placement keeps its decisions.
        if !ocm::is_disabled(&wish.annotations) {
            match ocm::schedule(&self.request(key, wish, now)) {
                Err(error) => record.error = Some(error.to_string()),
                Ok(outcome) => {
                    record.conditions = outcome.status(key, &record.conditions, now).conditions;
                    record.warning = outcome.warning.as_ref().map(|notice| notice.message.clone());
                    decision.wake_at = outcome.requeue_at;
                    if let Decisions::Groups(groups) = &outcome.decisions {
                        record.groups = groups.iter().map(|group| self.named(group)).collect();
                    }
                    let scores = outcome.score_note(&self.hub);
                    let evaluated = events::Evaluated { scores, warning: outcome.warning.clone(), now };
                    let before = before.map(AsRef::as_ref);
                    decision.journal = events::between(key, before, &record, &evaluated);
                    let same_decisions = before.is_some_and(|b| b.groups == record.groups);
                    if !same_decisions || before.is_some_and(|b| b.generation != record.generation) {
                        record.scores = outcome.totals(&self.hub);
                    }
                }
            }
        }
        decision.record = Some(record);
        decision
    }

    /// Returns the order in which Placements are decided: first the removed ones, whose clusters no longer count for the
    /// balance of others.
    pub fn in_order(&self, keys: BTreeSet<Key>) -> Vec<Key> {
        let mut keys: Vec<Key> = keys.into_iter().collect();
        keys.sort_by_key(|key| self.is_wished(key));
        keys
    }

    /// Decides Placements in order, each with the picks of those before it, and applies each decision immediately: for worlds
    /// that are never stored.
    pub fn decide_each(&mut self, keys: BTreeSet<Key>, now: Timestamp) {
        for key in self.in_order(keys) {
            let decision = self.decide(&key, now);
            self.settle(decision);
        }
    }

    /// Returns why a Placement cannot be evaluated, or why no cluster is left to pick from, with file and field; empty for a
    /// Placement that git does not have.
    pub fn complaints(&self, key: &Key) -> Vec<InputError> {
        let Some(wish) = self.wishes.get(key) else { return Vec::new() };
        let complaint = |field: &str, message: String, hint: Option<String>| InputError {
            path: wish.origin.path.to_string(),
            line: wish.origin.line,
            object: Some(format!("Placement.{OCM_GROUP} {key}")),
            field: Some(field.to_owned()).filter(|field| !field.is_empty()),
            message,
            hint,
        };
        let of_files = wish.policy.complaints().into_iter();
        let mut complaints: Vec<InputError> =
            of_files.map(|error| complaint(&error.field, error.message, error.hint)).collect();
        let record = self.records.get(key);
        let satisfied =
            record.and_then(|record| find_condition(&record.conditions, &ConditionType::PlacementSatisfied));
        if let Some(condition) = satisfied.filter(|condition| NOTHING_TO_PICK_FROM.contains(&condition.reason)) {
            complaints.push(complaint("spec.clusterSets", condition.message.clone(), None));
        }
        complaints.extend(record.and_then(|record| record.error.clone()).map(|error| complaint("", error, None)));
        complaints
    }

    /// Restores a Placement's record from before a decision, so that the decision can be explained as it was made.
    pub fn undecide(&mut self, key: &Key, before: Option<&Self>) {
        let record = before.and_then(|before| before.record(key));
        let clusters = record.into_iter().flat_map(|record| record.clusters().map(ClusterName::as_str));
        self.hub.set_decisions(key, clusters);
    }

    /// Explains a Placement as it would be evaluated now, with the totals that decided where others would now.
    ///
    /// # Errors
    /// The reason why it cannot be evaluated, as text for users.
    pub fn explain(&self, key: &Key, now: Timestamp) -> Result<Explanation, String> {
        let wish = self.wishes.get(key).ok_or("the source does not have it")?;
        let mut explanation = ocm::explain(&self.request(key, wish, now)).map_err(|error| error.to_string())?;
        for cluster in &mut explanation.clusters {
            let decided = self.records.get(key).and_then(|record| record.scores.get(&cluster.cluster_name)).copied();
            cluster.decided_score = decided.filter(|decided| cluster.total() != Some(*decided));
        }
        Ok(explanation)
    }

    fn request<'a>(&'a self, key: &'a Key, wish: &'a Wish, now: Timestamp) -> Request<'a> {
        Request { key, policy: &wish.policy, hub: &self.hub, now, on_misconfigured: OnMisconfigured::Keep }
    }

    /// Applies a stored decision: its picks count for the balance of others.
    pub fn settle(&mut self, decision: OcmDecision) {
        self.hold_again(&decision.key, decision.record.map(Arc::new));
    }

    /// Restores a Placement's earlier record, because the new one could not be stored.
    pub fn hold_again(&mut self, key: &Key, record: Option<Arc<OcmPlacementRecord>>) {
        if let Some(record) = record {
            self.hold(&record);
            self.records.insert(key.clone(), record);
        } else {
            self.hub.set_decisions(key, std::iter::empty::<&str>());
            self.records.remove(key);
        }
    }

    fn named(&self, group: &ocm::Group) -> DecidedGroup {
        let names = self.hub.names();
        let clusters = group.clusters.iter().map(|&slot| names[slot as usize].clone()).collect();
        DecidedGroup { name: group.name.clone(), clusters }
    }
}

/// Returns the key of a record.
pub fn key_of(record: &OcmPlacementRecord) -> Key {
    Key::new(&record.namespace, &record.name)
}

/// Returns the Placement that `NAMESPACE/NAME` names.
pub fn key_named(text: &str) -> Option<Key> {
    text.split_once('/').map(|(namespace, name)| Key::new(namespace, name))
}

/// Returns the reason to record where an OCM Placement picked a cluster, in a decision group or, with an empty name, in none.
pub fn reason(placement: &str, group: &str) -> String {
    let of = if group.is_empty() { String::new() } else { format!(" in decision group {group}") };
    format!("selected by OCM Placement {placement}{of}")
}

fn begin(key: &Key, wish: &Wish, before: Option<&OcmPlacementRecord>, now: Timestamp) -> OcmPlacementRecord {
    let mut record = before.cloned().unwrap_or_else(|| OcmPlacementRecord {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        spec: wish.spec.clone(),
        annotations: wish.annotations.clone(),
        generation: 1,
        origin: wish.origin.clone(),
        created_at: now,
        groups: Vec::new(),
        scores: BTreeMap::new(),
        conditions: Vec::new(),
        warning: None,
        error: None,
    });
    if record.spec != wish.spec || record.annotations != wish.annotations {
        record.spec = wish.spec.clone();
        record.annotations.clone_from(&wish.annotations);
        record.generation += 1;
    }
    record.origin = wish.origin.clone();
    record.error = None;
    record
}

fn entry(key: &Key, at: Timestamp, event: JournalKind, mut facts: serde_json::Value) -> JournalEntry {
    facts["ocmPlacement"] = json!(key.to_string());
    JournalEntry { at, event, placement: None, cluster: None, facts }
}

/// Returns a cluster's taints with their dates: from git, else from when each was first seen, as `before` has it.
///
/// Source: OCM, whose webhook dates a taint when it is added or when its value or effect changes. Without a date a toleration
/// for some seconds would end immediately.
pub fn dated_taints(
    before: &[ManagedClusterTaint],
    member: &MemberCluster,
    now: Timestamp,
) -> Vec<ManagedClusterTaint> {
    let taints = member.managed.iter().flat_map(|managed| &managed.spec.taints);
    let dated = taints.map(|taint| ManagedClusterTaint {
        time_added: taint.time_added.or_else(|| since(before, taint)).or(Some(now)),
        ..taint.clone()
    });
    dated.collect()
}

fn since(known: &[ManagedClusterTaint], taint: &ManagedClusterTaint) -> Option<Timestamp> {
    let mut same = known.iter().filter(|known| known.key == taint.key && known.value == taint.value);
    same.find(|known| known.effect == taint.effect)?.time_added
}

fn enrich(member: &mut OcmMember, facts: &Facts) {
    member.fill_resources(&facts.properties);
    member.fill_claims(&facts.claims);
    for taint in member.taints.iter_mut().filter(|taint| taint.time_added.is_none()) {
        taint.time_added = since(&facts.taints, taint);
    }
    if let Some(since) = facts.silent_since
        // If git has the taint, a person chose its effect.
        && !member.taints.iter().any(|taint| taint.key == UNREACHABLE)
    {
        member.taints.push(ManagedClusterTaint {
            key: UNREACHABLE.to_owned(),
            value: String::new(),
            effect: ManagedTaintEffect::NoSelectIfNew,
            time_added: Some(since),
        });
    }
}

fn of_kind<'a>(tree: &'a Tree, kind: &'a str) -> impl Iterator<Item = &'a Manifest> {
    tree.inputs.iter().filter(move |manifest| manifest.id.group == OCM_GROUP && manifest.id.kind == kind)
}

/// Reads a document whose spec may be absent. Documents of a tree were checked, so they can be read.
fn read<S: DeserializeOwned>(manifest: &Manifest) -> Option<Object<S>> {
    let mut document = without_nulls(&manifest.object);
    document.as_object_mut()?.entry("spec").or_insert_with(|| json!({}));
    yaml::typed(&document).ok()
}

/// Tells whether two origins are the same document: the same position in the same content.
fn same_text(a: &Origin, b: &Origin) -> bool {
    a.blob == b.blob && a.ordinal == b.ordinal
}

#[cfg(test)]
mod tests;
