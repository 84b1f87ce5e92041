use super::*;
use crate::measures::{GateKind, Measured, StateKind};
use model::runs::RunPhase;

/// One stage: a person says yes before it, a minute passes after it.
const STRATEGY: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
    metadata: {name: steps}\nspec:\n  stages:\n    - name: all\n      labelSelector: {}\n      \
    beforeStageTasks: [{type: Approval}]\n      afterStageTasks: [{type: TimedWait, waitTime: 1m}]\n";

fn staged(has_placement: bool) -> Arc<Tree> {
    let placement = placement("p", "gitfleet.io/staged-update-strategy: steps", ", strategy: {type: External}");
    let (cluster, payload) = (cluster("a", ""), payload("1"));
    let files = [("c.yaml", &*cluster), ("d.yaml", &payload), ("s.yaml", STRATEGY), ("p.yaml", &placement)];
    tree(if has_placement { &files } else { &files[..3] })
}

fn approve(life: &mut Life, target: &str, stage: &str) {
    let command = Command { stage: Some(stage.to_owned()), ..Command::new(Verb::Approve, target) };
    let (batch, _) = life.core.execute(&command, &somebody(), life.now).expect("it may");
    life.keep(batch);
}

/// Returns what was measured since it was last asked for, and drops everything else that is to be done.
fn measured(life: &mut Life) -> Vec<Measured> {
    let effects = std::mem::take(&mut life.effects).into_iter();
    effects.filter_map(|effect| if let Effect::Measured(measured) = effect { Some(measured) } else { None }).collect()
}

#[test]
fn a_rollout_is_counted_at_each_change() {
    let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
    life.handle(SourceEvent::Seen(staged(true).commit.clone().expect("it is a commit")));
    life.now += SECOND * 3;
    life.handle(SourceEvent::Accepted(staged(true)));
    life.online(BTreeSet::new());
    life.settle();
    let source = life.core.source();
    assert_eq!((source.seen_at, source.accepted_at), (Some(Timestamp::UNIX_EPOCH), Some(life.now)));
    let begun = life.now;
    let waits = |life: &Life| {
        let measures = life.core.measures();
        assert_eq!(measures.gates(GateKind::BeforeStage), (1, Some(begun)));
        assert_eq!(measures.runs(RunPhase::Waiting), 1);
        assert_eq!(measures.placements(StateKind::WaitingForPerson), 1);
    };
    waits(&life);
    life.wait(SECOND * 10);
    // The next life counts what the store has, before it decides anything.
    let restarted = Life::begin(life.store, life.now);
    waits(&restarted);
    let mut life = restarted;
    life.handle(SourceEvent::Restored(Ok(staged(true))));
    life.handle(SourceEvent::Unchanged);
    life.online(BTreeSet::new());
    for snapshot in life.reads() {
        let payload = payload_of(&staged(true), &snapshot).expect("it is there");
        life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
    }
    life.settle();
    waits(&life);

    approve(&mut life, "p-0", "all");
    life.settle();
    let order = life.effects.iter().find_map(|effect| match effect {
        Effect::Command(_, MemberCommand::Order { order, .. }) => Some(Arc::clone(order)),
        _ => None,
    });
    assert_eq!(measured(&mut life), [Measured::Approved(GateKind::BeforeStage, SECOND * 10)]);
    assert_eq!(life.core.measures().gates(GateKind::BeforeStage), (0, None));
    assert_eq!(life.core.measures().placements(StateKind::Progressing), 1);
    life.now += SECOND * 2;
    life.done(&order.expect("the update of the cluster begins"));
    life.settle();
    assert_eq!(life.core.measures().gates(GateKind::Timer), (1, Some(life.now)));
    life.wait(SECOND * 60);
    assert_eq!(life.core.measures().runs(RunPhase::Succeeded), 1);
    assert_eq!(life.core.measures().placements(StateKind::AtTarget), 1);
    assert_eq!(measured(&mut life), [Measured::Available(SECOND * 75)], "from when the commit was seen, and once");

    life.handle(SourceEvent::Accepted(staged(false)));
    life.settle();
    assert_eq!(life.core.measures().gates(GateKind::Deletion), (1, Some(life.now)));
    life.wait(SECOND * 7);
    approve(&mut life, "p", "deletion");
    assert_eq!(measured(&mut life), [Measured::Approved(GateKind::Deletion, SECOND * 7)]);
    life.settle();
    let removal = life.order(&p()).expect("it gets the order to remove it");
    life.done(&removal);
    life.settle();
    assert!(life.core.placements().is_empty());
    let measures = life.core.measures();
    assert_eq!(measures.gates(GateKind::Deletion), (0, None));
    assert_eq!(measures.placements(StateKind::Progressing) + measures.runs(RunPhase::Succeeded), 0);
}

#[test]
fn a_commit_that_is_refused_is_seen_and_not_accepted() {
    let mut life = Life::with(&[]);
    let accepted_at = life.core.source().accepted_at;
    life.now += SECOND;
    let refused = CommitId::new("refused");
    life.handle(SourceEvent::Seen(refused.clone()));
    let seen = life.now;
    life.now += SECOND;
    life.handle(SourceEvent::Refused(refused.clone(), Vec::new()));
    life.now += SECOND;
    life.handle(SourceEvent::Refused(refused, Vec::new()));
    assert_eq!((life.core.source().seen_at, life.core.source().accepted_at), (Some(seen), accepted_at));
    life.handle(SourceEvent::Unchanged);
    assert_eq!(life.core.source().seen_at, accepted_at, "the branch went back");
}
