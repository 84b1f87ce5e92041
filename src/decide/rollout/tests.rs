//! Tables for rolling updates: the worked examples, the differences, and the limits as properties.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use model::api::annotations::{MAX_FAILURES, PROGRESS_DEADLINE};
use model::api::placement::RollingUpdateConfig;
use model::records::BindingState;

/// A binding from words: name, state, then any of `ready`, `failed`, `down`, `outdated`, `deleting`, `offline`, `diff`, `untold`, `in=SECONDS`
/// and `on=CLUSTER`.
fn view(line: &str) -> BindingView {
    let words: Vec<&str> = line.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    BindingView {
        had_before: false,
        name: words[0].to_owned(),
        cluster: option("on=").unwrap_or(words[0]).into(),
        state: match words[1] {
            "Scheduled" => BindingState::Scheduled,
            "Bound" => BindingState::Bound,
            _ => BindingState::Unscheduled,
        },
        deleting: has("deleting"),
        ready: if has("ready") { Readiness::Ready } else { Readiness::NotYet(None) },
        failed: has("failed"),
        undelivered: has("undelivered"),
        diff_reported: has("diff"),
        seen_unavailable: has("down"),
        assigned: !has("untold"),
        outdated: has("outdated"),
        deferred: has("offline"),
        changes_in: option("in=").map(|seconds| Duration::from_secs(seconds.parse().unwrap())),
    }
}

fn limits(target: usize, max_unavailable: usize, max_surge: usize) -> Limits {
    let config = RollingUpdateConfig::default();
    let defaults = Limits::resolve(Some(&config), &BTreeMap::new(), target).unwrap();
    Limits { max_unavailable, max_surge, ..defaults }
}

/// Rolls and writes the answer as text: `update a b; bind c; remove d; stale e`, empty lists left out.
fn rolled(limits: &Limits, lines: &[&str]) -> String {
    let views: Vec<BindingView> = lines.iter().map(|line| view(line)).collect();
    let roll = roll(&views, &BTreeSet::new(), limits);
    let lists = [
        ("update", roll.update),
        ("bind", roll.bind),
        ("remove", roll.remove),
        ("stale", roll.stale),
        ("deferred", roll.deferred),
    ];
    let text = |(name, list): (&str, Vec<String>)| (!list.is_empty()).then(|| format!("{name} {}", list.join(" ")));
    lists.into_iter().filter_map(text).collect::<Vec<_>>().join("; ")
}

#[test]
fn example_17_percentages_round_up() {
    for (target, expected) in [(3, 1), (4, 1), (5, 2), (10, 3), (0, 0)] {
        let limits = Limits::resolve(None, &BTreeMap::new(), target).unwrap();
        assert_eq!((limits.max_unavailable, limits.max_surge), (expected, expected), "25% of {target}");
    }
}

#[test]
fn example_18_a_quarter_moves_first() {
    let limits = limits(10, 3, 3);
    let lines: Vec<String> = (0..10).map(|n| format!("b{n} Bound ready outdated")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(rolled(&limits, &lines), "update b0 b1 b2; stale b3 b4 b5 b6 b7 b8 b9");
    let next = [&["b0 Bound", "b1 Bound", "b2 Bound"], &lines[3..]].concat();
    assert_eq!(rolled(&limits, &next), "stale b3 b4 b5 b6 b7 b8 b9");
}

#[test]
fn example_19_only_what_failed_moves_past_the_limit() {
    let lines =
        ["a Bound outdated", "b Bound failed outdated", "c Bound outdated", "d Bound outdated", "e Bound outdated"];
    assert_eq!(rolled(&limits(5, 1, 2), &lines), "update b; stale a c d e");
}

#[test]
fn example_20_surge_binds_and_nothing_is_removed() {
    let lines = ["c1 Unscheduled deleting", "c2 Unscheduled", "c3 Scheduled", "c4 Scheduled"];
    assert_eq!(rolled(&limits(2, 0, 1), &lines), "bind c3; stale c4");
}

#[test]
fn what_was_never_told_anything_goes_at_once_and_holds_up_nobody() {
    let lines =
        ["a Bound ready", "b Scheduled", "c Scheduled", "x Unscheduled untold", "y Unscheduled untold deleting"];
    assert_eq!(rolled(&limits(3, 2, 1), &lines), "bind b c; remove x");
    assert_eq!(rolled(&limits(3, 0, 0), &lines), "bind b c; remove x");
}

#[test]
fn example_21_what_is_being_removed_counts_as_gone() {
    assert_eq!(rolled(&limits(2, 2, 0), &["c1 Bound deleting ready", "c2 Bound ready outdated"]), "update c2");
}

#[test]
fn example_22_updates_and_new_clusters_have_limits_of_their_own() {
    let lines = ["c1 Bound deleting ready", "c2 Bound ready outdated", "c3 Scheduled", "c4 Scheduled"];
    assert_eq!(rolled(&limits(4, 4, 0), &lines), "update c2; bind c3 c4");
}

#[test]
fn example_23_no_unavailability_allowed_blocks_updates_in_place() {
    assert_eq!(rolled(&limits(2, 0, 1), &["a Bound ready outdated", "b Bound ready outdated"]), "stale a b");
}

#[test]
fn example_25_a_second_change_waits_for_what_is_in_progress() {
    let ready: Vec<String> = (3..10).map(|n| format!("b{n} Bound ready outdated")).collect();
    let with =
        |first: [&'static str; 3]| -> Vec<&str> { first.into_iter().chain(ready.iter().map(String::as_str)).collect() };
    let limits = limits(10, 3, 3);
    let in_progress = with(["b0 Bound outdated", "b1 Bound outdated", "b2 Bound outdated"]);
    assert_eq!(rolled(&limits, &in_progress), "stale b0 b1 b2 b3 b4 b5 b6 b7 b8 b9");
    let one_arrived = with(["b0 Bound ready outdated", "b1 Bound outdated", "b2 Bound outdated"]);
    assert_eq!(rolled(&limits, &one_arrived), "update b0; stale b1 b2 b3 b4 b5 b6 b7 b8 b9");
    let failed = with(["b0 Bound failed outdated", "b1 Bound failed outdated", "b2 Bound failed outdated"]);
    assert_eq!(rolled(&limits, &failed), "update b0 b1 b2; stale b3 b4 b5 b6 b7 b8 b9");
}

#[test]
fn w2_a_fix_reaches_the_broken_first_and_waits_for_none_of_them() {
    let ready: Vec<String> = (3..10).map(|n| format!("b{n} Bound ready outdated")).collect();
    let broken = ["b0 Bound down outdated", "b1 Bound down outdated", "b2 Bound down outdated"];
    let lines: Vec<&str> = broken.into_iter().chain(ready.iter().map(String::as_str)).collect();
    assert_eq!(rolled(&limits(10, 3, 3), &lines), "update b0 b1 b2; stale b3 b4 b5 b6 b7 b8 b9");
    let away = ["a Bound down outdated offline", "b Bound ready"];
    assert_eq!(rolled(&limits(2, 1, 0), &away), "stale a; deferred a");
    let halted = ["a Bound down outdated", "b Bound failed"];
    assert_eq!(rolled(&limits(2, 1, 0), &halted), "stale a", "what failed elsewhere is no repair");
}

#[test]
fn what_moves_when() {
    let rows: &[(&str, Limits, &[&str], &str)] = &[
        ("nothing to do", limits(2, 1, 1), &["a Bound ready", "b Bound ready"], ""),
        (
            "removals before updates",
            limits(2, 1, 0),
            &["a Bound ready outdated", "b Unscheduled ready", "c Bound ready"],
            "update a; remove b",
        ),
        (
            "a removal that is not ready takes quota too",
            limits(2, 1, 0),
            &["a Bound ready outdated", "b Unscheduled", "c Bound ready"],
            "remove b; stale a",
        ),
        (
            "a first rollout surges",
            limits(4, 1, 1),
            &["a Scheduled", "b Scheduled", "c Scheduled", "d Scheduled", "e Scheduled", "f Scheduled"],
            "bind a b c d e; stale f",
        ),
        (
            "failed clusters free their surge",
            limits(1, 1, 0),
            &["a Bound failed outdated", "b Scheduled"],
            "update a; bind b",
        ),
        (
            "what is being removed moves no more",
            limits(2, 2, 2),
            &["a Bound ready outdated deleting", "b Scheduled deleting"],
            "",
        ),
        (
            "a cluster with an older binding waits for it",
            limits(2, 2, 2),
            &["a Unscheduled deleting on=x", "b Scheduled on=x", "c Scheduled"],
            "bind c; stale b",
        ),
    ];
    for (name, limits, lines, expected) in rows {
        assert_eq!(rolled(limits, lines), *expected, "{name}");
        let mut reversed = lines.to_vec();
        reversed.reverse();
        assert_eq!(rolled(limits, &reversed), *expected, "{name}, reversed");
    }
}

#[test]
fn clusters_out_of_reach_are_skipped() {
    let rows: &[(&str, Limits, &[&str], &str)] = &[
        (
            "neither candidate nor unavailable",
            limits(4, 1, 1),
            &[
                "a Bound ready outdated offline",
                "b Bound ready outdated",
                "c Bound ready outdated",
                "d Bound ready outdated",
            ],
            "update b; stale a c d; deferred a",
        ),
        (
            "also where it was not ready any more",
            limits(3, 1, 1),
            &["a Bound failed outdated offline", "b Bound ready outdated", "c Bound ready outdated"],
            "update b; stale a c; deferred a",
        ),
        (
            "not bound, and no room for one more",
            limits(2, 1, 0),
            &["a Scheduled offline", "b Scheduled", "c Scheduled"],
            "bind b; stale a c; deferred a",
        ),
        (
            "not removed, and no quota used",
            limits(2, 1, 0),
            &["a Unscheduled ready offline", "b Bound ready outdated", "c Bound ready"],
            "update b",
        ),
        (
            "lost after its start, it uses budget",
            limits(2, 1, 0),
            &["a Bound offline", "b Bound ready outdated"],
            "stale b",
        ),
        (
            "lost in flight and superseded likewise",
            limits(2, 1, 0),
            &["a Bound outdated offline", "b Bound ready outdated"],
            "stale a b; deferred a",
        ),
        ("done, it counts as it is", limits(2, 1, 0), &["a Bound ready offline", "b Bound ready outdated"], "update b"),
    ];
    for (name, limits, lines, expected) in rows {
        assert_eq!(rolled(limits, lines), *expected, "{name}");
    }
}

#[test]
fn failures_halt() {
    let tolerant = Limits { max_failures: 1, ..limits(4, 2, 1) };
    let strict = limits(4, 2, 1);
    let one = [
        "a Bound failed",
        "b Bound ready outdated",
        "c Scheduled",
        "d Bound ready",
        "e Unscheduled ready",
        "f Bound ready",
    ];
    assert_eq!(rolled(&strict, &one), "remove e; stale b c");
    assert_eq!(rolled(&tolerant, &one), "update b; bind c; remove e");
    // The fix reaches the failed ones of the older snapshot, and those that fail with it halt it again.
    let fix =
        ["a Bound failed outdated", "b Bound failed outdated", "c Bound ready outdated", "d Bound ready outdated"];
    assert_eq!(rolled(&strict, &fix), "update a b; stale c d");
    let again = ["a Bound failed", "b Bound failed outdated", "c Bound ready outdated", "d Bound ready outdated"];
    assert_eq!(rolled(&strict, &again), "update b; stale c d");

    // One that was taken off and is picked again would get what it failed with; another gets something else.
    let picked_again = BindingView { had_before: true, ..view("b Scheduled untold outdated") };
    let views = [view("a Bound failed"), picked_again, view("c Bound ready outdated")];
    assert_eq!(roll(&views, &BTreeSet::from(["b".into(), "c".into()]), &strict).update, ["c"]);

    let views: Vec<BindingView> = (0..7).map(|n| view(&format!("b{n} Bound failed"))).collect();
    assert_eq!(
        roll(&views, &BTreeSet::new(), &strict).halted.unwrap(),
        "clusters failed: 7 (b0, b1, b2, b3, b4 and 2 more), allowed: 0"
    );
    assert_eq!(roll(&views[..1], &BTreeSet::new(), &tolerant).halted, None);
}

#[test]
fn the_earliest_instant_wakes() {
    let views = [view("a Bound in=40"), view("b Bound ready"), view("c Unscheduled in=30")];
    assert_eq!(roll(&views, &BTreeSet::new(), &limits(2, 1, 1)).wait, Some(Duration::from_secs(30)));
    assert_eq!(roll(&views[1..2], &BTreeSet::new(), &limits(2, 1, 1)).wait, None);
}

#[test]
fn limits_are_read() {
    let resolve = |config: Value, annotations: Value, target| {
        let config: RollingUpdateConfig = serde_json::from_value(config).unwrap();
        Limits::resolve(Some(&config), &serde_json::from_value(annotations).unwrap(), target)
    };
    let given = resolve(
        json!({"maxUnavailable": 1, "maxSurge": "50%", "unavailablePeriodSeconds": 5}),
        json!({"gitfleet.io/progress-deadline": "1h30m", "gitfleet.io/max-failures": "50%"}),
        3,
    );
    let expected = Limits {
        target: 3,
        max_unavailable: 1,
        max_surge: 2,
        max_failures: 1,
        unavailable_period: Duration::from_secs(5),
        progress_deadline: Duration::from_mins(90),
    };
    assert_eq!(given.unwrap(), expected);
    let defaults = resolve(json!({}), json!({}), 4).unwrap();
    assert_eq!((defaults.max_failures, defaults.progress_deadline), (0, Duration::from_mins(10)));
    assert_eq!(defaults.unavailable_period, Duration::from_mins(1));
    assert_eq!(resolve(json!({}), json!({"gitfleet.io/max-failures": "3"}), 4).unwrap().max_failures, 3);

    let rows = [
        (json!({"maxUnavailable": "many"}), json!({}), "spec.strategy.rollingUpdate.maxUnavailable"),
        (json!({"maxSurge": -1}), json!({}), "spec.strategy.rollingUpdate.maxSurge"),
        (json!({}), json!({"gitfleet.io/max-failures": "101%"}), MAX_FAILURES),
        (json!({}), json!({"gitfleet.io/progress-deadline": "soon"}), PROGRESS_DEADLINE),
        (json!({}), json!({"gitfleet.io/progress-deadline": "-5m"}), PROGRESS_DEADLINE),
        (json!({}), json!({"gitfleet.io/progress-deadline": "0s"}), PROGRESS_DEADLINE),
    ];
    for (config, annotations, field) in rows {
        assert_eq!(resolve(config, annotations, 4).unwrap_err().field, field);
    }
}

fn any_view() -> impl Strategy<Value = BindingView> {
    let state = prop::sample::select(vec![BindingState::Scheduled, BindingState::Bound, BindingState::Unscheduled]);
    (state, any::<[bool; 6]>(), 0..10_u8).prop_map(
        |(state, [deleting, ready, failed, outdated, diff, down], offline)| BindingView {
            had_before: false,
            name: String::new(),
            cluster: "x".into(),
            state,
            deleting: deleting && state != BindingState::Scheduled,
            ready: if ready && state != BindingState::Scheduled { Readiness::Ready } else { Readiness::NotYet(None) },
            failed: failed && !ready,
            undelivered: false,
            diff_reported: diff,
            seen_unavailable: down && !ready,
            assigned: ready || failed || down,
            outdated,
            deferred: offline == 0,
            changes_in: None,
        },
    )
}

proptest! {
    /// Whatever the world looks like: if anything ready is let go, enough stays ready.
    #[test]
    fn ready_clusters_are_let_go_within_the_limit(
        mut views in prop::collection::vec(any_view(), 0..20), max_unavailable in 0..6_usize, max_surge in 0..6_usize,
        max_failures in 0..3_usize,
    ) {
        for (n, view) in views.iter_mut().enumerate() {
            view.name = format!("b{n:02}");
            view.cluster = view.name.as_str().into();
        }
        let targeted = |v: &&BindingView| v.state != BindingState::Unscheduled;
        let target = views.iter().filter(targeted).count();
        let limits = Limits { max_failures, ..limits(target, max_unavailable, max_surge) };
        let roll = roll(&views, &BTreeSet::new(), &limits);

        let taken = |v: &&BindingView| roll.update.contains(&v.name) || roll.remove.contains(&v.name);
        let is_ready = |v: &&BindingView| v.ready == Readiness::Ready;
        if views.iter().filter(is_ready).any(|v| taken(&v)) {
            // Those that cannot be reached, except where something of ours is on its way, are on neither side.
            let counted = |v: &&BindingView| {
                !v.deferred || (v.state == BindingState::Bound && (!v.outdated || (!is_ready(v) && !v.failed)))
            };
            let has_failed = |v: &&BindingView| v.state == BindingState::Bound && !v.deleting && !v.outdated && v.failed;
            // Failures within the limit use no budget.
            let failed = views.iter().filter(has_failed);
            let tolerated = if failed.clone().count() > max_failures { 0 } else { failed.filter(|v| !is_ready(v)).count() };
            let needed = views.iter().filter(targeted).filter(counted).count();
            let needed = needed.saturating_sub(max_unavailable + tolerated);
            let stays = views.iter().filter(is_ready).filter(counted).filter(|v| !v.deleting && !taken(v)).count();
            prop_assert!(stays >= needed, "{stays} stay ready, {needed} needed");
        }
        for view in views.iter().filter(|v| v.deferred || v.deleting) {
            prop_assert!(!taken(&view) && !roll.bind.contains(&view.name), "{view:?}");
        }
        if roll.halted.is_some() {
            prop_assert!(roll.bind.is_empty());
            prop_assert!(views.iter().filter(|v| roll.update.contains(&v.name)).all(|v| v.failed && v.outdated));
        }
    }

    /// A rollout to instantly or slowly healthy clusters ends, and never has more than the limit in flight.
    #[test]
    fn rollouts_end(clusters in 1..15_usize, max_unavailable in 1..5_usize, slow in prop::collection::vec(any::<bool>(), 1..60)) {
        let mut views: Vec<BindingView> = (0..clusters).map(|n| view(&format!("b{n:02} Bound ready outdated"))).collect();
        let limits = limits(clusters, max_unavailable, 0);
        let mut slow = slow.into_iter();
        for _ in 0..200 {
            let roll = roll(&views, &BTreeSet::new(), &limits);
            for view in &mut views {
                if roll.update.contains(&view.name) {
                    (view.outdated, view.ready) = (false, Readiness::NotYet(None));
                }
            }
            let in_flight = views.iter().filter(|v| v.ready != Readiness::Ready).count();
            prop_assert!(in_flight <= max_unavailable);
            for view in &mut views {
                if view.ready != Readiness::Ready && !slow.next().unwrap_or(false) {
                    view.ready = Readiness::Ready;
                }
            }
        }
        prop_assert!(views.iter().all(|v| !v.outdated && v.ready == Readiness::Ready));
    }
}
