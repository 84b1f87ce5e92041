use super::*;

const HEAD: &str = "# The fleet.\napiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata:\n  name: east # a name\n";
const TAINT: &str = "- key: cordon-key\nX  value: cordon-value\nX  effect: NoSchedule";
const FLOW: &str = r#"{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}"#;

/// The taint as a block item that is indented by so much.
fn taint(indent: usize) -> String {
    let pad = " ".repeat(indent);
    format!("{pad}{}", TAINT.replace('X', &pad))
}

#[test]
fn the_taint_is_put_where_it_belongs_and_taken_out_again() {
    let other = "---\nkind: MemberCluster\nmetadata: {name: west}\nspec: {taints: []}\n";
    // What stands below the head: before, cordoned, and uncordoned where that is not as before.
    let rows: [(&str, String, Option<&str>); 10] = [
        ("", format!("spec:\n  taints:\n{}\n", taint(4)), Some("spec:\n  taints: []\n")),
        ("spec: {} # none\n", format!("spec:\n  taints:\n{} # none\n", taint(4)), Some("spec:\n  taints: [] # none\n")),
        ("spec:\n", format!("spec:\n  taints:\n{}\n", taint(4)), Some("spec:\n  taints: []\n")),
        (
            "spec:\n  heartbeatPeriodSeconds: 30 # slow\n  # last\n",
            format!("spec:\n  heartbeatPeriodSeconds: 30 # slow\n  taints:\n{}\n  # last\n", taint(4)),
            Some("spec:\n  heartbeatPeriodSeconds: 30 # slow\n  taints: []\n  # last\n"),
        ),
        (
            "spec:\n  taints:\n  # why\n  - key: edge\n    effect: NoSchedule # it is far\n  heartbeatPeriodSeconds: 30\n",
            format!(
                "spec:\n  taints:\n  # why\n  - key: edge\n    effect: NoSchedule # it is far\n{}\n  heartbeatPeriodSeconds: 30\n",
                taint(2)
            ),
            None,
        ),
        ("spec: {taints: []}\n", format!("spec: {{taints: [{FLOW}]}}\n"), None),
        (
            "spec:\n  taints: [{key: edge, effect: NoSchedule}]\n",
            format!("spec:\n  taints: [{{key: edge, effect: NoSchedule}}, {FLOW}]\n"),
            None,
        ),
        (
            "spec: {heartbeatPeriodSeconds: 30}\n",
            format!("spec: {{heartbeatPeriodSeconds: 30, \"taints\": [{FLOW}]}}\n"),
            Some("spec: {heartbeatPeriodSeconds: 30, \"taints\": []}\n"),
        ),
        (
            "spec:\r\n  taints:\r\n  - {key: edge, effect: NoSchedule}\r\n",
            {
                let block = taint(2).replace('\n', "\r\n");
                format!("spec:\r\n  taints:\r\n  - {{key: edge, effect: NoSchedule}}\r\n{block}\r\n")
            },
            None,
        ),
        (
            "spec:\n  taints:\n  - key: edge\n    effect: NoSchedule",
            format!("spec:\n  taints:\n  - key: edge\n    effect: NoSchedule\n{}", taint(2)),
            Some("spec:\n  taints:\n  - key: edge\n    effect: NoSchedule\n"),
        ),
    ];
    for (before, after, back) in rows {
        let more = if before.ends_with('\n') || before.is_empty() { other } else { "" };
        let text = |spec: &str| format!("{HEAD}{spec}{more}");
        assert_eq!(cordoned(&text(before), "east"), Ok(Some(text(&after))), "{before}");
        assert_eq!(cordoned(&text(&after), "east"), Ok(None), "{before}: once is enough");
        assert_eq!(uncordoned(&text(&after), "east"), Ok(Some(text(back.unwrap_or(before)))), "{before}");
        assert_eq!(uncordoned(&text(before), "east"), Ok(None), "{before}: nothing to take away");
    }
}

#[test]
fn json_and_lists_are_edited_too() {
    let json = r#"{"kind": "MemberCluster", "metadata": {"name": "east"}}"#;
    let made = cordoned(json, "east").expect("flow style").expect("a change");
    assert_eq!(
        made,
        format!(r#"{{"kind": "MemberCluster", "metadata": {{"name": "east"}}, "spec": {{"taints": [{FLOW}]}}}}"#)
    );
    let list = "kind: List\nitems:\n- kind: MemberCluster\n  metadata: {name: west}\n- kind: MemberCluster\n  metadata: {name: east}\n";
    let made = cordoned(list, "east").expect("a list").expect("a change");
    assert_eq!(made, format!("{list}  spec:\n    taints:\n{}\n", taint(6)));
}

#[test]
fn what_cannot_be_edited_for_sure_is_left_to_a_person() {
    for text in [
        "kind: MemberCluster\nmetadata: {name: west}\n",
        "kind: MemberCluster\nmetadata: {name: east}\nspec: &s {taints: *t}\n",
        "kind: MemberCluster\nmetadata: &m {name: east}\nspec:\n  taints: &t\n  - {key: a, effect: NoSchedule}\n---\na: [\n",
    ] {
        let found = cordoned(text, "east").expect_err(text).to_string();
        assert!(found.contains("add the taint by hand"), "{found}");
    }
    let anchored = "x: &x {key: cordon-key, value: cordon-value, effect: NoSchedule}\nkind: MemberCluster\nmetadata: {name: east}\nspec: {taints: [*x]}\n";
    assert!(uncordoned(anchored, "east").is_err());
}
