use super::*;

fn records() -> Vec<DecisionsRecord> {
    let record = |value: Value| serde_json::from_value(value).expect("a record");
    vec![
        record(json!({
            "kind": "ClusterResourcePlacement", "name": "web", "label": "web", "groups": [
                {"name": "canary", "clusters": [{"clusterName": "a", "reason": "picked"}]},
                {"name": "", "clusters": [{"clusterName": "b", "reason": ""}]},
            ],
        })),
        record(json!({"kind": "Placement", "namespace": "n", "name": "web", "groups": [{"name": "", "clusters": []}]})),
    ]
}

fn clusters() -> Clusters {
    let mut a = ClusterRecord::new("a".into(), jiff::Timestamp::UNIX_EPOCH);
    a.labels.insert("region".into(), "eu".into());
    a.annotations.insert("team".into(), "web".into());
    a.properties.insert("kubernetes-fleet.io/node-count".into(), "3".into());
    [(a.name.clone(), a)].into()
}

#[test]
fn clusters_come_as_texts_and_what_is_unknown_is_an_error() {
    let ask = |parameters: Value| {
        answer(&records(), &clusters(), parameters.as_object().expect("an object"), Timestamp::UNIX_EPOCH)
    };
    let found = ask(json!({"placement": "web", "mine": 1})).expect("it is known");
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|set| set.as_object().unwrap().values().all(Value::is_string)), "{found:?}");
    assert_eq!((&found[0]["name"], &found[0]["decisionGroup"]), (&json!("a"), &json!("canary")));
    assert_eq!(found[1]["decisionGroupIndex"], "1");
    let facts =
        [("labels.region", "eu"), ("annotations.team", "web"), ("properties.kubernetes-fleet.io/node-count", "3")];
    for (name, text) in facts {
        assert_eq!(found[0][format!("cluster.{name}")], text, "{name}");
    }
    assert!(!found[1].as_object().unwrap().keys().any(|name| name.contains('.')), "nothing is known of b");
    assert_eq!(ask(json!({"placement": "web", "kind": "Placement", "namespace": "n"})), Ok(vec![]));
    for (parameters, code) in [
        (json!({"placement": "wbe"}), 404),
        (json!({"placement": "web", "namespace": "other"}), 404),
        (json!({}), 400),
        (json!({"placement": ""}), 400),
        (json!({"placement": 1}), 400),
        (json!({"placement": "web", "kind": []}), 400),
    ] {
        assert_eq!(ask(parameters.clone()).unwrap_err().0.as_u16(), code, "{parameters}");
    }
}
