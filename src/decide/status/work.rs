//! The status of one placement's objects on one member: conditions of manifests and of the Work, and the lists of failed,
//! drifted and differing objects.

use jiff::Timestamp;
use serde::Serialize;

use model::api::condition::{Condition, ConditionStatus};
use model::api::placement::{ApplyStrategy, ApplyStrategyType};
use model::conditions::{ConditionType, Reason};
use model::id::ObjectId;
use model::records::{ApplyOutcome, Availability, Difference, ManifestStatus, WorkStatus};

/// Entries of each list of failed, drifted and differing objects at most, as the API limits them.
pub const LISTED_OBJECTS_MAX: usize = 100;

/// Objects that a message names; the rest is counted.
pub const NAMED_OBJECTS_MAX: usize = 3;

/// Characters of an object's own message that a message repeats.
const COMPLAINT_CHARS_MAX: usize = 160;

/// Whether a binding writes or only compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Objects are applied: the conditions are Applied and Available.
    Apply,
    /// `ReportDiff`: the condition is DiffReported.
    ReportDiff,
}

impl Mode {
    /// Returns the mode of an apply strategy.
    pub fn of(strategy: &ApplyStrategy) -> Self {
        if strategy.type_ == ApplyStrategyType::ReportDiff { Self::ReportDiff } else { Self::Apply }
    }
}

/// An object that is not in its desired state, with the condition that says so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedObject {
    /// The object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// Its Applied condition if that is false, else its Available condition.
    pub condition: Condition,
}

/// An object that drifted after it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftedObject {
    /// The object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// When exactly these fields were first observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Timestamp>,
    /// When the object was first observed to drift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_drifted_observed_time: Option<Timestamp>,
    /// The fields.
    pub observed_drifts: Vec<Difference>,
}

/// An object that differs and that gitfleet must not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffedObject {
    /// The object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// When exactly these fields were first observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Timestamp>,
    /// When the object was first observed to differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_diffed_observed_time: Option<Timestamp>,
    /// The fields.
    pub observed_diffs: Vec<Difference>,
}

/// Tells whether an object was applied.
pub fn is_applied(manifest: &ManifestStatus) -> bool {
    manifest.applied == ApplyOutcome::Applied
}

/// Tells whether an object was compared under `ReportDiff`, with any result.
pub fn is_compared(manifest: &ManifestStatus) -> bool {
    matches!(manifest.applied, ApplyOutcome::NoDiffFound | ApplyOutcome::FoundDiff)
}

/// Tells whether an applied object counts as available; an object of an untrackable kind does.
pub fn is_available(manifest: &ManifestStatus) -> bool {
    manifest.availability.is_some_and(Availability::counts_as_available)
}

/// Returns the conditions of one object: Applied and Available, or DiffReported.
///
/// Available is absent until the object is applied; under `ReportDiff` every earlier failure is `FailedToReportDiff`, and an
/// an object that was not checked yet has no condition. `since` is when it came to be so. The observed generation is that of the
/// object on the member, 0 where it is not known.
///
/// Source: KubeFleet, manifest conditions of a Work.
pub fn manifest_conditions(manifest: &ManifestStatus, mode: Mode, since: Timestamp) -> Vec<Condition> {
    let condition = |type_: ConditionType, holds: bool, reason: Reason, message: String| Condition {
        type_,
        status: if holds { ConditionStatus::True } else { ConditionStatus::False },
        reason,
        message,
        observed_generation: manifest.generation.unwrap_or_default(),
        last_transition_time: since,
    };
    let outcome = manifest.applied;
    if mode == Mode::ReportDiff {
        let (holds, reason) = match outcome {
            ApplyOutcome::Pending => return Vec::new(),
            ApplyOutcome::NoDiffFound | ApplyOutcome::FoundDiff => (true, outcome.reason()),
            _ => (false, Reason::FailedToReportDiff),
        };
        return vec![condition(
            ConditionType::DiffReported,
            holds,
            reason,
            message_or(manifest, outcome_text(outcome)),
        )];
    }
    if outcome != ApplyOutcome::Applied {
        let message = message_or(manifest, outcome_text(outcome));
        return vec![condition(ConditionType::Applied, false, outcome.reason(), message)];
    }
    // The message of an applied object is about its availability.
    let mut conditions =
        vec![condition(ConditionType::Applied, true, outcome.reason(), outcome_text(outcome).to_owned())];
    if let Some(availability) = manifest.availability {
        let (holds, reason, text) = match availability {
            Availability::Available => (true, Reason::Available, "the object is available"),
            Availability::NotTrackable => {
                (true, Reason::NotTrackable, "the object does not report whether it is available")
            }
            Availability::ManifestNotAvailableYet => {
                (false, Reason::ManifestNotAvailableYet, "the object is not available yet")
            }
            Availability::Failed => (false, Reason::ManifestNotAvailableYet, "the object failed"),
        };
        conditions.push(condition(ConditionType::Available, holds, reason, message_or(manifest, text)));
    }
    conditions
}

/// Returns the member's message about an object, or `otherwise` if there is none.
fn message_or(manifest: &ManifestStatus, otherwise: &str) -> String {
    if manifest.message.is_empty() { otherwise.to_owned() } else { manifest.message.clone() }
}

/// Returns the meaning of an outcome, as text for users.
fn outcome_text(outcome: ApplyOutcome) -> &'static str {
    match outcome {
        ApplyOutcome::Pending => "the object is about to be applied",
        ApplyOutcome::Applied => "the object is applied",
        ApplyOutcome::ManifestApplyFailed => "the API server refused the object",
        ApplyOutcome::DecodingErred => "the API server does not know the object's kind",
        ApplyOutcome::FailedToTakeOver => "another owner holds the object, or it differs and may not be taken over",
        ApplyOutcome::NotTakenOver => "the object was there before and may not be taken over",
        ApplyOutcome::FoundDrifts => "the object drifted and is left as it is",
        ApplyOutcome::FailedToRunDriftDetection => "the object was changed and could not be compared",
        ApplyOutcome::FailedToFindObjInMemberCluster => "the member did not return the object",
        ApplyOutcome::NoDiffFound => "the object is as the manifest says",
        ApplyOutcome::FoundDiff => "the object differs from the manifest",
        ApplyOutcome::FailedToReportDiff => "the object could not be compared",
    }
}

/// One result of a roll-up, before it becomes a condition with a generation and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The condition type.
    pub type_: ConditionType,
    /// Whether it holds.
    pub holds: bool,
    /// The reason, as the API spells it.
    pub reason: Reason,
    /// The message, as text for users.
    pub message: String,
}

/// Rolls up the manifests into the Work's Applied and Available, or DiffReported. A Work without manifests is applied and
/// available.
///
/// Source: KubeFleet, conditions of a Work.
pub fn work_findings(work: &WorkStatus, mode: Mode) -> Vec<Finding> {
    let all = &work.manifests;
    if mode == Mode::ReportDiff {
        let reasons = [Reason::AllManifestsDiffReported, Reason::SomeManifestsHaveNotReportedDiff];
        return vec![finding(all, ConditionType::DiffReported, reasons, "compared", is_compared)];
    }
    let reasons = [Reason::AllManifestsApplied, Reason::SomeManifestsAreNotApplied];
    let applied = finding(all, ConditionType::Applied, reasons, "applied", is_applied);
    let is_complete = applied.holds;
    let mut findings = vec![applied];
    if is_complete {
        let trackable = if all.iter().any(|m| m.availability == Some(Availability::NotTrackable)) {
            Reason::WorkNotTrackable
        } else {
            Reason::AllManifestsAvailable
        };
        let reasons = [trackable, Reason::SomeManifestsAreNotAvailable];
        findings.push(finding(all, ConditionType::Available, reasons, "available", is_available));
    }
    findings
}

/// Rolls up one fact about objects: it holds if it is true of all of them. It has one reason for either case.
fn finding(
    all: &[ManifestStatus],
    type_: ConditionType,
    [holding, failing]: [Reason; 2],
    verb: &str,
    is_true_of: fn(&ManifestStatus) -> bool,
) -> Finding {
    let done = all.iter().filter(|m| is_true_of(m)).count();
    if done == all.len() {
        let message = format!("{} {verb}", objects(all.len()));
        return Finding { type_, holds: true, reason: holding, message };
    }
    let others = named(all.iter().filter(|m| !is_true_of(m)));
    let message = format!("{done} of {} {verb}: {others}", objects(all.len()));
    Finding { type_, holds: false, reason: failing, message }
}

/// Returns the conditions of the Work, observed at the Work's generation.
///
/// Times come from the binding's conditions of the same type and status, which have the same meaning; `now` without one.
pub fn work_conditions(work: &WorkStatus, mode: Mode, binding: &[Condition], now: Timestamp) -> Vec<Condition> {
    let conditions = work_findings(work, mode).into_iter().map(|finding| {
        let status = finding.holds.into();
        let twin = binding.iter().find(|c| c.type_ == finding.type_ && c.status == status);
        let since = twin.map_or(now, |c| c.last_transition_time);
        Condition::new(finding.type_, status, finding.reason, finding.message, work.generation, since)
    });
    conditions.collect()
}

/// Returns the objects that are not applied, or applied and not available; the first [`LISTED_OBJECTS_MAX`] in the order
/// of the Work.
pub fn failed_objects(work: &WorkStatus, mode: Mode, since: Timestamp) -> Vec<FailedObject> {
    let failed = work.manifests.iter().filter_map(|manifest| {
        let conditions = manifest_conditions(manifest, mode, since);
        let condition = conditions.into_iter().find(|c| c.status == ConditionStatus::False)?;
        Some(FailedObject { id: manifest.id.clone(), condition })
    });
    failed.take(LISTED_OBJECTS_MAX).collect()
}

/// Returns the drifted objects: applied ones that differ, and those left alone because they do. Sorted before the cut to
/// [`LISTED_OBJECTS_MAX`].
pub fn drifted_objects(work: &WorkStatus) -> Vec<DriftedObject> {
    let manifests = work.manifests.iter();
    listed(manifests.filter(|m| matches!(m.applied, ApplyOutcome::Applied | ApplyOutcome::FoundDrifts)))
        .map(|m| DriftedObject {
            id: m.id.clone(),
            observation_time: m.observed_at.or(m.differs_since),
            first_drifted_observed_time: m.differs_since,
            observed_drifts: m.differences.clone(),
        })
        .collect()
}

/// Returns the objects that differ without drift: those of `ReportDiff`, and those not taken over because they differ. Sorted
/// before the cut to [`LISTED_OBJECTS_MAX`].
pub fn diffed_objects(work: &WorkStatus) -> Vec<DiffedObject> {
    let manifests = work.manifests.iter();
    listed(manifests.filter(|m| matches!(m.applied, ApplyOutcome::FoundDiff | ApplyOutcome::FailedToTakeOver)))
        .map(|m| DiffedObject {
            id: m.id.clone(),
            observation_time: m.observed_at.or(m.differs_since),
            first_diffed_observed_time: m.differs_since,
            observed_diffs: m.differences.clone(),
        })
        .collect()
}

fn listed<'a>(manifests: impl Iterator<Item = &'a ManifestStatus>) -> impl Iterator<Item = &'a ManifestStatus> {
    let mut differing: Vec<_> = manifests.filter(|m| !m.differences.is_empty()).collect();
    if differing.len() > LISTED_OBJECTS_MAX {
        differing.sort_by(|a, b| a.id.cmp(&b.id));
        differing.truncate(LISTED_OBJECTS_MAX);
    }
    differing.into_iter()
}

/// Returns `1 object` or `n objects`.
pub fn objects(count: usize) -> String {
    counted(count, "object")
}

/// Returns a count with its noun.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Names the first [`NAMED_OBJECTS_MAX`] objects with their complaints, and counts the others.
pub fn named<'a>(manifests: impl Iterator<Item = &'a ManifestStatus>) -> String {
    listing(manifests.map(|manifest| format!("{} ({})", manifest.id, complaint(manifest))))
}

/// Joins the first [`NAMED_OBJECTS_MAX`] texts, and counts the others.
pub fn listing(texts: impl Iterator<Item = String>) -> String {
    let mut texts = texts.fuse();
    let mut shown: Vec<String> = texts.by_ref().take(NAMED_OBJECTS_MAX).collect();
    let rest = texts.count();
    if rest > 0 {
        shown.push(format!("and {rest} more"));
    }
    shown.join(", ")
}

/// Returns one line about why an object is not in its desired state.
pub fn complaint(manifest: &ManifestStatus) -> String {
    let reason = match (manifest.applied, manifest.availability) {
        (ApplyOutcome::Applied, Some(Availability::ManifestNotAvailableYet)) => {
            Reason::ManifestNotAvailableYet.to_string()
        }
        (ApplyOutcome::Applied, Some(Availability::Failed)) => "failed".to_owned(),
        (ApplyOutcome::Applied, None) => "availability not known yet".to_owned(),
        (outcome, _) => outcome.reason().to_string(),
    };
    let message = manifest.message.lines().next().unwrap_or_default();
    if message.is_empty() {
        return reason;
    }
    let cut: String = message.chars().take(COMPLAINT_CHARS_MAX).collect();
    let dots = if cut.len() < message.len() { "…" } else { "" };
    format!("{reason}: {cut}{dots}")
}

#[cfg(test)]
mod tests;
