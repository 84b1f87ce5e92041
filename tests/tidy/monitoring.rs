//! The dashboard and the alerts name only metrics, labels and values that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex::Regex;
use serde_json::Value;
use system::telemetry::metrics::{
    Channel, Decision, Delivered, Drift, ForgeAnswer, ForgeMethod, GateKind, METRICS, MemberState, MetricInfo,
    MetricKind, Notified, Outcome, PROCESS_METRICS, Part, Phase, PlacementState, Poll, Verb, WriteOutcome,
};

use super::none;
use super::text::root;

const FOLDER: &str = "deploy/monitoring";
/// The labels that every series gets from Prometheus.
const OF_TARGETS: [&str; 2] = ["job", "instance"];
/// The oldest version of a dashboard's format that Grafana 11 writes.
const SCHEMA_VERSION_MIN: u64 = 39;

/// An expression, where it stands, and the texts that show its labels.
struct Query {
    place: String,
    expression: String,
    texts: Vec<String>,
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(FOLDER).join(name)).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn rules() -> Vec<Query> {
    let rules: Value = serde_yaml::from_str(&read("rules.yaml")).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    let query = |rule: &Value| {
        let place = format!("rules.yaml: {}", rule["alert"].as_str().unwrap());
        let texts = ["summary", "description"].map(|name| text(&rule["annotations"][name]));
        assert!(texts.iter().all(|text| !text.is_empty()), "{place} has no summary or no description");
        let severity = text(&rule["labels"]["severity"]);
        assert!(["info", "warning", "critical"].contains(&severity.as_str()), "{place} has the severity {severity:?}");
        Query { place, expression: text(&rule["expr"]), texts: texts.to_vec() }
    };
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).map(query).collect()
}

fn dashboard() -> Vec<Query> {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(SCHEMA_VERSION_MIN), "{}", dashboard["schemaVersion"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let targets = panels.iter().flat_map(|panel| {
        let of_panel = panel["targets"].as_array().into_iter().flatten();
        of_panel.map(move |target| {
            let place = format!("dashboard.json: {}", text(&panel["title"]));
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{place}");
            Query { place, expression: text(&target["expr"]), texts: vec![text(&target["legendFormat"])] }
        })
    });
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter().filter(|of| of["type"] == "query");
    let variables = variables.map(|of| {
        let expression = text(&of["query"]["query"]);
        Query { place: format!("dashboard.json: ${}", text(&of["name"])), expression, texts: Vec::new() }
    });
    targets.chain(variables).collect()
}

/// Returns every name that is served, with its metric.
fn served() -> BTreeMap<String, &'static MetricInfo> {
    let names = |metric: &'static MetricInfo| {
        let suffixes: &[&str] = match metric.kind {
            MetricKind::Counter => &["_total"],
            MetricKind::Gauge => &[""],
            MetricKind::Histogram => &["_bucket", "_count", "_sum"],
        };
        suffixes.iter().map(move |suffix| (format!("{}{suffix}", metric.name), metric))
    };
    METRICS.iter().chain(PROCESS_METRICS).flat_map(names).collect()
}

/// Returns the values that a label of a metric has.
fn values(metric: &str, label: &str) -> Vec<&'static str> {
    macro_rules! all {
        ($values:ty) => {
            <$values>::ALL.iter().map(|value| value.as_str()).collect()
        };
    }
    match (metric, label) {
        ("gitfleet_rollout_placements" | "gitfleet_placement_info", "state") => all!(PlacementState),
        ("gitfleet_cluster_members", "state") => all!(MemberState),
        ("gitfleet_source_polls", "result") => all!(Poll),
        ("gitfleet_cluster_writes" | "gitfleet_cluster_write_seconds", "result") => all!(WriteOutcome),
        ("gitfleet_cluster_drift", "result") => all!(Drift),
        ("gitfleet_http_webhooks", "result") => all!(Delivered),
        ("gitfleet_forge_calls", "result") => all!(ForgeAnswer),
        ("gitfleet_engine_decisions", "result") => all!(Decision),
        ("gitfleet_notifications", "result") => all!(Notified),
        (_, "result") => all!(Outcome),
        (_, "channel") => all!(Channel),
        (_, "phase") => all!(Phase),
        (_, "kind") => all!(GateKind),
        (_, "part") => all!(Part),
        (_, "verb") => all!(Verb),
        (_, "method") => all!(ForgeMethod),
        _ => Vec::new(),
    }
}

/// Returns what is wrong with a query.
fn problems(query: &Query) -> Vec<String> {
    let (served, mut labels) = (served(), BTreeSet::from(OF_TARGETS));
    let mut found = Vec::new();
    let metrics = Regex::new(r"\b((?:gitfleet|process)_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let matcher = Regex::new(r#"^([a-z_]+)(?:=|!=|=~|!~)"([^"]*)"$"#).unwrap();
    for named in metrics.captures_iter(&query.expression) {
        let Some(metric) = served.get(&named[1]) else {
            found.push(format!("{} is not served", &named[1]));
            continue;
        };
        labels.extend(metric.labels);
        labels.extend(named[1].ends_with("_bucket").then_some("le"));
        let matchers = named.get(2).map_or("", |matchers| matchers.as_str());
        for part in matchers.split(',').filter(|part| !part.is_empty()) {
            let Some(part) = matcher.captures(part.trim()) else {
                found.push(format!("{part} is no matcher"));
                continue;
            };
            let (label, wanted) = (&part[1], &part[2]);
            if OF_TARGETS.contains(&label) {
                continue;
            }
            if !metric.labels.contains(&label) {
                found.push(format!("{} has no label {label}", metric.name));
            }
            let known = values(metric.name, label);
            let unknown = wanted.split('|').filter(|value| !known.contains(value));
            found.extend(unknown.map(|value| format!("{label} of {} is never {value:?}", metric.name)));
        }
    }
    if labels.len() == OF_TARGETS.len() && !metrics.is_match(&query.expression) {
        found.push("it asks for no metric".to_owned());
    }
    let grouping = Regex::new(r"\b(?:by|without|on|ignoring) ?\(([^)]*)\)").unwrap();
    let shown = Regex::new(r"\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}").unwrap();
    let grouped = grouping.captures_iter(&query.expression).map(|found| found[1].to_owned());
    let shown = query.texts.iter().flat_map(|text| shown.captures_iter(text)).map(|found| found[1].to_owned());
    for label in
        grouped.chain(shown).flat_map(|labels| labels.split(',').map(|l| l.trim().to_owned()).collect::<Vec<_>>())
    {
        if !labels.contains(label.as_str()) {
            found.push(format!("none of its metrics has the label {label}"));
        }
    }
    found.into_iter().map(|problem| format!("{}: {problem}", query.place)).collect()
}

#[test]
fn dashboard_and_alerts_ask_for_what_is_served() {
    let queries: Vec<Query> = rules().into_iter().chain(dashboard()).collect();
    assert!(queries.len() > 40, "they are found");
    let complaints: Vec<String> = queries.iter().flat_map(problems).collect();
    none(&complaints, "docs/reference/metrics.md lists the metrics and their labels.");
}

#[test]
fn a_query_for_what_is_not_served_is_found() {
    for (expression, shown, problem) in [
        ("gitfleet_rollout_runs{phase=\"halted\"}", "{{phase}}", ""),
        ("gitfleet_rollout_run{phase=\"halted\"}", "", "gitfleet_rollout_run is not served"),
        ("gitfleet_store_commits", "", "gitfleet_store_commits is not served"),
        ("gitfleet_rollout_runs{phase=\"stuck\"}", "", "phase of gitfleet_rollout_runs is never \"stuck\""),
        ("gitfleet_rollout_runs{state=\"halted\"}", "", "gitfleet_rollout_runs has no label state"),
        ("sum by (state) (gitfleet_rollout_runs)", "", "none of its metrics has the label state"),
        ("gitfleet_rollout_runs", "{{ $labels.cluster }}", "none of its metrics has the label cluster"),
        ("vector(1)", "", "it asks for no metric"),
    ] {
        let query =
            Query { place: "here".to_owned(), expression: expression.to_owned(), texts: vec![shown.to_owned()] };
        let found = problems(&query).join("\n");
        assert!(found.contains(problem) && found.is_empty() == problem.is_empty(), "{expression}: {found}");
    }
}

/// Every alert is explained, and nothing else is.
#[test]
fn the_page_has_every_alert() {
    let page = fs::read_to_string(root().join("docs/monitoring.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Gitfleet")?.split('`').next());
    let explained: Vec<String> = rows.map(|name| format!("rules.yaml: Gitfleet{name}")).collect();
    assert_eq!(explained, rules().into_iter().map(|rule| rule.place).collect::<Vec<_>>());
}

/// The same rules, as the Prometheus operator takes them.
#[test]
fn the_operators_rules_are_fresh() {
    let rules = read("rules.yaml");
    let groups = &rules[rules.find("groups:").unwrap()..];
    let indented = groups.lines().map(|line| format!("  {line}\n")).collect::<Vec<_>>().concat();
    let expected = format!(
        "# Made from rules.yaml by `UPDATE=1 cargo test --test tidy`; do not edit.\n\
         apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: gitfleet\n  labels:\n    \
         app.kubernetes.io/name: gitfleet\nspec:\n{indented}"
    );
    let path = root().join(FOLDER).join("prometheusrule.yaml");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{FOLDER}/prometheusrule.yaml is stale: run `UPDATE=1 cargo test --test tidy` and commit it"
    );
}
