//! What is under way together, and what waits for nothing.

use super::source_thread::mistake;
use super::world::{Beginning, World, commit};
use crate::event_loop::{run, turn};
use crate::inbox::Message;
use crate::outbox::Slot;
use crate::records::SavedRecords;
use engine::ForgeUpdate;
use model::forge::ForgeEvent;
use model::records::SourceRecord;

const GATED: Beginning = Beginning { hooked: true, required: 1, approvers: "", open: false };

/// Lets everything else run until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("waited in vain until {what}");
}

#[tokio::test]
async fn writes_of_different_slots_are_under_way_together_and_their_start_is_stored() {
    let mut world = World::begin(GATED);
    world.settle().await;
    world.fake.hold("set_status", true);
    let pull = world.merge('1');
    world.deliver_updates();
    while turn(&mut world.bot).await {}
    assert_eq!(world.bot.inbox.writes.len(), 2, "the status of the rollout, and the comment");
    let fake = std::sync::Arc::clone(&world.fake);
    until("both are sent", || fake.count("set_status") == 1 && fake.count("create_comment") == 1).await;
    let stored = SavedRecords::read(world.store.as_ref(), "").expect("the store can be read").outbox;
    let statuses: Vec<_> = stored.iter().filter(|entry| matches!(entry.slot, Slot::Status { .. })).collect();
    assert!(statuses.len() == 1 && statuses[0].unsure, "{statuses:?}");
    // This life ends before any answer: the next one asks what stands, and repeats nothing.
    world.fake.hold("set_status", false);
    world.restart();
    world.later(30).await;
    // Once there is the comment, the rollout's status links to it, and the placement's begins.
    assert_eq!((world.fake.count("statuses"), world.fake.count("set_status")), (1, 3));
    assert_eq!(world.rollouts(pull).len(), 1);
}

#[tokio::test]
async fn a_status_does_not_wait_for_a_read() {
    let mut world = World::begin(GATED);
    let pull = world.merge('1');
    world.later(30).await;
    let id = world.fake.say("bob", pull, "looks good");
    world.hint(ForgeEvent::Comment { thread: pull, id, said: world.fake.said(id) });
    world.fake.hold("comment", true);
    world.fake.add_commit(&commit('2'));
    let fake = std::sync::Arc::clone(&world.fake);
    let reads = fake.count("comment");
    let (mut bot, messages) = world.into_bot();
    let meanwhile = async {
        until("the comment is read", || fake.count("comment") > reads).await;
        let refused = SourceRecord { seen: Some(commit('2')), refused: vec![mistake()], ..SourceRecord::default() };
        messages.send(Message::Update(ForgeUpdate::Source(Box::new(refused)))).expect("the console listens");
        until("the status is set", || fake.statuses_of(&commit('2')).len() == 1).await;
    };
    tokio::select! {
        () = run(&mut bot) => panic!("it ended"),
        () = meanwhile => {}
    }
}

#[tokio::test]
async fn a_gate_that_begins_to_wait_while_a_text_is_under_way_was_not_shown_by_it() {
    let mut world = World::begin(GATED);
    world.settle().await;
    world.slow();
    let pull = world.merge('1');
    world.settle().await;
    world.fake.hold("create_comment", true);
    world.pass(60);
    while turn(&mut world.bot).await {}
    let fake = std::sync::Arc::clone(&world.fake);
    until("the comment is written", || fake.count("create_comment") == 1).await;
    assert!(world.work());
    world.deliver_updates();
    while turn(&mut world.bot).await {}
    fake.hold("create_comment", false);
    while let Some(sent) = world.bot.inbox.writes.join_next().await {
        world.bot.sent(sent);
    }
    let rollout = |world: &World| world.bot.rollouts.all.get(&commit('1')).cloned().expect("it is told");
    let asks: Vec<u64> = rollout(&world).asked.iter().map(|asked| asked.comment).collect();
    let told = world.ours(pull);
    assert_eq!((told.len(), asks.len()), (2, 1), "the text was made before, so another asks: {told:?}");
    assert!(told.iter().all(|comment| asks.contains(&comment.id) == comment.body.contains("/approve one")), "{told:?}");
    world.settle().await;
    assert!(!rollout(&world).has_unshown() && !rollout(&world).asked.is_empty(), "an edit shows it");
}
