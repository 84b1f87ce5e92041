//! Whether a placement is where it should be, and if not, what it waits for.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::binding::settled_work;
use super::placement::{PlacementView, is_right, why};
use super::work::{self, Mode, listing};
use crate::api::annotations::{self, PROGRESS_DEADLINE_DEFAULT};
use crate::api::condition::{Condition, ConditionStatus, find_condition};
use crate::model::conditions::{ConditionType, Reason};
use crate::model::records::{ApplyOutcome, Binding, ClusterRecord, ManifestStatus, PlacementRecord};
use crate::model::runs::DELETION_GATE;

mod staged;

pub use staged::approve_line;

/// Seconds after which untrackable objects count as available; KubeFleet's default.
const UNAVAILABLE_PERIOD_DEFAULT_SECONDS: i32 = 60;

/// What is left to happen to a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// Nothing: every picked cluster holds the newest snapshot, available or compared, and nothing is left to remove.
    AllAtTarget,
    /// A person must open a gate or start a run; says which.
    WaitingForPerson(String),
    /// Only time: until then, where it is known.
    WaitingForTime(Option<Timestamp>),
    /// Something moves or is about to.
    Progressing,
    /// It will not get there by itself; says why.
    Failed(String),
    /// What is missing is on clusters that do not answer; says which.
    Unreachable(String),
}

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllAtTarget => f.write_str("all at the newest snapshot"),
            Self::WaitingForPerson(why) => write!(f, "waits for a person: {why}"),
            Self::WaitingForTime(_) => f.write_str("waits for time to pass"),
            Self::Progressing => f.write_str("in progress"),
            Self::Failed(why) => write!(f, "cannot go on: {why}"),
            Self::Unreachable(why) => write!(f, "waits for clusters: {why}"),
        }
    }
}

/// Where one cluster stands. Of the texts each says which cluster it is, and why.
pub(super) enum Standing {
    Right,
    Moving,
    Queued,
    Failed(String),
    Offline(String),
    AwaitsRun,
}

/// Returns what is left to happen to a placement; decides how `run --once` ends.
///
/// Of several answers the one that can still change by itself wins: what moves, then failures, then persons, then clusters
/// that do not answer, then time. A cluster that waits for its turn counts as moving, unless the rollout is halted or the
/// wait is for time alone or for a person who paused it. A run of an External placement speaks for all its clusters. Where the
/// newest snapshot is held, being at the one before it is no success.
pub fn converged(view: &PlacementView) -> RolloutState {
    let record = view.record;
    if !record.removed && record.error.is_none() && !view.is_scheduled() {
        return RolloutState::Progressing;
    }
    if let Some(why) = payload_missing(record) {
        return RolloutState::Failed(why);
    }
    let is_staged = view.is_external() && !record.removed && record.error.is_none();
    if let Some(standing) = is_staged.then(|| staged::by_run(view)).flatten() {
        return match (standing, deletions_wait(view)) {
            (RolloutState::Unreachable(_) | RolloutState::WaitingForTime(_), Some(person)) => person,
            (standing, _) => standing,
        };
    }
    let standings = standings(view);
    let any = |wanted: fn(&Standing) -> bool| standings.iter().any(wanted);
    let until = time_gate(view);
    let queued = any(|s| matches!(s, Standing::Queued));
    // After a lost store nothing may be known that clusters could go back to.
    let has_goal = record.goal.is_some() || staged::held(view).is_none();
    let goes = until.is_none() && record.halted.is_none() && record.paused.is_none() && has_goal;
    if any(|s| matches!(s, Standing::Moving)) || (queued && goes) {
        return RolloutState::Progressing;
    }
    let texts = |pick: fn(&Standing) -> Option<&String>| {
        let texts: Vec<String> = standings.iter().filter_map(pick).cloned().collect();
        (!texts.is_empty()).then(|| listing(texts.into_iter()))
    };
    let failures = texts(|s| if let Standing::Failed(text) = s { Some(text) } else { None });
    let halted = record.halted.as_ref().map(|why| format!("the rollout is halted: {why}"));
    if let Some(failure) = record.error.clone().or(halted).or(failures) {
        return RolloutState::Failed(failure);
    }
    if let Some(held) = staged::held(view).filter(|_| !record.removed) {
        return held;
    }
    if let Some(person) = deletions_wait(view) {
        return person;
    }
    if let Some(person) = staged::paused(view).filter(|_| queued) {
        return person;
    }
    if any(|s| matches!(s, Standing::AwaitsRun)) {
        return RolloutState::WaitingForPerson(
            "clusters of an External placement wait for a staged update run".to_owned(),
        );
    }
    if let Some(offline) = texts(|s| if let Standing::Offline(text) = s { Some(text) } else { None }) {
        return RolloutState::Unreachable(offline);
    }
    if queued {
        return RolloutState::WaitingForTime(until);
    }
    if !record.removed && !view.policy.is_some_and(|p| p.fulfilled) {
        return RolloutState::Failed("fewer clusters fit than the policy asks for".to_owned());
    }
    RolloutState::AllAtTarget
}

/// Says which payload cannot be read, if there is one: it is no cluster's fault, and no cluster moves to it.
fn payload_missing(record: &PlacementRecord) -> Option<String> {
    let first = record.unreadable.first().filter(|_| !record.removed)?;
    Some(format!(
        "the payload of snapshot {first} cannot be read from git; clusters keep what they have, and it is tried again"
    ))
}

/// Returns what a closed deletion gate waits for.
fn deletions_wait(view: &PlacementView) -> Option<RolloutState> {
    let gate = view.record.closed_gate()?;
    let line = format!("gitfleet approve {} {DELETION_GATE}", view.record.key);
    Some(RolloutState::WaitingForPerson(format!("{} need approval: {}; {line}", gate.what(), gate.reason)))
}

fn standings(view: &PlacementView) -> Vec<Standing> {
    let picked = if view.record.removed { Vec::new() } else { view.picked() };
    let mut standings = Vec::with_capacity(picked.len());
    for (decision, binding) in &picked {
        let cluster = &decision.cluster_name;
        standings.push(match binding {
            Some(binding) => bound_standing(view, binding),
            None => view.offline(cluster).map_or(Standing::Moving, offline),
        });
    }
    let leaving = if view.record.removed { view.bindings().collect() } else { view.leftovers_of(&picked) };
    for binding in leaving {
        let left = view.clusters.get(&binding.cluster).is_none_or(|c| c.left);
        let held = view.record.closed_gate().is_some_and(|g| g.holds(&binding.cluster));
        if left || held {
            continue;
        }
        standings.push(match view.offline(&binding.cluster) {
            Some(silent) => offline(silent),
            None if view.record.paused.is_some() && !binding.deleting => Standing::Queued,
            None if view.is_external() && !binding.deleting => Standing::AwaitsRun,
            None => Standing::Moving,
        });
    }
    standings
}

fn offline(cluster: &ClusterRecord) -> Standing {
    Standing::Offline(format!("{}{}", cluster.name, why(cluster)))
}

/// Returns where a cluster stands that the placement is bound to.
pub(super) fn bound_standing(view: &PlacementView, binding: &Binding) -> Standing {
    let mode = view.mode();
    let at_target =
        binding.snapshot.is_some() && binding.snapshot == view.goal() && Mode::of(&binding.apply_strategy) == mode;
    if at_target && is_right(binding, mode) {
        return Standing::Right;
    }
    if let Some(silent) = view.offline(&binding.cluster) {
        return offline(silent);
    }
    let started = binding.snapshot.is_some() && !is_right(binding, Mode::of(&binding.apply_strategy));
    let failure = if started { failure(view, binding) } else { None };
    match (at_target, failure) {
        (true, Some(failure)) => Standing::Failed(failure),
        (true, None) => Standing::Moving,
        // An older snapshot that is still on its way may yet finish and free its share of the budget.
        (false, None) if started => Standing::Moving,
        (false, _) if view.is_external() => Standing::AwaitsRun,
        (false, _) => Standing::Queued,
    }
}

/// Says why a started cluster will not get there by itself.
fn failure(view: &PlacementView, binding: &Binding) -> Option<String> {
    let cluster = &binding.cluster;
    let refused = |c: &&Condition| {
        c.is(ConditionStatus::False, binding.generation)
            && matches!(c.reason, Reason::OverriddenFailed | Reason::SyncWorkFailed)
    };
    if let Some(condition) = binding.conditions.iter().find(refused) {
        return Some(format!("{cluster}: {}", condition.message));
    }
    if let Some(work) = settled_work(binding, view.work(cluster)) {
        use ApplyOutcome::{Applied, FoundDiff, NoDiffFound, Pending};
        let refused = |m: &&ManifestStatus| !matches!(m.applied, Pending | Applied | NoDiffFound | FoundDiff);
        if work.manifests.iter().any(|m| refused(&m)) {
            return Some(format!("{cluster}: {}", work::named(work.manifests.iter().filter(refused))));
        }
    }
    let deadline = progress_deadline(view);
    let late = binding.started_at.is_some_and(|at| view.now.duration_since(at) >= deadline);
    late.then(|| format!("{cluster}: not done within {deadline:#}"))
}

/// An unreadable deadline is an error of the rollout; here it is as if absent.
fn progress_deadline(view: &PlacementView) -> SignedDuration {
    let deadline = annotations::progress_deadline(&view.record.annotations).unwrap_or(PROGRESS_DEADLINE_DEFAULT);
    SignedDuration::try_from(deadline).unwrap_or(SignedDuration::MAX)
}

/// Returns when the first cluster that is available without being trackable counts as available.
fn time_gate(view: &PlacementView) -> Option<Timestamp> {
    let limits = view.record.spec.strategy.rolling_update.as_ref();
    let seconds = limits.and_then(|l| l.unavailable_period_seconds).unwrap_or(UNAVAILABLE_PERIOD_DEFAULT_SECONDS);
    let waits = view.bindings().filter_map(|binding| {
        let condition = find_condition(&binding.conditions, &ConditionType::Available)?;
        let untrackable = condition.is(ConditionStatus::True, binding.generation)
            && condition.reason == Reason::NotAllWorkAreAvailabilityTrackable;
        let end = condition.last_transition_time.checked_add(SignedDuration::from_secs(seconds.into())).ok()?;
        (untrackable && end >= view.now).then_some(end)
    });
    waits.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::placement::{PlacementPolicy, PlacementType, StrategyType};
    use crate::model::id::Digest;
    use crate::model::records::{Availability, BindingState, HeldSnapshot, Pause};
    use crate::status::fixtures::{Case, at, decision, manifest};

    fn outcome(change: impl FnOnce(&mut Case)) -> RolloutState {
        let mut case = Case::healthy(&["east", "west"]);
        change(&mut case);
        case.settle();
        converged(&case.view())
    }

    fn failed(case: &mut Case, cluster: &str) {
        let mut broken = manifest("a", ApplyOutcome::ManifestApplyFailed, None);
        broken.message = "field is immutable".into();
        case.work(cluster).manifests = vec![broken];
    }

    fn old(case: &mut Case, cluster: &str) {
        case.binding(cluster).snapshot = Some(2);
    }

    fn hold(case: &mut Case) {
        let held = HeldSnapshot { index: 3, hash: Digest::new("x"), why: "failed on east".into(), since: at(0) };
        case.record.held = Some(held);
    }

    type Change = Box<dyn FnOnce(&mut Case)>;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of situations")]
    fn what_is_left_to_happen() {
        use RolloutState as C;
        let failure = "east: ConfigMap web/a (ManifestApplyFailed: field is immutable)".to_owned();
        let offline = "west (connection refused)".to_owned();
        let gate =
            "deletions need approval: more than half of the objects would go; gitfleet approve web deletion".to_owned();
        let run = "clusters of an External placement wait for a staged update run".to_owned();
        let untrackable = |c: &mut Case| {
            c.work("east").manifests = vec![manifest("a", ApplyOutcome::Applied, Some(Availability::NotTrackable))];
        };
        let rows: Vec<(&str, Change, RolloutState)> = vec![
            ("healthy", Box::new(|_| ()), C::AllAtTarget),
            ("offline, but right as last seen", Box::new(|c| c.offline("west")), C::AllAtTarget),
            ("not scheduled yet", Box::new(|c| c.record.generation = 9), C::Progressing),
            ("never scheduled", Box::new(|c| c.policy = None), C::Progressing),
            ("no binding yet", Box::new(|c| drop(c.bindings.pop())), C::Progressing),
            ("in progress", Box::new(|c| c.work("east").complete = false), C::Progressing),
            ("waits for its turn", Box::new(|c| old(c, "east")), C::Progressing),
            ("failed", Box::new(|c| failed(c, "east")), C::Failed(failure.clone())),
            ("failed, others move", Box::new(|c| (failed(c, "east"), old(c, "west")).0), C::Progressing),
            (
                "failed and halted",
                Box::new(|c| {
                    failed(c, "east");
                    old(c, "west");
                    c.record.halted = Some("1 cluster failed".into());
                }),
                C::Failed("the rollout is halted: 1 cluster failed".into()),
            ),
            (
                "deadline",
                Box::new(|c| {
                    c.work("east").complete = false;
                    c.now = at(600);
                }),
                C::Failed("east: not done within 10m".into()),
            ),
            (
                "own deadline",
                Box::new(|c| {
                    c.work("east").complete = false;
                    c.record.annotations.insert(annotations::PROGRESS_DEADLINE.into(), "20m".into());
                    c.now = at(600);
                }),
                C::Progressing,
            ),
            (
                "error",
                Box::new(|c| c.record.error = Some("duplicate selection".into())),
                C::Failed("duplicate selection".into()),
            ),
            ("gate", Box::new(|c| c.gate(&["east"])), C::WaitingForPerson(gate.clone())),
            (
                "gate, and something moves",
                Box::new(|c| {
                    c.gate(&["east"]);
                    c.work("west").complete = false;
                }),
                C::Progressing,
            ),
            (
                "failure beats a gate",
                Box::new(|c| {
                    c.gate(&["west"]);
                    failed(c, "east");
                }),
                C::Failed(failure),
            ),
            (
                "deferred",
                Box::new(|c| {
                    old(c, "west");
                    c.offline("west");
                }),
                C::Unreachable(offline.clone()),
            ),
            (
                "a gate beats a deferred cluster",
                Box::new(|c| {
                    old(c, "west");
                    c.offline("west");
                    c.gate(&["east"]);
                }),
                C::WaitingForPerson(gate),
            ),
            ("untrackable, nobody waits", Box::new(untrackable), C::AllAtTarget),
            (
                "untrackable, one waits",
                Box::new(move |c| {
                    untrackable(c);
                    old(c, "west");
                    c.now = at(30);
                }),
                C::WaitingForTime(Some(at(70))),
            ),
            (
                "untrackable, time is over",
                Box::new(move |c| {
                    untrackable(c);
                    old(c, "west");
                    c.now = at(71);
                }),
                C::Progressing,
            ),
            (
                "unfulfilled",
                Box::new(|c| {
                    let policy = c.policy.as_mut().expect("the case has a policy");
                    policy.policy =
                        Some(PlacementPolicy { placement_type: PlacementType::PickN, ..PlacementPolicy::default() });
                    policy.fulfilled = false;
                }),
                C::Failed("fewer clusters fit than the policy asks for".into()),
            ),
            (
                "left-over",
                Box::new(|c| {
                    c.policy.as_mut().expect("the case has a policy").target_clusters[1] = decision("west", false);
                    c.binding("west").state = BindingState::Unscheduled;
                }),
                C::Progressing,
            ),
            (
                "left-over of a cluster that left",
                Box::new(|c| {
                    c.policy.as_mut().expect("the case has a policy").target_clusters.pop();
                    c.clusters.get_mut("west").expect("the case has the cluster").left = true;
                }),
                C::AllAtTarget,
            ),
            (
                "External without a run",
                Box::new(|c| {
                    c.record.spec.strategy.type_ = StrategyType::External;
                    old(c, "west");
                }),
                C::WaitingForPerson(run),
            ),
            (
                "paused",
                Box::new(|c| {
                    old(c, "east");
                    c.record.paused = Some(Pause { by: "ann".into(), at: at(0), reason: None });
                }),
                C::WaitingForPerson("paused by ann; gitfleet resume web".into()),
            ),
            (
                "paused, nothing waits",
                Box::new(|c| c.record.paused = Some(Pause { by: "ann".into(), at: at(0), reason: None })),
                C::AllAtTarget,
            ),
            (
                "rolling back",
                Box::new(|c| {
                    old(c, "east");
                    c.record.goal = Some(2);
                    hold(c);
                }),
                C::Progressing,
            ),
            (
                "rolled back",
                Box::new(|c| {
                    old(c, "east");
                    old(c, "west");
                    c.record.goal = Some(2);
                    hold(c);
                }),
                C::Failed("snapshot 3 is held until `gitfleet retry web`: failed on east".into()),
            ),
            ("removed, still there", Box::new(|c| c.record.removed = true), C::Progressing),
            (
                "removed while paused",
                Box::new(|c| {
                    c.record.removed = true;
                    c.record.paused = Some(Pause { by: "ann".into(), at: at(0), reason: None });
                }),
                C::WaitingForPerson("paused by ann; gitfleet resume web".into()),
            ),
            (
                "removed and gone",
                Box::new(|c| {
                    c.record.removed = true;
                    c.bindings.clear();
                }),
                C::AllAtTarget,
            ),
        ];
        for (name, change, expected) in rows {
            assert_eq!(outcome(change), expected, "{name}");
        }
    }
}
