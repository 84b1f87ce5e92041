use super::*;

/// A life with a cluster that holds what it shall, whose decisions a hub is to have.
fn exporting() -> Life {
    let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
        members: [{name: '*', directory: '/out/{name}'}]\nstore: {path: /state}\n\
        decisions: {kubeconfig: {path: /hub}, namespace: argocd}\n";
    let configuration = Configuration::parse(text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
    let (core, effects) = Core::begin(configuration, SavedRecords::default(), Timestamp::UNIX_EPOCH);
    let mut life = Life { core, store: MemoryStore::new(), now: Timestamp::UNIX_EPOCH, effects };
    let (member, payload, placement) = (cluster("a", ""), payload("1"), placement("p", "", ""));
    life.handle(SourceEvent::Accepted(tree(&[("m.yaml", &member), ("a.yaml", &payload), ("p.yaml", &placement)])));
    life.online(BTreeSet::new());
    life.settle();
    let order = life.order(&p()).expect("the cluster is assigned it");
    life.done(&order);
    life.settle();
    life
}

#[test]
fn w12_a_single_pass_waits_for_a_hub_that_is_busy_until_its_time_is_over() {
    let mut life = exporting();
    let end = life.now + SECOND * 90;
    let failed = |is_passing| HubReport {
        done: None,
        failure: Some("429 TooManyRequests".to_owned()),
        is_passing,
        problems: Vec::new(),
    };
    life.take_in(Event::Hub(failed(true)));
    life.settle();
    assert_eq!(life.core.finished(life.now, end), None, "it is tried again");
    let words = "the hub of `decisions:`: 429 TooManyRequests".to_owned();
    assert_eq!(life.core.standing(life.now), RolloutState::Unreachable(words.clone()), "when the time is over");
    life.take_in(Event::Hub(failed(false)));
    life.settle();
    assert_eq!(life.core.finished(life.now, end), Some(RolloutState::Unreachable(words)), "that does not pass");
    let done = Some(Arc::clone(&life.core.exports.decisions));
    life.take_in(Event::Hub(HubReport { done, failure: None, is_passing: false, problems: Vec::new() }));
    life.settle();
    assert_eq!(life.core.finished(life.now, end), Some(RolloutState::AllAtTarget));
}
