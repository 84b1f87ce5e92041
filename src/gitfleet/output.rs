//! Renders tables, trees and objects for a terminal or a pipe. Rendering only: callers write the text to stdout.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;
use comfy_table::{ColumnConstraint, ContentArrangement, Table as Layout, Width, presets};
use crossterm::terminal::{Clear, ClearType};
use serde_json::Value;

use super::config_file::{as_called, variable};
use super::exit::Exit;
use super::help::Colour;
use decide::status::work::counted;
use model::manifest::InputError;
use views::layout::wrapped;
use views::table::{Table, name_line};
use views::tree::{Line, REFUSED_ERRORS_MAX, Style};

/// Blanks between columns.
const COLUMN_GAP: u16 = 3;

/// Narrowest last column that is folded; below it lines run over, which reads better than a column of single words.
const FOLDED_MIN: u16 = 20;
/// Narrowest terminal that lines are wrapped for.
const WRAPPED_MIN: u16 = 20;

/// How long a command may take before it shows that it is still there.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How often a spinner turns.
const SPINNER_TICK: Duration = Duration::from_millis(100);
/// What it looks like, one after the other.
const SPINNER_FRAMES: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";

/// Writes to standard output. A reader that went away is no error: it has seen enough.
///
/// # Errors
/// Standard output cannot be written, such as on a full disk.
pub fn print(text: &str) -> anyhow::Result<Exit> {
    print_on(text).map(|_| Exit::Done)
}

/// Writes to standard output; tells whether somebody still reads it.
///
/// # Errors
/// As [`print`](fn@print).
pub fn print_on(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("writing to standard output"),
    }
}

/// Writes a value to standard output as JSON with two blanks of indent, piece by piece: a plan of a large fleet is larger
/// than memory should be.
///
/// # Errors
/// As [`print`](fn@print).
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<Exit> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from);
    match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(Exit::Done),
    }
}

/// Says on standard error what is wrong with files: the first errors, and how many more there are.
pub fn complain(errors: &[InputError]) {
    for error in errors.iter().take(REFUSED_ERRORS_MAX) {
        eprintln!("error: {error}");
    }
    if let Some(more) = errors.len().checked_sub(REFUSED_ERRORS_MAX).filter(|more| *more > 0) {
        eprintln!("error: and {}; gitfleet validate shows all", counted(more, "more error"));
    }
}

/// Does something, with a spinner on standard error if that is a terminal and it takes longer than [`PATIENCE`].
pub fn with_spinner<T>(message: &'static str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (done, waits) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                spin(message, &waits);
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Shows that something is under way, until the sender is dropped.
fn spin(message: &str, waits: &Receiver<()>) {
    let mut terminal = std::io::stderr();
    for frame in SPINNER_FRAMES.chars().cycle() {
        // A terminal that was closed shows nothing more, and the work continues.
        let _ = write!(terminal, "\r{frame} {message}").and_then(|()| terminal.flush());
        if waits.recv_timeout(SPINNER_TICK) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    let _ = write!(terminal, "\r{}", Clear(ClearType::CurrentLine));
}

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The usual columns.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// JSON: one object as it is, several as a `List`.
    Json,
    /// YAML of the same.
    Yaml,
    /// `kind.group/name`, one a line.
    Name,
}

/// What the output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns; `None` for a pipe, which is never folded.
    pub width: Option<u16>,
    /// Whether ANSI colours are wanted.
    pub colour: bool,
}

impl Terminal {
    /// Returns what holds for a pipe: no folding, no colour.
    pub fn plain() -> Self {
        Self { width: None, colour: false }
    }

    /// Returns what holds for standard output, by `--color`, terminal, `NO_COLOR` (any value but empty) and `TERM=dumb`.
    pub fn of_stdout() -> Self {
        let layout = Layout::new();
        let width = if layout.is_tty() { layout.width() } else { None };
        Self { width, colour: has_colour(layout.is_tty()) }
    }
}

/// What `--color` says.
static COLOUR: OnceLock<Colour> = OnceLock::new();

/// Sets what `--color` says, for the whole process.
pub fn set_colour(colour: Colour) {
    // The command line is read once.
    let _ = COLOUR.set(colour);
}

/// Tells whether to colour what goes to a terminal, or does not.
///
/// Source: <https://no-color.org>.
fn has_colour(is_terminal: bool) -> bool {
    if let Some(wanted) = COLOUR.get().copied().unwrap_or_default().wanted() {
        return wanted;
    }
    is_terminal && variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Returns a word that begins a complaint on standard error.
pub fn alarm(word: &str) -> String {
    if has_colour(std::io::stderr().is_terminal()) { format!("\x1b[31m{word}\x1b[0m") } else { word.to_owned() }
}

/// Returns a table without borders, as kubectl lays it out. Names are copied, so no cell is folded but free text at the end of a row,
/// at blanks; what is too wide then runs over.
pub fn render_table(table: &Table, terminal: Terminal) -> String {
    let mut layout = Layout::new();
    // The caller has read the width of the terminal, and pipes get none: the library is not to read it again.
    layout.load_style(presets::NOTHING).force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
    layout.set_header(&table.headers);
    for row in &table.rows {
        layout.add_row(row.iter().map(|cell| as_called(&printable(cell))));
    }
    for column in layout.column_iter_mut() {
        column.set_padding((0, COLUMN_GAP));
    }
    let widths = layout.column_max_content_widths();
    if let (Some(room), Some(column)) = (last_room(table, &widths, terminal), layout.column_iter_mut().last()) {
        column.set_padding((0, 0)).set_constraint(ColumnConstraint::Absolute(Width::Fixed(room)));
    }
    let mut text = String::new();
    for line in layout.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the width that the last column is folded to; `None` where it fits, or would have to be folded inside a word.
fn last_room(table: &Table, widths: &[u16], terminal: Terminal) -> Option<u16> {
    let (last, others) = widths.split_last()?;
    let before = others.iter().fold(0_u16, |sum, width| sum.saturating_add(*width).saturating_add(COLUMN_GAP));
    let room = terminal.width?.checked_sub(before).filter(|room| *room >= FOLDED_MIN && room < last)?;
    let cells = table.rows.iter().filter_map(|row| row.last());
    let longest = cells.flat_map(|cell| cell.split_whitespace()).map(|word| word.chars().count()).max()?;
    (longest <= usize::from(room)).then_some(room)
}

/// Returns objects as one of kind `List`.
pub fn list_of(objects: &[Value]) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

/// Returns objects as JSON with two blanks of indent; several, or none, as a `List`.
pub fn render_json(objects: &[Value]) -> String {
    format!(
        "{:#}
",
        document(objects)
    )
}

/// Returns objects as YAML; several, or none, as a `List`.
pub fn render_yaml(objects: &[Value]) -> String {
    yaml_text(&document(objects))
}

/// Returns the `-o name` lines of objects.
pub fn render_names(objects: &[Value]) -> String {
    objects.iter().map(|object| name_line(object) + "\n").collect()
}

/// Returns lines with their styles as ANSI colours, or without; wrapped to the terminal's width where there is one.
pub fn render_lines(lines: &[Line], terminal: Terminal) -> String {
    let width = terminal.width.filter(|width| *width >= WRAPPED_MIN);
    let folded = width.map(|width| lines.iter().flat_map(|line| wrapped(line, width.into())).collect::<Vec<_>>());
    let mut text = String::new();
    for line in folded.as_deref().unwrap_or(lines) {
        let mut shown = String::new();
        for span in &line.spans {
            // Cleaned before colours come to it, whose control characters are to stay.
            let description = as_called(&printable(&span.text));
            match ansi(span.style) {
                Some(code) if terminal.colour => shown.extend(["\x1b[", code, "m", &description, "\x1b[0m"]),
                _ => shown.push_str(&description),
            }
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the text on one line and without control characters: what a member cluster answered must not steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Source: ECMA-48, select graphic rendition.
fn ansi(style: Style) -> Option<&'static str> {
    match style {
        Style::Plain => None,
        Style::Strong => Some("1"),
        Style::Muted => Some("2"),
        Style::Bad => Some("31"),
        Style::Ok => Some("32"),
        Style::Progressing => Some("33"),
    }
}

fn document(objects: &[Value]) -> Value {
    match objects {
        [one] => one.clone(),
        several => list_of(several),
    }
}

fn yaml_text(value: &Value) -> String {
    serde_yaml::to_string(value).expect("a JSON value has a YAML form")
}

#[cfg(test)]
mod tests;
