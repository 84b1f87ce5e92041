//! How people read an event: time, level, sentence, its fields, and the fields of the spans it happened in.

use std::collections::BTreeSet;
use std::fmt::{Debug, Result};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Faint, for what is seldom read.
const DIM: &str = "\u{1b}[2m";
/// The end of colours and styles.
const PLAIN: &str = "\u{1b}[0m";

/// One event, one sentence. The names of spans are for machines.
pub(super) struct Sentence;

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> Result {
        let (level, has_colour) = (*event.metadata().level(), to.has_ansi_escapes());
        let style = |style: &'static str| if has_colour { style } else { "" };
        to.write_str(style(DIM))?;
        SystemTime.format_time(&mut to)?;
        write!(to, "{} {}{level:>5}{} ", style(PLAIN), style(colour(level)), style(PLAIN))?;
        context.format_fields(to.by_ref(), event)?;
        let mut names = Names::default();
        event.record(&mut names);
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<N>>() else { continue };
            // Values in spans are names, which hold no space: each word is a field. What was recorded is not recorded twice.
            for field in fields.split(' ').filter(|field| !field.is_empty()) {
                let name = field.split_once('=').map_or(field, |(name, _)| name);
                if names.0.insert(name.to_owned()) {
                    write!(to, " {field}")?;
                }
            }
        }
        writeln!(to)
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

/// The names of an event's fields that have a value.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Visit for Names {
    fn record_debug(&mut self, field: &Field, _: &dyn Debug) {
        self.0.insert(field.name().to_owned());
    }
}
