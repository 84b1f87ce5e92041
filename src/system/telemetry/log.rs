//! Logs on stderr: text for people, JSON for machines.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use self::json::JsonLine;
use self::sentence::Sentence;

use model::text::one_line;

/// What is logged where nothing is asked for: our own changes, and other people's trouble. What `kube_runtime` warns of, a
/// watch that is refused, is told by us, once; what `kube_client` cannot reach, or does not check, too, with the cluster's name.
pub const FILTER_DEFAULT: &str = "warn,kube_runtime=error,kube_client=off,gitfleet=info";

/// The environment variable with the filter, in the syntax of `tracing`'s `EnvFilter`.
pub const FILTER_VARIABLE: &str = "GITFLEET_LOG";

mod json;
mod sentence;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text an event.
    #[default]
    Text,
    /// One JSON object an event.
    Json,
}

/// Why logging did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be read.
    #[error("log filter {filter:?} cannot be read; write one like \"info\" or \"gitfleet=debug,warn\"")]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// Somebody else started it first.
    #[error("logging was started twice")]
    Twice(#[source] TryInitError),
}

/// Starts logging to stderr for the whole process.
///
/// `filter` is the flag's, before the environment's; text has colour where that is wanted, else only on a terminal and without
/// `NO_COLOR`.
pub fn init(format: LogFormat, filter: Option<&str>, wanted: Option<bool>) -> Result<(), Error> {
    let variable = std::env::var(FILTER_VARIABLE).ok();
    let colour = match wanted {
        Some(wanted) => wanted,
        None => colour(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref()),
    };
    let subscriber = subscriber(format, chosen_filter(filter, variable.as_deref()), colour, std::io::stderr)?;
    subscriber.try_init().map_err(Error::Twice)
}

/// Returns the first filter that says anything: flag, environment, default.
pub fn chosen_filter<'a>(flag: Option<&'a str>, variable: Option<&'a str>) -> &'a str {
    [flag, variable].into_iter().flatten().find(|filter| !filter.trim().is_empty()).unwrap_or(FILTER_DEFAULT)
}

/// Tells whether to colour. Source: no-color.org (any value but the empty one switches it off).
pub fn colour(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colour: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).map_err(|source| Error::Filter { filter: filter.to_owned(), source })?;
    let details = filter.max_level_hint().is_none_or(|level| level >= tracing::Level::DEBUG);
    let builder = fmt::Subscriber::builder().with_env_filter(filter).with_writer(writer);
    Ok(match format {
        // What an event says may be a stranger's, such as the name of a file: it begins no line. JSON has escapes of its own.
        LogFormat::Text => {
            let fields = debug_fn(|writer, field, value| write!(writer, "{}={value:?}", field.name()));
            let builder = builder.with_ansi(colour).fmt_fields(fields.delimited(" "));
            let builder = builder.event_format(Sentence { details });
            Box::new(builder.map_writer(|writer| Lines { writer, colour }).finish())
        }
        LogFormat::Json => Box::new(builder.json().event_format(JsonLine::default()).finish()),
    })
}

/// Colours and styles that the library writes; none of them hides or moves anything, so they may be a stranger's, too.
const STYLES: [&str; 9] = ["[0m", "[1m", "[2m", "[3m", "[31m", "[32m", "[33m", "[34m", "[35m"];

/// Returns an event as one line, with its line end.
fn one_event(text: &str, colour: bool) -> String {
    let mut pieces = text.trim_end_matches('\n').split('\u{1b}');
    let mut line = one_line(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let is_style = colour && STYLES.iter().any(|style| piece.starts_with(style));
        line.push_str(if is_style { "\u{1b}" } else { "\\u{1b}" });
        line.push_str(&one_line(piece));
    }
    line.push('\n');
    line
}

/// Makes writers that keep each event on a line of its own.
struct Lines<W> {
    writer: W,
    colour: bool,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Lines<W> {
    type Writer = LogLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLine { writer: self.writer.make_writer(), colour: self.colour }
    }
}

/// Writes an event, which comes whole with its line end, as one line.
struct LogLine<W> {
    writer: W,
    colour: bool,
}

impl<W: io::Write> io::Write for LogLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.writer.write_all(one_event(&String::from_utf8_lossy(event), self.colour).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests;
