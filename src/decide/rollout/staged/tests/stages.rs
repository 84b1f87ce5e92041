//! Which cluster is in which stage.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rollout::staged::{PlannedStage, StageError, stages};
use model::api::annotations::InNoStage;
use model::id::ClusterName;

/// Clusters as `NAME LABEL=VALUE...`, separated by `;`.
fn clusters(text: &str) -> BTreeMap<ClusterName, BTreeMap<String, String>> {
    let cluster = |text: &str| {
        let mut words = text.split_whitespace();
        let name = words.next()?.into();
        Some((name, words.filter_map(|label| label.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()))
    };
    text.split(';').filter_map(cluster).collect()
}

fn plan(stages_: &Value, text: &str) -> Result<Vec<PlannedStage>, StageError> {
    plan_with(stages_, InNoStage::Refuse, text)
}

fn plan_with(stages_: &Value, in_no_stage: InNoStage, text: &str) -> Result<Vec<PlannedStage>, StageError> {
    stages(&serde_json::from_value(json!({ "stages": stages_ })).unwrap(), in_no_stage, &clusters(text))
}

/// Plans and writes the answer as `STAGE/MAX: CLUSTER...; ...`, or the error.
fn planned(stages: &Value, text: &str) -> String {
    written(plan(stages, text))
}

fn written(planned: Result<Vec<PlannedStage>, StageError>) -> String {
    let stage = |stage: &PlannedStage| {
        let names: Vec<&str> = stage.clusters.iter().map(ClusterName::as_str).collect();
        format!("{}/{}: {}", stage.name, stage.max_concurrency, names.join(" "))
    };
    match planned {
        Ok(stages) => stages.iter().map(stage).collect::<Vec<_>>().join("; "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn example_26_labels_order_as_numbers() {
    let stages = json!([{"name": "s", "labelSelector": {}, "sortingLabelKey": "order"}]);
    let rows =
        [("a order=10; b order=9; c order=9", "s/1: b c a"), ("a order=+2; b order=-1; c order=007", "s/1: b a c")];
    for (clusters, expected) in rows {
        assert_eq!(planned(&stages, clusters), expected);
    }
    for (clusters, expected) in [
        ("a order=1; d", "cluster d does not have it"),
        ("a order=1; d order=1.5", "cluster d has \"1.5\" there"),
        ("a order=1; d order=", "cluster d has \"\" there"),
        ("a order=99999999999999999999", "cluster a has"),
    ] {
        let error = planned(&stages, clusters);
        assert!(error.contains(expected) && error.contains("stage s") && error.contains("\"order\""), "{error}");
    }
}

#[test]
fn example_27_every_cluster_is_in_one_stage() {
    let canary = json!({"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}}});
    let two = json!([canary, {"name": "all", "labelSelector": {}}]);
    assert_eq!(
        plan(&two, "a env=canary; b env=prod; c env=canary").unwrap_err(),
        StageError::TwoStages { first: "canary".to_owned(), second: "all".to_owned(), clusters: "a, c".to_owned() }
    );
    let none = json!([canary, {"name": "none"}]);
    assert_eq!(planned(&none, "a env=canary"), "canary/1: a; none/1: ");
    assert_eq!(
        plan(&none, "a env=canary; c; b").unwrap_err(),
        StageError::NoStage { total: 2, clusters: "b, c".to_owned() }
    );
    let many: Vec<String> = (0..1002).map(|n| format!("c{n:04}")).collect();
    let error = planned(&none, &many.join(";"));
    assert!(error.starts_with("1002 clusters") && error.contains("c0998, c0999 and 2 more; "), "{error}");
    assert!(many[..1000].iter().all(|name| error.contains(name)), "kubefleet#638: a person sees every name");
}

#[test]
fn kubefleet_638_clusters_in_no_stage() {
    use InNoStage as I;
    let env = |name: &str, env: &str| json!({"name": name, "labelSelector": {"matchLabels": {"env": env}}});
    let two = json!([env("dev", "dev"), env("prod", "prod")]);
    let taken = json!([env("unassigned", "dev"), env("unassigned2", "prod")]);
    let overlap = json!([env("dev", "dev"), env("again", "dev")]);
    let some = "z; a env=prod; b env=dev; c env=test";
    let rows = [
        (&two, I::Refuse, some, "2 clusters that the placement picked are in no stage: c, z; "),
        (&two, I::Ignore, some, "dev/1: b; prod/1: a"),
        (&two, I::First, some, "unassigned/1: c z; dev/1: b; prod/1: a"),
        (&two, I::Last, some, "dev/1: b; prod/1: a; unassigned/1: c z"),
        (&two, I::First, "b env=dev", "dev/1: b; prod/1: "),
        (&two, I::Last, "b env=dev", "dev/1: b; prod/1: "),
        (&taken, I::Last, some, "unassigned/1: b; unassigned2/1: a; unassigned3/1: c z"),
        (&overlap, I::Ignore, some, "stages dev and again both select b; "),
        (&json!([]), I::First, some, "unassigned/1: a b c z"),
    ];
    for (stages, in_no_stage, clusters, expected) in rows {
        let answer = written(plan_with(stages, in_no_stage, clusters));
        assert!(answer.starts_with(expected), "{in_no_stage:?} of {stages}: {answer}");
    }
}

#[test]
fn example_28_percentages_round_down_to_one_at_least() {
    let rows = [
        (json!("33%"), 10, 3),
        (json!("25%"), 7, 1),
        (json!("50%"), 1, 1),
        (json!(15), 10, 15),
        (json!("50%"), 0, 1),
        (json!("100%"), 10, 10),
        (json!(null), 10, 1),
    ];
    for (limit, count, expected) in rows {
        let stages = json!([{"name": "s", "labelSelector": {}, "maxConcurrency": limit}]);
        let names: Vec<String> = (0..count).map(|n| format!("c{n}")).collect();
        assert_eq!(plan(&stages, &names.join(";")).unwrap()[0].max_concurrency, expected, "{limit} of {count}");
    }
}

#[test]
fn tasks_stand_where_they_may() {
    let wait = |time: &str| json!({"type": "TimedWait", "waitTime": time});
    let approval = json!({"type": "Approval"});
    let rows = [
        (json!([]), json!([wait("1h"), approval]), "s/1: "),
        (json!([approval]), json!([]), "s/1: "),
        (json!([]), json!([wait("0s")]), "waitTime \"0s\""),
        (json!([]), json!([{"type": "TimedWait"}]), "waitTime \"\""),
        (json!([]), json!([approval, approval]), "two Approval tasks"),
        (json!([]), json!([wait("1h"), wait("2h")]), "two TimedWait tasks"),
        (json!([wait("1h")]), json!([]), "can only be an Approval"),
        (json!([approval, approval]), json!([]), "several tasks before it"),
        (json!([{"type": "Approval", "waitTime": "1h"}]), json!([]), "remove it"),
    ];
    for (before, after, expected) in rows {
        let stages = json!([{"name": "s", "beforeStageTasks": before, "afterStageTasks": after}]);
        let answer = planned(&stages, "");
        assert!(answer.contains(expected), "{stages}: {answer}");
    }
}
