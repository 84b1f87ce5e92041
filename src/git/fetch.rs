//! Limits what one fetch may bring: gix reports its progress during the fetch, and stops on request.
//!
//! gix itself refuses to create an object larger than [`OBJECT_SIZE_MAX_BYTES`] in memory; this module determines which limit
//! was exceeded, and limits the sum of all objects. See docs/design/018-memory-for-what-people-push.md.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gix::progress::{Count, Id, MessageLevel, NestedProgress, Progress, Step, StepShared, UNKNOWN, Unit};

use super::{OBJECT_SIZE_MAX_BYTES, PACK_INFLATED_MAX_BYTES, PACK_OBJECTS_MAX, PACK_RECEIVED_MAX_BYTES};

/// Bytes of the pack as they arrive.
///
/// Source: gix-pack, `bundle::write::ProgressId::ReadPackBytes`.
const RECEIVED: Id = *b"BWRB";
/// Objects of the pack; their number is known before the first.
///
/// Source: gix-pack, `index::write::ProgressId::IndexObjects`.
const OBJECTS: Id = *b"IWIO";
/// Bytes of each entry once it is inflated, entry by entry; and of each object once it is put together, summed up.
///
/// Source: gix-pack, `index::write::ProgressId::DecompressedBytes` and `DecodedBytes`, which share an id.
const INFLATED: Id = *b"IWDB";

/// How much memory the process may grow by while it fetches, in bytes. What is counted bounds each object; a chain of objects
/// that are made from each other may hold many at once, which only the sum shows.
const MEMORY_GROWTH_MAX_BYTES: u64 = 384 * 1024 * 1024;

/// The exceeded limit, with the measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// One object is too large.
    Object(u64),
    /// The objects are too many.
    Objects(u64),
    /// Too many bytes came over the network.
    Received(u64),
    /// The objects are too large together, once inflated.
    Inflated(u64),
    /// Checking the objects takes too much memory.
    Memory(u64),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // gix refused it before its size was told.
            Self::Object(0) => write!(f, "an object has more than {OBJECT_SIZE_MAX_BYTES} bytes"),
            Self::Object(held) => {
                write!(f, "an object has {held} bytes or more, and {OBJECT_SIZE_MAX_BYTES} are the limit")
            }
            Self::Objects(0) => write!(f, "there are more than {PACK_OBJECTS_MAX} objects"),
            Self::Memory(held) => {
                write!(
                    f,
                    "checking its objects took {held} bytes of memory, and {MEMORY_GROWTH_MAX_BYTES} are the limit"
                )
            }
            Self::Objects(held) => write!(f, "there are {held} objects, and {PACK_OBJECTS_MAX} are the limit"),
            Self::Received(held) => {
                write!(f, "there are {held} bytes or more to receive, and {PACK_RECEIVED_MAX_BYTES} are the limit")
            }
            Self::Inflated(held) => {
                write!(f, "the objects have {held} bytes or more, and {PACK_INFLATED_MAX_BYTES} are the limit")
            }
        }
    }
}

/// What a fetch has brought so far, and the flag that ends it.
#[derive(Debug, Default)]
struct Brought {
    stop: AtomicBool,
    received: AtomicU64,
    /// Bytes that were received when the last object was complete.
    complete: AtomicU64,
    inflated: AtomicU64,
    objects: AtomicU64,
    /// The largest entry that was inflated.
    largest: AtomicU64,
    /// Memory that the process got since the beginning.
    grown: AtomicU64,
}

/// Bounds one fetch.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    brought: Arc<Brought>,
    /// Sum of the objects that were put together; gix counts on it without asking.
    decoded: StepShared,
    /// Memory of the process at the beginning, in bytes; absent where that cannot be known.
    before: Option<u64>,
}

impl Bounds {
    pub(crate) fn new() -> Self {
        Self { brought: Arc::default(), decoded: Arc::new(AtomicUsize::new(0)), before: anonymous_bytes() }
    }

    /// Checks the values without progress reports: called repeatedly while the fetch runs.
    pub(crate) fn look(&self) {
        if let (Some(before), Some(now)) = (self.before, anonymous_bytes()) {
            // The peak counts: the memory may be given back before anybody checks.
            self.brought.grown.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
        }
        self.check();
    }

    /// Returns which limit an error comes from: one of gitfleet, or the one for single objects that gix keeps.
    pub(crate) fn excess_of(&self, error: &gix::Error) -> Option<Excess> {
        if let Some(excess) = self.excess() {
            return Some(excess);
        }
        // gix has the same error for every allocation that it refuses, so its words tell which one it was.
        let text = format!("{error:?} {error:#}");
        let exhausted = error.is_resource_exhausted() || text.contains("too large to fit in memory");
        // The delta tree has an entry for each object: where it does not fit the objects are too many.
        exhausted.then_some(if text.contains("delta tree") { Excess::Objects(0) } else { Excess::Object(0) })
    }

    /// Returns the progress to fetch with.
    pub(crate) fn progress(&self) -> Watched {
        Watched { bounds: self.clone(), id: UNKNOWN, step: Arc::default() }
    }

    /// Returns the flag that ends the fetch; others may raise it, too.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.brought.stop
    }

    /// Returns the exceeded limit.
    pub(crate) fn excess(&self) -> Option<Excess> {
        let brought = &self.brought;
        let decoded = u64::try_from(self.decoded.load(Ordering::Relaxed)).unwrap_or(u64::MAX);
        let received = brought.received.load(Ordering::Relaxed);
        // gix reports an object when it is complete. Until then the bytes since the last one stand for its size.
        let unfinished = received.saturating_sub(brought.complete.load(Ordering::Relaxed));
        let largest = brought.largest.load(Ordering::Relaxed).max(unfinished);
        let objects = brought.objects.load(Ordering::Relaxed);
        let inflated = brought.inflated.load(Ordering::Relaxed).max(decoded);
        let grown = brought.grown.load(Ordering::Relaxed);
        let rows = [
            (largest, OBJECT_SIZE_MAX_BYTES, Excess::Object(largest)),
            (objects, PACK_OBJECTS_MAX, Excess::Objects(objects)),
            (received, PACK_RECEIVED_MAX_BYTES, Excess::Received(received)),
            (inflated, PACK_INFLATED_MAX_BYTES, Excess::Inflated(inflated)),
            (grown, MEMORY_GROWTH_MAX_BYTES, Excess::Memory(grown)),
        ];
        rows.into_iter().find_map(|(held, max, excess)| (held > max).then_some(excess))
    }

    fn check(&self) {
        if self.excess().is_some() {
            self.brought.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the memory of this process that no file stands behind.
///
/// Source: proc_pid_status(5); other systems have no such file.
fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: u64 =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// One line of progress.
pub(super) struct Watched {
    bounds: Bounds,
    id: Id,
    step: StepShared,
}

impl Count for Watched {
    fn set(&self, step: Step) {
        self.step.store(step, Ordering::Relaxed);
    }

    fn step(&self) -> Step {
        self.step.load(Ordering::Relaxed)
    }

    fn inc_by(&self, step: Step) {
        self.step.fetch_add(step, Ordering::Relaxed);
        let brought = &self.bounds.brought;
        let more = u64::try_from(step).unwrap_or(u64::MAX);
        match self.id {
            RECEIVED => {
                brought.received.fetch_add(more, Ordering::Relaxed);
            }
            INFLATED => {
                brought.complete.store(brought.received.load(Ordering::Relaxed), Ordering::Relaxed);
                brought.inflated.fetch_add(more, Ordering::Relaxed);
                brought.largest.fetch_max(more, Ordering::Relaxed);
            }
            _ => return,
        }
        self.bounds.check();
    }

    fn counter(&self) -> StepShared {
        // Who asks for the counter counts sums on it: the objects that are put together.
        if self.id == INFLATED { Arc::clone(&self.bounds.decoded) } else { Arc::clone(&self.step) }
    }
}

impl Progress for Watched {
    fn init(&mut self, max: Option<Step>, _: Option<Unit>) {
        if let (OBJECTS, Some(max)) = (self.id, max) {
            self.bounds.brought.objects.store(u64::try_from(max).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.bounds.check();
        }
    }

    fn set_name(&mut self, _: String) {}

    fn name(&self) -> Option<String> {
        None
    }

    fn id(&self) -> Id {
        self.id
    }

    fn message(&self, _: MessageLevel, _: String) {}
}

impl NestedProgress for Watched {
    type SubProgress = Self;

    fn add_child(&mut self, _: impl Into<String>) -> Self {
        self.add_child_with_id("", UNKNOWN)
    }

    fn add_child_with_id(&mut self, _: impl Into<String>, id: Id) -> Self {
        Self { bounds: self.bounds.clone(), id, step: Arc::default() }
    }
}

#[cfg(test)]
mod tests;
