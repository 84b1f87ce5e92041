//! Signatures of commits and artifacts: whether one was made by a key that counts.
//!
//! [`check`] is about one commit, [`complaints`] about those that come together, [`check_artifact`] about an artifact in a registry. Keys are values that were read from texts, and the
//! time is an argument, so the same inputs give the same answer; [design/056](../../docs/design/056-signed-commits.md) says why each
//! rule is as it is.

mod block;
mod cosign;
#[cfg(feature = "openpgp")]
mod openpgp;
#[cfg(not(feature = "openpgp"))]
mod openpgp_absent;
mod ssh;
mod x509;

use std::fmt;

use jiff::Timestamp;

use model::id::CommitId;
use model::manifest::InputError;

pub use cosign::{ArtifactRefusal, CosignKeys, artifact_complaint, check_artifact};
#[cfg(not(feature = "openpgp"))]
use openpgp_absent as openpgp;

pub use openpgp::Keyring;
pub use ssh::AllowedSigners;
pub use x509::{Authorities, CertifiedSigners};

/// The longest signature of a commit that is read, in bytes: those of RSA with 8192 bits have 3,000.
pub const SIGNATURE_BYTES_MAX: usize = 16 * 1024;
/// The most commits whose signatures are checked before one is accepted: nothing else of the source is read meanwhile.
pub const VERIFIED_COMMITS_MAX: usize = 1_000;
/// How many commits are named that are refused together; the others are counted.
const NAMED_MAX: usize = 20;

/// The keys that count.
#[derive(Debug, Default)]
pub struct Keys {
    /// Those of SSH; `None` where none count.
    pub ssh: Option<AllowedSigners>,
    /// Those of OpenPGP; `None` where none count.
    pub openpgp: Option<Keyring>,
    /// Whose certificates count; `None` where none do.
    pub x509: Option<CertifiedSigners>,
    /// Those of artifacts; `None` where none count.
    pub cosign: Option<CosignKeys>,
}

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
    /// The certificate leads to no authority, or to nobody who is listed.
    #[error("is signed with {0}, {1}")]
    Untrusted(KeyName, String),
    /// The key is listed and does not count, or what it signed is not what counts.
    #[error("is signed with {0}, {1}")]
    NotValid(Signer, String),
    /// The signature is not one of this commit.
    #[error("has a bad signature: what {0} signed is not this commit")]
    Bad(Signer),
}

/// Checks the signature of one commit: `payload` is the commit without its signatures.
///
/// Keys count as of `now`, whatever a commit says of its own time: whoever has an expired key could write an older one.
///
/// # Errors
/// Why the commit is refused.
pub fn check(payload: &[u8], signatures: &[Vec<u8>], keys: &Keys, now: Timestamp) -> Result<Signer, SignatureRefusal> {
    let signature = match signatures {
        [] => return Err(SignatureRefusal::Unsigned),
        [signature] if signature.len() > SIGNATURE_BYTES_MAX => return Err(SignatureRefusal::TooLong(signature.len())),
        [signature] => signature,
        several => return Err(SignatureRefusal::Several(several.len())),
    };
    let (kind, text) = block::read(signature).map_err(|why| SignatureRefusal::Unreadable(why.to_owned()))?;
    let not_named = SignatureRefusal::KindNotNamed(kind);
    match kind {
        SignatureKind::Ssh => ssh::check(payload, text, keys.ssh.as_ref().ok_or(not_named)?, now),
        SignatureKind::OpenPgp => openpgp::check(payload, text, keys.openpgp.as_ref().ok_or(not_named)?, now),
        SignatureKind::X509 => x509::check(payload, text, keys.x509.as_ref().ok_or(not_named)?, now),
    }
}

/// Returns what is wrong with commits that come together: one complaint for each that is refused, and one for those beyond a limit.
/// Without any they may be accepted.
pub fn complaints<'a>(
    checked: impl IntoIterator<Item = (&'a CommitId, Result<Signer, SignatureRefusal>)>,
) -> Vec<InputError> {
    let mut refused = checked.into_iter().filter_map(|(commit, checked)| Some((commit, checked.err()?)));
    let named = refused.by_ref().take(NAMED_MAX).map(|(commit, refusal)| {
        let hint = match refusal {
            SignatureRefusal::Unsigned => {
                "sign it with a key that `source.verify` lists: `git commit --amend -S`, or `git rebase` with `-S`"
            }
            SignatureRefusal::Bad(_) | SignatureRefusal::Several(_) | SignatureRefusal::Unreadable(_) => {
                "find out who made it; then sign it again"
            }
            SignatureRefusal::Unknown(_) | SignatureRefusal::KindNotNamed(_) | SignatureRefusal::Untrusted(..) => {
                "list the key if its signatures shall count, or sign it again"
            }
            SignatureRefusal::NotValid(..) | SignatureRefusal::TooLong(_) | SignatureRefusal::CommitTooLong { .. } => {
                "sign it again"
            }
        };
        about(format!("commit {}", commit.short()), refusal.to_string(), hint)
    });
    let mut complaints: Vec<InputError> = named.collect();
    match refused.count() {
        0 => {}
        more => {
            complaints.push(about(
                ".".to_owned(),
                format!("{more} more commits are refused"),
                "begin with those named",
            ));
        }
    }
    complaints
}

/// Returns the complaint about more commits than are checked at a time.
pub fn too_many() -> InputError {
    let message = format!(
        "more than {VERIFIED_COMMITS_MAX} commits are new, and the signatures of so many are not checked at a time"
    );
    about(
        ".".to_owned(),
        message,
        "push them in parts, or say `commits: Head` in `source.verify` until they are accepted",
    )
}

fn about(path: String, message: String, hint: &str) -> InputError {
    InputError { path, line: 0, object: None, field: None, message, hint: Some(hint.to_owned()) }
}

#[cfg(test)]
mod tests;
