//! What hosts are reached with.

use std::path::PathBuf;

/// How hosts are reached over ssh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshAccess {
    /// The private key, without a passphrase.
    pub key_file: PathBuf,
    /// The keys of hosts that count. No other host is spoken to.
    pub known_hosts_file: PathBuf,
}
