//! How people read an event.

use std::collections::BTreeMap;
use std::fmt::{Debug, Result};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::json::FACTS;

/// Faint, for what is seldom read.
const DIM: &str = "\u{1b}[2m";
/// Where the time of day is in a timestamp.
const TIME_OF_DAY: std::ops::Range<usize> = 11..19;
/// The end of colours and styles.
const PLAIN: &str = "\u{1b}[0m";

/// One event, one line: the time of day, the level unless it is the usual one, the placement, the cluster, the sentence, further
/// fields, the commit. The names of spans are for machines.
pub(super) struct Sentence {
    /// Whether to write the details that the journal keeps as well.
    pub details: bool,
}

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> Result {
        let level = *event.metadata().level();
        let has_colour = to.has_ansi_escapes();
        let style = |style: &'static str| if has_colour { style } else { "" };
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        write!(to, "{}{}{} ", style(DIM), time.get(TIME_OF_DAY).unwrap_or(&time), style(PLAIN))?;
        if level != Level::INFO {
            write!(to, "{}{level}{} ", style(colour(level)), style(PLAIN))?;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let Some(of_span) = extensions.get::<FormattedFields<N>>() else { continue };
            // Values in spans are names, which hold no space: each word is a field. What was recorded is not recorded twice.
            for (name, value) in of_span.split(' ').filter_map(|field| field.split_once('=')) {
                if fields.value(name).is_none() {
                    fields.0.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        fields.write(&mut to, self.details)
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        Level::INFO => "\u{1b}[32m",
        Level::DEBUG => "\u{1b}[34m",
        Level::TRACE => "\u{1b}[35m",
    }
}

/// What an event says, and its spans.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn value(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(value.trim_matches('"')).filter(|value| !value.is_empty())
    }

    fn write(&self, to: &mut Writer<'_>, details: bool) -> Result {
        if let Some(placement) = self.value("placement") {
            write!(to, "{placement}  ")?;
        }
        if let Some(cluster) = self.value("cluster") {
            write!(to, "{cluster}: ")?;
        }
        to.write_str(self.value("message").unwrap_or_default())?;
        if let Some(about) = self.value("about") {
            write!(to, ": {about}")?;
        }
        for (name, value) in &self.0 {
            match name.as_str() {
                FACTS if details => write_facts(to, value)?,
                "placement" | "cluster" | "message" | "about" | "commit" | FACTS => {}
                name => write!(to, " {name}={value}")?,
            }
        }
        match self.value("commit") {
            Some(commit) => writeln!(to, " ({commit})"),
            None => writeln!(to),
        }
    }
}

fn write_facts(to: &mut Writer<'_>, facts: &str) -> Result {
    let facts: BTreeMap<String, Value> = serde_json::from_str(facts).unwrap_or_default();
    facts.iter().try_for_each(|(name, value)| write!(to, " {name}={value}"))
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }
}
