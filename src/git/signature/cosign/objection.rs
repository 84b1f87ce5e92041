//! Why something that a listed key signed does not count.

/// Characters of a stranger's text that a message repeats.
const SHOWN_MAX: usize = 100;

/// Why something that a listed key signed does not count.
pub(super) enum Objection {
    /// It is about something else, as this says.
    NotOfThis(String),
    /// It states something else of an artifact; this is its type.
    Attestation(String),
}

/// Returns a text of a stranger as a message repeats it.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect::<String>().escape_default().to_string()
}
