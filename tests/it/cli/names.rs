//! Names that fit more than one thing: what is printed to be copied is accepted, and means what it was printed for.

use std::collections::BTreeSet;

use crate::cli::scratch::{CONFIG, Scratch, cluster, namespace};
use crate::cli::staged::{AUTOMATIC, ONCE, STRATEGY, fleet, placement, told, value};

/// A namespaced placement of this name with the stages of the cluster-scoped one.
fn namespaced(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: team}}\ndata: {{key: '1'}}\n---\n\
         apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ResourcePlacement\nmetadata:\n  name: {name}\n  namespace: team\n  \
         annotations: {{{AUTOMATIC}}}\nspec:\n  resourceSelectors:\n    - {{group: '', version: v1, kind: ConfigMap, name: {name}}}\n  \
         strategy: {{type: External}}\n"
    )
}

fn with_twin(name: &str) -> Scratch {
    let scratch = fleet();
    let strategy =
        STRATEGY.replace("ClusterStaged", "Staged").replace("{name: steps}", "{name: steps, namespace: team}");
    scratch.write("team.yaml", &(strategy + &namespaced(name)));
    scratch.commit("a twin");
    scratch
}

/// Returns the lines of ours that a text holds, without the program and the configuration.
fn lines(text: &str) -> Vec<Vec<String>> {
    let ours = text
        .lines()
        .filter_map(|line| line.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).strip_prefix("gitfleet "));
    let ours = ours
        .filter(|line| ["approve", "pause", "resume", "retry", "rollback"].iter().any(|verb| line.starts_with(verb)));
    ours.map(|line| line.split("  (").next().unwrap_or(line).replace(&format!(" -c {CONFIG}"), ""))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

fn copied(scratch: &Scratch, line: &[String]) -> String {
    told(scratch, &line.iter().map(String::as_str).collect::<Vec<_>>()).text(0).to_owned()
}

#[test]
fn j2_two_placements_of_one_name_are_each_commanded() {
    let scratch = with_twin("web");
    assert_eq!(scratch.run(&ONCE).code, 3);
    for verb in ["pause", "rollback", "retry", "diff", "history"] {
        let refused = told(&scratch, &[verb, "web"]);
        assert!(
            refused.code != 0 && refused.err.contains("crp/web") && refused.err.contains("rp/team/web"),
            "{verb}: {}",
            refused.err
        );
    }
    let refused = told(&scratch, &["approve", "web-0", "staging"]);
    let wanted = [["approve", "crp/web", "staging"], ["approve", "rp/team/web", "staging"]];
    assert_eq!(lines(&refused.err), wanted, "{}", refused.err);
    for word in ["crp/web", "/web", "ClusterResourcePlacement/web"] {
        assert!(told(&scratch, &["pause", word]).text(0).contains("`gitfleet resume crp/web"), "{word}");
        assert!(told(&scratch, &["status", word]).text(0).contains("paused by"), "{word}");
        told(&scratch, &["resume", word]).text(0);
    }
    for word in ["team/web", "rp/team/web"] {
        told(&scratch, &["pause", word]).text(0);
        told(&scratch, &["describe", "placement", word]).text(0);
        told(&scratch, &["resume", word]).text(0);
    }
    assert!(told(&scratch, &["get", "crp/web"]).text(0).contains("web"));
    // As they are shown: first the namespaced one, whose run ends by it; then the other.
    let shown = told(&scratch, &["status", "team/web", "web"]);
    let shown = lines(shown.text(0));
    let of = |word: &str| shown.iter().find(|line| line[1].contains(word)).expect("a line").clone();
    assert!(copied(&scratch, &of("team/web-0")).contains("approved"));
    scratch.run(&ONCE);
    let line = lines(told(&scratch, &["status"]).text(0));
    assert_eq!(line[0][..3], ["approve", "crp/web", "staging"]);
    assert!(copied(&scratch, &line[0]).contains("approved"), "{line:?}");
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "p1"), "1");
}

#[test]
fn m6_runs_have_names_of_their_own_in_their_scope() {
    let scratch = fleet();
    let other = |text: &str| {
        let placement =
            placement(AUTOMATIC).replace("name: web\n", "name: web-1\n").replace("name: web}", "name: other}");
        namespace("other", &[("b", text)]) + &placement
    };
    let roll_out = || {
        assert_eq!(scratch.run(&ONCE).code, 3);
        for word in ["crp/web", "crp/web-1"] {
            told(&scratch, &["approve", word, "staging"]);
        }
        scratch.run(&ONCE).text(0);
    };
    for (web, web_1) in [("1", "1"), ("2", "2"), ("2", "3")] {
        scratch.write("web.yaml", &namespace("web", &[("a", web)]));
        scratch.write("other.yaml", &other(web_1));
        scratch.commit("content");
        roll_out();
    }
    // The run of snapshot 2 of web-1 and the run that follows web-1 would both be web-1-2.
    scratch.write("e.yaml", &cluster("e", "dev"));
    scratch.commit("joins");
    scratch.run(&ONCE);
    let shown = told(&scratch, &["status"]);
    for line in lines(shown.text(0)) {
        copied(&scratch, &line);
    }
    scratch.run(&ONCE).text(0);
    let runs = told(&scratch, &["get", "runs", "-o", "name"]);
    let names: Vec<&str> = runs.text(0).lines().collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(unique.len(), names.len(), "{}", runs.out);
    assert!(runs.out.contains("/web-1-2\n") && runs.out.contains("/web-1-3\n"), "{}", runs.out);
}

#[test]
fn m6_an_automatic_run_gives_way_to_a_written_one() {
    let scratch = fleet();
    let other = placement("").replace("name: web\n", "name: other\n").replace("name: web}", "name: other}");
    let run = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {name: web-0}\nspec:\n  \
        placementName: other\n  resourceSnapshotIndex: '0'\n  stagedRolloutStrategyName: steps\n";
    scratch.write("other.yaml", &(namespace("other", &[]) + &other + run));
    scratch.commit("a run of that name");
    assert_eq!(scratch.run(&ONCE).code, 3);
    let runs = told(&scratch, &["get", "runs"]);
    assert!(runs.text(0).contains("web-0-2") && runs.out.contains("web-0 "), "{}", runs.out);
    for line in lines(told(&scratch, &["status"]).text(0)) {
        copied(&scratch, &line);
    }
    scratch.run(&ONCE).text(0);
}

#[test]
fn m9_a_gate_of_what_is_gone_asks_nobody() {
    let scratch = fleet();
    assert_eq!(scratch.run(&ONCE).code, 3);
    scratch.remove("placement.yaml");
    scratch.commit("removed");
    scratch.run(&ONCE);
    let shown = told(&scratch, &["status"]);
    assert!(!shown.text(0).contains("approve web-0"), "{}", shown.out);
    let refused = told(&scratch, &["approve", "web-0", "staging"]);
    assert!(
        refused.code == 1 && refused.err.contains("git has no ClusterResourcePlacement web any more"),
        "{}",
        refused.err
    );
    for line in lines(&shown.out) {
        copied(&scratch, &line);
    }
    scratch.run(&ONCE).text(0);
    assert_eq!(told(&scratch, &["get", "placements"]).err, "No placements found.\n");
}

#[test]
fn m9_an_approval_of_a_stopped_run_says_that_it_stays_stopped() {
    let scratch = fleet();
    let run = |state: &str| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {{name: r}}\nspec:\n  \
             placementName: web\n  resourceSnapshotIndex: '0'\n  stagedRolloutStrategyName: steps\n  state: {state}\n"
        )
    };
    scratch.write("placement.yaml", &placement(""));
    scratch.write("run.yaml", &run("Run"));
    scratch.commit("a run");
    assert_eq!(scratch.run(&ONCE).code, 3);
    scratch.write("run.yaml", &run("Stop"));
    scratch.commit("stop");
    scratch.run(&ONCE);
    let shown = told(&scratch, &["status", "--all"]);
    assert!(!shown.text(0).contains("gitfleet approve"), "{}", shown.out);
    assert!(!told(&scratch, &["get", "approvals"]).text(0).contains("waiting"));
    let said = told(&scratch, &["approve", "r", "staging"]);
    assert!(said.text(0).contains("it continues only with `state: Run`"), "{}", said.out);
    scratch.run(&ONCE);
    assert_eq!(value(&scratch, "p1"), "", "it stays stopped");
    scratch.write("run.yaml", &run("Run"));
    scratch.commit("run");
    scratch.run(&ONCE).text(0);
    assert_eq!(value(&scratch, "p1"), "1");
}
