//! Many placements in one commit: how much is written about them, and how they are approved and answered for.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::world::{Beginning, World, commit};
use config::Statuses;
use model::forge::{Reaction, StatusState, ThreadNumber};
use testkit::trees::{member, payload, placement};

const HOOKED: Beginning = Beginning { hooked: true, required: 1, approvers: "", open: false };
const POLLED: Beginning = Beginning { hooked: false, ..HOOKED };
/// The stages, and whether a person is asked after each.
const STAGES: [(&str, bool); 5] =
    [("dev", false), ("staging", true), ("canary", true), ("prodap", true), ("prodrest", false)];
const FILES: [&str; 8] = ["p0.yaml", "p1.yaml", "p2.yaml", "p3.yaml", "p4.yaml", "p5.yaml", "p6.yaml", "p7.yaml"];

/// Eight placements over five stages, with a value in the content of each.
fn files(value: &str) -> Vec<(&'static str, String)> {
    let mut members = String::new();
    let mut strategy = "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
                        metadata: {name: s}\nspec:\n  stages:\n"
        .to_owned();
    for (name, asks) in STAGES {
        members.push_str(&member(&format!("{name}-1"), &format!("labels: {{stage: {name}}}")));
        let task = if asks { ", afterStageTasks: [{type: Approval}]" } else { "" };
        writeln!(strategy, "    - {{name: {name}, labelSelector: {{matchLabels: {{stage: {name}}}}}{task}}}")
            .expect("a String");
    }
    let mut files = vec![("a.yaml", members), ("s.yaml", strategy + "---\n")];
    files.extend(["b.yaml", "c.yaml", "p.yaml", "x.yaml"].map(|path| (path, String::new())));
    files.extend(FILES.iter().enumerate().map(|(number, path)| {
        let name = format!("p{number}");
        let text =
            placement(&name, "gitfleet.io/staged-update-strategy: s", ", strategy: {type: External}") + &payload(value);
        (
            *path,
            text.replace("name: a}", &format!("name: {name}}}"))
                .replace("namespace: a}", &format!("namespace: {name}}}")),
        )
    }));
    files
}

/// A rollout of eight placements that wait at their first gate.
async fn waiting(beginning: Beginning) -> (World, ThreadNumber) {
    let mut world = World::begin(beginning);
    world.settle().await;
    let pull = world.fake.open_pull("ann", "a change", "main", "change", &commit('e'));
    world.fake.merge(pull, &commit('1'), "carl");
    world.accept_files('1', &files("1"));
    world.later(120).await;
    assert_eq!(waiting_at(&world), ["staging"; 8]);
    (world, pull)
}

/// Returns the stage at whose end each placement waits.
fn waiting_at(world: &World) -> Vec<String> {
    let rollout = world.bot.rollouts.all.get(&commit('1')).expect("it is told");
    rollout.gates().map(|(_, _, gate)| gate.stage.clone()).collect()
}

#[tokio::test]
async fn ux2_a_commit_of_eight_staged_placements_makes_three_comments_and_fourteen_statuses() {
    for beginning in [HOOKED, POLLED] {
        let (mut world, pull) = waiting(beginning).await;
        let told = world.ours(pull);
        assert_eq!(told.len(), 1, "{told:?}");
        for words in [
            "8 placements wait at staging, 16/40 clusters, as of ",
            "/approve staging sha=1111111\n",
            "| placement | dev | staging | canary | prodap | prodrest | clusters |",
            "| `p7` | ✅ 1/1 | ✋ 1/1 | ⚪ 0/1 | ⚪ 0/1 | ⚪ 0/1 | ✋ 2/5, waits at staging |",
        ] {
            assert!(told[0].body.contains(words), "{words}: {}", told[0].body);
        }
        assert_eq!(told[0].body.matches("/approve ").count(), 1, "one line for all: {}", told[0].body);
        for stage in ["staging", "canary", "prodap"] {
            assert_eq!(waiting_at(&world), [stage; 8]);
            let id = world.say("bob", pull, &format!("/approve {stage} sha=1111111")).await;
            world.later(120).await;
            assert!(world.fake.reactions_to(id).contains(&Reaction::Rocket), "{:?}", world.answers(pull));
        }
        let told = world.ours(pull);
        assert!(told.len() <= 3, "{} comments: {told:#?}", told.len());
        assert!(told[0].body.contains("8 placements done, 40/40 clusters"), "{}", told[0].body);
        let statuses = world.fake.statuses_of(&commit('1'));
        let contexts: BTreeSet<&str> = statuses.iter().map(|status| status.context.as_str()).collect();
        assert!(contexts.len() <= 14, "{contexts:?}");
        for context in contexts {
            let last = statuses.iter().rfind(|status| status.context == context).expect("it was set");
            assert_eq!(last.state, StatusState::Success, "{last:?}");
            assert_eq!(last.target_url.as_deref(), Some(told[0].url.as_str()), "{last:?}");
        }
        assert!(statuses.iter().all(|status| status.target_url.is_some()), "{statuses:?}");
    }
}

#[tokio::test]
async fn ux2_what_statuses_there_are_is_configured() {
    for (statuses, count) in [(Statuses::Summary, 1), (Statuses::Placements, 1 + 8), (Statuses::Stages, 1 + 8 + 16)] {
        let mut world = World::begin(HOOKED);
        world.bot.settings.statuses = statuses;
        world.settle().await;
        world.accept_files('1', &files("1"));
        world.fake.add_commit(&commit('1'));
        world.later(400).await;
        let all = world.fake.statuses_of(&commit('1'));
        let contexts: BTreeSet<&str> = all.iter().map(|status| status.context.as_str()).collect();
        assert_eq!(contexts.len(), count, "{statuses:?}: {contexts:?}");
    }
}

#[tokio::test]
async fn ux2_a_reaction_to_the_comment_approves_everything_it_asks_for() {
    let (mut world, pull) = waiting(POLLED).await;
    let asked = world.ours(pull)[0].clone();
    world.fake.react_as("eve", asked.id, Reaction::Rocket);
    world.later(120).await;
    assert_eq!(waiting_at(&world), ["staging"; 8]);
    assert_eq!(world.answers(pull).len(), 1, "{:?}", world.answers(pull));
    let before = world.fake.count("permission");
    world.fake.react_as("bob", asked.id, Reaction::Rocket);
    world.later(120).await;
    assert_eq!(waiting_at(&world), ["canary"; 8]);
    assert_eq!(world.fake.count("permission"), before + 1, "who it is is asked once");
    world.later(600).await;
    assert_eq!(waiting_at(&world), ["canary"; 8], "it does not count for what waits later");
}

#[tokio::test]
async fn ux2_who_may_not_is_told_that_and_nothing_else() {
    let (mut world, pull) = waiting(HOOKED).await;
    for (who, what, word) in [
        ("eve", "/approve staging", "requires write"),
        ("ann", "/approve staging", "opened"),
        ("eve", "/reject", "requires write"),
        ("bob", "/approve staging", "8 placements wait at stage staging"),
    ] {
        let before = world.answers(pull).len();
        world.say(who, pull, what).await;
        world.later(30).await;
        let answers = world.answers(pull);
        assert_eq!(answers.len(), before + 1, "{who}: {what}: {answers:?}");
        let last = &answers[before].body;
        assert!(last.contains(word), "{who}: {what}: {last}");
        assert_eq!(last.contains("sha="), who == "bob", "{who}: {what}: {last}");
    }
}

#[tokio::test]
async fn ux2_each_question_has_an_answer_that_stays() {
    let (mut world, pull) = waiting(HOOKED).await;
    let questions =
        ["/approve staging", "/approve nowhere", "/approve staging", "/retry cluster=c", "/approve elsewhere"];
    for question in questions {
        world.say("bob", pull, question).await;
        world.later(30).await;
    }
    let answers: Vec<String> = world.answers(pull).into_iter().map(|answer| answer.body).collect();
    let words = ["8 placements wait", "stage nowhere needs", "one cluster alone"];
    assert_eq!(answers.len(), words.len(), "the same is answered once, and one person at most thrice: {answers:?}");
    for (answer, word) in answers.iter().zip(words) {
        assert!(answer.contains(word), "{word}: {answer}");
    }
}

#[tokio::test]
async fn j2_another_command_that_is_refused_for_the_same_reason_has_an_answer_too() {
    let (mut world, pull) = waiting(HOOKED).await;
    for (command, answers) in [("/rollback", 1), ("/rollback to=1234567", 2), ("/rollback", 2)] {
        world.say("bob", pull, command).await;
        world.later(30).await;
        assert_eq!(world.answers(pull).len(), answers, "{command}: {:?}", world.answers(pull));
    }
}

#[tokio::test]
async fn ux2_a_mistyped_command_of_an_approver_gets_a_sign() {
    let (mut world, pull) = waiting(HOOKED).await;
    for (who, what, is_signed) in [
        ("bob", "/aprove staging", true),
        ("ann", "/aprove staging", true),
        ("eve", "/aprove staging", false),
        ("bob", "/approved", false),
        ("bob", "/lgtm", false),
    ] {
        let id = world.say(who, pull, what).await;
        world.later(30).await;
        let signs = world.fake.reactions_to(id);
        assert_eq!(signs.contains(&Reaction::Confused), is_signed, "{who}: {what}: {signs:?}");
    }
    assert!(world.answers(pull).is_empty(), "{:?}", world.answers(pull));
}

#[tokio::test]
async fn ux2_two_people_who_approve_at_once_are_not_refused() {
    let (mut world, pull) = waiting(HOOKED).await;
    let ids = ["bob", "dora"].map(|who| world.fake.say(who, pull, "/approve staging sha=1111111"));
    for id in ids {
        world.heard(pull, id).await;
    }
    world.later(60).await;
    assert_eq!(waiting_at(&world), ["canary"; 8]);
    assert!(world.fake.reactions_to(ids[0]).contains(&Reaction::Rocket));
    let answers = world.answers(pull);
    assert!(answers.iter().all(|answer| !answer.body.contains("Succeeded")), "{answers:?}");
}

#[tokio::test]
async fn ux2_what_was_said_before_a_long_absence_is_brought_up_to_date() {
    let (mut world, pull) = waiting(HOOKED).await;
    // While the bot is away, the next commit takes its place.
    world.accept_files('2', &files("2"));
    world.pass(6 * 3600);
    world.restart();
    world.later(120).await;
    let told = world.rollouts(pull);
    assert!(told[0].body.starts_with("<!-- ") && told[0].body.contains("superseded by 2222222"), "{}", told[0].body);
    let all = world.fake.statuses_of(&commit('1'));
    let contexts: BTreeSet<&str> = all.iter().map(|status| status.context.as_str()).collect();
    for context in contexts {
        let last = all.iter().rfind(|status| status.context == context).expect("it was set");
        assert_ne!(last.state, StatusState::Pending, "{last:?}");
    }
}
