//! What commits are about, beside their ids.

use std::fmt;

use model::id::CommitId;
use model::text::one_line;
use model::tree::JoinedSource;

/// Characters that are shown of a subject: with what stands before it, a line of a narrow terminal.
pub const SUBJECT_CHARS_MAX: usize = 56;

/// Says what commits are about.
pub trait Subjects: fmt::Debug {
    /// Returns the subject of a commit as it was written; `None` where it is not known.
    fn subject(&self, commit: &CommitId) -> Option<String>;

    /// Returns the sources that a commit joins, by name; none where it is one of the only source, or not known.
    fn joined(&self, commit: &CommitId) -> Vec<JoinedSource>;
}

/// Returns the beginning of a subject on one line, in quotes; what is not seen, or turns text around, is shown as an escape.
pub fn quoted(subject: &str) -> String {
    let line = one_line(subject);
    let mut rest = line.chars();
    let shown: String = rest.by_ref().take(SUBJECT_CHARS_MAX).collect();
    format!("\"{shown}{}\"", if rest.next().is_some() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_one_short_line() {
        let long = "x".repeat(SUBJECT_CHARS_MAX);
        for (subject, shown) in [
            ("Bigger pods", "\"Bigger pods\"".to_owned()),
            ("two\nlines\u{1b}[31m", "\"two\\nlines\\u{1b}[31m\"".to_owned()),
            (&long, format!("\"{long}\"")),
            (&format!("{long}y"), format!("\"{long}…\"")),
        ] {
            assert_eq!(quoted(subject), shown);
        }
    }
}
