//! When the git host is read, and what is known of it: the account, the branch, and the pause after a failed read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use forge::Error;
use model::forge::ForgeUser;

/// The longest sleep of the task if nothing is due.
pub(crate) const FAR: SignedDuration = SignedDuration::from_hours(1);
/// Pause after a read that failed; it doubles with each that follows.
const READ_RETRY_FIRST: SignedDuration = SignedDuration::from_secs(2);
/// The longest pause after reads that failed.
const READ_RETRY_MAX: SignedDuration = SignedDuration::from_mins(2);
/// How much more rarely the bot polls while webhooks arrive.
const HOOKED_POLL_FACTOR: u32 = 10;
/// The longest poll interval while webhooks arrive.
const HOOKED_POLL_MAX: Duration = Duration::from_mins(5);
/// How long webhooks count as working after the last one.
const HOOKED_FOR: SignedDuration = SignedDuration::from_hours(1);
/// How often unused slots are dropped.
const TIDY_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// How often a lasting failure is logged.
const WARN_EVERY: SignedDuration = SignedDuration::from_hours(1);

/// When the git host is read, and what is known of it.
#[derive(Debug)]
pub(crate) struct Polling {
    /// Our own account, once the forge answered.
    pub me: Option<ForgeUser>,
    /// The followed branch, once git answered.
    pub branch: Option<String>,
    /// No read before this instant.
    pub read_after: Option<Timestamp>,
    read_failures: u32,
    /// When to poll the forge next.
    pub look_at: Timestamp,
    /// When a webhook last arrived.
    pub hooked_at: Option<Timestamp>,
    /// When unused slots are dropped next.
    tidy_at: Timestamp,
    /// Logged failures, and when.
    warned: BTreeMap<String, Timestamp>,
}

impl Polling {
    /// Returns the state of a bot that begins: everything is due.
    pub(crate) fn begin(now: Timestamp) -> Self {
        Self {
            me: None,
            branch: None,
            read_after: None,
            read_failures: 0,
            look_at: now,
            hooked_at: None,
            tidy_at: now,
            warned: BTreeMap::new(),
        }
    }

    /// Tells whether reads may be made: after a failure they pause.
    pub(crate) fn may_read(&self, now: Timestamp) -> bool {
        self.read_after.is_none_or(|at| at <= now)
    }

    /// Sets the time of the next poll.
    pub(crate) fn schedule(&mut self, interval: Duration, now: Timestamp) {
        let is_hooked = self.hooked_at.is_some_and(|at| now.duration_since(at) < HOOKED_FOR);
        let pause = if is_hooked {
            // Webhooks never make polling more frequent than configured.
            (interval * HOOKED_POLL_FACTOR).min(HOOKED_POLL_MAX).max(interval)
        } else {
            interval
        };
        self.look_at = now + SignedDuration::try_from(pause).unwrap_or(FAR);
    }

    /// Tells whether unused slots are to be dropped, and sets the next time.
    pub(crate) fn is_tidy_due(&mut self, now: Timestamp) -> bool {
        let is_due = self.tidy_at <= now;
        if is_due {
            self.tidy_at = now + TIDY_EVERY;
        }
        is_due
    }

    /// Notes a read that succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.read_failures = 0;
        self.read_after = None;
    }

    /// Notes a read that failed, which pauses all reads.
    pub(crate) fn failed(&mut self, error: &Error, now: Timestamp) {
        self.read_failures += 1;
        let pause = match error {
            Error::RateLimited { wait, .. } => SignedDuration::try_from(*wait).unwrap_or(READ_RETRY_MAX),
            _ => READ_RETRY_FIRST.saturating_mul(1 << self.read_failures.min(10).saturating_sub(1)).min(READ_RETRY_MAX),
        };
        self.read_after = now.checked_add(pause).ok();
    }

    /// Lets no read be made for a while that a host asks for.
    pub(crate) fn pause(&mut self, wait: Duration, now: Timestamp) {
        let until = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
        self.read_after = self.read_after.max(until);
    }

    /// Logs a failure, a lasting one once an hour.
    pub(crate) fn warn(&mut self, error: &Error, now: Timestamp) {
        self.warned.retain(|_, at| now.duration_since(*at) < WARN_EVERY);
        if let Entry::Vacant(entry) = self.warned.entry(error.to_string()) {
            tracing::warn!(reason = entry.key(), "the forge cannot be reached; trying again");
            entry.insert(now);
        }
    }
}
