//! Fields that are accepted for compatibility with other systems and have no effect: each gets a warning.
//!
//! docs/fields.md says of every field what it does; a test holds it against what is read.

use serde_json::Value;

use super::check::FieldError;
use super::table::{CLUSTER_GROUP, Kind, OCM_GROUP, PLACEMENT_GROUP};

/// A field that changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unused {
    /// API group of its kinds.
    pub group: &'static str,
    /// Kinds that have it.
    pub kinds: &'static [&'static str],
    /// Where it is: names with dots between them, `[]` for every element of a list.
    pub path: &'static str,
    /// Values that ask for what happens anyway.
    pub harmless: &'static [&'static str],
    /// Why it changes nothing.
    pub why: &'static str,
    /// What to do about it; empty where the system that it is for asks for it.
    pub hint: &'static str,
    /// Whether one warning is enough for a commit: every object of these kinds has it.
    pub once: bool,
}

const PLACEMENTS: &[&str] = &["ClusterResourcePlacement", "ResourcePlacement"];
/// What the original systems store for themselves.
const RECORDS: &[&str] = &[
    "ClusterApprovalRequest",
    "ApprovalRequest",
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
    "ClusterResourceSnapshot",
    "ResourceSnapshot",
    "ClusterResourceBinding",
    "ResourceBinding",
    "ClusterResourceOverrideSnapshot",
    "ResourceOverrideSnapshot",
    "Work",
    "AppliedWork",
];
const RECORD_WHY: &str = "changes nothing: a hub stored it, and gitfleet keeps its own records";
const RECORD_HINT: &str = "remove the object; approvals are given with `gitfleet approve`";

const fn of(
    group: &'static str,
    kinds: &'static [&'static str],
    path: &'static str,
    why: &'static str,
    hint: &'static str,
) -> Unused {
    Unused { group, kinds, path, harmless: &[], why, hint, once: false }
}

impl Unused {
    const fn unless(self, harmless: &'static [&'static str]) -> Self {
        Self { harmless, ..self }
    }

    const fn once(self) -> Self {
        Self { once: true, ..self }
    }
}

/// Every field that is accepted and changes nothing.
pub const UNUSED: &[Unused] = &[
    of(
        PLACEMENT_GROUP,
        PLACEMENTS,
        "spec.statusReportingScope",
        "changes nothing: it copies the status into a namespace of a hub, and there is no hub",
        "remove it; `gitfleet status` and `gitfleet get -o yaml` show the status",
    )
    .unless(&["ClusterScopeOnly"]),
    of(
        PLACEMENT_GROUP,
        PLACEMENTS,
        "spec.strategy.reportBackStrategy.type",
        "changes nothing: it copies the status of members' objects to a hub, and there is no hub",
        "remove spec.strategy.reportBackStrategy",
    )
    .unless(&["Disabled"]),
    of(
        PLACEMENT_GROUP,
        PLACEMENTS,
        "spec.strategy.reportBackStrategy.destination",
        "changes nothing: it copies the status of members' objects to a hub, and there is no hub",
        "remove spec.strategy.reportBackStrategy",
    ),
    of(
        PLACEMENT_GROUP,
        &["ClusterResourceOverride"],
        "spec.clusterResourceSelectors[].selectionScope",
        "changes nothing: an override of a Namespace is for the Namespace and for all that is in it",
        "remove it; use a ResourceOverride for single objects",
    )
    .unless(&["NamespaceWithResources"]),
    of(PLACEMENT_GROUP, RECORDS, "spec", RECORD_WHY, RECORD_HINT),
    of(CLUSTER_GROUP, &["InternalMemberCluster"], "spec", RECORD_WHY, RECORD_HINT),
    of(
        CLUSTER_GROUP,
        &["MemberCluster"],
        "spec.identity",
        "changes nothing: it is the account of KubeFleet's agent on the cluster, and gitfleet has none; `members:` says how \
         clusters are reached",
        "",
    )
    .once(),
    of(
        CLUSTER_GROUP,
        &["MemberCluster"],
        "spec.heartbeatPeriodSeconds",
        "changes nothing: the API server's answers are the heartbeat",
        "",
    )
    .once(),
    of(
        CLUSTER_GROUP,
        &["MemberCluster"],
        "spec.deleteOptions",
        "changes nothing: a cluster that leaves git keeps what was placed on it",
        "",
    )
    .once(),
    of(
        OCM_GROUP,
        &["ManagedCluster"],
        "spec.managedClusterClientConfigs",
        "changes nothing: `members:` says how clusters are reached",
        "",
    )
    .once(),
    of(
        OCM_GROUP,
        &["ManagedCluster"],
        "spec.hubAcceptsClient",
        "changes nothing: a cluster is taken because git has it; gitfleet.io/suspended leaves one alone",
        "",
    )
    .unless(&["true"])
    .once(),
    of(
        OCM_GROUP,
        &["ManagedCluster"],
        "spec.leaseDurationSeconds",
        "changes nothing: the API server's answers are the heartbeat",
        "",
    )
    .once(),
    of(
        OCM_GROUP,
        &["ManagedClusterSet"],
        "spec.managedNamespaces",
        "changes nothing: it has OCM's agents make namespaces, and there are none",
        "place the namespaces with a ClusterResourcePlacement",
    ),
    of(
        OCM_GROUP,
        &["Placement"],
        "spec.spreadPolicy",
        "changes nothing: no scheduler reads it, OCM's neither",
        "remove it, or use decisionStrategy",
    ),
    of(
        OCM_GROUP,
        &["Placement"],
        "spec.sortBy",
        "changes nothing: decisions are written in the order of clusters' names",
        "remove it",
    )
    .unless(&["ClusterName"]),
    of(
        OCM_GROUP,
        &["Placement"],
        "spec.scoreRateLimit",
        "changes nothing: a score is read whenever it changes",
        "remove it",
    ),
];

/// Returns what an object of a kind asks for that changes nothing, each with its row.
pub fn unused<'a>(kind: &'a Kind, object: &'a Value) -> impl Iterator<Item = (&'static Unused, FieldError)> + 'a {
    let rows = UNUSED.iter().filter(|row| row.group == kind.group && row.kinds.contains(&kind.kind));
    rows.flat_map(|row| {
        let mut fields = Vec::new();
        find(object, row.path, "", row, &mut fields);
        fields.into_iter().map(move |field| {
            let error = FieldError::new(field, row.why);
            (row, if row.hint.is_empty() { error } else { error.hint(row.hint) })
        })
    })
}

/// Collects the fields at `path` that ask for something.
fn find(value: &Value, path: &str, at: &str, row: &Unused, found: &mut Vec<String>) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let Some(value) = value.get(name).filter(|value| !value.is_null()) else { return };
    let dot = if at.is_empty() { "" } else { "." };
    let at = format!("{at}{dot}{name}");
    if is_list {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            find(item, rest, &format!("{at}[{index}]"), row, found);
        }
    } else if !rest.is_empty() {
        find(value, rest, &at, row, found);
    } else if !is_harmless(value, row) {
        found.push(at);
    }
}

/// Tells whether a value asks for nothing: it is empty, or it is what happens anyway.
fn is_harmless(value: &Value, row: &Unused) -> bool {
    match value {
        Value::String(text) => text.is_empty() || row.harmless.contains(&text.as_str()),
        Value::Bool(flag) => row.harmless.contains(&if *flag { "true" } else { "false" }),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
