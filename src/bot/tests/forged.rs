//! Texts that somebody else changed, hid or moved.

use proptest::prelude::*;

use super::world::{Beginning, World, commit, now};
use forge::webhook::text_digest;
use model::forge::{Comment, ForgeEvent, Permission, Reaction, Said, ThreadNumber};
use testservers::doubles::forge::{Failure, Moment};

pub(super) const HOOKED: Beginning = Beginning { hooked: true, required: 1, approvers: "", open: false };
pub(super) const POLLED: Beginning = Beginning { hooked: false, ..HOOKED };

/// A world whose rollout waits at its gate, as everybody could see for two minutes.
pub(super) async fn waiting(beginning: Beginning) -> (World, ThreadNumber) {
    let mut world = World::begin(beginning);
    let pull = world.merge('1');
    world.later(120).await;
    assert_eq!(world.fleet(), "p-0 Waiting");
    (world, pull)
}

/// The comment that asks for the approval of the first stage.
pub(super) fn asking(world: &World, pull: ThreadNumber) -> Comment {
    let asks = |comment: &Comment| comment.body.contains("To approve,");
    world.ours(pull).into_iter().find(asks).expect("the gate is asked for")
}

/// Says something by a webhook that has this text of it.
async fn delivered(world: &mut World, thread: ThreadNumber, id: u64, said: Option<Said>) {
    world.hint(ForgeEvent::Comment { thread, id, said });
    world.settle().await;
}

#[tokio::test]
async fn d01_an_edit_within_the_second_of_writing_is_nobodys_word() {
    // A clock of whole seconds does not move between the two. Whether the host tells of changes, and how we get to know of it.
    for (beginning, tells) in [(HOOKED, true), (HOOKED, false), (POLLED, true), (POLLED, false)] {
        let (mut world, pull) = waiting(beginning).await;
        if !tells {
            world.fake.hide_history();
        }
        let id = world.fake.say("bob", pull, "I will look tomorrow");
        world.fake.edit_comment(id, "/approve one");
        let comment = world.fake.comments_of(pull).pop().expect("it is there");
        assert_eq!((comment.created_at, comment.updated_at), (now(), now()), "no clock shows it");
        world.heard(pull, id).await;
        world.later(300).await;
        assert!(!world.is_open(), "{beginning:?}, {tells}");
        let answers = world.answers(pull);
        assert_eq!(answers.len(), 1, "{beginning:?}, {tells}: {answers:?}");
        let advice = if beginning.hooked || tells { "new one" } else { "react with 🚀" };
        assert!(answers[0].body.contains(advice), "{beginning:?}, {tells}: {}", answers[0].body);
        world.restart();
        world.later(300).await;
        assert!(!world.is_open(), "{beginning:?}, {tells}: after a restart");
    }
}

#[tokio::test]
async fn d01_what_was_heard_once_is_no_command_later() {
    for tells in [true, false] {
        let (mut world, pull) = waiting(HOOKED).await;
        if !tells {
            world.fake.hide_history();
        }
        let id = world.say("bob", pull, "I will look tomorrow").await;
        world.restart();
        world.fake.edit_comment(id, "/approve one");
        world.heard(pull, id).await;
        // Somebody sends the first delivery again, and another that has the new text.
        let said = world.fake.said(id);
        delivered(&mut world, pull, id, said).await;
        let author = world.fake.add_user("bob").id;
        delivered(&mut world, pull, id, Some(Said { author, body: text_digest("/approve one") })).await;
        world.later(600).await;
        assert!(!world.is_open(), "{tells}");
        let answers = world.answers(pull);
        assert_eq!(answers.len(), 1, "{tells}: {answers:?}");
        assert!(answers[0].body.contains("edited"), "{}", answers[0].body);
    }
}

#[tokio::test]
async fn d01_a_delivery_that_was_heard_is_known_after_a_restart() {
    let (mut world, pull) = waiting(HOOKED).await;
    world.fake.hide_history();
    let id = world.fake.say("bob", pull, "/approve one");
    // Its delivery arrives, but it cannot be read before the daemon ends.
    world.fake.fail("comment", Moment::Before, Failure::Unreachable);
    let said = world.fake.said(id);
    delivered(&mut world, pull, id, said).await;
    assert!(!world.is_open());
    world.restart();
    world.later(600).await;
    assert!(world.is_open(), "{:?}", world.answers(pull));
}

#[tokio::test]
async fn d01_a_command_waits_for_its_delivery_and_is_asked_for_again_without_one() {
    let (mut world, pull) = waiting(HOOKED).await;
    world.fake.hide_history();
    // Polling finds it first.
    let id = world.fake.say("bob", pull, "/approve one");
    world.hint(ForgeEvent::Comment { thread: pull, id, said: None });
    world.later(5).await;
    assert!(!world.is_open() && world.answers(pull).is_empty());
    let said = world.fake.said(id);
    delivered(&mut world, pull, id, said).await;
    assert!(world.is_open(), "{:?}", world.answers(pull));

    // It never comes.
    let (mut world, pull) = waiting(HOOKED).await;
    world.fake.hide_history();
    let id = world.fake.say("bob", pull, "/approve one");
    world.hint(ForgeEvent::Comment { thread: pull, id, said: None });
    world.later(60).await;
    assert!(!world.is_open());
    assert!(world.answers(pull)[0].body.contains("again, in a new comment"), "{:?}", world.answers(pull));
    world.say("bob", pull, "/approve one").await;
    assert!(world.is_open());
}

#[tokio::test]
async fn d01_deliveries_that_vouch_for_something_else_vouch_for_nothing() {
    type Change = fn(&mut Said);
    let rows: [(&str, Change); 2] = [
        ("another author", |said| said.author += 100),
        ("another text", |said| said.body = text_digest("I will look tomorrow")),
    ];
    for (name, change) in rows {
        let (mut world, pull) = waiting(HOOKED).await;
        world.fake.hide_history();
        let id = world.fake.say("bob", pull, "/approve one");
        let mut said = world.fake.said(id).expect("it is there");
        change(&mut said);
        delivered(&mut world, pull, id, Some(said)).await;
        world.later(60).await;
        assert!(!world.is_open(), "{name}");
    }
}

#[tokio::test]
async fn d01_a_comment_that_is_deleted_and_written_again_is_another() {
    for beginning in [HOOKED, POLLED] {
        let (mut world, pull) = waiting(beginning).await;
        let first = world.fake.say("bob", pull, "/approve one");
        let said = world.fake.said(first);
        world.fake.delete_comment(first);
        // By somebody else, with the same words.
        let second = world.fake.say("ann", pull, "/approve one");
        if beginning.hooked {
            delivered(&mut world, pull, first, said).await;
        }
        world.heard(pull, second).await;
        assert!(!world.is_open(), "ann made the change");
        // Told under the number of another conversation.
        let third = world.fake.say("bob", pull, "/approve one");
        if beginning.hooked {
            let said = world.fake.said(third);
            delivered(&mut world, pull + 1, third, said).await;
            assert!(!world.is_open(), "it does not stand there");
        }
        world.heard(pull, third).await;
        assert_eq!(
            world.is_open(),
            !beginning.hooked,
            "its first delivery named another place: {:?}",
            world.answers(pull)
        );
    }
}

#[tokio::test]
async fn d01_edits_by_ourselves_and_by_administrators_are_edits() {
    for who in ["gitfleet", "root"] {
        let (mut world, pull) = waiting(HOOKED).await;
        world.fake.permit(who, Permission::Admin);
        let id = world.fake.say("bob", pull, "hello");
        world.fake.edit_comment(id, "/approve one");
        world.heard(pull, id).await;
        assert!(!world.is_open(), "{who}");
    }
}

#[tokio::test]
async fn what_needs_no_proof_is_done_without() {
    let (mut world, pull) = waiting(POLLED).await;
    world.fake.hide_history();
    // what, whether it is done
    for (what, is_done) in [
        ("/pause", true),
        ("/resume", false),
        ("/approve one", false),
        ("/reject one", false),
        ("/retry", false),
        ("/rollback", false),
        ("/pause\n/resume", false),
        ("/status", true),
        ("/help", true),
    ] {
        let id = world.say("bob", pull, what).await;
        world.later(10).await;
        let signs = world.fake.reactions_to(id);
        assert_eq!(signs.contains(&Reaction::Rocket), is_done, "{what}: {signs:?}");
        assert_eq!(signs.contains(&Reaction::Confused), !is_done, "{what}: {signs:?}");
    }
}

#[tokio::test]
async fn c17_without_a_stage_no_deletion_gate_opens() {
    let (mut world, pull) = waiting(POLLED).await;
    world.say("bob", pull, "/approve one").await;
    world.later(120).await;
    assert_eq!(world.fleet(), "p-0 Succeeded");
    // Everything of the placement goes.
    world.fake.add_commit(&commit('3'));
    let second = world.fake.open_pull("ann", "away", "main", "away", &commit('d'));
    world.fake.merge(second, &commit('3'), "carl");
    world.accept_files('3', &[("p.yaml", String::new())]);
    world.later(120).await;
    let asked = asking(&world, second);
    assert!(asked.body.contains("/approve deletion"), "{}", asked.body);
    for what in ["/approve", "/approve --all", "/approve placement=p", "/approve p", "/approve --all placement=p"] {
        let id = world.say("bob", second, what).await;
        world.later(10).await;
        assert!(!world.fake.reactions_to(id).contains(&Reaction::Rocket), "{what}: {:?}", world.answers(second));
    }
    world.fake.review("bob", second, &commit('d'));
    world.later(180).await;
    assert!(world.daemon().waits_for_deletions(), "a review opens none either");
    // Whoever names it opens it, and so does a reaction to the comment that asks for it.
    world.fake.react_as("bob", asked.id, Reaction::Rocket);
    world.later(120).await;
    assert!(!world.daemon().waits_for_deletions(), "{:?}", world.answers(second));
}

/// What may happen around a comment of `bob`, who never asks for anything.
#[derive(Clone, Debug)]
enum Act {
    Say(&'static str),
    /// Somebody who may write makes a comment of his something else.
    Edit(usize, &'static str),
    Delete(usize),
    /// The delivery of a comment's creation comes, for the first time or again.
    Deliver(usize),
    /// A comment is named by a delivery that vouches for nothing.
    Name(usize),
    Wait(i64),
    Restart,
    Hide,
}

fn act() -> impl Strategy<Value = Act> {
    let text = || proptest::sample::select(vec!["hello", "/approve one", "/approve one sha=1111111", "/approve --all"]);
    prop_oneof![
        3 => proptest::sample::select(vec!["hello", "> /approve one", "<noscript>\n\n/approve one", "/pause"]).prop_map(Act::Say),
        4 => (0_usize..4, text()).prop_map(|(which, text)| Act::Edit(which, text)),
        1 => (0_usize..4).prop_map(Act::Delete),
        3 => (0_usize..4).prop_map(Act::Deliver),
        1 => (0_usize..4).prop_map(Act::Name),
        2 => proptest::sample::select(vec![0_i64, 1, 40, 200]).prop_map(Act::Wait),
        1 => Just(Act::Restart),
        1 => Just(Act::Hide),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn d01_nobody_who_asks_for_nothing_is_made_to_approve(
        hooked in any::<bool>(),
        acts in proptest::collection::vec(act(), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let opened = runtime.block_on(async {
            let (mut world, pull) = waiting(Beginning { hooked, ..POLLED }).await;
            let mut said: Vec<u64> = Vec::new();
            for act in &acts {
                let of = |which: &usize| said.get(*which).copied();
                match act {
                    Act::Say(text) => said.push(world.fake.say("bob", pull, text)),
                    Act::Edit(which, text) => {
                        if let Some(id) = of(which) {
                            world.fake.edit_comment(id, text);
                        }
                    }
                    Act::Delete(which) => {
                        if let Some(id) = of(which) {
                            world.fake.delete_comment(id);
                        }
                    }
                    Act::Deliver(which) => {
                        if let Some(id) = of(which) {
                            world.hint(ForgeEvent::Comment { thread: pull, id, said: world.fake.said(id) });
                        }
                    }
                    Act::Name(which) => {
                        if let Some(id) = of(which) {
                            world.hint(ForgeEvent::Comment { thread: pull, id, said: None });
                        }
                    }
                    Act::Wait(seconds) => world.later(*seconds).await,
                    Act::Restart => world.restart(),
                    Act::Hide => world.fake.hide_history(),
                }
            }
            world.later(900).await;
            world.is_open()
        });
        prop_assert!(!opened);
    }
}
