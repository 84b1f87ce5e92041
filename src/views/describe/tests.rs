use serde_json::json;

use super::*;
use crate::fixtures::{at, cluster};

#[test]
fn labels_of_fields() {
    for (key, expected) in [
        ("apiVersion", "API Version"),
        ("lastTransitionTime", "Last Transition Time"),
        ("spec", "Spec"),
        ("targetUID", "Target UID"),
        ("kubernetes-fleet.io/parent-CRP", "kubernetes-fleet.io/parent-CRP"),
    ] {
        assert_eq!(label(key), expected);
    }
}

#[test]
fn an_object() {
    let object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": "web-3", "generation": 4, "labels": {"a/b": "c", "d": "e"}},
        "spec": {"placementName": "web", "empty": [], "names": ["east", "west"], "matchLabels": {"environment": "dev"}},
        "status": {"conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Progressing", "status": "False"},
        ]},
    });
    let text = |line: Line| line.spans.into_iter().map(|s| s.text).collect::<String>().trim_end().to_owned();
    let shown: Vec<String> = object_lines(&object).into_iter().map(text).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
        Name:         web-3
        API Version:  placement.kubernetes-fleet.io/v1beta1
        Kind:         ClusterStagedUpdateRun
        Labels:       a/b=c
                      d=e
        Metadata:
          Generation:  4
        Spec:
          Match Labels:
            environment:  dev
          Names:
            east
            west
          Placement Name:  web
        Status:
          Conditions:
            - Status:  True
              Type:  Initialized
            - Status:  False
              Type:  Progressing
        "#);
}

#[test]
fn events() {
    let entry = |seconds, event: &str, cluster: Option<&str>, facts| JournalEntry {
        at: at(seconds),
        event: event.into(),
        placement: None,
        cluster: cluster.map(Into::into),
        facts,
    };
    let entries = [
        entry(0, "SnapshotCreated", None, json!({"index": 3})),
        entry(5, "ClusterFailed", Some("east"), json!({"message": "field is immutable"})),
        entry(9, "RolloutStarted", Some("west"), Value::Null),
    ];
    let table = events_table(&entries.iter().collect::<Vec<_>>(), at(60));
    let rows: Vec<String> = table.rows.iter().map(|row| row.join(" | ")).collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
        Normal | SnapshotCreated | 60s | gitfleet | index=3
        Warning | ClusterFailed | 55s | gitfleet | cluster east: field is immutable
        Normal | RolloutStarted | 51s | gitfleet | cluster west
        "#);
    let many: Vec<_> = (0..EVENTS_SHOWN_MAX + 2).map(|_| &entries[0]).chain([&entries[2]]).collect();
    let table = events_table(&many, at(60));
    assert_eq!((table.rows.len(), table.rows[EVENTS_SHOWN_MAX - 1][1].as_str()), (EVENTS_SHOWN_MAX, "RolloutStarted"));
}

#[test]
fn a_cluster_says_its_state_in_words() {
    let mut cluster = cluster("west", false);
    cluster.message = Some("Connection refused".into());
    cluster.answered = true;
    let object = crate::objects::member_cluster_object(&cluster, at(60));
    let text = |line: Line| line.spans.into_iter().map(|s| s.text).collect::<String>().trim_end().to_owned();
    let found: Vec<String> = cluster_lines(&cluster, &object, at(60)).into_iter().map(text).collect();
    insta::assert_snapshot!(found.join("\n"));
    assert_eq!(
        CLUSTER_STATES.map(|(state, _)| state),
        ["online", "offline", "never answered", "no access", "left", "suspended"]
    );
}
