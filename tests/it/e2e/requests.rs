//! How many requests to a real Gitea a whole rollout takes, from the merge of its pull request to its last word.

use crate::e2e::approvals::begin;
use crate::e2e::console::{Stage, gitea};
use crate::e2e::daemon::World;
use crate::e2e::fleet::MergeWay;

/// Requests of a rollout of three stages that waits for nobody: at most two a stage and four.
const ROLLOUT_MAX: usize = 2 * 3 + 4;
/// What asks for an approval: the placement's status, and the rollout's once more, with the comment's address.
const ASKING: usize = 2;
/// What one approving comment takes: its reading, two looks whether somebody changed it, its author's permission, the pull
/// request, its commits, six pages that name who pushed, the reaction.
const APPROVAL: usize = 13;

/// Returns what was asked of the host so far.
fn asked(world: &World) -> Vec<String> {
    let lines = world.log().into_iter().filter(|line| line["message"] == "asked the git host");
    lines.map(|line| format!("{} {}", line["method"], line["what"])).collect()
}

#[test]
fn a_rollout_with_an_approval_takes_few_requests() {
    let stage = Stage::new("requests", "1h");
    stage.hook();
    let daemon = begin(&stage);
    daemon.until("the first rollout is told on an issue", || {
        let issues = gitea().issues(&stage.repo).expect("issues");
        issues
            .first()
            .and_then(|issue| issue["number"].as_u64())
            .is_some_and(|issue| stage.comments(issue).iter().any(|comment| comment.contains("✅")))
    });
    stage.branch("change");
    stage.write("2");
    stage.push("change", "Second version");
    let pull = gitea().open_pull(&stage.author.token, &stage.repo, "change", "main", "Second version").expect("a pull");
    stage.await_comment(&daemon, pull, &["settings", "canary", "early", "rest"]);
    let noted = format!("comment on #{pull}");
    daemon.until("the plan's comment is noted", || asked(&stage.world).iter().any(|line| line.contains(&noted)));
    let before = asked(&stage.world).len();
    let merged = gitea().merge(&stage.author.token, &stage.repo, pull, MergeWay::Merge).expect("a merge");
    stage.await_comment(&daemon, pull, &["To approve,", "/approve canary"]);
    let word = stage.say(&stage.approver, pull, "/approve canary");
    stage.await_reaction(&daemon, word, "rocket");
    stage.await_held(&daemon, &["2", "2", "2"]);
    stage.await_comment(&daemon, pull, &["<!-- gitfleet:v1", &stage.approver.account.name, "✅"]);
    for context in ["gitfleet", &format!("gitfleet/{}", stage.name)] {
        stage.await_status(&daemon, &merged, context, "success", "");
    }
    let asked = asked(&stage.world).split_off(before);
    assert!(asked.len() <= ROLLOUT_MAX + ASKING + APPROVAL, "{} requests:\n{}", asked.len(), asked.join("\n"));
}
