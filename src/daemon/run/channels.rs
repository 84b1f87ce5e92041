//! How many messages wait for the event loop.

use system::telemetry::metrics::{ByChannel, Channel, Metrics};

/// News of the source that may wait for the event loop; with more, its threads wait.
pub(super) const NEWS_MAX: usize = 1024;
/// Reports of the hub that may wait likewise.
pub(super) const HUB_REPORTS_MAX: usize = 16;

/// Notes how many messages wait in channels to the event loop.
pub(super) fn measure(metrics: &Metrics, depths: impl IntoIterator<Item = (Channel, usize)>) {
    for (channel, messages) in depths {
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        metrics.channel_depth.get_or_create(&ByChannel { channel }).set(messages);
    }
}
