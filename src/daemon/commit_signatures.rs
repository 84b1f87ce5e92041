//! Checks the signatures of commits and artifacts before one is accepted.

use std::io;
use std::path::Path;

use jiff::Timestamp;

use config::{LoginIdentity, VerifiedCommits, Verify, read_public};
use git::signature;
use git::signature::{
    AllowedSigners, Authorities, CertifiedSigners, CosignKeys, Keyring, Keys, SignatureRefusal, Signer,
    VERIFIED_COMMITS_MAX,
};
use git::{Error, Reader, SIGNED_SIZE_MAX_BYTES, Signed};
use model::artifact::SeenArtifact;
use model::id::CommitId;
use model::manifest::InputError;

/// Reads the files of keys that a configuration names.
///
/// # Errors
/// `Disk`: the file, and why it cannot be read or what is wrong in it.
pub fn read_keys(verify: &Verify) -> Result<Keys, Error> {
    let ssh = verify.ssh.as_ref().map(|ssh| read(&ssh.allowed_signers_file, signers)).transpose()?;
    let openpgp = verify.openpgp.as_ref().map(|openpgp| read(&openpgp.keys_file, Keyring::parse)).transpose()?;
    let cosign = verify.cosign.as_ref().map(|cosign| read(&cosign.keys_file, CosignKeys::parse)).transpose()?;
    Ok(Keys { ssh, openpgp, x509: certified(verify)?, cosign })
}

fn certified(verify: &Verify) -> Result<Option<CertifiedSigners>, Error> {
    if verify.x509.is_none() && verify.keyless.is_none() {
        return Ok(None);
    }
    let mut signers = CertifiedSigners::default();
    if let Some(x509) = &verify.x509 {
        signers.authorities = read(&x509.ca_file, Authorities::parse)?;
        signers.identities.clone_from(&x509.identities);
    }
    if let Some(keyless) = &verify.keyless {
        signers.keyless_authorities = read(&keyless.ca_file, Authorities::parse)?;
        let login = |login: &LoginIdentity| (login.issuer.clone(), login.identity.clone());
        signers.keyless = keyless.identities.iter().map(login).collect();
    }
    Ok(Some(signers))
}

fn signers(content: &[u8]) -> Result<AllowedSigners, Vec<String>> {
    AllowedSigners::parse(std::str::from_utf8(content).map_err(|_| vec!["it is no UTF-8 text".to_owned()])?)
}

fn read<T>(path: &Path, parse: fn(&[u8]) -> Result<T, Vec<String>>) -> Result<T, Error> {
    let wrong = |errors: Vec<String>| io::Error::new(io::ErrorKind::InvalidData, errors.join("; "));
    let parsed = read_public(path).and_then(|content| parse(&content).map_err(wrong));
    parsed.map_err(|source| Error::Disk { path: path.to_owned(), source })
}

/// Returns what is wrong with the signatures of the commits that came since the accepted one; nothing if `tip` may be accepted.
///
/// # Errors
/// A file of keys or a commit cannot be read.
pub fn complaints(
    reader: &Reader,
    verify: &Verify,
    accepted: Option<&CommitId>,
    tip: &CommitId,
    now: Timestamp,
) -> Result<Vec<InputError>, Error> {
    let keys = read_keys(verify)?;
    let since = if verify.commits == VerifiedCommits::All { accepted } else { None };
    let commits = reader.gained(since, tip, VERIFIED_COMMITS_MAX)?;
    if commits.len() > VERIFIED_COMMITS_MAX {
        return Ok(vec![signature::too_many()]);
    }
    let mut checked = Vec::new();
    for commit in &commits {
        checked.push((commit, check(reader, commit, &keys, now)?));
    }
    if let Some((_, Ok(signer))) = checked.iter().find(|(commit, _)| *commit == tip) {
        tracing::info!(%signer, commits = commits.len(), "the tip is signed with a key that counts");
    }
    Ok(signature::complaints(checked))
}

/// Returns what is wrong with the signatures of an artifact; nothing if its commit may be accepted.
///
/// # Errors
/// A file of keys cannot be read.
pub fn complaints_of_artifact(artifact: &SeenArtifact, verify: &Verify) -> Result<Vec<InputError>, Error> {
    let keys = read_keys(verify)?.cosign.unwrap_or_default();
    Ok(match signature::check_artifact(artifact, &keys) {
        Ok(key) => {
            tracing::info!(digest = artifact.digest, key, "the artifact is signed with a key that counts");
            Vec::new()
        }
        Err(refusal) => vec![signature::artifact_complaint(artifact, &refusal)],
    })
}

/// Returns who signed a commit, or why its signature does not count.
///
/// # Errors
/// It cannot be read.
pub fn check(
    reader: &Reader,
    commit: &CommitId,
    keys: &Keys,
    now: Timestamp,
) -> Result<Result<Signer, SignatureRefusal>, Error> {
    Ok(match reader.signed(commit)? {
        Signed::Read { payload, signatures } => signature::check(&payload, &signatures, keys, now),
        Signed::TooLarge(bytes) => Err(SignatureRefusal::CommitTooLong { bytes, max: SIGNED_SIZE_MAX_BYTES }),
    })
}
