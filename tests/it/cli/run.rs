//! `gitfleet run --once` on folders, and what `get` and `status` show afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::SystemTime;

use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch, annotated_placement, cluster, namespace, placement};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];
const ALL: [&str; 5] = [
    "configmap..web.a.yaml",
    "configmap..web.b.yaml",
    "configmap..web.c.yaml",
    "deployment.apps.web.d.yaml",
    "namespace...web.yaml",
];

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("b", "1"), ("c", "1")]));
    let deployment =
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: web}\nspec: {replicas: 1}\n";
    scratch.write("deployment.yaml", deployment);
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.commit("first");
    scratch
}

fn once(scratch: &Scratch) -> Outcome {
    scratch.run(&ONCE)
}

/// Returns when every file of a member was written, the inventory's included.
fn times(scratch: &Scratch, member: &str) -> BTreeMap<String, SystemTime> {
    let entries = fs::read_dir(scratch.path("members").join(member)).expect("the member's folder");
    let time = |entry: fs::DirEntry| {
        let modified = entry.metadata().and_then(|m| m.modified()).expect("a time");
        (entry.file_name().to_string_lossy().into_owned(), modified)
    };
    entries.map(|entry| time(entry.expect("an entry"))).collect()
}

#[test]
fn a_commit_arrives_and_then_all_is_quiet() {
    let scratch = fleet();
    once(&scratch).text(0);
    assert_eq!(scratch.member("east"), ALL);
    assert_eq!(scratch.member("west"), ALL);
    let text = fs::read_to_string(scratch.path("members/east/configmap..web.a.yaml")).expect("the file");
    assert!(text.contains("key: '1'") || text.contains("key: \"1\""), "{text}");
    let before = times(&scratch, "east");
    once(&scratch).text(0);
    assert_eq!(times(&scratch, "east"), before);

    scratch.write("web.yaml", &namespace("web", &[("a", "2"), ("b", "1"), ("c", "1")]));
    scratch.commit("second");
    once(&scratch).text(0);
    let after = times(&scratch, "east");
    let written = after.iter().filter(|(name, time)| !name.starts_with('.') && before.get(*name) != Some(*time));
    assert_eq!(written.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["configmap..web.a.yaml"]);
}

#[test]
fn a_lost_store_is_rebuilt_by_looking() {
    let scratch = fleet();
    once(&scratch).text(0);
    scratch.write("web.yaml", &namespace("web", &[("a", "2"), ("b", "1"), ("c", "1")]));
    scratch.commit("second");
    once(&scratch).text(0);
    let before = times(&scratch, "east");
    fs::remove_dir_all(scratch.path("store")).expect("the store is lost");
    scratch.run(&["store", "adopt", "-c", CONFIG]).text(0);
    once(&scratch).text(0);
    assert_eq!(times(&scratch, "east"), before, "what is there is not written again");
    let snapshots = scratch.run(&["get", "snapshots", "-c", CONFIG, "-o", "name"]);
    assert!(snapshots.text(0).contains("web-1-snapshot"), "the index continues from the members': {}", snapshots.out);
}

#[test]
fn a_refused_commit_changes_nothing() {
    let scratch = fleet();
    once(&scratch).text(0);
    let before = times(&scratch, "east");
    scratch.write("web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nmae: x}\n");
    scratch.commit("bad");
    let found = once(&scratch);
    assert_eq!((found.code, found.out.as_str()), (1, ""));
    assert!(found.err.contains("web.yaml:3"), "{}", found.err);
    assert_eq!(times(&scratch, "east"), before);
    let status = scratch.run(&["status", "--exit-code", "-c", CONFIG]);
    assert!(status.text(1).contains("is refused"), "{}", status.out);
}

#[test]
fn deletions_wait_for_a_person_unless_told_otherwise() {
    let scratch = fleet();
    once(&scratch).text(0);
    // One of five may go without asking.
    scratch.write("web.yaml", &namespace("web", &[("a", "1"), ("b", "1")]));
    scratch.commit("one less");
    once(&scratch).text(0);
    assert!(!scratch.member("east").contains(&"configmap..web.c.yaml".to_owned()));
    // The rest may not.
    scratch.remove("placement.yaml");
    scratch.commit("no placement");
    let found = once(&scratch);
    assert_eq!(found.code, 3, "{}", found.err);
    assert_eq!(scratch.member("east").len(), 4);
    assert_eq!(scratch.run(&["status", "--exit-code", "-c", CONFIG]).code, 3);
    assert_eq!(scratch.run(&["status", "-c", CONFIG]).code, 0, "looking is no failure");
}

#[test]
fn without_the_guard_what_is_dropped_goes() {
    let scratch = fleet();
    once(&scratch).text(0);
    let only_east = "  policy: {placementType: PickFixed, clusterNames: [east]}\n";
    let off = |policy| annotated_placement("web", "{gitfleet.io/deletion-guard: \"Off\"}", "web", policy);
    scratch.write("placement.yaml", &off(""));
    scratch.commit("no guard");
    once(&scratch).text(0);
    scratch.write("placement.yaml", &off(only_east));
    scratch.commit("east only");
    once(&scratch).text(0);
    assert_eq!(scratch.member("west"), Vec::<String>::new());
    assert_eq!(scratch.member("east"), ALL);
}

#[test]
fn a_cluster_that_leaves_keeps_what_it_has() {
    let scratch = fleet();
    once(&scratch).text(0);
    scratch.write("clusters.yaml", &cluster("east", "e"));
    scratch.commit("west leaves");
    once(&scratch).text(0);
    assert_eq!(scratch.member("west"), ALL);
}

#[test]
fn a_fleet_that_leaves_at_once_waits_for_a_person() {
    let scratch = fleet();
    once(&scratch).text(0);
    scratch.write("clusters.yaml", &cluster("north", "n"));
    scratch.commit("the fleet's file was overwritten");
    let plan = scratch.run(&["plan", "--repo", FLEET, "--base", "HEAD~1", "--head", "HEAD"]);
    assert!(plan.out.contains("2 of the 2 clusters of the fleet left it in one commit"), "{}", plan.out);
    let found = once(&scratch);
    assert_eq!(found.code, 3, "{}", found.err);
    assert_eq!((scratch.member("west").len(), scratch.member("north").len()), (ALL.len(), 0));
    let status = scratch.run(&["status", "--all", "--exit-code", "-c", CONFIG]);
    assert!(status.text(3).contains("clusters that left wait for a person"), "{}", status.out);
    assert!(status.out.contains("east, west: what they hold stays there"), "{}", status.out);
    let gate = scratch.run(&["get", "approvals", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(gate["items"][0]["spec"]["leaving"], serde_json::json!(["east", "west"]), "{gate}");
    scratch.run(&["approve", "web", "deletion", "-c", CONFIG]).text(0);
    once(&scratch).text(0);
    assert_eq!(scratch.member("west"), ALL, "what they hold stays there");
    assert_eq!(scratch.member("north"), ALL);
}

#[test]
fn records_can_be_read_without_a_daemon() {
    let scratch = fleet();
    once(&scratch).text(0);
    let get = |kind: &str, format: &str| scratch.run(&["get", kind, "-c", CONFIG, "-o", format]);
    for (kind, headers, rows) in [
        ("placements", "NAME", 1),
        ("snapshots", "NAME", 1),
        ("policies", "NAME", 1),
        ("bindings", "NAME", 2),
        ("works", "NAME", 2),
        ("clusters", "NAME", 2),
    ] {
        let table = get(kind, "table");
        assert!(table.text(0).starts_with(headers), "{kind}: {}", table.out);
        assert_eq!(table.out.lines().count(), rows + 1, "{kind}: {}", table.out);
        get(kind, "wide").text(0);
        assert_eq!(get(kind, "name").text(0).lines().count(), rows, "{kind}");
        let json = get(kind, "json").json(0);
        assert_eq!(
            (&json["kind"], json["items"].as_array().map(Vec::len)),
            (&"List".into(), Some(rows)),
            "{kind}: {json}"
        );
        get(kind, "yaml").text(0);
    }
    let web = "clusterresourceplacement.placement.kubernetes-fleet.io/web\n";
    for kind in ["crp", "clusterResourcePlacement", "clusterresourceplacements.placement.kubernetes-fleet.io"] {
        assert_eq!(get(kind, "name").text(0), web, "{kind}");
    }
    assert_eq!(get("rp", "name").text(0), "", "it is of the other kind");
    let unknown = get("clusterresourceplacemets", "name");
    assert_eq!(unknown.code, 64, "{}", unknown.err);
    assert!(unknown.err.contains("did you mean clusterresourceplacements?"), "{}", unknown.err);
    let one = scratch.run(&["get", "placements", "web", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(one["status"]["observedResourceIndex"], "0");
    assert_eq!(scratch.run(&["get", "placements", "nothing", "-c", CONFIG]).code, 2);
    let status = scratch.run(&["status", "--all", "--exit-code", "-c", CONFIG]);
    for word in ["web", "east", "west"] {
        assert!(status.text(0).contains(word), "{}", status.out);
    }
    assert!(!status.out.contains('\x1b'), "{}", status.out);
}

#[test]
fn one_store_one_process() {
    let scratch = fleet();
    let mut first = scratch.command(&["run", "-c", CONFIG]).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut log = BufReader::new(first.stderr.take().expect("it is piped"));
    let mut seen = String::new();
    while !seen.contains("commit accepted") {
        assert_ne!(log.read_line(&mut seen).expect("text"), 0, "the daemon ended: {seen}");
    }
    let second = once(&scratch);
    // The first is ended before anything can fail, so that nothing is left behind.
    first.kill().expect("it still runs");
    first.wait().expect("it ends");
    drop(log.read_to_string(&mut seen));
    assert_eq!((second.code, second.out.as_str()), (2, ""), "{}", second.err);
    assert!(second.err.contains("store") && second.err.contains("in use by process"), "{}", second.err);
    once(&scratch).text(0);
}

#[test]
fn m11_a_list_without_names_scales_to_none() {
    let scratch = fleet();
    once(&scratch).text(0);
    let named = |names: &str| {
        placement("web", "web", &format!("  policy: {{placementType: PickFixed, clusterNames: {names}}}\n"))
    };
    scratch.write("placement.yaml", &named("[]"));
    scratch.commit("none");
    assert_eq!(scratch.run(&["validate", FLEET]).code, 0);
    let plan = scratch.run(&["plan", "--repo", FLEET, "--base", "HEAD~1"]);
    assert!(
        plan.text(0).contains("  clusters  none\n") && plan.out.contains("a person must approve this first"),
        "{}",
        plan.out
    );
    let found = once(&scratch);
    assert_eq!(found.code, 3, "the guard asks: {}", found.err);
    assert_eq!(scratch.member("east"), ALL);
    scratch.run(&["approve", "web", "deletion", "--yes", "-c", CONFIG]).text(0);
    once(&scratch).text(0);
    assert_eq!((scratch.member("east").len(), scratch.member("west").len()), (0, 0));
    let status = scratch.run(&["status", "web", "--exit-code", "-c", CONFIG]);
    assert!(status.text(0).contains("0 of 0 clusters up to date"), "{}", status.out);
    scratch.write("placement.yaml", &named("[west]"));
    scratch.commit("one");
    once(&scratch).text(0);
    assert_eq!((scratch.member("east").len(), scratch.member("west")), (0, ALL.map(str::to_owned).to_vec()));
}

#[test]
fn n11_what_was_not_seen_in_this_life_is_not_called_available() {
    let scratch = fleet();
    once(&scratch).text(0);
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let text = text.replace("directory: \"./members/{name}\"", "kubeconfig: {path: ./kubeconfig, context: \"{name}\"}");
    fs::write(scratch.path(CONFIG), text).expect("a file");
    let kubeconfig = "apiVersion: v1\nkind: Config\ncontexts: [{name: east, context: {cluster: c, user: u}}, {name: west, context: \
                      {cluster: c, user: u}}]\n\
                      clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n";
    fs::write(scratch.path("kubeconfig"), kubeconfig).expect("a file");
    let found = once(&scratch);
    assert_eq!(found.code, 1, "{}", found.err);
    assert!(!found.err.contains("available"), "{}", found.err);
    assert!(found.err.contains("waits for clusters: not seen since gitfleet started: east ("), "{}", found.err);
    let status = scratch.run(&["status", "web", "-c", CONFIG]);
    assert!(!status.text(0).contains("available for"), "{}", status.out);
}
