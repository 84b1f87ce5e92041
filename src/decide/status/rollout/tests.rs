use super::*;
use crate::status::fixtures::{Case, CaseStatus as _, at, decision, manifest};
use model::api::placement::{PlacementPolicy, PlacementType, StrategyType};
use model::id::Digest;
use model::records::{Availability, BindingState, HeldSnapshot, Pause};

fn outcome(change: impl FnOnce(&mut Case)) -> RolloutState {
    let mut case = Case::healthy(&["east", "west"]);
    change(&mut case);
    case.settle();
    rollout_state(&case.view())
}

fn failed(case: &mut Case, cluster: &str) {
    let mut broken = manifest("a", ApplyOutcome::ManifestApplyFailed, None);
    broken.message = "field is immutable".into();
    case.work(cluster).manifests = vec![broken].into();
}

fn old(case: &mut Case, cluster: &str) {
    case.binding(cluster).snapshot = Some(2);
}

fn hold(case: &mut Case) {
    let held = HeldSnapshot {
        index: 3,
        hash: Digest::new("x"),
        why: "failed on east".into(),
        since: at(0),
        returns: false,
        inputs: None,
    };
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
    let untrackable = |c: &mut Case| {
        c.work("east").manifests = vec![manifest("a", ApplyOutcome::Applied, Some(Availability::NotTrackable))].into();
    };
    let rows: Vec<(&str, Change, RolloutState)> = vec![
        ("healthy", Box::new(|_| ()), C::AllAtTarget),
        ("offline, but right as last seen", Box::new(|c| c.offline("west")), C::AllAtTarget),
        ("not scheduled yet", Box::new(|c| c.record.generation = 9), C::Progressing),
        ("never scheduled", Box::new(|c| c.policy = None), C::Progressing),
        ("no binding yet", Box::new(|c| drop(c.bindings.pop())), C::Progressing),
        ("in progress", Box::new(|c| c.work("east").complete = false), C::Progressing),
        ("waits for its turn", Box::new(|c| old(c, "east")), C::Progressing),
        ("failed", Box::new(|c| failed(c, "east")), C::Failed(Failure::Clusters(failure.clone()))),
        ("failed, others move", Box::new(|c| (failed(c, "east"), old(c, "west")).0), C::Progressing),
        (
            "failed and halted",
            Box::new(|c| {
                failed(c, "east");
                old(c, "west");
                c.record.halted = Some("1 cluster failed".into());
            }),
            C::Failed(Failure::Halted("1 cluster failed".into())),
        ),
        (
            "deadline",
            Box::new(|c| {
                c.work("east").complete = false;
                c.now = at(600);
            }),
            C::Failed(Failure::Clusters("east: not done within 10m".into())),
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
            C::Failed(Failure::Invalid("duplicate selection".into())),
        ),
        ("gate", Box::new(|c| c.gate(&["east"])), C::WaitingForPerson(PersonWait::Deletions(gate.clone()))),
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
            C::Failed(Failure::Clusters(failure)),
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
            C::WaitingForPerson(PersonWait::Deletions(gate)),
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
            C::Failed(Failure::Unfulfilled),
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
            C::WaitingForPerson(PersonWait::NoRun),
        ),
        (
            "External without a run, paused",
            Box::new(|c| {
                c.record.spec.strategy.type_ = StrategyType::External;
                old(c, "west");
                c.record.paused = Some(Pause { by: "ann".into(), at: at(0), reason: None });
            }),
            C::WaitingForPerson(PersonWait::Paused("paused by ann; gitfleet resume web".into())),
        ),
        (
            "paused",
            Box::new(|c| {
                old(c, "east");
                c.record.paused = Some(Pause { by: "ann".into(), at: at(0), reason: None });
            }),
            C::WaitingForPerson(PersonWait::Paused("paused by ann; gitfleet resume web".into())),
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
            C::Failed(Failure::Held("snapshot 3 is held until `gitfleet retry web`: failed on east".into())),
        ),
        ("removed, still there", Box::new(|c| c.record.removed = true), C::Progressing),
        (
            "removed while paused",
            Box::new(|c| {
                c.record.removed = true;
                c.record.paused = Some(Pause { by: "ann".into(), at: at(0), reason: None });
            }),
            C::WaitingForPerson(PersonWait::Paused("paused by ann; gitfleet resume web".into())),
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
