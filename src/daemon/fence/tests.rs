//! The fence on virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use tokio::sync::oneshot;
use tokio::time::{Instant, advance};

use super::*;

const LEASE: Duration = Duration::from_secs(10);

/// Returns a fence whose lease is measured by the test's time.
fn fence() -> (Fence, LeaseClock) {
    let begin = Instant::now();
    let clock: LeaseClock = Arc::new(move || Uptime::default().after(begin.elapsed()));
    (Fence::of_lease(LEASE, Arc::clone(&clock)), clock)
}

#[tokio::test]
async fn without_a_lease_it_is_always_open() {
    let fence = Fence::always_open();
    fence.close();
    assert!(fence.is_open());
    assert_eq!((fence.run(async { 7 }).await, fence.epoch()), (Ok(7), None));
}

#[tokio::test(start_paused = true)]
async fn it_is_closed_before_the_first_lease_and_closes_a_fifth_before_the_end() {
    let (fence, now) = fence();
    assert!(!fence.is_open());
    let waiting = fence.clone();
    let waiting = tokio::spawn(async move { waiting.run(async { 7 }).await });
    fence.open_until(3, now().after(LEASE));
    assert_eq!(waiting.await.expect("it ends"), Ok(7), "a write that waited begins");
    assert_eq!(fence.epoch(), Some(3));
    advance(Duration::from_millis(7_999)).await;
    assert!(fence.is_open());
    advance(Duration::from_millis(1)).await;
    assert!(!fence.is_open());
    assert_eq!(fence.pass().now_or_never(), None);
    fence.open_until(3, now().after(LEASE));
    assert!(fence.is_open(), "it opens again where nobody else took the lease");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_cut_at_the_end_of_the_lease_as_prolonged() {
    let (fence, now) = fence();
    let begin = Instant::now();
    fence.open_until(1, now().after(LEASE));
    let write = fence.clone();
    let write = tokio::spawn(async move { write.run(std::future::pending::<()>()).await });
    advance(Duration::from_secs(4)).await;
    fence.open_until(1, now().after(LEASE));
    assert_eq!(write.await.expect("it ends"), Err(Cut));
    assert_eq!(begin.elapsed().as_secs(), 14);
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_ends_though_the_fence_is_closed_for_new_ones() {
    let (fence, now) = fence();
    fence.open_until(1, now().after(LEASE));
    let (answer, answered) = oneshot::channel();
    let write = fence.clone();
    let write = tokio::spawn(async move { write.run(answered).await });
    // So that it is under way.
    tokio::task::yield_now().await;
    advance(Duration::from_secs(9)).await;
    assert!(!fence.is_open());
    answer.send(7).expect("the write waits for it");
    assert_eq!(write.await.expect("it ends"), Ok(Ok(7)));
}

/// As after SIGCONT: the lease has ended, the answer is there, and no timer has fired yet.
#[tokio::test]
async fn a_write_makes_no_step_after_the_lease() {
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_over);
    let hour = Duration::from_hours(1);
    let clock: LeaseClock = Arc::new(move || Uptime::default().after(hour * u32::from(seen.load(Ordering::Relaxed))));
    let fence = Fence::of_lease(LEASE, Arc::clone(&clock));
    fence.open_until(1, clock().after(LEASE));
    let (answer, answered) = oneshot::channel();
    let mut write = Box::pin(fence.run(answered));
    assert!(futures::poll!(&mut write).is_pending());
    is_over.store(true, Ordering::Relaxed);
    answer.send(7).expect("the write waits for it");
    assert_eq!(write.await, Err(Cut));
}

#[tokio::test(start_paused = true)]
async fn closed_is_closed_for_good() {
    let (fence, now) = fence();
    fence.open_until(1, now().after(LEASE));
    let write = fence.clone();
    let write = tokio::spawn(async move { write.run(std::future::pending::<()>()).await });
    tokio::task::yield_now().await;
    fence.close();
    assert_eq!(write.await.expect("it ends"), Err(Cut));
    fence.open_until(1, now().after(LEASE));
    assert!(!fence.is_open());
    assert_eq!(fence.run(async {}).now_or_never(), None);
}
