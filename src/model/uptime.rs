//! Instants by how long a machine is up.

use std::time::Duration;

/// An instant by how long the machine is up, suspend included. Setting the machine's clock does not change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime(Duration);

impl Uptime {
    /// An instant that never comes.
    pub const MAX: Self = Self(Duration::MAX);

    /// Returns the instant at which the machine is up for so long.
    pub const fn new(up: Duration) -> Self {
        Self(up)
    }

    /// Returns the instant so long after this one.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self(self.0.saturating_add(pause))
    }

    /// Returns how long it is from this instant to a later one; zero where that has passed.
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}
