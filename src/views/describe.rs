//! One object with everything it says, and what happened to it.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::table::{Table, age};
use super::tree::{Line, Style};
use crate::model::records::JournalEntry;

/// Events that are shown, the newest ones; `export journal` has all that are kept.
pub const EVENTS_SHOWN_MAX: usize = 50;

/// Words that kubectl writes in capitals.
///
/// Source: kubectl, `smartLabelFor`.
const ACRONYMS: [&str; 5] = ["API", "URL", "UID", "OSB", "GUID"];

/// Returns an object line by line: what identifies it first, then every field.
///
/// Source: kubectl, describing an object of a kind it does not know.
pub fn object_lines(object: &Value) -> Vec<Line> {
    let metadata = &object["metadata"];
    let first = [
        ("Name", &metadata["name"]),
        ("Namespace", &metadata["namespace"]),
        ("API Version", &object["apiVersion"]),
        ("Kind", &object["kind"]),
    ];
    let width = first.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 1;
    let named = first.iter().filter(|(_, value)| !value.is_null()).map(|(label, value)| {
        let label = format!("{label}:");
        Line::default().with(Style::Strong, format!("{label:width$}  ")).with(Style::Plain, plain(value))
    });
    let mut lines: Vec<Line> = named.collect();
    for part in ["labels", "annotations"] {
        let entries = metadata[part].as_object().into_iter().flatten();
        for (position, (key, value)) in entries.enumerate() {
            let label = if position == 0 { format!("{}:", label(part)) } else { String::new() };
            lines.push(
                Line::default()
                    .with(Style::Strong, format!("{label:width$}  "))
                    .with(Style::Plain, format!("{key}={}", plain(value))),
            );
        }
    }
    let mut rest = object.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !["apiVersion", "kind", "metadata"].contains(&key.as_str()));
    let mut others = metadata.as_object().cloned().unwrap_or_default();
    others.retain(|key, _| !["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
    rest.insert("metadata".into(), others.into());
    field_lines(&rest, 0, &mut lines);
    lines
}

fn field_lines(fields: &Map<String, Value>, depth: usize, lines: &mut Vec<Line>) {
    let indent = "  ".repeat(depth);
    let mut ordered: Vec<_> = fields.iter().filter(|(_, value)| !is_empty(value)).collect();
    ordered.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in ordered {
        let heading = Line::default().with(Style::Strong, format!("{indent}{}:", label(key)));
        match value {
            Value::Object(inner) => {
                lines.push(heading);
                field_lines(inner, depth + 1, lines);
            }
            Value::Array(items) => {
                lines.push(heading);
                for item in items {
                    match item {
                        Value::Object(inner) => entry_lines(inner, depth + 1, lines),
                        other => lines.push(Line::default().with(Style::Plain, format!("{indent}  {}", plain(other)))),
                    }
                }
            }
            other => lines.push(heading.with(Style::Plain, format!("  {}", plain(other)))),
        }
    }
}

/// Writes an entry of a list: a dash marks where it begins.
fn entry_lines(fields: &Map<String, Value>, depth: usize, lines: &mut Vec<Line>) {
    let from = lines.len();
    field_lines(fields, depth + 1, lines);
    if let Some(span) = lines.get_mut(from).and_then(|line| line.spans.first_mut()) {
        // The line is one level deeper than that, so a blank stands there.
        span.text.replace_range(depth * 2..=depth * 2, "-");
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn plain(value: &Value) -> String {
    super::table::text(Some(value))
}

/// Returns a field's name as kubectl shows it: words with capitals. Names with a slash or a dot are kept: they are keys of
/// people.
fn label(key: &str) -> String {
    if key.contains(['/', '.', '-', '_']) {
        return key.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in key.chars() {
        match words.last_mut() {
            // Only a capital after a small letter begins a word: `UID` stays one.
            Some(word) if !(c.is_uppercase() && before.is_lowercase()) => word.push(c),
            _ => words.push(c.to_uppercase().collect()),
        }
        before = c;
    }
    let known = |word: String| {
        let upper = word.to_uppercase();
        if ACRONYMS.contains(&upper.as_str()) { upper } else { word }
    };
    words.into_iter().map(known).collect::<Vec<_>>().join(" ")
}

/// Returns journal entries as the table of events that kubectl shows, the newest [`EVENTS_SHOWN_MAX`], oldest first.
pub fn events_table(entries: &[&JournalEntry], now: Timestamp) -> Table {
    let mut table = Table::default();
    table.headers.extend(["TYPE", "REASON", "AGE", "FROM", "MESSAGE"].map(str::to_owned));
    let hidden = entries.len().saturating_sub(EVENTS_SHOWN_MAX);
    for entry in &entries[hidden..] {
        let type_ = if entry.event.is_warning() { "Warning" } else { "Normal" };
        let row = [type_, entry.event.as_str(), &age(entry.at, now), "gitfleet", &message(entry)].map(str::to_owned);
        table.rows.push(row.to_vec());
    }
    table
}

/// Says what an entry says: its own message where it has one, else its facts by name.
fn message(entry: &JournalEntry) -> String {
    let cluster = entry.cluster.iter().map(|cluster| format!("cluster {cluster}"));
    let facts = entry.facts.as_object();
    let facts: Vec<String> = match facts.and_then(|facts| facts.get("message")) {
        Some(message) => vec![plain(message)],
        None => facts.into_iter().flatten().map(|(name, value)| format!("{name}={}", plain(value))).collect(),
    };
    cluster.chain((!facts.is_empty()).then(|| facts.join(" "))).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::fixtures::at;

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
            "spec": {"placementName": "web", "empty": [], "names": ["east", "west"]},
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
        assert_eq!(
            (table.rows.len(), table.rows[EVENTS_SHOWN_MAX - 1][1].as_str()),
            (EVENTS_SHOWN_MAX, "RolloutStarted")
        );
    }
}
