//! When a watch that failed is tried again.

use std::time::Duration;

use kube::runtime::watcher;

/// Pause before a failed watch is tried again.
pub(super) const RETRY: Duration = Duration::from_secs(5);
/// Pause before a refused watch is tried again: it fails until an administrator of the member grants the right.
pub(super) const REFUSED_RETRY: Duration = Duration::from_mins(5);

/// Tells whether the member refused the watch, and will do so until its rights or its kinds change.
pub(super) fn is_refused(error: &watcher::Error) -> bool {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        _ => return false,
    };
    // Not these: 401 concerns the whole member, 410 a watch that fell behind, and 429 passes by itself.
    (400..500).contains(&code) && !matches!(code, 401 | 410 | 429)
}
