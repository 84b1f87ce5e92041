//! Staged rollouts through the binary: by single passes with approvals between them, and through a running daemon.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::daemon::Daemon;
use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch, cluster, namespace};

pub const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];
/// How long a daemon may take to get anywhere before a test gives up.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Three stages, each with one cluster: time passes after the first, a person says yes after the second.
pub const STRATEGY: &str = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
    metadata: {name: steps}\nspec:\n  stages:\n    - name: dev\n      labelSelector: {matchLabels: {region: dev}}\n      \
    afterStageTasks: [{type: TimedWait, waitTime: 1s}]\n    - name: staging\n      labelSelector: {matchLabels: {region: staging}}\n      \
    afterStageTasks: [{type: Approval}]\n    - name: production\n      labelSelector: {matchLabels: {region: prod}}\n      maxConcurrency: 50%\n";

pub fn placement(annotations: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: web\n  \
         annotations: {{{annotations}}}\nspec:\n  resourceSelectors:\n    - {{group: '', version: v1, kind: Namespace, name: web}}\n  \
         strategy: {{type: External}}\n"
    )
}

pub const AUTOMATIC: &str = "gitfleet.io/staged-update-strategy: steps";

pub fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    let clusters = [cluster("d", "dev"), cluster("p1", "prod"), cluster("p2", "prod"), cluster("s", "staging")];
    scratch.write("clusters.yaml", &clusters.concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.write("placement.yaml", &placement(AUTOMATIC));
    scratch.write("strategy.yaml", STRATEGY);
    scratch.commit("first");
    scratch
}

pub fn told(scratch: &Scratch, args: &[&str]) -> Outcome {
    scratch.run(&[args, &["-c", CONFIG]].concat())
}

/// Returns what a member holds under the key of the ConfigMap.
pub fn value(scratch: &Scratch, member: &str) -> String {
    let text = fs::read_to_string(scratch.path(&format!("members/{member}/configmap..web.a.yaml"))).unwrap_or_default();
    let line = text.lines().find(|line| line.trim_start().starts_with("key:")).unwrap_or_default();
    line.trim_start().trim_start_matches("key:").trim_matches([' ', '\'', '"']).to_owned()
}

#[test]
fn ux1a_5_a_plan_of_the_configuration_names_the_rollouts_that_it_stops() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3, "a gate waits for a person");
    let nothing = told(&scratch, &["plan"]);
    assert!(!nothing.text(0).contains("Merging"), "{}", nothing.out);
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("second");
    let said = "! Merging stops the running rollout of web (2 of 4 clusters have it, at stage staging) and begins again at stage dev; \
                2 clusters never get ";
    for summary in [&["plan"][..], &["plan", "--summary"]] {
        let plan = told(&scratch, summary);
        assert!(plan.text(0).starts_with(said), "{}", plan.out);
    }
    let alone = scratch.run(&["plan", FLEET, "--base", "HEAD~1"]);
    assert!(!alone.text(0).contains("Merging"), "without a configuration no daemon is asked: {}", alone.out);
}

#[test]
fn a_pass_ends_at_the_approval_and_the_next_continues() {
    let scratch = fleet();
    let found = scratch.run(&ONCE);
    assert_eq!(found.code, 3, "a gate waits for a person: {}", found.err);
    assert!(found.err.contains("gitfleet approve web-0 staging"), "{}", found.err);
    assert_eq!((value(&scratch, "s").as_str(), scratch.member("p1").len()), ("1", 0));
    let status = told(&scratch, &["status", "--all", "--exit-code"]);
    for wanted in
        ["stage dev", "waits for approval before the next stage", "gitfleet approve web-0 staging", "anybody who may"]
    {
        assert!(status.text(3).contains(wanted), "{wanted}: {}", status.out);
    }
    let approvals = told(&scratch, &["get", "approvals"]);
    assert!(approvals.text(0).starts_with("NAME"), "{}", approvals.out);
    assert!(approvals.out.contains("web-0-after-staging"), "{}", approvals.out);
    let early = told(&scratch, &["approve", "web-0", "production"]);
    assert_eq!(early.code, 1, "{}", early.err);
    assert!(early.err.contains("production does not wait"), "{}", early.err);
    let wrong = told(&scratch, &["approve", "web-0", "staging", "--digest", "0123456789ab"]);
    assert_eq!((wrong.code, wrong.err.contains("check what it would do now")), (1, true), "{}", wrong.err);

    let said = told(&scratch, &["approve", "web-0", "staging", "--reason", "tried it", "-o", "json"]).json(0);
    assert!(said["message"].as_str().is_some_and(|text| text.starts_with("approved")), "{said}");
    scratch.run(&ONCE).text(0);
    assert_eq!((value(&scratch, "p1").as_str(), value(&scratch, "p2").as_str()), ("1", "1"));
    let run = told(&scratch, &["get", "runs", "web-0", "-o", "json"]).json(0);
    assert_eq!(run["status"]["policySnapshotIndexUsed"], "0");
    let reason = run["status"]["conditions"].as_array().and_then(|all| all.iter().find(|c| c["type"] == "Succeeded"));
    assert_eq!(reason.map(|c| &c["reason"]), Some(&json!("UpdateRunSucceeded")));
    let described = told(&scratch, &["describe", "run", "web-0"]);
    for wanted in ["ApprovalRequested", "Approved", "tried it"] {
        assert!(described.text(0).contains(wanted), "{wanted}: {}", described.out);
    }
    let described = told(&scratch, &["describe", "crp", "web"]);
    for wanted in [
        "PlacementRolloutStarted",
        "PlacementOverriddenSucceeded",
        "PlacementWorkSynchronized",
        "PlacementApplied",
        "PlacementRolloutCompleted",
    ] {
        assert!(described.text(0).contains(wanted), "{wanted}: {}", described.out);
    }
}

#[test]
fn a_rejected_snapshot_is_held_until_somebody_retries_it() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    told(&scratch, &["approve", "web-0-after-staging"]).text(0);
    scratch.run(&ONCE).text(0);
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("second");
    assert_eq!(scratch.run(&ONCE).code, 3);
    told(&scratch, &["reject", "web-1", "staging", "--reason", "slow"]).text(0);
    let found = scratch.run(&ONCE);
    assert_eq!((found.code, found.err.contains("is held until `gitfleet retry web`")), (1, true), "{}", found.err);
    assert_eq!((value(&scratch, "d").as_str(), value(&scratch, "p1").as_str()), ("2", "1"));
    told(&scratch, &["rollback", "web-1"]).text(0);
    scratch.run(&ONCE);
    assert_eq!((value(&scratch, "d").as_str(), value(&scratch, "s").as_str()), ("1", "1"));
    told(&scratch, &["retry", "web"]).text(0);
    assert_eq!(scratch.run(&ONCE).code, 3);
    assert_eq!(value(&scratch, "s"), "2");
}

#[test]
fn a_daemon_takes_commands_by_its_api() {
    let scratch = fleet();
    let daemon = Daemon::start(&scratch);
    let ask = |args: &[&str]| scratch.run(&[args, &["--server", &daemon.address]].concat());
    let tell = |args: &[&str]| scratch.run(&[args, &["--server", &daemon.address, "-c", CONFIG]].concat());
    let started = Instant::now();
    let mut status = String::new();
    while !status.contains("gitfleet approve web-0 staging") {
        assert!(started.elapsed() < LIMIT, "{status}");
        status = ask(&["status"]).out;
    }
    let denied = ask(&["approve", "web-0", "staging"]);
    assert_eq!(denied.code, 2, "without a token: {}{}", denied.out, denied.err);
    tell(&["approve", "web-0", "staging"]).text(0);
    while !ask(&["get", "runs", "web-0", "-o", "json"]).out.contains("UpdateRunSucceeded") {
        assert!(started.elapsed() < LIMIT, "{}", ask(&["status"]).out);
    }
    assert_eq!(value(&scratch, "p2"), "1");
    let journal = ask(&["export", "journal", "web"]);
    let approved: Vec<Value> = journal.text(0).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let approved = approved.iter().find(|entry| entry["event"] == "Approved").expect("it is stored");
    assert_eq!((&approved["facts"]["stage"], &approved["facts"]["opened"]), (&json!("staging"), &json!(true)));
    assert!(approved["facts"]["person"].as_str().is_some_and(|person| !person.is_empty()), "{approved}");
}

#[test]
fn a_plan_has_the_stages_in_update_order() {
    let scratch = fleet();
    let plan = scratch.run(&["plan", "--repo", "fleet", "-o", "json"]).json(0);
    let rollout = &plan["placements"][0]["rollout"];
    assert_eq!((&rollout["type"], &rollout["strategy"]), (&json!("External"), &json!("steps")));
    let stages = json!([
        {"name": "dev", "clusters": ["d"], "maxConcurrency": 1, "after": [{"type": "TimedWait", "waitTime": "1s"}]},
        {"name": "staging", "clusters": ["s"], "maxConcurrency": 1, "after": [{"type": "Approval"}]},
        {"name": "production", "clusters": ["p1", "p2"], "maxConcurrency": 1},
    ]);
    assert_eq!(rollout["stages"], stages);
    scratch.write("more.yaml", &cluster("x", "elsewhere"));
    let plan = scratch.run(&["plan", "--repo", "fleet", "-o", "json"]).json(1);
    let error = plan["placements"][0]["rollout"]["error"].as_str().unwrap_or_default();
    assert!(error.contains('x') && error.contains("stage"), "it names the cluster: {error}");
}

#[test]
fn a_wait_of_no_time_is_refused_alike_by_validate_plan_and_run() {
    let scratch = fleet();
    let strategy = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\n\
                    metadata: {name: steps}\nspec:\n  stages:\n    - {name: all, labelSelector: {}, afterStageTasks: \
                    [{type: TimedWait, waitTime: 0s}]}\n";
    scratch.write("strategy.yaml", strategy);
    scratch.commit("no time");
    let said =
        "stage all: the waitTime \"0s\" of its TimedWait is no time; write one such as 1h30m, or remove the task";
    // As on a hub the document itself is taken.
    let validate = scratch.run(&["validate", FLEET]);
    assert!(validate.text(0).is_empty() && validate.err.contains(said), "{}", validate.err);
    let plan = scratch.run(&["plan", "--repo", FLEET]);
    assert!(plan.text(1).contains(said), "{}", plan.out);
    let run = scratch.run(&["run", "-c", CONFIG, "--once"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let status = scratch.run(&["status", "-c", CONFIG]);
    assert!(status.text(0).contains(said), "{}", status.out);
}
