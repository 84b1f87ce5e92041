//! The end of the source's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bot::source_request::SourceRequest;

/// The longest wait for the source's thread at shutdown; a read that blocks in the kernel may take longer.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// Ends the source's thread and waits for it: a fetch or the write of a ref stops at a point where nothing is left half done.
pub(super) struct Ending {
    stop: Arc<AtomicBool>,
    requests: Sender<SourceRequest>,
    /// The thread holds the other end.
    ended: Receiver<()>,
}

impl Ending {
    /// Returns it with its stop flag and the value that the thread must hold.
    pub(super) fn of(requests: Sender<SourceRequest>) -> (Self, Arc<AtomicBool>, Sender<()>) {
        let stop = Arc::new(AtomicBool::new(false));
        let (alive, ended) = channel();
        (Self { stop: Arc::clone(&stop), requests, ended }, stop, alive)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // The flag first: a running fetch checks it, and the request is read only after the fetch.
        self.stop.store(true, Ordering::Relaxed);
        // The thread may have ended before.
        drop(self.requests.send(SourceRequest::End));
        if self.ended.recv_timeout(END_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the source is still being read while the process ends; the next start repairs what is left"
            );
        }
    }
}
