//! Who signed, and why a signature does not count.

use std::fmt;

use model::manifest::InputError;

/// The longest signature of a commit that is read, in bytes: those of RSA with 8192 bits have 3,000.
pub const SIGNATURE_BYTES_MAX: usize = 16 * 1024;

/// A kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// As ssh-keygen makes them.
    Ssh,
    /// As gpg makes them.
    OpenPgp,
    /// As gpgsm, smimesign and gitsign make them.
    X509,
}

impl fmt::Display for SignatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "SSH",
            Self::OpenPgp => "OpenPGP",
            Self::X509 => "X.509",
        })
    }
}

/// What names a key, or its certificate: the fingerprint, as the programs of its kind print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName {
    /// The kind of key.
    pub kind: SignatureKind,
    /// Its fingerprint; of OpenPGP also a key id, where a signature names nothing else.
    pub fingerprint: String,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.kind == SignatureKind::X509 { "certificate" } else { "key" };
        write!(f, "the {} {what} {}", self.kind, self.fingerprint)
    }
}

/// Who signed a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The key.
    pub key: KeyName,
    /// Whose key it is, as the file of keys says.
    pub name: String,
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.key, self.name)
    }
}

/// Why a commit is refused. The text continues a sentence that begins with the commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureRefusal {
    /// It has no signature.
    #[error("is not signed")]
    Unsigned,
    /// It has more than one: which of them counts would depend on the program that reads it.
    #[error("has {0} signatures, and one is read")]
    Several(usize),
    /// Its signature is too long.
    #[error("has a signature of {0} bytes, more than the {SIGNATURE_BYTES_MAX} that are read")]
    TooLong(usize),
    /// The commit itself is too long.
    #[error("has {bytes} bytes without its files, more than the {max} that are read")]
    CommitTooLong {
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// It is no signature of a known form.
    #[error("has a signature that cannot be read: {0}")]
    Unreadable(String),
    /// No keys of that kind count.
    #[error("is signed with a key of {0}, and `source.verify` names none of that kind")]
    KindNotNamed(SignatureKind),
    /// The key is not listed.
    #[error("is signed with {0}, which `source.verify` does not list")]
    Unknown(KeyName),
    /// The certificate leads to no listed authority, or its identity is not listed.
    #[error("is signed with {0}, {1}")]
    Untrusted(KeyName, String),
    /// The key is listed and does not count, or what it signed is not what counts.
    #[error("is signed with {0}, {1}")]
    NotValid(Signer, String),
    /// The signature is not one of this commit.
    #[error("has a bad signature: what {0} signed is not this commit")]
    Bad(Signer),
}

pub(super) fn about(path: String, message: String, hint: &str) -> InputError {
    InputError { path, line: 0, object: None, field: None, message, hint: Some(hint.to_owned()) }
}
