//! What the test fleet lets people do on its Gitea, and the setup that `tests/fleet.sh up` leaves.

use std::collections::BTreeMap;

use config::Configuration;

use crate::e2e::daemon::World;
use crate::e2e::fleet::{BOT_SCOPES, CLUSTERS, Console, MergeWay, commit_all, git};
use crate::e2e::shared;

#[test]
fn the_setup_to_click_through_is_complete() {
    let gitea = shared().gitea().expect("the fleet has a Gitea");
    let console = Console::prepare(shared()).expect("it is prepared");
    let Console { repo, work_tree, .. } = &console;
    let token = |name: &str| {
        let found = console.accounts.iter().find(|(account, _)| account.name == name);
        found.map(|(_, token)| token.as_str()).expect("the account has a token")
    };
    let world = World::new(None, &[]);
    let valid = world.gitfleet(&["validate", work_tree.to_str().expect("a path")]);
    assert!(valid.status.success(), "{}", String::from_utf8_lossy(&valid.stderr));
    let configuration = Configuration::load(&console.config, &BTreeMap::new()).expect("the daemon takes it");
    assert!(configuration.forge.is_some());
    let planned = world.gitfleet(&["plan", "--repo", work_tree.to_str().expect("a path"), "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&planned.stdout).expect("a plan");
    let placements = plan["placements"].as_array().expect("placements");
    let search = placements.iter().find(|placement| placement["name"] == "search").expect("search");
    let stages = search["rollout"]["stages"].as_array().expect("stages");
    let clusters: Vec<_> = stages.iter().map(|stage| stage["clusters"][0].as_str().unwrap_or_default()).collect();
    assert_eq!(clusters, CLUSTERS, "one real cluster for each stage");

    // Every way to merge, with what people and the daemon say on the way.
    let ways = [MergeWay::Merge, MergeWay::Squash, MergeWay::Rebase, MergeWay::RebaseMerge, MergeWay::FastForwardOnly];
    for way in ways {
        let branch = format!("{way:?}").to_lowercase();
        git(work_tree, &["fetch", "-q", "origin"]).expect("a fetch");
        git(work_tree, &["switch", "-q", "-c", &branch, "origin/main"]).expect("a branch");
        std::fs::write(work_tree.join("apps").join(format!("{branch}.txt")), &branch).expect("a change");
        commit_all(work_tree, "A change").expect("a commit");
        let head = gitea.push_as(work_tree, repo, &branch, "author", token("author")).expect("a push");
        let pull = gitea.open_pull(token("author"), repo, &branch, "main", "A change").expect("a pull request");
        assert_eq!(gitea.pull(repo, pull).expect("it is there")["head"]["sha"], head.as_str());
        let comment = gitea.comment(token("stranger"), repo, pull, "/approve staging").expect("a comment");
        let comments = gitea.comments(repo, pull).expect("comments");
        assert_eq!((&comments[0]["id"], &comments[0]["user"]["login"]), (&comment.into(), &"stranger".into()));
        let status = serde_json::json!({"context": "gitfleet/plan", "state": "success", "description": "nothing"});
        let path = format!("/repos/{repo}/statuses/{head}");
        let (refused, _) = gitea.ask(token("stranger"), "POST", &path, Some(&status)).expect("an answer");
        assert_eq!(refused, 403, "a stranger writes no status");
        for _ in 0..2 {
            gitea.api_as(token("gitfleet"), "POST", &path, Some(&status)).expect("the daemon's account may");
        }
        assert_eq!(gitea.statuses(repo, &head).expect("statuses").len(), 1, "the newest of each context");
        assert_eq!(gitea.status_writes(repo, &head).expect("statuses"), 2);
        let merged = gitea.merge(token("approver"), repo, pull, way).expect("a merge");
        git(work_tree, &["fetch", "-q", "origin"]).expect("a fetch");
        assert_eq!(git(work_tree, &["rev-parse", "origin/main"]).expect("a commit"), merged, "{way:?}");
    }
    assert!(gitea.issues(repo).expect("issues").is_empty() && gitea.hooks(repo).expect("hooks").is_empty());

    let permission = |name: &str| {
        let path = format!("/repos/{repo}/collaborators/{name}/permission");
        gitea.api_as(token("gitfleet"), "GET", &path, None).expect("the daemon may ask")["permission"].clone()
    };
    let found = ["author", "approver", "stranger", "gitfleet"].map(permission);
    assert_eq!(found, ["write", "write", "read", "admin"]);
    let (account, old) = &console.accounts[2];
    gitea.team("platform", "release", &[&account.name]).expect("a team");
    gitea.revoke_tokens(account).expect("tokens go");
    assert_eq!(gitea.ask(old, "GET", "/user", None).expect("an answer").0, 401, "a revoked token is refused");
    let new = gitea.token(account, BOT_SCOPES).expect("another token");
    assert_eq!(gitea.api_as(&new, "GET", "/user", None).expect("it is known")["login"], "stranger");
}
