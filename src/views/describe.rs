//! One object with all its fields, and its events.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::rows::cluster_state;
use super::table::{Table, age};
use super::tree::{Line, Style};
use model::records::{ClusterRecord, JournalEntry};

/// The newest events that are shown; `export journal` has all stored ones.
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
    field_lines(&rest, 0, false, &mut lines);
    lines
}

/// What the states of clusters mean, by the words of `cluster_state`.
const CLUSTER_STATES: [(&str, &str); 6] = [
    ("online", "it answers, and gets what is for it"),
    ("offline", "it does not answer; it gets what is for it when it answers again"),
    ("never answered", "it has not answered yet; gitfleet tries again and again"),
    ("no access", "no entry of `members:` in the configuration names it"),
    ("left", "its MemberCluster is no longer in git; nothing on it is touched"),
    ("suspended", "a person suspended it; nothing is delivered to it"),
];

/// Returns a cluster line by line: its state in words in place of the conditions and the agent's status, which `-o yaml` has.
pub fn cluster_lines(cluster: &ClusterRecord, object: &Value, now: Timestamp) -> Vec<Line> {
    let mut object = object.clone();
    if let Some(status) = object["status"].as_object_mut() {
        status.retain(|field, _| !["conditions", "agentStatus"].contains(&field.as_str()));
    }
    let mut lines = object_lines(&object);
    let state = cluster_state(cluster);
    let meaning = CLUSTER_STATES.iter().find(|(known, _)| *known == state).map(|(_, meaning)| *meaning);
    let style = if cluster.online { Style::Ok } else { Style::Progressing };
    let since = format!("{:.0} ({} ago)", cluster.since, age(cluster.since, now));
    let reason = if cluster.online { None } else { cluster.message.clone() };
    let facts = [
        ("State", style, Some(state.to_owned())),
        ("Since", Style::Plain, Some(since)),
        ("Reason", Style::Plain, reason),
        ("Meaning", Style::Plain, meaning.map(str::to_owned)),
    ];
    let width = "API Version:".len();
    let said = facts.into_iter().filter_map(|(label, style, value)| {
        Some(Line::default().with(Style::Strong, format!("{:width$}  ", format!("{label}:"))).with(style, value?))
    });
    // After the name, which comes first.
    lines.splice(1..1, said);
    lines
}

/// Fields whose keys users chose: they are shown as they are written.
const KEYED_BY_USERS: [&str; 7] =
    ["labels", "annotations", "matchLabels", "nodeSelector", "data", "properties", "deletions"];

fn field_lines(fields: &Map<String, Value>, depth: usize, is_keyed_by_user: bool, lines: &mut Vec<Line>) {
    let indent = "  ".repeat(depth);
    let mut ordered: Vec<_> = fields.iter().filter(|(_, value)| !is_empty(value)).collect();
    ordered.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in ordered {
        let shown = if is_keyed_by_user { key.clone() } else { label(key) };
        let heading = Line::default().with(Style::Strong, format!("{indent}{shown}:"));
        match value {
            Value::Object(inner) => {
                lines.push(heading);
                field_lines(inner, depth + 1, KEYED_BY_USERS.contains(&key.as_str()), lines);
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
    field_lines(fields, depth + 1, false, lines);
    if let Some(span) = lines.get_mut(from).and_then(|line| line.spans.first_mut()) {
        // The line is indented one level deeper, so a blank is at that position.
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

/// Returns a field's name as kubectl shows it: words with capitals. Names with a slash or a dot are kept: users chose those
/// keys.
fn label(key: &str) -> String {
    if key.contains(['/', '.', '-', '_']) {
        return key.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in key.chars() {
        match words.last_mut() {
            // Only a capital after a small letter starts a word: `UID` stays one word.
            Some(word) if !(c.is_uppercase() && before.is_lowercase()) => word.push(c),
            _ => words.push(c.to_uppercase().collect()),
        }
        before = c;
    }
    for word in &mut words {
        let upper = word.to_uppercase();
        if ACRONYMS.contains(&upper.as_str()) {
            *word = upper;
        }
    }
    words.join(" ")
}

/// Returns journal entries as the table of events that kubectl shows, the newest [`EVENTS_SHOWN_MAX`], oldest first.
pub fn events_table(entries: &[&JournalEntry], now: Timestamp) -> Table {
    let mut table = Table::default();
    table.headers.extend(["TYPE", "REASON", "AGE", "FROM", "MESSAGE"].map(str::to_owned));
    let hidden = entries.len().saturating_sub(EVENTS_SHOWN_MAX);
    for entry in &entries[hidden..] {
        let type_ = if entry.is_warning() { "Warning" } else { "Normal" };
        let row = [type_, entry.event.as_str(), &age(entry.at, now), "gitfleet", &message(entry)].map(str::to_owned);
        table.rows.push(row.to_vec());
    }
    table
}

/// Returns the text of an entry: its message if it has one, else its facts by name.
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
mod tests;
