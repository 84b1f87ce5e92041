//! The databases that keep records and the journal: embedded in the daemon, or PostgreSQL for several replicas.
//!
//! Both implement [`engine::store::Store`]. All calls block: the daemon makes them on its own thread or in `spawn_blocking`.

pub mod embedded;
mod guard;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
mod postgres_absent;
mod postgres_settings;

pub use embedded::EmbeddedStore;
pub use guard::StoreGuard;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(not(feature = "postgres"))]
pub use postgres_absent::PostgresStore;
pub use postgres_settings::{PostgresSettings, Tls};

#[cfg(test)]
mod tests {
    use engine::store::MemoryStore;
    use testservers::doubles::store as conformance;

    #[test]
    fn keeps_every_promise() {
        conformance::suite(|| Box::new(MemoryStore::with_journal_max(conformance::JOURNAL_MAX)));
    }

    #[test]
    fn agrees_with_the_model() {
        conformance::model(256, || Box::new(MemoryStore::with_journal_max(conformance::JOURNAL_MAX)));
    }
}
