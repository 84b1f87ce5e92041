//! How a database of PostgreSQL is reached, as the configuration says it.

use std::path::PathBuf;

use secrecy::SecretString;

/// How the database is reached.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// The address: `postgresql://user@host:port/database`.
    pub url: SecretString,
    /// The password, unless the address has it.
    pub password: Option<SecretString>,
    /// The schema of the tables.
    pub schema: String,
    /// Whether the connection is encrypted, and the server verified.
    pub tls: Tls,
    /// Entries of the journal that are kept.
    pub journal_entries: usize,
}

/// How a connection is encrypted.
#[derive(Clone, Debug)]
pub enum Tls {
    /// Not at all: for servers on this machine.
    Off,
    /// The server's name and certificate are verified.
    Verified {
        /// File with the certificates that are trusted; absent: those of the system.
        ca: Option<PathBuf>,
        /// Files with the certificate and the key to be known by.
        identity: Option<(PathBuf, PathBuf)>,
    },
}
