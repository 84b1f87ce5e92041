//! Logs on stderr: text for people, JSON for machines.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use self::sentence::Sentence;

use crate::text::one_line;

/// What is logged where nothing is asked for: our own changes, and other people's trouble. What `kube_runtime` warns of, a
/// watch that is refused, is told by us, once; that a server's certificate is not checked, too, with the cluster's name.
pub const FILTER_DEFAULT: &str = "warn,kube_runtime=error,kube_client::client::tls=error,gitfleet=info";

/// The environment variable with the filter, in the syntax of `tracing`'s `EnvFilter`.
pub const FILTER_VARIABLE: &str = "GITFLEET_LOG";

mod sentence;

/// Fields that people read without their names: the sentence, and what the journal says of an event.
const UNNAMED: [&str; 2] = ["message", "facts"];

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
/// `filter` is the flag's, before the environment's; text has colour only on a terminal and without `NO_COLOR`.
pub fn init(format: LogFormat, filter: Option<&str>) -> Result<(), Error> {
    let variable = std::env::var(FILTER_VARIABLE).ok();
    let colour = colour(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
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
    let builder = fmt::Subscriber::builder().with_env_filter(filter).with_writer(writer);
    Ok(match format {
        // What an event says may be a stranger's, such as the name of a file: it begins no line. JSON has escapes of its own.
        LogFormat::Text => {
            let fields = debug_fn(|writer, field, value| match field.name() {
                name if UNNAMED.contains(&name) => write!(writer, "{value:?}"),
                name => write!(writer, "{name}={value:?}"),
            });
            let builder = builder.with_ansi(colour).fmt_fields(fields.delimited(" ")).event_format(Sentence);
            Box::new(builder.map_writer(|writer| Lines { writer, colour }).finish())
        }
        LogFormat::Json => Box::new(builder.json().flatten_event(true).with_current_span(false).finish()),
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
    type Writer = Line<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { writer: self.writer.make_writer(), colour: self.colour }
    }
}

/// Writes an event, which comes whole with its line end, as one line.
struct Line<W> {
    writer: W,
    colour: bool,
}

impl<W: io::Write> io::Write for Line<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.writer.write_all(one_event(&text, self.colour).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, colour: bool) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(format, filter, colour, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "gitfleet::store", "batch written");
            tracing::info!(target: "gitfleet::store", placement = "web", facts = %"index=3", "snapshot created");
            tracing::info!(target: "hyper", "connected");
            tracing::warn!(target: "hyper", "connection lost");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_default_shows_our_changes_and_others_warnings() {
        let text = logged(LogFormat::Text, FILTER_DEFAULT, false);
        for (line, shown) in
            [("batch written", false), ("snapshot created", true), ("connected", false), ("connection lost", true)]
        {
            assert_eq!(text.contains(line), shown, "{line}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(logged(LogFormat::Text, FILTER_DEFAULT, true).contains('\u{1b}'));
        assert!(logged(LogFormat::Text, "debug", false).contains("batch written"));
        let line = text.lines().next().unwrap_or_default();
        assert!(
            line.ends_with("INFO snapshot created placement=\"web\" index=3"),
            "no module, no name of facts: {line}"
        );
    }

    #[test]
    fn d19_a_file_name_with_a_newline_forges_no_line() {
        let forged = "a.yaml\n2026-01-01T00:00:00Z  INFO gitfleet: Approved\u{2028}\u{1b}[2K\r";
        for colour in [false, true] {
            let sink = Sink::default();
            let writer = sink.clone();
            let subscriber = subscriber(LogFormat::Text, "info", colour, move || writer.clone()).unwrap();
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(target: "gitfleet::source", path = %forged, text = forged, "refused: {forged}");
            });
            let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text:?}");
            assert!(!text.contains(['\r', '\u{2028}']) && !text.contains("\u{1b}[2K"), "{text:?}");
            assert!(text.contains("a.yaml\\n2026") && text.ends_with('\n'), "{text:?}");
        }
    }

    #[test]
    fn json_is_one_object_a_line_with_fields() {
        let text = logged(LogFormat::Json, FILTER_DEFAULT, true);
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&first["message"], &first["placement"]), (&"snapshot created".into(), &"web".into()));
        assert_eq!(text.lines().count(), 2);
    }

    /// Writes events in nested spans, as a member's task does.
    fn in_spans(format: LogFormat, filter: &str) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(format, filter, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let _member = tracing::error_span!(target: "gitfleet::member", "member", cluster = %"east").entered();
            let step =
                tracing::error_span!(target: "gitfleet::member", "step", placement = %"web", commit = %"1a2b3c4");
            let _step = step.entered();
            tracing::warn!(target: "gitfleet::member", object = %"v1 ConfigMap web/a", "changed by somebody else; put back");
            tracing::warn!(target: "gitfleet::member", placement = %"web", "said with its own field");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_ends_with_the_fields_of_the_spans() {
        // Spans say where something happened, whatever is logged of what happens.
        for filter in [FILTER_DEFAULT, "gitfleet=warn"] {
            let text = in_spans(LogFormat::Text, filter);
            let lines: Vec<&str> = text.lines().map(|line| line.split_once("  WARN ").unwrap().1).collect();
            let first = "changed by somebody else; put back object=v1 ConfigMap web/a cluster=east placement=web commit=1a2b3c4";
            assert_eq!(lines, [first, "said with its own field placement=web cluster=east commit=1a2b3c4"]);
        }
    }

    #[test]
    fn json_lists_the_spans() {
        let text = in_spans(LogFormat::Json, FILTER_DEFAULT);
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["object"], "v1 ConfigMap web/a");
        let spans = serde_json::json!([
            {"name": "member", "cluster": "east"},
            {"name": "step", "placement": "web", "commit": "1a2b3c4"},
        ]);
        assert_eq!(first["spans"], spans);
    }

    #[test]
    fn flag_beats_environment_beats_default() {
        for (flag, variable, expected) in [
            (None, None, FILTER_DEFAULT),
            (None, Some("debug"), "debug"),
            (Some("trace"), Some("debug"), "trace"),
            (Some(""), Some("debug"), "debug"),
            (Some(" "), Some(""), FILTER_DEFAULT),
        ] {
            assert_eq!(chosen_filter(flag, variable), expected, "{flag:?} {variable:?}");
        }
    }

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        for (terminal, no_color, expected) in
            [(true, None, true), (true, Some(""), true), (true, Some("1"), false), (false, None, false)]
        {
            assert_eq!(colour(terminal, no_color.map(OsStr::new)), expected, "{terminal} {no_color:?}");
        }
    }

    #[test]
    fn a_bad_filter_is_named() {
        let error = subscriber(LogFormat::Text, "gitfleet=loud", false, io::sink).err().unwrap();
        assert!(error.to_string().contains("gitfleet=loud"), "{error}");
    }
}
