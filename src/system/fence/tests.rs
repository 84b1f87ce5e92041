//! The fence on a clock of the test.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;
use tokio::sync::oneshot;

use super::*;

const LEASE: Duration = Duration::from_secs(10);

/// Time that the test moves on.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn wait(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }

    fn now(&self) -> Uptime {
        Uptime::default().after(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

fn fence() -> (Fence, TestClock) {
    let clock = TestClock::default();
    let read = clock.clone();
    (Fence::of_lease(LEASE, Arc::new(move || read.now())), clock)
}

#[tokio::test]
async fn without_a_lease_it_is_always_open() {
    let fence = Fence::always_open();
    fence.close();
    assert!(fence.is_open());
    assert_eq!((fence.run(async { 7 }).await, fence.epoch()), (Ok(7), None));
}

#[tokio::test]
async fn it_is_closed_before_the_first_lease_and_closes_a_fifth_before_the_end() {
    let (fence, clock) = fence();
    assert!(!fence.is_open());
    let mut waiting = Box::pin(fence.run(async { 7 }));
    assert!(futures::poll!(&mut waiting).is_pending());
    fence.open_until(3, clock.now().after(LEASE));
    assert_eq!(waiting.await, Ok(7), "a write that waited begins");
    assert_eq!(fence.epoch(), Some(3));
    clock.wait(7_999);
    assert!(fence.is_open());
    clock.wait(1);
    assert!(!fence.is_open());
    assert_eq!(fence.pass().now_or_never(), None);
    fence.open_until(3, clock.now().after(LEASE));
    assert!(fence.is_open(), "it opens again where nobody else took the lease");
}

#[tokio::test]
async fn a_write_is_cut_at_the_end_of_the_lease_as_prolonged() {
    let length = Duration::from_millis(50);
    let fence = Fence::of_lease(length, lease_clock());
    fence.open_until(1, clock::uptime().after(length * 20));
    let mut write = Box::pin(fence.run(std::future::pending::<()>()));
    assert!(futures::poll!(&mut write).is_pending());
    let end = clock::uptime().after(length);
    fence.open_until(1, end);
    assert_eq!(write.await, Err(Cut));
    assert!(clock::uptime() >= end);
}

#[tokio::test]
async fn a_write_in_flight_ends_though_the_fence_is_closed_for_new_ones() {
    let (fence, clock) = fence();
    fence.open_until(1, clock.now().after(LEASE));
    let (answer, answered) = oneshot::channel();
    let mut write = Box::pin(fence.run(answered));
    assert!(futures::poll!(&mut write).is_pending());
    clock.wait(9_000);
    assert!(!fence.is_open());
    answer.send(7).expect("the write waits for it");
    assert_eq!(write.await, Ok(Ok(7)));
}

/// As after SIGCONT: the lease has ended, the answer is there, and no timer has fired yet.
#[tokio::test]
async fn a_write_makes_no_step_after_the_lease() {
    let (fence, clock) = fence();
    fence.open_until(1, clock.now().after(LEASE));
    let (answer, answered) = oneshot::channel();
    let mut write = Box::pin(fence.run(answered));
    assert!(futures::poll!(&mut write).is_pending());
    clock.wait(10_000);
    answer.send(7).expect("the write waits for it");
    assert_eq!(write.await, Err(Cut));
}

#[tokio::test]
async fn closed_is_closed_for_good() {
    let (fence, clock) = fence();
    fence.open_until(1, clock.now().after(LEASE));
    let mut write = Box::pin(fence.run(std::future::pending::<()>()));
    assert!(futures::poll!(&mut write).is_pending());
    fence.close();
    assert_eq!(write.await, Err(Cut));
    fence.open_until(1, clock.now().after(LEASE));
    assert!(!fence.is_open());
    assert_eq!(fence.run(async {}).now_or_never(), None);
}
