use proptest::prelude::*;
use serde_json::json;

use super::*;
use ComparisonOption::{FullComparison, PartialComparison};

fn found(manifest: &Value, live: &Value, comparison: ComparisonOption, secret: bool) -> Vec<String> {
    let side = |v: Option<String>| v.unwrap_or_else(|| "-".to_owned());
    differences(manifest, live, comparison, secret)
        .into_iter()
        .map(|d| format!("{} git={} member={}", d.path, side(d.value_in_hub), side(d.value_in_member)))
        .collect()
}

#[test]
fn d19_what_comments_mask_is_not_in_records_either() {
    let map = |values: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": values});
    let pod = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "env": [
            {"name": "COLOUR", "value": value}, {"name": "DB_PASSWORD", "value": value},
        ]}]}})
    };
    let rows = [
        (map(json!({"password": "GITPW1", "key1": "red"})), map(json!({"password": "LIVEPW1", "key1": "blue"}))),
        (map(json!({"password": "GITPW1"})), map(Value::Null)),
        (map(Value::Null), map(json!({"api-key": "LIVEPW1", "more": "LIVEPW1 is not secret here"}))),
        (pod("GITENV1"), pod("LIVEENV1")),
    ];
    for (at, (manifest, live)) in rows.iter().enumerate() {
        let lines = found(manifest, live, FullComparison, false);
        assert!(!lines.is_empty(), "{at}");
        let is_shown = |line: &String| {
            let rest = line.replace("LIVEPW1 is not secret here", "");
            ["GITPW1", "LIVEPW1"].iter().any(|secret| rest.contains(secret))
                || (line.contains("/env/1/") && line.contains("ENV1"))
        };
        assert!(!lines.iter().any(is_shown), "{at}: {lines:#?}");
        assert!(lines.iter().any(|line| line.contains("(redacted")), "{at}: {lines:#?}");
        assert_eq!(found(manifest, manifest, FullComparison, false), Vec::<String>::new(), "{at}");
    }
    let text = found(&rows[0].0, &rows[0].1, FullComparison, false).join("\n");
    assert!(text.contains("git=red member=blue"), "{text}");
    let text = found(&rows[3].0, &rows[3].1, FullComparison, false).join("\n");
    assert!(text.contains("member=LIVEENV1"), "a colour is no secret: {text}");
}

/// Name, manifest, live object, partial and full differences.
type Row = (&'static str, Value, Value, Vec<&'static str>, Vec<&'static str>);

#[test]
fn differences_by_mode() {
    let rows: Vec<Row> = vec![
        ("equal", json!({"a": 1}), json!({"a": 1}), vec![], vec![]),
        ("integral float", json!({"a": 1}), json!({"a": 1.0}), vec![], vec![]),
        ("changed", json!({"a": "x"}), json!({"a": "y"}), vec!["/a git=x member=y"], vec!["/a git=x member=y"]),
        ("gone", json!({"a": "x"}), json!({}), vec!["/a git=x member=-"], vec!["/a git=x member=-"]),
        ("added by the member", json!({}), json!({"a": true}), vec![], vec!["/a git=- member=true"]),
        ("empty is absent", json!({"a": {}, "b": [], "c": null}), json!({}), vec![], vec![]),
        (
            "type changed",
            json!({"a": {"b": 1}}),
            json!({"a": 1}),
            vec![r#"/a git={"b":1} member=1"#],
            vec![r#"/a git={"b":1} member=1"#],
        ),
        (
            "escaped path",
            json!({"a/b~c": 1}),
            json!({"a/b~c": 2}),
            vec!["/a~1b~0c git=1 member=2"],
            vec!["/a~1b~0c git=1 member=2"],
        ),
        (
            "server's fields",
            json!({"metadata": {"name": "a", "labels": {"team": "x"}}}),
            json!({"metadata": {"name": "b", "uid": "u", "finalizers": ["f"], "creationTimestamp": "t",
                "labels": {"team": "x", "applyset.kubernetes.io/part-of": "p"},
                "annotations": {"deployment.kubernetes.io/revision": "2", "gitfleet.io/commit": "c"}},
                "status": {"ready": true}}),
            vec![],
            vec![],
        ),
        (
            "template timestamp",
            json!({"spec": {"template": {"metadata": {"creationTimestamp": "x"}}}}),
            json!({"spec": {"template": {"metadata": {}}}}),
            vec![],
            vec![],
        ),
        (
            "items by name, order does not count",
            json!({"c": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
            json!({"c": [{"name": "b", "image": "3"}, {"name": "a", "image": "1", "policy": "Always"}]}),
            vec!["/c/1/image git=2 member=3"],
            vec!["/c/0/policy git=- member=Always", "/c/1/image git=2 member=3"],
        ),
        (
            "injected sidecar",
            json!({"c": [{"name": "a"}]}),
            json!({"c": [{"name": "proxy"}, {"name": "a"}]}),
            vec![],
            vec![r#"/c/0 git=- member={"name":"proxy"}"#],
        ),
        (
            "mounts repeat names",
            json!({"m": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]}),
            json!({"m": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}]}),
            vec![],
            vec![],
        ),
        (
            "plain list grows",
            json!({"a": ["x"]}),
            json!({"a": ["x", "y"]}),
            vec!["/a/1 git=- member=y"],
            vec!["/a/1 git=- member=y"],
        ),
        (
            "plain list shrinks",
            json!({"a": ["x", "y"]}),
            json!({"a": ["x"]}),
            vec!["/a/1 git=y member=-"],
            vec!["/a/1 git=y member=-"],
        ),
    ];
    for (name, manifest, live, partial, full) in rows {
        assert_eq!(found(&manifest, &live, PartialComparison, false), partial, "{name}, partial");
        assert_eq!(found(&manifest, &live, FullComparison, false), full, "{name}, full");
    }
}

#[test]
fn secrets_never_show() {
    let manifest = json!({"stringData": {"password": "hunter2", "user": "root"}, "type": "Opaque"});
    let live = json!({"data": {"password": "b3RoZXI=", "user": "cm9vdA=="}, "type": "Other"});
    assert_eq!(
        found(&manifest, &live, PartialComparison, true),
        [
            "/data/password git=(redacted: /data/password in git) member=(redacted: /data/password in the member)",
            "/type git=Opaque member=Other",
        ]
    );
    let all = found(&manifest, &json!({}), FullComparison, true).join(" ");
    assert!(all.contains("(redacted: /data in git)"), "{all}");
    assert!(!all.contains("hunter2") && !all.contains("aHVudGVyMg"), "{all}");
}

#[test]
fn reports_are_bounded() {
    let many: Map<String, Value> = (0..250).map(|n| (format!("k{n:03}"), json!(n))).collect();
    let all = differences(&json!({"data": many}), &json!({"data": {"x": 1}}), PartialComparison, false);
    assert_eq!(all.len(), DIFFERENCES_MAX);
    let long = differences(&json!({"a": "é".repeat(1000)}), &json!({}), PartialComparison, false);
    let shown = long[0].value_in_hub.as_deref().expect("git has a value");
    assert_eq!(shown.chars().count(), VALUE_CHARS_MAX + 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("name|port|a|b", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(value in any_json(), secret: bool) {
        prop_assert_eq!(differences(&value, &value, FullComparison, secret), vec![]);
    }

    #[test]
    fn partial_finds_no_path_that_full_does_not(hub in any_json(), member in any_json()) {
        let full = differences(&hub, &member, FullComparison, false);
        let partial = differences(&hub, &member, PartialComparison, false);
        prop_assert!(partial.iter().all(|d| full.contains(d)), "{partial:?} not within {full:?}");
    }
}
