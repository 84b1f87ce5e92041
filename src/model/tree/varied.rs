//! Folders that were rendered for clusters: what a placement sees of them for one cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{Placement, SeenObjects, Tree};
use crate::api::annotations::OCM_PLACEMENT;
use crate::api::cluster::MemberCluster;
use crate::api::placement::PlacementType;
use crate::folder::{holds, rendered_folder};
use crate::id::ClusterName;
use crate::manifest::Manifest;
use crate::variants::{ClusterField, ClusterInputs, inputs_of};

/// A rendered folder with a file of values by cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariedFolder {
    /// What its file asks of a cluster.
    pub reads: BTreeSet<ClusterField>,
    /// Its objects, by inputs. Those that are the same as without a cluster are shared with the tree's.
    pub variants: BTreeMap<ClusterInputs, Vec<Manifest>>,
}

impl VariedFolder {
    /// Returns the objects for inputs that may hold more than it asks for.
    fn objects(&self, inputs: &ClusterInputs) -> Option<&[Manifest]> {
        let own: ClusterInputs = self
            .reads
            .iter()
            .filter_map(|field| inputs.get_key_value(field))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect();
        self.variants.get(&own).map(Vec::as_slice)
    }
}

impl Placement {
    /// Tells whether a label selector and the names of its policy leave a cluster: what is left of the policy is for scheduling. Never less
    /// than what is picked.
    pub fn could_pick(&self, name: &ClusterName, member: &MemberCluster) -> bool {
        if self.annotations.contains_key(OCM_PLACEMENT) {
            return true;
        }
        let Some(policy) = &self.spec.policy else { return true };
        if policy.placement_type == PlacementType::PickFixed {
            return policy.cluster_names.iter().any(|fixed| fixed == name.as_str());
        }
        let affinity = policy.affinity.as_ref().and_then(|affinity| affinity.cluster_affinity.as_ref());
        let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
        let Some(terms) = required.map(|required| &required.cluster_selector_terms) else { return true };
        terms.is_empty()
            || terms.iter().any(|term| term.label_selector.as_ref().is_none_or(|labels| labels.matches(&member.labels)))
    }
}

impl Tree {
    /// Returns the folders that a placement sees rendered for clusters; none without its annotation.
    pub fn varied_for<'a>(
        &'a self,
        placement: &'a Placement,
    ) -> impl Iterator<Item = (&'a str, &'a VariedFolder)> + 'a {
        let varied = placement.renders_for_cluster().then_some(&self.varied);
        let folders = varied.into_iter().flatten().map(|(path, varied)| (path.as_str(), varied));
        folders.filter(move |(path, _)| placement.folder().is_none_or(|folder| holds(folder, path)))
    }

    /// Returns what a placement asks of clusters; `None` where it is not rendered for clusters.
    pub fn reads_of(&self, placement: &Placement) -> Option<BTreeSet<ClusterField>> {
        placement
            .renders_for_cluster()
            .then(|| self.varied_for(placement).flat_map(|(_, varied)| varied.reads.iter().cloned()).collect())
    }

    /// Returns the different inputs of the clusters that a placement could pick.
    pub fn inputs_for(&self, placement: &Placement) -> BTreeSet<ClusterInputs> {
        let Some(reads) = self.reads_of(placement) else { return BTreeSet::new() };
        let could = self.clusters.iter().filter(|(name, member)| placement.could_pick(name, member));
        could.map(|(name, member)| inputs_of(&reads, name, member)).collect()
    }

    /// Returns what folders are rendered to for clusters.
    pub fn of_clusters(&self) -> impl Iterator<Item = &Manifest> {
        self.varied.values().flat_map(|varied| varied.variants.values()).flatten()
    }

    /// Returns the whole payload: without a cluster, and for each.
    pub fn all_manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.manifests.iter().chain(self.of_clusters())
    }

    /// Returns the payload that a placement sees for clusters with these inputs: as [`Tree::seen_by`], with the folders that were
    /// rendered for them; `None` where one of these was not.
    pub fn seen_for(&self, placement: &Placement, inputs: &ClusterInputs) -> Option<SeenObjects<'_>> {
        let varied = self.varied_for(placement);
        let instead: BTreeMap<&str, &[Manifest]> =
            varied.map(|(path, varied)| Some((path, varied.objects(inputs)?))).collect::<Option<_>>()?;
        Some(self.seen_with(placement, &instead))
    }
}

/// Puts the objects of folders in the place of those that they have without a cluster.
pub(super) fn replace(manifests: &mut Vec<Manifest>, instead: &BTreeMap<&str, &[Manifest]>) {
    if instead.is_empty() {
        return;
    }
    manifests.retain(|manifest| !instead.contains_key(rendered_folder(&manifest.origin.path)));
    manifests.extend(instead.values().flat_map(|objects| objects.iter().cloned()));
}
