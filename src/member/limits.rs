//! What all members together do at once. A thousand members that start together would otherwise hold a page of a list each, and tens of
//! thousands of steps, and the memory of both.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Steps that every member may have under way, whatever others do.
pub(crate) const OWN_STEPS: usize = 4;
/// Steps beyond those, of all members together.
pub(crate) const MORE_STEPS_MAX: usize = 1_024;
/// Members that list their objects at once.
const LISTING_MAX: usize = 128;
/// How long a member may keep others from listing: one that answers slowly continues listing, and makes room.
const LISTING_TIME: Duration = Duration::from_secs(5);

/// How long the first lists of a member may bring nothing before the kinds without an answer count as unknown.
const LIST_SILENCE: Duration = Duration::from_mins(1);

/// The limits that members share.
#[derive(Debug)]
pub struct SharedLimits {
    /// How long the first lists of a member may bring nothing.
    pub list_silence: Duration,
    steps: Arc<Semaphore>,
    listing: Arc<Semaphore>,
}

impl Default for SharedLimits {
    fn default() -> Self {
        Self {
            list_silence: LIST_SILENCE,
            steps: Arc::new(Semaphore::new(MORE_STEPS_MAX)),
            listing: Arc::new(Semaphore::new(LISTING_MAX)),
        }
    }
}

/// The right to one more step.
#[derive(Debug)]
pub struct StepPermit {
    /// Counts until it is dropped; absent for a member's own steps.
    _shared: Option<OwnedSemaphorePermit>,
}

/// A member's turn to list.
#[derive(Debug)]
pub struct ListingTurn {
    permit: Option<OwnedSemaphorePermit>,
    until: Instant,
}

impl SharedLimits {
    /// Returns the right to one more step; `under_way` says how many the member has. `None` if it must wait for one of them.
    pub fn step(&self, under_way: usize) -> Option<StepPermit> {
        if under_way < OWN_STEPS {
            return Some(StepPermit { _shared: None });
        }
        Arc::clone(&self.steps).try_acquire_owned().ok().map(|permit| StepPermit { _shared: Some(permit) })
    }

    /// Waits until a member may list.
    ///
    /// # Cancel safety
    /// The place in the queue is lost.
    pub async fn listing_turn(&self) -> ListingTurn {
        let permit = Arc::clone(&self.listing).acquire_owned().await.ok();
        ListingTurn { permit, until: Instant::now() + LISTING_TIME }
    }
}

impl ListingTurn {
    /// Waits for something that a list brings, until `end` at most; the turn ends meanwhile if it has lasted too long. Returns `None` if
    /// nothing came.
    ///
    /// # Cancel safety
    /// As `next`.
    pub async fn wait<T>(&mut self, end: Instant, next: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::pin!(next);
        if self.permit.is_some() {
            if let Ok(found) = timeout_at(self.until.min(end), &mut next).await {
                return found;
            }
            self.permit = None;
        }
        timeout_at(end, next).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_steps_of_its_own_and_all_share_the_others() {
        let limits = SharedLimits::default();
        let taken: Vec<_> = (0..MORE_STEPS_MAX).filter_map(|_| limits.step(OWN_STEPS)).collect();
        assert_eq!(taken.len(), MORE_STEPS_MAX);
        assert!(limits.step(OWN_STEPS).is_none(), "the shared ones are used up");
        assert!(limits.step(OWN_STEPS - 1).is_some(), "no member waits for the steps of others");
        drop(taken);
        assert!(limits.step(OWN_STEPS).is_some());
    }

    #[tokio::test]
    async fn a_member_that_lists_slowly_makes_room() {
        let limits = SharedLimits::default();
        let mut turns = Vec::new();
        for _ in 0..LISTING_MAX {
            turns.push(limits.listing_turn().await);
        }
        let mut slow = turns.pop().expect("a turn");
        slow.until = Instant::now();
        let (next, listed) = tokio::sync::oneshot::channel();
        let list = async { listed.await.ok() };
        let another = async {
            let turn = limits.listing_turn().await;
            next.send("listed").expect("the slow one waits");
            turn
        };
        let end = Instant::now() + LISTING_TIME;
        let (found, _turn) = tokio::join!(slow.wait(end, list), another);
        assert_eq!(found, Some("listed"), "another got its turn meanwhile");
        assert_eq!(slow.wait(end, std::future::ready(Some(1))).await, Some(1), "its own list continues");
    }
}
