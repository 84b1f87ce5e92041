//! gitfleet's extensions: annotations, so that the same files work on a KubeFleet hub too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check::{self, FieldError};
use crate::id::PlacementKey;
use crate::text::suggest;

/// Prefix of every extension.
pub const PREFIX: &str = "gitfleet.io/";
/// On a placement of strategy External: the strategy that every new snapshot is rolled out with.
pub const STAGED_UPDATE_STRATEGY: &str = "gitfleet.io/staged-update-strategy";
/// On a placement: what a newer snapshot does to a running run, `Replace` (default) or `Queue`.
pub const WHEN_SUPERSEDED: &str = "gitfleet.io/when-superseded";
/// On a placement: whether large deletions wait for a person, `Approve` (default) or `Off`.
pub const DELETION_GUARD: &str = "gitfleet.io/deletion-guard";
/// On a placement: how long a cluster may take to become available, `10m` by default.
pub const PROGRESS_DEADLINE: &str = "gitfleet.io/progress-deadline";
/// The progress deadline where the annotation is absent.
pub const PROGRESS_DEADLINE_DEFAULT: Duration = Duration::from_mins(10);
/// On a placement: clusters, number or percent, that may fail before the rollout halts; `0` by default.
pub const MAX_FAILURES: &str = "gitfleet.io/max-failures";
/// On a placement: `Halt` (default) or `Rollback`.
pub const ON_FAILURE: &str = "gitfleet.io/on-failure";
/// On a placement: `NAMESPACE/NAME` of the OCM Placement that picks its clusters.
pub const OCM_PLACEMENT: &str = "gitfleet.io/placement";
/// On a placement: which clusters exported decisions hold, `scheduled` (default) or `rolled-out`.
pub const DECISIONS: &str = "gitfleet.io/decisions";
/// On a placement or an override: a folder of the source, such as `apps/production`: a placement sees only its objects, plain or rendered, and an override is for such placements; everything by default.
pub const PATH: &str = "gitfleet.io/path";
/// On a placement: the namespace of namespaced objects that name none.
pub const DEFAULT_NAMESPACE: &str = "gitfleet.io/default-namespace";
/// On a placement: `cluster` renders the folders that it sees with values of the cluster; see `values.gitfleet.yaml`.
pub const RENDER_FOR: &str = "gitfleet.io/render-for";
/// On a strategy: who may approve, comma-separated.
pub const APPROVERS: &str = "gitfleet.io/approvers";
/// On a strategy: picked clusters in no stage make its runs wait (`Refuse`, default), keep what they have (`Ignore`), or are updated before or after all stages (`First`, `Last`).
pub const CLUSTERS_IN_NO_STAGE: &str = "gitfleet.io/clusters-in-no-stage";
/// On a strategy: what must hold after the clusters of a stage are done and before the next stage begins: YAML or JSON, a map from
/// stages to `healthyFor` and `metrics`.
pub const STAGE_CHECKS: &str = "gitfleet.io/stage-checks";
/// On a MemberCluster: `"true"` stops delivery.
pub const SUSPENDED: &str = "gitfleet.io/suspended";
/// On a MemberCluster or ManagedCluster: JSON map of property name to value.
pub const PROPERTIES: &str = "gitfleet.io/properties";

/// Written on an inventory and on every delivered object: which source it is of. Written on an entry of a snapshot: the file and line it comes from.
pub const SOURCE: &str = "gitfleet.io/source";
/// Written on every delivered object: kind and name of the placement that it is of. Nothing reads it but people.
pub const PLACED_BY: &str = "gitfleet.io/placed-by";
/// Written on an inventory: its placement. On a placement the same name means another thing.
pub const PLACEMENT: &str = "gitfleet.io/placement";
/// Written on an inventory and on a snapshot: the commit.
pub const COMMIT: &str = "gitfleet.io/commit";
/// Written on an inventory: the hash of the snapshot. Written on an entry of a snapshot: the object's digest. Written on
/// an approval request: the digest that was approved.
pub const DIGEST: &str = "gitfleet.io/digest";

/// Written on inventories: that a person paused the placement, as JSON; survives a lost store.
pub const PAUSED: &str = "gitfleet.io/paused";

/// Written on inventories: the snapshot that was rolled back or rejected and is not rolled out again, as JSON; survives a lost store.
pub const HELD: &str = "gitfleet.io/held";
/// Written on an inventory: the index of the snapshot that the member holds completely.
pub const SNAPSHOT_INDEX: &str = "gitfleet.io/snapshot-index";
/// Written on an inventory by one of several daemons on one database: the epoch of the leader that wrote it. Nothing reads it but people.
pub const EPOCH: &str = "gitfleet.io/epoch";

/// An annotation and the rule for its value; the rule answers what a value must be.
pub type Rule = (&'static str, fn(&str) -> Result<(), String>);

/// What a placement may carry.
pub const ON_PLACEMENT: &[Rule] = &[
    (STAGED_UPDATE_STRATEGY, object_name),
    (WHEN_SUPERSEDED, |v| one_of(v, &["Replace", "Queue"])),
    (DELETION_GUARD, |v| one_of(v, &["Approve", "Off"])),
    (PROGRESS_DEADLINE, positive_duration),
    (MAX_FAILURES, count_or_percent),
    (ON_FAILURE, |v| one_of(v, &["Halt", "Rollback"])),
    (OCM_PLACEMENT, namespaced_name),
    (DECISIONS, |v| one_of(v, &["scheduled", "rolled-out"])),
    (PATH, folder),
    // Of a ResourcePlacement it must be its own: see `placement_rules`.
    (DEFAULT_NAMESPACE, namespace),
    (RENDER_FOR, |v| one_of(v, &["cluster"])),
];

/// What an override may carry.
pub const ON_OVERRIDE: &[Rule] = &[(PATH, folder)];

/// What a staged update strategy may carry.
pub const ON_STRATEGY: &[Rule] = &[
    (APPROVERS, approvers),
    (CLUSTERS_IN_NO_STAGE, |v| one_of(v, &InNoStage::ALL.map(|(name, _)| name))),
    // Checked with the stages that it names: see `stage_checks`.
    (STAGE_CHECKS, |_| Ok(())),
];

/// What a MemberCluster may carry.
pub const ON_MEMBER: &[Rule] = &[(SUSPENDED, |v| one_of(v, &["true", "false"])), (PROPERTIES, properties)];

/// What a ManagedCluster may carry.
pub const ON_MANAGED: &[Rule] = &[(SUSPENDED, |v| one_of(v, &["true", "false"])), (PROPERTIES, properties)];

/// Checks the extensions among an object's annotations against what its kind may carry.
pub fn validate(annotations: &BTreeMap<String, String>, rules: &[Rule]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in annotations.iter().filter(|(key, _)| key.starts_with(PREFIX)) {
        let path = format!("metadata.annotations.{key}");
        let Some((_, rule)) = rules.iter().find(|(name, _)| name == key) else {
            errors.push(unknown(key, path, rules));
            continue;
        };
        if let Err(wanted) = rule(value) {
            errors.push(FieldError::new(path, format!("{value:?} is not {wanted}")));
        }
    }
    errors
}

fn unknown(key: &str, path: String, rules: &[Rule]) -> FieldError {
    let error = FieldError::new(path, "unknown annotation for this kind");
    let names: Vec<&str> = rules.iter().map(|(name, _)| *name).collect();
    // Compared without the prefix: all of them share it, so any two would look alike.
    let bare = names.iter().map(|name| name.strip_prefix(PREFIX).unwrap_or(name));
    match suggest(key.strip_prefix(PREFIX).unwrap_or(key), bare) {
        Some(close) => error.hint(format!("did you mean `{PREFIX}{close}`?")),
        None if rules.is_empty() => error.hint("remove it"),
        None => error.hint(format!("known here: {}", names.join(", "))),
    }
}

/// Returns the properties that an annotation gives a cluster; values are quantities as text, numbers are written out.
///
/// # Errors
/// What the value must be, where it is something else.
pub fn parse_properties(text: &str) -> Result<BTreeMap<String, String>, String> {
    const WANTED: &str = "a JSON map of property name to quantity";
    let map: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).map_err(|_| WANTED.to_owned())?;
    map.into_iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => Ok((name, text)),
            serde_json::Value::Number(number) => Ok((name, number.to_string())),
            _ => Err(WANTED.to_owned()),
        })
        .collect()
}

/// What a run does with picked clusters that are in no stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InNoStage {
    /// It waits, as in KubeFleet.
    #[default]
    Refuse,
    /// It leaves them as they are.
    Ignore,
    /// It updates them before all stages.
    First,
    /// It updates them after all stages.
    Last,
}

impl InNoStage {
    const ALL: [(&'static str, Self); 4] =
        [("Refuse", Self::Refuse), ("Ignore", Self::Ignore), ("First", Self::First), ("Last", Self::Last)];

    /// Returns what the annotation says; any other value is refused with the commit.
    pub fn of(annotation: Option<&str>) -> Self {
        let named = Self::ALL.iter().find(|(name, _)| annotation == Some(name));
        named.map(|(_, choice)| *choice).unwrap_or_default()
    }
}

/// Returns how long a cluster of a placement may take to become available.
///
/// # Errors
/// The annotation's value, where it is no duration above zero.
pub fn progress_deadline(annotations: &BTreeMap<String, String>) -> Result<Duration, &str> {
    let Some(text) = annotations.get(PROGRESS_DEADLINE) else { return Ok(PROGRESS_DEADLINE_DEFAULT) };
    check::duration(text).filter(|duration| !duration.is_zero()).ok_or(text)
}

fn properties(text: &str) -> Result<(), String> {
    parse_properties(text).map(|_| ())
}

fn one_of(value: &str, allowed: &[&str]) -> Result<(), String> {
    if allowed.contains(&value) { Ok(()) } else { Err(format!("one of {}", allowed.join(", "))) }
}

fn object_name(value: &str) -> Result<(), String> {
    if check::is_dns_subdomain(value) { Ok(()) } else { Err("an object name".to_owned()) }
}

fn namespaced_name(value: &str) -> Result<(), String> {
    let Ok(key) = value.parse::<PlacementKey>();
    let fits = key.namespace.is_some_and(|ns| check::is_dns_label(&ns)) && check::is_dns_subdomain(&key.name);
    if fits { Ok(()) } else { Err("NAMESPACE/NAME".to_owned()) }
}

/// Spelled in one way only: paths are compared as text.
fn folder(value: &str) -> Result<(), String> {
    if value.split('/').any(|part| matches!(part, "" | "." | "..") || part.contains(['\\', '\0'])) {
        return Err("a folder as it is named from the root of the source, such as apps/production".to_owned());
    }
    Ok(())
}

fn namespace(value: &str) -> Result<(), String> {
    if check::is_dns_label(value) { Ok(()) } else { Err("the name of a namespace".to_owned()) }
}

fn positive_duration(value: &str) -> Result<(), String> {
    match check::duration(value) {
        Some(duration) if !duration.is_zero() => Ok(()),
        _ => Err("a duration such as 10m or 1h30m".to_owned()),
    }
}

fn count_or_percent(value: &str) -> Result<(), String> {
    if value.parse::<u32>().is_ok() || check::percent(value).is_some() {
        Ok(())
    } else {
        Err("a number of clusters or a percentage such as 10%".to_owned())
    }
}

fn approvers(value: &str) -> Result<(), String> {
    if value.split(',').map(str::trim).all(is_approver) {
        Ok(())
    } else {
        Err("a comma list of user:NAME, token:NAME, team:ORG/NAME and permission:write".to_owned())
    }
}

fn is_approver(entry: &str) -> bool {
    match entry.split_once(':') {
        Some(("user" | "token", name)) => !name.is_empty() && !name.contains(char::is_whitespace),
        Some(("team", team)) => team.split_once('/').is_some_and(|(org, name)| !org.is_empty() && !name.is_empty()),
        Some(("permission", level)) => matches!(level, "write" | "admin" | "maintain"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
