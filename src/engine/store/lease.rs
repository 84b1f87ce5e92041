//! The lease: which of several daemons on one store leads.
//!
//! A lease has a holder, an epoch and an expiry, all kept by the store and measured by its clock. Each new holder gets a higher epoch,
//! and a batch of an earlier epoch is refused, so a leader that was paused or cut off writes nothing after it was replaced.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Result;

/// Shortest lease: below it, an ordinary pause of a process or of the database costs the leadership.
pub const LEASE_MIN: Duration = Duration::from_secs(2);
/// Lease where the configuration names none.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(15);

/// Who asks for the lease.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    /// Names one start of one daemon; no two starts have the same. Only who reads the lease knows it, so daemons on one store know each
    /// other by it.
    pub id: String,
    /// Where other daemons reach it over HTTP, without a slash at the end.
    pub url: String,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What a daemon is among those on one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has the store for itself.
    Alone,
    /// It takes the lease as soon as that is free.
    Follower {
        /// Who leads, as far as is known.
        leader: Option<Leader>,
        /// The store answered the last time.
        is_answered: bool,
    },
    /// It has the lease.
    Leading {
        /// Of its lease.
        epoch: u64,
    },
    /// It had the lease the last time the store answered, and cannot know whether it still has it.
    Unsure {
        /// Of its lease.
        epoch: u64,
    },
    /// Another daemon leads since.
    Replaced {
        /// Of its own lease, which is over.
        epoch: u64,
        /// Of the lease that took its place, as far as is known.
        found: u64,
    },
}

impl Role {
    /// Tells whether it decides: also while the store does not answer, for as long as nobody took the lease.
    pub fn leads(&self) -> bool {
        matches!(self, Self::Alone | Self::Leading { .. } | Self::Unsure { .. })
    }
}

/// A holder with its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Who.
    pub holder: Holder,
    /// Of its lease.
    pub epoch: u64,
}

/// The lease as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who has it.
    pub holder: Holder,
    /// Counts holders.
    pub epoch: u64,
    /// How long it lasts from the moment of the answer; zero where it has ended.
    pub left: Duration,
}

/// What came of an attempt to take the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the caller's now, under this epoch.
    Yes {
        /// The new epoch.
        epoch: u64,
    },
    /// Another holder has it.
    No(Lease),
}

/// Decides which daemon leads. All calls block.
///
/// The caller counts the length of its lease from before the call, by a clock of its own: the store counts from later, so the caller never
/// believes longer in the lease than the store does.
pub trait Leases: Send + Sync {
    /// Takes the lease where it is free or has ended; the epoch grows by one.
    ///
    /// # Errors
    /// The store does not answer: whether the lease was taken is not known.
    fn take(&self, holder: &Holder, length: Duration) -> Result<Taken>;

    /// Prolongs the lease of an epoch. Returns whether this epoch still holds it; one that ended and that nobody else took is prolonged too.
    ///
    /// # Errors
    /// The store does not answer.
    fn prolong(&self, epoch: u64, length: Duration) -> Result<bool>;

    /// Ends the lease of an epoch at once. The end of another epoch's lease is no error, and changes nothing.
    ///
    /// # Errors
    /// The store does not answer: the lease ends by itself.
    fn release(&self, epoch: u64) -> Result<()>;

    /// Returns the last lease; `None` before the first.
    ///
    /// # Errors
    /// The store does not answer.
    fn read(&self) -> Result<Option<Lease>>;
}

/// A lease in memory, for tests and simulation.
pub struct MemoryLeases {
    lease: Mutex<Option<(Holder, u64, Instant)>>,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
}

impl fmt::Debug for MemoryLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLeases").field(&self.lock()).finish()
    }
}

impl MemoryLeases {
    /// Measures leases by a clock of the caller.
    pub fn by(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self { lease: Mutex::default(), clock: Box::new(clock) }
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Holder, u64, Instant)>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases for MemoryLeases {
    fn take(&self, holder: &Holder, length: Duration) -> Result<Taken> {
        let mut lease = self.lock();
        let now = self.now();
        let epoch = match &*lease {
            Some((holder, epoch, end)) if *end > now => {
                return Ok(Taken::No(Lease { holder: holder.clone(), epoch: *epoch, left: *end - now }));
            }
            last => last.as_ref().map_or(0, |(_, epoch, _)| *epoch) + 1,
        };
        *lease = Some((holder.clone(), epoch, now + length));
        Ok(Taken::Yes { epoch })
    }

    fn prolong(&self, epoch: u64, length: Duration) -> Result<bool> {
        let mut lease = self.lock();
        let own = lease.as_mut().filter(|(_, held, _)| *held == epoch);
        Ok(own.map(|(_, _, end)| *end = self.now() + length).is_some())
    }

    fn release(&self, epoch: u64) -> Result<()> {
        if let Some((_, _, end)) = self.lock().as_mut().filter(|(_, held, _)| *held == epoch) {
            *end = self.now();
        }
        Ok(())
    }

    fn read(&self) -> Result<Option<Lease>> {
        let now = self.now();
        let lease = self.lock().clone();
        Ok(lease.map(|(holder, epoch, end)| Lease { holder, epoch, left: end.saturating_duration_since(now) }))
    }
}
