//! What stands on the forge, and how many calls that takes.

use super::source_thread::mistake;
use super::world::{Beginning, World, commit, now};
use engine::SourceEvent;
use forge::{Error, Forge as _};
use model::forge::{CommitPulls, ForgeEvent, Reaction, StatusState};
use testservers::doubles::forge::{Failure, Moment};

const OPEN: Beginning = Beginning { hooked: true, required: 1, approvers: "", open: true };
const GATED: Beginning = Beginning { open: false, ..OPEN };

/// Stages of the test's strategy.
const STAGES: usize = 3;
/// Calls that the whole rollout may take.
const CALLS_MAX: usize = 2 * STAGES + 4;

#[tokio::test]
async fn a_whole_rollout_takes_few_calls() {
    // how long each cluster takes, in seconds
    for seconds in [0, 1, 4, 8, 30] {
        let mut world = World::begin(OPEN);
        world.settle().await;
        world.hint(ForgeEvent::Push { branch: "main".into(), pushed: None });
        world.settle().await;
        let before = world.fake.calls().len();
        if seconds > 0 {
            world.slow();
        }
        let pull = world.merge('1');
        world.settle().await;
        while world.work() {
            world.later(seconds).await;
        }
        world.later(120).await;
        assert_eq!(world.fleet(), "p-0 Succeeded");
        let calls = world.fake.calls().split_off(before);
        // Looking for news is the same whether anything is rolled out or not.
        let is_look = |call: &&str| matches!(*call, "open_pulls" | "comments" | "pull");
        let calls: Vec<&str> = calls.into_iter().filter(|call| !is_look(call)).collect();
        assert!(calls.len() <= CALLS_MAX, "{seconds} s for each cluster: {} calls: {calls:?}", calls.len());
        assert!(world.rollouts(pull)[0].body.contains("3/3"), "{}", world.rollouts(pull)[0].body);
        let ends: std::collections::BTreeMap<_, _> =
            world.fake.statuses_of(&commit('1')).into_iter().map(|status| (status.context, status.state)).collect();
        assert!(ends.values().all(|state| *state == StatusState::Success), "{ends:?}");
        let contexts: Vec<&str> = ends.keys().map(String::as_str).collect();
        let wanted: &[&str] = if seconds < 30 { &["gitfleet"] } else { &["gitfleet", "gitfleet/p"] };
        assert_eq!(contexts, wanted, "{seconds} s for each cluster");
    }
}

#[tokio::test]
async fn the_page_learns_which_pull_request_brought_a_commit_and_nothing_is_asked_for_it() {
    let mut world = World::begin(OPEN);
    world.settle().await;
    let known = |world: &World| world.bot.handles.learned.pulls.borrow().as_ref().clone();
    assert_eq!(known(&world), CommitPulls::new());
    let pull = world.merge('1');
    world.later(120).await;
    // Nothing brought it: it gets an issue, which is no pull request.
    world.accept('2');
    world.later(120).await;
    let brought = CommitPulls::from([(commit('1'), [pull].into())]);
    assert_eq!(known(&world), brought);
    let asked = world.fake.count("pulls_of_commit");
    world.restart();
    assert_eq!(known(&world), brought, "the next process knows it from the store");
    assert_eq!(world.fake.count("pulls_of_commit"), asked);
}

/// Calls that an approval takes with a rollout, beside those above: the placement's status, and the rollout's once more with the
/// comment's address; the comment, its history, its author's permission, the pull request, its commits; the reaction.
const APPROVAL_CALLS: usize = 2 + 5 + 1;

#[tokio::test]
async fn an_approval_takes_few_calls_and_nothing_is_asked_twice() {
    let mut world = World::begin(GATED);
    world.settle().await;
    let pull = world.fake.open_pull("ann", "a change", "main", "change", &commit('e'));
    world.fake.merge(pull, &commit('1'), "carl");
    let before = world.fake.calls().len();
    // As a host tells it: the push, the closed pull request, then each comment of our own.
    world.hint(ForgeEvent::Push { branch: "main".into(), pushed: None });
    world.hint(ForgeEvent::PullRequest { number: pull, pushed: None });
    world.accept('1');
    world.settle().await;
    for ours in world.ours(pull) {
        world.hint(ForgeEvent::Comment { thread: pull, id: ours.id, said: world.fake.said(ours.id) });
    }
    world.settle().await;
    world.say("bob", pull, "/approve one").await;
    world.later(30).await;
    assert_eq!(world.fleet(), "p-0 Succeeded");
    let calls = world.fake.calls().split_off(before);
    assert!(calls.len() <= CALLS_MAX + APPROVAL_CALLS, "{} calls: {calls:?}", calls.len());
    let count = |name: &str| calls.iter().filter(|call| **call == name).count();
    assert_eq!(count("pulls_of_commit"), 0, "the closed pull request named its merge");
    assert_eq!(count("comment"), 1, "our own comments are known: {calls:?}");
    assert_eq!((count("comments"), count("react"), count("permission")), (0, 1, 1), "{calls:?}");
}

#[tokio::test]
async fn nothing_is_said_again_after_a_restart() {
    let mut world = World::begin(GATED);
    let pull = world.merge('1');
    world.later(30).await;
    let before = (world.fake.statuses_of(&commit('1')), world.fake.comments_of(pull));
    assert_eq!(before.1.len(), 1, "the rollout's comment asks, and no other is needed");
    world.restart();
    world.later(600).await;
    assert_eq!((world.fake.statuses_of(&commit('1')), world.fake.comments_of(pull)), before);
}

#[tokio::test]
async fn descriptions_keep_to_what_the_host_takes() {
    let mut world = World::begin(OPEN);
    world.merge('1');
    world.later(30).await;
    let long = model::manifest::InputError { message: "x".repeat(300), ..mistake() };
    world.fake.add_commit(&commit('2'));
    world.source(SourceEvent::Refused(commit('2'), vec![long]));
    world.later(60).await;
    let limit = world.fake.limits().description_chars;
    let statuses = world.fake.statuses_of(&commit('2'));
    assert_eq!(statuses.len(), 1);
    assert!((limit / 2..=limit).contains(&statuses[0].description.chars().count()), "{}", statuses[0].description);
    assert!(statuses[0].description.contains("x.yaml:3"), "{}", statuses[0].description);
    let issues = world.fake.issues();
    assert_eq!(issues.len(), 1, "no pull request brought it");
}

#[tokio::test]
async fn a_comment_that_somebody_deleted_is_written_again_once() {
    let mut world = World::begin(GATED);
    let pull = world.merge('1');
    world.later(30).await;
    world.fake.delete_comment(world.rollouts(pull)[0].id);
    world.say("bob", pull, "/approve one").await;
    world.later(30).await;
    let found = world.rollouts(pull);
    assert_eq!(found.len(), 1);
    assert!(found[0].body.contains("3/3"), "{}", found[0].body);
}

#[tokio::test]
async fn a_foreign_comment_with_our_marker_is_left_alone() {
    let mut world = World::begin(GATED);
    let pull = world.merge('1');
    world.later(30).await;
    let ours = world.rollouts(pull)[0].clone();
    let forged = world.fake.say("eve", pull, &ours.body);
    world.fake.delete_comment(ours.id);
    world.say("bob", pull, "/approve one").await;
    world.later(30).await;
    let is_forged = |comment: &&model::forge::Comment| comment.id == forged;
    assert_eq!(world.fake.comments_of(pull).iter().find(is_forged).map(|c| &c.body), Some(&ours.body));
    assert_eq!(world.rollouts(pull).len(), 1);
}

#[tokio::test]
async fn whatever_happens_to_a_write_one_comment_stands() {
    use Failure::{Forbidden, RateLimited, Unauthenticated, Unreachable};
    let limited = RateLimited(std::time::Duration::from_secs(45));
    // when and how the first try fails; how long until it stands
    let rows = [
        (Moment::After, Unreachable, 5),
        (Moment::Before, Unreachable, 5),
        (Moment::Before, limited, 50),
        (Moment::Before, Forbidden, 610),
        (Moment::Before, Unauthenticated, 610),
    ];
    for (moment, failure, seconds) in rows {
        let mut world = World::begin(OPEN);
        world.settle().await;
        world.fake.fail("create_comment", moment, failure);
        let pull = world.merge('1');
        world.settle().await;
        let tries = world.fake.count("create_comment");
        assert_eq!(tries, 1, "{moment:?} {failure:?}: the pause is kept");
        world.later(seconds).await;
        assert_eq!(world.rollouts(pull).len(), 1, "{moment:?} {failure:?}");
        world.later(3600).await;
        assert_eq!(world.rollouts(pull).len(), 1, "{moment:?} {failure:?}: later too");
    }
}

#[tokio::test]
async fn a_pause_that_the_host_wants_is_kept_by_reads_and_writes() {
    let mut world = World::begin(Beginning { hooked: false, ..OPEN });
    world.settle().await;
    let limited = Failure::RateLimited(std::time::Duration::from_mins(5));
    world.fake.fail("open_pulls", Moment::Before, limited);
    world.later(super::world::POLL).await;
    let before = world.fake.calls().len();
    let pull = world.merge('1');
    world.later(200).await;
    assert_eq!(world.fake.calls().len(), before, "{:?}", world.fake.calls());
    world.later(200).await;
    assert_eq!(world.rollouts(pull).len(), 1);
}

#[tokio::test]
async fn a_life_that_ends_between_writing_and_noting_makes_no_second_comment() {
    let mut world = World::begin(OPEN);
    world.settle().await;
    let pull = world.merge('1');
    // The comment is written, its answer is lost, and with it this life.
    world.fake.fail("create_comment", Moment::After, Failure::Unreachable);
    world.settle().await;
    assert_eq!(world.rollouts(pull).len(), 1);
    world.restart();
    world.later(120).await;
    assert_eq!(world.rollouts(pull).len(), 1);
    assert_eq!(world.fake.count("create_comment"), 1);
}

#[tokio::test]
async fn several_pull_requests_at_once_point_to_one() {
    let mut world = World::begin(OPEN);
    let first = world.fake.open_pull("ann", "one", "main", "one", &commit('d'));
    let second = world.fake.open_pull("bob", "two", "main", "two", &commit('f'));
    world.fake.merge(first, &commit('1'), "carl");
    world.fake.merge(second, &commit('2'), "carl");
    world.daemon().landed.insert(commit('2'), vec![commit('2'), commit('1')]);
    world.accept('2');
    world.later(30).await;
    assert_eq!(world.rollouts(second).len(), 1);
    let pointers = world.ours(first);
    assert_eq!(pointers.len(), 1);
    assert!(pointers[0].body.contains(&format!("#{second}")), "{}", pointers[0].body);
}

#[tokio::test]
async fn a_refused_first_commit_beside_an_open_pull_request_is_no_reason_to_spin() {
    let mut world = World::begin(OPEN);
    world.fake.open_pull("ann", "a change", "main", "change", &commit('e'));
    world.fake.add_commit(&commit('2'));
    world.source(SourceEvent::Refused(commit('2'), vec![mistake()]));
    world.later(300).await;
    assert_eq!(world.fake.statuses_of(&commit('2')).len(), 1);
}

#[tokio::test]
async fn what_is_done_is_signed() {
    let mut world = World::begin(GATED);
    let pull = world.merge('1');
    world.later(30).await;
    let started = now();
    let id = world.say("bob", pull, "/approve one").await;
    assert_eq!(now(), started, "a webhook takes effect at once");
    assert_eq!(world.fake.reactions_to(id), [Reaction::Rocket].into());
    assert!(matches!(world.fake.react(99, Reaction::Eyes).await, Err(Error::NotFound { .. })));
}
