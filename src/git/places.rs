//! Where things stand in repositories, and repositories in the state folder.

/// Everything we write into a repository's refs stands below this.
pub const REF_PREFIX: &str = "refs/gitfleet/";
/// Where fetched branches stand, so that a force-push is seen and not refused.
pub(crate) const REF_TRACKING: &str = "refs/gitfleet/src/";
/// The repository of rendered folders, below the state folder.
pub const RENDERED_FOLDER: &str = "rendered.git";
/// The repository of commits that join sources, below the state folder.
pub(crate) const JOINED_FOLDER: &str = "joined.git";
/// Where pins stand.
pub(crate) const REF_PINS: &str = "refs/gitfleet/pin/";
/// Where heads of pull requests are kept while they are planned.
pub(crate) const REF_PULLS: &str = "refs/gitfleet/pull/";
