//! Batches that the store kept although it said that it failed.

use super::*;

/// The store keeps a batch, and answers with an error.
fn kept_unsaid(life: &mut Life, mut batch: Batch) {
    life.store.batch(std::mem::take(&mut batch.ops)).expect("it takes everything");
    life.core.refused(batch, life.now);
}

/// The store has of placement `p` what the core has, and nothing else.
fn assert_same(life: &Life) {
    let stored = persist::load(&life.store).expect("it is read");
    let differences = persist::difference(stored.get(&p()), life.core.placements().get(&p())).expect("records");
    assert_eq!(persist::keys(&differences), BTreeSet::new());
}

#[test]
fn a_command_that_was_kept_and_not_answered_is_taken_back() {
    let mut life = Life::with(&[]);
    life.roll_out("1");
    let command = Command::new(Verb::Pause, "p");
    let (batch, _) = life.core.execute(&command, &somebody(), life.now).expect("it is carried out");
    kept_unsaid(&mut life, batch);
    let stored = persist::load(&life.store).expect("it is read");
    assert!(stored[&p()].record.paused.is_some(), "the store has it");
    life.wait(STORE_RETRY);
    assert!(life.core.placements()[&p()].record.paused.is_none(), "nobody was told that it was carried out");
    assert_same(&life);
}

#[test]
fn a_decision_that_was_kept_and_not_repeated_leaves_nothing() {
    let mut life = Life::with(&[]);
    life.roll_out("1");
    let with_another = |name: &str| {
        let files = [("e.yaml", cluster(name, "")), ("c.yaml", cluster("a", "")), ("d.yaml", payload("1"))];
        let more = [("p.yaml", placement("p", "", "")), ("q.yaml", placement("q", "", ""))];
        let files = files.iter().chain(&more).map(|(path, text)| (*path, text.as_str()));
        tree(&files.collect::<Vec<_>>())
    };
    life.handle(SourceEvent::Accepted(with_another("b")));
    life.answers("b", BTreeSet::new());
    let batch = life.core.decide(life.now).expect("the cluster is picked");
    kept_unsaid(&mut life, batch);
    let bound = |life: &Life| persist::load(&life.store).expect("it is read")[&p()].bindings.len();
    assert_eq!(bound(&life), 2, "the store has a binding of the new cluster");
    // It left before the decision could be made again.
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.wait(STORE_RETRY);
    assert_eq!(bound(&life), 1);
    assert_same(&life);
}
