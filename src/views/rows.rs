//! What our own tables say of an object beyond its fields: facts that are added to its line.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fleet::FleetView;
use super::objects::{eviction_objects, resource_snapshot_objects};
use super::runs::{approval_request_object, asked_approvals, deletion_gate_object, run_object};
use super::table::{TableKind, line_of, text};
use super::tree::who_may;
use decide::status::staged_run::{approve_line, asks, check_summaries, closed_gates, current_stage, run_word};
use model::api::condition::{ConditionStatus, find_condition};
use model::conditions::ConditionType;
use model::id::ClusterName;
use model::records::{Binding, ClusterRecord, EvictionRecord, MemberKind, PlacementRecord, ResourceSnapshot};
use model::runs::{ClusterPhase, DELETION_GATE, DELETION_STAGE, RunPhase, RunRecord, StagePhase, StageRecord};

/// The state of what waits for somebody.
const WAITS: &str = "waiting";

/// Returns in a word whether a cluster can be delivered to.
pub fn cluster_state(cluster: &ClusterRecord) -> &'static str {
    match cluster {
        ClusterRecord { left: true, .. } => "left",
        ClusterRecord { kind: MemberKind::Unreachable, .. } => "no access",
        cluster if cluster.is_suspended() => "suspended",
        ClusterRecord { online: true, .. } => "online",
        cluster if cluster.has_answered() => "offline",
        _ => "never answered",
    }
}

/// Counts the placements that picked a cluster, and those of them that it does not have up to date.
pub fn cluster_counts(fleet: &FleetView, cluster: &ClusterName) -> (usize, usize) {
    let held = fleet.placements.values().filter_map(|placed| placed.is_up_to_date_on(fleet, cluster));
    held.fold((0, 0), |(picked, behind), is_up_to_date| (picked + 1, behind + usize::from(!is_up_to_date)))
}

/// Returns the line of a snapshot. `newest` is the placement's newest; `subject` is that of the commit.
pub fn snapshot_line(
    snapshot: &ResourceSnapshot,
    placement: Option<&PlacementRecord>,
    bindings: &[Arc<Binding>],
    newest: Option<u64>,
    subject: Option<&str>,
) -> Value {
    let master = resource_snapshot_objects(snapshot, newest == Some(snapshot.index)).swap_remove(0);
    let mut line = line_of(TableKind::Snapshots, &master);
    let clusters = bindings.iter().filter(|binding| binding.snapshot == Some(snapshot.index) && !binding.deleting);
    let clusters = clusters.count();
    line["snapshot"] = json!({
        "index": snapshot.index, "commit": snapshot.commit, "objects": snapshot.resources.len(), "clusters": clusters,
        "state": snapshot_state(snapshot, placement, newest, clusters), "subject": subject,
    });
    line
}

/// Returns in a word what a snapshot is to its placement.
pub fn snapshot_state(
    snapshot: &ResourceSnapshot,
    placement: Option<&PlacementRecord>,
    newest: Option<u64>,
    clusters: usize,
) -> &'static str {
    let held = placement.and_then(|record| record.held.as_ref());
    let wanted = placement.and_then(|record| record.goal).or(newest);
    if held.is_some_and(|held| held.index == snapshot.index || held.hash == snapshot.hash) {
        "held"
    } else if wanted == Some(snapshot.index) {
        "current"
    } else if clusters > 0 {
        "in use"
    } else {
        "earlier"
    }
}

/// Returns the line of a run. `snapshots` are those of its placement, which `is_shared` and `record` are about: as in
/// [`decide::status::placement::PlacementView`].
pub fn run_line(
    run: &RunRecord,
    record: Option<&PlacementRecord>,
    is_shared: bool,
    snapshots: Option<&BTreeMap<u64, Arc<ResourceSnapshot>>>,
    now: Timestamp,
) -> Value {
    let mut line = line_of(TableKind::Runs, &run_object(run, now));
    let snapshot = run.snapshot();
    let commit = snapshot.and_then(|index| snapshots?.get(&index)).map(|snapshot| &snapshot.commit);
    let is_moving = run.frozen.is_some() && !run.phase.is_final();
    let stage = if is_moving { current_stage(run) } else { None };
    let stage = stage.map(|stage| if stage.name == DELETION_STAGE { DELETION_GATE } else { stage.name.as_str() });
    let clusters = run.stages.iter().map(|stage| stage.clusters.len()).sum::<usize>();
    let done = run.stages.iter().flat_map(|stage| &stage.clusters);
    let done = done.filter(|cluster| cluster.phase == ClusterPhase::Succeeded).count();
    line["run"] = json!({
        "snapshot": snapshot, "commit": commit, "stage": stage, "done": done, "clusters": clusters,
        "state": run_state(run), "waitsFor": waits_for(run, record, is_shared),
    });
    line
}

/// Returns the phase of a run in words.
pub fn run_state(run: &RunRecord) -> &'static str {
    match run.phase {
        RunPhase::Pending if run.refused => "refused",
        RunPhase::Pending => "queued",
        RunPhase::Initialized => "prepared",
        RunPhase::Updating => "in progress",
        RunPhase::Waiting => WAITS,
        RunPhase::Halted => "halted",
        RunPhase::Stopping => "stopping",
        RunPhase::Stopped => "stopped",
        RunPhase::Succeeded => "done",
        RunPhase::Failed => "failed",
        RunPhase::Superseded => "superseded",
        RunPhase::RolledBack => "rolled back",
        RunPhase::Rejected => "rejected",
    }
}

/// Describes what a run waits for: commands to copy where a person can help.
fn waits_for(run: &RunRecord, record: Option<&PlacementRecord>, is_shared: bool) -> String {
    if record.is_some_and(|record| record.removed) && !run.phase.is_final() {
        return "its placement, which git has no longer".to_owned();
    }
    match run.phase {
        RunPhase::Waiting => {
            let gates = closed_gates(run).into_iter().map(|gate| match gate.opens_at() {
                Some(at) => format!("until {at:.0}"),
                None => approve_line(run, &gate, record, is_shared),
            });
            let checks = run.waiting_checks().into_iter().flat_map(|(_, checks)| check_summaries(checks));
            let all: Vec<String> =
                gates.chain(checks.map(|check| format!("{} ({})", check.wanted, check.state))).collect();
            all.join("; ")
        }
        RunPhase::Halted => format!("gitfleet retry {}", run_word(run, is_shared)),
        RunPhase::Initialized => "`state: Run` in its document".to_owned(),
        RunPhase::Pending | RunPhase::Stopped => run.message.clone(),
        _ => String::new(),
    }
}

/// Returns the lines of a run's approval requests. `record` is that of its placement, `approvers` are those of the configuration.
pub fn approval_lines(run: &RunRecord, record: Option<&PlacementRecord>, approvers: Option<&str>) -> Vec<Value> {
    let asks_nobody = record.is_some_and(|record| !asks(record, run));
    let lines = asked_approvals(run).map(|(stage, before, task)| {
        let mut line = line_of(TableKind::Approvals, &approval_request_object(run, stage, before, task));
        let state = match (task.done_at, run.phase) {
            (Some(_), _) => "approved",
            (None, RunPhase::Rejected) => "rejected",
            (None, phase) if phase.is_final() => "ended",
            // An approval alone would let nothing continue.
            _ if asks_nobody => "stopped",
            _ if task.expired => "expired",
            _ if task.approvals.is_empty() => WAITS,
            _ => "more needed",
        };
        line["approval"] = json!({
            "state": state, "when": if before { "before" } else { "after" }, "clusters": opened(run, stage, before),
            "digest": stage.digest.short(), "who": who_may(run.approvers.as_deref(), approvers),
        });
        line
    });
    lines.collect()
}

/// Counts the clusters that a gate holds back: those of its stage, or of the next that has any.
fn opened(run: &RunRecord, stage: &StageRecord, before: bool) -> usize {
    if before || stage.phase == StagePhase::WaitingBefore {
        return stage.clusters.len();
    }
    let later = run.stages.iter().skip_while(|other| other.name != stage.name).skip(1);
    later.map(|stage| stage.clusters.len()).find(|count| *count > 0).unwrap_or(0)
}

/// Returns the line of a placement's closed deletion gate.
pub fn deletion_gate_line(record: &PlacementRecord, approvers: Option<&str>) -> Option<Value> {
    let gate = record.closed_gate()?;
    let mut line = line_of(TableKind::Approvals, &deletion_gate_object(record)?);
    line["approval"] = json!({
        "state": if gate.approvals.is_empty() { WAITS } else { "more needed" },
        "clusters": gate.deletions.keys().chain(&gate.leaving).count(), "digest": gate.digest.short(),
        "who": who_may(gate.approvers.as_deref(), approvers),
    });
    Some(line)
}

/// Tells whether a line of an approval is of one that is pending.
pub fn is_waiting(line: &Value) -> bool {
    matches!(line["approval"]["state"].as_str(), Some(WAITS | "more needed"))
}

/// Returns the lines of a placement's evictions.
pub fn eviction_lines(record: &PlacementRecord) -> Vec<Value> {
    let mut lines = Vec::new();
    for (object, eviction) in eviction_objects(record).iter().zip(record.evictions.values()) {
        let mut line = line_of(TableKind::Evictions, object);
        let (state, reason) = eviction_state(eviction);
        line["eviction"] = json!({"state": state, "reason": reason});
        lines.push(line);
    }
    lines
}

/// Returns in words what became of an eviction, and why.
fn eviction_state(eviction: &EvictionRecord) -> (&'static str, &str) {
    let valid = find_condition(&eviction.conditions, &ConditionType::Valid);
    let executed = find_condition(&eviction.conditions, &ConditionType::Executed);
    match (valid, executed) {
        (Some(valid), _) if valid.status == ConditionStatus::False => ("invalid", &valid.message),
        (_, Some(executed)) if executed.status == ConditionStatus::True => ("executed", &executed.message),
        (_, Some(executed)) => ("blocked", &executed.message),
        (_, None) => ("not evaluated", ""),
    }
}

/// Returns what tells whether two lines say the same: a cluster that answers was always seen just now.
pub fn without_heartbeat(line: &Value) -> Value {
    let mut line = line.clone();
    if let Some(agent) = line.pointer_mut("/status/agentStatus/0") {
        agent["lastReceivedHeartbeat"] = Value::Null;
    }
    for property in line.pointer_mut("/status/properties").and_then(Value::as_object_mut).into_iter().flatten() {
        property.1["observationTime"] = Value::Null;
    }
    line
}

/// Returns the key that no other line of a listing has: kind, namespace and name.
pub fn line_key(line: &Value) -> (String, String, String) {
    let metadata = &line["metadata"];
    (text(line.get("kind")), text(metadata.get("namespace")), text(metadata.get("name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Case, CaseStatus as _, at, cluster, run_at_approval, run_in_production};
    use crate::table::{Columns, table};

    fn shown(kind: TableKind, lines: &[Value], wide: bool) -> String {
        let table = table(kind, Columns::Own, lines, wide, at(7200));
        let rows = std::iter::once(&table.headers).chain(&table.rows);
        rows.map(|row| row.join(" | ").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn runs_say_what_they_wait_for() {
        let case = Case::healthy(&["east"]);
        let mut waiting = run_at_approval();
        waiting.name = "web-4".into();
        let snapshots = BTreeMap::from([(3, Arc::new(case.snapshot.clone().expect("a snapshot")))]);
        let lines = [&run_in_production(), &waiting].map(|run| run_line(run, None, false, Some(&snapshots), at(60)));
        insta::assert_snapshot!(shown(TableKind::Runs, &lines, false), @r"
        NAME | PLACEMENT | SNAPSHOT | COMMIT | STAGE | CLUSTERS | STATE | AGE | WAITS-FOR
        web-3 | web | 3 | 1a2b3c4 | production | 3/4 | in progress | 120m |
        web-4 | web | 3 | 1a2b3c4 | canary | 3/4 | waiting | 120m | gitfleet approve web-4 canary
        ");
    }

    #[test]
    fn approvals_say_who_may() {
        let mut case = Case::healthy(&["east"]);
        case.gate(&["east"]);
        let mut waiting = run_at_approval();
        waiting.name = "web-4".into();
        let mut lines = approval_lines(&run_in_production(), None, None);
        lines.extend(approval_lines(&waiting, None, Some("user:ann")));
        lines.extend(deletion_gate_line(&case.record, None));
        insta::assert_snapshot!(shown(TableKind::Approvals, &lines, false), @r"
        NAME | STATE | STAGE | WHEN | CLUSTERS | SINCE | DIGEST | WHO
        web-3-after-canary | approved | canary | after | 1 | 119m | canary-0a1b2 | anybody who may command the daemon
        web-4-after-canary | waiting | canary | after | 1 | 119m | canary-0a1b2 | user:ann by comment, or a token of the API
        web-deletion | waiting | deletion |  | 1 | 120m | 9f8e7d6c5b4a | anybody who may command the daemon
        ");
        assert_eq!(lines.iter().map(is_waiting).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn snapshots_say_where_they_are() {
        let case = Case::healthy(&["east", "west"]);
        let snapshot = case.snapshot.as_ref().expect("a snapshot");
        let earlier = ResourceSnapshot { index: 2, ..snapshot.clone() };
        let subject = Some("Bump the image");
        let lines = [&earlier, snapshot]
            .map(|snapshot| snapshot_line(snapshot, Some(&case.record), &case.bindings, Some(3), subject));
        insta::assert_snapshot!(shown(TableKind::Snapshots, &lines, false), @r"
        NAME | INDEX | COMMIT | OBJECTS | CLUSTERS | STATE | AGE | SUBJECT
        web-2-snapshot | 2 | 1a2b3c4 | 2 | 0 | earlier | 120m | Bump the image
        web-3-snapshot | 3 | 1a2b3c4 | 2 | 2 | current | 120m | Bump the image
        ");
    }

    #[test]
    fn clusters_are_in_one_state() {
        let online = cluster("east", true);
        let mut offline = cluster("west", false);
        offline.answered = true;
        let mut never = offline.clone();
        never.answered = false;
        never.properties.clear();
        let mut unnamed = offline.clone();
        unnamed.kind = MemberKind::Unreachable;
        let mut left = online.clone();
        left.left = true;
        let mut suspended = offline.clone();
        suspended.message = Some(model::records::SUSPENDED_WORDS.to_owned());
        let states = [&online, &offline, &never, &unnamed, &left, &suspended].map(cluster_state);
        assert_eq!(states, ["online", "offline", "never answered", "no access", "left", "suspended"]);
    }
}
