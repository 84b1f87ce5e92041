//! A renamed placement, at the end of a single pass.

use super::*;
use model::records::Inventory;

/// Cluster `a` has carried out the last order of a placement, and holds this of it.
fn reports(life: &mut Life, placement: &PlacementKey, inventory: Inventory) {
    let order = life.core.orders().find(|order| order.placement == *placement).expect("it has an order");
    let (generation, kept) = (order.generation, order.kept.clone());
    let status = Arc::new(WorkStatus { generation, complete: true, inventory, kept, ..WorkStatus::default() });
    let placement = placement.clone();
    life.take_in(Event::Member(MemberEvent::Work { cluster: "a".into(), placement, status }));
    life.settle();
}

#[test]
fn w16_a_single_pass_waits_until_the_old_name_of_a_placement_is_gone() {
    let (member, payload, q) = (cluster("a", ""), payload("1"), PlacementKey::cluster_scoped("q"));
    let mut life = Life::with(&[("m.yaml", &member), ("a.yaml", &payload), ("p.yaml", &placement("p", "", ""))]);
    let order = life.order(&p()).expect("the cluster is assigned it");
    let all = || -> Inventory { order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect() };
    let finished = |life: &Life| life.core.finished(life.now, life.now + SECOND * 90);
    reports(&mut life, &p(), all());
    assert_eq!(finished(&life), Some(RolloutState::AllAtTarget));
    let renamed = placement("q", "", "");
    life.handle(SourceEvent::Accepted(tree(&[("m.yaml", &member), ("a.yaml", &payload), ("p.yaml", &renamed)])));
    life.settle();
    reports(&mut life, &p(), all());
    reports(&mut life, &q, all());
    assert!(life.core.placements().contains_key(&p()), "its objects were there when the member reported about it");
    assert_eq!(finished(&life), None, "the member has more to say");
    assert_eq!(life.core.cut_short(life.now), RolloutState::Progressing, "when the time is over");
    reports(&mut life, &p(), std::iter::empty().collect());
    assert!(!life.core.placements().contains_key(&p()), "nothing of it is left");
    assert_eq!(finished(&life), Some(RolloutState::AllAtTarget));
}
