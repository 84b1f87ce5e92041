//! Catches panics of the database: a damaged page makes redb panic, and the owner of a damaged store needs advice instead of
//! the text of a panic.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::{RawError, Result};

thread_local! {
    /// Set while this thread is in the database: its panic becomes an error with advice.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls the database. A panic becomes [`RawError::Nonsense`], and nothing is written to standard error.
///
/// The call may leave a broken handle: the caller drops it.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, RawError>) -> Result<T, RawError> {
    stay_silent();
    // Calls nest: opening the database again closes the old one in a call of its own.
    let outer = IS_GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(outer);
    result.unwrap_or(Err(RawError::Nonsense))
}

/// Hides the texts of panics that are caught here from standard error; others are written as usual.
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
