//! Panics of the database are caught here: a damaged page makes redb panic, and whoever has a damaged store needs advice, not
//! the words of a panic.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::{RawError, Result};

thread_local! {
    /// This thread is in the database: a panic of it becomes an error, which says what to do.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls the database. A panic of it is [`RawError::Nonsense`], and nothing is written to standard error.
///
/// What the call leaves behind may be broken: whoever calls gives the handle up.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, RawError>) -> Result<T, RawError> {
    stay_silent();
    // Calls nest: opening the database again closes the old one in a call of its own.
    let outer = IS_GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(outer);
    result.unwrap_or(Err(RawError::Nonsense))
}

/// Keeps the words of panics that are caught here off standard error; those of others are written as ever.
fn stay_silent() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                others(panic);
            }
        }));
    });
}
