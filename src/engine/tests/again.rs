//! What members refused, at the end of a single pass.

use super::*;
use model::records::{ApplyOutcome, ManifestStatus};

/// Cluster `a` has tried an order, with this outcome for all its objects.
fn tried(life: &mut Life, order: &WorkOrder, applied: ApplyOutcome) {
    let manifests = order.manifests.iter().map(|desired| ManifestStatus {
        id: desired.id.clone(),
        applied,
        message: String::new(),
        availability: (applied == ApplyOutcome::Applied).then_some(model::records::Availability::Available),
        generation: None,
        manifest: Some(desired.digest.clone()),
        owned: None,
        differences: Vec::new(),
        differs_since: None,
        observed_at: None,
    });
    let manifests: Vec<ManifestStatus> = manifests.collect();
    let inventory = order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
    let (generation, manifests) = (order.generation, manifests.into());
    let status = WorkStatus { generation, complete: true, manifests, inventory, ..WorkStatus::default() };
    let placement = order.placement.clone();
    life.take_in(Event::Member(MemberEvent::Work { cluster: "a".into(), placement, status: Arc::new(status) }));
    life.settle();
}

/// A life whose cluster refused all objects of `p`.
fn refused() -> (Life, Arc<WorkOrder>) {
    let (member, payload, placement) = (cluster("a", ""), payload("1"), placement("p", "", ""));
    let mut life = Life::with(&[("m.yaml", &member), ("a.yaml", &payload), ("p.yaml", &placement)]);
    let order = life.order(&p()).expect("the cluster is assigned it");
    tried(&mut life, &order, ApplyOutcome::ManifestApplyFailed);
    (life, order)
}

fn state(life: &Life) -> Option<RolloutState> {
    life.core.finished(life.now, life.now + SECOND * 90)
}

fn commands(life: &mut Life) -> Vec<(ClusterName, PlacementKey)> {
    let of = |effect| match effect {
        Effect::Command(cluster, MemberCommand::TryAgain(placement)) => (cluster, placement),
        other => unreachable!("{other:?}"),
    };
    life.core.try_again().into_iter().map(of).collect()
}

#[test]
fn what_was_refused_is_tried_once_more_before_a_pass_fails() {
    let (mut life, order) = refused();
    assert!(matches!(state(&life), Some(RolloutState::Failed(_))), "{:?}", state(&life));
    assert_eq!(commands(&mut life), [("a".into(), p())]);
    assert_eq!(state(&life), None, "the member has not answered yet");
    tried(&mut life, &order, ApplyOutcome::ManifestApplyFailed);
    assert!(matches!(state(&life), Some(RolloutState::Failed(_))), "{:?}", state(&life));
    assert_eq!(commands(&mut life), [], "nothing has changed since");
}

/// Two placements change places: the object belongs to the other until that has left the cluster.
#[test]
fn what_was_refused_is_tried_again_when_another_placement_has_left_the_cluster() {
    let (member, payload) = (cluster("a", ""), payload("1"));
    let (p_file, q_file) = (placement("p", "", ""), placement("q", "gitfleet.io/deletion-guard: 'Off'", ""));
    let files = [("m.yaml", &member), ("a.yaml", &payload), ("p.yaml", &p_file)].map(|(path, text)| (path, &**text));
    let mut life = Life::with(&[files[0], files[1], files[2], ("q.yaml", &q_file)]);
    let order = life.order(&p()).expect("the cluster is assigned it");
    tried(&mut life, &order, ApplyOutcome::FailedToTakeOver);
    assert_eq!(commands(&mut life), [("a".into(), p())]);
    tried(&mut life, &order, ApplyOutcome::FailedToTakeOver);
    assert_eq!(commands(&mut life), []);
    life.effects.clear();
    life.handle(SourceEvent::Accepted(tree(&files)));
    life.settle();
    let q = PlacementKey::cluster_scoped("q");
    let leaving = life.order(&q).expect("it leaves the cluster");
    assert!(leaving.remove);
    let (generation, inventory) = (leaving.generation, std::iter::empty().collect());
    let status = WorkStatus { generation, complete: true, inventory, ..WorkStatus::default() };
    life.take_in(Event::Member(MemberEvent::Work { cluster: "a".into(), placement: q, status: Arc::new(status) }));
    life.settle();
    assert_eq!(commands(&mut life), [("a".into(), p())]);
}

#[test]
fn what_was_refused_for_a_right_that_came_later_is_no_failure_of_the_pass() {
    let (mut life, order) = refused();
    assert_eq!(commands(&mut life), [("a".into(), p())]);
    tried(&mut life, &order, ApplyOutcome::Applied);
    assert_eq!(commands(&mut life), []);
    assert!(!matches!(state(&life), Some(RolloutState::Failed(_))), "{:?}", state(&life));
}
