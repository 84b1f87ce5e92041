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
mod signer;
mod ssh;
mod x509;

use jiff::Timestamp;

use crate::signature::signer::about;
use model::id::CommitId;
use model::manifest::InputError;

pub use cosign::{ArtifactRefusal, CosignKeys, artifact_complaint, check_artifact};
#[cfg(not(feature = "openpgp"))]
use openpgp_absent as openpgp;

pub use openpgp::Keyring;
pub use signer::{KeyName, SIGNATURE_BYTES_MAX, SignatureKind, SignatureRefusal, Signer};
pub use ssh::AllowedSigners;
pub use x509::{Authorities, CertifiedSigners};
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

#[cfg(test)]
mod tests;
