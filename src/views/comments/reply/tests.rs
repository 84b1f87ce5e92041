use super::*;
use crate::comments::fixtures::{commit, voice};

#[test]
fn short_answers() {
    assert_eq!(mistaken("ann", "it is wrong"), "❌ `ann`: nothing was done, because it is wrong.\n");
    assert_eq!(pointer(12), "This change is rolled out with #12; follow it there.\n");
    assert_eq!(issue_title(&commit(), Some("Bigger pods")), "Rollout of abc1234: Bigger pods");
    assert_eq!(issue_title(&commit(), Some(&"x".repeat(300))).chars().count(), TITLE_CHARS_MAX);
}

#[test]
fn a_commit_that_is_refused() {
    let error = InputError {
        path: "web/a.yaml".into(),
        line: 7,
        object: Some("ConfigMap web/a".into()),
        field: Some("data.x".into()),
        message: "is 1, must be a text".into(),
        hint: Some("put it in quotes".into()),
    };
    let text = refused_commit(&commit(), &vec![error; 21]);
    assert!(
        text.contains("- `web/a.yaml:7`: `ConfigMap web/a`, `data.x`, is 1, must be a text; put it in quotes\n"),
        "{text}"
    );
    assert!(text.ends_with("\nand 1 more\n"), "{text}");
}

#[test]
fn a_history_that_was_rewritten() {
    let text = held_rewrite("main", &CommitId::new("1111111aaa"), &commit(), &voice());
    assert!(text.contains("\n```text\n/resume sha=abc1234\n```\n"), "{text}");
    let text = held_rewrite("main", &CommitId::new("1111111aaa"), &commit(), &CommandStyle::default());
    assert!(text.contains("\n```text\n/gitfleet resume sha=abc1234\n```\n"), "{text}");
}
