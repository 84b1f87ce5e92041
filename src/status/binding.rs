//! Conditions of a binding: how far one placement is on one cluster.
//!
//! Our one [`WorkStatus`] stands for all the Works of the placement on that cluster.

use jiff::Timestamp;

use super::work::{self, Finding, Mode};
use crate::api::condition::{Condition, ConditionStatus, find_condition, set_condition};
use crate::api::placement::ApplyStrategyType;
use crate::model::conditions::{ConditionType, Reason};
use crate::model::records::{Availability, Binding, BindingState, Inventory, WorkStatus};

/// Conditions that speak of content on the member. They start anew with every generation: an `Available` that stayed true
/// across two generations would let the wait for untrackable objects count from the older one.
const CONTENT_TYPES: [ConditionType; 3] =
    [ConditionType::Applied, ConditionType::Available, ConditionType::DiffReported];

/// Returns the binding's conditions, in the order of the chain; the chain ends at the first that does not hold.
///
/// - RolloutStarted: what the rollout wrote for this generation stands; otherwise it follows from the state.
/// - Overridden: a failure or success written for this generation stands; otherwise no override was specified.
/// - WorkSynchronized: false where the work as a whole failed.
/// - Applied, Available, or DiffReported: rolled up from the objects, once every step of this generation was carried out.
///
/// A binding being deleted keeps what it has. Transition times are kept where the status stays; Available begins when the
/// objects became available. `member_online` only changes the wording: an offline cluster keeps what was last seen.
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
        set_condition(
            &mut conditions,
            Condition {
                type_: finding.type_,
                status: if finding.holds { ConditionStatus::True } else { ConditionStatus::False },
                reason: finding.reason,
                message: finding.message,
                observed_generation: binding.generation,
                last_transition_time: begins,
            },
        );
    }
    in_chain_order(conditions)
}

/// Returns the work that speaks of the binding's target and whose every step was carried out.
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

/// Returns what another step wrote for this very generation.
fn written<'a>(binding: &'a Binding, type_: &ConditionType) -> Option<&'a Condition> {
    find_condition(&binding.conditions, type_)
        .filter(|c| c.observed_generation == binding.generation && c.status != ConditionStatus::Unknown)
}

fn rollout_started(binding: &Binding) -> Finding {
    let type_ = ConditionType::RolloutStarted;
    if let Some(said) = written(binding, &type_) {
        let holds = said.status == ConditionStatus::True;
        let reason = if holds { Reason::RolloutStarted } else { Reason::RolloutNotStartedYet };
        return Finding { type_, holds, reason, message: said.message.clone() };
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
        Some(said) if said.status == ConditionStatus::False => {
            Finding { type_, holds: false, reason: Reason::OverriddenFailed, message: said.message.clone() }
        }
        Some(said) if said.reason == Reason::OverriddenSucceeded => {
            Finding { type_, holds: true, reason: Reason::OverriddenSucceeded, message: said.message.clone() }
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

/// Lifts the Work's findings to the binding's words.
fn rolled_up(work: &WorkStatus, mode: Mode, online: bool) -> Vec<Finding> {
    let untrackable = work.manifests.iter().any(|m| m.availability == Some(Availability::NotTrackable));
    let lift = |mut finding: Finding| {
        finding.reason = match (&finding.type_, finding.holds) {
            (ConditionType::Applied, true) => Reason::AllWorkHaveBeenApplied,
            (ConditionType::Applied, false) => Reason::NotAllWorkHaveBeenApplied,
            (ConditionType::Available, true) if untrackable => Reason::NotAllWorkAreAvailabilityTrackable,
            (ConditionType::Available, true) => Reason::AllWorkAreAvailable,
            (ConditionType::Available, false) => Reason::NotAllWorkAreAvailable,
            (_, true) => Reason::AllWorkHaveDiffReported,
            (_, false) => Reason::NotAllWorkHaveDiffReported,
        };
        if !online {
            finding.message.push_str(", as last seen: the cluster is offline");
        }
        if let Inventory::Unknown(glimpse) = &work.inventory
            && !glimpse.unlisted.is_empty()
            && let Some(complaint) = work.inventory.complaint()
        {
            finding.message = format!("{}, as last seen; {complaint}", finding.message);
        }
        finding
    };
    work::work_findings(work, mode).into_iter().map(lift).collect()
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
    let since = |type_: &ConditionType| {
        let own = find_condition(&binding.conditions, type_).map(|c| c.last_transition_time);
        own.or(binding.started_at).or(work.available_since).unwrap_or_default()
    };
    if binding.apply_strategy.type_ == ApplyStrategyType::ReportDiff {
        let all = work.manifests.iter().all(work::is_compared);
        return BindingLists {
            diffed: if all { work::diffed_objects(work) } else { vec![] },
            ..BindingLists::default()
        };
    }
    let drifted = work::drifted_objects(work);
    if !work.manifests.iter().all(work::is_applied) {
        let failed = work::failed_objects(work, Mode::Apply, since(&ConditionType::Applied));
        return BindingLists { failed, drifted, diffed: work::diffed_objects(work) };
    }
    BindingLists {
        failed: work::failed_objects(work, Mode::Apply, since(&ConditionType::Available)),
        drifted,
        diffed: vec![],
    }
}

#[cfg(test)]
mod tests {
    use ApplyOutcome as O;
    use Availability as A;

    use super::*;
    use crate::api::condition::ConditionStatus::{False, True};
    use crate::model::records::{ApplyOutcome, Glimpse};
    use crate::status::fixtures::{at, binding, condition, manifest, work};

    const STARTED: (&str, ConditionStatus, &str) = ("RolloutStarted", True, "RolloutStarted");
    const PLAIN: (&str, ConditionStatus, &str) = ("Overridden", True, "NoOverrideSpecified");
    const SYNCED: (&str, ConditionStatus, &str) = ("WorkSynchronized", True, "AllWorkSynced");
    const APPLIED: (&str, ConditionStatus, &str) = ("Applied", True, "AllWorkHaveBeenApplied");

    fn facts(conditions: &[Condition]) -> Vec<(&str, ConditionStatus, &str)> {
        conditions.iter().map(|c| (c.type_.as_str(), c.status, c.reason.as_str())).collect()
    }

    type Row = (&'static str, Binding, Option<WorkStatus>, Vec<(&'static str, ConditionStatus, &'static str)>);

    #[expect(clippy::too_many_lines, reason = "a table of situations")]
    fn rows() -> Vec<Row> {
        let bound = || binding("east", 3);
        let in_mode = |type_| {
            let mut bound = bound();
            bound.apply_strategy.type_ = type_;
            bound
        };
        let saying = |conditions| Binding { conditions, ..bound() };
        let with = |outcome, availability| Some(work(7, vec![manifest("a", outcome, availability)]));
        let failing = WorkStatus { failure: Some("owned by another source".into()), ..work(7, vec![]) };
        let begun = WorkStatus { complete: false, ..work(7, vec![manifest("a", O::Applied, None)]) };
        let chain = |last: &[(&'static str, ConditionStatus, &'static str)]| [&[STARTED, PLAIN, SYNCED], last].concat();
        let diff = ApplyStrategyType::ReportDiff;
        vec![
            (
                "scheduled",
                Binding { state: BindingState::Scheduled, snapshot: None, ..bound() },
                None,
                vec![("RolloutStarted", False, "RolloutNotStartedYet")],
            ),
            ("no work yet", bound(), None, chain(&[("Applied", False, "ApplyInProgress")])),
            ("older work", bound(), Some(work(6, vec![])), chain(&[("Applied", False, "ApplyInProgress")])),
            ("incomplete", bound(), Some(begun), chain(&[("Applied", False, "ApplyInProgress")])),
            ("diff begins", in_mode(diff), None, chain(&[("DiffReported", False, "DiffReportInProgress")])),
            (
                "work failed",
                bound(),
                Some(failing),
                vec![STARTED, PLAIN, ("WorkSynchronized", False, "SyncWorkFailed")],
            ),
            (
                "stale: the rollout's word stands and delivery is still told",
                saying(vec![condition("RolloutStarted", False, "RolloutNotStartedYet", 7)]),
                with(O::Applied, Some(A::Available)),
                vec![
                    ("RolloutStarted", False, "RolloutNotStartedYet"),
                    PLAIN,
                    SYNCED,
                    APPLIED,
                    ("Available", True, "AllWorkAreAvailable"),
                ],
            ),
            (
                "an older word does not stand",
                saying(vec![condition("RolloutStarted", False, "RolloutNotStartedYet", 6)]),
                None,
                chain(&[("Applied", False, "ApplyInProgress")]),
            ),
            (
                "override failed",
                saying(vec![condition("Overridden", False, "OverriddenFailed", 7)]),
                with(O::Applied, Some(A::Available)),
                vec![STARTED, ("Overridden", False, "OverriddenFailed")],
            ),
            (
                "overridden",
                saying(vec![condition("Overridden", True, "OverriddenSucceeded", 7)]),
                None,
                vec![
                    STARTED,
                    ("Overridden", True, "OverriddenSucceeded"),
                    SYNCED,
                    ("Applied", False, "ApplyInProgress"),
                ],
            ),
            (
                "apply failed",
                bound(),
                with(O::ManifestApplyFailed, None),
                chain(&[("Applied", False, "NotAllWorkHaveBeenApplied")]),
            ),
            (
                "apply pending",
                bound(),
                with(O::Pending, None),
                chain(&[("Applied", False, "NotAllWorkHaveBeenApplied")]),
            ),
            (
                "availability unknown",
                bound(),
                with(O::Applied, None),
                chain(&[APPLIED, ("Available", False, "NotAllWorkAreAvailable")]),
            ),
            (
                "not available",
                bound(),
                with(O::Applied, Some(A::ManifestNotAvailableYet)),
                chain(&[APPLIED, ("Available", False, "NotAllWorkAreAvailable")]),
            ),
            (
                "untrackable",
                bound(),
                with(O::Applied, Some(A::NotTrackable)),
                chain(&[APPLIED, ("Available", True, "NotAllWorkAreAvailabilityTrackable")]),
            ),
            (
                "available",
                bound(),
                with(O::Applied, Some(A::Available)),
                chain(&[APPLIED, ("Available", True, "AllWorkAreAvailable")]),
            ),
            (
                "nothing to deliver",
                bound(),
                Some(work(7, vec![])),
                chain(&[APPLIED, ("Available", True, "AllWorkAreAvailable")]),
            ),
            (
                "compared",
                in_mode(diff),
                with(O::FoundDiff, None),
                chain(&[("DiffReported", True, "AllWorkHaveDiffReported")]),
            ),
            (
                "not compared",
                in_mode(diff),
                with(O::FailedToReportDiff, None),
                chain(&[("DiffReported", False, "NotAllWorkHaveDiffReported")]),
            ),
        ]
    }

    #[test]
    fn conditions_by_situation() {
        for (name, binding, work, expected) in rows() {
            let conditions = binding_conditions(&binding, work.as_ref(), true, at(60));
            assert_eq!(facts(&conditions), expected, "{name}");
            assert!(conditions.iter().all(|c| c.observed_generation == 7), "{name}: {conditions:?}");
            let again = Binding { conditions: conditions.clone(), ..binding };
            assert_eq!(binding_conditions(&again, work.as_ref(), true, at(600)), conditions, "{name}: not quiet");
        }
    }

    #[test]
    fn transition_times() {
        let mut bound = binding("east", 3);
        let done = WorkStatus {
            available_since: Some(at(30)),
            ..work(7, vec![manifest("a", O::Applied, Some(A::NotTrackable))])
        };
        bound.conditions = binding_conditions(&bound, Some(&done), true, at(60));
        let time =
            |b: &Binding, type_: &str| find_condition(&b.conditions, &type_.into()).map(|c| c.last_transition_time);
        assert_eq!(time(&bound, "Available"), Some(at(30)), "since the objects are available");
        assert_eq!(time(&bound, "Applied"), Some(at(60)));

        bound.generation = 8;
        let next = WorkStatus { generation: 8, available_since: Some(at(90)), ..done };
        bound.conditions = binding_conditions(&bound, Some(&next), true, at(100));
        assert_eq!(time(&bound, "Available"), Some(at(90)), "a new generation starts a new wait");
        assert_eq!(time(&bound, "RolloutStarted"), Some(at(60)), "the status stayed");
    }

    #[test]
    fn a_binding_being_deleted_keeps_its_conditions() {
        let conditions = vec![condition("Applied", True, "AllWorkHaveBeenApplied", 5)];
        let leaving = Binding { deleting: true, conditions: conditions.clone(), ..binding("east", 3) };
        assert_eq!(binding_conditions(&leaving, None, true, at(0)), conditions);
    }

    #[test]
    fn lists_by_situation() {
        let drifted = || {
            let mut m = manifest("d", O::Applied, Some(A::Available));
            m.differences = vec![crate::model::diff::missing_object()];
            m
        };
        let differing = |outcome| {
            let mut m = manifest("f", outcome, None);
            m.differences = vec![crate::model::diff::missing_object()];
            m
        };
        let diff_mode = ApplyStrategyType::ReportDiff;
        let apply_mode = ApplyStrategyType::ServerSideApply;
        let rows = [
            ("in progress", apply_mode, 6, vec![drifted(), differing(O::FailedToTakeOver)], [0, 0, 0]),
            ("apply failed", apply_mode, 7, vec![drifted(), differing(O::FailedToTakeOver)], [1, 1, 1]),
            (
                "not available",
                apply_mode,
                7,
                vec![drifted(), manifest("n", O::Applied, Some(A::ManifestNotAvailableYet))],
                [1, 1, 0],
            ),
            ("all well", apply_mode, 7, vec![drifted()], [0, 1, 0]),
            ("compared", diff_mode, 7, vec![differing(O::FoundDiff)], [0, 0, 1]),
            (
                "not compared",
                diff_mode,
                7,
                vec![differing(O::FoundDiff), manifest("x", O::FailedToReportDiff, None)],
                [0, 0, 0],
            ),
        ];
        for (name, mode, generation, manifests, expected) in rows {
            let mut bound = binding("east", 3);
            bound.apply_strategy.type_ = mode;
            let lists = binding_lists(&bound, Some(&work(generation, manifests)));
            assert_eq!([lists.failed.len(), lists.drifted.len(), lists.diffed.len()], expected, "{name}");
        }
    }

    #[test]
    fn d02_words_for_a_kind_that_cannot_be_listed() {
        let unlisted = [("Secret".to_owned(), "403 Forbidden".to_owned())].into();
        let inventory = Inventory::Unknown(Glimpse { unlisted, ..Glimpse::default() });
        let manifests = vec![manifest("a", O::Applied, None), manifest("b", O::Pending, None)];
        let begun = WorkStatus { complete: false, inventory, ..work(7, manifests) };
        let conditions = binding_conditions(&binding("east", 3), Some(&begun), true, at(0));
        insta::assert_snapshot!(conditions[3].message, @"1 of 2 objects applied so far; what it holds is not known, so nothing is deleted there (Secret: 403 Forbidden)");
    }

    #[test]
    fn words_for_an_offline_cluster() {
        let begun = WorkStatus {
            complete: false,
            ..work(7, vec![manifest("a", O::Applied, None), manifest("b", O::Pending, None)])
        };
        let conditions = binding_conditions(&binding("east", 3), Some(&begun), false, at(0));
        insta::assert_snapshot!(conditions[3].message, @"1 of 2 objects applied so far; the cluster is offline and continues when it answers");
    }
}
