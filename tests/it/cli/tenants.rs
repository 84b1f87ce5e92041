//! Tenants: a commit that asks for more than its folder may is refused whole, and a placement stays on the clusters of its tenant.

use std::fs;

use crate::cli::scratch::{CONFIG, Outcome, Scratch, annotated_placement, cluster, namespace, placement};

/// Two clusters, a platform's Namespace, and a tenant `web` in the folder `teams/web`, which may use the clusters of region `e`.
fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    let tenants = "tenants:\n- {name: web, path: teams/web, namespaces: [web], clusters: {matchLabels: {region: e}}}\n";
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration") + tenants;
    fs::write(scratch.path(CONFIG), text).expect("a file");
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("platform/web.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n");
    scratch.write("teams/web/app.yaml", &config_map("web", "a", "1"));
    scratch.write("teams/web/placement.yaml", &placement("web", "web", ""));
    scratch.commit("first");
    scratch
}

fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{key: '{value}'}}\n---\n"
    )
}

fn once(scratch: &Scratch) -> Outcome {
    scratch.run(&["run", "-c", CONFIG, "--once"])
}

#[test]
fn a_placement_of_a_tenant_goes_to_its_clusters_only() {
    let scratch = fleet();
    let planned = scratch.run(&["plan", "-c", CONFIG, "-o", "json"]).json(0);
    let clusters = planned["placements"][0]["decisions"].as_array().cloned().unwrap_or_default();
    let picked: Vec<_> = clusters.iter().filter(|it| it["selected"] == true).map(|it| &it["clusterName"]).collect();
    assert_eq!(picked, ["east"], "{planned:#}");
    once(&scratch).text(0);
    assert_eq!(scratch.member("east"), ["configmap..web.a.yaml", "namespace...web.yaml"]);
    assert!(scratch.member("west").is_empty(), "{:?}", scratch.member("west"));
    let explained = scratch.run(&["explain", "web", "-c", CONFIG]);
    assert!(explained.text(0).contains("one of tenant web"), "{}", explained.out);
}

#[test]
fn a_commit_beyond_the_limits_of_a_folder_is_refused_whole() {
    let scratch = fleet();
    once(&scratch).text(0);
    scratch.write("platform/other.yaml", &namespace("other", &[("b", "1")]));
    scratch.write("teams/web/app.yaml", &[config_map("web", "a", "2"), config_map("other", "mine", "1")].concat());
    scratch.commit("second");
    let planned = scratch.run(&["plan", "-c", CONFIG]);
    let complaint = "teams/web/app.yaml:6: ConfigMap other/mine: tenant web: it is in the namespace other, and its namespaces are web";
    let validated = scratch.run(&["validate", "-c", CONFIG]);
    assert!(validated.text(1).contains(complaint), "{}{}", validated.out, validated.err);
    assert!(scratch.run(&["validate", "fleet"]).code == 0, "without a configuration there are no limits");
    assert_eq!(planned.code, 1, "{}{}", planned.out, planned.err);
    assert!(planned.out.contains(complaint), "{}{}", planned.out, planned.err);
    let refused = once(&scratch);
    assert_ne!(refused.code, 0, "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("tenant web: it is in the namespace other"), "{}{}", refused.out, refused.err);
    let held = fs::read_to_string(scratch.path("members/east/configmap..web.a.yaml")).expect("the object");
    assert!(held.contains("key: \"1\""), "the last good commit stays: {held}");
}

/// A narrower configuration removes nothing and delivers nothing new.
#[test]
fn what_was_accepted_before_the_limits_stays() {
    let scratch = fleet();
    once(&scratch).text(0);
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    fs::write(scratch.path(CONFIG), text.replace("namespaces: [web]", "namespaces: [elsewhere]")).expect("a file");
    let narrowed = once(&scratch);
    let said = scratch.run(&["status", "-c", CONFIG]);
    assert!(said.out.contains("tenant web: "), "{}{}{}", narrowed.err, said.out, said.err);
    assert_eq!(scratch.member("east"), ["configmap..web.a.yaml", "namespace...web.yaml"]);
}

fn value(scratch: &Scratch, file: &str) -> String {
    let text = fs::read_to_string(scratch.path("members/east").join(file)).unwrap_or_default();
    text.lines().find_map(|line| line.trim().strip_prefix("key: ")).unwrap_or_default().to_owned()
}

/// A tenant `web` that has a quota of its own under the name of the platform's, which it delivers with the Namespace. Its placement comes
/// first by name.
fn greedy() -> Scratch {
    let scratch = fleet();
    scratch.remove("teams/web/placement.yaml");
    scratch.write("platform/guard/q.yaml", &config_map("web", "quota", "platform"));
    scratch.write("teams/web/q.yaml", &config_map("web", "quota", "tenant"));
    let of = |name: &str, path: &str| annotated_placement(name, &format!("{{gitfleet.io/path: {path}}}"), "web", "");
    scratch.write("guardrails.yaml", &of("guardrails", "platform/guard"));
    scratch.write("teams/web/aaa.yaml", &of("aaa", "teams/web"));
    scratch
}

#[test]
fn n06_the_platform_has_its_objects_and_a_tenant_that_wants_them_fails_alone() {
    let scratch = greedy();
    let guardrails = fs::read_to_string(scratch.path("fleet/guardrails.yaml")).expect("a file");
    // The tenant is first on the cluster.
    scratch.remove("guardrails.yaml");
    scratch.commit("second");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert_eq!(value(&scratch, "configmap..web.quota.yaml"), "tenant");
    scratch.write("guardrails.yaml", &guardrails);
    scratch.commit("third");
    for start in 0..5 {
        let once = once(&scratch);
        assert_eq!(once.code, 1, "{}{}", once.out, once.err);
        assert!(!once.err.contains("pruned"), "{}", once.err);
        assert_eq!(value(&scratch, "configmap..web.quota.yaml"), "platform", "start {start}");
        let placements = scratch.run(&["get", "placements", "-c", CONFIG, "-o", "json"]).json(0);
        let failed = |name: &str| {
            let all = placements["items"].as_array().cloned().unwrap_or_default();
            let found = all.into_iter().find(|one| one["metadata"]["name"] == name).unwrap_or_default();
            found.to_string().contains("FailedToTakeOver")
        };
        assert_eq!((failed("aaa"), failed("guardrails")), (true, false), "start {start}: {placements:#}");
    }
    let status = scratch.run(&["status", "-c", CONFIG, "--all"]);
    let said = "is delivered by placement guardrails, which is no tenant's: a tenant's placement never takes it";
    assert!(status.out.contains(said), "{}", status.out);
    // On a new cluster both come at once.
    fs::remove_dir_all(scratch.path("members/east")).expect("a folder");
    for _ in 0..2 {
        once(&scratch);
        assert_eq!(value(&scratch, "configmap..web.quota.yaml"), "platform");
    }
}

#[test]
fn bootstrap_prints_the_right_to_impersonate() {
    let scratch = fleet();
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let account = "impersonate: {serviceAccount: {namespace: web, name: deployer}}, namespaces: [web]";
    fs::write(scratch.path(CONFIG), text.replace("namespaces: [web]", account)).expect("a file");
    let printed = scratch.run(&["member", "bootstrap", "east", "-c", CONFIG]);
    let documents = model::yaml::parse_documents(printed.text(0));
    let roles = documents.into_iter().map(|document| document.expect("good YAML").value);
    let roles = roles.filter(|role| role["kind"] == "Role" && role["metadata"]["namespace"] == "web");
    let granted: Vec<_> = roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect();
    let wanted = serde_json::json!({
        "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"], "resourceNames": ["deployer"],
    });
    assert!(granted.contains(&wanted), "{granted:?}");
}

/// Nothing would ever be delivered there, so nothing may wait for it.
#[test]
fn m14_a_cluster_that_a_tenant_lost_at_a_gate_ends_its_wait() {
    let scratch = fleet();
    let strategy = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: \
                    {name: s}\nspec:\n  stages:\n  - {name: all, labelSelector: {}, beforeStageTasks: [{type: Approval}]}\n";
    let staged =
        annotated_placement("web", "{gitfleet.io/staged-update-strategy: s}", "web", "  strategy: {type: External}\n");
    scratch.write("platform/s.yaml", strategy).write("teams/web/placement.yaml", &staged);
    scratch.commit("staged");
    let approve = || scratch.run(&["approve", "web", "all", "--yes", "-c", CONFIG]).code;
    assert_eq!((once(&scratch).code, approve(), once(&scratch).code), (3, 0, 0));
    scratch.write("teams/web/app.yaml", &config_map("web", "a", "2"));
    scratch.commit("second");
    assert_eq!(once(&scratch).code, 3);
    scratch.write("clusters.yaml", &[cluster("east", "x"), cluster("west", "w")].concat());
    scratch.commit("east is none of theirs");
    assert_eq!((once(&scratch).code, approve(), once(&scratch).code), (1, 0, 1));
    let status = scratch.run(&["status", "web", "-c", CONFIG]);
    assert!(
        status.text(0).contains("✗ east  snapshot 1  tenant web: east is none of its clusters; it keeps what it has\n"),
        "{}",
        status.out
    );
    // Once it may, it gets it.
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.commit("it is again");
    once(&scratch).text(0);
    let held = fs::read_to_string(scratch.path("members/east/configmap..web.a.yaml")).expect("the object");
    assert!(held.contains("key: \"2\"") || held.contains("key: '2'"), "{held}");
}
