//! Approvals from the command line: what is shown and asked on a terminal, what is refused elsewhere, and what a commit cannot
//! take away from its own rollout.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use nix::pty::openpty;

use crate::cli::daemon::Daemon;
use crate::cli::scratch::{CONFIG, FLEET, Scratch, annotated_placement, cluster, namespace};
use crate::cli::staged::{AUTOMATIC, LIMIT, ONCE, STRATEGY, fleet, placement, told, value};

/// Bytes read from a terminal at once.
const CHUNK: usize = 4096;

/// Adds lines to the configuration.
fn configure(scratch: &Scratch, more: &str) {
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    fs::write(scratch.path(CONFIG), text + more).expect("a file");
}

/// Runs a command on a terminal of its own and types an answer; returns the exit code and what the terminal showed.
pub fn on_a_terminal(scratch: &Scratch, args: &[&str], answer: &str) -> (i32, String) {
    let terminal = openpty(None, None).expect("a terminal");
    let side = || Stdio::from(terminal.slave.try_clone().expect("a handle"));
    let mut command = scratch.command(args);
    command.stdin(side()).stdout(side()).stderr(side());
    let mut child = command.spawn().expect("the binary starts");
    // The command and this test hold the other side: it must be let go of, or reading never ends.
    drop(command);
    drop(terminal.slave);
    let mut keys = File::from(terminal.master);
    // What is typed ahead waits in the terminal until it is read.
    writeln!(keys, "{answer}").expect("the terminal takes keys");
    let (mut shown, mut chunk) = (Vec::new(), [0; CHUNK]);
    // A terminal whose other side is gone answers with an error.
    while let Ok(count) = keys.read(&mut chunk) {
        if count == 0 {
            break;
        }
        shown.extend_from_slice(&chunk[..count]);
    }
    let code = child.wait().expect("it ends").code().expect("it ends by itself");
    (code, String::from_utf8_lossy(&shown).into_owned())
}

#[test]
fn a_terminal_shows_the_gate_and_asks() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    let (code, shown) = on_a_terminal(&scratch, &["approve", "web", "-c", CONFIG], "n");
    for words in
        ["stage staging of web-0 waits for approval", "digest", "p1, p2", "approve? [y/N]", "nothing has changed"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_eq!(code, 1, "{shown}");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let (code, shown) = on_a_terminal(&scratch, &["approve", "web-0", "-c", CONFIG], "y");
    assert_eq!((code, shown.contains("approved was digest")), (0, true), "{shown}");
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "p2"), "1");
}

#[test]
fn without_a_terminal_an_approval_needs_its_stage() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    for name in ["web", "web-0"] {
        let found = told(&scratch, &["approve", name]);
        assert_eq!((found.code, found.out.as_str()), (1, ""), "{}", found.err);
        assert!(found.err.contains("approve needs the stage"), "{}", found.err);
        assert!(found.err.contains("\n  gitfleet approve web-0 staging --digest "), "{}", found.err);
    }
    let line = told(&scratch, &["approve", "web"]).err;
    let line: Vec<String> = line
        .lines()
        .find_map(|line| line.trim().strip_prefix("gitfleet "))
        .expect("a line to copy")
        .split_whitespace()
        .take(5)
        .map(str::to_owned)
        .collect();
    let copied: Vec<&str> = line.iter().map(String::as_str).collect();
    assert!(told(&scratch, &copied).text(0).contains("approved was digest"));
    scratch.run(&ONCE).text(0);
}

#[test]
fn a_daemon_shows_and_asks_as_well() {
    let scratch = fleet();
    let daemon = Daemon::start(&scratch);
    let server = ["--server", &daemon.address, "-c", CONFIG];
    let started = std::time::Instant::now();
    while !scratch.run(&[&["status"], &server[..]].concat()).out.contains("gitfleet approve web-0 staging") {
        assert!(started.elapsed() < LIMIT);
    }
    let refused = scratch.run(&[&["approve", "web"], &server[..]].concat());
    assert_eq!((refused.code, refused.err.contains("approve needs the stage")), (1, true), "{}", refused.err);
    let args = [&["approve", "web"], &server[..]].concat();
    let (code, shown) = on_a_terminal(&scratch, &args, "yes");
    assert_eq!((code, shown.contains("p1, p2")), (0, true), "{shown}");
}

/// A placement whose removal from two clusters waits at the gate of its deletions.
fn deleting() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("a", "x"), cluster("b", "x")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    scratch.write("placement.yaml", &annotated_placement("web", "{}", "web", ""));
    scratch.commit("first");
    scratch.run(&ONCE).text(0);
    scratch
}

#[test]
fn ux1a_1_a_bare_name_opens_no_deletion_gate() {
    let scratch = deleting();
    scratch.remove("placement.yaml");
    scratch.commit("remove it");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let found = told(&scratch, &["approve", "web"]);
    assert_eq!(found.code, 1, "{}{}", found.out, found.err);
    assert!(found.err.contains("gitfleet approve web deletion --digest "), "{}", found.err);
    let found = told(&scratch, &["approve", "web", "--yes"]);
    assert_eq!(found.code, 1, "{}{}", found.out, found.err);
    let (code, shown) = on_a_terminal(&scratch, &["approve", "web", "-c", CONFIG], "y");
    assert_eq!((code, shown.contains("approve needs the stage")), (1, true), "{shown}");
    assert_eq!(scratch.run(&ONCE).code, 3);
    assert_eq!(scratch.member("a").len(), 2);
    let (code, shown) = on_a_terminal(&scratch, &["approve", "web", "deletion", "-c", CONFIG], "y");
    assert_eq!(code, 0, "{shown}");
    scratch.run(&ONCE).text(0);
    assert_eq!(scratch.member("a"), Vec::<String>::new());
}

#[test]
fn ux1a_6_and_8_a_reason_counts_all_that_goes_and_names_no_way_around_the_guard() {
    let scratch = deleting();
    scratch.remove("placement.yaml");
    scratch.commit("remove it");
    let plan = |more: &[&str]| scratch.run(&[&["plan", "--repo", FLEET, "--base", "HEAD~1"], more].concat());
    let planned = [plan(&[]).out, plan(&["-o", "markdown"]).out];
    let run = scratch.run(&ONCE);
    assert_eq!(run.code, 3, "{}", run.err);
    let status = told(&scratch, &["status"]).out;
    let reason = "the placement was removed: 4 objects on 2 clusters would be deleted, with Namespace web";
    for text in planned.iter().chain([&run.err, &status]) {
        assert!(text.replace('`', "").contains(reason), "{text}");
        assert!(!text.contains("deletion-guard"), "{text}");
    }
    for text in [&run.err, &status] {
        assert!(text.contains("gitfleet approve web deletion"), "{text}");
    }
}

#[test]
fn ux1a_7_a_gate_before_a_stage_says_that_the_stage_begins() {
    let scratch = fleet();
    let before = "region: prod}}\n      beforeStageTasks: [{type: Approval}]\n";
    let strategy = ungated().replace("region: prod}}\n", before);
    assert!(strategy.contains(before), "{strategy}");
    scratch.write("strategy.yaml", &strategy);
    scratch.commit("a gate before");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let approved = told(&scratch, &["approve", "web", "production"]);
    assert!(approved.text(0).starts_with("approved: web-0: stage production begins: 2 clusters"), "{}", approved.out);
    assert!(!approved.out.contains("after stage"), "{}", approved.out);
}

#[test]
fn a_configuration_can_want_the_digest() {
    let scratch = fleet();
    configure(&scratch, "policy: {approvals: {digest: required}}\n");
    assert_eq!(scratch.run(&ONCE).code, 3);
    for more in [&[][..], &["--yes"]] {
        let found = told(&scratch, &[&["approve", "web-0", "staging"], more].concat());
        assert_eq!((found.code, found.err.contains("policy.approvals.digest")), (1, true), "{}", found.err);
    }
    let gate = told(&scratch, &["get", "approvals", "-o", "json"]).out;
    assert!(gate.contains("web-0-after-staging"), "{gate}");
    // Whoever confirms on a terminal was shown the digest, and names it by that.
    let (code, shown) = on_a_terminal(&scratch, &["approve", "web-0", "staging", "-c", CONFIG], "y");
    assert_eq!(code, 0, "{shown}");
    scratch.run(&ONCE).text(0);
}

#[test]
fn the_command_line_follows_the_strategys_approvers() {
    let scratch = fleet();
    let text =
        STRATEGY.replace("{name: steps}", "{name: steps, annotations: {gitfleet.io/approvers: 'user:nobody-here'}}");
    scratch.write("strategy.yaml", &text);
    scratch.commit("approvers");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let found = told(&scratch, &["approve", "web-0", "staging"]);
    assert_eq!((found.code, found.err.contains("user:nobody-here")), (1, true), "{}", found.err);
    let status = told(&scratch, &["status"]);
    assert!(status.out.contains("by user:nobody-here"), "{}", status.out);
    scratch.remove("placement.yaml");
    scratch.commit("remove it");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let found = told(&scratch, &["approve", "web", "deletion"]);
    assert_eq!((found.code, found.err.contains("user:nobody-here")), (1, true), "{}", found.err);
}

#[test]
fn a_token_does_what_it_is_for() {
    let scratch = fleet();
    for name in ["ci", "ops"] {
        fs::write(scratch.path(name), format!("{name}-token\n")).expect("a file");
    }
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let tokens = "tokens: [{name: ci, tokenFile: ./ci, may: [retry], placements: [\"w*\"]}, {name: ops, tokenFile: ./ops, placements: [api]}]";
    let text = text.replace("http: {listen: \"127.0.0.1:0\"}", &format!("http: {{listen: \"127.0.0.1:0\", {tokens}}}"));
    fs::write(scratch.path(CONFIG), text).expect("a file");
    let daemon = Daemon::start(&scratch);
    let started = std::time::Instant::now();
    while !scratch.run(&["status", "--server", &daemon.address]).out.contains("gitfleet approve web-0 staging") {
        assert!(started.elapsed() < LIMIT);
    }
    for (token, verb, words) in [
        ("ci", &["approve", "web-0", "staging"][..], "ci may not: its token may retry only, not approve"),
        ("ops", &["pause", "web"], "ops may not: its token is for the placements api only, not for placement web"),
        ("ops", &["resume"], "not for the source"),
    ] {
        let found = scratch.run(&[verb, &["--server", &daemon.address, "--token-file", token]].concat());
        assert_eq!((found.code, found.err.contains(words)), (1, true), "{verb:?}: {}", found.err);
    }
}

#[test]
fn d18_what_switches_the_guard_off_is_held_by_it() {
    let scratch = deleting();
    let off = annotated_placement("web", "{gitfleet.io/deletion-guard: \"Off\"}", "web", "");
    let nothing = off.replace("name: web}", "name: other}");
    assert_ne!(off, nothing);
    scratch.write("other.yaml", &namespace("other", &[]));
    scratch.write("placement.yaml", &nothing);
    scratch.commit("the guard and all it guards");
    assert_eq!(scratch.run(&ONCE).code, 3);
    assert!(scratch.member("a").iter().any(|name| name.contains("configmap")), "{:?}", scratch.member("a"));
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("something else");
    assert_eq!(scratch.run(&ONCE).code, 3, "a gate that is closed stays closed");
    told(&scratch, &["approve", "web", "deletion"]).text(0);
    scratch.run(&ONCE).text(0);
    assert!(!scratch.member("a").iter().any(|name| name.contains("configmap")), "{:?}", scratch.member("a"));
}

#[test]
fn d18_what_only_reports_from_now_on_leaves_no_cluster_unasked() {
    let scratch = deleting();
    let reports_on_b = "  strategy: {applyStrategy: {type: ReportDiff}}\n  \
                        policy: {placementType: PickFixed, clusterNames: [b]}\n";
    scratch.write("placement.yaml", &annotated_placement("web", "{}", "web", reports_on_b));
    scratch.commit("only report, and on another cluster");
    let found = scratch.run(&ONCE);
    assert_eq!(found.code, 3, "{}", found.err);
    assert!(scratch.member("a").iter().any(|name| name.contains("configmap")), "{:?}", scratch.member("a"));
    told(&scratch, &["approve", "web", "deletion"]).text(0);
    scratch.run(&ONCE);
    assert!(!scratch.member("a").iter().any(|name| name.contains("configmap")), "{:?}", scratch.member("a"));
}

#[test]
fn d18_no_annotation_goes_below_the_configuration() {
    let scratch = deleting();
    configure(&scratch, "policy: {deletionGuard: required}\n");
    let off = annotated_placement("web", "{gitfleet.io/deletion-guard: \"Off\"}", "web", "");
    scratch.write("placement.yaml", &off);
    scratch.commit("off");
    scratch.run(&ONCE).text(0);
    scratch.remove("placement.yaml");
    scratch.commit("remove it");
    assert_eq!(scratch.run(&ONCE).code, 3);
    assert_eq!(scratch.member("a").len(), 2);
}

/// The stages without any approval.
fn ungated() -> String {
    STRATEGY.replace("\n      afterStageTasks: [{type: Approval}]", "")
}

#[test]
fn d18_what_drops_an_approval_is_asked_about() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    told(&scratch, &["approve", "web-0", "staging"]).text(0);
    scratch.run(&ONCE).text(0);
    assert_ne!(ungated(), STRATEGY);
    let next = |strategy: &str, content: &str| {
        scratch.write("strategy.yaml", strategy);
        scratch.write("web.yaml", &namespace("web", &[("a", content)]));
        scratch.commit(content);
        scratch.run(&ONCE).code
    };
    // Stages with other names hold the same clusters.
    let renamed = ungated().replace("name: production", "name: p");
    assert_eq!(next(&renamed, "2"), 3);
    assert_eq!((value(&scratch, "s").as_str(), value(&scratch, "p1").as_str()), ("2", "1"));
    let approvals = told(&scratch, &["get", "approvals"]);
    assert!(approvals.text(0).contains("web-1-before-p"), "{}", approvals.out);
    // What was not approved is not forgotten by the next commit.
    assert_eq!(next(&renamed, "3"), 3);
    assert_eq!(value(&scratch, "p1"), "1");
    told(&scratch, &["approve", "web-2", "p"]).text(0);
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "p1"), "3");
    assert_eq!(next(&renamed, "4"), 0, "a person agreed that nobody is asked any more");
    assert_eq!(value(&scratch, "p1"), "4");
}

#[test]
fn d18_who_leaves_the_stages_waits_for_a_person() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    told(&scratch, &["approve", "web-0", "staging"]).text(0);
    scratch.run(&ONCE).text(0);
    scratch.write(
        "placement.yaml",
        &placement("").replace("strategy: {type: External}", "strategy: {type: RollingUpdate}"),
    );
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("no stages, and something new");
    assert_eq!(scratch.run(&ONCE).code, 3);
    assert_eq!((value(&scratch, "d").as_str(), value(&scratch, "p1").as_str()), ("1", "1"));
    told(&scratch, &["resume", "web"]).text(0);
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "p1"), "2");
}

#[test]
fn d18_a_configuration_wants_approvals_that_no_strategy_has() {
    for (policy, stage) in
        [("stages: [\"prod*\"]", "production"), ("clusters: [p1]", "production"), ("stages: [\"*\"]", "dev")]
    {
        let scratch = fleet();
        configure(&scratch, &format!("policy: {{{policy}}}\n"));
        scratch.write("strategy.yaml", &ungated());
        scratch.write("placement.yaml", &placement(AUTOMATIC));
        scratch.commit("no approval");
        let found = scratch.run(&ONCE);
        assert_eq!(found.code, 3, "{policy}: {}", found.err);
        assert!(found.err.contains(&format!("gitfleet approve web-0 {stage}")), "{policy}: {}", found.err);
    }
    let scratch = fleet();
    configure(&scratch, "policy: {clusters: [p1]}\n");
    scratch.write(
        "placement.yaml",
        &placement("").replace("strategy: {type: External}", "strategy: {type: RollingUpdate}"),
    );
    scratch.commit("no stages");
    let found = scratch.run(&ONCE);
    assert_eq!((found.code, found.err.contains("policy.clusters")), (1, true), "{}", found.err);
    assert!(scratch.member("p1").is_empty());
}

#[test]
fn the_gates_of_a_commit_are_approved_together() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    let of_first = "jsonpath={.items[0].metadata.annotations.gitfleet\\.io/commit}";
    let commit = told(&scratch, &["get", "snapshots", "-o", of_first]).text(0).to_owned();
    let unclear = told(&scratch, &["approve", "--commit", &commit[..8]]);
    assert_eq!((unclear.code, unclear.err.contains("name the stage with --stage")), (2, true), "{}", unclear.err);
    for wrong in [&["0000000"][..], &[commit.as_str(), "--stage", "production"]] {
        let found = told(&scratch, &[&["approve", "--commit"], wrong].concat());
        assert_eq!((found.code, found.err.contains("waits for you")), (2, true), "{wrong:?}: {}", found.err);
    }
    let (code, shown) = on_a_terminal(&scratch, &["approve", "--commit", &commit, "-c", CONFIG], "n");
    assert_eq!((code, shown.contains("web-0 at stage staging, digest ")), (1, true), "{shown}");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let done = told(&scratch, &["approve", "--commit", &commit[..8], "--stage", "staging"]);
    assert!(done.text(0).starts_with("approved: web-0"), "{}", done.out);
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "p1"), "1");
}

#[test]
fn owners_of_the_placements_file_are_shown_and_a_file_that_cannot_be_read_refuses_the_commit() {
    let scratch = fleet();
    fs::write(scratch.path("token"), "none\n").expect("a file");
    // Nobody listens there: a commit is accepted without the git host.
    configure(
        &scratch,
        "forge: {type: github, url: \"http://127.0.0.1:9\", allowInsecureHttp: true, repository: acme/fleet, tokenFile: ./token, \
         approvals: {approvers: [\"user:ops\"], codeOwners: true}}\n",
    );
    scratch.write(".github/CODEOWNERS", "* @ops\n/placement.yaml @acme/web @ann\n");
    scratch.commit("owners");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let status = told(&scratch, &["status"]);
    assert!(status.out.contains("by team:acme/web, user:ann by comment"), "{}", status.out);

    scratch.write(".github/CODEOWNERS", "* @ops\n!/placement.yaml @eve\n");
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("a line that GitHub does not know");
    let refused = scratch.run(&ONCE);
    assert!(refused.err.contains(".github/CODEOWNERS:2: the pattern \"!/placement.yaml\" has `!`"), "{}", refused.err);
    assert_ne!(value(&scratch, "d"), "2", "the last good commit stays");
    let status = told(&scratch, &["status"]);
    assert!(status.out.contains("by team:acme/web, user:ann by comment"), "{}", status.out);
}
