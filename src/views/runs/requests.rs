//! Approval requests: from the gates of runs, and from deletion gates.

use serde_json::{Map, Value, json};

use crate::objects::{PLACEMENT_API_VERSION, metadata, scoped, value};
use model::api::annotations;
use model::api::condition::{Condition, ConditionStatus};
use model::api::staged::StageTaskType;
use model::conditions::{ConditionType, Reason};
use model::records::PlacementRecord;
use model::runs::{
    Approval, Channel, DELETION_GATE, RunPhase, RunRecord, StagePhase, StageRecord, TaskRecord, request_name,
};

/// Returns the approval requests of a run: one for each requested approval, open or not.
pub fn approval_request_objects(run: &RunRecord) -> Vec<Value> {
    asked_approvals(run).map(|(stage, before, task)| approval_request_object(run, stage, before, task)).collect()
}

/// The generation of an approval request: nothing of it changes.
const GENERATION: i64 = 1;

/// Returns the approvals that a run has asked for: the stage, whether it is the gate before it, and the task.
pub fn asked_approvals(run: &RunRecord) -> impl Iterator<Item = (&StageRecord, bool, &TaskRecord)> {
    run.stages.iter().flat_map(|stage| {
        let before = stage.before.iter().map(move |task| (stage, true, task));
        let tasks = before.chain(stage.after.iter().map(move |task| (stage, false, task)));
        tasks.filter(|(_, _, task)| task.type_ == StageTaskType::Approval && task.asked_at.is_some())
    })
}

/// Returns the approval request of a gate.
pub fn approval_request_object(run: &RunRecord, stage: &StageRecord, before: bool, task: &TaskRecord) -> Value {
    let key = &run.placement;
    let mut metadata =
        metadata(key.namespace.as_deref(), &request_name(&run.name, &stage.name, super::side(before)), task.asked_at);
    metadata.insert("generation".into(), GENERATION.into());
    let labels = json!({
        "kubernetes-fleet.io/targetUpdateRun": run.name,
        "kubernetes-fleet.io/targetUpdatingStage": stage.name,
        "kubernetes-fleet.io/taskType": if before { "beforeStage" } else { "afterStage" },
        "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
    });
    metadata.insert("labels".into(), labels);
    metadata.insert("annotations".into(), json!({annotations::DIGEST: stage.digest}));
    let mut status = Map::new();
    let conditions = request_conditions(run, stage, task);
    if !conditions.is_empty() {
        status.insert("conditions".into(), value(&conditions));
    }
    json!({
        "apiVersion": PLACEMENT_API_VERSION,
        "kind": scoped(key, "ApprovalRequest"),
        "metadata": metadata,
        "spec": {"parentStageRollout": run.name, "targetStage": stage.name},
        "status": status,
    })
}

fn request_conditions(run: &RunRecord, stage: &StageRecord, task: &TaskRecord) -> Vec<Condition> {
    if run.phase.is_final() && task.done_at.is_none() {
        // Rejected was what stood before the gate at which the run ended.
        let is_its_end = matches!(stage.phase, StagePhase::WaitingBefore | StagePhase::Failed);
        let is_rejected = run.phase == RunPhase::Rejected && is_its_end;
        let reason = if is_rejected { Reason::Rejected } else { Reason::UpdateRunEnded };
        let description = super::end_message(run);
        return vec![Condition::new(
            ConditionType::Approved,
            ConditionStatus::False,
            reason,
            description,
            GENERATION,
            run.since,
        )];
    }
    let Some(last) = task.approvals.last() else { return Vec::new() };
    let description = approved_message(task);
    let Some(done_at) = task.done_at else {
        return vec![Condition::new(
            ConditionType::Approved,
            ConditionStatus::Unknown,
            Reason::MoreApprovalsNeeded,
            format!("{description}; more people must approve"),
            GENERATION,
            last.at,
        )];
    };
    vec![
        Condition::new(ConditionType::Approved, ConditionStatus::True, reason(last), description, GENERATION, last.at),
        Condition::new(
            ConditionType::ApprovalAccepted,
            ConditionStatus::True,
            Reason::ApprovalRequestApprovalAccepted,
            "the gate is open",
            GENERATION,
            done_at,
        ),
    ]
}

/// Returns the person's reason code if a condition can carry it.
///
/// Source: Kubernetes API, `metav1.Condition`.
fn reason(approval: &Approval) -> Reason {
    match approval.reason.as_deref() {
        Some(text) if is_reason(text) => Reason::from(text),
        _ => Reason::Approved,
    }
}

fn is_reason(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_,:".contains(c))
}

/// Describes who approved, through which channel, and why.
pub(super) fn approved_message(task: &TaskRecord) -> String {
    let descriptions = task.approvals.iter().map(|approval| {
        let place = match approval.by.surface {
            Channel::CommandLine => "on the command line",
            Channel::Api => "over the API",
            Channel::Comment => "in a comment",
        };
        let why: Vec<&str> = [&approval.reason, &approval.message].into_iter().flatten().map(String::as_str).collect();
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(", ")) };
        format!("approved by {} {place}{why}", approval.by.name)
    });
    descriptions.collect::<Vec<_>>().join("; ")
}

/// Returns a placement's closed deletion gate as an object of gitfleet, to list it among the approval requests.
pub fn deletion_gate_object(record: &PlacementRecord) -> Option<Value> {
    let gate = record.closed_gate()?;
    let key = &record.key;
    let mut metadata = metadata(key.namespace.as_deref(), &format!("{}-{DELETION_GATE}", key.name), Some(gate.since));
    metadata.insert("annotations".into(), json!({annotations::DIGEST: gate.digest}));
    let deletions = gate.deletions.iter().map(|(cluster, objects)| {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        (cluster.to_string(), names.into())
    });
    let mut spec = Map::from_iter([
        ("placementName".to_owned(), json!(key.name)),
        ("targetStage".to_owned(), json!(DELETION_GATE)),
        ("reason".to_owned(), json!(gate.reason)),
        ("deletions".to_owned(), Value::Object(deletions.collect())),
    ]);
    if !gate.leaving.is_empty() {
        spec.insert("leaving".to_owned(), json!(gate.leaving));
    }
    let mut status = Map::new();
    if let Some(last) = gate.approvals.last() {
        let people: Vec<&str> = gate.approvals.iter().map(|approval| approval.by.name.as_str()).collect();
        let message = format!("approved by {}; more people must approve", people.join(", "));
        let reason = Reason::MoreApprovalsNeeded;
        let condition = Condition::new(ConditionType::Approved, ConditionStatus::Unknown, reason, message, 0, last.at);
        status.insert("conditions".into(), value(&[condition]));
    }
    Some(json!({
        "apiVersion": "gitfleet.io/v1alpha1",
        "kind": "DeletionGate",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }))
}
