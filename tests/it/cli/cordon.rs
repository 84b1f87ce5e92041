//! A cluster is taken out of service by a commit: `cordon`, `drain`, `uncordon`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::cli::scratch::{CONFIG, FLEET, Scratch, placement};

fn fleet() -> Scratch {
    let scratch = Scratch::with_web();
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    scratch
}

fn git(scratch: &Scratch, args: &[&str], input: &str) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(scratch.path(FLEET)).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("git starts");
    child.stdin.take().expect("it listens").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_cordon_is_printed_as_a_change_that_git_applies() {
    let scratch = fleet();
    let before = git(&scratch, &["show", "HEAD:clusters.yaml"], "");
    let printed = scratch.run(&["cordon", "east", "--repo", FLEET]);
    assert!(printed.text(0).contains("+    - key: cordon-key"), "{}", printed.out);
    assert_eq!(git(&scratch, &["status", "--porcelain"], ""), "", "nothing is written");
    git(&scratch, &["apply"], &printed.out);
    scratch.commit("cordon");
    let again = scratch.run(&["cordon", "east", "--repo", FLEET]);
    assert_eq!((again.text(0), again.err.as_str()), ("", "east is cordoned already\n"));
    let back = scratch.run(&["uncordon", "east", "--repo", FLEET]);
    git(&scratch, &["apply"], back.text(0));
    let after = std::fs::read_to_string(scratch.path(FLEET).join("clusters.yaml")).expect("the file");
    assert_eq!(after, before.replacen("spec: {}\n", "spec:\n  taints: []\n", 1), "all else is as it was");
    let unknown = scratch.run(&["cordon", "eats", "--repo", FLEET]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("did you mean east?"), "{}", unknown.err);
}

#[test]
fn a_drain_is_a_commit_that_moves_placements_off_the_cluster() {
    let scratch = fleet();
    let drain = ["drain", "east", "--repo", FLEET, "-c", CONFIG, "--commit"];
    let refused = scratch.run(&[drain.as_slice(), &["main"]].concat());
    assert!(refused.code == 2 && refused.err.contains("main is checked out"), "{}", refused.err);
    let drained = scratch.run(&[drain.as_slice(), &["drain-east"]].concat());
    assert!(drained.text(0).contains("on branch drain-east: Drain east"), "{}", drained.out);
    let names = git(&scratch, &["diff", "--name-status", "main", "drain-east"], "");
    assert_eq!(names, "M\tclusters.yaml\nA\tdrain-east.yaml\n");
    assert!(!scratch.member("east").is_empty(), "nothing happens before the branch has it");

    git(&scratch, &["merge", "-q", "--ff-only", "drain-east"], "");
    scratch.run(&["run", "-c", CONFIG, "--once"]);
    assert_eq!(scratch.member("east"), Vec::<String>::new());
    assert!(!scratch.member("west").is_empty());
    let evictions = scratch.run(&["get", "crpe", "-c", CONFIG]);
    assert!(evictions.text(0).contains("drain-eviction-web-east-"), "{}", evictions.out);

    let nothing = scratch.run(&["drain", "east", "--repo", FLEET, "-c", CONFIG]);
    assert_eq!((nothing.text(0), nothing.err.as_str()), ("", "east is cordoned, and nothing can be moved off it\n"));
    let back = scratch.run(&["uncordon", "east", "--repo", FLEET]);
    git(&scratch, &["apply"], back.text(0));
    scratch.commit("back");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert!(!scratch.member("east").is_empty(), "it gets placements again");
}

#[test]
fn what_a_drain_cannot_move_is_said() {
    let scratch = fleet();
    let fixed = placement("web", "web", "  policy: {placementType: PickFixed, clusterNames: [east]}\n");
    scratch.write("placement.yaml", &fixed);
    scratch.commit("fixed");
    scratch.run(&["run", "-c", CONFIG, "--once"]);
    let found = scratch.run(&["drain", "east", "--repo", FLEET, "-c", CONFIG]);
    assert_eq!(found.code, 1, "{}", found.err);
    assert!(found.err.contains("ClusterResourcePlacement web stays on east"), "{}", found.err);
    assert!(found.out.contains("cordon-key") && !found.out.contains("Eviction"), "{}", found.out);
}

/// The tree is a folder of the source, as the configuration says; beside it is what is no tree.
#[test]
fn the_tree_is_where_the_configuration_says() {
    let scratch = Scratch::with_web();
    std::fs::create_dir(scratch.path(FLEET).join("tree")).expect("a folder");
    git(&scratch, &["mv", "clusters.yaml", "web.yaml", "placement.yaml", "tree"], "");
    scratch.write("notes.yaml", "kind: [");
    scratch.commit("a folder of its own");
    let config = std::fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    std::fs::write(scratch.path(CONFIG), config.replace("branch: main", "branch: main, path: tree")).expect("a file");
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);

    let cordon = scratch.run(&["cordon", "east", "-c", CONFIG]);
    git(&scratch, &["apply", "--check"], cordon.text(0));
    let drained = scratch.run(&["drain", "east", "-c", CONFIG, "--commit", "drain-east"]);
    assert!(drained.text(0).contains("on branch drain-east: Drain east"), "{}", drained.out);
    let names = git(&scratch, &["diff", "--name-status", "main", "drain-east"], "");
    assert_eq!(names, "M\ttree/clusters.yaml\nA\ttree/drain-east.yaml\n");
    let back = scratch.run(&["uncordon", "east", "-c", CONFIG]);
    assert_eq!((back.text(0), back.err.as_str()), ("", "east is not cordoned\n"));
    let elsewhere = scratch.run(&["cordon", "east", "-c", CONFIG, "--repo", "fleet/tree"]);
    assert!(elsewhere.text(0).starts_with("--- a/clusters.yaml"), "what is named goes first: {}", elsewhere.out);
}
