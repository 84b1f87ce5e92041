//! Clusters in no stage, and what the strategy's annotation makes of them.

use crate::cli::scratch::{FLEET, Scratch, cluster, namespace};
use crate::cli::staged::{ONCE, fleet, told, value};

/// The usual fleet, whose stages have no gates, and two clusters in no stage.
fn with_others(in_no_stage: &str) -> Scratch {
    let scratch = fleet();
    let stage = |name: &str, region: &str| {
        format!("    - {{name: {name}, labelSelector: {{matchLabels: {{region: {region}}}}}}}\n")
    };
    let strategy = format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata:\n  name: steps\n  \
         annotations: {{gitfleet.io/clusters-in-no-stage: {in_no_stage}}}\nspec:\n  stages:\n{}{}{}",
        stage("dev", "dev"),
        stage("staging", "staging"),
        stage("production", "prod")
    );
    scratch.write("strategy.yaml", &strategy);
    scratch.write("others.yaml", &[cluster("t1", "test"), cluster("t2", "test")].concat());
    scratch.commit("two more clusters");
    scratch
}

fn plan(scratch: &Scratch, args: &[&str]) -> String {
    let plan = ["plan", "--repo", FLEET];
    scratch.run(&[&plan, args].concat()).out
}

#[test]
fn refused_clusters_are_named_and_nothing_moves() {
    let scratch = with_others("Refuse");
    let named = "2 clusters that the placement picked are in no stage: t1, t2; ";
    assert!(plan(&scratch, &[]).contains(named), "{}", plan(&scratch, &[]));
    let once = scratch.run(&ONCE);
    assert!(once.code == 1 && once.err.contains(named), "{}", once.err);
    assert_eq!((value(&scratch, "d").as_str(), value(&scratch, "t1").as_str()), ("", ""));
}

#[test]
fn ignored_clusters_keep_what_they_have_and_a_pass_ends() {
    let scratch = with_others("Ignore");
    let warned = "the strategy ignores picked clusters in no stage (gitfleet.io/clusters-in-no-stage), and these keep what \
                  they have: t1, t2";
    let text = plan(&scratch, &[]);
    assert!(text.contains(warned) && text.contains("; in no stage, left as they are: t1, t2"), "{text}");
    let comment = plan(&scratch, &["--base", "HEAD~1", "-o", "markdown"]);
    assert!(comment.contains("In no stage, left as they are: `t1`, `t2`."), "{comment}");
    let simulated = scratch.run(&["simulate", "--repo", FLEET]);
    assert!(!simulated.text(0).contains("t1"), "{}", simulated.out);

    scratch.run(&ONCE).text(0);
    assert_eq!((value(&scratch, "p1").as_str(), scratch.member("t1").len()), ("1", 0));
    let status = told(&scratch, &["status", "web", "--exit-code"]);
    let gets_nothing = "gets nothing: it is in no stage, and its strategy ignores such clusters";
    for wanted in ["4 of 6 clusters up to date", warned, &format!("t1  snapshot -  {gets_nothing}")] {
        assert!(status.text(0).contains(wanted), "{wanted}: {}", status.out);
    }
    let why = "in no stage, so its strategy leaves it as it is";
    let explained = [told(&scratch, &["explain", "web"]), scratch.run(&["explain", "web", "--repo", FLEET])];
    for explained in explained {
        let lines: Vec<&str> = explained.text(0).lines().filter(|line| line.contains(why)).collect();
        assert!(lines.len() == 2 && lines[0].starts_with("t1"), "{}", explained.out);
    }

    // What they had before, they keep.
    scratch.write("others.yaml", &[cluster("t1", "dev"), cluster("t2", "test")].concat());
    scratch.commit("t1 is in a stage");
    scratch.run(&ONCE).text(0);
    scratch.write("others.yaml", &[cluster("t1", "test"), cluster("t2", "test")].concat());
    scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    scratch.commit("t1 is in none");
    scratch.run(&ONCE).text(0);
    assert_eq!(["d", "t1", "t2"].map(|cluster| value(&scratch, cluster)), ["2", "1", ""]);
    let runs = told(&scratch, &["get", "runs"]);
    assert_eq!(runs.text(0).lines().count(), 4, "no run follows run for them: {}", runs.out);
}

#[test]
fn clusters_first_or_last_have_a_stage_of_their_own() {
    for (in_no_stage, order) in
        [("First", "External by steps: unassigned 2, dev 1, "), ("Last", ", production 2, unassigned 2\n")]
    {
        let scratch = with_others(in_no_stage);
        assert!(plan(&scratch, &[]).contains(order), "{}", plan(&scratch, &[]));
        let comment = plan(&scratch, &["--base", "HEAD~1", "-o", "markdown"]);
        assert!(comment.contains("| `unassigned` | 2: `t1`, `t2` | 1 |"), "{comment}");
        let simulated = scratch.run(&["simulate", "--repo", FLEET]);
        assert!(simulated.text(0).contains("t1"), "{}", simulated.out);
        scratch.run(&ONCE).text(0);
        assert_eq!(["d", "t1", "t2"].map(|cluster| value(&scratch, cluster)), ["1", "1", "1"], "{in_no_stage}");
    }
}

#[test]
fn a_wrong_value_refuses_the_commit() {
    let scratch = with_others("ignore");
    let found = scratch.run(&["validate", FLEET]);
    assert!(
        found.code == 1 && format!("{}{}", found.out, found.err).contains("is not one of Refuse, Ignore, First, Last"),
        "{}{}",
        found.out,
        found.err
    );
}
