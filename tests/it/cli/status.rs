//! `status`: what it shows first, what its exit codes say, how it waits, and its screen.

use serde_json::json;

use crate::cli::approve::on_a_terminal;
use crate::cli::edges::{Daemon, RUN, until};
use crate::cli::scratch::{CONFIG, Scratch};
use crate::cli::staged::{ONCE, fleet, told};

/// Keys of a terminal that change its screen.
const OTHER_SCREEN: [&str; 2] = ["\x1b[?1049h", "\x1b[?1049l"];

#[test]
fn who_is_waited_for_comes_first() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    let status = told(&scratch, &["status"]);
    let lines: Vec<&str> = status.text(0).lines().collect();
    assert!(lines[0].starts_with("! web: waits for approval after stage staging of "), "{}", status.out);
    assert!(lines[0].contains(", digest "), "{}", status.out);
    assert_eq!(lines[1], "    opens production: 2 clusters; by anybody who may command the daemon");
    assert_eq!(lines[2], "    gitfleet approve web-0 staging", "./gitfleet.yaml is found anyway");
    assert!(status.out.contains("\n1 placement: 1 waiting for a person\nweb  ! 2/4  "), "{}", status.out);
    assert!(status.out.contains("  ✓ dev  ! staging 1/1  · production\n"), "{}", status.out);
    // The line is there to be copied.
    let words: Vec<&str> = lines[2].split_whitespace().skip(1).collect();
    scratch.run(&words).text(0);
}

#[test]
fn ux1b_24_looking_is_no_failure_unless_a_script_asks() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    for (more, code) in [
        (&[][..], 0),
        (&["--waiting"], 0),
        (&["--exit-code"], 3),
        (&["web", "--exit-code"], 3),
        (&["--wait"], 3),
        (&["--wait", "--timeout", "1s", "web"], 3),
        (&["--timeout", "1s"], 64),
        (&["--watch", "--wait"], 64),
    ] {
        let found = told(&scratch, &[&["status"], more].concat());
        assert_eq!(found.code, code, "{more:?}: {}{}", found.out, found.err);
    }
}

#[test]
fn parts_and_formats() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    let failed = told(&scratch, &["status", "--failed"]);
    assert!(!failed.text(0).contains("approve"), "{}", failed.out);
    let summary = told(&scratch, &["status", "-o", "json"]).json(0);
    let waiting = &summary["waiting"][0];
    assert_eq!((&waiting["answer"], &waiting["stage"]), (&json!("approval"), &json!("staging")));
    assert_eq!((&waiting["opens"], &waiting["clusters"]), (&json!("production"), &json!(2)));
    assert_eq!(waiting["commands"], json!(["gitfleet approve web-0 staging"]));
    let web = &summary["placements"][0];
    assert_eq!((&web["state"], &web["stages"][1]["name"]), (&json!("WaitingForPerson"), &json!("staging")));
    assert_eq!((&web["stages"][0]["state"], &web["stages"][1]["state"]), (&json!("done"), &json!("waiting")));
    for time in [&waiting["since"], &web["since"]] {
        assert!(time.as_str().is_some_and(|time| time.len() == "2026-01-01T00:00:00Z".len()), "{time}");
    }
    let source = summary["source"].as_array().expect("lines");
    assert!(source[0].as_str().is_some_and(|line| line.starts_with("source ")), "{summary}");
    let yaml = told(&scratch, &["status", "-o", "yaml", "--waiting"]);
    assert!(yaml.text(0).contains("answer: approval"), "{}", yaml.out);
    let whole = told(&scratch, &["status", "web"]);
    assert!(whole.text(0).contains("└─ · stage production  2 clusters"), "{}", whole.out);
    assert!(whole.out.contains("gitfleet approve web-0 staging\n"), "{}", whole.out);
    let unknown = told(&scratch, &["status", "webb"]);
    assert_eq!((unknown.code, unknown.err.as_str()), (2, "error: there is no placement webb (did you mean `web`?)\n"));
}

#[test]
fn a_script_waits_for_the_end_of_a_rollout() {
    let scratch = Scratch::with_web();
    let daemon = Daemon::start(scratch.command(&RUN));
    let wait = |more: &[&str]| scratch.run(&[&["status", "--wait", "--server", &daemon.address], more].concat());
    until("the first commit is rolled out", || wait(&["--timeout", "1m"]).out.contains("web  ✓ 2/2  "));
    assert_eq!(wait(&[]).code, 0);
    scratch.write("web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nmae: x}\n");
    scratch.commit("refused");
    until("the commit is refused", || wait(&[]).code == 1);
    drop(daemon);
    let gone = scratch.run(&["status", "--wait", "-c", CONFIG]);
    assert_eq!(gone.code, 1, "nothing moves, so nobody waits: {}{}", gone.out, gone.err);
}

#[test]
fn a_screen_of_its_own_ends_with_a_key() {
    let scratch = fleet();
    let daemon = Daemon::start(scratch.command(&RUN));
    let waits = "waits for approval after stage staging";
    until("the gate is closed", || scratch.run(&["status", "--server", &daemon.address]).out.contains(waits));
    for (more, code) in [(&[][..], 0), (&["--exit-code", "web"], 3)] {
        let watch = [&["status", "-w", "--server", &daemon.address], more].concat();
        let (found, shown) = on_a_terminal(&scratch, &watch, "xq");
        assert_eq!(found, code, "{shown}");
        assert!(OTHER_SCREEN.iter().all(|keys| shown.contains(keys)), "{shown:?}");
        assert!(shown.contains("gitfleet approve web-0 staging"), "{shown}");
    }
}
