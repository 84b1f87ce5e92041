//! The API groups of what we read.

/// Group of KubeFleet's placements.
pub const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";
/// Group of KubeFleet's clusters.
pub const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";
/// Group of OCM's clusters and placements.
pub const OCM_GROUP: &str = "cluster.open-cluster-management.io";
/// Group of KubeFleet's next API, which is there as types only.
pub const NEXT_PLACEMENT_GROUP: &str = "placement.kubefleet.dev";
/// Group of the SIG's ClusterProfiles.
const MULTICLUSTER_GROUP: &str = "multicluster.x-k8s.io";
/// Group of our own configuration.
pub const GITFLEET_GROUP: &str = "gitfleet.io";

/// Tells whether an object is for a hub, so that no placement delivers it, and of a kind that gitfleet does not read.
pub fn is_of_other_hubs(group: &str, kind: &str) -> bool {
    group == NEXT_PLACEMENT_GROUP || (group == MULTICLUSTER_GROUP && kind == "ClusterProfile")
}
