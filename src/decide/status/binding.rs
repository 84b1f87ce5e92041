//! Conditions of a binding: the progress of one placement on one cluster.
//!
//! gitfleet's one [`WorkStatus`] replaces all KubeFleet Works of the placement on that cluster.

use jiff::Timestamp;

use super::work::{self, Finding, Mode};
use model::api::condition::{Condition, ConditionStatus, find_condition, set_condition};
use model::api::placement::ApplyStrategyType;
use model::conditions::{ConditionType, Reason};
use model::records::{Availability, Binding, BindingState, Inventory, WorkStatus};

/// Conditions about content on the member. They restart with every generation: an `Available` that stayed true across two
/// generations would let the wait for untrackable objects count from the older one.
const CONTENT_TYPES: [ConditionType; 3] =
    [ConditionType::Applied, ConditionType::Available, ConditionType::DiffReported];

/// Returns the binding's conditions, in the order of the chain; the chain ends at the first that does not hold.
///
/// - RolloutStarted: the value that the rollout wrote for this generation; otherwise it follows from the state.
/// - Overridden: the value written for this generation; otherwise no override was specified.
/// - WorkSynchronized: false if the work as a whole failed.
/// - Applied, Available, or DiffReported: rolled up from the objects, once every step of this generation was executed.
///
/// A binding that is being deleted keeps its conditions. A transition time changes only with the status; Available starts when
/// the objects became available. `member_online` only changes the wording: an offline cluster keeps its last observed
/// conditions.
///
/// Source: KubeFleet's work generator.
pub fn binding_conditions(
    binding: &Binding,
    work: Option<&WorkStatus>,
    member_online: bool,
    now: Timestamp,
) -> Vec<Condition> {
    if binding.deleting {
        return binding.conditions.clone();
    }
    let mut findings = vec![rollout_started(binding)];
    if binding.state != BindingState::Scheduled && binding.snapshot.is_some() {
        findings.extend(delivery_findings(binding, work, member_online));
    }
    let available_since = work.filter(|w| w.generation == binding.generation).and_then(|w| w.available_since);
    let mut conditions: Vec<Condition> = findings.iter().filter_map(|f| base(binding, &f.type_)).cloned().collect();
    for finding in findings {
        let begins = if finding.type_ == ConditionType::Available && finding.holds {
            available_since.unwrap_or(now)
        } else {
            now
        };
        let Finding { type_, holds, reason, message } = finding;
        let generation = binding.generation;
        set_condition(&mut conditions, Condition::new(type_, holds, reason, message, generation, begins));
    }
    in_chain_order(conditions)
}

/// Returns the work if it belongs to the binding's present generation and every step of it was executed.
pub fn settled_work<'a>(binding: &Binding, work: Option<&'a WorkStatus>) -> Option<&'a WorkStatus> {
    work.filter(|w| w.generation == binding.generation && w.complete)
}

fn base<'a>(binding: &'a Binding, type_: &ConditionType) -> Option<&'a Condition> {
    find_condition(&binding.conditions, type_)
        .filter(|c| !CONTENT_TYPES.contains(type_) || c.observed_generation == binding.generation)
}

fn in_chain_order(mut conditions: Vec<Condition>) -> Vec<Condition> {
    conditions.sort_by_key(|c| c.type_.chain_position());
    conditions
}

/// Returns the condition that another step wrote for this generation.
fn written<'a>(binding: &'a Binding, type_: &ConditionType) -> Option<&'a Condition> {
    find_condition(&binding.conditions, type_)
        .filter(|c| c.observed_generation == binding.generation && c.status != ConditionStatus::Unknown)
}

fn rollout_started(binding: &Binding) -> Finding {
    let type_ = ConditionType::RolloutStarted;
    if let Some(known) = written(binding, &type_) {
        let holds = known.status == ConditionStatus::True;
        let reason = if holds { Reason::RolloutStarted } else { Reason::RolloutNotStartedYet };
        return Finding { type_, holds, reason, message: known.message.clone() };
    }
    match (binding.state, binding.snapshot) {
        (BindingState::Bound | BindingState::Unscheduled, Some(index)) => Finding {
            type_,
            holds: true,
            reason: Reason::RolloutStarted,
            message: format!("snapshot {index} is on its way"),
        },
        _ => Finding {
            type_,
            holds: false,
            reason: Reason::RolloutNotStartedYet,
            message: "picked; the cluster's turn has not come".to_owned(),
        },
    }
}

fn delivery_findings(binding: &Binding, work: Option<&WorkStatus>, online: bool) -> Vec<Finding> {
    let overridden = overridden(binding);
    if !overridden.holds {
        return vec![overridden];
    }
    let current = work.filter(|w| w.generation == binding.generation);
    if let Some(failure) = current.and_then(|w| w.failure.as_ref()) {
        return vec![
            overridden,
            Finding {
                type_: ConditionType::WorkSynchronized,
                holds: false,
                reason: Reason::SyncWorkFailed,
                message: failure.clone(),
            },
        ];
    }
    let synchronized = Finding {
        type_: ConditionType::WorkSynchronized,
        holds: true,
        reason: Reason::AllWorkSynced,
        message: "what the cluster is to hold is computed and handed over".to_owned(),
    };
    let mut findings = vec![overridden, synchronized];
    let mode = Mode::of(&binding.apply_strategy);
    match settled_work(binding, work) {
        Some(work) => findings.extend(rolled_up(work, mode, online)),
        None => findings.push(in_progress(current, mode, online)),
    }
    findings
}

fn overridden(binding: &Binding) -> Finding {
    let type_ = ConditionType::Overridden;
    match written(binding, &type_) {
        Some(known) if known.status == ConditionStatus::False => {
            Finding { type_, holds: false, reason: Reason::OverriddenFailed, message: known.message.clone() }
        }
        Some(known) if known.reason == Reason::OverriddenSucceeded => {
            Finding { type_, holds: true, reason: Reason::OverriddenSucceeded, message: known.message.clone() }
        }
        _ => Finding {
            type_,
            holds: true,
            reason: Reason::NoOverrideSpecified,
            message: "no override concerns this cluster".to_owned(),
        },
    }
}

fn in_progress(current: Option<&WorkStatus>, mode: Mode, online: bool) -> Finding {
    let (type_, reason, verb, done): (_, _, _, fn(&_) -> bool) = match mode {
        Mode::Apply => (ConditionType::Applied, Reason::ApplyInProgress, "applied", work::is_applied),
        Mode::ReportDiff => (ConditionType::DiffReported, Reason::DiffReportInProgress, "compared", work::is_compared),
    };
    let manifests = current.map_or(&[][..], |w| &w.manifests);
    let count = manifests.iter().filter(|m| done(m)).count();
    let mut message = match (manifests.len(), current.map_or(0, |w| w.held_deletions.len())) {
        (0, _) => "delivery begins".to_owned(),
        (total, 0) => format!("{count} of {} {verb} so far", work::objects(total)),
        (total, held) => {
            format!(
                "{count} of {} {verb} so far; {} held until approved",
                work::objects(total),
                work::counted(held, "deletion")
            )
        }
    };
    if let Some(complaint) = current.and_then(|work| work.inventory.complaint()) {
        message = format!("{message}; {complaint}");
    }
    if !online {
        message.push_str("; the cluster is offline and continues when it answers");
    }
    Finding { type_, holds: false, reason, message }
}

/// Turns the findings of a Work into the binding's conditions.
fn rolled_up(work: &WorkStatus, mode: Mode, online: bool) -> Vec<Finding> {
    let untrackable = work.manifests.iter().any(|m| m.availability == Some(Availability::NotTrackable));
    let mut findings = work::work_findings(work, mode);
    for finding in &mut findings {
        // The rollout waits for a while before it relies on an availability that nothing reports.
        finding.reason = match (&finding.type_, finding.holds) {
            (ConditionType::Applied, true) => Reason::AllWorkHaveBeenApplied,
            (ConditionType::Applied, false) => Reason::NotAllWorkHaveBeenApplied,
            (ConditionType::Available, true) if untrackable => Reason::NotAllWorkAreAvailabilityTrackable,
            (ConditionType::Available, true) => Reason::AllWorkAreAvailable,
            (ConditionType::Available, false) => Reason::NotAllWorkAreAvailable,
            (_, true) => Reason::AllWorkHaveDiffReported,
            (_, false) => Reason::NotAllWorkHaveDiffReported,
        };
        // What an offline cluster reported last still counts; only the words tell.
        if !online {
            finding.message.push_str(", as last seen: the cluster is offline");
        }
        if let Inventory::Unknown(glimpse) = &work.inventory
            && !glimpse.unlisted.is_empty()
            && let Some(complaint) = work.inventory.complaint()
        {
            finding.message = format!("{}, as last seen; {complaint}", finding.message);
        }
    }
    findings
}

/// The lists that go with a binding's conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindingLists {
    /// Objects that failed.
    pub failed: Vec<work::FailedObject>,
    /// Objects that drifted.
    pub drifted: Vec<work::DriftedObject>,
    /// Objects that differ.
    pub diffed: Vec<work::DiffedObject>,
}

/// Returns the failed, drifted and differing objects of a binding; none while its delivery is in progress.
///
/// Apply failed: all three. Availability failed: failed and drifted. All well: drifted. `ReportDiff` succeeded: differing.
///
/// Source: KubeFleet's work generator.
pub fn binding_lists(binding: &Binding, work: Option<&WorkStatus>) -> BindingLists {
    let Some(work) = settled_work(binding, work) else { return BindingLists::default() };
    if binding.apply_strategy.type_ == ApplyStrategyType::ReportDiff {
        let all = work.manifests.iter().all(work::is_compared);
        return BindingLists {
            diffed: if all { work::diffed_objects(work) } else { vec![] },
            ..BindingLists::default()
        };
    }
    let drifted = work::drifted_objects(work);
    if !work.manifests.iter().all(work::is_applied) {
        let failed = work::failed_objects(work, Mode::Apply, since(binding, work, &ConditionType::Applied));
        return BindingLists { failed, drifted, diffed: work::diffed_objects(work) };
    }
    BindingLists {
        failed: work::failed_objects(work, Mode::Apply, since(binding, work, &ConditionType::Available)),
        drifted,
        diffed: vec![],
    }
}

/// Returns since when a binding's condition has its status; without the condition the closest instant that is known.
fn since(binding: &Binding, work: &WorkStatus, type_: &ConditionType) -> Timestamp {
    let own = find_condition(&binding.conditions, type_).map(|c| c.last_transition_time);
    own.or(binding.started_at).or(work.available_since).unwrap_or_default()
}

#[cfg(test)]
mod tests;
