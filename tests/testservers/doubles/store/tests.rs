//! Holds the store in memory to the promises. Of `engine` itself the tests would be of another build of its trait.

use engine::store::MemoryStore;

use super::*;

#[test]
fn the_store_in_memory_keeps_every_promise() {
    suite(|| Box::new(MemoryStore::with_journal_max(JOURNAL_MAX)));
}

#[test]
fn the_store_in_memory_agrees_with_the_model() {
    model(256, || Box::new(MemoryStore::with_journal_max(JOURNAL_MAX)));
}
