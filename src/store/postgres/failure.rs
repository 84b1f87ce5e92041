//! Why a call of the database failed.

use engine::store::Error;

/// Why a call failed.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The store's own word, which says nothing against the connection.
    Store(Error),
    /// The database's word, or the connection's.
    Database(tokio_postgres::Error),
    /// No connection, and why, for people.
    Unconnected(String),
}

impl From<tokio_postgres::Error> for CallFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}
