//! Several repositories as one tree.

use std::fs;

use crate::cli::git;
use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace, placement};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];
const SOURCES: &str =
    "sources: [{name: platform, url: ./fleet, branch: main}, {name: shop, url: ./shop, branch: main, path: deploy}]";

/// Writes files of the repository `shop`, and commits them.
fn shop(scratch: &Scratch, files: &[(&str, &str)]) {
    let repo = scratch.path("shop");
    for (path, text) in files {
        let path = repo.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    git::commit_all(&repo, "change").expect("git commits");
}

/// Says which sources there are, and what else.
fn configure(scratch: &Scratch, sources: &str, more: &str) {
    scratch.configure();
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let text = text.replace("source: {url: ./fleet, branch: main}", sources);
    fs::write(scratch.path(CONFIG), text + more).expect("a file");
}

/// The clusters and the placement of `shop` in one repository, its objects in another.
fn two() -> Scratch {
    let scratch = Scratch::new();
    configure(&scratch, SOURCES, "");
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("placement.yaml", &placement("shop", "shop", ""));
    scratch.commit("first");
    shop(&scratch, &[("deploy/shop.yaml", &namespace("shop", &[("a", "1")])), ("README.yaml", "no: {manifest\n")]);
    scratch
}

fn value(scratch: &Scratch, member: &str) -> String {
    let path = scratch.path("members").join(member).join("configmap..shop.a.yaml");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(|line| line.trim().strip_prefix("key: ")).unwrap_or_default().to_owned()
}

#[test]
fn a_placement_of_one_repository_delivers_objects_of_another() {
    let scratch = two();
    scratch.run(&ONCE).text(0);
    assert_eq!((value(&scratch, "east"), value(&scratch, "west")), ("\"1\"".to_owned(), "\"1\"".to_owned()));
    let subject = scratch.run(&["describe", "placement", "shop", "-c", CONFIG]);
    assert!(subject.text(0).contains("platform "), "the commit says at which commit each source is: {}", subject.out);
    scratch.run(&["explain", "shop", "-c", CONFIG]).text(0);
    let check = scratch.run(&["check", "-c", CONFIG]);
    assert!(check.text(0).contains("source platform") && check.out.contains("source shop"), "{}", check.out);

    shop(&scratch, &[("deploy/shop.yaml", &namespace("shop", &[("a", "2")]))]);
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "east"), "\"2\"");
}

#[test]
fn errors_of_one_repository_hold_the_other_up_in_nothing() {
    let scratch = two();
    scratch.run(&ONCE).text(0);
    shop(
        &scratch,
        &[("deploy/east.yaml", &cluster("east", "x")), ("deploy/shop.yaml", &namespace("shop", &[("a", "2")]))],
    );
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w"), cluster("south", "s")].concat());
    scratch.commit("second");
    let found = scratch.run(&ONCE);
    assert_eq!(value(&scratch, "south"), "\"1\"", "{}", found.err);
    assert_eq!(found.err.matches("commit refused").count(), 1, "{}", found.err);
    let status = scratch.run(&["status", "-c", CONFIG]);
    let wanted = "shop/east.yaml:2: MemberCluster.cluster.kubernetes-fleet.io east: metadata.name: the same object stands at platform/clusters.yaml:2 too";
    assert!(status.out.contains(wanted) || status.err.contains(wanted), "{}{}", status.out, status.err);
    for line in ["✗ source shop: commit ", "\nsource platform /", "\nsource shop /"] {
        assert!(status.out.contains(line), "{line}: {}", status.out);
    }
    fs::remove_file(scratch.path("shop/deploy/east.yaml")).expect("it is there");
    shop(&scratch, &[]);
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "south"), "\"2\"");
}

#[test]
fn a_fleet_that_gets_a_second_repository_rolls_nothing_out() {
    let scratch = Scratch::with_web();
    scratch.run(&ONCE).text(0);
    let before = fs::read(scratch.path("members/east/configmap..web.a.yaml")).expect("it is delivered");
    configure(&scratch, SOURCES, "");
    shop(&scratch, &[("deploy/shop.yaml", &namespace("shop", &[("a", "1")]))]);
    scratch.run(&ONCE).text(0);
    let after = fs::read(scratch.path("members/east/configmap..web.a.yaml")).expect("it is still there");
    assert_eq!(String::from_utf8_lossy(&after), String::from_utf8_lossy(&before));
    let placements = scratch.run(&["get", "placements", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(placements["items"][0]["status"]["observedResourceIndex"], "0", "{placements}");
}

#[test]
fn a_source_is_the_folder_of_a_tenant() {
    let scratch = two();
    let tenants = "tenants: [{name: shop, path: shop, namespaces: [shop], clusterKinds: [Namespace]}]\n";
    configure(&scratch, SOURCES, tenants);
    scratch.run(&ONCE).text(0);
    shop(&scratch, &[("deploy/other.yaml", &namespace("bank", &[("a", "1")]))]);
    scratch.run(&ONCE);
    let status = scratch.run(&["status", "-c", CONFIG]);
    assert!(
        status.out.contains("shop/other.yaml:") && status.out.contains("tenant shop"),
        "{}{}",
        status.out,
        status.err
    );
}

#[test]
fn validate_reads_all_of_them_with_the_limits_of_tenants() {
    let scratch = two();
    let tenants = "tenants: [{name: shop, path: shop, namespaces: [shop], clusterKinds: [Namespace]}]\n";
    configure(&scratch, SOURCES, tenants);
    let validate = |more: &[&str]| scratch.run(&[&["validate", "-c", CONFIG], more].concat());
    let all = validate(&[]);
    assert_eq!((all.code, all.out.as_str()), (0, ""), "{}", all.err);
    assert!(all.err.contains("2 objects, 1 placement, 2 clusters: no errors"), "{}", all.err);
    // What is not committed counts in a clone that is named.
    fs::write(scratch.path("shop/deploy/east.yaml"), cluster("east", "x")).expect("a file");
    let clone = format!("shop={}", scratch.path("shop/deploy").display());
    let twice = validate(&["--source", &clone]);
    let twice = twice.text(1);
    let wanted = "shop/east.yaml:2: MemberCluster.cluster.kubernetes-fleet.io east: metadata.name: the same object stands at platform/clusters.yaml:2 too";
    assert!(twice.contains(wanted), "{twice}");
    assert_eq!(validate(&[]).code, 0, "it is in no commit");
    fs::write(scratch.path("shop/deploy/east.yaml"), namespace("bank", &[])).expect("a file");
    let foreign = validate(&["--source", &clone]);
    let foreign = foreign.text(1);
    assert!(foreign.contains("shop/east.yaml:") && foreign.contains("tenant shop"), "{foreign}");
    let alone = validate(&["shop/deploy"]);
    let said = "not checked: the limits of tenants count from the folder of all sources: leave DIR out";
    assert!(alone.code == 0 && alone.err.contains(said), "one folder of several is checked alone: {}", alone.err);
    let unknown = validate(&["--source", "bank=."]);
    assert!(unknown.code == 2 && unknown.err.contains("names no source"), "{}", unknown.err);
}

#[test]
fn a_kustomization_reads_nothing_of_another_repository() {
    let scratch = two();
    configure(&scratch, SOURCES, "render: {kustomize: v5.9.0}\n");
    shop(&scratch, &[("deploy/web/kustomization.yaml", "resources: [../../platform]\n")]);
    scratch.run(&ONCE);
    let status = scratch.run(&["status", "-c", CONFIG]);
    let said = [status.out, status.err].concat();
    assert!(said.contains("shop/web/kustomization.yaml"), "{said}");
}

#[test]
fn plan_reads_several_sources_as_the_daemon_joins_them() {
    let scratch = two();
    let first = scratch.run(&["plan", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(first["placements"][0]["decisions"].as_array().map(Vec::len), Some(2), "{first:#}");
    scratch.run(&ONCE).text(0);
    assert_eq!(scratch.run(&["plan", "-c", CONFIG, "--exit-code"]).code, 0, "nothing changed since");
    shop(&scratch, &[("deploy/shop.yaml", &namespace("shop", &[("a", "2")]))]);
    let next = scratch.run(&["plan", "-c", CONFIG, "--exit-code"]);
    assert!(next.text(1).contains("~ ConfigMap shop/a"), "{}", next.out);

    // A person names clones, and the branch of the one that changes.
    let clones = ["--source", "shop=shop/deploy", "--source", "platform=fleet"];
    let named = [&clones[..], &["--base", "shop=HEAD~1"]].concat();
    let by_hand = scratch.run(&[&["plan", "-c", CONFIG], &named[..]].concat());
    assert!(by_hand.text(0).contains("~ ConfigMap shop/a"), "{}", by_hand.out);
    let comment = scratch.run(&[&["plan", "-c", CONFIG, "-o", "markdown"], &named[..]].concat());
    assert!(comment.text(0).contains("ConfigMap shop/a"), "{}", comment.out);

    // As they stand, before anybody commits.
    fs::write(scratch.path("shop/deploy/broken.yaml"), cluster("east", "x")).expect("a file");
    let stands = scratch.run(&[&["plan", "-c", CONFIG], &clones[..]].concat());
    let wanted =
        "shop/broken.yaml:2: MemberCluster.cluster.kubernetes-fleet.io east: metadata.name: the same object stands at";
    assert!(stands.text(1).contains(wanted), "{}", stands.out);
    assert_eq!(scratch.run(&["plan", "-c", CONFIG]).code, 0, "the configuration means commits");
}

#[test]
fn plan_says_which_source_it_cannot_find() {
    let scratch = two();
    configure(&scratch, &SOURCES.replace("./shop", "https://git.example.com/acme/shop.git"), "");
    let rows: [(&[&str], &str); 5] = [
        (
            &[],
            "the source shop (https://git.example.com/acme/shop.git) is not on this machine; name a clone of it: --source shop=DIR",
        ),
        (
            &["--source", "shp=shop"],
            "--source shp=shop names no source; write --source NAME=DIR. The names are platform, shop",
        ),
        (&["--source", "shop=nowhere"], "reading the source shop in nowhere"),
        (&["--source", "shop=shop", "--base", "main"], "--base main names no source; write --base NAME=REV"),
        (&["--source", "shop=shop", "-o", "markdown"], "name with --base NAME=REV what it would be merged into"),
    ];
    for (more, wanted) in rows {
        let found = scratch.run(&[&["plan", "-c", CONFIG], more].concat());
        assert!(found.code == 2 && found.err.contains(wanted), "{more:?}: {} {}", found.code, found.err);
    }
    let both = scratch.run(&["plan", "fleet", "-c", CONFIG, "--source", "shop=shop"]);
    assert_eq!(both.code, 64, "{}", both.err);
}
