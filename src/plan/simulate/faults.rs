//! How long things take, and what goes wrong.

use std::time::Duration;

/// How long things take: shortest and longest.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    /// From a push until the daemon has read the commit.
    pub source: (Duration, Duration),
    /// Until a member answers a new connection.
    pub connect: (Duration, Duration),
    /// Until a step is carried out, and as long again until its answer is there.
    pub step: (Duration, Duration),
    /// Until the daemon hears what a member saw or reports.
    pub report: (Duration, Duration),
    /// Until an applied object is available, where its kind takes any time.
    pub available: (Duration, Duration),
    /// Until the daemon is started again after a crash.
    pub restart: (Duration, Duration),
}

impl Default for Latencies {
    fn default() -> Self {
        let ms = |shortest, longest| (Duration::from_millis(shortest), Duration::from_millis(longest));
        Self {
            source: ms(50, 500),
            connect: ms(10, 200),
            step: ms(2, 50),
            report: ms(1, 50),
            available: ms(500, 20_000),
            restart: ms(100, 5_000),
        }
    }
}

/// What goes wrong, in so many of a thousand times; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The daemon ends before an effect.
    pub crash: u64,
    /// The store refuses a batch.
    pub store_refuses: u64,
    /// The store keeps a batch, and answers with an error.
    pub store_unsure: u64,
    /// The daemon ends while a batch is being written: it is kept or not, as the dice fall.
    pub store_crashes: u64,
    /// A step is not carried out, and the connection is lost.
    pub step_lost: u64,
    /// A step is carried out, its answer and the connection are lost.
    pub answer_lost: u64,
    /// A step whose connection was lost is carried out all the same, late.
    pub late_write: u64,
    /// A report is told twice.
    pub report_twice: u64,
    /// A deletion takes a while.
    pub slow_delete: u64,
    /// A list shows what was there a while ago; what came since is seen later.
    pub stale_list: u64,
    /// The list of a kind fails, from the beginning or after some objects.
    pub list_fails: u64,
    /// A watch ends instead of telling of a change: its kind is listed anew on the same connection.
    pub watch_ends: u64,
    /// A poll of the source fails, and reading a payload does.
    pub source_fails: u64,
    /// The accepted commit cannot be read again at the beginning of a life.
    pub restore_fails: u64,
    /// A payload is read long after it was asked for.
    pub payload_late: u64,
}
