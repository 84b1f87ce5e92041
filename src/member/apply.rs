//! Executes one delivery step on a member.

use std::sync::Arc;

use serde_json::Value;

use crate::decryption::Decryption;
use cluster::{ApplyOptions, Deletion, Error, Target};
use deliver::health::HealthRules;
use deliver::inventory::{NAMESPACE, PART_OF_LABEL, Parent, applyset_id, labelled, parent_name, stored};
use deliver::live::{LiveObject, foreign_owner};
use deliver::plan::owned_by_another;
use deliver::progress::Attempt;
use deliver::step::Step;
use deliver::step::{Found, ObservedVersion};
use engine::member::Task;
use engine::member::result::{Answer, StepResult, tried};
use model::api::placement::{ApplyStrategyType, ComparisonOption, WhenToApply, WhenToTakeOver};
use model::diff::{differences, missing_object};
use model::id::ObjectId;
use model::records::{ApplyOutcome, Difference};
use model::work::{Desired, WorkOrder};
use system::clock;

use super::Common;
use super::presence::Presence;

/// What is shown instead of values of an object that the source has encrypted.
const ENCRYPTED: &str = "(encrypted in the source)";

/// HTTP status of a conflict: another manager owns a field.
const CONFLICT: u16 = 409;

/// What is where an object is to be written.
enum TakeOver {
    /// Nothing.
    Absent,
    /// An object that may be written.
    Allowed,
    /// An object that may not be written, for this reason.
    Refused(Answer),
}

/// Says in the log that an object of the member was written. What it holds may be secret, and is not said.
fn log_write(order: &WorkOrder, id: &ObjectId, action: &'static str) {
    tracing::debug!(
        action,
        group = id.group,
        kind = id.kind,
        namespace = id.namespace,
        name = id.name,
        snapshot = order.snapshot,
        commit = order.commit.as_str(),
        "object written"
    );
}

/// Executes a step. `presence` is shared by the steps of one plan. Objects are written as the user of the order, where it has one, and
/// the inventory as gitfleet's own account.
///
/// # Cancel safety
/// May be dropped: a request may have been sent, and the next plan finds out by reading the object.
pub async fn perform(
    target: &dyn Target,
    common: &Common,
    presence: &Presence,
    Task { order, step, before }: Task,
) -> StepResult {
    let order = order.as_ref();
    let is_inventory = matches!(step, Step::WriteParent(_) | Step::DeleteParent);
    let user = if is_inventory { None } else { order.user.as_deref() };
    let other = match user.map(|user| target.acting_as(user)).transpose() {
        Ok(other) => other.flatten(),
        Err(error) => return StepResult::Offline(error.to_string()),
    };
    let target = other.as_deref().unwrap_or(target);
    match step {
        Step::WriteParent(parent) => write_parent(target, order, *parent).await,
        Step::DeleteParent => delete_parent(target, order).await,
        Step::Delete { object } => match delete(target, &common.health, order, object).await {
            Ok(result) => result,
            Err(error) if error.is_offline() => StepResult::Offline(error.to_string()),
            Err(error) => StepResult::DeleteFailed { message: format!("cannot be pruned: {error}") },
        },
        Step::Release { object, release } => match target.release(&object.id, &object.uid.to_string(), release).await {
            Ok(()) => {
                tracing::info!(object = %object.id, "given up; it stays");
                log_write(order, &object.id, "released");
                StepResult::Deleted { key: object.id.key(), uid: object.uid, gone: true }
            }
            Err(error) if error.is_offline() => StepResult::Offline(error.to_string()),
            Err(error) => StepResult::DeleteFailed { message: format!("cannot be given up: {error}") },
        },
        Step::Apply { position, put_back, probe } => {
            let desired = match common.decryption.reveal(&order.manifests[position]).await {
                Ok(desired) => desired,
                Err(why) => {
                    let answer = Answer::refused(ApplyOutcome::ManifestApplyFailed, why);
                    return conclude(&order.manifests[position], Ok(answer), put_back, before.as_deref());
                }
            };
            let probe = probe.then_some(presence);
            let answer = apply(target, &common.health, order, &desired, probe).await;
            if put_back {
                tracing::warn!(object = %desired.id, "changed by somebody else; put back");
            }
            conclude(&desired, answer, put_back, before.as_deref())
        }
        Step::ShowDrift { position, seen } => {
            show_drift(target, &common.decryption, order, &order.manifests[position], seen).await
        }
        Step::Compare { position } => {
            let desired = &order.manifests[position];
            let answer = match common.decryption.reveal(desired).await {
                Ok(desired) => compare(target, order, &desired).await,
                Err(why) => Ok(Answer::refused(ApplyOutcome::FailedToReportDiff, why)),
            };
            conclude(desired, answer, false, before.as_deref())
        }
    }
}

/// Deletes an object as it was listed. One that changed since is read instead: another placement may have taken it over meanwhile.
async fn delete(
    target: &dyn Target,
    health: &HealthRules,
    order: &WorkOrder,
    object: LiveObject,
) -> Result<StepResult, Error> {
    let version = Some(object.resource_version).filter(|version| *version > 0);
    let key = object.id.key();
    let uid = object.uid.clone();
    let deletion = target.delete(&object.id, &uid.to_string(), version).await?;
    if deletion != Deletion::Changed {
        tracing::info!(object = %object.id, "pruned");
        log_write(order, &object.id, "deleted");
        return Ok(StepResult::Deleted { key, uid, gone: deletion == Deletion::Gone });
    }
    let there = target.get(&object.id).await?.and_then(|there| LiveObject::read(&there, health));
    let there = there.filter(|live| !live.applyset.is_empty());
    Ok(there.map_or(StepResult::Deleted { key, uid, gone: true }, |live| StepResult::Changed { live }))
}

async fn write_parent(target: &dyn Target, order: &WorkOrder, parent: Parent) -> StepResult {
    let object = parent.object(&order.placement);
    // By force: otherwise one field that somebody edited would be a conflict and end all deliveries of the placement.
    match target.apply(&object, ApplyOptions { force: true, dry_run: false }).await {
        Ok(answer) => {
            log_write(order, &inventory(order), "applied");
            StepResult::Parent(Some(parent), version_of(&answer))
        }
        Err(error) if error.is_offline() => StepResult::Offline(error.to_string()),
        Err(error) => StepResult::ParentFailed(format!("the inventory cannot be written: {error}")),
    }
}

/// Returns the resource version of an object; 0 where it has none.
pub(super) fn version_of(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Returns the identity of the inventory of an order.
fn inventory(order: &WorkOrder) -> ObjectId {
    ObjectId {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: NAMESPACE.into(),
        name: parent_name(&order.placement),
        ..ObjectId::default()
    }
}

async fn delete_parent(target: &dyn Target, order: &WorkOrder) -> StepResult {
    let id = inventory(order);
    let uid = match target.get(&id).await {
        Ok(None) => return StepResult::Parent(None, 0),
        Ok(Some(object)) => object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Err(error) if error.is_offline() => return StepResult::Offline(error.to_string()),
        Err(error) => return StepResult::ParentFailed(error.to_string()),
    };
    match target.delete(&id, &uid, None).await {
        Ok(_) => {
            log_write(order, &id, "deleted");
            StepResult::Parent(None, 0)
        }
        Err(error) if error.is_offline() => StepResult::Offline(error.to_string()),
        Err(error) => StepResult::ParentFailed(format!("the inventory cannot be removed: {error}")),
    }
}

/// Applies an object. With `probe` it is not known to be gitfleet's: what is there is found out first.
async fn apply(
    target: &dyn Target,
    health: &HealthRules,
    order: &WorkOrder,
    desired: &Desired,
    probe: Option<&Presence>,
) -> Result<Answer, Error> {
    let found = match probe {
        Some(presence) => probe_take_over(target, presence, order, desired).await?,
        None => TakeOver::Allowed,
    };
    let action = match found {
        TakeOver::Absent => "created",
        TakeOver::Allowed => "changed",
        TakeOver::Refused(refusal) => return Ok(refusal),
    };
    let force = match order.strategy.type_ {
        ApplyStrategyType::ServerSideApply => order.strategy.server_side_apply_config.is_some_and(|c| c.force),
        // A client-side apply overwrites foreign changes: a conflict would refuse what KubeFleet applies.
        ApplyStrategyType::ClientSideApply | ApplyStrategyType::ReportDiff => true,
    };
    let object = match labelled(&desired.object, &order.placement, &order.source.name, &desired.digest) {
        Ok(object) => object,
        Err(why) => return Ok(Answer::refused(ApplyOutcome::ManifestApplyFailed, why)),
    };
    match target.apply(&object, ApplyOptions { force, dry_run: false }).await {
        Ok(answer) => {
            log_write(order, &desired.id, action);
            Ok(Answer {
                outcome: ApplyOutcome::Applied,
                message: String::new(),
                live: LiveObject::read(&answer, health),
                differences: added(order, desired, &answer),
            })
        }
        Err(error) if error.is_offline() => Err(error),
        Err(error) => Ok(Answer::refused(refusal(&error), error_message(desired, &error))),
    }
}

/// Returns the outcome of an apply that failed.
///
/// Source: KubeFleet, which tells a kind that the member does not know from an object that it refuses.
fn refusal(error: &Error) -> ApplyOutcome {
    match error {
        Error::UnknownKind { .. } => ApplyOutcome::DecodingErred,
        _ => ApplyOutcome::ManifestApplyFailed,
    }
}

/// Returns an API server's error without text that may contain a Secret's data: complaints about a field quote its value. A
/// conflict names only fields and managers.
fn error_message(desired: &Desired, error: &Error) -> String {
    match error {
        Error::Refused { object, code, reason, .. }
            if (is_secret(desired) || desired.encrypted.is_some()) && *code != CONFLICT =>
        {
            format!(
                "{object}: the API server refused it ({code} {reason}); its message is withheld, because it may repeat \
                 secret data"
            )
        }
        error => error.to_string(),
    }
}

fn is_secret(desired: &Desired) -> bool {
    desired.id.group.is_empty() && desired.id.kind == "Secret"
}

/// Compares a member's object with its manifest, for people: nothing that the source has encrypted is shown.
fn compared(desired: &Desired, manifest: &Value, live: &Value, how: ComparisonOption) -> Vec<Difference> {
    let mut found = differences(manifest, live, how, is_secret(desired));
    if desired.encrypted.is_some() {
        for value in found.iter_mut().flat_map(|one| [&mut one.value_in_member, &mut one.value_in_hub]).flatten() {
            ENCRYPTED.clone_into(value);
        }
    }
    found
}

/// Reads how an object of gitfleet differs from its manifest.
async fn show_drift(
    target: &dyn Target,
    decryption: &Decryption,
    order: &WorkOrder,
    desired: &Desired,
    seen: ObservedVersion,
) -> StepResult {
    let key = Arc::clone(&desired.key);
    let manifest = desired.digest.clone();
    let desired = match decryption.reveal(desired).await {
        Ok(desired) => desired,
        Err(why) => return StepResult::Drift { key, manifest, seen, found: Err(why) },
    };
    let found = match target.get(&desired.id).await {
        Ok(Some(live)) => found(target, order, &desired, &live).await,
        // The watch reports the same.
        Ok(None) => Ok(Found { drifted: true, differences: vec![missing_object()] }),
        Err(error) => Err(error),
    };
    let found = match found {
        Err(error) if error.is_offline() => return StepResult::Offline(error.to_string()),
        found => found.map_err(|error| error_message(&desired, &error)),
    };
    StepResult::Drift { key, manifest, seen, found }
}

/// Compares an object of gitfleet. Only the fields of the manifest decide whether it drifted: values that an API server fills
/// in are no drift.
async fn found(target: &dyn Target, order: &WorkOrder, desired: &Desired, live: &Value) -> Result<Found, Error> {
    let is_full = order.strategy.comparison_option == ComparisonOption::FullComparison;
    let mut found = Found::default();
    // A full comparison also shows values that the API server filled in: it cannot tell whether the object drifted.
    if !is_full || order.strategy.when_to_apply == WhenToApply::IfNotDrifted {
        // By force: a field that another manager took must be a difference, not an error.
        let merged = target.apply(&stored(&desired.object), ApplyOptions { force: true, dry_run: true }).await?;
        found.differences = compared(desired, &merged, live, ComparisonOption::PartialComparison);
        found.drifted = !found.differences.is_empty();
    }
    if is_full {
        found.differences = added(order, desired, live);
    }
    Ok(found)
}

/// Returns the differences between an applied object and its manifest, if the placement asks for a full comparison.
///
/// Source: KubeFleet, `comparisonOption: FullComparison` compares again after an apply.
fn added(order: &WorkOrder, desired: &Desired, live: &Value) -> Vec<Difference> {
    if order.strategy.comparison_option != ComparisonOption::FullComparison {
        return Vec::new();
    }
    compared(desired, &stored(&desired.object), live, ComparisonOption::FullComparison)
}

/// Reads what is there before the write.
async fn probe_take_over(
    target: &dyn Target,
    presence: &Presence,
    order: &WorkOrder,
    desired: &Desired,
) -> Result<TakeOver, Error> {
    // Whoever leaves what is there alone asks for each object just before.
    if order.strategy.when_to_take_over == WhenToTakeOver::Always && presence.lacks(target, &desired.id).await {
        return Ok(TakeOver::Absent);
    }
    let live = match target.get(&desired.id).await {
        Ok(None) => return Ok(TakeOver::Absent),
        Ok(Some(live)) => live,
        Err(error) if error.is_offline() => return Err(error),
        Err(error) => {
            let outcome = match error {
                Error::UnknownKind { .. } => ApplyOutcome::DecodingErred,
                _ => ApplyOutcome::FailedToFindObjInMemberCluster,
            };
            return Ok(TakeOver::Refused(Answer::refused(outcome, error.to_string())));
        }
    };
    let label = live.pointer("/metadata/labels").and_then(|labels| labels.get(PART_OF_LABEL)?.as_str());
    // It belongs to gitfleet: an earlier apply succeeded, and neither its answer nor a watch event has arrived yet.
    if label == Some(&applyset_id(&order.placement)) {
        return Ok(TakeOver::Allowed);
    }
    // In KubeFleet's order: an object with another owner fails for that reason, whether it differs or not.
    if !order.strategy.allow_co_ownership
        && let Some(owner) = foreign_owner(&live)
    {
        let message = owned_by_another(&owner);
        return Ok(TakeOver::Refused(Answer::refused(ApplyOutcome::FailedToTakeOver, message)));
    }
    if order.strategy.when_to_take_over == WhenToTakeOver::Always {
        return Ok(TakeOver::Allowed);
    }
    if order.strategy.when_to_take_over == WhenToTakeOver::Never {
        let message = "it was there before; whenToTakeOver Never leaves it".to_owned();
        return Ok(TakeOver::Refused(Answer::refused(ApplyOutcome::NotTakenOver, message)));
    }
    let found = match compare_with(target, order, desired, &live).await {
        Ok(found) => found,
        Err(error) if error.is_offline() => return Err(error),
        Err(error) => {
            return Ok(TakeOver::Refused(Answer::refused(refusal(&error), error_message(desired, &error))));
        }
    };
    if found.is_empty() {
        return Ok(TakeOver::Allowed);
    }
    let message = "it was there before and differs; whenToTakeOver IfNoDiff leaves it".to_owned();
    Ok(TakeOver::Refused(Answer { differences: found, ..Answer::refused(ApplyOutcome::FailedToTakeOver, message) }))
}

/// Compares for `ReportDiff`: with a dry run, so that defaults are no differences.
async fn compare(target: &dyn Target, order: &WorkOrder, desired: &Desired) -> Result<Answer, Error> {
    let failed = |error: Error| {
        if error.is_offline() {
            Err(error)
        } else {
            Ok(Answer::refused(ApplyOutcome::FailedToReportDiff, error_message(desired, &error)))
        }
    };
    let live = match target.get(&desired.id).await {
        Ok(live) => live,
        Err(error) => return failed(error),
    };
    let found = match live {
        None => vec![missing_object()],
        Some(live) => match compare_with(target, order, desired, &live).await {
            Ok(found) => found,
            Err(error) => return failed(error),
        },
    };
    let outcome = if found.is_empty() { ApplyOutcome::NoDiffFound } else { ApplyOutcome::FoundDiff };
    Ok(Answer { outcome, message: String::new(), live: None, differences: found })
}

async fn compare_with(
    target: &dyn Target,
    order: &WorkOrder,
    desired: &Desired,
    live: &Value,
) -> Result<Vec<Difference>, Error> {
    match order.strategy.comparison_option {
        ComparisonOption::FullComparison => {
            Ok(compared(desired, &stored(&desired.object), live, ComparisonOption::FullComparison))
        }
        ComparisonOption::PartialComparison => {
            let merged = target.apply(&stored(&desired.object), ApplyOptions { force: true, dry_run: true }).await?;
            Ok(compared(desired, &merged, live, ComparisonOption::PartialComparison))
        }
    }
}

fn conclude(desired: &Desired, answer: Result<Answer, Error>, put_back: bool, before: Option<&Attempt>) -> StepResult {
    match answer {
        // Errors about this object alone were answers above: the remaining ones mean that the member does not answer.
        Err(error) => StepResult::Offline(error.to_string()),
        Ok(answer) => tried(desired, answer, put_back, before, clock::now()),
    }
}
