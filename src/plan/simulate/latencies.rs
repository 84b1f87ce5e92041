//! Latencies of a simulation.

use std::time::Duration;

/// Latencies: shortest and longest.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    /// From a push until the daemon has read the commit.
    pub source: (Duration, Duration),
    /// Until a member answers a new connection.
    pub connect: (Duration, Duration),
    /// Until a step is executed, and as long again until its answer arrives.
    pub step: (Duration, Duration),
    /// Until an observation or report of a member arrives at the daemon.
    pub report: (Duration, Duration),
    /// Until an applied object is available, if its kind takes any time.
    pub available: (Duration, Duration),
    /// Until the daemon restarts after a crash.
    pub restart: (Duration, Duration),
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            source: millis(50, 500),
            connect: millis(10, 200),
            step: millis(2, 50),
            report: millis(1, 50),
            available: millis(500, 20_000),
            restart: millis(100, 5_000),
        }
    }
}

fn millis(shortest: u64, longest: u64) -> (Duration, Duration) {
    (Duration::from_millis(shortest), Duration::from_millis(longest))
}
