//! The one place time is read.
//!
//! Within a process time is measured: it starts at the machine's clock and continues with a monotonic one. So setting the clock
//! neither ends a wait nor stops one. `waits.rs` handles restarts.

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use jiff::{SignedDuration, Timestamp};
use nix::time::{ClockId, clock_gettime};

use model::records::ClockReading;
pub use model::uptime::Uptime;

/// The start of this process: by the clock, and by the monotonic measure.
static BEGAN: LazyLock<(Timestamp, Instant)> = LazyLock::new(|| (wall(), Instant::now()));

/// Names one start of the machine.
static BOOT: LazyLock<Option<String>> =
    LazyLock::new(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned()));

/// The clock of leases. It continues while the machine is suspended: a lease does, too.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UPTIME_CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
/// Other systems count suspend in this one.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const UPTIME_CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// Returns how long the machine is up.
///
/// # Panics
/// Never: every system that gitfleet runs on has this clock.
pub fn uptime() -> Uptime {
    Uptime::new(clock_gettime(UPTIME_CLOCK).expect("the system has this clock").into())
}

/// Returns the time, by which everything waits: what the clock showed when it was first asked for, and what has passed since.
pub fn now() -> Timestamp {
    let (at, measured) = &*BEGAN;
    at.checked_add(measured.elapsed()).unwrap_or(Timestamp::MAX)
}

/// Returns what the clock of the machine shows, for what others date by theirs.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// Returns how far the machine's clock was set ahead in this process; negative if it was set back.
pub fn was_set() -> SignedDuration {
    wall().duration_since(now())
}

/// Returns the time with what tells, after a restart, how much has passed.
pub fn reading() -> ClockReading {
    // How long the machine is up counts sleep, too: seconds with two decimals.
    let up = fs::read_to_string("/proc/uptime").ok();
    let up = up.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let up = up.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match up {
        Some(up) => ClockReading { at: now(), boot: BOOT.clone(), up, shared: None },
        None => ClockReading { at: now(), boot: None, up: Duration::ZERO, shared: None },
    }
}

/// Returns how long it is until an instant; zero where it has passed.
pub fn until(at: Timestamp) -> Duration {
    at.duration_since(now()).try_into().unwrap_or_default()
}

/// Returns a pause that is up to as long again: tasks that ended together are not begun together.
pub fn jittered(pause: Duration) -> Duration {
    delays(pause, pause).next().unwrap_or(pause)
}

/// Returns the pauses between tries of something that may fail for long: doubling from `first` up to `longest`, with jitter,
/// without end.
pub fn delays(first: Duration, longest: Duration) -> ExponentialBackoff {
    let delays = ExponentialBuilder::default().with_min_delay(first).with_max_delay(longest);
    delays.with_jitter().without_max_times().build()
}
