//! Approvals without a command, and who had a part in a change.

use super::forged::{HOOKED, POLLED, asking, waiting};
use super::world::{Beginning, World, commit, now};
use model::forge::{Comment, ForgeEvent, Part, Permission, Pushed, Reaction, ThreadNumber};
use model::id::CommitId;
use testservers::doubles::forge::{Failure, Moment};

/// The head of a change's pull request.
const HEAD: char = 'e';

#[tokio::test]
async fn a_reaction_to_the_comment_that_asks_approves() {
    type Before = fn(&World, &Comment);
    let nothing: Before = |_, _| {};
    // name, who reacts, with what, what happens before, whether the gate opens, a word of the answer
    let rows: [(&str, &str, Reaction, Before, bool, &str); 12] = [
        ("a writer", "bob", Reaction::Rocket, nothing, true, ""),
        ("another sign", "bob", Reaction::Eyes, nothing, false, ""),
        ("a reader", "eve", Reaction::Rocket, nothing, false, "requires write"),
        ("the author", "ann", Reaction::Rocket, nothing, false, "opened"),
        ("who merged", "carl", Reaction::Rocket, nothing, false, "merged"),
        ("ourselves", "gitfleet", Reaction::Rocket, nothing, false, ""),
        ("a bot", "bob", Reaction::Rocket, |w, _| w.fake.mark_bot("bob"), false, ""),
        (
            "our words changed",
            "bob",
            Reaction::Rocket,
            |w, c| w.fake.edit_comment(c.id, "lunch?"),
            false,
            "changed the comment",
        ),
        (
            "changed and changed back",
            "bob",
            Reaction::Rocket,
            |w, c| {
                w.fake.edit_comment(c.id, "lunch?");
                w.fake.edit_comment(c.id, &c.body);
            },
            false,
            "changed the comment",
        ),
        ("the comment is gone", "bob", Reaction::Rocket, |w, c| w.fake.delete_comment(c.id), false, ""),
        ("on a host that tells of no changes", "bob", Reaction::Rocket, |w, _| w.fake.hide_history(), true, ""),
        (
            "retargeted since",
            "bob",
            Reaction::Rocket,
            |w, _| w.fake.edit_pull(1, |pull| pull.base = "other".into()),
            false,
            "",
        ),
    ];
    for beginning in [HOOKED, POLLED] {
        for (name, who, sign, before, opens, word) in rows {
            let (mut world, pull) = waiting(beginning).await;
            let asked = asking(&world, pull);
            before(&world, &asked);
            world.fake.react_as(who, asked.id, sign);
            world.later(620).await;
            assert_eq!(world.is_open(), opens, "{name}: {:?}", world.answers(pull));
            let answers = world.answers(pull);
            assert_eq!(answers.len(), usize::from(!word.is_empty()), "{name}: {answers:?}");
            assert!(answers.iter().all(|answer| answer.body.contains(word)), "{name}: {answers:?}");
        }
    }
}

#[tokio::test]
async fn a_reaction_counts_for_the_digest_it_was_given_for_and_once() {
    let (mut world, first) = waiting(Beginning { required: 2, ..POLLED }).await;
    let old = asking(&world, first);
    world.fake.react_as("bob", old.id, Reaction::Rocket);
    world.later(300).await;
    world.restart();
    world.later(300).await;
    assert!(!world.is_open(), "one person is one voice");
    // Another commit takes its place: what was given for the former does not open the new gate.
    let second = world.merge('2');
    world.later(300).await;
    world.fake.react_as("dora", old.id, Reaction::Rocket);
    world.later(300).await;
    assert_eq!(world.fleet(), "p-0 Superseded, p-1 Waiting");
    let new = asking(&world, second);
    world.fake.react_as("bob", new.id, Reaction::Rocket);
    world.fake.react_as("dora", new.id, Reaction::Rocket);
    world.later(300).await;
    assert!(world.is_open(), "{:?}", world.answers(second));
}

#[tokio::test]
async fn a_reaction_in_the_second_of_the_comments_writing_proves_nothing() {
    let mut world = World::begin(POLLED);
    let pull = world.merge('1');
    world.settle().await;
    let asked = asking(&world, pull);
    assert_eq!(asked.created_at, now());
    world.fake.react_as("bob", asked.id, Reaction::Rocket);
    world.later(300).await;
    assert!(!world.is_open());
    world.fake.take_back("bob", asked.id);
    world.fake.react_as("bob", asked.id, Reaction::Rocket);
    world.later(120).await;
    assert!(world.is_open(), "given again it counts");
}

#[tokio::test]
async fn a_reaction_that_was_refused_counts_when_it_is_given_again() {
    let (mut world, pull) = waiting(POLLED).await;
    let asked = asking(&world, pull);
    world.fake.react_as("eve", asked.id, Reaction::Rocket);
    world.later(120).await;
    world.fake.permit("eve", Permission::Write);
    world.later(300).await;
    assert!(!world.is_open(), "what was refused stays refused");
    world.fake.take_back("eve", asked.id);
    world.fake.react_as("eve", asked.id, Reaction::Rocket);
    world.later(120).await;
    assert!(world.is_open(), "{:?}", world.answers(pull));
}

#[tokio::test]
async fn what_cannot_be_looked_up_of_a_reaction_is_looked_up_again() {
    for method in ["reactions", "comment", "permission", "pull", "commits"] {
        let (mut world, pull) = waiting(POLLED).await;
        let asked = asking(&world, pull);
        world.fake.react_as("bob", asked.id, Reaction::Rocket);
        world.fake.fail(method, Moment::Before, Failure::Unreachable);
        world.later(240).await;
        assert!(world.is_open(), "{method}: {:?}", world.answers(pull));
    }
}

#[tokio::test]
async fn a_review_after_the_gate_was_shown_approves() {
    type Before = fn(&World, ThreadNumber);
    let nothing: Before = |_, _| {};
    // name, who, of which commit, what happens after, whether the gate opens, a word of the answer
    let rows: [(&str, &str, char, Before, bool, &str); 6] = [
        ("a writer", "bob", HEAD, nothing, true, ""),
        ("a reader", "eve", HEAD, nothing, false, "requires write"),
        ("the author", "ann", HEAD, nothing, false, "opened"),
        ("of another commit", "bob", 'd', nothing, false, "another commit"),
        ("dismissed", "bob", HEAD, |w, pull| w.fake.dismiss(pull, 1), false, ""),
        ("our words changed", "bob", HEAD, |w, pull| w.fake.edit_comment(asking(w, pull).id, "lunch?"), false, ""),
    ];
    for (name, who, digit, after, opens, word) in rows {
        let (mut world, pull) = waiting(POLLED).await;
        world.fake.review(who, pull, &commit(digit));
        after(&world, pull);
        world.later(240).await;
        assert_eq!(world.is_open(), opens, "{name}: {:?}", world.answers(pull));
        let answers = world.answers(pull);
        assert_eq!(answers.len(), usize::from(!word.is_empty()), "{name}: {answers:?}");
        assert!(answers.iter().all(|answer| answer.body.contains(word)), "{name}: {answers:?}");
    }
    // One from before the gate was shown is about the change, and not about its rollout.
    let mut world = World::begin(POLLED);
    let pull = world.fake.open_pull("ann", "a change", "main", "change", &commit(HEAD));
    world.fake.review("bob", pull, &commit(HEAD));
    world.fake.merge(pull, &commit('1'), "carl");
    world.accept('1');
    world.later(600).await;
    assert_eq!(world.fleet(), "p-0 Waiting");
    assert!(!world.is_open());
}

#[tokio::test]
async fn d10_whoever_had_a_part_in_a_change_does_not_approve_it() {
    let pushed = |world: &World, commit: CommitId| {
        let by = world.fake.add_user("bob");
        Some(Pushed { commit, by })
    };
    for beginning in [HOOKED, POLLED] {
        // how it is known, whether the configuration counts it, a word of the answer
        for (how, counts, word) in [
            ("the host knows the pusher", true, "pushed a commit of"),
            ("the host knows the author", true, "wrote a commit of"),
            ("a push was delivered", true, "pushed a commit of"),
            ("a push to the pull request was delivered", true, "pushed a commit of"),
            ("the host knows the pusher", false, ""),
        ] {
            if how.contains("delivered") && !beginning.hooked {
                continue;
            }
            let mut world = World::begin(beginning);
            world.settle().await;
            let pull = world.fake.open_pull("ann", "a change", "main", "change", &commit('d'));
            let head = commit(HEAD);
            match how {
                "the host knows the pusher" => world.fake.commit_as("bob", pull, &head, Part::Pushed),
                "the host knows the author" => world.fake.commit_as("bob", pull, &head, Part::Authored),
                _ => world.fake.commit_as("ann", pull, &head, Part::Authored),
            }
            match how {
                "a push was delivered" => {
                    world.hint(ForgeEvent::Push { branch: "change".into(), pushed: pushed(&world, head.clone()) });
                }
                "a push to the pull request was delivered" => {
                    world.hint(ForgeEvent::PullRequest { number: pull, pushed: pushed(&world, head.clone()) });
                }
                _ => {}
            }
            world.settle().await;
            // Known for longer than a life, and than the branch.
            world.restart();
            if !counts {
                world.bot.settings.approvals.parts = [Part::Opened, Part::Merged, Part::Authored].into();
            }
            world.fake.edit_pull(pull, |pull| pull.head = head.clone());
            world.fake.merge(pull, &commit('1'), "ann");
            world.accept('1');
            world.later(120).await;
            world.say("bob", pull, "/approve one").await;
            assert_eq!(world.is_open(), !counts, "{how}: {:?}", world.answers(pull));
            let answers = world.answers(pull);
            assert!(answers.iter().all(|answer| answer.body.contains(word)), "{how}: {answers:?}");
            assert_eq!(answers.is_empty(), word.is_empty(), "{how}");
            world.say("dora", pull, "/approve one").await;
            assert!(world.is_open(), "{how}: who had no part may");
        }
    }
}

#[tokio::test]
async fn d10_whoever_pushed_to_the_branch_itself_does_not_approve_it() {
    let mut world = World::begin(HOOKED);
    world.settle().await;
    let pushed = Some(Pushed { commit: commit('1'), by: world.fake.add_user("bob") });
    world.hint(ForgeEvent::Push { branch: "main".into(), pushed });
    world.settle().await;
    world.accept('1');
    world.later(120).await;
    let issue = world.fake.issues().into_keys().next().expect("nobody's pull request brought it");
    world.say("bob", issue, "/approve one").await;
    assert!(!world.is_open());
    assert!(world.answers(issue)[0].body.contains("pushed commit"), "{:?}", world.answers(issue));
    world.say("dora", issue, "/approve one").await;
    assert!(world.is_open());
}

#[tokio::test]
async fn d10_more_commits_than_the_host_tells_of_are_approved_by_nobody_here() {
    let (mut world, pull) = waiting(POLLED).await;
    world.fake.fail("commits", Moment::Before, Failure::Refused);
    world.say("bob", pull, "/approve one").await;
    assert!(!world.is_open());
    assert!(world.answers(pull)[0].body.contains("cannot be known"), "{:?}", world.answers(pull));
}
