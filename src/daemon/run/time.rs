//! Stores the time with each batch, and continues stored waits by it.
//!
//! Where daemons share a database, its clock measures how much time passes between two leaders: their machines' clocks may differ by
//! anything. Each reading errs by what it takes to ask the database, and always so that less time seems to have passed.

use std::sync::Arc;

use engine::persist::SavedRecords;
use engine::store;
use engine::store::{Op, Store, records};
use engine::waits;
use model::records::ClockReading;
use system::clock;

/// Stores operations, together with the current time: from this reading the next process measures how long the waits in its records
/// lasted.
///
/// # Errors
/// As [`Store::batch`].
pub(super) async fn write_with_time(store: Arc<dyn Store>, mut ops: Vec<Op>) -> store::Result<u64> {
    let write = move || {
        // The database's clock last: until it answers, time passes that the next process does not count.
        let own = clock::reading();
        let reading = ClockReading { shared: store.shared_time()?, ..own };
        ops.extend(waits::remember(&reading));
        store.batch(ops)
    };
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => written,
        Err(error) => Err(store::Error::Broken { message: error.to_string() }),
    }
}

/// Shifts stored waits, so that they continue whatever the clock was set to since, and whichever machine wrote them.
///
/// # Errors
/// The store cannot be read or written.
pub(super) fn resume_waits(saved: &mut SavedRecords, store: &dyn Store) -> store::Result<()> {
    let seen = records::load::<ClockReading>(store, &records::clock_key())?.map(|record| record.value);
    // The database's clock first: until its answer is here, time passes that is not counted.
    let shared = store.shared_time()?;
    let now = ClockReading { shared, ..clock::reading() };
    let step = waits::correction(seen.as_ref(), &now, waits::newest(saved));
    if step.is_zero() {
        return Ok(());
    }
    let by = waits::format_step(step);
    tracing::warn!(
        by,
        "the clock of the machine is not the one that records were dated by: it was set, another machine led, or too much time \
         passed to know; timers continue"
    );
    let mut ops = waits::shift(saved, step)?;
    ops.push(Op::Journal(waits::entry(now.at, &by, "since the last life")));
    // In the same batch as the shifted records: a crash between two batches would make the next process shift them again. The
    // database's clock is asked again, for this reading is stored.
    let at = clock::reading();
    ops.push(waits::remember(&ClockReading { shared: store.shared_time()?, ..at })?);
    store.batch(ops).map(drop)
}
