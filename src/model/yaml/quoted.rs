//! Quoted scalars whose lines are indented less than YAML wants: kubectl reads them, the crate does not.

use serde_yaml::granit_parser::{ErrorKind, Parser};

/// Scalars of one text that are read so: each of them costs two more readings.
const REPAIRS_MAX: usize = 100;

/// Bytes that are read again for the scalars of one text.
const READ_AGAIN_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Returns how many scalars of a text are read so.
pub(super) fn repairs_max(text: &str) -> usize {
    (READ_AGAIN_BYTES_MAX / text.len().max(1)).clamp(1, REPAIRS_MAX)
}

/// Returns the text with the lines of one quoted scalar indented as YAML wants them. `at` is an offset in the line that is
/// not. Blanks that begin a line of a quoted scalar are no part of it, so the text means the same to kubectl.
pub(super) fn indented(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?;
    let opening = opening(before)?;
    let end = at + closing(&text[at..], text[opening..].chars().next()?)?;
    // The quote stands further right than what its lines must be indented by.
    let line_start = text[..opening].rfind('\n').map_or(0, |found| found + 1);
    let blanks = " ".repeat(text[line_start..=opening].chars().count());
    let mut repaired = String::with_capacity(text.len() + blanks.len());
    repaired.push_str(&text[..opening]);
    for (number, line) in text[opening..end].split_inclusive('\n').enumerate() {
        // A marker ends the document, in a scalar too.
        if number > 0 && !line.starts_with("---") && !line.starts_with("...") {
            repaired.push_str(&blanks);
        }
        repaired.push_str(line);
    }
    repaired.push_str(&text[end..]);
    Some(repaired)
}

/// Returns where the quoted scalar begins that a text leaves open.
fn opening(text: &str) -> Option<usize> {
    // Without its end, and with the last line indented as it should be, nothing else is wrong with it.
    let width = text.lines().map(str::len).max().unwrap_or_default();
    let open = format!("{}{}x", text.trim_end_matches([' ', '\t']), " ".repeat(width + 1));
    let error = Parser::new_from_str(&open).find_map(Result::err)?;
    let is_open = matches!(error.kind(), ErrorKind::UnclosedQuotedScalar);
    error.marker().byte_offset().filter(|at| is_open && text[*at..].starts_with(['\'', '"']))
}

/// Returns how far the text of a quoted scalar goes.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' && quote == '"' {
            characters.next();
        } else if c == quote {
            let is_doubled = quote == '\'' && characters.peek().is_some_and(|(_, next)| *next == '\'');
            if !is_doubled {
                return Some(at);
            }
            characters.next();
        }
    }
    None
}
