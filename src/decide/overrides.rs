//! Snapshots of overrides, and the objects rendered with them: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::payload::Payload;
use super::strategies::read;
use crate::snapshot::{Candidates, Next, next_snapshot, override_hash};
use model::api::annotations;
use model::api::table::PLACEMENT_GROUP;
use model::id::{ClusterName, Digest, PlacementKey};
use model::manifest::Manifest;
use model::overrides::{OverrideKey, OverrideRef, OverrideSnapshot, OverrideSpec, PickedOverrides};
use model::tree::Tree;
use model::work::Desired;

/// Snapshots of one override that are kept, beside those that a binding or a run names.
///
/// Source: KubeFleet's fixed history of overrides.
const SNAPSHOTS_MAX: i32 = 10;

/// All snapshots of overrides, and which overrides the accepted commit has.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    snapshots: BTreeMap<OverrideKey, BTreeMap<u64, Arc<OverrideSnapshot>>>,
    present: BTreeSet<OverrideKey>,
    unwritten: BTreeSet<OverrideRef>,
}

impl Overrides {
    /// Restores the stored snapshots; a commit determines which overrides apply.
    pub fn restore(records: impl IntoIterator<Item = OverrideSnapshot>) -> Self {
        let mut overrides = Self::default();
        for record in records {
            let of_key = overrides.snapshots.entry(record.id.key.clone()).or_default();
            of_key.insert(record.id.index, Arc::new(record));
        }
        overrides
    }

    /// Follows a commit: an override whose spec or folder changed gets a snapshot, a removed one no longer applies. Snapshots that
    /// nothing names (`named`) are deleted with their override, or when there are more than ten.
    pub fn follow(&mut self, tree: &Tree, named: &BTreeSet<OverrideRef>, now: Timestamp) {
        let specs: BTreeMap<OverrideKey, (OverrideSpec, Option<String>)> =
            tree.inputs.iter().filter_map(spec).collect();
        self.present = specs.keys().cloned().collect();
        for (key, (spec, folder)) in specs {
            let hash = override_hash(&spec, folder.as_deref());
            let known = self.snapshots.entry(key.clone()).or_default();
            let existing: Vec<(u64, Digest)> = known.values().map(|s| (s.id.index, s.hash.clone())).collect();
            let Next::Create { index, prune } = next_snapshot(&existing, &hash, SNAPSHOTS_MAX) else { continue };
            for id in prune.into_iter().map(|index| OverrideRef { key: key.clone(), index }) {
                if !named.contains(&id) {
                    known.remove(&id.index);
                    self.unwritten.insert(id);
                }
            }
            let id = OverrideRef { key, index };
            let commit = tree.commit.clone().unwrap_or_else(|| "".into());
            let snapshot = OverrideSnapshot { id: id.clone(), hash, spec, folder, commit, created_at: now };
            known.insert(index, Arc::new(snapshot));
            self.unwritten.insert(id);
        }
        for (key, known) in self.snapshots.iter_mut().filter(|(key, _)| !self.present.contains(key)) {
            let ids = known.keys().map(|index| OverrideRef { key: key.clone(), index: *index });
            let gone: Vec<OverrideRef> = ids.filter(|id| !named.contains(id)).collect();
            for id in gone {
                known.remove(&id.index);
                self.unwritten.insert(id);
            }
        }
        self.snapshots.retain(|_, known| !known.is_empty());
    }

    /// Returns the newest snapshot of each override of the accepted commit.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<OverrideSnapshot>> {
        self.present.iter().filter_map(|key| self.snapshots.get(key)?.values().next_back())
    }

    /// Returns the overrides of the accepted commit that concern the payload of a placement with these annotations.
    pub fn candidates(
        &self,
        placement: &PlacementKey,
        notes: &BTreeMap<String, String>,
        payload: &Payload,
    ) -> Candidates {
        let folder = notes.get(annotations::PATH).map(String::as_str);
        let newest = self.newest().filter(|snapshot| snapshot.concerns(folder));
        Candidates::of(newest, placement, payload.all_manifests())
    }

    /// Returns a snapshot, also of an override that is gone.
    pub fn get(&self, id: &OverrideRef) -> Option<&OverrideSnapshot> {
        self.snapshots.get(&id.key)?.get(&id.index).map(AsRef::as_ref)
    }

    /// Returns the digest of what a snapshot does, whichever placement it names.
    pub(super) fn effect(&self, id: &OverrideRef) -> Option<Digest> {
        let mut spec = json!(self.get(id)?.spec);
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("placement");
        }
        Some(Digest::new(format!("{:x}", Sha256::digest(spec.to_string()))))
    }

    /// Returns the newest snapshot of an override where it does the same as an older one, and only names another placement.
    pub(super) fn renamed(&self, id: &OverrideRef) -> Option<&OverrideRef> {
        let newest = self.newest().map(|snapshot| &snapshot.id).find(|newest| newest.key == id.key && *newest != id)?;
        (self.effect(newest)? == self.effect(id)?).then_some(newest)
    }

    /// Tells whether the accepted commit has no overrides.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Takes the ids whose snapshots the store lacks, or still has although they are gone.
    pub fn take_unwritten(&mut self) -> BTreeSet<OverrideRef> {
        std::mem::take(&mut self.unwritten)
    }

    /// Puts back the ids that the store refused.
    pub fn refused(&mut self, ids: BTreeSet<OverrideRef>) {
        self.unwritten.extend(ids);
    }
}

/// Returns what an override says, and the folder that it is about.
fn spec(manifest: &Manifest) -> Option<(OverrideKey, (OverrideSpec, Option<String>))> {
    if manifest.id.group != PLACEMENT_GROUP {
        return None;
    }
    let (namespace, spec) = match manifest.id.kind.as_str() {
        "ClusterResourceOverride" => (None, OverrideSpec::Cluster(read(manifest)?)),
        "ResourceOverride" => (Some(manifest.id.namespace.clone()), OverrideSpec::Namespaced(read(manifest)?)),
        _ => return None,
    };
    let folder = manifest.annotation(annotations::PATH).map(str::to_owned);
    Some((OverrideKey { namespace, name: manifest.id.name.clone() }, (spec, folder)))
}

/// A cluster's objects after overrides, or why they cannot be rendered, as text for users.
pub type Objects = Result<Arc<[Desired]>, String>;

/// A cluster's objects, with the snapshot index and the overrides they were rendered from.
type Made = (u64, PickedOverrides, Objects);

/// Objects that were rendered just now, with their clusters.
pub(crate) type NewlyMade = Vec<(ClusterName, Made)>;

/// Rendered objects of clusters, kept so that no decision renders them again.
#[derive(Clone, Debug, Default)]
pub struct Rendered(Arc<BTreeMap<ClusterName, Vec<Made>>>);

impl Rendered {
    /// Tells whether no cluster has objects of its own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a cluster's objects for a snapshot and its picked overrides, if they were rendered.
    pub fn get(&self, cluster: &ClusterName, snapshot: u64, picked: &PickedOverrides) -> Option<&Objects> {
        let made = self.0.get(cluster)?.iter().find(|(index, of, _)| *index == snapshot && of == picked);
        made.map(|(_, _, objects)| objects)
    }

    /// Keeps rendered objects. Failures are kept, too, or each decision would repeat a rendering that cannot succeed.
    pub(crate) fn keep(&mut self, newly_made: NewlyMade) {
        if newly_made.is_empty() {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        for (cluster, made) in newly_made {
            all.entry(cluster).or_default().push(made);
        }
    }

    /// Drops rendered objects that are not needed: by cluster, snapshot and picked overrides.
    pub fn retain(&mut self, needed: impl Fn(&ClusterName, u64, &PickedOverrides) -> bool) {
        let mut all = self.0.iter().flat_map(|(cluster, made)| made.iter().map(move |one| (cluster, one)));
        // Checked first: a change would copy the map while another state shares it.
        if all.all(|(cluster, (index, picked, _))| needed(cluster, *index, picked)) {
            return;
        }
        let made = Arc::make_mut(&mut self.0);
        made.retain(|cluster, made| {
            made.retain(|(index, picked, _)| needed(cluster, *index, picked));
            !made.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;
