//! The reference pages that are made from the code: `UPDATE=1 cargo test --test tidy` writes them anew.
//!
//! `deploy/crds` is kept fresh by a test of its own, beside the types.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use gitfleet::api::annotations::{ON_MANAGED, ON_MEMBER, ON_PLACEMENT, ON_STRATEGY, PREFIX, Rule};
use gitfleet::telemetry::metrics::{Kind, METRICS};

use super::ANNOTATIONS;
use super::text::root;

/// Where the pages are.
const FOLDER: &str = "docs/reference";

/// Which kinds carry which annotations.
const CARRIERS: &[(&str, &[Rule])] = &[
    ("ClusterResourcePlacement, ResourcePlacement", ON_PLACEMENT),
    ("ClusterStagedUpdateStrategy, StagedUpdateStrategy", ON_STRATEGY),
    ("MemberCluster", ON_MEMBER),
    ("ManagedCluster", ON_MANAGED),
];

/// Fails where a page is not what the code says; writes it where that is asked for.
fn fresh(name: &str, expected: &str) {
    let path = root().join(FOLDER).join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(root().join(FOLDER)).unwrap();
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{FOLDER}/{name} is stale: run `UPDATE=1 cargo test --test tidy` and commit it");
}

#[test]
fn metrics_page_is_fresh() {
    let mut page =
        "# Metrics\n\nServed at `/metrics` in the OpenMetrics text format. No label grows with the fleet: each has a \
                    fixed set of values.\n\n\
                    <!-- Made from src/telemetry/metrics.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n\
                    | metric | type | labels | tells |\n|---|---|---|---|\n"
            .to_owned();
    for metric in METRICS {
        let suffix = if metric.kind == Kind::Counter { "_total" } else { "" };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, labels) = (metric.kind.as_str(), labels.join(", "));
        writeln!(page, "| `{}{suffix}` | {kind} | {labels} | {} |", metric.name, metric.help).unwrap();
    }
    fresh("metrics.md", &page);
}

#[test]
fn annotations_page_is_fresh() {
    let documented = documented();
    let described: BTreeSet<&str> = documented.iter().map(|(name, _)| name.as_str()).collect();
    for (name, _) in CARRIERS.iter().flat_map(|(_, rules)| *rules) {
        assert!(described.contains(name), "{name} is no documented constant of {ANNOTATIONS}: add it there");
    }
    let mut page = "# Annotations\n\ngitfleet extends KubeFleet and OCM by annotations, so that the same files work on their \
                    hubs too. A wrong value, or an unknown name with this prefix on one of these kinds, refuses the commit.\n\n\
                    <!-- Made from src/api/annotations.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n"
        .to_owned();
    for (kinds, rules) in CARRIERS {
        write!(page, "## On {kinds}\n\n| annotation | meaning |\n|---|---|\n").unwrap();
        for (name, _) in *rules {
            let (_, meaning) = documented.iter().find(|(other, _)| other == name).expect("checked above");
            writeln!(page, "| `{name}` | {} |", meaning.split_once(": ").map_or(meaning.as_str(), |(_, text)| text))
                .unwrap();
        }
        page.push('\n');
    }
    page.push_str("## Written by gitfleet\n\nNever write these yourself.\n\n| annotation | meaning |\n|---|---|\n");
    for (name, meaning) in documented.iter().filter(|(_, meaning)| meaning.starts_with("Written")) {
        writeln!(page, "| `{name}` | {meaning} |").unwrap();
    }
    for (name, _) in &documented {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} is in no list: add a rule for it, or say `Written on ...`"
        );
    }
    fresh("annotations.md", &page);
}

/// Returns the names of the annotations and what their documentation says, in the order of the file.
fn documented() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(ANNOTATIONS)).unwrap();
    let (mut documentation, mut found) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(sentence) = line.strip_prefix("/// ") {
            documentation.push(sentence);
            continue;
        }
        let value =
            line.strip_prefix("pub const ").and_then(|rest| rest.split_once("&str = \"")?.1.strip_suffix("\";"));
        if let Some(name) = value.filter(|name| *name != PREFIX && name.starts_with(PREFIX)) {
            assert!(!documentation.is_empty(), "{name} has no documentation in {ANNOTATIONS}");
            found.push((name.to_owned(), documentation.join(" ")));
        }
        documentation.clear();
    }
    assert!(!found.is_empty(), "no annotation found in {ANNOTATIONS}");
    found
}
