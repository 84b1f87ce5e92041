//! How many messages wait for the event loop.

use super::Daemon;
use system::telemetry::metrics::{ByChannel, Channel};

/// News of the source that may wait for the event loop; with more, its threads wait.
pub(super) const NEWS_MAX: usize = 1024;
/// Reports of the hub that may wait likewise.
pub(super) const HUB_REPORTS_MAX: usize = 16;

impl Daemon {
    /// Notes how many messages wait in each channel to the event loop.
    ///
    /// Those of members, of people's commands and of the bot's plans are not bounded: agents report while a lock is held, and the bot sends from
    /// code that does not wait. A member's task reports at most every 50 ms, people have a connection for each command, and each bot has one
    /// question at a time.
    pub(super) fn measure_channels(&self) {
        let depths = [
            (Channel::Source, self.news.len()),
            (Channel::Members, self.events.len()),
            (Channel::Hub, self.hub_reports.len()),
            (Channel::Metrics, self.answers.len()),
            (Channel::Configuration, self.config.len()),
            (Channel::Questions, self.questions.len()),
            (Channel::Commands, self.instructions.len()),
            (Channel::Previews, self.previews.len()),
            (Channel::Pushes, self.pushes.len()),
            (Channel::Baselines, self.baselines.len()),
        ];
        for (channel, messages) in depths {
            let messages = i64::try_from(messages).unwrap_or(i64::MAX);
            self.metrics.channel_depth.get_or_create(&ByChannel { channel }).set(messages);
        }
    }
}
