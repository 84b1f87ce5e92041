//! Which tables there are, and where their cells come from.

use model::conditions::ConditionType;

/// Whose columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Our own: what people look for.
    Own,
    /// Those that kubectl prints on a hub of KubeFleet or OCM.
    KubeFleet,
}

/// The kind of objects in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// ClusterResourcePlacement and ResourcePlacement.
    Placements,
    /// Resource and policy snapshots.
    Snapshots,
    /// Bindings.
    Bindings,
    /// Works.
    Works,
    /// Member clusters.
    Clusters,
    /// OCM Placements.
    OcmPlacements,
    /// PlacementDecisions.
    Decisions,
    /// Evictions that were evaluated.
    Evictions,
    /// Staged update runs.
    Runs,
    /// Approval requests and closed deletion gates.
    Approvals,
}

/// The source of a cell.
pub(super) enum Cell {
    /// A JSON pointer.
    At(&'static str),
    /// A JSON pointer to a time, shown as age.
    Age(&'static str),
    /// The status of a condition type; for a placement, the type with its kind as prefix.
    Status(ConditionType),
    /// The reason of such a condition.
    Reason(ConditionType),
    /// The length of the list at a JSON pointer.
    Count(&'static str),
    /// The observed generation of such a condition.
    Generation(ConditionType),
    /// The name, with the kind in front if a listing mixes kinds.
    Name,
    /// The name alone, as in commands.
    BareName,
    /// The state of a rollout at a JSON pointer, in words.
    State(&'static str),
    /// The beginning of the commit at a JSON pointer.
    Commit(&'static str),
    /// How many of how many, each at a JSON pointer.
    Share(&'static str, &'static str),
    /// The labels at a JSON pointer.
    Labels(&'static str),
}
