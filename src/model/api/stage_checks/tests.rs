use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// What is wrong with an annotation on a strategy with the stages `canary` and `prod`.
fn wrong(text: &str) -> Vec<String> {
    let strategy = serde_json::from_value(json!({"stages": [{"name": "canary"}, {"name": "prod"}]})).unwrap();
    let annotations = BTreeMap::from([(STAGE_CHECKS.to_owned(), text.to_owned())]);
    errors(&annotations, &strategy).iter().map(ToString::to_string).collect()
}

#[test]
fn an_annotation_is_checked_with_its_strategy() {
    let long = format!("canary: {{metrics: [{{name: a, query: '{}', max: 1}}]}}", "x".repeat(QUERY_BYTES_MAX + 1));
    let many: Vec<String> = (0..=METRICS_MAX).map(|n| format!("{{name: m{n}, query: up, min: 1}}")).collect();
    let many = format!("canary: {{metrics: [{}]}}", many.join(", "));
    let metric = |fields: &str| format!("canary: {{metrics: [{{{fields}}}]}}");
    let table = [
        ("canary: {healthyFor: 10m}".to_owned(), ""),
        (
            "{\"prod\": {\"healthyFor\": \"1h30m\", \"metrics\": [{\"name\": \"a\", \"query\": \"up\", \"min\": 1}]}}"
                .to_owned(),
            "",
        ),
        (metric("name: a, server: main, query: 'sum(up)', min: -1, max: 0.5"), ""),
        (metric("name: a, query: up, max: 1, min: 1"), ""),
        ("- canary".to_owned(), "is not a map from the names of stages"),
        (String::new(), "is not a map from the names of stages"),
        ("canary: {".to_owned(), "cannot be read as YAML"),
        ("canary: {healthyFor: 1m}\n---\nprod: {healthyFor: 1m}".to_owned(), "is not a map from the names of stages"),
        (
            "canery: {healthyFor: 10m}".to_owned(),
            "canery: the strategy has no stage of this name (did you mean `canary`?)",
        ),
        ("canary: {}".to_owned(), "canary: has neither healthyFor nor metrics"),
        ("canary: {healthyFor: 0s}".to_owned(), "canary.healthyFor: \"0s\" is not a duration"),
        ("canary: {healthyFor: soon}".to_owned(), "canary.healthyFor: \"soon\" is not a duration"),
        ("canary: {healthy: 10m}".to_owned(), "canary.healthy"),
        (metric("name: a, query: up"), "canary.metrics[0]: has neither min nor max"),
        (metric("name: a, query: up, min: 2, max: 1"), "canary.metrics[0]: min 2 is larger than max 1"),
        (metric("name: A b, query: up, max: 1"), "canary.metrics[0].name: \"A b\" is not"),
        (metric("name: a, server: 'http://x', query: up, max: 1"), "canary.metrics[0].server: \"http://x\" is not"),
        (metric("name: a, query: ' ', max: 1"), "canary.metrics[0].query: has 1 bytes"),
        (metric("name: a, query: up, max: 1, url: x"), "canary.metrics[0].url"),
        (metric("name: a, query: up, max: high"), "canary.metrics[0].max"),
        (
            metric("name: a, query: up, max: 1}, {name: a, query: up, max: 1"),
            "canary.metrics[1]: \"a\" is listed twice",
        ),
        (long, "canary.metrics[0].query: has 4097 bytes; a query has 1 to 4096"),
        (many, "canary.metrics: takes at most 5, has 6"),
    ];
    for (text, expected) in table {
        let found = wrong(&text);
        match found.as_slice() {
            [] => assert_eq!(expected, "", "{text}"),
            [error] => {
                let field = format!("metadata.annotations.{STAGE_CHECKS}: ");
                assert!(error.starts_with(&field), "{text}: {error}");
                assert!(!expected.is_empty() && error.contains(expected), "{text}: {error}");
            }
            more => panic!("{text}: {more:?}"),
        }
    }
}

#[test]
fn limits_admit_what_they_say() {
    let metric = |min, max| MetricCheck { name: "a".into(), server: None, query: "up".into(), min, max };
    let table = [
        (metric(None, Some(0.01)), "at most 0.01", [(0.01, true), (0.011, false), (-5.0, true)]),
        (metric(Some(3.0), None), "at least 3", [(3.0, true), (2.9, false), (1e9, true)]),
        (metric(Some(1.0), Some(2.0)), "1 to 2", [(1.0, true), (2.0, true), (2.1, false)]),
    ];
    for (metric, words, values) in table {
        assert_eq!(metric.limits(), words);
        for (value, expected) in values {
            assert_eq!(metric.admits(value), expected, "{words}: {value}");
        }
    }
}
