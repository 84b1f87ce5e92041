use pulldown_cmark::{Event, Options, Parser, Tag};

use super::*;
use crate::comments::fixtures::{HOSTILE, commit, gate, halted, voice, waiting, with_text_everywhere};
use crate::comments::notice::{notice, to_copy};
use crate::comments::reply;
use model::chat::Chat;
use model::chat::grammar::parse;
use model::id::PlacementKey;
use model::manifest::InputError;

fn report(placements: Vec<Progress>) -> RolloutReport {
    let subject = Some("Bigger pods".to_owned());
    RolloutReport { commit: Some(commit()), subject, placements, asks: 0, help: false, voice: voice() }
}

#[test]
fn a_gate_waits() {
    insta::assert_snapshot!(rollout_comment(&report(vec![waiting()])), @r"
    **Rollout of `abc1234`** (Bigger pods): 1 placement waits at canary, 3/4 clusters

    #### Needs you

    ✋ **`web`, stage `canary`**: waits for approval before the next stage

    Waits since 2026-03-01 12:01 UTC; digest `0a1b2c3d4e5f`; 1 of 2 approvals; `team:org/release` may approve.

    ```text
    /approve canary sha=abc1234
    ```

    | placement | staging | canary | production | clusters |
    |---|---|---|---|---|
    | `web` | ✅ 1/1 | ✋ 2/2 | ⚪ 0/1 | ✋ 3/4, waits at canary |

    <details><summary>web: stages and clusters</summary>

    | stage | clusters | state | who and when |
    |---|---|---|---|
    | `staging` | 1/1 | ✅ done | approved by `bob`, ended 2026-03-01 12:01 UTC |
    | `canary` | 2/2 | ✋ waits for approval before the next stage | since 2026-03-01 12:01 UTC |
    | `production` | 0/1 | ⚪ not begun |  |

    </details>
    ");
}

#[test]
fn a_stage_failed_and_another_placement_is_superseded() {
    let superseded = Progress {
        placement: PlacementKey::namespaced("shop", "api"),
        state: ProgressState::Superseded { by: CommitId::new("def5678abc") },
        ..waiting()
    };
    insta::assert_snapshot!(rollout_comment(&report(vec![halted(), superseded])), @r"
    **Rollout of `abc1234`** (Bigger pods): 1 placement failed, 1 superseded, 2/4 clusters

    #### Needs you

    ❌ **`web`, stage `canary`**: failed: 1 cluster of stage canary failed

    - `north`: ConfigMap web/a: &lt;field&gt; is immutable

    ```text
    /retry placement=web sha=abc1234
    ```

    ```text
    /rollback placement=web sha=abc1234
    ```

    | placement | staging | canary | production | clusters |
    |---|---|---|---|---|
    | `web` | ✅ 1/1 | ❌ 1/2 | ⚪ 0/1 | ❌ 2/4, failed: 1 cluster of stage canary failed |
    | `shop/api` | | | | ⏩ superseded by def5678 |

    <details><summary>web: stages and clusters</summary>

    | stage | clusters | state | who and when |
    |---|---|---|---|
    | `staging` | 1/1 | ✅ done | approved by `bob`, ended 2026-03-01 12:01 UTC |
    | `canary` | 1/2 | ❌ failed: 1 cluster of stage canary failed | since 2026-03-01 12:01 UTC |
    | `production` | 0/1 | ⚪ not begun |  |

    | cluster | state | message |
    |---|---|---|
    | `north` | ❌ failed | ConfigMap web/a: &lt;field&gt; is immutable |

    </details>
    ");
}

#[test]
fn deletions_wait() {
    let mut way = waiting();
    way.stages.clear();
    let what = vec!["more than half of the objects would go".into(), "east: 1 object: ConfigMap web/a".into()];
    way.deletions = Some(model::progress::GateProgress { what, approvers: None, ..gate("deletion") });
    insta::assert_snapshot!(notices(&way, &voice()), @r"
    ✋ **`web`**: deletions wait for approval

    Waits since 2026-03-01 12:01 UTC; digest `0a1b2c3d4e5f`; 1 of 2 approvals; `permission:write` may approve.

    - more than half of the objects would go
    - east: 1 object: ConfigMap web/a

    ```text
    /approve deletion sha=abc1234
    ```

    To approve, write this line in a new comment, or react to this comment with 🚀.
    ");
}

fn notices(way: &Progress, voice: &CommandStyle) -> String {
    needs(way).into_iter().map(|need| notice(&commit(), &[(way, need)], 1, false, voice)).collect()
}

#[test]
fn each_gate_is_asked_for_in_a_comment_of_its_own_that_says_how() {
    let mut way = waiting();
    way.deletions = Some(gate("deletion"));
    // whether comments count, whether reviews do, what is said of the stage, what of the deletions
    for (comments_count, reviews_count, stage, deletion) in [
        (true, false, "write this line in a new comment, or react to this comment with 🚀.", "comment with 🚀."),
        (true, true, "with 🚀, or approve this pull request in a review.", "or react to this comment with 🚀."),
        (
            false,
            false,
            "To approve, react to this comment with 🚀. The line in a comment counts only where",
            "🚀. The line",
        ),
        (
            false,
            true,
            "with 🚀, or approve this pull request in a review. The line",
            "react to this comment with 🚀. The",
        ),
    ] {
        let voice = CommandStyle { comments_count, reviews_count, ..voice() };
        let texts: Vec<String> =
            needs(&way).into_iter().map(|need| notice(&commit(), &[(&way, need)], 1, false, &voice)).collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0].contains(stage) && !texts[0].contains("deletion"), "{}", texts[0]);
        assert!(texts[1].contains(deletion) && !texts[1].contains("review"), "{}", texts[1]);
    }
}

#[test]
fn what_other_sources_have_a_part_in_is_not_asked_for_by_comment() {
    let voice = CommandStyle { made_elsewhere: ["platform".to_owned()].into(), ..voice() };
    let way = waiting();
    let all: Vec<(&Progress, Need<'_>)> = needs(&way).into_iter().map(|need| (&way, need)).collect();
    let texts = [
        notice(&commit(), &all, all.len(), false, &voice),
        rollout_comment(&RolloutReport {
            commit: Some(commit()),
            placements: vec![way.clone()],
            asks: 1,
            voice,
            ..RolloutReport::default()
        }),
    ];
    for text in texts {
        let why = "Not approved by comment: commits of other sources (platform) are part of what waits";
        assert!(text.contains(why) && !text.contains("/approve") && !text.contains('🚀'), "{text}");
    }
}

#[test]
fn placements_that_wait_together_are_asked_for_once() {
    let named = |name: &str| Progress { placement: PlacementKey::cluster_scoped(name), ..waiting() };
    let mut ways: Vec<Progress> = ["api", "search"].map(named).into();
    ways[1].deletions = Some(gate("deletion"));
    let all: Vec<(&Progress, Need<'_>)> =
        ways.iter().flat_map(|way| needs(way).into_iter().map(move |need| (way, need))).collect();
    insta::assert_snapshot!(notice(&commit(), &all, all.len(), true, &voice()), @r"
    ✋ **2 placements wait at stage `canary`**: `api`, `search`

    The first waits since 2026-03-01 12:01 UTC; `team:org/release` may approve. For all of them:

    ```text
    /approve canary sha=abc1234
    ```

    <details><summary>What exactly is approved</summary>

    | placement | waits | digest | approvals | may approve |
    |---|---|---|---|---|
    | `api` | waits for approval before the next stage | `0a1b2c3d4e5f` | 1 of 2 | `team:org/release` |
    | `search` | waits for approval before the next stage | `0a1b2c3d4e5f` | 1 of 2 | `team:org/release` |

    </details>

    ✋ **`search`**: deletions wait for approval

    Waits since 2026-03-01 12:01 UTC; digest `0a1b2c3d4e5f`; 1 of 2 approvals; `team:org/release` may approve.

    ```text
    /approve deletion placement=search sha=abc1234
    ```

    To approve, write one of these lines in a new comment, or react to this comment with 🚀, which approves all of it but deletions.
    ");
    let deletions: Vec<_> =
        all.into_iter().filter(|(_, need)| matches!(need, Need::Gate { stage: None, .. })).collect();
    assert_eq!(
        ways_of(&deletions, 2),
        "To approve, write this line in a new comment.",
        "it asked for something else before"
    );
    assert!(ways_of(&deletions, 1).contains("react to this comment with 🚀."));
}

fn ways_of(needs: &[(&Progress, Need<'_>)], asks: usize) -> String {
    ways(needs, asks, &voice()).unwrap_or_default()
}

#[test]
fn the_moment_is_in_the_first_line() {
    let text = stamped("**Rollout**: 1 placement done\n\nmore\n", crate::fixtures::at(90));
    assert_eq!(text, "**Rollout**: 1 placement done, as of 12:01 UTC on 2026-03-01\n\nmore\n");
}

#[test]
fn lines_to_copy_are_lines_of_ours() {
    let lines = ["/approve canary placement=shop/api sha=abc1234", "/approve `x`", "/approve @org/all", "/a\n```"];
    assert_eq!(to_copy(&lines), format!("\n```text\n{}\n```\n", lines[0]));
}

#[test]
fn all_are_superseded() {
    let superseded = Progress { state: ProgressState::Superseded { by: CommitId::new("def5678abc") }, ..waiting() };
    insta::assert_snapshot!(rollout_comment(&report(vec![superseded])), @"⏩ **Rollout of `abc1234`** (Bigger pods): superseded by def5678");
}

#[test]
fn markers() {
    let first = marker("0af7-->", 12);
    assert_eq!(first, "<!-- gitfleet:v1 id=0af7 seq=12 -->\n");
    let rows = [
        ("ours", "<!-- gitfleet:v1 id=0af7 seq=12 -->\ntext", Some("0af7")),
        ("later in the text", "text\n<!-- gitfleet:v1 id=0af7 seq=12 -->", None),
        ("no number", "<!-- gitfleet:v1 id=0af7 seq=x -->", None),
        ("no id", "<!-- gitfleet:v1 id= seq=1 -->", None),
        ("another version", "<!-- gitfleet:v2 id=0af7 seq=1 -->", None),
        ("something in between", "<!-- gitfleet:v1 id=0a>7 seq=1 -->", None),
    ];
    for (name, body, wanted) in rows {
        assert_eq!(marker_id(body), wanted, "{name}");
    }
}

/// Whatever is said in a comment of ours, it is text or code: nothing of another's becomes markup, and what is opened is closed.
fn is_tame(text: &str, what: &str) {
    let (mut open, mut html) = (0_i32, String::new());
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::InlineHtml(_) | Event::Start(Tag::Link { .. } | Tag::Image { .. }) => unreachable!("{what}: {text}"),
            Event::Html(part) => html.push_str(&part),
            Event::Start(_) => open += 1,
            Event::End(_) => open -= 1,
            _ => {}
        }
    }
    assert_eq!(open, 0, "{what}");
    let tags = html.match_indices('<').count();
    let ours = ["<details>", "</details>", "<summary>", "</summary>"];
    let known: usize = ours.iter().map(|tag| html.matches(tag).count()).sum();
    assert_eq!(
        (tags, html.matches("<details>").count()),
        (known, html.matches("</details>").count()),
        "{what}: {html}"
    );
    for (at, _) in text.match_indices('@') {
        assert!(text[at + 1..].starts_with('\u{200b}'), "{what}: {text}");
    }
    let is_ours = |line: &str| line.starts_with("/approve canary sha=");
    assert!(!text.lines().any(|line| line.trim_start().starts_with('/') && !is_ours(line)), "{what}: {text}");
    assert_eq!(marker_id(text), None, "{what}");
    assert!(!text.contains('\u{202e}'), "{what}");
}

/// Every text we write with foreign words.
fn all_texts(hostile: &str) -> Vec<(&'static str, String)> {
    let states = [ProgressState::Failed, ProgressState::WaitingForPerson, ProgressState::Moving, ProgressState::Done];
    let mut texts = Vec::new();
    let commit = CommitId::new(hostile);
    for state in states {
        let way = with_text_everywhere(hostile, &state);
        let (subject, help) = (Some(hostile.to_owned()), true);
        let voice = CommandStyle { approvers: hostile.into(), ..voice() };
        let other = with_text_everywhere(hostile, &state);
        let all: Vec<(&Progress, Need<'_>)> =
            [&way, &other].into_iter().flat_map(|way| needs(way).into_iter().map(move |need| (way, need))).collect();
        texts.extend(all.iter().map(|need| ("notice", notice(&commit, &[*need], 1, true, &voice))));
        texts.push(("notice of several", notice(&commit, &all, all.len(), true, &voice)));
        let placements = vec![way, waiting(), waiting()];
        texts.push((
            "rollout",
            rollout_comment(&RolloutReport { commit: Some(commit.clone()), subject, placements, asks: 9, help, voice }),
        ));
    }
    let error = InputError {
        path: hostile.into(),
        line: 3,
        object: Some(hostile.into()),
        field: Some(hostile.into()),
        message: hostile.into(),
        hint: Some(hostile.into()),
    };
    let superseded = Progress { state: ProgressState::Superseded { by: commit.clone() }, ..waiting() };
    texts.extend([
        ("mistaken", reply::mistaken(hostile, "it is wrong")),
        ("issue", reply::issue_body(&commit, hostile, &voice())),
        ("refused commit", reply::refused_commit(&commit, &[error])),
        ("held rewrite", reply::held_rewrite(hostile, &commit, &commit, &voice())),
        ("superseded", rollout_comment(&RolloutReport { subject: Some(hostile.into()), ..report(vec![superseded]) })),
    ]);
    texts
}

#[test]
fn nothing_foreign_does_anything() {
    for hostile in HOSTILE {
        for (what, text) in all_texts(hostile) {
            is_tame(&text, what);
            for short in [true, false] {
                assert_eq!(parse(&text, "fleetbot", short), Chat::Silence, "{what}: {text}");
            }
        }
    }
}

#[test]
fn long_rollouts_fit_and_keep_what_matters() {
    let long = "a word | and another ".repeat(40);
    let mut way = with_text_everywhere(&long, &ProgressState::Done);
    for stage in &mut way.stages {
        stage.clusters = (0..20).map(|_| stage.clusters[0].clone()).collect();
        stage.gate = None;
    }
    way.stages[2].state = ProgressState::Moving;
    let many: Vec<Progress> = (0..60).map(|_| way.clone()).chain([waiting()]).collect();
    let text = rollout_comment(&RolloutReport { help: true, ..report(many) });
    assert!(text.chars().count() <= COMMENT_CHARS_MAX, "{}", text.chars().count());
    is_tame(&text, "long");
    assert!(text.ends_with(SHORTENED));

    let mut short = vec![way.clone(), waiting()];
    short[0].stages[1].state = ProgressState::Done;
    let text = rollout_comment(&report(short));
    assert!(text.contains("\n/approve canary sha=abc1234\n"), "{text}");
    assert!(text.starts_with("**Rollout of `abc1234`** (Bigger pods): "));
}
