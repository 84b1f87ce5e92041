//! `get`, as people who know kubectl use it.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::cli::edges::{Daemon, RUN, until};
use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace, placement};

/// `web` and `shop/web` on `east` and `west`, rolled out.
fn fleet() -> Scratch {
    let scratch = Scratch::with_web();
    scratch.write("api.yaml", &namespace("api", &[("a", "1")]));
    scratch.write("api-placement.yaml", &placement("api", "api", ""));
    scratch.commit("second");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    scratch
}

fn get(scratch: &Scratch, words: &[&str]) -> String {
    scratch.run(&[&["get", "-c", CONFIG], words].concat()).text(0).to_owned()
}

/// Returns the rows of a table as words; ages and commits are not compared.
fn rows(text: &str) -> Vec<Vec<String>> {
    let is_compared = |word: &&str| !word.ends_with('s') || !word.starts_with(|c: char| c.is_ascii_digit());
    text.lines().map(|line| line.split_whitespace().filter(is_compared).map(str::to_owned).collect()).collect()
}

#[test]
fn objects_are_a_list_unless_one_name_was_given() {
    let scratch = fleet();
    for (words, kind, count) in [
        (&["placements"][..], "List", Some(2)),
        (&["evictions"], "List", Some(0)),
        (&["crp", "web"], "ClusterResourcePlacement", None),
        (&["crp/web"], "ClusterResourcePlacement", None),
        (&["crp", "web", "api"], "List", Some(2)),
        (&["crp/web", "cluster/east"], "List", Some(2)),
        (&["placements,clusters"], "List", Some(4)),
    ] {
        let found = scratch.run(&[&["get", "-c", CONFIG, "-o", "json"], words].concat()).json(0);
        assert_eq!((found["kind"].as_str(), found["items"].as_array().map(Vec::len)), (Some(kind), count), "{words:?}");
    }
    let one = scratch.run(&["get", "-c", CONFIG, "cluster/east", "-o", "json"]).json(0);
    let created = one["metadata"]["creationTimestamp"].as_str().expect("a time");
    assert_eq!(created.len(), "2026-03-01T12:00:00Z".len(), "Kubernetes has whole seconds: {created}");
}

#[test]
fn our_nouns_say_what_one_looks_for_and_kinds_what_kubectl_prints() {
    let scratch = fleet();
    let placements = get(&scratch, &["placements"]);
    assert_eq!(rows(&placements)[0], ["NAME", "STATE", "CLUSTERS", "SNAPSHOT", "COMMIT", "AGE", "REASON"]);
    assert!(
        placements.lines().any(|line| line.starts_with("web") && line.contains("up to date   2/2        0")),
        "{placements}"
    );
    let snapshots = get(&scratch, &["snapshots"]);
    assert_eq!(rows(&snapshots)[0], ["NAME", "INDEX", "COMMIT", "OBJECTS", "CLUSTERS", "STATE", "AGE", "SUBJECT"]);
    let of_web = snapshots.lines().find(|line| line.starts_with("web-0-snapshot")).expect("a snapshot");
    assert!(of_web.contains("2         2          current") && of_web.ends_with("second"), "{snapshots}");
    let clusters = get(&scratch, &["clusters"]);
    let east = rows(&clusters).into_iter().find(|row| row[0] == "east").expect("east");
    assert_eq!(east, ["east", "online", "2", "0", "region=e"], "{clusters}");
    for words in [&["crp"][..], &["placements", "--kubefleet"]] {
        assert!(get(&scratch, words).starts_with("NAME   GEN   SCHEDULED"), "{words:?}");
    }
    let none = scratch.run(&["get", "evictions", "-c", CONFIG]);
    assert_eq!((none.text(0), none.err.as_str()), ("", "No evictions found.\n"));
}

#[test]
fn names_namespaces_and_labels_choose() {
    let scratch = fleet();
    for (words, expected) in [
        (&["clusters", "-l", "region=e", "-o", "name"][..], &["membercluster.cluster.kubernetes-fleet.io/east"][..]),
        (&["clusters", "-l", "region in (w,x)"], &["NAME", "west"]),
        (&["clusters", "-l", "region!=e,region"], &["NAME", "west"]),
        (&["works", "-n", "fleet-member-east"], &["NAMESPACE", "fleet-member-east", "fleet-member-east"]),
        (&["placements", "-n", "shop"], &[]),
        (&["crp", "-n", "shop", "web"], &["NAME", "web"]),
        (&["crp", "-A", "web"], &["NAME", "web"]),
    ] {
        let found = get(&scratch, words);
        let first: Vec<&str> = found.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first, expected, "{words:?}");
    }
    let unknown = scratch.run(&["get", "placements", "webb", "-c", CONFIG]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("there is no webb among the placements; did you mean web?"), "{}", unknown.err);
    for wrong in [&["placements", "-o", "jsonpath={.a"][..], &["placements", "-l", "a b"], &["run/"], &["crp,unicorns"]]
    {
        assert_eq!(scratch.run(&[&["get", "-c", CONFIG], wrong].concat()).code, 64, "{wrong:?}");
    }
}

#[test]
fn paths_choose_what_is_printed() {
    let scratch = fleet();
    let template = r#"jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}"#;
    assert_eq!(get(&scratch, &["crp", "-o", template]), "api\nweb\n");
    assert_eq!(get(&scratch, &["crp", "web", "-o", "jsonpath={.metadata.name}"]), "web");
    let columns = "custom-columns=NAME:.metadata.name,REGION:.metadata.labels.region,NO:.spec.nothing";
    let table = get(&scratch, &["clusters", "-o", columns]);
    assert_eq!(table, "NAME   REGION   NO\neast   e        <none>\nwest   w        <none>\n");
}

#[test]
fn a_watch_prints_each_row_that_changes() {
    let scratch = Scratch::with_web();
    let daemon = Daemon::start(scratch.command(&RUN));
    let status = || scratch.run(&["get", "placements", "--server", &daemon.address]).out;
    until("web is rolled out", || status().contains("up to date   2/2"));
    let mut watch = scratch
        .command(&["get", "placements", "web", "-w", "--server", &daemon.address])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.next().is_some_and(|line| line.starts_with("NAME")));
    assert!(lines.next().is_some_and(|line| line.starts_with("web") && line.contains("2/2        0")));
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.commit("second");
    assert!(lines.any(|line| line.starts_with("web") && line.contains("2/2        1")), "the watch ended");
    watch.kill().expect("it runs");
    watch.wait().expect("it ends");
    let nothing = {
        drop(daemon);
        scratch.run(&["get", "placements", "-w", "-c", CONFIG])
    };
    assert_eq!(nothing.code, 2);
    assert!(nothing.out.contains("web") && nothing.err.contains("no daemon runs"), "{}{}", nothing.out, nothing.err);
}
