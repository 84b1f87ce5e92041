//! `gitfleet simulate`: who moves when, what each waits for, and what a failure touches.

use serde_json::{Value, json};

use crate::cli::scratch::{FLEET, Outcome, Scratch, annotated_placement, namespace, placement};

fn simulate(scratch: &Scratch, more: &[&str]) -> Outcome {
    scratch.run(&[&["simulate", "--repo", FLEET], more].concat())
}

fn of_environment(name: &str, environment: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  labels: \
         {{environment: {environment}}}\nspec: {{}}\n"
    )
}

/// Four clusters in three stages: a canary, a wait of an hour, a person.
fn staged(annotations: &str) -> Scratch {
    let scratch = Scratch::new();
    let clusters = [("canary-1", "canary"), ("east", "prod"), ("stage-1", "staging"), ("west", "prod")];
    scratch.write("clusters.yaml", &clusters.map(|(name, environment)| of_environment(name, environment)).concat());
    let strategy = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata:\n  \
                    name: careful\n  annotations: {gitfleet.io/approvers: \"team:web/leads\"}\nspec:\n  stages:\n    - name: \
                    canary\n      labelSelector: {matchLabels: {environment: canary}}\n      afterStageTasks: [{type: \
                    TimedWait, waitTime: 1h}]\n    - name: staging\n      labelSelector: {matchLabels: {environment: \
                    staging}}\n      afterStageTasks: [{type: Approval}]\n    - name: prod\n      labelSelector: \
                    {matchLabels: {environment: prod}}\n";
    scratch.write("strategy.yaml", strategy);
    let annotations = format!("{{gitfleet.io/staged-update-strategy: careful{annotations}}}");
    scratch.write("placement.yaml", &annotated_placement("web", &annotations, "web", "  strategy: {type: External}\n"));
    scratch.write("web.yaml", &namespace("web", &[("settings", "1")]));
    scratch
}

/// The same with a second commit that changes an object.
fn changed(annotations: &str) -> Scratch {
    let scratch = staged(annotations);
    scratch.commit("first");
    scratch.write("web.yaml", &namespace("web", &[("settings", "2")]));
    scratch.commit("second");
    scratch
}

const CHANGE: [&str; 4] = ["--base", "HEAD~1", "--head", "HEAD"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&CHANGE[..], more].concat()
}

#[test]
fn a_timeline_for_people() {
    let scratch = staged("");
    insta::assert_snapshot!(simulate(&scratch, &["--approve", "staging@2h"]).text(0), @r#"
    ClusterResourcePlacement web  snapshot 0
      T+00:00:00  web-0    begins: snapshot 0 by careful, 4 clusters in 3 stages
      T+00:00:00  canary   canary-1 begins
      T+00:00:01  canary   canary-1 is available
      T+00:00:01  canary   waits 1h before the next stage
      T+01:00:01  canary   the wait of 1h is over
      T+01:00:01  staging  stage-1 begins
      T+01:00:02  staging  stage-1 is available
      T+01:00:02  staging  waits for a person (team:web/leads) before the next stage
      T+02:00:00  staging  approved
      T+02:00:00  prod     east begins
      T+02:00:01  prod     east is available
      T+02:00:01  prod     west begins
      T+02:00:02  prod     west is available
      T+02:00:02  web-0    succeeded: all stages are done
      outcome       done after 2h
      longest wait  1h for the time to pass that the strategy waits, stage canary of web-0, from T+00:00:01
      gates         canary waited 1h, staging approved after 59m58s
      unavailable   at most 1 cluster at once

    1 placement, 1 done
    "#);
}

#[test]
fn the_contract_field_by_field() {
    let simulated = simulate(&changed(""), &with(&["--approve", "staging@2h", "-o", "json"])).json(0);
    let stage = "/placements/0/runs/0/stages";
    let rows = [
        ("/until".to_owned(), json!(86_400)),
        ("/errors".to_owned(), json!([])),
        ("/placements/0/kind".to_owned(), json!("ClusterResourcePlacement")),
        ("/placements/0/name".to_owned(), json!("web")),
        ("/placements/0/snapshot".to_owned(), json!(1)),
        ("/placements/0/outcome".to_owned(), json!("Done")),
        ("/placements/0/failedAt".to_owned(), Value::Null),
        ("/placements/0/touchedAtFailure".to_owned(), json!([])),
        ("/placements/0/maxUnavailable".to_owned(), json!(1)),
        ("/placements/0/clustersPicked".to_owned(), json!(4)),
        ("/placements/0/runs/0/name".to_owned(), json!("web-1")),
        ("/placements/0/runs/0/phase".to_owned(), json!("Succeeded")),
        ("/placements/0/runs/0/strategy".to_owned(), json!("careful")),
        (format!("{stage}/0/name"), json!("canary")),
        (format!("{stage}/0/startedAt"), json!(0)),
        (format!("{stage}/0/clusters/0/name"), json!("canary-1")),
        (format!("{stage}/0/clusters/0/startedAt"), json!(0)),
        (format!("{stage}/0/clusters/0/outcome"), json!("Succeeded")),
        (format!("{stage}/0/gates/0/type"), json!("TimedWait")),
        (format!("{stage}/0/gates/0/when"), json!("after")),
        (format!("{stage}/0/gates/0/waited"), json!(3600)),
        (format!("{stage}/1/gates/0/type"), json!("Approval")),
        (format!("{stage}/1/gates/0/approvers"), json!("team:web/leads")),
        (format!("{stage}/1/gates/0/openedAt"), json!(7200)),
        (format!("{stage}/2/startedAt"), json!(7200)),
        ("/placements/0/longestWait/for".to_owned(), json!("time")),
        ("/placements/0/longestWait/stage".to_owned(), json!("canary")),
        ("/placements/0/longestWait/seconds".to_owned(), json!(3600)),
        ("/events/0/event".to_owned(), json!("Pushed")),
        ("/events/0/at".to_owned(), json!(0)),
    ];
    for (pointer, expected) in rows {
        assert_eq!(simulated.pointer(&pointer), Some(&expected), "{pointer}");
    }
    let at: Vec<f64> =
        simulated["events"].as_array().unwrap().iter().map(|event| event["at"].as_f64().unwrap()).collect();
    assert!(at.is_sorted(), "{at:?}");
}

#[test]
fn how_it_ends() {
    let rows: [(&str, &[&str], i32, &str, Value); 8] = [
        ("nobody approves", &[], 3, "WaitsForPerson", json!([])),
        ("somebody does", &["--approve-after", "5m"], 0, "Done", json!([])),
        ("too early", &["--approve", "web-1/staging@10m"], 3, "WaitsForPerson", json!([])),
        ("not in time", &["--until", "30m"], 1, "NotFinished", json!([])),
        ("the canary refuses", &["--approve-after", "0s", "--fail", "canary-1"], 1, "Halted", json!(["canary-1"])),
        (
            "one object is refused later",
            &["--approve-after", "0s", "--fail", "east=ConfigMap/settings"],
            1,
            "Halted",
            json!(["canary-1", "east", "stage-1"]),
        ),
        ("never available", &["--never-available", "canary-1=web"], 1, "Halted", json!(["canary-1"])),
        ("away", &["--approve-after", "0s", "--offline", "stage-1"], 1, "Offline", json!([])),
    ];
    let scratch = changed("");
    for (name, more, code, outcome, touched) in rows {
        let found = simulate(&scratch, &with(&[more, &["-o", "json"]].concat())).json(code);
        let placement = &found["placements"][0];
        assert_eq!(placement["outcome"], outcome, "{name}: {placement:#}");
        assert_eq!(placement["touchedAtFailure"], touched, "{name}");
        assert_eq!(placement["failedAt"].is_null(), touched == json!([]), "{name}");
    }
}

#[test]
fn a_failure_that_is_tolerated_is_noticed() {
    let scratch = changed(", gitfleet.io/max-failures: \"1\"");
    let found = simulate(&scratch, &with(&["--approve-after", "0s", "--fail", "canary-1", "-o", "json"])).json(1);
    let placement = &found["placements"][0];
    assert_eq!(placement["touchedAtFailure"], json!(["canary-1"]), "{placement:#}");
    let failed = found["events"].as_array().unwrap().iter().find(|event| event["event"] == "ClusterFailed");
    assert_eq!(failed.map(|event| &event["at"]), Some(&placement["failedAt"]));
}

#[test]
fn an_approval_of_what_does_not_wait_is_told() {
    let found = simulate(&changed(""), &with(&["--approve", "staging@10m"]));
    assert!(found.text(3).contains("T+00:10:00"), "{}", found.out);
    assert!(found.out.contains("approval of stage staging: nothing waits there"), "{}", found.out);
}

#[test]
fn a_failure_rolls_back_where_that_is_declared() {
    let scratch = changed(", gitfleet.io/on-failure: Rollback");
    let found = simulate(&scratch, &with(&["--approve-after", "0s", "--fail", "stage-1", "-o", "json"])).json(1);
    let placement = &found["placements"][0];
    assert_eq!(placement["outcome"], "RolledBack", "{placement:#}");
    assert_eq!(placement["touchedAtFailure"], json!(["canary-1", "stage-1"]));
    let runs = placement["runs"].as_array().unwrap();
    let told: Vec<_> = runs.iter().map(|run| (&run["name"], &run["phase"], &run["rollbackOf"])).collect();
    let expected = [
        (&json!("web-1"), &json!("RolledBack"), &Value::Null),
        (&json!("web-1-rollback"), &json!("Succeeded"), &json!("web-1")),
    ];
    assert_eq!(told, expected);
    assert!(found["events"].as_array().unwrap().iter().any(|event| event["event"] == "RollbackBegan"));
}

#[test]
fn a_cluster_that_is_away_is_caught_up() {
    let away = with(&["--approve-after", "0s", "--offline", "west=..3h", "-o", "json"]);
    let found = simulate(&changed(""), &away).json(0);
    let west = &found["placements"][0]["runs"][0]["stages"][2]["clusters"][1];
    assert_eq!(west["name"], "west");
    assert_eq!(west["outcome"], "Succeeded");
    assert!(west["deferredAt"].as_f64().unwrap() < 3700.0, "{west}");
    assert!((10_800.0..10_900.0).contains(&west["startedAt"].as_f64().unwrap()), "{west}");
    assert_eq!(found["placements"][0]["longestWait"]["for"], "offlineCluster");
    assert_eq!(found["placements"][0]["longestWait"]["cluster"], "west");
}

#[test]
fn a_rolling_update_and_a_removal() {
    let scratch = Scratch::new();
    let clusters = ["a", "b", "c", "d"].map(|name| of_environment(name, "prod")).concat();
    scratch.write("clusters.yaml", &clusters);
    let rolling = "  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}\n";
    scratch.write("web.yaml", &[namespace("web", &[("settings", "1")]), placement("web", "web", rolling)].concat());
    scratch.write("old.yaml", &[namespace("old", &[]), placement("old", "old", "")].concat());
    scratch.commit("first");
    scratch.write("web.yaml", &[namespace("web", &[("settings", "2")]), placement("web", "web", rolling)].concat());
    scratch.remove("old.yaml");
    scratch.commit("second");
    let found = simulate(&scratch, &with(&["--approve", "deletion@5m", "-o", "json"])).json(0);
    let [old, web] = &found["placements"].as_array().unwrap()[..] else { panic!("{found:#}") };
    assert_eq!(
        (&old["name"], &old["outcome"], &old["message"]),
        (&json!("old"), &json!("Done"), &json!("it is removed"))
    );
    assert_eq!(old["gates"][0]["type"], "Deletion");
    assert_eq!(old["gates"][0]["openedAt"], 300);
    assert_eq!((&web["outcome"], &web["maxUnavailable"]), (&json!("Done"), &json!(2)));
    assert_eq!(web["clusters"].as_array().unwrap().len(), 4);
    let failing = simulate(&scratch, &with(&["--placement", "web", "--fail", "b", "-o", "json"])).json(1);
    assert_eq!(failing["placements"].as_array().unwrap().len(), 1);
    assert_eq!(failing["placements"][0]["outcome"], "Halted");
    assert_eq!(failing["placements"][0]["touchedAtFailure"], json!(["a", "b"]));
}

#[test]
fn a_chart_that_mermaid_reads() {
    let hostile = "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: title\n  labels: \
                   {environment: prod}\nspec: {}\n";
    let scratch = changed("");
    scratch.write("hostile.yaml", hostile).commit("third");
    let rows: [&[&str]; 4] =
        [&[], &["--approve-after", "5m"], &["--fail", "canary-1"], &["--offline", "west", "--approve-after", "1m"]];
    for more in rows {
        let found = simulate(&scratch, &[&["--head", "HEAD", "-o", "mermaid"], more].concat());
        let lines: Vec<&str> = found.out.lines().collect();
        assert_eq!(lines[0], "gantt", "{}", found.out);
        let is_date = |text: &str| {
            let text = text.trim();
            text.len() == "2000-01-01 00:00:00.000".len() && text.starts_with("2000-") && text.matches(':').count() == 2
        };
        let mut sections = 0;
        for line in &lines[1..] {
            let line = line.strip_prefix("    ").expect("everything is indented");
            let word = line.split(' ').next().unwrap();
            match word {
                "title" | "dateFormat" | "axisFormat" | "todayMarker" => {}
                "section" => sections += 1,
                _ => {
                    assert!(sections > 0, "a task before the first section: {line}");
                    let (name, data) = line.split_once(" :").unwrap_or_else(|| panic!("no task: {line}"));
                    assert!(!name.contains([':', ';', '#', '`', '*']), "{line}");
                    let fields: Vec<&str> = data.split(',').map(str::trim).collect();
                    let (tags, times) = fields.split_at(fields.len() - 2);
                    let known = ["done", "active", "crit", "milestone"];
                    assert!(tags.iter().all(|tag| known.contains(tag)), "{line}");
                    assert!(is_date(times[0]) && (is_date(times[1]) || times[1] == "0ms"), "{line}");
                    assert!(times[1] == "0ms" || times[0] <= times[1], "{line}");
                }
            }
        }
        assert!(sections > 0, "{}", found.out);
        let titles = lines.iter().filter(|line| line.trim_start().starts_with("title ")).count();
        assert_eq!(titles, 1, "{}", found.out);
    }
}

#[test]
fn the_same_twice_byte_for_byte() {
    let scratch = changed("");
    for output in ["text", "json", "mermaid"] {
        let more = with(&["--available", "1s..90s", "--apply", "5ms..400ms", "--approve-after", "1m", "-o", output]);
        let first = simulate(&scratch, &more);
        assert_eq!(first.text(0), simulate(&scratch, &more).text(0), "{output}");
    }
}

#[test]
fn nothing_changes() {
    let scratch = changed("");
    let found = simulate(&scratch, &["--base", "HEAD", "--head", "HEAD"]);
    insta::assert_snapshot!(found.text(0), @r#"
    ClusterResourcePlacement web  snapshot 0  does not change

    1 placement, 1 unchanged
    "#);
}

#[test]
fn a_refused_tree() {
    let scratch = staged("");
    scratch.write("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n");
    let found = simulate(&scratch, &["-o", "json"]).json(2);
    assert_eq!(found["errors"][0]["path"], "bad.yaml", "{found:#}");
    assert!(simulate(&scratch, &[]).text(2).contains("✗ the tree is refused, it has 1 error:"));
}

#[test]
fn wrong_usage_says_what_is_right() {
    let scratch = changed("");
    let rows: [(&[&str], &str); 10] = [
        (&["--apply", "5"], "write a number with a unit, such as 90s"),
        (&["--available", "5m..1m"], "the first is longer than the second"),
        (&["--until", "99999h"], "more than a year"),
        (&["--approve", "staging"], "write STAGE@TIME or RUN/STAGE@TIME"),
        (&["--approve", "/staging@1h"], "write STAGE@TIME or RUN/STAGE@TIME"),
        (&["--offline", "west=1h"], "write FROM..UNTIL"),
        (&["--offline", "west=2h..1h"], "it ends before it begins"),
        (&["--offline", "nosuch"], "--offline nosuch: the tree has no such cluster; it has canary-1"),
        (&["--fail", "west=Deployment/none"], "no such placement, and no such object as Kind/NAME"),
        (&["--placement", "none"], "--placement none: the tree has no such placement; it has web"),
    ];
    for (more, expected) in rows {
        let found = simulate(&scratch, more);
        assert_eq!(found.code, 64, "{more:?}: {}{}", found.out, found.err);
        assert!(found.err.contains(expected), "{more:?}: {}", found.err);
    }
}

#[test]
fn the_mission_s_example_waits_where_it_says() {
    let scratch = Scratch::new();
    scratch.write("staged-update.yaml", &crate::cli::scratch::fixture("examples/staged-update.yaml"));
    scratch.write("ns.yaml", &namespace("test-namespace", &[]));
    let clusters =
        [("c1", "staging", "1"), ("c2", "canary", "1"), ("c3", "production", "1"), ("c4", "production", "2")];
    let text = clusters.map(|(name, environment, order)| {
        of_environment(name, environment)
            .replace("{environment", &format!("{{name: \"{order}\", order: \"{order}\", environment"))
    });
    scratch.write("clusters.yaml", &text.concat());
    let waits = simulate(&scratch, &["-o", "json"]).json(3);
    let stages = &waits["placements"][0]["runs"][0]["stages"];
    assert_eq!(stages[0]["gates"][0]["waited"], 3600, "{stages:#}");
    assert_eq!(stages[1]["gates"][0]["openedAt"], Value::Null);
    let done = simulate(&scratch, &["-o", "json", "--approve", "example-staged-update-run/canary@2h"]).json(0);
    assert_eq!(done["placements"][0]["runs"][0]["stages"][2]["startedAt"], 7200);
}

/// Three clusters of a rolling update, a Deployment that changes with each of three commits.
fn rolling() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("clusters.yaml", &["a", "b", "c"].map(|name| of_environment(name, "prod")).concat());
    let more = "  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}}\n";
    scratch.write("placement.yaml", &placement("web", "web", more));
    for image in ["1", "2", "3"] {
        let deployment = format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: web}}\nspec: {{replicas: 1, selector: \
             {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: w, image: \
             'w:{image}'}}]}}}}}}\n"
        );
        scratch.write("web.yaml", &[namespace("web", &[]), deployment].concat());
        scratch.commit(image);
    }
    scratch
}

#[test]
fn w02_a_fix_that_is_pushed_later_reaches_the_broken_cluster_first() {
    let scratch = rolling();
    let first = ["--base", "HEAD~2", "--head", "HEAD~1", "--never-available", "a", "-o", "json"];
    let broken = simulate(&scratch, &first).json(1);
    assert_eq!(broken["placements"][0]["outcome"], "Halted", "{broken}");
    let found = simulate(&scratch, &[&first[..], &["--then", "HEAD@5m"]].concat()).json(0);
    assert_eq!(found["placements"][0]["outcome"], "Done", "{found}");
    let events = found["events"].as_array().expect("events");
    let pushes: Vec<_> = events.iter().filter(|event| event["event"] == "Pushed").map(|event| &event["at"]).collect();
    assert_eq!(pushes, [&json!(0), &json!(300)]);
    let begun = |event: &&Value| event["event"] == "ClusterBegan";
    let begun: Vec<_> =
        events.iter().filter(begun).map(|event| (event["cluster"].clone(), event["at"].clone())).collect();
    assert_eq!(begun[..2], [(json!("a"), json!(0)), (json!("a"), json!(300))], "{begun:?}");
    let text = simulate(&scratch, &[&first[..6], &["--then", "HEAD@5m"]].concat());
    let text = text.text(0);
    let said = |line: &str| line.contains("T+00:05:00") && line.contains("commit ") && line.ends_with(" is pushed");
    assert!(text.lines().any(said), "{text}");
    let chart = simulate(&scratch, &[&first[..6], &["--then", "HEAD@5m", "-o", "mermaid"]].concat());
    let chart = chart.text(0);
    assert!(chart.contains("section Pushes\n    commit "), "{chart}");
}

#[test]
fn w02_later_pushes_have_times_of_their_own() {
    let scratch = rolling();
    let base = ["--base", "HEAD~2", "--head", "HEAD~1"];
    let rows: [(&[&str], i32, &str); 7] = [
        (&["--then", "HEAD"], 64, "\"HEAD\": write REV@TIME, such as HEAD@10m"),
        (&["--then", "HEAD@soon"], 64, "\"soon\" is no time; write a number with a unit"),
        (&["--then", "HEAD@0s"], 64, "HEAD@0s: it comes after the first push; write a time above 0s"),
        (
            &["--then", "HEAD@5m", "--then", "HEAD~1@300s"],
            64,
            "--then HEAD@5m and --then HEAD~1@5m: give each a time of its own",
        ),
        (&["--then", "HEAD@25h"], 64, "--then HEAD@1d1h: the simulation ends before, at --until 1d"),
        (&["--then", "nope@5m"], 2, "nope"),
        (&["--then", "HEAD~1@5m"], 0, ""),
    ];
    for (more, code, words) in rows {
        let found = simulate(&scratch, &[&base[..], more].concat());
        assert_eq!(found.code, code, "{more:?}: {}", found.err);
        assert!(found.err.contains(words), "{more:?}: {}", found.err);
    }
    let alone = simulate(&scratch, &["--then", "HEAD@5m"]);
    assert!(alone.code == 64 && alone.err.contains("--head <REV>"), "{}", alone.err);
    scratch.write("web.yaml", "a: [\n");
    scratch.commit("bad");
    let refused = simulate(&scratch, &["--base", "HEAD~3", "--head", "HEAD~2", "--then", "HEAD@5m"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("--then HEAD has 1 error, so it cannot be accepted; name a good commit"),
        "{}",
        refused.err
    );
}

#[test]
fn m14_a_cluster_that_holds_it_does_not_begin_again() {
    let scratch = Scratch::new();
    let clusters = ["c0", "c1", "c2", "c3"].map(|name| of_environment(name, "e")).concat();
    let deployment =
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: web}\nspec: {replicas: 1}\n";
    scratch.write("clusters.yaml", &clusters);
    scratch.write("web.yaml", &[namespace("web", &[("a", "1")]), deployment.to_owned()].concat());
    let named = |names: &str| {
        placement("web", "web", &format!("  policy: {{placementType: PickFixed, clusterNames: {names}}}\n"))
    };
    scratch.write("placement.yaml", &named("[c0, c1, c2]"));
    scratch.commit("first");
    scratch.write("placement.yaml", &named("[c0, c1, c2, c3]"));
    scratch.commit("second");
    let found = scratch.run(&["simulate", FLEET, "--base", "HEAD~1"]);
    insta::assert_snapshot!(found.text(0), @"
    ClusterResourcePlacement web  snapshot 0
      T+00:00:00  c3 begins
      T+00:00:10  c3 is available
      outcome       done after 10.4s
      longest wait  10.4s for c3 to be done, from T+00:00:00
      unavailable   at most 1 cluster at once

    1 placement, 1 done
    ");
}
