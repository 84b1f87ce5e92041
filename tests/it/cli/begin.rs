//! `init`, `check` and `member add`: from nothing to a fleet.

use std::fs;

use crate::cli::scratch::{CONFIG, Scratch};

#[test]
fn what_init_writes_can_be_run() {
    let scratch = Scratch::new();
    fs::remove_dir(scratch.path("fleet")).expect("it is empty");
    let made = scratch.run(&["init", "."]);
    assert!(made.text(0).contains("gitfleet run"), "{}", made.out);
    // Found without a word about it.
    scratch.run(&["run", "--once"]).text(0);
    assert_eq!(scratch.run(&["validate", "fleet"]).code, 0);
    for cluster in ["dev", "prod"] {
        let files = fs::read_dir(scratch.path("clusters").join(cluster)).expect("a folder");
        let names = files.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        assert!(names.into_iter().any(|name| name.contains("greeting")), "{cluster}");
    }
    let status = scratch.run(&["get", "placements"]);
    assert!(status.text(0).contains("2/2"), "{}", status.out);
    let again = scratch.run(&["init", "."]);
    assert_eq!((again.code, again.err.contains("is there already")), (2, true), "{}", again.err);
}

#[test]
fn a_configuration_is_found_and_named_in_lines_to_copy() {
    let scratch = Scratch::with_web();
    scratch.run(&["run", "--once"]).text(0);
    scratch.run(&["pause", "web"]).text(0);
    let again = scratch.run(&["pause", "web"]);
    assert_eq!((again.code, again.out.as_str()), (0, ""), "{}", again.err);
    assert!(again.err.starts_with("nothing to do: web was paused by"), "{}", again.err);
    fs::rename(scratch.path(CONFIG), scratch.path("other.yaml")).expect("it is there");
    assert_eq!(scratch.run(&["run", "--once"]).code, 64);
    let paused = scratch.run(&["pause", "web", "-c", "other.yaml"]);
    assert_eq!(paused.code, 0, "{}", paused.err);
    let resumed = scratch.run(&["-c", "other.yaml", "resume", "web"]);
    assert_eq!(resumed.text(0), "resumed: web continues\n");
    let paused = scratch.run(&["pause", "web", "-c", "other.yaml"]);
    assert!(paused.text(0).contains("until `gitfleet -c other.yaml resume web`"), "{}", paused.out);
    let unknown = scratch.run(&["-c", "other.yaml", "pause", "webb"]);
    assert_eq!((unknown.code, unknown.err.contains("did you mean web?")), (1, true), "{}", unknown.err);
}

#[test]
fn a_check_says_what_is_missing() {
    let scratch = Scratch::with_web();
    let before = scratch.run(&["check"]);
    let row = |text: &str, need: &str| -> String {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(need));
        line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default()
    };
    let source = row(before.text(0), "source");
    assert!(source.starts_with("source ok ") && source.ends_with(" of branch main"), "{}", before.out);
    assert!(row(&before.out, "members").starts_with("members ok 2 of 2 clusters"), "{}", before.out);
    assert!(row(&before.out, "store").starts_with("store unknown"), "{}", before.out);
    assert!(!scratch.path("members").exists(), "it changes nothing");
    scratch.run(&["run", "--once"]).text(0);
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("a configuration").replace("\"*\"", "\"e*\"");
    fs::write(scratch.path(CONFIG), text).expect("a file");
    let after = scratch.run(&["check"]);
    assert!(after.text(1).contains("no entry of `members:` names west"), "{}", after.out);
    assert!(row(&after.out, "store").starts_with("store ok"), "{}", after.out);
}

#[test]
fn a_member_is_added_to_the_tree() {
    let scratch = Scratch::with_web();
    let add = ["member", "add", "north", "--labels", "region=eu,tier=test"];
    let shown = scratch.run(&add);
    for wanted in ["+++ b/north.yaml", "+kind: MemberCluster", "+    region: eu"] {
        assert!(shown.text(0).contains(wanted), "{wanted}: {}", shown.out);
    }
    assert!(shown.err.contains("north is the folder"), "{}", shown.err);
    let committed = scratch.run(&[&add[..], &["--commit", "add-north"]].concat());
    assert!(committed.text(0).contains("on branch add-north: Add north"), "{}", committed.out);
    let added = shown.out.lines().filter(|line| !line.starts_with("+++")).filter_map(|line| line.strip_prefix('+'));
    scratch.write("north.yaml", &added.flat_map(|line| [line, "\n"]).collect::<String>());
    scratch.commit("north");
    scratch.run(&["run", "--once"]).text(0);
    assert_eq!(scratch.member("north"), scratch.member("east"));
    let clusters = scratch.run(&["get", "clusters", "-l", "tier=test"]);
    assert!(clusters.text(0).contains("region=eu,tier=test"), "{}", clusters.out);
    let again = scratch.run(&add);
    assert_eq!((again.code, again.err.contains("already, in north.yaml")), (2, true), "{}", again.err);
}
