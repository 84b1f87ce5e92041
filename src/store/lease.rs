//! The lease: which of several daemons on one store leads.
//!
//! A lease has a holder, an epoch and an expiry, all kept by the store and measured by its clock. Each new holder gets a higher epoch,
//! and a batch of an earlier epoch is refused, so a leader that was paused or cut off writes nothing after it was replaced.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Result;

/// Shortest lease: below it, an ordinary pause of a process or of the database costs the leadership.
pub const LEASE_MIN: Duration = Duration::from_secs(2);
/// Lease where the configuration names none.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(15);

/// Who asks for the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Names one start of one daemon; no two starts have the same.
    pub id: String,
    /// Where other daemons reach it over HTTP, without a slash at the end.
    pub url: String,
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
#[derive(Debug, Default)]
pub struct MemoryLeases(Mutex<Option<(Holder, u64, Instant)>>);

impl MemoryLeases {
    fn lock(&self) -> MutexGuard<'_, Option<(Holder, u64, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases for MemoryLeases {
    fn take(&self, holder: &Holder, length: Duration) -> Result<Taken> {
        let (mut lease, now) = (self.lock(), Instant::now());
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
        Ok(own.map(|(_, _, end)| *end = Instant::now() + length).is_some())
    }

    fn release(&self, epoch: u64) -> Result<()> {
        if let Some((_, _, end)) = self.lock().as_mut().filter(|(_, held, _)| *held == epoch) {
            *end = Instant::now();
        }
        Ok(())
    }

    fn read(&self) -> Result<Option<Lease>> {
        let now = Instant::now();
        let lease = self.lock().clone();
        Ok(lease.map(|(holder, epoch, end)| Lease { holder, epoch, left: end.saturating_duration_since(now) }))
    }
}
