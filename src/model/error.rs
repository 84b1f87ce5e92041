//! Error classes: what to do about an error of a git server, a git host or an API server.

use std::any::Any;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// Try again later, with backoff.
    Transient,
    /// Try again at once, on fresh state.
    Conflict,
    /// Wait for the input to change.
    Invalid,
    /// Wait for a permission to change.
    Denied,
    /// Should not happen: loud and counted.
    Bug,
}

/// Returns what a panic says.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it has no message")
}
