//! Polling without webhooks, and the pause after a failed read.

use jiff::{SignedDuration, Timestamp};

use super::{Console, FAR, HOOKED_FOR, HOOKED_POLL_FACTOR, HOOKED_POLL_MAX, READ_RETRY_FIRST, READ_RETRY_MAX};
use forge::Error;

impl Console {
    /// Asks for our account, the repository's id and the followed branch.
    pub(super) async fn introduce(&mut self) -> bool {
        let forge = self.forge();
        if let Some(id) = self.ask_for(forge.repository_id()).await
            && let Some(me) = self.ask_for(forge.whoami()).await
        {
            self.handles.learned.repository.send_replace(Some(id));
            tracing::info!(account = me.login, "reaching the forge");
            self.me = Some(me);
        }
        true
    }

    /// Polls for what no webhook reported.
    pub(super) async fn look(&mut self, now: Timestamp) {
        let hooked = self.hooked_at.is_some_and(|at| now.duration_since(at) < HOOKED_FOR);
        let pause = if hooked {
            // Webhooks never make polling more frequent than configured.
            (self.settings.poll_interval * HOOKED_POLL_FACTOR).min(HOOKED_POLL_MAX).max(self.settings.poll_interval)
        } else {
            self.settings.poll_interval
        };
        self.look_at = now + SignedDuration::try_from(pause).unwrap_or(FAR);
        self.to_list.extend(self.spoken_in());
        self.to_count.extend(
            self.rollouts.iter().filter(|rollout| !rollout.asked.is_empty()).map(|rollout| rollout.commit.clone()),
        );
        self.list_pulls().await;
    }

    /// Reads something from the forge. A failure is logged and pauses all reads.
    pub(super) async fn ask_for<T>(&mut self, call: impl Future<Output = forge::Result<T>>) -> Option<T> {
        let answer = self.ask(call).await;
        self.read(answer)
    }

    /// Handles the result of a read. A failure is logged and pauses all reads.
    pub(super) fn read<T>(&mut self, answer: forge::Result<T>) -> Option<T> {
        match answer {
            Ok(value) => {
                (self.read_failures, self.read_after) = (0, None);
                Some(value)
            }
            Err(error) => {
                let now = self.now();
                self.read_failures += 1;
                let pause = READ_RETRY_FIRST.saturating_mul(1 << self.read_failures.min(10).saturating_sub(1));
                let pause = match &error {
                    Error::RateLimited { wait, .. } => SignedDuration::try_from(*wait).unwrap_or(READ_RETRY_MAX),
                    _ => pause.min(READ_RETRY_MAX),
                };
                self.read_after = now.checked_add(pause).ok();
                // The pause that a host asks for applies to all calls.
                if let (Error::RateLimited { .. }, Some(at)) = (&error, self.read_after) {
                    self.outbox.pause_until(at);
                }
                self.warn(&error, now);
                None
            }
        }
    }

    /// Logs a failure, a lasting one once an hour.
    pub(super) fn warn(&mut self, error: &Error, now: Timestamp) {
        let text = error.to_string();
        self.warned.retain(|_, at| now.duration_since(*at) < SignedDuration::from_hours(1));
        if let std::collections::btree_map::Entry::Vacant(entry) = self.warned.entry(text) {
            tracing::warn!(reason = entry.key(), "the forge cannot be reached; trying again");
            entry.insert(now);
        }
    }
}
