//! What is wrong with a file, before its path is known.

use model::manifest::InputError;

/// The longest text of one complaint, in bytes.
const ERROR_TEXT_MAX_BYTES: usize = 1_000;

/// An error in a file of unknown path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobError {
    /// One-based line; 0 for the file as a whole.
    pub line: u32,
    /// The object, as kubectl would name it.
    pub object: Option<String>,
    /// The field, as a JSON path.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl BlobError {
    /// Adds the file's path.
    pub fn at(&self, path: &str) -> InputError {
        let Self { line, object, field, message, hint } = self.clone();
        InputError { path: path.to_owned(), line, object, field, message, hint }
    }

    pub(super) fn new(line: u32, message: impl Into<String>, hint: &str) -> Self {
        Self { line, object: None, field: None, message: message.into(), hint: Some(hint.to_owned()) }
    }
}

/// Truncates foreign text in an error: a thousand errors may repeat one name.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > ERROR_TEXT_MAX_BYTES {
        let end = (0..=ERROR_TEXT_MAX_BYTES).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
