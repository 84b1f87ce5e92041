//! Ends what runs for too long, or while the process ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::WATCHDOG_INTERVAL;

/// Why the watchdog stopped something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It took longer than this.
    Late(Duration),
    /// The process ends.
    Asked,
}

/// Runs something, and calls `stop` after `limit`, when `interrupt` is set, or when `look` says that it is late.
///
/// `look` is called every [`WATCHDOG_INTERVAL`]; it returns the limit that was exceeded. Returns why it was stopped, also where the work
/// was done before it noticed.
pub(super) fn watched<T>(
    interrupt: &AtomicBool,
    limit: Duration,
    mut look: impl FnMut() -> Option<Duration> + Send,
    stop: impl Fn() + Send,
    work: impl FnOnce() -> T,
) -> (T, Option<Stopped>) {
    std::thread::scope(|scope| {
        let (done, waiting) = channel::<()>();
        let watchdog = scope.spawn(move || {
            let mut waited = Duration::ZERO;
            loop {
                let stopped = if interrupt.load(Ordering::Relaxed) {
                    Some(Stopped::Asked)
                } else if waited >= limit {
                    Some(Stopped::Late(limit))
                } else {
                    look().map(Stopped::Late)
                };
                if stopped.is_some() {
                    stop();
                    return stopped;
                }
                if let Err(RecvTimeoutError::Disconnected) = waiting.recv_timeout(WATCHDOG_INTERVAL) {
                    return None;
                }
                waited += WATCHDOG_INTERVAL;
            }
        });
        let result = work();
        // The watchdog waits on this channel instead of sleeping, so that it ends at once and not after its interval.
        drop(done);
        (result, watchdog.join().unwrap_or(None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_or_unwanted_is_stopped() {
        let quick = watched(&AtomicBool::new(false), Duration::MAX, || None, || (), || 7);
        assert_eq!(quick, (7, None));
        let second = Duration::from_secs(1);
        let rows = [
            (false, Duration::ZERO, None, Stopped::Late(Duration::ZERO)),
            (true, Duration::MAX, None, Stopped::Asked),
            (false, Duration::MAX, Some(second), Stopped::Late(second)),
        ];
        for (asked, limit, late, why) in rows {
            let stop = AtomicBool::new(false);
            let until_stopped = || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            };
            let stopping = || stop.store(true, Ordering::Relaxed);
            assert_eq!(watched(&AtomicBool::new(asked), limit, || late, stopping, until_stopped).1, Some(why));
        }
    }
}
