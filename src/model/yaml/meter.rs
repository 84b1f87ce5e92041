//! Counts the memory of values while they are parsed and before they are copied.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a value beside its text: its slot in a list or mapping, including spare capacity of the list.
const NODE_BYTES: usize = 64;
/// Bytes that a text takes beside its characters: the allocator's own, rounded up.
const TEXT_BYTES: usize = 16;
/// Bytes of one block of a mapping. The standard library makes blocks of eleven entries, also for one entry.
const MAP_BLOCK_BYTES: usize = 640;
/// Entries that a block of a mapping holds at least, where there are several.
const MAP_BLOCK_ENTRIES: usize = 6;
/// Bytes that one document takes beside its value: its identity, its place, and what is kept about it.
pub const DOCUMENT_BYTES: usize = 1024;

/// Values and bytes of memory, after aliases are expanded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Values: texts, numbers, lists, mappings; keys are not counted.
    pub nodes: usize,
    /// Bytes of memory, estimated from above.
    pub bytes: usize,
}

impl Cost {
    pub(super) fn node() -> Self {
        Self { nodes: 1, bytes: NODE_BYTES }
    }

    /// Returns what a text costs beside its place.
    pub fn text(text: &str) -> Self {
        Self { nodes: 0, bytes: text.len() + TEXT_BYTES }
    }

    pub(super) fn mapping(entries: usize) -> Self {
        let blocks = if entries == 0 { 0 } else { 1 + entries / MAP_BLOCK_ENTRIES };
        Self { nodes: 0, bytes: blocks * MAP_BLOCK_BYTES }
    }

    /// Returns what two things cost together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let nodes = self.nodes.saturating_add(other.nodes);
        Self { nodes, bytes: self.bytes.saturating_add(other.bytes) }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self { nodes: self.nodes - before.nodes, bytes: self.bytes - before.bytes }
    }

    /// Tells whether this is more than is allowed.
    pub fn exceeds(self, max: Self) -> bool {
        self.nodes > max.nodes || self.bytes > max.bytes
    }
}

/// The counted sum of all values parsed together; several threads may share it.
///
/// Once it ran over, parsing stops everywhere and the results are incomplete. Whether it runs over depends only on the content:
/// the sum exceeds the limit in any order.
#[derive(Debug)]
pub struct Meter<'a> {
    max: Cost,
    nodes: AtomicUsize,
    bytes: AtomicUsize,
    whole: Option<&'a Meter<'a>>,
}

impl Meter<'static> {
    /// Creates a meter with a limit.
    pub const fn new(max: Cost) -> Self {
        Self { max, nodes: AtomicUsize::new(0), bytes: AtomicUsize::new(0), whole: None }
    }
}

impl Meter<'_> {
    /// Creates a meter for a part, which also counts on this one.
    pub const fn part(&self) -> Meter<'_> {
        Meter { max: self.max, nodes: AtomicUsize::new(0), bytes: AtomicUsize::new(0), whole: Some(self) }
    }

    /// Counts something; tells whether all together is within what is allowed.
    pub fn count(&self, cost: Cost) -> bool {
        // Relaxed is enough: threads share these sums and nothing that is guarded by them.
        self.nodes.fetch_add(cost.nodes, Ordering::Relaxed);
        self.bytes.fetch_add(cost.bytes, Ordering::Relaxed);
        let whole = self.whole.is_none_or(|whole| whole.count(cost));
        whole && !self.ran_over()
    }

    /// Returns what was counted.
    pub fn sum(&self) -> Cost {
        Cost { nodes: self.nodes.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// Tells whether more was read than is allowed.
    pub fn ran_over(&self) -> bool {
        self.sum().exceeds(self.max) || self.whole.is_some_and(Meter::ran_over)
    }
}
