//! What a life begins with before and after its first look at the source.

use super::*;

/// A life after one that was ended while `p` was to hold the content "1", with every answer but the source's.
fn begun_again() -> Life {
    let mut life = Life::with(&[]);
    life.hear(SourceEvent::Accepted(commit("1", "")));
    life.online(BTreeSet::new());
    let mut life = Life::begin(life.store, life.now);
    life.hear(SourceEvent::Restored(Ok(commit("1", ""))));
    life.online(BTreeSet::new());
    life
}

#[test]
fn w1_a_start_decides_nothing_before_the_source_was_looked_at() {
    let mut life = begun_again();
    life.settle();
    assert!(life.order(&p()).is_none(), "a newer commit may stop it");
    assert_eq!(life.core.next_wake(), Some(life.now + FIRST_LOOK_MAX));
    life.hear(SourceEvent::Accepted(commit("2", "")));
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
        ("it fails", |life| life.hear(SourceEvent::Failed("no route".to_owned()))),
        ("it does not answer", |life| life.now += FIRST_LOOK_MAX),
    ];
    for (name, fail) in fails {
        let mut life = begun_again();
        fail(&mut life);
        life.settle();
        assert!(life.order(&p()).is_none(), "{name}: nothing new begins");
        let failure = life.core.source.failure.clone().unwrap_or_default();
        assert!(failure.contains("nothing new begins until it is"), "{name}: {failure}");
        assert!(
            matches!(life.core.finished(life.now, life.now + SECOND), None | Some(RolloutState::Failed(_))),
            "{name}"
        );
        life.hear(SourceEvent::Unchanged);
        life.settle();
        let order = life.order(&p()).expect("it begins as soon as the source was looked at");
        life.done(&order);
        life.settle();
        // What was begun before is kept right while the source is away.
        let mut life = Life::begin(life.store, life.now);
        life.hear(SourceEvent::Restored(Ok(commit("1", ""))));
        life.online(BTreeSet::new());
        for snapshot in life.reads() {
            let payload = payload_of(&commit("1", ""), &snapshot).expect("it is there");
            life.hear(SourceEvent::Payload(snapshot, Ok(payload)));
        }
        fail(&mut life);
        life.settle();
        let told = life.order(&p()).expect("it is told what it holds");
        assert_eq!((told.generation, told.snapshot), (order.generation, order.snapshot), "{name}");
    }
}

#[test]
fn w1_a_person_lets_the_accepted_commit_go_on_where_the_source_is_away() {
    let mut life = begun_again();
    life.hear(SourceEvent::Failed("no route".to_owned()));
    life.settle();
    assert!(life.order(&p()).is_none(), "nothing new begins");
    let (batch, done) = life.core.execute(&command(Verb::Resume, ""), &somebody(), life.now).expect("it may");
    assert!(done.message.contains("goes on"), "{}", done.message);
    life.keep(batch);
    life.settle();
    assert!(life.order(&p()).is_some(), "a person said so");
    let failure = life.core.source.failure.clone().unwrap_or_default();
    assert!(failure.contains("no route") && !failure.contains("nothing new begins"), "{failure}");
    // The word is for this life.
    let mut life = Life::begin(life.store, life.now);
    life.hear(SourceEvent::Restored(Ok(commit("1", ""))));
    life.hear(SourceEvent::Failed("no route".to_owned()));
    assert!(life.core.world.source_unread);
}
