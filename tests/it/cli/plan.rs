//! `gitfleet plan`: the JSON that scripts read, the summary for people, the exit codes.

use serde_json::{Value, json};

use crate::cli::fleet_tree::fleet;
use crate::cli::scratch::{
    CONFIG, FLEET, Outcome, Scratch, annotated_placement, cluster, fixture, namespace, placement,
};

fn plan(scratch: &Scratch, more: &[&str]) -> Outcome {
    scratch.run(&[&["plan", "--repo", FLEET], more].concat())
}

fn small() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("settings", "1")]));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch
}

/// The tree of a reviewer: the score of cluster2 ended in 2020.
const SCORES: &str = "---
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: AddOnPlacementScore
metadata: {name: default, namespace: cluster1}
status: {scores: [{name: cpuratio, value: 30}]}
---
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: AddOnPlacementScore
metadata: {name: default, namespace: cluster2}
status: {validUntil: \"2020-01-01T00:00:00Z\", scores: [{name: cpuratio, value: 90}]}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: set}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: set, namespace: ns1}
spec: {clusterSet: set}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: one, namespace: ns1}
spec:
  numberOfClusters: 1
  prioritizerPolicy:
    mode: Exact
    configurations:
    - scoreCoordinate: {type: AddOn, addOn: {resourceName: default, scoreName: cpuratio}}
";

#[test]
fn w6_plan_explain_and_schedule_judge_scores_at_the_same_instant() {
    let managed = |name: &str| {
        format!(
            "---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{name: {name}, labels: \
             {{cluster.open-cluster-management.io/clusterset: set}}}}\nspec: {{hubAcceptsClient: true}}\nstatus: {{conditions: \
             [{{type: ManagedClusterConditionAvailable, status: \"True\", reason: x, message: x, lastTransitionTime: \
             \"2026-01-01T00:00:00Z\"}}]}}\n"
        )
    };
    let scratch = Scratch::new();
    scratch.write("all.yaml", &[managed("cluster1"), managed("cluster2"), SCORES.to_owned()].concat());
    for (now, picked) in [(vec![], "cluster1"), (vec!["--now", "2019-06-01T00:00:00Z"], "cluster2")] {
        let json = plan(&scratch, &[&["-o", "json"], now.as_slice()].concat()).json(0);
        assert_eq!(json["ocmPlacements"][0]["groups"][0]["clusters"], json!([picked]), "{json:#}");
        let explain = ["explain", "ns1/one", "--repo", FLEET, "-o", "json"];
        let json = scratch.run(&[&explain, now.as_slice()].concat()).json(0);
        let first = &json["clusters"][0];
        assert_eq!((&first["clusterName"], &first["picked"]), (&json!(picked), &json!(true)), "{json:#}");
        let json = scratch.run(&[&["schedule", "-f", FLEET, "-o", "json"], now.as_slice()].concat()).json(0);
        let items = json["items"].as_array().expect("a list");
        let decided = items.iter().find(|item| item["kind"] == "PlacementDecision").expect("decisions");
        assert_eq!(decided["status"]["decisions"][0]["clusterName"], json!(picked));
    }
}

#[test]
fn ux1a_4_a_plan_prints_no_log_of_its_simulated_daemon() {
    let scratch = small();
    scratch.commit("first");
    let strategy = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: s}\n\
                    spec: {stages: [{name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}\n";
    let staged = "{gitfleet.io/staged-update-strategy: s}";
    let placed = annotated_placement("web", staged, "web", "  strategy: {type: External}\n");
    scratch.write("placement.yaml", &[placed, strategy.to_owned()].concat());
    scratch.write("web.yaml", &namespace("web", &[("settings", "2")]));
    scratch.commit("second");
    for format in ["table", "json", "yaml", "markdown"] {
        let found = plan(&scratch, &["--base", "HEAD~1", "-o", format]);
        assert!(found.text(0).contains("web"), "{}", found.out);
        assert_eq!(found.err, "", "{format}");
    }
}

#[test]
fn the_contract_field_by_field() {
    let scratch = small();
    let plan = plan(&scratch, &["-o", "json"]).json(0);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "web"},
        "data": {"key": "1"}});
    let work = |cluster: &str| json!({"clusterName": cluster, "manifests": [namespace, settings]});
    let rows = [
        ("/commit", Value::Null),
        ("/errors", json!([])),
        ("/placements/0/name", json!("web")),
        ("/placements/0/kind", json!("ClusterResourcePlacement")),
        ("/placements/0/snapshot/index", json!("0")),
        (
            "/placements/0/snapshot/resources",
            json!([
                {"group": "", "version": "v1", "kind": "Namespace", "namespace": "", "name": "web"},
                {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "web", "name": "settings"},
            ]),
        ),
        ("/placements/0/decisions/0/clusterName", json!("east")),
        ("/placements/0/decisions/0/selected", json!(true)),
        ("/placements/0/rollout", json!({"type": "RollingUpdate", "stages": []})),
        ("/placements/0/works", json!([work("east"), work("west")])),
        ("/placements/0/deletions", json!([])),
    ];
    for (pointer, expected) in rows {
        assert_eq!(plan.pointer(pointer), Some(&expected), "{pointer}");
    }
    let placement = plan["placements"][0].as_object().expect("a map");
    for absent in ["namespace", "error", "changes", "deletionGuard"] {
        assert!(!placement.contains_key(absent), "{absent}");
    }
    assert_eq!(plan["placements"][0]["snapshot"]["hash"].as_str().map(str::len), Some(64));
    assert!(plan["placements"][0]["decisions"][0]["reason"].is_string());
}

#[test]
fn twice_the_same_is_the_same_byte_for_byte() {
    let scratch = Scratch::new();
    fleet(&scratch.path(FLEET), 60, 6, 5);
    let first = plan(&scratch, &["-o", "json"]);
    assert_eq!(first.json(0)["placements"].as_array().map(Vec::len), Some(6));
    assert_eq!(first.out, plan(&scratch, &["-o", "json"]).out);
    let yaml = plan(&scratch, &["-o", "yaml"]);
    assert!(yaml.text(0).contains("placements:\n"), "{}", yaml.out);
}

#[test]
fn the_rolling_update_example() {
    let scratch = Scratch::new();
    scratch.write("crp.yaml", &fixture("examples/crp-rolling-update.yaml"));
    scratch.write("ns.yaml", &namespace("test-namespace", &[]));
    for (name, location) in [("c1", "westus"), ("c2", "westus"), ("c3", "eastus")] {
        let text = cluster(name, "x").replace("region: \"x\"", &format!("fleet.azure.com/location: {location}"));
        scratch.write(&format!("{name}.yaml"), &text);
    }
    let plan = plan(&scratch, &["-o", "json"]).json(0);
    let picked: Vec<_> = plan["placements"][0]["decisions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|d| d["selected"] == true)
        .map(|d| d["clusterName"].clone())
        .collect();
    // Equal scores: the later name comes first.
    assert_eq!(picked, ["c2", "c1"], "{plan}");
    assert_eq!(plan["placements"][0]["decisions"][0]["clusterScore"], json!({"affinityScore": 0, "priorityScore": 0}));
    assert_eq!(plan["placements"][0]["works"].as_array().map(Vec::len), Some(2));
}

#[test]
fn manifests_come_in_apply_order_and_kinds_of_placement_differ() {
    let scratch = Scratch::new();
    let objects = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: web}\nspec: {}\n---\n\
                   apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a, namespace: web}\n---\n\
                   apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: web}\n";
    let of_namespace = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\nmetadata: {name: r, \
                        namespace: db}\nspec:\n  resourceSelectors: [{group: \"\", version: v1, kind: ConfigMap, name: m}]\n";
    let tree = [
        cluster("east", "e"),
        namespace("web", &[("c", "1")]),
        objects.to_owned(),
        placement("p", "web", ""),
        namespace("db", &[("m", "1")]),
        of_namespace.to_owned(),
    ];
    scratch.write("all.yaml", &tree.concat());
    let plan = plan(&scratch, &["-o", "json"]).json(0);
    let manifests = plan["placements"][0]["works"][0]["manifests"].as_array().expect("a list");
    let kinds: Vec<_> = manifests.iter().map(|m| m["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["Namespace", "ServiceAccount", "ConfigMap", "Deployment", "Widget"]);
    let second = &plan["placements"][1];
    assert_eq!((&second["kind"], &second["namespace"]), (&json!("ResourcePlacement"), &json!("db")));
}

#[test]
fn from_one_commit_to_the_next() {
    let scratch = small();
    let first = scratch.commit("first");
    scratch.write("web.yaml", &namespace("web", &[("settings", "2"), ("more", "1")]));
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("north", "n"), cluster("west", "w")].concat());
    let second = scratch.commit("second");
    // What is on disk plays no part.
    scratch.write("web.yaml", "nonsense");

    let found = plan(&scratch, &["--base", "HEAD~1", "-o", "json"]);
    let found = found.json(0);
    assert_eq!(found["commit"], json!(second));
    let placement = &found["placements"][0];
    assert_eq!(placement["snapshot"]["index"], "1");
    let resource =
        |name: &str| json!({"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "web", "name": name});
    let changes = json!({
        "resources": {"added": [resource("more")], "changed": [resource("settings")], "removed": []},
        "clusters": {"gained": ["north"], "lost": []},
    });
    assert_eq!(placement["changes"], changes);

    let rows: &[(&[&str], i32)] = &[
        (&["--base", "HEAD~1"], 0),
        (&["--base", "HEAD~1", "--exit-code"], 1),
        (&["--base", "HEAD", "--exit-code"], 0),
        (&["--head", "HEAD"], 0),
        (&["--base", &second, "--head", &first, "--exit-code"], 1),
        (&["--head", "nowhere"], 2),
        (&["--base", "nowhere"], 2),
    ];
    for (args, code) in rows {
        let found = plan(&scratch, args);
        assert_eq!(found.code, *code, "{args:?}: {}{}", found.out, found.err);
        assert_eq!(found.err.is_empty(), *code != 2, "{args:?}: {}", found.err);
    }
    let quiet = plan(&scratch, &["--base", "HEAD"]);
    assert_eq!(quiet.text(0), "1 placement does not change\n\nPlan: nothing changes\n");
    let unchanged = plan(&scratch, &["--base", "HEAD", "-o", "json"]).json(0);
    assert_eq!(unchanged["placements"][0]["snapshot"]["index"], "0");
}

#[test]
fn the_folder_s_place_in_the_repository_is_the_subtree() {
    let scratch = Scratch::new();
    scratch.write("broken.yaml", "kind: [");
    scratch.write("prod/all.yaml", &[cluster("east", "e"), namespace("web", &[]), placement("p", "web", "")].concat());
    let commit = scratch.commit("all");
    let found = scratch.run(&["plan", "--repo", "fleet/prod", "--head", "main", "-o", "json"]).json(0);
    assert_eq!((&found["commit"], &found["placements"][0]["name"]), (&json!(commit), &json!("p")));
}

#[test]
fn what_goes_and_who_must_approve_it() {
    let scratch = Scratch::new();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.commit("first");
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("e", "2")]));
    let only_east = "  policy: {placementType: PickFixed, clusterNames: [east]}\n";
    scratch.write("placement.yaml", &placement("web", "web", only_east));
    scratch.commit("second");
    let found = plan(&scratch, &["--base", "HEAD~1", "-o", "json"]).json(0);
    let placement = &found["placements"][0];
    let names = |index: usize| {
        let list = placement["deletions"][index]["resources"].as_array().expect("a list").iter();
        list.map(|r| r["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((placement["deletions"][0]["clusterName"].as_str(), names(0).join(" ")), (Some("east"), "b c d".into()));
    assert_eq!((placement["deletions"][1]["clusterName"].as_str(), names(1).len()), (Some("west"), 5));
    assert_eq!(placement["deletionGuard"], "8 objects on 2 clusters would be deleted, with Namespace web");

    insta::assert_snapshot!(plan(&scratch, &["--base", "HEAD~1"]).text(0), @r#"
    ~ ClusterResourcePlacement web
      snapshot  1, 3 objects, new
      clusters  1: east
        - 1 cluster: west
      rollout   RollingUpdate
        + 1 object: ConfigMap web/e
        - 3 objects: ConfigMap web/b, ConfigMap web/c, ConfigMap web/d
      deletes 5 objects from west
        ConfigMap web/a, ConfigMap web/b, ConfigMap web/c, ConfigMap web/d, Namespace web
      deletes 3 objects from east
        ConfigMap web/b, ConfigMap web/c, ConfigMap web/d
      ! a person must approve this first: 8 objects on 2 clusters would be deleted, with Namespace web
        once it is accepted: gitfleet approve web deletion

    - ConfigMap web/b  of web
    -apiVersion: v1
    -data:
    -  key: <masked:47d4b8cf9ab6>
    -kind: ConfigMap
    -metadata:
    -  name: b
    -  namespace: web

    - ConfigMap web/c  of web
    -apiVersion: v1
    -data:
    -  key: <masked:47d4b8cf9ab6>
    -kind: ConfigMap
    -metadata:
    -  name: c
    -  namespace: web

    - ConfigMap web/d  of web
    -apiVersion: v1
    -data:
    -  key: <masked:47d4b8cf9ab6>
    -kind: ConfigMap
    -metadata:
    -  name: d
    -  namespace: web

    + ConfigMap web/e  of web
    +apiVersion: v1
    +data:
    +  key: <masked:919269441d9e>
    +kind: ConfigMap
    +metadata:
    +  name: e
    +  namespace: web

    Plan: 1 placement changes on 2 clusters, 2 clusters lose objects, 8 deletions (need approval)
    "#);

    let off = annotated_placement("web", "{gitfleet.io/deletion-guard: \"Off\"}", "web", only_east);
    scratch.write("placement.yaml", &off);
    scratch.commit("third");
    let found = plan(&scratch, &["--base", "HEAD~2", "-o", "json"]).json(0);
    // What switches the guard off does not go past it with its own deletions.
    assert!(found["placements"][0].get("deletionGuard").is_some());
    assert_eq!(found["placements"][0]["deletions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn secrets_stay_secret() {
    let scratch = small();
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: web}\ndata: {password: aHVudGVyMg==}\n\
                  stringData: {again: hunter2, other: swordfish}\n";
    scratch.write("secret.yaml", secret);
    let hidden = plan(&scratch, &["-o", "json"]);
    let found = hidden.json(0);
    for plain in ["hunter2", "aHVudGVyMg", "swordfish"] {
        assert!(!hidden.out.contains(plain), "{plain}");
        assert!(!plan(&scratch, &["-o", "yaml"]).out.contains(plain), "{plain}");
    }
    let object = &found["placements"][0]["works"][0]["manifests"][1];
    assert_eq!(object["data"]["password"], object["stringData"]["again"]);
    assert_ne!(object["stringData"]["again"], object["stringData"]["other"]);
    let shown = plan(&scratch, &["-o", "json", "--show-secrets"]).json(0);
    let object = &shown["placements"][0]["works"][0]["manifests"][1];
    assert_eq!(object["stringData"], json!({"again": "hunter2", "other": "swordfish"}));
    assert_eq!(shown["placements"][0]["snapshot"]["hash"], found["placements"][0]["snapshot"]["hash"]);
}

#[test]
fn a_refused_tree_is_still_an_answer() {
    let scratch = small();
    scratch.write("bad.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nmae: x}\n");
    let found = plan(&scratch, &["-o", "json"]).json(1);
    assert_eq!((&found["commit"], &found["placements"]), (&Value::Null, &json!([])));
    let error = &found["errors"][0];
    assert_eq!((&error["path"], &error["line"]), (&json!("bad.yaml"), &json!(3)));
    assert!(error["message"].is_string());
    let text = plan(&scratch, &[]);
    assert!(text.text(1).starts_with("✗ the tree is refused, it has 1 error:\n    bad.yaml:3: "), "{}", text.out);
    // A commit that was never accepted cannot be compared with.
    scratch.commit("bad");
    scratch.remove("bad.yaml");
    scratch.commit("good");
    let found = plan(&scratch, &["--base", "HEAD~1"]);
    assert_eq!((found.code, found.out.as_str()), (2, ""));
    assert!(found.err.contains("--base HEAD~1 has 1 error"), "{}", found.err);
}

#[test]
fn one_placement_s_error_concerns_it_alone() {
    let scratch = small();
    scratch.write("wrong.yaml", &placement("kube", "kube-system", ""));
    scratch.write("ns.yaml", &namespace("kube-system", &[]));
    scratch
        .write("zweb.yaml", &placement("zweb", "web", "  policy: {placementType: PickFixed, clusterNames: [west]}\n"));
    let found = plan(&scratch, &["-o", "json"]).json(1);
    let kube = &found["placements"][0];
    assert!(kube["error"].as_str().is_some_and(|e| e.contains("reserved namespace kube-system")), "{kube}");
    assert_eq!((&kube["works"], &kube["decisions"], &kube["snapshot"]), (&json!([]), &json!([]), &Value::Null));
    assert!(found["placements"][1].get("error").is_none());
    let clash = found["placements"][2]["works"][0]["error"].as_str().unwrap_or_default();
    assert!(clash.contains("placed there by ClusterResourcePlacement web"), "{clash}");
    assert_eq!(found["errors"], json!([]));
}

#[test]
fn what_people_see_of_a_first_plan() {
    let scratch = small();
    insta::assert_snapshot!(plan(&scratch, &[]).text(0), @r#"
    ClusterResourcePlacement web
      snapshot  0, 2 objects
      clusters  2: east, west
      rollout   RollingUpdate
          Namespace web
          ConfigMap web/settings

    Plan: 1 placement on 2 clusters, 2 objects
    "#);
}

#[test]
fn ux1b_16_what_people_see_of_a_change() {
    let scratch = small();
    let secret = |value: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: web}}\nstringData: {{k: {value}}}\n"
        )
    };
    let api = [namespace("api", &[("settings", "1")]), placement("api", "api", "")].concat();
    scratch.write("api.yaml", &api).write("secret.yaml", &secret("planted-old"));
    scratch.write("quiet.yaml", &[namespace("quiet", &[]), placement("quiet", "quiet", "")].concat());
    scratch.commit("first");
    scratch.write("web.yaml", &namespace("web", &[("settings", "2"), ("more", "1")]));
    scratch.write("api.yaml", &api.replace("key: \"1\"", "key: \"2\""));
    scratch.write("secret.yaml", &secret("planted-new"));
    scratch.commit("second");
    let found = plan(&scratch, &["--base", "HEAD~1"]);
    let masked = regex::Regex::new("<masked:[0-9a-f]+>").unwrap();
    insta::assert_snapshot!(masked.replace_all(found.text(0), "<masked>"), @r#"
    ~ ClusterResourcePlacement api
      snapshot  1, 2 objects, new
      clusters  2: east, west
      rollout   RollingUpdate
        ~ 1 object: ConfigMap api/settings

    ~ ClusterResourcePlacement web
      snapshot  1, 4 objects, new
      clusters  2: east, west
      rollout   RollingUpdate
        + 1 object: ConfigMap web/more
        ~ 2 objects: ConfigMap web/settings, Secret web/s

    ~ ConfigMap api/settings  of api
      the same in 1 more placement: web
     apiVersion: v1
     data:
    -  key: <masked>
    +  key: <masked>
     kind: ConfigMap
     metadata:
       name: settings

    + ConfigMap web/more  of web
    +apiVersion: v1
    +data:
    +  key: <masked>
    +kind: ConfigMap
    +metadata:
    +  name: more
    +  namespace: web

    ~ Secret web/s  of web
       name: s
       namespace: web
     stringData:
    -  k: <masked>
    +  k: <masked>

    1 placement does not change

    Plan: 2 placements change on 2 clusters
    "#);
    assert!(!found.out.contains("planted"), "{}", found.out);
    let shown = plan(&scratch, &["--base", "HEAD~1", "--show-secrets"]);
    assert!(shown.text(0).contains("-  k: planted-old\n+  k: planted-new\n"), "{}", shown.out);
    let summary = plan(&scratch, &["--base", "HEAD~1", "--summary"]);
    assert!(!summary.text(0).contains("key: ") && summary.out.ends_with("Plan: 2 placements change on 2 clusters\n"));
}

#[test]
fn ux1b_25_the_folder_is_the_current_one_unless_another_is_named() {
    let scratch = small();
    scratch.write("rendered/copy.yaml", &namespace("web", &[("settings", "1")]));
    scratch.write(".gitfleetignore", "rendered/\n");
    let commands: [&[&str]; 4] = [&["validate"], &["plan"], &["simulate"], &["schedule"]];
    for command in commands {
        let here = scratch.command(command).current_dir(scratch.path(FLEET)).output().expect("the binary starts");
        let named = scratch.run(&[command, &[FLEET]].concat());
        assert_eq!(String::from_utf8_lossy(&here.stdout), named.text(0), "{command:?}: {}", named.err);
    }
    let both = scratch.run(&["schedule", FLEET, "-f", "fleet/clusters.yaml"]);
    assert_eq!(both.code, 1, "twice the same: {}", both.out);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let scratch = Scratch::new();
    for args in [&["plan", "--repo", "nowhere"][..], &["plan", "--repo", FLEET, "--head", "HEAD"]] {
        let found = scratch.run(args);
        assert_eq!((found.code, found.out.as_str()), (2, ""), "{args:?}");
        assert!(found.err.starts_with("error: "), "{}", found.err);
    }
    assert_eq!(scratch.run(&["plan", "--repo", FLEET, "-o", "wide"]).code, 64);
}

#[test]
fn the_comment_on_a_pull_request() {
    let scratch = small();
    let secret = |value: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {name}\nstringData: {{k: {value}}}\n",
            name = "{name: s, namespace: web}"
        )
    };
    scratch.write("secret.yaml", &secret("planted-old"));
    let base = scratch.commit("base");
    scratch.write("web.yaml", &namespace("web", &[("settings", "2")]));
    scratch.write("secret.yaml", &secret("planted-new"));
    let head = scratch.commit("head");
    let markdown = |more: &[&str]| plan(&scratch, &[&["-o", "markdown", "--base", base.as_str()], more].concat());
    let comment = markdown(&["--head", head.as_str()]);
    let text = comment.text(0);
    for part in [
        "### Plan: 1 placement changes, 2 clusters\n",
        &format!("Plan for `{}` on top of `{}` (the accepted commit).", &head[..7], &base[..7]),
        "\n-  key: <masked:",
        "\n+  key: <masked:",
        "<details><summary>changed Secret web/s</summary>",
        "```mermaid\ngantt",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("planted") && text.contains("<masked:"), "{text}");
    assert_eq!(text, markdown(&[]).text(0), "HEAD, and the same byte for byte");
    assert_eq!(markdown(&["--exit-code"]).code, 1);

    scratch.write("placement.yaml", &placement("web", "web", "  policies: {}\n"));
    scratch.commit("broken");
    let refused = markdown(&[]);
    let text = refused.text(1);
    assert!(text.starts_with("### Plan: refused: 1 error\n") && text.contains("- placement.yaml:"), "{text}");
    for args in [&["-o", "markdown"][..], &["-o", "markdown", "--base", "HEAD", "--show-secrets"]] {
        assert_eq!(plan(&scratch, args).code, 2);
    }
}

#[test]
fn a_configuration_names_the_repository_the_branch_and_the_accepted_commit() {
    let scratch = Scratch::new();
    scratch.configure();
    let text = std::fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    std::fs::write(scratch.path(CONFIG), text.replace("name: \"*\"", "name: \"e*\"")).expect("a file");
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    let first = scratch.commit("first");
    let json = || scratch.run(&["plan", "-c", CONFIG, "-o", "json"]).json(0);
    assert!(json()["placements"][0]["changes"].is_null(), "nothing is accepted yet");
    scratch.run(&["run", "-c", CONFIG, "--once"]);
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("b", "1")]));
    let second = scratch.commit("second");
    scratch.write("web.yaml", "not committed");
    let plan = json();
    assert_eq!(plan["commit"], second, "{plan}");
    assert_eq!(plan["placements"][0]["changes"]["resources"]["added"][0]["name"], "b", "{plan}");
    let text = scratch.run(&["plan", "-c", CONFIG]);
    assert!(text.text(0).contains("1 cluster has no entry in `members:`: west"), "{}", text.out);
    let comment = scratch.run(&["plan", "-c", CONFIG, "-o", "markdown"]);
    assert!(comment.text(0).contains('b'), "{}", comment.out);
    let same = scratch.run(&["plan", "-c", CONFIG, "--head", &first, "--exit-code"]);
    assert_eq!(same.code, 0, "{}", same.out);
    std::fs::write(
        scratch.path(CONFIG),
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: \
        'https://git.example/fleet.git'}\nmembers: []\nstore: {path: ./other}\n",
    )
    .expect("a file");
    let remote = scratch.run(&["plan", "-c", CONFIG]);
    assert_eq!(remote.code, 2, "{}", remote.out);
    assert!(remote.err.contains("is not on this machine; name a clone of it: gitfleet plan DIR"), "{}", remote.err);
}
