//! How machines read an event.

use std::fmt::{self, Debug};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer, format};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The field with the facts of an entry of the journal: a JSON object, as text. `tracing` has no fields of other types than text, numbers
/// and booleans, and none whose names are known only when they are logged.
pub(super) const FACTS: &str = "facts";

/// One event, one JSON object with its fields; the facts of an entry of the journal are an object in it.
pub(super) struct JsonLine(Format<Json>);

impl Default for JsonLine {
    fn default() -> Self {
        Self(format().json().flatten_event(true).with_current_span(false))
    }
}

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if event.metadata().fields().field(FACTS).is_none() {
            return self.0.format_event(context, to, event);
        }
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let mut facts = FactsText::default();
        event.record(&mut facts);
        let text = facts.0;
        // Only what is JSON: the line must be an object whatever is logged.
        if serde_json::from_str::<Value>(&text).is_ok() {
            let quoted = Value::from(text.as_str());
            line = line.replacen(&format!("\"{FACTS}\":{quoted}"), &format!("\"{FACTS}\":{text}"), 1);
        }
        to.write_str(&line)
    }
}

/// The facts of an event; empty where it has none.
#[derive(Default)]
struct FactsText(String);

impl Visit for FactsText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == FACTS {
            self.0 = format!("{value:?}");
        }
    }
}
