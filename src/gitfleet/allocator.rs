//! The allocator, and its settings, which it reads from this program.

use tikv_jemallocator::Jemalloc;

/// Gives memory back to the system after a rollout. Why: docs/design/040-memory-of-a-large-fleet.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Memory that was freed is given back after one second, not after ten. jemalloc finds its settings under this name.
///
/// Source: jemalloc(3), "TUNING"; the prefix is tikv-jemalloc-sys's.
#[expect(unsafe_code, reason = "the name is jemalloc's alone")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: Option<&[u8; 20]> = Some(b"dirty_decay_ms:1000\0");
