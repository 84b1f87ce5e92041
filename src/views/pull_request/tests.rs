use std::sync::Arc;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use super::*;
use model::api::placement::StrategyType;
use model::api::stage_checks::{Checks, MetricCheck};
use model::plan::{Changes, DeletionPlan, OcmPlan, Resource, RolloutPlan, StagePlan, WorkPlan};
use model::records::ClusterDecision;

/// What ends fences and tables, mentions people, hides, turns text around, or is a command.
const HOSTILE: [&str; 9] = [
    "</details><script>",
    "```\n~~~\n# heading",
    "@org/everybody",
    "/approve all",
    "![x](http://evil.example/beacon)",
    "a | b <!-- hidden",
    "\u{202e}desrever",
    "x\r\n/approve deletion",
    "`tick` #1 http://evil.example",
];

fn object(name: &str) -> ObjectId {
    ObjectId {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: "web".into(),
        name: name.into(),
        ..ObjectId::default()
    }
}

fn error(path: impl Into<String>, line: u32, message: impl Into<String>) -> InputError {
    InputError { path: path.into(), line, object: None, field: None, message: message.into(), hint: None }
}

/// A placement in which every word is the given one.
fn placement(word: &str) -> PlacementPlan {
    let cluster = ClusterName::from(word);
    let resources = vec![Resource(object(word))];
    let works: Arc<[_]> = Arc::from([]);
    PlacementPlan {
        name: word.to_owned(),
        kind: "ClusterResourcePlacement",
        namespace: None,
        path: Some(word.to_owned()),
        line: Some(3),
        error: Some(word.to_owned()),
        removed: false,
        renamed_from: None,
        renamed_to: None,
        snapshot: None,
        variants: Vec::new(),
        decisions: vec![ClusterDecision {
            cluster_name: cluster.clone(),
            selected: true,
            cluster_score: None,
            reason: word.into(),
        }],
        rollout: RolloutPlan {
            type_: StrategyType::External,
            strategy: Some(word.to_owned()),
            stages: vec![StagePlan {
                name: word.to_owned(),
                clusters: vec![cluster.clone()],
                max_concurrency: 1,
                before: vec![model::plan::GatePlan {
                    type_: model::api::staged::StageTaskType::Approval,
                    wait_time: None,
                    approvers: Some(word.to_owned()),
                }],
                after: Vec::new(),
                checks: Some(Checks {
                    healthy_for: Some(word.to_owned()),
                    metrics: vec![MetricCheck {
                        name: word.to_owned(),
                        server: None,
                        query: word.to_owned(),
                        min: None,
                        max: Some(0.5),
                    }],
                }),
            }],
            ..RolloutPlan::default()
        },
        works: vec![WorkPlan { cluster_name: cluster.clone(), manifests: works, error: Some(word.to_owned()) }],
        hands_over: Vec::new(),
        deletions: vec![DeletionPlan { cluster_name: cluster.clone(), resources }],
        deletion_guard: Some(word.to_owned()),
        changes: Some(Changes {
            clusters: model::plan::ClusterChanges { gained: [cluster.clone()].into(), lost: [cluster].into() },
            ..Changes::default()
        }),
    }
}

fn report(word: &str) -> PullReport {
    let plan = placement(word);
    let key = plan.key();
    let text = Some(format!(" kind: ConfigMap\n-  a: {word}\n+  a: {word}{word}\n"));
    let ocm = OcmPlan {
        namespace: word.to_owned(),
        name: word.to_owned(),
        groups: Vec::new(),
        message: word.to_owned(),
        errors: Vec::new(),
        changes: plan.changes.as_ref().map(|changes| changes.clusters.clone()),
    };
    PullReport {
        stops: vec![word.to_owned()],
        base: Some("ba5eba5eba5e".into()),
        head: Some(word.into()),
        plan: Plan { placements: vec![plan], ocm_placements: vec![ocm], ..Plan::default() },
        objects: vec![ObjectDiff {
            placement: key.clone(),
            id: object(word),
            change: ObjectChange::Changed,
            text: text.clone(),
        }],
        overrides: vec![OverrideEffect { placement: key.clone(), clusters: vec![word.into()], text }],
        timeline: Timeline::Predicted {
            takes: [(key, word.to_owned())].into(),
            approvals_after: "5 minutes".to_owned(),
            chart: Some("gantt\n    title x\n".to_owned()),
        },
        conflicts: vec![word.to_owned()],
        notes: vec![word.to_owned()],
    }
}

/// Checks that fences and details are closed, and that nothing of what is foreign does anything.
fn check(text: &str, name: &str) {
    let mut html = String::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_GFM) {
        match event {
            Event::Html(part) | Event::InlineHtml(part) => html.push_str(&part),
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => panic!("{name}: a link in {text}"),
            Event::Start(Tag::Heading { level, .. }) => assert!(level >= HeadingLevel::H3, "{name}: {text}"),
            _ => {}
        }
    }
    let count = |part: &str| html.matches(part).count();
    assert_eq!(count("<details>"), count("</details>"), "{name}: {text}");
    let ours = ["<details>", "</details>", "<summary>", "</summary>"];
    let foreign = ours.iter().fold(html, |html, tag| html.replace(tag, ""));
    assert!(!foreign.contains('<'), "{name}: {foreign} in {text}");
    assert!(!text.contains('\u{202e}') && !text.contains("@org"), "{name}: {text}");
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        assert!(!line.trim_start().starts_with("/approve"), "{name}: {text}");
        let run = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            None if run.len() >= 3 && !line[run.len()..].contains('`') => fence = Some(run),
            Some(open) if run.len() >= open.len() && line == run => fence = None,
            _ => {}
        }
    }
    assert_eq!(fence, None, "{name}: a fence is open in {text}");
}

#[test]
fn foreign_words_do_nothing() {
    for word in HOSTILE {
        let report = report(word);
        check(&plan_comment(&report, COMMENT_CHARS_MAX), word);
        let errors = vec![error(word, 1, word)];
        check(&plan_comment(&PullReport::refused(None, Some(word.into()), errors), COMMENT_CHARS_MAX), word);
    }
}

#[test]
fn every_length_is_kept_and_nothing_stays_open() {
    for word in [HOSTILE[0], HOSTILE[1], "plain"] {
        let report = report(word);
        let full = plan_comment(&report, COMMENT_CHARS_MAX);
        let length = full.chars().count();
        for limit in (0..=length).step_by(37) {
            let text = plan_comment(&report, limit);
            assert!(text.chars().count() <= limit, "{limit}");
            check(&text, &format!("{word} {limit}"));
        }
        assert_eq!(plan_comment(&report, length), full);
    }
}

#[test]
fn the_least_important_end_goes_first() {
    let report = report("plain");
    let marks = [
        "```mermaid",
        "otherwise for plain</summary>",
        "changed ConfigMap web/plain</summary>",
        "(plain)",
        "| Stage |",
    ];
    let musts = ["### Plan: ", "**Errors.**", "need approval", "ConfigMap web/plain` from 1 cluster"];
    let full = plan_comment(&report, COMMENT_CHARS_MAX);
    let mut left: Vec<usize> = Vec::new();
    for limit in (0..=full.chars().count()).rev() {
        let text = plan_comment(&report, limit);
        if text.contains("More is left out") {
            break;
        }
        assert!(musts.iter().all(|must| text.contains(must)), "{limit}: {text}");
        let there: Vec<bool> = marks.iter().map(|mark| text.contains(mark)).collect();
        let first = there.iter().position(|there| *there).unwrap_or(marks.len());
        assert!(there[first..].iter().all(|there| *there), "{limit}: {there:?}");
        left.push(first);
    }
    assert_eq!((left.first(), left.last()), (Some(&0), Some(&marks.len())), "all of it goes, one after the other");
}

#[test]
fn what_the_status_says() {
    let quiet = PlacementPlan { error: None, rollout: RolloutPlan::default(), works: Vec::new(), ..placement("p") };
    let of = |placements: Vec<PlacementPlan>| PullReport {
        plan: Plan { placements, ..Plan::default() },
        ..PullReport::default()
    };
    let unguarded = PlacementPlan { deletion_guard: None, ..quiet.clone() };
    let failing =
        PlacementPlan { error: Some("no such kind".to_owned()), path: Some("a.yaml".to_owned()), ..unguarded.clone() };
    let errors = vec![error("b.yaml", 7, "unknown field"), error("c.yaml", 0, "x")];
    let rows = [
        (of(Vec::new()), StatusState::Success, "nothing changes on the fleet"),
        (of(vec![unguarded]), StatusState::Success, "1 placement changes, 1 cluster"),
        (
            of(vec![quiet.clone(), quiet]),
            StatusState::Success,
            "2 placements change, 1 cluster, 2 deletions on 1 cluster need approval",
        ),
        (of(vec![failing]), StatusState::Failure, "a.yaml:3: ClusterResourcePlacement p: no such kind"),
        (PullReport::refused(None, None, errors), StatusState::Failure, "b.yaml:7: unknown field (and 1 more)"),
    ];
    for (report, state, text) in rows {
        assert_eq!(summary(&report), (state, text.to_owned()));
    }
    let long = PullReport::refused(None, None, vec![error("d.yaml", 1, "ä".repeat(300)); 2]);
    let (_, text) = summary(&long);
    assert!(text.chars().count() <= DESCRIPTION_CHARS_MAX && text.ends_with("(and 1 more)"), "{text}");
}

#[test]
fn a_refused_tree_names_files_and_lines() {
    let errors = (0..40).map(|n| error(format!("f{n}.yaml"), n, "unknown field `spec.x`")).collect();
    let text = plan_comment(
        &PullReport::refused(Some("ba5eba5eba".into()), Some("4ead4ead4e".into()), errors),
        COMMENT_CHARS_MAX,
    );
    let first: Vec<&str> = text.lines().take(7).collect();
    assert_eq!(first[0], "### Plan: refused: 40 errors");
    assert!(
        first[6].starts_with("- f0.yaml") && text.contains("- f29.yaml:29:") && text.contains("- and 10 more"),
        "{text}"
    );
}

#[test]
fn ux2_twelve_equal_changes_are_told_once_in_less_than_8_kb() {
    let clusters: Vec<ClusterName> = (0..40).map(|number| format!("prod-eu-{number:02}").as_str().into()).collect();
    let stage = |name: &str, clusters: &[ClusterName], asks: bool| StagePlan {
        name: name.to_owned(),
        clusters: clusters.to_vec(),
        max_concurrency: 4,
        before: Vec::new(),
        after: asks
            .then(|| model::plan::GatePlan {
                type_: model::api::staged::StageTaskType::Approval,
                wait_time: None,
                approvers: Some("team:platform/release".to_owned()),
            })
            .into_iter()
            .collect(),
        checks: None,
    };
    let stages = vec![
        stage("dev", &clusters[..3], false),
        stage("staging", &clusters[3..7], true),
        stage("canary", &clusters[7..9], true),
        stage("prodap", &clusters[9..16], true),
        stage("prodrest", &clusters[16..], false),
    ];
    let names: Vec<String> = (0..12).map(|number| format!("application-{number:02}")).collect();
    let mut report = PullReport { base: Some("433feff".into()), head: Some("4c72be4".into()), ..PullReport::default() };
    let mut takes = std::collections::BTreeMap::new();
    for name in &names {
        let id = ObjectId { kind: "Deployment".into(), namespace: name.clone(), name: name.clone(), ..object(name) };
        let changed = model::plan::ResourceChanges { changed: vec![Resource(id.clone())], ..Default::default() };
        let works = clusters.iter().map(|cluster| WorkPlan {
            cluster_name: cluster.clone(),
            manifests: Arc::from([]),
            error: None,
        });
        let rollout = RolloutPlan {
            type_: StrategyType::External,
            strategy: Some("rings".to_owned()),
            stages: stages.clone(),
            ..RolloutPlan::default()
        };
        let plan = PlacementPlan {
            name: name.clone(),
            error: None,
            deletions: Vec::new(),
            deletion_guard: None,
            works: works.collect(),
            rollout,
            changes: Some(Changes { resources: changed, ..Changes::default() }),
            ..placement("x")
        };
        let text = format!(
            "     spec:\n       containers:\n-      - image: old.registry.example/{name}:1.2.3\n+      - image: \
             new.registry.example/{name}:1.2.3\n         name: {name}\n"
        );
        let change = ObjectChange::Changed;
        report.objects.push(ObjectDiff { placement: plan.key(), id, change, text: Some(text) });
        takes.insert(plan.key(), "18m40s".to_owned());
        report.plan.placements.push(plan);
    }
    report.timeline = Timeline::Predicted { takes, approvals_after: "5 minutes".to_owned(), chart: None };
    let text = plan_comment(&report, COMMENT_CHARS_MAX);
    assert!(text.len() < 8_000, "{} bytes: {text}", text.len());
    assert!(text.starts_with(
        "### Plan: 12 placements change, 40 clusters\n\nPlan for `4c72be4` on top of `433feff` (the accepted commit).\n\n| placement |"
    ), "{text}");
    for (part, count) in [
        ("| `application-07` | 40 | ~1 | 3 approvals | 18m40s |", 1),
        ("| Stage | Clusters |", 1),
        ("```diff", 1),
        (", and the same in 11 more</summary>", 1),
        ("approval by team:platform/release", 3),
    ] {
        assert_eq!(text.matches(part).count(), count, "{part}: {text}");
    }
}
