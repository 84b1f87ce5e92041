//! The namespaces of simulated members: those that git delivers, and those that somebody else is taken to have made.

use std::collections::BTreeSet;

use super::Simulation;
use super::deployment::Deployment;
use model::id::ClusterName;

impl<D: Deployment> Simulation<D> {
    /// Returns the namespaces that ResourcePlacements of the commits so far are in and git does not deliver.
    pub(super) fn unmanaged_namespaces(&self) -> BTreeSet<String> {
        let trees = self.source.commits.values().filter_map(|tree| tree.as_ref().ok());
        trees.flat_map(|tree| tree.unmanaged_namespaces()).cloned().collect()
    }

    /// Lets a member that is connected see namespaces that somebody else made there.
    pub(super) fn see_namespaces(&mut self, cluster: &ClusterName, namespaces: &BTreeSet<String>) {
        let Some(link) = self.process.links.get_mut(cluster).filter(|link| link.connected) else { return };
        let Some(reconciler) = &mut link.reconciler else { return };
        reconciler.see_namespaces(Ok(namespaces.clone()));
        if let Some(event) = reconciler.take_namespaces() {
            self.report_event(cluster, event);
        }
    }
}
