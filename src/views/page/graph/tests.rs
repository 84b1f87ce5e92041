use super::*;

fn gate(name: &str, words: &str, state: ProgressState) -> GateMark {
    GateMark { name: name.into(), words: words.into(), state }
}

fn stage(name: &str, state: ProgressState, done: usize, total: usize) -> StageBox {
    StageBox {
        name: name.into(),
        before: Vec::new(),
        after: Vec::new(),
        state,
        done,
        total,
        at_once: 1,
        failed: 0,
        failures_allowed: 0,
        now: Vec::new(),
        next: Vec::new(),
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A rollout in its second of three stages.
fn halfway() -> StageGraph {
    let dev = StageBox {
        after: vec![gate("approval", "ann", ProgressState::Done), gate("1h", "", ProgressState::Done)],
        ..stage("dev", ProgressState::Done, 3, 3)
    };
    let staging = StageBox {
        after: vec![gate("approval", "", ProgressState::Queued)],
        at_once: 2,
        failed: 1,
        failures_allowed: 2,
        now: names(&["eu-02", "eu-03"]),
        next: names(&["us-01", "us-02", "us-03", "us-04"]),
        ..stage("staging", ProgressState::Moving, 1, 8)
    };
    let budget = Some(BudgetUse { words: "clusters unavailable".into(), used: 2, allowed: 3 });
    let stages = vec![dev, staging, stage("production", ProgressState::Queued, 0, 40)];
    StageGraph { title: "web, snapshot 3".into(), stages, budget }
}

#[test]
fn gates_and_stages_from_left_to_right() {
    insta::assert_snapshot!(stage_graph(&halfway()).into_string().replace("><", ">\n<"));
}

#[test]
fn everything_is_said_in_words() {
    insta::assert_snapshot!(halfway().words());
}

#[test]
fn foreign_text_stays_text_and_no_style_is_inline() {
    let hostile = "\"><script>alert(1)</script><image href=x onerror=alert(1)>\u{202e}\u{1}";
    let mut view = halfway();
    view.title = hostile.into();
    view.stages[0].name = hostile.into();
    view.stages[0].after = vec![gate(hostile, hostile, ProgressState::WaitingForPerson)];
    view.stages[1].now = names(&[hostile, hostile]);
    let picture = stage_graph(&view).into_string();
    for part in ["<script", "<image", " style=", "\u{202e}", "\u{1}"] {
        assert!(!picture.contains(part), "{part:?}: {picture}");
    }
}

#[test]
fn many_names_are_counted() {
    for (list, chars, wanted) in [
        (&["eu-01"][..], 34, "eu-01"),
        (&["eu-01", "eu-02"], 34, "eu-01, eu-02"),
        (&["eu-01", "eu-02", "eu-03"], 16, "eu-01, eu-02 +1"),
        (&["a-name-that-is-too-long-for-it", "b"], 10, "a-name-th… +1"),
        (&[], 10, ""),
    ] {
        assert_eq!(fitting(&names(list), chars), wanted);
    }
}

#[test]
fn a_picture_has_a_limited_size() {
    let mut view = halfway();
    view.stages = vec![stage("many", ProgressState::Moving, 400, 1000); 100];
    let picture = stage_graph(&view).into_string();
    assert!(picture.len() < 64 * 1024, "{}", picture.len());
    assert!(picture.contains("60 more stages."));
}

#[test]
fn wrong_numbers_draw_no_wrong_picture() {
    let mut view = halfway();
    view.stages = vec![
        StageBox { failed: 9, ..stage("odd", ProgressState::Failed, 9, 4) },
        stage("none", ProgressState::Skipped, 0, 0),
    ];
    view.budget = Some(BudgetUse { words: "clusters unavailable".into(), used: 5, allowed: 0 });
    let picture = stage_graph(&view).into_string();
    assert!(picture.contains("no clusters") && picture.contains("5 of 0 allowed"), "{picture}");
}
