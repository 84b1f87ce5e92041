use super::*;

fn template(text: &str) -> ValuesTemplate {
    ValuesTemplate::read("web/values.gitfleet.yaml", text.as_bytes()).expect("it is read")
}

fn label(key: &str) -> ClusterField {
    ClusterField::Label(key.to_owned())
}

/// The documents of a file for a cluster with these labels.
fn filled(text: &str, labels: &[(&str, &str)]) -> Vec<Value> {
    let inputs = labels.iter().map(|(key, value)| (label(key), (*value).to_owned())).collect();
    let filled = template(text).filled(&inputs).expect("it is filled");
    let filled = String::from_utf8(filled).expect("text");
    yaml::parse_documents(&filled).into_iter().map(|document| document.expect("it is YAML").value).collect()
}

#[test]
fn fields_of_the_cluster_stand_in_texts() {
    let text = "region: '{{ .Cluster.Labels.region }}'\nurl: \"https://{{ .Cluster.Labels.region }}.example.com\"\n\
                list: [a, '{{ .Cluster.Labels.count | int }}', {deep: '{{ .Cluster.Labels.b | bool }}'}]\n\
                block: |\n  x {{ .Cluster.Labels.region }}\nplain: 3\nzone: '{{ .Cluster.Labels.zone | default \"none\" }}'\n---\nsecond: 1\n";
    let found = filled(text, &[("region", "eu"), ("count", "3"), ("b", "true")]);
    let wanted = serde_json::json!({"region": "eu", "url": "https://eu.example.com", "list": ["a", 3, {"deep": true}],
        "block": "x eu\n", "plain": 3, "zone": "none"});
    assert_eq!(found, [wanted, serde_json::json!({"second": 1})]);
    let reads: Vec<String> = template(text).reads.iter().map(ToString::to_string).collect();
    assert_eq!(reads, ["label b", "label count", "label region", "label zone"]);
}

#[test]
fn a_value_stays_in_its_text() {
    let hostile = [
        "true",
        "3",
        "null",
        "~",
        "",
        "'",
        "\"",
        "a: b",
        "- a",
        "# no comment",
        "{{ .Cluster.Name }}",
        "{a: b}",
        "[1]",
        "&a",
        "*a",
        "!!int 3",
        "a\nb: c",
        "---\nkind: Secret",
        "\u{0}\u{7f}\u{85}\u{2028}\u{feff}\u{ffff}",
        "| \n x",
        "%YAML 1.1",
        "\\",
        "${x}",
        "$(x)",
        "@",
        "`",
    ];
    for value in hostile {
        let found = filled("a: '{{ .Cluster.Labels.x }}'\nb: 'x {{ .Cluster.Labels.x }}'\n", &[("x", value)]);
        assert_eq!(found, [serde_json::json!({"a": value, "b": format!("x {value}")})], "{value:?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let rows: [(&str, &str); 9] = [
        (
            "a: 1\nb: '{{ .Cluster.Nme }}'\n",
            "web/values.gitfleet.yaml:2: b: {{ .Cluster.Nme }}: it names no field of the cluster",
        ),
        ("a:\n- x\n- '{{ .Values.y }}'\n", "web/values.gitfleet.yaml:3: a[1]: {{ .Values.y }}: it names no field"),
        (
            "'{{ .Cluster.Name }}': 1\n",
            "web/values.gitfleet.yaml:1: {{ .Cluster.Name }}: the name of a field cannot differ",
        ),
        (
            "a: {{ .Cluster.Name }}\n",
            "(a text with {{ }} needs quotes, such as region: '{{ .Cluster.Labels.region }}')",
        ),
        ("a: {{ .Cluster.Name }}-x\n", "(a text with {{ }} needs quotes"),
        ("a: 'x{{ .Cluster.Labels.n | int }}'\n", "nothing else may stand in the text"),
        ("on: 1\n", "web/values.gitfleet.yaml:1: the key on is read as \"true\" (put it in quotes: \"on\")"),
        ("a: [\n", "web/values.gitfleet.yaml:"),
        ("\u{fffe}\0", "web/values.gitfleet.yaml:"),
    ];
    for (text, wanted) in rows {
        let errors = ValuesTemplate::read("web/values.gitfleet.yaml", text.as_bytes()).expect_err(text);
        assert!(errors[0].to_string().contains(wanted), "{text}: {}", errors[0]);
    }
    let large = vec![b'#'; VALUES_BYTES_MAX + 1];
    let errors = ValuesTemplate::read("v", &large).expect_err("it is too large");
    assert_eq!(
        errors[0].to_string(),
        "v: has 262145 bytes, the limit for values by cluster is 262144 (keep here what differs by cluster)"
    );
}

#[test]
fn a_cluster_that_lacks_a_value_is_an_error() {
    let text = "a: 1\nregion: '{{ .Cluster.Labels.region }}'\nsize: '{{ .Cluster.Labels.size | int }}'\nt: '{{ .Cluster.Name | bool }}'\n";
    let inputs = ClusterInputs::from([(label("size"), "3 ".to_owned()), (ClusterField::Name, "east".to_owned())]);
    let errors = template(text).filled(&inputs).expect_err("it lacks a label");
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "web/values.gitfleet.yaml:2: region: the cluster has no label region (give it one, or add `| default \"TEXT\"`)",
            "web/values.gitfleet.yaml:3: size: the label size is \"3 \", which is not a whole number (change it, or write it as text)",
            "web/values.gitfleet.yaml:4: t: the name is \"east\", which is not true or false (change it, or write it as text)",
        ]
    );
}

#[test]
fn values_cannot_grow_without_end() {
    let lines: Vec<String> = (0..4_000).map(|n| format!("k{n}: '{{{{ .Cluster.Labels.x }}}}'\n")).collect();
    let text = lines.concat();
    let inputs = ClusterInputs::from([(label("x"), "y".repeat(100_000))]);
    let errors = template(&text).filled(&inputs).expect_err("it is too large");
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("more than 1048576 bytes"), "{}", errors[0]);
}
