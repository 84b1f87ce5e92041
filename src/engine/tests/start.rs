//! What a life begins with before and after its first look at the source.

use super::*;
use model::runs::RunPhase;

/// A life after one that was ended while `p` was to hold the content "1", with every answer but the source's.
fn begun_again() -> Life {
    let mut life = Life::with(&[]);
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.online(BTreeSet::new());
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
    life.online(BTreeSet::new());
    life
}

#[test]
fn w1_a_start_decides_nothing_before_the_source_was_polled() {
    let mut life = begun_again();
    life.settle();
    assert!(life.order(&p()).is_none(), "a newer commit may stop it");
    assert_eq!(life.core.next_wake(), Some(life.now + FIRST_LOOK_MAX));
    life.handle(SourceEvent::Accepted(commit("2", "")));
    life.settle();
    let order = life.order(&p()).expect("it goes to the newest");
    let content = order.manifests.iter().map(|desired| desired.object.to_string()).collect::<String>();
    assert!(content.contains("\"2\"") && !content.contains("\"1\""), "{content}");
}

/// Makes something happen to a life.
type Happens = fn(&mut Life);

#[test]
fn w1_where_the_source_does_not_answer_nothing_new_begins_and_what_is_held_is_kept_right() {
    let fails: [(&str, Happens); 2] = [
        ("it fails", |life| life.handle(SourceEvent::Failed("no route".to_owned()))),
        ("it does not answer", |life| life.now += FIRST_LOOK_MAX),
    ];
    for (name, fail) in fails {
        let mut life = begun_again();
        fail(&mut life);
        life.settle();
        assert!(life.order(&p()).is_none(), "{name}: nothing new begins");
        let failure = life.core.source.record.failure.clone().unwrap_or_default();
        assert!(failure.contains("nothing new begins until it is"), "{name}: {failure}");
        assert!(
            matches!(life.core.finished(life.now, life.now + SECOND), None | Some(RolloutState::Failed(_))),
            "{name}"
        );
        life.handle(SourceEvent::Unchanged);
        life.settle();
        let order = life.order(&p()).expect("it begins as soon as the source was read");
        life.done(&order);
        life.settle();
        // What was begun before is kept right while the source is away.
        let mut life = Life::begin(life.store, life.now);
        life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
        life.online(BTreeSet::new());
        for snapshot in life.reads() {
            let payload = payload_of(&commit("1", ""), &snapshot).expect("it is there");
            life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
        }
        fail(&mut life);
        life.settle();
        let told = life.order(&p()).expect("it is told what it holds");
        assert_eq!((told.generation, told.snapshot), (order.generation, order.snapshot), "{name}");
    }
}

#[test]
fn w1_a_person_lets_the_accepted_commit_continue_where_the_source_is_away() {
    let mut life = begun_again();
    life.handle(SourceEvent::Failed("no route".to_owned()));
    life.settle();
    assert!(life.order(&p()).is_none(), "nothing new begins");
    let (batch, done) = life.core.execute(&Command::new(Verb::Resume, ""), &somebody(), life.now).expect("it may");
    assert!(done.message.contains("continues"), "{}", done.message);
    life.keep(batch);
    life.settle();
    assert!(life.order(&p()).is_some(), "a person said so");
    let failure = life.core.source.record.failure.clone().unwrap_or_default();
    assert!(failure.contains("no route") && !failure.contains("nothing new begins"), "{failure}");
    // The word is for this life.
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
    life.handle(SourceEvent::Failed("no route".to_owned()));
    assert!(life.core.fleet.source_unread);
}

#[test]
fn what_an_earlier_life_accepted_does_not_come_back_over_a_newer_commit() {
    let mut life = Life::with(&[]);
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.settle();
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Err("it cannot be read".to_owned())));
    life.handle(SourceEvent::Accepted(commit("2", "")));
    life.settle();
    life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
    assert_eq!(life.core.source().accepted, commit("2", "").commit);
    assert_eq!(life.core.source().seen, commit("2", "").commit);
}

/// A PickFixed placement reads no labels to pick clusters; its stages do.
#[test]
fn a_run_that_no_stage_takes_a_cluster_of_begins_when_the_cluster_is_labelled() {
    let staged = |in_no_stage: &str, labels: &str| {
        let strategy = format!(
            "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: steps, \
             annotations: {{gitfleet.io/clusters-in-no-stage: {in_no_stage}}}}}\nspec:\n  stages:\n    - name: first\n      \
             labelSelector: {{matchLabels: {{ring: one}}}}\n"
        );
        let spec = ", strategy: {type: External}, policy: {placementType: PickFixed, clusterNames: [a]}";
        let placement = placement("p", "gitfleet.io/staged-update-strategy: steps", spec);
        let (cluster, payload) = (cluster("a", labels), payload("1"));
        tree(&[("c.yaml", &*cluster), ("d.yaml", &payload), ("s.yaml", &strategy), ("p.yaml", &placement)])
    };
    for (in_no_stage, waiting) in [("Refuse", 1), ("Ignore", 0)] {
        let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
        life.handle(SourceEvent::Accepted(staged(in_no_stage, "")));
        life.online(BTreeSet::new());
        life.settle();
        assert_eq!(life.core.measures().runs(RunPhase::Pending), waiting, "no stage takes the cluster");
        life.effects.clear();
        life.handle(SourceEvent::Accepted(staged(in_no_stage, "labels: {ring: one}")));
        life.settle();
        assert_eq!(life.core.measures().runs(RunPhase::Updating), 1, "{in_no_stage}");
    }
}

/// Clusters `a` and `b` in stages of their own, a minute apart.
fn in_two_stages(state: &str) -> Arc<Tree> {
    const STRATEGY: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
        metadata: {name: steps}\nspec:\n  stages:\n  - {name: one, labelSelector: {matchLabels: {ring: one}}, \
        afterStageTasks: [{type: TimedWait, waitTime: 1m}]}\n  - {name: two, labelSelector: {matchLabels: {ring: two}}}\n";
    let run = format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {{name: run}}\n\
         spec: {{placementName: p, stagedRolloutStrategyName: steps, state: {state}}}\n"
    );
    tree(&[
        ("a.yaml", &cluster("a", "labels: {ring: one}")),
        ("b.yaml", &cluster("b", "labels: {ring: two}")),
        ("d.yaml", &payload("1")),
        ("p.yaml", &placement("p", "", ", strategy: {type: External}")),
        ("r.yaml", &run),
        ("s.yaml", STRATEGY),
    ])
}

#[test]
fn w1_a_stop_that_was_pushed_while_nobody_ran_counts_before_the_next_stage_begins() {
    let rows: [(&str, SourceEvent, RunPhase, bool); 2] = [
        ("nothing was pushed", SourceEvent::Unchanged, RunPhase::Updating, true),
        ("a Stop was pushed", SourceEvent::Accepted(in_two_stages("Stop")), RunPhase::Stopped, false),
    ];
    for (name, news, phase, begins) in rows {
        let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
        life.handle(SourceEvent::Accepted(in_two_stages("Run")));
        life.answers("a", BTreeSet::new());
        life.answers("b", BTreeSet::new());
        life.settle();
        let first = life.order(&p()).expect("the first stage begins");
        life.done(&first);
        life.settle();
        assert_eq!(life.core.measures().runs(RunPhase::Waiting), 1, "{name}");

        let mut life = Life::begin(life.store, life.now + SignedDuration::from_mins(2));
        life.handle(SourceEvent::Restored(Ok(in_two_stages("Run"))));
        let held = first.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
        life.answers("a", held);
        life.answers("b", BTreeSet::new());
        life.settle();
        life.done(&first);
        for snapshot in life.reads() {
            let payload = payload_of(&in_two_stages("Run"), &snapshot).expect("it is there");
            life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
        }
        life.settle();
        assert_eq!(life.core.measures().runs(RunPhase::Waiting), 1, "{name}: the source was not polled");
        life.handle(news);
        life.settle();
        assert_eq!(life.core.measures().runs(phase), 1, "{name}");
        let to_b = life.effects.iter().any(
            |effect| matches!(effect, Effect::Command(cluster, MemberCommand::Order { .. }) if *cluster == "b".into()),
        );
        assert_eq!(to_b, begins, "{name}");
    }
}

/// An agent forgets what it keeps of placements that it is not told, and before a member has answered no order for it is out.
#[test]
fn a_member_whose_task_began_again_is_told_its_placements_with_its_orders() {
    let told = |life: &Life| {
        let told = life.effects.iter().filter_map(|effect| match effect {
            Effect::Command(_, MemberCommand::Placements(placements)) => Some(placements.clone()),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let mut life = Life::with(&[]);
    life.roll_out("1");
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
    life.handle(SourceEvent::Unchanged);
    life.offline();
    life.take_in(Event::Member(MemberEvent::Restarted { cluster: "a".into() }));
    life.settle();
    assert!(told(&life).is_empty(), "it has no orders");
    life.online(BTreeSet::new());
    life.settle();
    assert!(told(&life).is_empty(), "what its orders are to hold is being read");
    for snapshot in life.reads() {
        let payload = payload_of(&commit("1", ""), &snapshot).expect("it is there");
        life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
    }
    life.settle();
    let all = BTreeSet::from([p(), PlacementKey::cluster_scoped("q")]);
    assert_eq!(told(&life), [all]);
}

#[test]
fn w16_a_renamed_placement_waits_for_a_payload_of_its_old_name() {
    let commit = |name: &str, value: &str| {
        let files = [("c.yaml", cluster("a", "")), ("d.yaml", payload(value)), ("p.yaml", placement(name, "", ""))];
        SourceEvent::Accepted(tree(&files.each_ref().map(|(path, text)| (*path, text.as_str()))))
    };
    let mut life = Life::with(&[]);
    for value in ["1", "2"] {
        life.handle(commit("p", value));
        life.online(BTreeSet::new());
        life.settle();
        let order = life.order(&p()).expect("it is told what to hold");
        life.done(&order);
        life.settle();
    }
    life.roll_back("p", 0);
    life.settle();
    let snapshot = life.reads().pop().expect("it is read again");
    life.handle(commit("r", "2"));
    life.settle();
    let r = PlacementKey::cluster_scoped("r");
    assert_eq!(life.core.placements()[&r].record.generation, 0, "nothing of it is decided");
    assert!(life.core.next_wake().is_none_or(|at| at > life.now), "it waits for nothing without a pause");
    life.handle(SourceEvent::Payload(snapshot, Err("the disk is away".to_owned())));
    life.settle();
    let held = life.core.placements()[&r].record.held.as_ref().map(|held| held.index);
    assert_eq!(held, Some(1), "what was held under the old name is held under the new one");
    assert_eq!(life.core.placements()[&p()].record.renamed_to, Some(r));
}

/// The placement was decided without it already, and another one may get what it has with that commit.
#[test]
fn w16_a_placement_does_not_wait_at_the_next_commit_for_a_payload_that_could_not_be_read() {
    let (mut life, snapshot) = rolled_back();
    life.handle(SourceEvent::Payload(snapshot, Err("the disk is away".to_owned())));
    life.settle();
    let files = [
        ("c.yaml", cluster("a", "")),
        ("d.yaml", payload("2")),
        ("p.yaml", placement("p", "a: b", "")),
        ("q.yaml", placement("q", "", "")),
    ];
    life.handle(SourceEvent::Accepted(tree(&files.each_ref().map(|(path, text)| (*path, text.as_str())))));
    life.settle();
    assert_eq!(life.core.placements()[&p()].record.annotations.len(), 1, "it is decided");
    let reads = life.reads();
    let reads: Vec<_> = reads.iter().map(|read| (&read.placement, read.index)).collect();
    assert_eq!(reads, [(&p(), 0)], "what is missing is read again at once");
}
