//! A connection of an agent, before and after it is known whose it is.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;

/// What requests of one connection share.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// A request had a valid token.
    pub(super) is_known: AtomicBool,
    /// Wakes when the session of the connection has ended.
    pub(super) hang_up: Arc<Notify>,
}
