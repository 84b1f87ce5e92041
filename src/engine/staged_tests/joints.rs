//! Where two features meet: gates with labels, overrides and clusters that leave, halts with a fix that is no content, ways back with
//! overrides.

use super::*;
use model::runs::WhileEmpty;

/// An override that writes a label on the Namespace on clusters of a stage; `path` may be one that no object has.
fn overriding(stage: &str, path: &str, value: &str) -> (&'static str, String) {
    let op = if path == LABELS { "add" } else { "replace" };
    let text = format!(
        "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourceOverride\nmetadata: {{name: o}}\nspec:\n  \
         placement: {{name: p}}\n  clusterResourceSelectors: [{{group: '', version: v1, kind: Namespace, name: a}}]\n  \
         policy:\n    overrideRules:\n      - clusterSelector: {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{stage: \
         {stage}}}}}}}]}}\n        jsonPatchOverrides: [{{op: {op}, path: {path}, value: {value}}}]\n---\n"
    );
    ("o.yaml", text)
}

/// A commit that empties a stage: its name, its files, where clusters are at the gate, and after it.
type Emptied<'a> = (&'a str, &'a [(&'static str, String)], &'a str, &'a str);

const LABELS: &str = "/metadata/labels";

/// The commit that brings content 1 takes the only cluster out of the stage with the gate.
#[test]
fn m1_an_emptied_stage_keeps_its_gate() {
    let rows: [Emptied<'_>; 4] = [
        ("relabelled", &[("a.yaml", member("a", "two"))], "a0 b0 c0 d0", "a1 b1 c1 d1"),
        ("gone", &[("a.yaml", String::new())], "b0 c0 d0", "b1 c1 d1"),
        ("deselected", &[("p.yaml", fixed(UNGUARDED, "b, c, d"))], "a0? b0 c0 d0", "b1 c1 d1"),
        ("renamed", &[("a.yaml", String::new()), ("e.yaml", member("e", "two"))], "b0 c0 d0 e-", "b1 c1 d1 e1"),
    ];
    for (name, files, at_gate, after) in rows {
        let mut case = Case::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
        let content = [("x.yaml", payload("1"))];
        case.commit(&[files, &content].concat());
        assert_eq!(case.settle(), at_gate, "{name}");
        assert!(case.phases().ends_with("p-1 Waiting"), "{name}: {}", case.phases());
        assert_eq!(case.run("p-1").stages[0].while_empty, Some(WhileEmpty::Asked), "{name}");
        case.say(Verb::Approve, "p-1 one").expect("it waits");
        assert_eq!(case.settle(), after, "{name}");
        assert!(!case.decide(), "{name}: and then silence");
    }
}

#[test]
fn m1_a_stage_that_empties_while_its_gate_waits_keeps_it() {
    let before = STRATEGY.replace("{name: one, ", "{name: one, beforeStageTasks: [{type: Approval}], ");
    let mut case = Case::of(&[("s.yaml", before)]);
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("before it");
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("after it");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.content("1");
    case.settle();
    case.commit(&[("a.yaml", String::new())]);
    assert_eq!(case.settle(), "b0 c0 d0");
    case.say(Verb::Approve, "p-1 one").expect("the gate before the stage");
    assert_eq!(case.settle(), "b0 c0 d0");
    case.say(Verb::Approve, "p-1 one").expect("the gate after it");
    assert_eq!(case.settle(), "b1 c1 d1");
}

/// What concerns later stages alone is asked where their clusters were protected.
#[test]
fn m1_an_override_of_a_later_stage_is_asked() {
    let mut case = Case::rolled_out(&[]);
    case.commit(&[overriding("two", LABELS, "{tier: one}")]);
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Waiting");
    assert_eq!(case.clusters_of("p-0-2"), "b Pending, c Pending");
    case.say(Verb::Approve, "p-0-2 one").expect("it waits");
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    // A joiner gets what its stage runs.
    case.commit(&[("e.yaml", member("e", "two"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0 e0");
    assert!(case.phases().ends_with("p-0-3 Succeeded"), "{}", case.phases());
}

#[test]
fn m1_a_stage_that_nobody_fits_has_no_gate() {
    let mut case = Case::of(&[("a.yaml", String::new())]);
    assert_eq!(case.settle(), "b0 c0 d0");
    case.content("1");
    assert_eq!(case.settle(), "b1 c1 d1");
}

#[test]
fn m1_a_written_run_moves_the_placement_alone() {
    let mut case = Case::of(&[("p.yaml", placement("")), ("r.yaml", run("r", ""))]);
    case.settle();
    case.say(Verb::Approve, "r one").expect("it waits");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    case.commit(&[overriding("two", LABELS, "{tier: one}"), ("e.yaml", member("e", "two"))]);
    assert_eq!(case.settle(), "a0 b0 c0 d0 e-");
    assert_eq!(case.phases(), "r Succeeded");
}

/// A failure counts although its cluster is gone.
#[test]
fn m3_a_halt_outlives_its_cluster() {
    let rows: [(&str, &[(&'static str, String)]); 2] =
        [("gone", &[("a.yaml", String::new())]), ("deselected", &[("p.yaml", fixed(UNGUARDED, "b, c, d"))])];
    for (name, files) in rows {
        let mut case = Case::rolled_out(&[("p.yaml", placement(UNGUARDED))]);
        case.manner("a", Manner::Refuses);
        case.content("1");
        case.settle();
        assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted", "{name}");
        case.commit(files);
        case.settle();
        assert_eq!(case.phases(), "p-0 Succeeded, p-1 Halted", "{name}");
        let why = case.state.record.halted.clone().unwrap_or_default();
        assert!(why.contains("a, which left"), "{name}: {why}");
        case.say(Verb::Retry, "p").expect("a person's word");
        case.settle();
        assert!(case.phases().ends_with("p-1 Waiting"), "{name}: the gate that protected b: {}", case.phases());
        case.say(Verb::Approve, "p-1 one").expect("it waits");
        assert!(case.settle().ends_with("b1 c1 d1"), "{name}: {}", case.places());
    }
}

/// A rollout that has ended without `b`, which is offline.
pub(super) fn without_b() -> Case {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.goes("b", false);
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    assert_eq!(case.settle(), "a1 b0 c1 d1");
    case
}

#[test]
fn m3_a_follow_up_run_counts_what_failed_before() {
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    let mut case = Case::rolled_out(&[("p.yaml", placement(tolerant))]);
    case.content("1");
    case.settle();
    case.say(Verb::Approve, "p-1 one").expect("the gate opens");
    case.manner("b", Manner::Refuses);
    assert_eq!(case.settle(), "a1 b1 c1 d1");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded");
    case.manner("e", Manner::Refuses);
    case.commit(&[("e.yaml", member("e", "two")), ("f.yaml", member("f", "two"))]);
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1 f-", "two have failed, and one may");
    assert!(case.phases().ends_with("p-1-2 Halted"), "{}", case.phases());
    case.manner("b", Manner::Well);
    assert!(case.work(), "b recovers");
    case.decide();
    assert!(case.phases().ends_with("p-1-2 Updating"), "no other decision may follow: {}", case.phases());
    assert_eq!(case.state.record.halted, None);
    assert!(case.settle().ends_with("e1 f1"), "b recovered: {}", case.places());
}

#[test]
fn m3_a_follow_up_run_counts_what_fails_at_the_same_instant() {
    let mut case = without_b();
    for cluster in ["b", "e"] {
        case.manner(cluster, Manner::Slow);
    }
    case.commit(&[("e.yaml", member("e", "two")), ("f.yaml", member("f", "two"))]);
    case.goes("b", true);
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1 f-");
    case.manner("b", Manner::Refuses);
    case.manner("e", Manner::Well);
    assert!(case.work(), "both report");
    case.decide();
    assert_eq!(case.places(), "a1 b1 c1 d1 e1 f-", "f does not begin what b has failed with");
    assert!(case.phases().ends_with("p-1-2 Halted"), "{}", case.phases());
}

#[test]
fn m3_who_returns_does_not_begin_what_failed_in_a_newer_run() {
    let mut case = without_b();
    case.manner("e", Manner::Refuses);
    case.commit(&[("e.yaml", member("e", "two"))]);
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Succeeded, p-1-2 Halted");
    case.goes("b", true);
    assert_eq!(case.settle(), "a1 b0 c1 d1 e1", "e has failed with it");
    case.manner("e", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1", "e recovered");
}

#[test]
fn m3_who_returns_does_not_begin_what_failed_in_a_newer_run_that_is_over() {
    let mut case = without_b();
    case.commit(&[("e.yaml", member("e", "two")), ("f.yaml", member("f", "two"))]);
    case.goes("f", false);
    assert_eq!(case.settle(), "a1 b0 c1 d1 e1 f-");
    assert!(case.phases().ends_with("p-1-2 Succeeded"), "{}", case.phases());
    case.manner("f", Manner::Refuses);
    case.goes("f", true);
    assert_eq!(case.settle(), "a1 b0 c1 d1 e1 f1");
    case.goes("b", true);
    assert_eq!(case.settle(), "a1 b0 c1 d1 e1 f1", "f has failed with it");
    case.say(Verb::Retry, "p").expect("f failed");
    case.manner("f", Manner::Well);
    assert_eq!(case.settle(), "a1 b1 c1 d1 e1 f1");
}

/// What failed because of an override is repaired by another override.
#[test]
fn m4_a_fix_that_is_no_content_begins_again() {
    for cause in [AUTOMATIC, ""] {
        let run = if cause.is_empty() { run("r", "") } else { String::new() };
        let mut case = Case::of(&[
            ("p.yaml", placement(cause)),
            ("r.yaml", run),
            overriding("one", "/metadata/labels/missing", "x"),
        ]);
        case.files.retain(|_, text| !text.is_empty());
        case.settle();
        assert!(case.phases().ends_with("Halted"), "{}", case.phases());
        assert!(!case.decide(), "it does not begin again by itself");
        case.commit(&[overriding("one", LABELS, "{tier: one}")]);
        case.settle();
        assert!(case.phases().ends_with("Waiting"), "{}", case.phases());
    }
}

#[test]
fn f3_a_cluster_whose_override_fails_frees_its_slot() {
    let tolerant = "gitfleet.io/staged-update-strategy: s, gitfleet.io/max-failures: '1'";
    let mut case = Case::rolled_out(&[("p.yaml", placement(tolerant)), ("c.yaml", member("c", "two"))]);
    case.commit(&[overriding("one", "/metadata/labels/missing", "x"), ("x.yaml", payload("1"))]);
    case.decide();
    assert_eq!(case.wake_at, Some(case.now), "no report follows: the decision continues by itself");
    case.settle();
    assert!(case.phases().ends_with("p-1 Waiting"), "{}", case.phases());
}

/// After a rollback nothing of what was rolled back comes by itself.
#[test]
fn m5_a_rollback_takes_overrides_back() {
    let mut case = Case::rolled_out(&[overriding("one", LABELS, "{v: good}")]);
    let overrides = |case: &Case| {
        let binding = case.state.bindings().find(|b| b.cluster == ClusterName::from("a")).expect("it is bound").clone();
        binding.overrides.cluster.iter().map(|id| id.index).collect::<Vec<_>>()
    };
    assert_eq!(overrides(&case), [0]);
    case.commit(&[overriding("one", LABELS, "{v: bad}"), ("x.yaml", payload("1"))]);
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(overrides(&case), [1]);
    case.say(Verb::Rollback, "p").expect("there is a way back");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
    assert_eq!(overrides(&case), [0]);
    assert_eq!(case.later(3600), "a0 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 RolledBack, p-1-rollback Succeeded");
    case.say(Verb::Retry, "p").expect("a person's word");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(overrides(&case), [1]);
}

#[test]
fn m5_a_bad_override_alone_is_taken_back() {
    let mut case = Case::rolled_out(&[overriding("one", LABELS, "{v: good}")]);
    case.commit(&[overriding("one", LABELS, "{v: bad}")]);
    case.settle();
    case.say(Verb::Approve, "p-0-2 one").expect("it waits");
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-0-2 Succeeded");
    let answer = case.say(Verb::Rollback, "p").expect("overrides alone go back");
    assert!(answer.contains("earlier overrides"), "{answer}");
    case.settle();
    let binding = case.state.bindings().find(|b| b.cluster == ClusterName::from("a")).expect("it is bound");
    assert_eq!(binding.overrides.cluster[0].index, 0);
    assert!(!case.decide(), "it stays");
    case.commit(&[overriding("one", LABELS, "{v: better}")]);
    case.settle();
    let binding = case.state.bindings().find(|b| b.cluster == ClusterName::from("a")).expect("it is bound");
    assert_eq!(binding.overrides.cluster[0].index, 2, "another override ends the hold");
}

/// What is held deletes nothing, and so asks about no deletion.
#[test]
fn f4_a_rollback_makes_a_deletion_gate_moot() {
    let many = |values: &[&str]| values.iter().map(|name| map(name)).collect::<String>();
    let mut case = Case::rolled_out(&[("x.yaml", payload("0") + &many(&["m1", "m2", "m3", "m4"]))]);
    case.commit(&[("x.yaml", payload("1"))]);
    case.settle();
    assert!(case.state.record.closed_gate().is_some(), "most of the objects would go");
    case.say(Verb::Rollback, "p").expect("there is a way back");
    case.settle();
    assert_eq!(case.state.record.deletion_gate, None);
    case.say(Verb::Retry, "p").expect("a person's word");
    case.settle();
    assert!(case.state.record.closed_gate().is_some(), "it is asked again");
}

fn map(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: a}}\n")
}
