//! The fence: until when this daemon may write to anything outside its store.
//!
//! A leader may be cut off from the database and not know that another daemon leads since. Its lease tells until when that cannot be.
//! Every write to a member, the hub, the git host and receivers passes the fence: it waits while the fence is closed, and is cut at the
//! end of the lease. A daemon that has its store for itself has a fence that is always open.
//!
//! What a cut write did is not known, as after a crash, and whoever writes next reads first what is there.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock;
use crate::clock::Uptime;

/// The part of a lease in which no write begins any more, so that most of those in flight end before the lease does: one in so many.
pub const MARGIN_PART: u32 = 5;

/// Returns the time by which leases are measured.
pub type LeaseClock = Arc<dyn Fn() -> Uptime + Send + Sync>;

/// Returns the clock that counts suspend: a lease continues while a machine sleeps.
pub fn lease_clock() -> LeaseClock {
    Arc::new(clock::uptime)
}

/// A write was cut: the lease ended while it was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease of this daemon ended while the request was under way, so whether it was executed is not known")]
pub struct Cut;

/// Lets writes pass while this daemon surely leads. All clones are one fence.
#[derive(Clone, Debug, Default)]
pub struct Fence(Option<Arc<Gate>>);

struct Gate {
    lease: watch::Sender<FencedLease>,
    margin: Duration,
    now: LeaseClock,
}

/// What the fence knows of the lease.
#[derive(Clone, Copy, Debug, Default)]
struct FencedLease {
    /// The end of the lease; `None` before the first.
    end: Option<Uptime>,
    epoch: Option<u64>,
    /// It never opens again.
    is_over: bool,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("lease", &*self.lease.borrow())
            .field("margin", &self.margin)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// Returns how long until writes in flight are cut; zero from then on.
    fn left(&self) -> Duration {
        let FencedLease { end, is_over, .. } = *self.lease.borrow();
        match end {
            Some(end) if !is_over => (self.now)().until(end),
            _ => Duration::ZERO,
        }
    }

    fn is_open(&self) -> bool {
        self.left() > self.margin
    }

    /// Executes a write until it ends or the lease does.
    async fn run<T>(&self, write: impl Future<Output = T>) -> Result<T, Cut> {
        let mut lease = self.lease.subscribe();
        let mut write = pin!(write);
        loop {
            lease.mark_unchanged();
            let left = self.left();
            // Before each step of the write: a process that was stopped may be continued when its lease is over, and its timers fire later.
            let step = poll_fn(|context| {
                if self.left().is_zero() {
                    return Poll::Ready(Err(Cut));
                }
                write.as_mut().poll(context).map(Ok)
            });
            tokio::select! {
                biased;
                ended = step => return ended,
                // Prolonged, or over.
                _ = lease.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

impl Fence {
    /// Returns the fence of a daemon that has its store for itself. It costs nothing.
    pub fn always_open() -> Self {
        Self(None)
    }

    /// Returns a closed fence for leases of this length.
    pub fn of_lease(length: Duration, now: LeaseClock) -> Self {
        let (lease, _) = watch::channel(FencedLease::default());
        Self(Some(Arc::new(Gate { lease, margin: length / MARGIN_PART, now })))
    }

    /// Opens it for the lease of an epoch that ends then, unless it was closed.
    pub fn open_until(&self, epoch: u64, end: Uptime) {
        if let Some(gate) = &self.0 {
            gate.lease.send_if_modified(|lease| {
                let is_new = !lease.is_over && (lease.end, lease.epoch) != (Some(end), Some(epoch));
                if is_new {
                    (lease.end, lease.epoch) = (Some(end), Some(epoch));
                }
                is_new
            });
        }
    }

    /// Closes it for good, and cuts what is in flight: another daemon leads, or will.
    pub fn close(&self) {
        if let Some(gate) = &self.0 {
            gate.lease.send_modify(|lease| lease.is_over = true);
        }
    }

    /// Tells whether writes may begin.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_none_or(|gate| gate.is_open())
    }

    /// Returns the epoch of the lease, as soon as there was one; none where the store has one daemon.
    pub fn epoch(&self) -> Option<u64> {
        self.0.as_ref().and_then(|gate| gate.lease.borrow().epoch)
    }

    /// Waits until it is open.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn pass(&self) {
        let Some(gate) = &self.0 else { return };
        let mut lease = gate.lease.subscribe();
        while !gate.is_open() {
            // The sender lives as long as the gate. Time alone only closes the fence, so no timer is needed.
            if lease.changed().await.is_err() {
                return;
            }
        }
    }

    /// Executes a write: begins it when the fence is open, and cuts it at the end of the lease.
    ///
    /// # Errors
    /// It was cut. What it did is not known.
    ///
    /// # Cancel safety
    /// The write is dropped too; as for one that was cut, what it did is not known.
    pub async fn run<T>(&self, write: impl Future<Output = T>) -> Result<T, Cut> {
        let Some(gate) = &self.0 else { return Ok(write.await) };
        self.pass().await;
        gate.run(write).await
    }
}

#[cfg(test)]
mod tests;
