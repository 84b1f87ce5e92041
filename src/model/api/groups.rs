//! The API groups of what we read.

/// Group of KubeFleet's placements.
pub const PLACEMENT_GROUP: &str = "placement.kubernetes-fleet.io";
/// Group of KubeFleet's clusters.
pub const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io";
/// Group of OCM's clusters and placements.
pub const OCM_GROUP: &str = "cluster.open-cluster-management.io";
/// Group of our own configuration.
pub const GITFLEET_GROUP: &str = "gitfleet.io";
