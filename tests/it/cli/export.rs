//! `gitfleet export decisions` after a run, and what the plugin generator of Argo CD is answered.

use std::fs;

use serde_json::{Value, json};

use crate::cli::daemon::{Daemon, TOKEN};
use crate::cli::explain::ocm_fleet;
use crate::cli::scratch::{CONFIG, Scratch, annotated_placement};

fn once(scratch: &Scratch) {
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
}

fn export(scratch: &Scratch, more: &[&str]) -> crate::cli::scratch::Outcome {
    scratch.run(&[&["export", "decisions", "-c", CONFIG], more].concat())
}

#[test]
fn decisions_are_exported_in_every_form() {
    let scratch = Scratch::with_web();
    once(&scratch);
    let found = export(&scratch, &["-o", "json"]).json(0);
    let placements = found["placements"].as_array().expect("a list");
    assert_eq!(placements.len(), 1, "{found}");
    assert_eq!(placements[0]["kind"], "ClusterResourcePlacement");
    assert_eq!(placements[0]["placementLabel"], "web");
    let clusters: Vec<&Value> =
        placements[0]["decisions"].as_array().expect("a list").iter().map(|d| &d["clusterName"]).collect();
    assert_eq!(clusters, ["east", "west"]);
    assert_eq!(placements[0]["decisions"][0]["decisionGroup"], json!({"index": 0, "name": ""}));
    assert_eq!(export(&scratch, &["-o", "name", "web"]).text(0), "east\nwest\n");
    assert!(export(&scratch, &["-o", "yaml"]).text(0).contains("clusterName: east"));
    let table = export(&scratch, &[]);
    assert!(table.text(0).starts_with("PLACEMENT   KIND "), "{}", table.out);
    assert!(!table.out.contains("REASON"));
    let missing = export(&scratch, &["wbe"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("no placement wbe has been decided"), "{}", missing.err);
}

#[test]
fn rolled_out_lists_what_the_rollout_has_reached() {
    let scratch = Scratch::with_web();
    let annotations = "{gitfleet.io/decisions: rolled-out}";
    scratch.write("placement.yaml", &annotated_placement("web", annotations, "web", ""));
    // Nobody writes there: it is picked and not reached.
    fs::create_dir_all(scratch.path("members")).expect("a folder");
    fs::write(scratch.path("members/west"), "a file where a folder should be").expect("a file");
    scratch.commit("second");
    let found = scratch.run(&["run", "-c", CONFIG, "--once", "--timeout", "5s"]);
    assert_eq!(found.code, 1, "{}", found.err);
    assert_eq!(export(&scratch, &["-o", "name"]).text(0), "east\n");
}

#[test]
fn a_placement_that_was_removed_is_known_to_have_no_cluster() {
    let scratch = Scratch::with_web();
    scratch.write("placement.yaml", &annotated_placement("web", "{gitfleet.io/deletion-guard: 'Off'}", "web", ""));
    scratch.commit("without a guard");
    once(&scratch);
    scratch.remove("placement.yaml");
    scratch.commit("removed");
    once(&scratch);
    assert_eq!(export(&scratch, &["-o", "json"]).json(0), json!({"placements": []}));
    let daemon = Daemon::start(&scratch);
    let (status, answer) = daemon.ask(Some(TOKEN), &json!({"input": {"parameters": {"placement": "web"}}}));
    assert_eq!((status, answer), (200, json!({"output": {"parameters": []}})));
}

#[test]
fn the_plugin_generator_is_answered_by_token_only() {
    let scratch = Scratch::with_web();
    once(&scratch);
    let daemon = Daemon::start(&scratch);
    let question = json!({"applicationSetName": "web", "input": {"parameters": {"placement": "web"}}});
    let (status, answer) = daemon.ask(Some(TOKEN), &question);
    assert_eq!(status, 200, "{answer}");
    let sets = answer["output"]["parameters"].as_array().expect("a list");
    let names: Vec<&Value> = sets.iter().map(|set| &set["clusterName"]).collect();
    assert_eq!(names, ["east", "west"]);
    assert!(sets.iter().all(|set| set.as_object().expect("an object").values().all(Value::is_string)), "{answer}");
    for (token, question, expected, words) in [
        (None, question.clone(), 401, "a bearer token is needed"),
        (Some("0123456789abcdeX"), question, 403, "not known"),
        (Some(TOKEN), json!({"input": {"parameters": {"placement": "wbe"}}}), 404, "no placement wbe"),
        (Some(TOKEN), json!({"input": {}}), 400, "placement is missing"),
        (Some(TOKEN), json!("text"), 400, "not the generator's"),
    ] {
        let (status, answer) = daemon.ask(token, &question);
        assert_eq!(status, expected, "{answer}");
        assert!(answer["message"].as_str().expect("words").contains(words), "{answer}");
    }
}

#[test]
fn a_hub_that_does_not_answer_holds_up_no_delivery() {
    let scratch = Scratch::with_web();
    // Nobody listens on port 1.
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: [{name: h, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: \
                      [{name: u, user: {token: t}}]\ncontexts: [{name: h, context: {cluster: h, user: u}}]\ncurrent-context: h\n";
    fs::write(scratch.path("hub"), kubeconfig).expect("a file");
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    fs::write(scratch.path(CONFIG), text + "decisions: {kubeconfig: {path: ./hub}}\n").expect("a file");
    // It is tried again as long as there is time.
    let found = scratch.run(&["run", "-c", CONFIG, "--once", "--timeout", "3s"]);
    assert_eq!(found.code, 1, "{}", found.err);
    assert_eq!(scratch.member("west").len(), 2, "it is delivered all the same");
    let exported = export(&scratch, &["-o", "name"]);
    assert_eq!(exported.text(0), "east\nwest\n");
    assert!(exported.err.contains("of `decisions:` does not answer"), "{}", exported.err);
}

#[test]
fn placements_of_open_cluster_management_and_who_follows_them() {
    let scratch = ocm_fleet();
    once(&scratch);
    let found = export(&scratch, &["-o", "json"]).json(0);
    let decision = |cluster: &str, reason: &str| json!({"clusterName": cluster, "reason": reason, "decisionGroup": {"index": 0, "name": ""}});
    let followed = "selected by OCM Placement ns1/p";
    let expected = json!({"placements": [
        {"kind": "ClusterResourcePlacement", "name": "follower", "placementLabel": "follower",
            "decisions": [decision("m1", followed), decision("m3", followed)]},
        {"kind": "Placement", "namespace": "ns1", "name": "p", "placementLabel": "p",
            "decisions": [decision("m1", ""), decision("m3", "")]},
    ]});
    assert_eq!(found, expected);
    for name in ["p", "ns1/p"] {
        assert_eq!(export(&scratch, &[name, "-o", "name"]).text(0), "m1\nm3\n", "{name}");
    }
    insta::assert_snapshot!(export(&scratch, &["-o", "wide"]).text(0), @r#"
    PLACEMENT   KIND                       GROUP   CLUSTER   REASON
    follower    ClusterResourcePlacement   0       m1        selected by OCM Placement ns1/p
    follower    ClusterResourcePlacement   0       m3        selected by OCM Placement ns1/p
    ns1/p       Placement                  0       m1
    ns1/p       Placement                  0       m3
    "#);
    assert_eq!(export(&scratch, &["ns2/p"]).code, 2);
}

#[test]
fn wrong_usage_is_64_and_what_cannot_be_read_2() {
    let scratch = Scratch::new();
    for (args, code) in [
        (&["export"][..], 64),
        (&["export", "everything"], 64),
        (&["export", "decisions", "a", "b"], 64),
        (&["export", "decisions", "-o", "xml"], 64),
        (&["export", "decisions", "-c", "nowhere.yaml"], 2),
    ] {
        let found = scratch.run(args);
        assert_eq!((found.code, found.out.as_str()), (code, ""), "{args:?}: {}", found.err);
        assert!(!found.err.is_empty(), "{args:?}");
    }
}
