//! The reference pages that are made from the code: `UPDATE=1 cargo test --test tidy` writes them again.
//!
//! `deploy/crds` is kept fresh by a test of its own, beside the types.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::fs;

use model::api::annotations::{ON_MANAGED, ON_MEMBER, ON_OVERRIDE, ON_PLACEMENT, ON_STRATEGY, PREFIX, Rule};
use model::conditions::{ConditionType, Reason};
use model::journal::JournalKind;
use model::notification::NotificationKind;
use model::texts::Known;
use serde_json::Value;
use server::{
    BODIES_BYTES_MAX, BODIES_MAX, BODY_TIME, CONNECTIONS_MAX, Caller, HEAD_BYTES_MAX, HEAD_TIME, PAGE_STREAMS_MAX,
    READS_MAX, REQUEST_TIME, Route, SESSION_TIME, SESSIONS_MAX, STREAM_PATIENCE, STREAMS_MAX, TURN_TIME, routes,
};
use system::telemetry::metrics::{METRICS, MetricKind, PROCESS_METRICS};
use views::lists::{PAGE_BYTES, PAGE_BYTES_MAX, PAGE_ITEMS, PAGE_ITEMS_MAX};
use views::notification::CloudEvent;
use views::summary::PLACEMENTS_BYTES_MAX;

use super::ANNOTATIONS;
use super::text::{files, root};

/// Where the pages are.
const FOLDER: &str = "docs/reference";

/// Which kinds carry which annotations.
const CARRIERS: &[(&str, &[Rule])] = &[
    ("ClusterResourcePlacement, ResourcePlacement", ON_PLACEMENT),
    ("ClusterStagedUpdateStrategy, StagedUpdateStrategy", ON_STRATEGY),
    ("ClusterResourceOverride, ResourceOverride", ON_OVERRIDE),
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
        "# Metrics\n\nServed at `/metrics` in the OpenMetrics text format. Each label has a fixed set of values, except \
                    `placement` of `gitfleet_placement_info`, of which there are at most 500.\n\n\
                    <!-- Made from src/system/telemetry/metrics.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n\
                    | metric | type | labels | tells |\n|---|---|---|---|\n"
            .to_owned();
    for metric in METRICS.iter().chain(PROCESS_METRICS) {
        let suffix = if metric.kind == MetricKind::Counter { "_total" } else { "" };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, labels) = (metric.kind.as_str(), labels.join(", "));
        writeln!(page, "| `{}{suffix}` | {kind} | {labels} | {} |", metric.name, metric.help).unwrap();
    }
    fresh("metrics.md", &page);
}

/// A metric that nobody sets is worse than none: it says that nothing happens.
#[test]
fn every_metric_is_set_by_the_program() {
    let shipped = files("src").into_iter().filter(|file| !file.path.starts_with("src/system/telemetry/"));
    let code: String =
        shipped.flat_map(|file| file.shipped.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_set = |field: &str| {
        let rests =
            code.match_indices("metrics.").filter_map(|(at, found)| code[at + found.len()..].strip_prefix(field));
        rests.into_iter().any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    // What was built is known from the start and never changes.
    let changing = METRICS.iter().filter(|metric| metric.field != "build");
    let unset: Vec<String> = changing.filter(|metric| !is_set(metric.field)).map(|m| m.name.to_owned()).collect();
    super::none(&unset, "set these metrics where the facts are, or delete them");
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
                    <!-- Made from src/model/api/annotations.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n"
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

/// The help of every command, as `gitfleet COMMAND --help` prints it on a terminal of this width.
const HELP_WIDTH: usize = 110;

#[test]
fn command_line_page_is_fresh() {
    let mut page = "# Command line\n\nThe help of every command.\n\n\
                    <!-- Made from src/gitfleet by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n"
        .to_owned();
    write_help(&mut page, gitfleet::command(), "gitfleet");
    fresh("cli.md", &page);
}

#[test]
fn configuration_page_is_fresh() {
    let schema = config::schema();
    let mut rows = Vec::new();
    fields(&schema, &schema, "", &mut rows);
    let mut page = "# gitfleet.yaml\n\nEvery field of the configuration file. `[]` is an item of a list. Relative paths are relative to \
                    the file; `gitfleet config schema` prints the same as a JSON schema, for editors.\n\n\
                    <!-- Made from src/config by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n\
                    | field | type | default | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for row in &rows {
        writeln!(page, "| {row} |").unwrap();
    }
    page += "\n## Environment\n\nThese variables replace fields of the file, and options of the command line replace both. Paths among them are relative \
             to the working directory.\n\n| variable | field |\n|---|---|\n";
    for (variable, field) in config::OVERRIDES {
        writeln!(page, "| `{variable}` | `{field}` |").unwrap();
    }
    fresh("configuration.md", &page);
}

/// Follows a reference of the schema, through a choice between something and null, too.
fn resolved<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    let part = part["anyOf"].as_array().and_then(|choices| choices.first()).unwrap_or(part);
    match part["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).expect("the schema has it"),
        None => part,
    }
}

/// Lists the fields of a part of the schema and then of what lies below each, as rows of a table.
fn fields(schema: &Value, part: &Value, path: &str, rows: &mut Vec<String>) {
    let alternatives = part["oneOf"].as_array().into_iter().flatten();
    for part in std::iter::once(part).chain(alternatives) {
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let target = resolved(schema, field);
            let meaning = field["description"].as_str().or_else(|| target["description"].as_str()).unwrap_or_default();
            let default = match &field["default"] {
                Value::Null | Value::Object(_) => String::new(),
                default => format!("`{default}`"),
            };
            let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
            rows.push(format!("`{path}` | {} | {default} | {meaning}", type_of(schema, target)));
            let items = target.get("items").map(|items| resolved(schema, items));
            let (below, path) = items.map_or((target, path.clone()), |items| (items, format!("{path}[]")));
            fields(schema, below, &path, rows);
        }
    }
}

/// Returns the type of a field as people call it, with its choices.
fn type_of(schema: &Value, part: &Value) -> String {
    let choices: Vec<String> = [&part["enum"], &part["oneOf"]]
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(|choice| choice.get("const").unwrap_or(choice).as_str())
        .map(|choice| format!("`{choice}`"))
        .collect();
    if !choices.is_empty() {
        return choices.join(", ");
    }
    let name = part["type"].as_str().or_else(|| part["type"][0].as_str()).unwrap_or("object");
    match part.get("items") {
        Some(items) => format!("list of {}", type_of(schema, resolved(schema, items))),
        None if part["format"].as_str().is_some_and(|format| format.ends_with("duration")) => "duration".to_owned(),
        None => name.to_owned(),
    }
}

/// Writes the help of a command and then of those below it.
fn write_help(page: &mut String, command: clap::Command, name: &str) {
    let mut command = command.bin_name(name).term_width(HELP_WIDTH).mut_args(|argument| {
        // What every command takes is told once.
        let is_repeated = argument.is_global_set() && name.contains(' ');
        let is_hidden = is_repeated || argument.is_hide_set();
        argument.hide_env_values(true).hide(is_hidden)
    });
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n")).unwrap();
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
        write_help(page, below.clone(), &format!("{name} {}", below.get_name()));
    }
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

#[test]
fn conditions_page_is_fresh() {
    let mut page = "# Conditions\n\nEvery condition type that gitfleet writes or reads, and every reason. Types and reasons are KubeFleet's and OCM's \
                    where they have one. A reason begins with the type that it is written with.\n\n\
                    <!-- Made from src/model/conditions.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n## Types\n"
        .to_owned();
    texts(&mut page, "###", "type", ConditionType::ALL);
    page.push_str("\n## Reasons\n");
    texts(&mut page, "###", "reason", Reason::ALL);
    fresh("conditions.md", &page);
}

#[test]
fn journal_page_is_fresh() {
    let mut page = "# Journal\n\nWhat happened, in order: `gitfleet export journal`, the events of `gitfleet describe`, and `/api/v1/journal`. \
                    An entry has these fields:\n\n\
                    | field | meaning |\n|---|---|\n\
                    | `at` | when |\n\
                    | `event` | the kind, one of those below |\n\
                    | `placement` | the placement that it is about; absent where it is about none |\n\
                    | `cluster` | the cluster that it is about; absent where it is about none |\n\
                    | `facts` | what else is known, by kind |\n\n\
                    A fact that is not known is absent or null.\n\n\
                    <!-- Made from src/model/journal.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n"
        .to_owned();
    texts(&mut page, "##", "kind", JournalKind::ALL);
    fresh("journal.md", &page);
}

/// Writes a table for each section of an enum of texts.
fn texts<T: Display>(page: &mut String, level: &str, what: &str, known: &[Known<T>]) {
    for part in known.chunk_by(|a, b| a.section == b.section) {
        let has_fields = part.iter().any(|known| !known.fields.is_empty());
        let (header, rule) = if has_fields { (" facts |", "---|") } else { ("", "") };
        write!(page, "\n{level} {}\n\n| {what} |{header} meaning |\n|---|{rule}---|\n", part[0].section).unwrap();
        for known in part {
            let fields = known.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
            let fields = if has_fields { format!(" {fields} |") } else { fields };
            writeln!(page, "| `{}` |{fields} {} |", known.value, known.meaning.trim()).unwrap();
        }
    }
}

#[test]
fn schema_of_notifications_is_fresh() {
    let schema = schemars::schema_for!(CloudEvent).to_value();
    fresh("notification.schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()));
    let page = fs::read_to_string(root().join("docs/notifications.md")).unwrap();
    for kind in NotificationKind::ALL {
        let row = format!("| `{kind:?}` | `{}` |", kind.event_type());
        assert!(page.contains(&row), "docs/notifications.md has no row that begins with {row}");
    }
}

#[test]
fn http_page_is_fresh() {
    let mut page = "# HTTP API\n\nWhat the daemon serves at `http.listen`; with `http.webhookListen`, webhooks are served there instead. Answers are JSON unless \
         the table says otherwise. A request that names the daemon by a name that it does not have is answered with 421: see \
         `http.hosts` in [configuration](configuration.md).\n\n\
         <!-- Made from src/server/routes.rs by `UPDATE=1 cargo test --test tidy`; do not edit. -->\n\n\
         ## Callers\n\nA token is sent as `Authorization: Bearer TOKEN`. Without a token the answer is 401, with an unknown one 403.\n\n\
         | caller | must show |\n|---|---|\n"
        .to_owned();
    for (name, shows) in Caller::ALL.map(Caller::description) {
        writeln!(page, "| {name} | {shows} |").unwrap();
    }
    page.push_str("\n## Routes\n\n| request | caller | parameters | answer | limit |\n|---|---|---|---|---|\n");
    for Route { method, path, caller, parameters, answer, limit, in_turn, .. } in routes() {
        let limits = limit.map(|limit| limit.to_string()).into_iter().chain(in_turn.then(|| "in turn".to_owned()));
        let (caller, limits) = (caller.description().0, limits.collect::<Vec<_>>().join("; "));
        writeln!(page, "| `{method} {path}` | {caller} | {parameters} | {answer} | {limits} |").unwrap();
    }
    write!(
        page,
        "\n## Limits\n\n\
         - {CONNECTIONS_MAX} connections at each address. One more takes the place of the one whose last request is oldest.\n\
         - The head of a request has at most {} KiB, and comes within {} s.\n\
         - A request takes at most {} s from its head to the last byte of its answer.\n\
         - Answers that are made in turn: {READS_MAX} at a time. A request waits {} s for its turn, and is answered with 503 after that.\n\
         - Bodies: {BODIES_MAX} of each kind are read at a time, with {} MiB in all, each within {} s.\n\
         - A page of a listing has {PAGE_ITEMS} items and {} KiB, unless `limit` asks for another number; then at most {PAGE_ITEMS_MAX} \
         items and {} KiB. A summary describes placements within {} KiB, and counts the others.\n\
         - Streams: {STREAMS_MAX} at a time, and {PAGE_STREAMS_MAX} of open pages, which take only `summary`. One whose reader takes nothing for \
         {} s is cut off.\n\
         - The page: {SESSIONS_MAX} sessions at a time, each for {} hours.\n",
        HEAD_BYTES_MAX / 1024,
        HEAD_TIME.as_secs(),
        REQUEST_TIME.as_secs(),
        TURN_TIME.as_secs(),
        BODIES_BYTES_MAX / 1024 / 1024,
        BODY_TIME.as_secs(),
        PAGE_BYTES / 1024,
        PAGE_BYTES_MAX / 1024,
        PLACEMENTS_BYTES_MAX / 1024,
        STREAM_PATIENCE.as_secs(),
        SESSION_TIME.as_secs() / 3600,
    )
    .unwrap();
    fresh("http-api.md", &page);
}
