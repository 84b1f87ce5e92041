//! Whose word opens a gate, and what it is a word about.

use jiff::SignedDuration;

use super::world::{Beginning, World, commit, now};
use engine::SourceEvent;
use model::forge::{ForgeEvent, Permission, Reaction, ThreadNumber};
use testservers::doubles::forge::{Failure, Moment};

const BOTH: [Beginning; 2] = [
    Beginning { hooked: true, required: 1, approvers: "", open: false },
    Beginning { hooked: false, required: 1, approvers: "", open: false },
];

/// A world whose rollout waits at its gate, as everybody could see for a minute.
async fn waiting(beginning: Beginning) -> (World, ThreadNumber) {
    let mut world = World::begin(beginning);
    let pull = world.merge('1');
    world.later(120).await;
    assert_eq!(world.fleet(), "p-0 Waiting");
    (world, pull)
}

#[tokio::test]
async fn who_opens_a_gate() {
    type Before = fn(&World);
    let nothing: Before = |_| {};
    // name, who, what, what happens before, whether the gate opens, a word of the answer
    let rows: [(&str, &str, &str, Before, bool, &str); 15] = [
        ("a writer", "bob", "/approve one", nothing, true, ""),
        ("a writer who names the commit", "bob", "/gitfleet approve one sha=1111111", nothing, true, ""),
        ("a reader", "eve", "/approve one", nothing, false, "requires write"),
        ("a stranger", "mallory", "/approve one", nothing, false, "requires write"),
        (
            "a stranger to a private repository",
            "mallory",
            "/approve one",
            |w| w.fake.set_private(true),
            false,
            "no permission",
        ),
        ("the author", "ann", "/approve one", nothing, false, "opened"),
        ("the author, by another case", "ANN", "/approve one", nothing, false, "opened"),
        (
            "an author who is administrator",
            "ann",
            "/approve one",
            |w| w.fake.permit("ann", Permission::Admin),
            false,
            "opened",
        ),
        ("who merged", "carl", "/approve one", nothing, false, "merged"),
        ("a bot", "bob", "/approve one", |w| w.fake.mark_bot("bob"), false, ""),
        ("ourselves", "gitfleet", "/approve one", nothing, false, ""),
        ("another commit", "bob", "/approve one sha=2222222", nothing, false, "is about commit"),
        ("no stage", "bob", "/approve", nothing, false, "needs a stage"),
        ("quoted", "bob", "> /approve one", nothing, false, ""),
        (
            "retargeted since",
            "bob",
            "/approve one",
            |w| w.fake.edit_pull(1, |pull| pull.base = "other".into()),
            false,
            "not rolled out",
        ),
    ];
    for beginning in BOTH {
        for (name, who, what, before, opens, word) in rows {
            let (mut world, pull) = waiting(beginning).await;
            before(&world);
            world.say(who, pull, what).await;
            assert_eq!(world.is_open(), opens, "{name}: {}", world.fleet());
            let answers = world.answers(pull);
            assert_eq!(answers.len(), usize::from(!word.is_empty()), "{name}");
            assert!(answers.iter().all(|answer| answer.body.contains(word)), "{name}: {answers:?}");
        }
    }
}

#[tokio::test]
async fn named_approvers_need_no_account_that_may_ask_about_permissions() {
    for beginning in BOTH {
        let named = Beginning { approvers: "'user:bob'", ..beginning };
        let (mut world, pull) = waiting(named).await;
        world.bot.settings.approvals.approvers = vec!["user:bob".to_owned()];
        for (who, opens) in [("dora", false), ("bob", true)] {
            world.fake.fail("permission", Moment::Before, Failure::Forbidden);
            world.say(who, pull, "/approve one").await;
            assert_eq!(world.is_open(), opens, "{who}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_looked_up_is_no() {
    use Failure::{Forbidden, RateLimited, Refused, Unauthenticated, Unreachable};
    let limited = RateLimited(std::time::Duration::from_secs(3));
    for beginning in BOTH {
        for failure in [Forbidden, Refused, Unauthenticated, Unreachable, limited] {
            for method in ["permission", "pull", "history", "commits"] {
                let (mut world, pull) = waiting(beginning).await;
                world.fake.fail(method, Moment::Before, failure);
                let id = world.say("bob", pull, "/approve one").await;
                assert!(!world.is_open(), "{method}: {failure:?}");
                world.later(10).await;
                assert!(world.fake.reactions_to(id).contains(&Reaction::Confused), "{method}: {failure:?}");
                world.say("bob", pull, "/approve one").await;
                assert!(world.is_open(), "{method}: {failure:?}: said again it counts");
            }
        }
    }
}

#[tokio::test]
async fn what_is_edited_or_deleted_before_it_is_read_is_nobodys_word() {
    for beginning in BOTH {
        let (mut world, pull) = waiting(beginning).await;
        let id = world.fake.say("bob", pull, "looks good");
        world.later(5).await;
        world.fake.edit_comment(id, "/approve one");
        world.heard(pull, id).await;
        assert!(!world.is_open());
        assert!(world.answers(pull)[0].body.contains("edited"), "{:?}", world.answers(pull));
        let id = world.fake.say("bob", pull, "/approve one");
        world.fake.delete_comment(id);
        world.heard(pull, id).await;
        assert!(!world.is_open());
        // What was done is not done again by deleting or editing what was handled.
        let id = world.say("bob", pull, "/approve one").await;
        assert!(world.is_open());
        world.fake.edit_comment(id, "/reject one");
        world.heard(pull, id).await;
        assert_eq!(world.fleet(), "p-0 Succeeded");
    }
}

#[tokio::test]
async fn a_word_is_about_what_was_shown_when_it_was_said() {
    for beginning in BOTH {
        let (mut world, first) = waiting(beginning).await;
        // A new commit is accepted; its rollout is told elsewhere.
        world.slow();
        let second = world.merge('2');
        let early = world.fake.say("bob", second, "/approve one");
        world.later(10).await;
        assert!(world.work(), "the gate waits from here on");
        world.later(10).await;
        world.heard(second, early).await;
        assert!(!world.is_open(), "nothing was shown yet");
        let late = world.fake.say("bob", first, "/approve one");
        world.heard(first, late).await;
        assert!(!world.is_open(), "that rollout was superseded");
        assert_eq!(world.fleet(), "p-0 Superseded, p-1 Waiting");
        assert!(world.answers(first)[0].body.contains("superseded"), "{:?}", world.answers(first));
        world.say("dora", second, "/approve one sha=1111111").await;
        assert!(!world.is_open(), "another commit");
        world.say("bob", second, "/approve one sha=2222222").await;
        assert!(world.is_open());
    }
}

#[tokio::test]
async fn a_quorum_counts_who_may_when_it_is_complete() {
    for beginning in BOTH {
        let named = Beginning { required: 2, approvers: "'user:bob', 'user:dora', 'user:eve'", ..beginning };
        let (mut world, pull) = waiting(named).await;
        world.say("bob", pull, "/approve one").await;
        world.say("bob", pull, "/approve one").await;
        assert!(!world.is_open(), "one person is one voice");
        world.say("dora", pull, "/approve one").await;
        assert!(world.is_open());

        let (mut world, pull) = waiting(named).await;
        world.say("bob", pull, "/approve one").await;
        world.policy(&["user:dora", "user:eve"]);
        world.say("dora", pull, "/approve one").await;
        assert!(!world.is_open(), "the first lost the right");
        world.say("eve", pull, "/approve one").await;
        assert!(world.is_open());
    }
}

#[tokio::test]
async fn strangers_do_not_make_us_flood_a_conversation() {
    let (mut world, pull) = waiting(BOTH[0]).await;
    let strangers: Vec<String> = (0..50).map(|number| format!("stranger{number}")).collect();
    let start = now();
    for round in 0..20 {
        for (position, name) in strangers.iter().enumerate() {
            let id = world.fake.say(name, pull, "/approve one");
            world.hint(ForgeEvent::Comment { thread: pull, id, said: world.fake.said(id) });
            if position % 25 == 0 {
                world.settle().await;
            }
        }
        world.later(60).await;
        assert!(world.answers(pull).len() <= 10, "round {round}: {}", world.answers(pull).len());
    }
    let took = now().duration_since(start);
    assert!(took < SignedDuration::from_hours(1));
    assert!(!world.is_open());
    assert!(world.fake.count("react") <= 200, "{}", world.fake.count("react"));
    let kept = world.bot.outbox.slots(|_| true).len();
    assert!(kept < 50, "{kept} slots are kept");
    world.say("bob", pull, "/approve one").await;
    assert!(world.is_open(), "who may is heard all the same");
}

#[tokio::test]
async fn one_person_gets_one_answer_an_hour() {
    let (mut world, pull) = waiting(BOTH[0]).await;
    for _ in 0..13 {
        world.say("eve", pull, "/approve one").await;
        world.later(600).await;
    }
    assert_eq!(world.answers(pull).len(), 3, "two hours and ten minutes");
}

#[tokio::test]
async fn what_was_done_before_a_refusal_is_named() {
    let (mut world, pull) = waiting(BOTH[0]).await;
    world.say("bob", pull, "/approve one\n/resume").await;
    assert!(world.is_open());
    let answer = world.answers(pull)[0].body.clone();
    assert!(answer.contains("is not paused") && answer.contains("approved"), "{answer}");
}

#[tokio::test]
async fn a_retargeted_pull_request_has_no_plan_any_more() {
    let (mut world, _) = waiting(BOTH[0]).await;
    let number = world.fake.open_pull("ann", "another", "main", "another", &commit('f'));
    world.hint(ForgeEvent::PullRequest { number, pushed: None });
    world.later(10).await;
    assert!(world.ours(number)[0].body.contains("x.yaml"), "{:?}", world.ours(number));
    world.fake.edit_pull(number, |pull| pull.base = "other".into());
    world.hint(ForgeEvent::PullRequest { number, pushed: None });
    world.later(10).await;
    let ours = world.ours(number);
    assert_eq!(ours.len(), 1);
    assert!(ours[0].body.contains("`other`"), "{}", ours[0].body);
}

#[tokio::test]
async fn the_plan_of_what_was_merged_stays() {
    // The branch is read before the merge is noticed.
    for beginning in BOTH {
        let (mut world, _) = waiting(beginning).await;
        let number = world.fake.open_pull("ann", "another", "main", "another", &commit('f'));
        world.hint(ForgeEvent::PullRequest { number, pushed: None });
        world.later(70).await;
        let plan = |world: &World| world.ours(number).into_iter().find(|comment| comment.body.contains("### Plan"));
        let before = plan(&world).expect("there is a plan").body;
        world.fake.merge(number, &commit('8'), "carl");
        world.accept('8');
        world.later(20).await;
        assert_eq!(plan(&world).expect("it is still there").body, before);
    }
}

#[tokio::test]
async fn a_rewritten_history_waits_for_a_person_while_the_rollout_continues() {
    for beginning in BOTH {
        let (mut world, pull) = waiting(beginning).await;
        world.fake.add_commit(&commit('9'));
        world.source(SourceEvent::Rewritten(commit('9')));
        world.later(120).await;
        let issues: Vec<ThreadNumber> = world.fake.issues().into_keys().collect();
        assert_eq!(issues.len(), 1, "nobody's pull request brought it");
        world.say("bob", pull, "/approve one").await;
        assert_eq!(world.fleet(), "p-0 Succeeded", "what is accepted continues");
        world.say("eve", issues[0], "/resume").await;
        assert!(world.answers(issues[0])[0].body.contains("requires write"), "{:?}", world.answers(issues[0]));
        let id = world.say("bob", issues[0], "/resume").await;
        assert!(world.fake.reactions_to(id).contains(&Reaction::Rocket), "{:?}", world.answers(issues[0]));
        world.accept('9');
        world.later(120).await;
        assert_eq!(world.rollouts(issues[0]).len(), 1, "{:?}", world.ours(issues[0]));
    }
}
