//! Tables of the objects of [`super::objects`]: with the print columns of KubeFleet's kinds, or with our own.
//!
//! Columns are paths into objects, like `additionalPrinterColumns`, so records and answers of the daemon's API give the same
//! table.

use crate::table::kinds::Cell;
use decide::status::rollout::StateKind;
use jiff::Timestamp;
use model::conditions::ConditionType;
use serde::Deserialize as _;
use serde_json::Value;

mod columns;
mod kinds;

use columns::{columns, own_columns};
pub use kinds::{Columns, TableKind};

/// Characters of a commit that are shown.
const COMMIT_SHOWN: usize = 7;

/// Headers and rows of text, without layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// One for each column.
    pub headers: Vec<String>,
    /// Rows with as many cells.
    pub rows: Vec<Vec<String>>,
}

/// Returns the table of objects, in their order, with a namespace column where one of them has a namespace.
///
/// A missing field is an empty cell, as with kubectl.
pub fn table(kind: TableKind, whose: Columns, objects: &[Value], wide: bool, now: Timestamp) -> Table {
    let namespaced = objects.iter().any(|o| o.pointer("/metadata/namespace").is_some());
    let mixed = objects.iter().any(|o| o.get("kind") != objects[0].get("kind"));
    let columns: Vec<_> = columns(kind, whose).iter().filter(|(_, _, only_wide)| wide || !only_wide).collect();
    let mut table = Table::default();
    table.headers.extend(namespaced.then(|| "NAMESPACE".to_owned()));
    table.headers.extend(columns.iter().map(|(header, _, _)| (*header).to_owned()));
    for object in objects {
        let mut row = Vec::with_capacity(table.headers.len());
        row.extend(namespaced.then(|| text(object.pointer("/metadata/namespace"))));
        row.extend(columns.iter().map(|(_, cell, _)| cell_text(cell, object, mixed, now)));
        table.rows.push(row);
    }
    table
}

/// Returns an object with no more than its line needs: the tables of what is left are the same.
pub fn line_of(kind: TableKind, object: &Value) -> Value {
    let mut line = serde_json::Map::new();
    for field in ["apiVersion", "kind"] {
        line.extend(object.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    let mut line = Value::Object(line);
    let mut shown = Vec::new();
    for pointer in ["/metadata/name", "/metadata/namespace"] {
        copy(object, pointer, &mut line);
    }
    for (_, cell, _) in columns(kind, Columns::KubeFleet).iter().chain(own_columns(kind).unwrap_or_default()) {
        match cell {
            Cell::At(pointer)
            | Cell::Age(pointer)
            | Cell::Count(pointer)
            | Cell::State(pointer)
            | Cell::Commit(pointer)
            | Cell::Labels(pointer) => copy(object, pointer, &mut line),
            Cell::Share(done, all) => [done, all].into_iter().for_each(|pointer| copy(object, pointer, &mut line)),
            Cell::Status(type_) | Cell::Reason(type_) | Cell::Generation(type_) => shown.push(type_on(type_, object)),
            Cell::Name | Cell::BareName => {}
        }
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let conditions = conditions.filter(|condition| shown.iter().any(|type_| condition["type"] == type_.as_str()));
    let conditions: Vec<Value> = conditions.map(short_condition).collect();
    if !conditions.is_empty() {
        line["status"]["conditions"] = conditions.into();
    }
    line
}

fn short_condition(condition: &Value) -> Value {
    let kept = ["type", "status", "reason", "observedGeneration"];
    let kept = kept.iter().filter_map(|field| Some(((*field).to_owned(), condition.get(*field)?.clone())));
    Value::Object(kept.collect())
}

/// Copies the value at a JSON pointer, where there is one, with the objects and lists around it.
fn copy(from: &Value, pointer: &str, to: &mut Value) {
    let Some(value) = from.pointer(pointer) else { return };
    let mut place = to;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        place = match step.parse::<usize>() {
            Ok(0) => {
                if !place.is_array() {
                    *place = Value::Array(vec![Value::Null]);
                }
                &mut place[0]
            }
            _ => &mut place[&step],
        };
    }
    *place = value.clone();
}

fn type_on(type_: &ConditionType, object: &Value) -> ConditionType {
    match object.get("kind").and_then(Value::as_str) {
        Some("ClusterResourcePlacement") => type_.on_placement(false),
        Some("ResourcePlacement") => type_.on_placement(true),
        _ => type_.clone(),
    }
}

/// Returns an object's line of `-o name`: `kind.group/name`, in lower case as kubectl writes it.
pub fn name_line(object: &Value) -> String {
    let api_version = text(object.get("apiVersion"));
    let kind = text(object.get("kind")).to_lowercase();
    let name = text(object.pointer("/metadata/name"));
    match api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn cell_text(cell: &Cell, object: &Value, mixed: bool, now: Timestamp) -> String {
    match cell {
        Cell::At(pointer) => text(object.pointer(pointer)),
        Cell::Age(pointer) => match object.pointer(pointer).and_then(Value::as_str).and_then(|t| t.parse().ok()) {
            Some(then) => age(then, now),
            None => String::new(),
        },
        Cell::Status(type_) => condition_field(object, type_, "status"),
        Cell::Reason(type_) => condition_field(object, type_, "reason"),
        Cell::Count(pointer) => object.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len).to_string(),
        Cell::Generation(type_) => condition_field(object, type_, "observedGeneration"),
        // Among several kinds a name alone would not say which object is meant.
        Cell::Name if mixed => name_line(object),
        Cell::Name | Cell::BareName => text(object.pointer("/metadata/name")),
        Cell::State(pointer) => match object.pointer(pointer).map(StateKind::deserialize) {
            Some(Ok(state)) => state.to_string(),
            _ => String::new(),
        },
        Cell::Commit(pointer) => text(object.pointer(pointer)).chars().take(COMMIT_SHOWN).collect(),
        Cell::Share(done, all) => match (object.pointer(done), object.pointer(all)) {
            (Some(done), Some(all)) => format!("{done}/{all}"),
            _ => String::new(),
        },
        Cell::Labels(pointer) => {
            let labels = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
            labels.map(|(key, value)| format!("{key}={}", text(Some(value)))).collect::<Vec<_>>().join(",")
        }
    }
}

fn condition_field(object: &Value, type_: &ConditionType, field: &str) -> String {
    let type_ = type_on(type_, object);
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_.as_str());
    text(found.and_then(|condition| condition.get(field)))
}

/// Returns a value as the text of a cell: empty for a missing one.
pub fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns an age as kubectl prints it: two units while the first is small, else one.
///
/// Source: `duration.HumanDuration` of k8s.io/apimachinery.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86_400;
    let (big, big_unit, small, small_unit) = match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1 => return "0s".to_owned(),
        0..120 => return format!("{seconds}s"),
        120..600 => (minutes, "m", seconds % 60, "s"),
        600..10_800 => return format!("{minutes}m"),
        10_800..28_800 => (hours, "h", minutes % 60, "m"),
        28_800..172_800 => return format!("{hours}h"),
        172_800..691_200 => (days, "d", hours % 24, "h"),
        691_200..63_072_000 => return format!("{days}d"),
        63_072_000..252_288_000 => (days / 365, "y", days % 365, "d"),
        _ => return format!("{}y", days / 365),
    };
    if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests;
