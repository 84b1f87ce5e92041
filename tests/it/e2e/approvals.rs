//! Who approves, and how it is known, on a real Gitea: forged texts, approvals without a command, and parts in a change.

use serde_json::json;
use system::clock;

use crate::e2e::console::{Person, Stage, gitea};
use crate::e2e::daemon::Daemon;
use crate::e2e::fleet::{MergeWay, PERSON_SCOPES};

/// Brings a change to its first gate, and returns its pull request and the comment that asks for the approval.
fn waiting(stage: &Stage, daemon: &Daemon<'_>, pushes: &[&Person]) -> (u64, u64) {
    stage.branch("change");
    stage.write("2");
    stage.push("change", "Second version");
    let pull = gitea().open_pull(&stage.author.token, &stage.repo, "change", "main", "Second version").expect("a pull");
    for person in pushes {
        stage.world.write(&format!("{}.txt", person.account.name), "a file beside the manifests");
        stage.world.commit("More");
        let name = &person.account.name;
        gitea().push_as(&stage.world.repo(), &stage.repo, "change", name, &person.token).expect("a push");
    }
    gitea().merge(&stage.author.token, &stage.repo, pull, MergeWay::Merge).expect("a merge");
    stage.await_comment(daemon, pull, &["To approve,", "/approve canary"]);
    stage.await_held(daemon, &["2", "1", "1"]);
    let comments = gitea().comments(&stage.repo, pull).expect("comments");
    let is_asking =
        |comment: &&serde_json::Value| comment["body"].as_str().is_some_and(|body| body.contains("To approve,"));
    let asks = comments.iter().find(is_asking).expect("it asks");
    let written: jiff::Timestamp = asks["updated_at"].as_str().expect("an instant").parse().expect("one");
    // What was given in the second of its writing counts for nothing: nobody can have read it.
    daemon.until("somebody can have read the comment", || clock::wall().as_second() > written.as_second());
    (pull, asks["id"].as_u64().expect("it has an id"))
}

/// Rolls the first version out, whatever it takes.
pub fn begin(stage: &Stage) -> Daemon<'_> {
    stage.write("1");
    stage.push("main", "The fleet and its first application");
    let daemon = stage.world.start();
    stage.await_held(&daemon, &["1", "", ""]);
    let run = format!("{}-0", stage.name);
    daemon.until("the first version may continue", || {
        stage.world.gitfleet(&["approve", &run, "canary", "-c", "gitfleet.yaml"]).status.success()
    });
    stage.await_held(&daemon, &["1", "1", "1"]);
    daemon
}

/// The approver writes something, and the author makes a command of it at once.
fn forged(stage: &Stage, daemon: &Daemon<'_>, pull: u64, word: &str) {
    let id = stage.say(&stage.approver, pull, "I will look tomorrow");
    gitea().edit_comment(&stage.author.token, &stage.repo, id, "/approve canary").expect("Gitea lets a writer edit");
    let comments = gitea().comments(&stage.repo, pull).expect("comments");
    let found = comments.iter().find(|comment| comment["id"] == id).expect("it is there");
    assert_eq!(found["user"]["login"], stage.approver.account.name.as_str(), "its author stays");
    stage.await_comment(daemon, pull, &[&stage.approver.account.name, "not done", word]);
    assert_eq!(stage.held(), ["2", "1", "1"], "no gate opened");
}

#[test]
fn d01_an_approval_forged_by_an_edit_opens_no_gate_with_polling_only() {
    let stage = Stage::new("forged-polling", "1s");
    let daemon = begin(&stage);
    let (pull, _) = waiting(&stage, &daemon, &[]);
    forged(&stage, &daemon, pull, "new one");
    // Everybody may read this repository, so its host tells that nobody changed this one.
    let word = stage.say(&stage.approver, pull, "/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_held(&daemon, &["2", "2", "2"]);
}

#[test]
fn d01_an_approval_forged_by_an_edit_opens_no_gate_with_webhooks() {
    let stage = Stage::new("forged-hooks", "1h");
    gitea().make_private(&stage.repo).expect("it is private");
    stage.hook();
    let daemon = begin(&stage);
    let (pull, _) = waiting(&stage, &daemon, &[]);
    forged(&stage, &daemon, pull, "new one");
    // Nobody but the delivery tells what this one was when it was written.
    let word = stage.say(&stage.approver, pull, "/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_held(&daemon, &["2", "2", "2"]);
}

#[test]
fn without_a_webhook_a_reaction_to_the_comment_that_asks_approves() {
    let stage = Stage::new("reacted", "1s");
    gitea().make_private(&stage.repo).expect("it is private");
    let daemon = begin(&stage);
    let (pull, asks) = waiting(&stage, &daemon, &[]);
    // Gitea tells nobody without a browser whether a private repository's comment was changed.
    stage.say(&stage.approver, pull, "/approve canary");
    stage.await_comment(&daemon, pull, &[&stage.approver.account.name, "not done", "react with 🚀"]);
    forged(&stage, &daemon, pull, "react with 🚀");
    gitea().react(&stage.author.token, &stage.repo, asks, "rocket").expect("anybody may react");
    stage.await_comment(&daemon, pull, &[&stage.author.account.name, "somebody else must approve"]);
    assert_eq!(stage.held(), ["2", "1", "1"], "the author does not approve");
    gitea().react(&stage.approver.token, &stage.repo, asks, "rocket").expect("a reaction");
    stage.await_held(&daemon, &["2", "2", "2"]);
    stage.await_comment(&daemon, pull, &["<!-- gitfleet:v1", &stage.approver.account.name, "✅"]);

    // This host takes no approving review of what is merged, so none can come after a gate was shown.
    let path = format!("/repos/{}/pulls/{pull}/reviews", stage.repo);
    let review = json!({"event": "APPROVED", "body": "fine"});
    let (status, answer) = gitea().ask(&stage.approver.token, "POST", &path, Some(&review)).expect("an answer");
    assert!(status >= 400, "{status}: {answer}: reviews could approve here; say so in the comments that ask");
}

#[test]
fn a_reaction_to_a_comment_that_somebody_changed_opens_no_gate() {
    let stage = Stage::new("reacted-forged", "1s");
    gitea().make_private(&stage.repo).expect("it is private");
    let daemon = begin(&stage);
    let (pull, asks) = waiting(&stage, &daemon, &[]);
    gitea().edit_comment(&stage.author.token, &stage.repo, asks, "Who wants lunch? React with 🚀").expect("an edit");
    gitea().react(&stage.approver.token, &stage.repo, asks, "rocket").expect("a reaction");
    stage.await_comment(&daemon, pull, &["not done", "changed the comment"]);
    assert_eq!(stage.held(), ["2", "1", "1"], "no gate opened");
}

#[test]
fn d10_whoever_pushed_the_change_does_not_approve_it() {
    for (name, poll) in [("pushed-polling", "1s"), ("pushed-hooks", "1h")] {
        let stage = Stage::new(name, poll);
        if poll == "1h" {
            stage.hook();
        }
        let pusher = Person::new(&format!("{name}-pusher"), &stage.repo, Some("write"), PERSON_SCOPES);
        let daemon = begin(&stage);
        let (pull, _) = waiting(&stage, &daemon, &[&pusher]);
        stage.say(&pusher, pull, "/approve canary");
        stage.await_comment(&daemon, pull, &[&pusher.account.name, "not done", "pushed a commit of"]);
        assert_eq!(stage.held(), ["2", "1", "1"], "{name}: no gate opened");
        let word = stage.say(&stage.approver, pull, "/approve canary");
        stage.await_reaction(&daemon, word, "rocket");
        stage.await_held(&daemon, &["2", "2", "2"]);
    }
}

/// Says something and waits for the answer that refuses it.
fn refused(stage: &Stage, daemon: &Daemon<'_>, person: &Person, pull: u64, words: &str) {
    stage.say(person, pull, "/approve canary");
    stage.await_comment(daemon, pull, &[&person.account.name, "not done", words]);
}

#[test]
fn the_owners_of_the_placements_file_approve_it() {
    let stage = Stage::new("owners-approve", "1s");
    let owner = Person::new("owned-owner", &stage.repo, Some("write"), PERSON_SCOPES);
    let guest = Person::new("owned-guest", &stage.repo, Some("read"), PERSON_SCOPES);
    let path = stage.world.path().join("gitfleet.yaml");
    let text = std::fs::read_to_string(&path).expect("the configuration");
    let text = text.replace("forge:\n", "forge:\n  approvals: {codeOwners: true}\n");
    std::fs::write(&path, text).expect("a file");
    let [owner_name, guest_name] = [&owner, &guest].map(|person| person.account.name.clone());
    stage
        .world
        .write("CODEOWNERS", &format!("app\\\\.yaml @{owner_name} @{guest_name}\nfleet\\\\.yaml @{guest_name}\n"));
    let daemon = begin(&stage);
    let (pull, _) = waiting(&stage, &daemon, &[]);
    refused(&stage, &daemon, &stage.approver, pull, "is not among the code owners");
    refused(&stage, &daemon, &guest, pull, "has read permission");
    assert_eq!(stage.held(), ["2", "1", "1"], "no gate opened");
    let word = stage.say(&owner, pull, "/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_held(&daemon, &["2", "2", "2"]);

    // A change that names another owner needs the one before as well.
    let name = &stage.approver.account.name;
    stage.branch("takeover");
    stage.world.write("CODEOWNERS", &format!("app\\\\.yaml @{name}\n"));
    stage.write("3");
    stage.push("takeover", "Third version");
    let pull =
        gitea().open_pull(&stage.author.token, &stage.repo, "takeover", "main", "Third version").expect("a pull");
    gitea().merge(&stage.author.token, &stage.repo, pull, MergeWay::Merge).expect("a merge");
    stage.await_comment(&daemon, pull, &["To approve,", "/approve canary"]);
    stage.await_held(&daemon, &["3", "2", "2"]);
    refused(&stage, &daemon, &stage.approver, pull, "is not among the code owners before this change");
    refused(&stage, &daemon, &owner, pull, "is not among the code owners: ");
    assert_eq!(stage.held(), ["3", "2", "2"], "no gate opened");
}
