//! Commands that the daemon executed before the console could note that it handled their comments.

use std::sync::Arc;

use super::forged::{HOOKED, POLLED, asking, waiting};
use super::world::{Beginning, World};
use crate::records::SavedRecords;
use engine::store::records::{EXECUTED_PREFIX, FORGE_PREFIX};
use engine::store::{Expected, MemoryStore, Op, Store as _, Versioned};
use model::forge::{Reaction, ThreadNumber};

impl World {
    /// Returns the console's records, for [`World::crash`].
    fn records(&self) -> Vec<(String, Versioned)> {
        self.store.list(FORGE_PREFIX).expect("the store can be read")
    }

    /// Ends the console and begins another, as if the first had ended right after the daemon executed commands: nothing of the console's
    /// own was stored after `records`.
    fn crash(&mut self, records: Vec<(String, Versioned)>) {
        let put = |(key, found): (String, Versioned)| Op::Put { key, value: found.value, expected: Expected::Any };
        self.store = Arc::new(MemoryStore::new());
        let executed = std::mem::take(&mut self.daemon().executed);
        self.store.batch(records.into_iter().map(put).chain(executed).collect()).expect("it is kept");
        self.daemon().store = Arc::clone(&self.store);
        self.restart();
    }
}

/// Somebody says something, the daemon executes it, and the console ends before it notes anything. The next one reads the comment
/// again, twice.
async fn say_into_a_crash(world: &mut World, who: &str, pull: ThreadNumber, body: &str) -> u64 {
    let before = world.records();
    let id = world.say(who, pull, body).await;
    world.crash(before);
    world.heard(pull, id).await;
    world.heard(pull, id).await;
    world.later(600).await;
    id
}

/// Returns our answers that refuse something.
fn refusals(world: &World, pull: ThreadNumber) -> Vec<String> {
    let ours = world.ours(pull).into_iter().map(|comment| comment.body);
    ours.filter(|body| body.contains("not done")).collect()
}

/// Returns what is stored about a handled comment, and how many executed commands belong to none.
fn stored(world: &World, id: u64) -> (String, usize) {
    let saved = SavedRecords::read(world.store.as_ref(), "").expect("the store can be read");
    let left = world.records().iter().filter(|(key, _)| key.starts_with(EXECUTED_PREFIX)).count();
    (saved.handled.get(&id).map(|handled| handled.outcome.clone()).unwrap_or_default(), left)
}

#[tokio::test]
async fn an_executed_command_is_answered_as_at_first_when_its_comment_is_read_again() {
    let two = |beginning| Beginning { required: 2, ..beginning };
    // How approvals are counted, the comment, and whether the gate opens
    let rows = [
        (HOOKED, "/approve one", true),
        (POLLED, "/approve one", true),
        (POLLED, "/approve --all", true),
        (two(HOOKED), "/approve one", false),
        (two(POLLED), "/approve one", false),
        (POLLED, "/reject one", false),
        (POLLED, "/pause", false),
        (POLLED, "/pause\n/approve one", true),
        (POLLED, "/approve one\n/status", true),
        (POLLED, "/pause\n/resume", false),
    ];
    for (beginning, body, opens) in rows {
        let (mut undisturbed, pull) = waiting(beginning).await;
        let id = undisturbed.say("bob", pull, body).await;
        undisturbed.later(720).await;
        let wanted = stored(&undisturbed, id);
        assert_eq!(wanted.1, 0, "{body}");
        assert!(!wanted.0.starts_with("refused"), "{body}: {}", wanted.0);
        let (mut world, pull) = waiting(beginning).await;
        let id = say_into_a_crash(&mut world, "bob", pull, body).await;
        assert_eq!((world.fleet(), world.is_open()), (undisturbed.fleet(), opens), "{body}");
        assert_eq!(refusals(&world, pull), Vec::<String>::new(), "{beginning:?}: {body}");
        assert_eq!(world.ours(pull).len(), undisturbed.ours(pull).len(), "{body}: nothing is said twice");
        assert_eq!(world.fake.reactions_to(id), [Reaction::Rocket].into(), "{body}");
        assert_eq!(stored(&world, id), wanted, "{body}: the same outcome, and nothing is left");
    }
}

#[tokio::test]
async fn without_its_record_an_executed_command_would_be_refused() {
    let (mut world, pull) = waiting(POLLED).await;
    let before = world.records();
    let id = world.say("bob", pull, "/approve one").await;
    world.daemon().executed.clear();
    world.crash(before);
    world.heard(pull, id).await;
    world.later(600).await;
    assert!(world.is_open());
    assert_eq!(refusals(&world, pull).len(), 1, "the other tests here would see nothing otherwise");
}

#[tokio::test]
async fn a_comment_that_was_edited_after_it_was_executed_counts_as_it_was() {
    let (mut world, pull) = waiting(POLLED).await;
    let before = world.records();
    let id = world.say("bob", pull, "/approve one").await;
    world.crash(before);
    world.pass(60);
    world.fake.edit_comment(id, "/reject one");
    world.heard(pull, id).await;
    world.later(600).await;
    assert_eq!(refusals(&world, pull), Vec::<String>::new());
    assert!(world.is_open());
}

#[tokio::test]
async fn one_voice_stays_one_voice_when_its_comment_is_read_again() {
    let (mut world, pull) = waiting(Beginning { required: 2, ..HOOKED }).await;
    say_into_a_crash(&mut world, "bob", pull, "/approve one").await;
    assert!(!world.is_open());
    // A second comment is another word, and is answered.
    world.say("bob", pull, "/approve one").await;
    assert!(!world.is_open());
    assert_eq!(world.answers(pull).len(), 1, "{:?}", world.answers(pull));
    say_into_a_crash(&mut world, "dora", pull, "/approve one").await;
    assert!(world.is_open());
    assert_eq!(world.answers(pull).len(), 1, "{:?}", world.answers(pull));
}

#[tokio::test]
async fn a_reaction_that_was_counted_before_a_crash_is_counted_once_and_in_silence() {
    for required in [1, 2] {
        let (mut world, pull) = waiting(Beginning { required, ..POLLED }).await;
        let asked = asking(&world, pull);
        let before = world.records();
        world.fake.react_as("bob", asked.id, Reaction::Rocket);
        world.later(90).await;
        world.crash(before);
        world.later(600).await;
        assert_eq!(world.is_open(), required == 1);
        assert_eq!(refusals(&world, pull), Vec::<String>::new(), "{required}");
        let left = world.records().iter().filter(|(key, _)| key.starts_with(EXECUTED_PREFIX)).count();
        // A gate that opened asks nobody any more, so the reaction is not read again.
        assert_eq!(left, usize::from(required == 1), "{required}");
        world.fake.react_as("dora", asked.id, Reaction::Rocket);
        world.later(300).await;
        assert!(world.is_open());
    }
}
