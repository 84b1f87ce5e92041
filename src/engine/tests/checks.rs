//! Queries of stages that wait: when they are asked, and which answers count.

use super::*;
use crate::measures::GateKind;
use model::runs::MetricQuery;

const STRATEGY: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
    metadata:\n  name: steps\n  annotations:\n    gitfleet.io/stage-checks: 'all: {metrics: [{name: errors, query: up, max: 1}]}'\n\
    spec: {stages: [{name: all, labelSelector: {}}]}\n";

fn files(value: &str) -> [(&'static str, String); 4] {
    let placement = placement("p", "gitfleet.io/staged-update-strategy: steps", ", strategy: {type: External}");
    [("c.yaml", cluster("a", "")), ("d.yaml", payload(value)), ("p.yaml", placement), ("s.yaml", STRATEGY.to_owned())]
}

fn staged(value: &str) -> Arc<Tree> {
    let files = files(value);
    tree(&files.each_ref().map(|(path, text)| (*path, text.as_str())))
}

/// Returns what is to be asked since the last call; `None` if nothing was said of it.
fn asked(life: &mut Life) -> Option<Vec<MetricQuery>> {
    let effects = std::mem::take(&mut life.effects).into_iter();
    let asks = effects.filter_map(|effect| if let Effect::Ask(_, queries) = effect { Some(queries) } else { None });
    asks.last().map(|queries| queries.into_iter().collect())
}

/// Cluster `a` carries out what it was told last.
fn work(life: &mut Life) {
    let order = life.order(&p()).expect("it is told");
    life.done(&order);
    life.settle();
}

fn begin() -> Life {
    let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
    life.handle(SourceEvent::Accepted(staged("1")));
    life.online(BTreeSet::new());
    life.settle();
    life
}

fn phase(life: &Life) -> String {
    let runs = life.core.placements()[&p()].runs.values();
    runs.map(|run| format!("{} {:?}", run.name, run.phase)).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_stage_is_asked_about_while_it_waits() {
    let mut life = begin();
    work(&mut life);
    assert_eq!(phase(&life), "p-0 Waiting");
    let queries = asked(&mut life).expect("the stage waits");
    let [query] = queries.as_slice() else { panic!("{queries:?}") };
    assert_eq!((query.stage.as_str(), query.server.as_str(), query.query.as_str()), ("all", "main", "up"));
    assert_eq!(life.core.measures().gates(GateKind::Checks).0, 1);

    life.take_in(Event::Answered(query.clone(), Err("no data".to_owned())));
    life.settle();
    assert_eq!((phase(&life).as_str(), asked(&mut life)), ("p-0 Waiting", None));
    life.take_in(Event::Answered(query.clone(), Ok(2.0)));
    life.settle();
    assert_eq!((phase(&life).as_str(), asked(&mut life)), ("p-0 Halted", None));
    // The store refuses the decision about an answer: it is decided again.
    life.take_in(Event::Answered(query.clone(), Ok(1.0)));
    let batch = life.core.decide(life.now).expect("it is decided");
    life.core.refused(batch, life.now);
    assert_eq!(phase(&life), "p-0 Halted");
    life.wait(STORE_RETRY);
    assert_eq!((phase(&life).as_str(), asked(&mut life)), ("p-0 Succeeded", Some(vec![])));
    life.take_in(Event::Answered(query.clone(), Ok(2.0)));
    assert!(life.core.decide(life.now).is_none(), "nobody asks that any more");
    assert!(life.core.fleet().replies.is_empty());
}

#[test]
fn a_stage_is_asked_about_after_a_restart_and_not_after_its_placement() {
    let mut life = begin();
    work(&mut life);
    let before = asked(&mut life).expect("the stage waits");
    let mut life = Life::begin(life.store, life.now + SECOND * 5);
    life.handle(SourceEvent::Restored(Ok(staged("1"))));
    life.handle(SourceEvent::Unchanged);
    life.online(BTreeSet::new());
    for snapshot in life.reads() {
        let payload = payload_of(&staged("1"), &snapshot).expect("it is there");
        life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
    }
    life.settle();
    assert_eq!(asked(&mut life), Some(before.clone()), "the same query");
    life.handle(SourceEvent::Accepted(staged("2")));
    life.settle();
    assert_eq!(asked(&mut life), Some(vec![]), "a newer run begins");
    life.take_in(Event::Answered(before[0].clone(), Ok(2.0)));
    assert!(life.core.decide(life.now).is_none(), "the query is of an earlier run");
}
