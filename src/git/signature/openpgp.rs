//! Signatures of OpenPGP keys, and the keys that count, as gpg exports them.

use std::io::Cursor;

use jiff::{SignedDuration, Timestamp};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{Fingerprint, KeyDetails as _, KeyId};
use rpgpie::certificate::{Certificate, Checked};
use rpgpie::key::ComponentKeyPub;
use rpgpie::signature::signature_acceptable;

use super::{KeyName, SignatureKind, SignatureRefusal, Signer};
use model::text::hexadecimal;

/// How an armoured key begins and ends.
const KEY_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const KEY_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// The hashes that a signature of a commit may use: of others somebody may find a second commit with the same one.
const HASHES: [HashAlgorithm; 5] = [
    HashAlgorithm::Sha256,
    HashAlgorithm::Sha384,
    HashAlgorithm::Sha512,
    HashAlgorithm::Sha3_256,
    HashAlgorithm::Sha3_512,
];
/// How far ahead of our clock a signature may be: clocks differ.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(5);

/// Who may sign, by their OpenPGP keys.
#[derive(Debug)]
pub struct Keyring {
    keys: Vec<ListedKey>,
}

/// One key with its subkeys.
#[derive(Debug)]
struct ListedKey {
    certificate: Checked,
    /// The fingerprints and ids of the key and its subkeys, also of those that do not count.
    names: Vec<(Fingerprint, KeyId)>,
    /// Its owner revoked it. The library reads a revocation together with newer signatures of the key itself, which whoever stole it
    /// can make: here any revocation is the last word.
    is_revoked: bool,
}

impl Keyring {
    /// Reads public keys: blocks of text one after the other, or keys in binary.
    ///
    /// # Errors
    /// What is wrong with which of the blocks.
    pub fn parse(content: &[u8]) -> Result<Self, Vec<String>> {
        let text = std::str::from_utf8(content).ok().filter(|text| text.contains("-----BEGIN"));
        let blocks = match text {
            Some(text) => blocks(text)?,
            None => vec![content],
        };
        let mut keys = Vec::new();
        let mut errors = Vec::new();
        for (number, block) in blocks.into_iter().enumerate() {
            match Certificate::load(&mut Cursor::new(block)) {
                Ok(found) => keys.extend(found.into_iter().map(ListedKey::of)),
                Err(error) => errors.push(format!("key {}: cannot be read: {error}", number + 1)),
            }
        }
        if errors.is_empty() { Ok(Self { keys }) } else { Err(errors) }
    }

    /// Returns how many keys it has, subkeys not counted.
    pub fn count(&self) -> usize {
        self.keys.len()
    }
}

/// Splits a text into its blocks. What stands between them is a comment.
fn blocks(text: &str) -> Result<Vec<&[u8]>, Vec<String>> {
    let mut blocks = Vec::new();
    if text.contains("-----BEGIN PGP PRIVATE KEY BLOCK-----") {
        return Err(vec!["it holds a private key: export public ones alone, with `gpg --export --armor`".to_owned()]);
    }
    for part in text.split(KEY_BEGIN).skip(1) {
        let number = blocks.len() + 1;
        let Some(length) = part.find(KEY_END) else { return Err(vec![format!("key {number}: its end is missing")]) };
        let begin = part.as_ptr() as usize - text.as_ptr() as usize - KEY_BEGIN.len();
        blocks.push(&text.as_bytes()[begin..begin + KEY_BEGIN.len() + length + KEY_END.len()]);
    }
    if blocks.is_empty() { Err(vec!["it holds no public key".to_owned()]) } else { Ok(blocks) }
}

impl ListedKey {
    fn of(certificate: Certificate) -> Self {
        let whole = pgp::composed::SignedPublicKey::from(certificate.clone());
        let subkeys = whole.public_subkeys.iter().map(|subkey| (subkey.key.fingerprint(), subkey.key.legacy_key_id()));
        let names =
            std::iter::once((whole.primary_key.fingerprint(), whole.primary_key.legacy_key_id())).chain(subkeys);
        let names = names.collect();
        let is_revoked = whole.details.revocation_signatures.iter().any(|s| s.verify_key(&whole.primary_key).is_ok());
        Self { certificate: Checked::from(certificate), names, is_revoked }
    }

    /// Tells whether a signature says that it was made by one of its keys.
    fn is_named_by(&self, signature: &Signature) -> bool {
        self.names.iter().any(|(fingerprint, id)| names(signature, fingerprint, *id))
    }

    /// Returns the key that made a signature, if it may sign at this time.
    fn verifier(&self, signature: &Signature, now: pgp::types::Timestamp) -> Option<ComponentKeyPub> {
        let may_sign = self.certificate.valid_signing_capable_component_keys_at(now);
        let mut keys = may_sign.iter().map(rpgpie::certificate::SignatureVerifier::as_componentkey);
        keys.find(|key| names(signature, &key.fingerprint(), key.legacy_key_id())).cloned()
    }

    fn owner(&self) -> String {
        let name = self.certificate.user_ids().first().map(|user| String::from_utf8_lossy(user.id.id()).into_owned());
        name.unwrap_or_else(|| "nobody named".to_owned())
    }
}

/// Tells whether a signature names a key. A fingerprint, where it has one, is more than an id, which many keys may have.
fn names(signature: &Signature, fingerprint: &Fingerprint, id: KeyId) -> bool {
    let fingerprints = signature.issuer_fingerprint();
    if fingerprints.is_empty() { signature.issuer_key_id().contains(&&id) } else { fingerprints.contains(&fingerprint) }
}

/// Checks a signature; see [`super::check`].
pub(super) fn check(payload: &[u8], text: &str, keyring: &Keyring, now: Timestamp) -> Result<Signer, SignatureRefusal> {
    let signatures = rpgpie::signature::load(&mut Cursor::new(text))
        .map_err(|error| SignatureRefusal::Unreadable(error.to_string()))?;
    let signature = match &signatures[..] {
        [signature] => signature,
        [] => return Err(SignatureRefusal::Unreadable("it holds none".to_owned())),
        several => return Err(SignatureRefusal::Several(several.len())),
    };
    let Some(fingerprint) = issuer(signature) else {
        return Err(SignatureRefusal::Unreadable("it does not say which key made it".to_owned()));
    };
    let name = KeyName { kind: SignatureKind::OpenPgp, fingerprint };
    // A file may have copies of a key of several times.
    let copies: Vec<&ListedKey> = keyring.keys.iter().filter(|key| key.is_named_by(signature)).collect();
    let Some(owner) = copies.first().map(|key| key.owner()) else { return Err(SignatureRefusal::Unknown(name)) };
    let signer = Signer { key: name, name: owner };
    if copies.iter().any(|key| key.is_revoked) {
        return Err(SignatureRefusal::NotValid(signer, "which is revoked".to_owned()));
    }
    let Ok(second) = u32::try_from(now.as_second()) else {
        return Err(SignatureRefusal::NotValid(signer, "and the clock is wrong".to_owned()));
    };
    let at = pgp::types::Timestamp::from_secs(second);
    let Some(verifier) = copies.iter().find_map(|key| key.verifier(signature, at)) else {
        let why = "which is expired, revoked, too weak, or may not sign".to_owned();
        return Err(SignatureRefusal::NotValid(signer, why));
    };
    if let Some(why) = objection(signature, &verifier, now) {
        return Err(SignatureRefusal::NotValid(signer, why));
    }
    // Last, so that a message says what else is wrong with a good signature.
    if signature.verify(&verifier, payload).is_err() {
        return Err(SignatureRefusal::Bad(signer));
    }
    Ok(signer)
}

/// Returns what names the key that made a signature, by its own word.
fn issuer(signature: &Signature) -> Option<String> {
    let fingerprint = signature.issuer_fingerprint().first().map(|fingerprint| hex(fingerprint.as_bytes()));
    fingerprint.or_else(|| signature.issuer_key_id().first().map(|id| hex(id.as_ref())))
}

fn hex(bytes: &[u8]) -> String {
    hexadecimal(bytes).to_uppercase()
}

fn seconds(at: pgp::types::Timestamp) -> i64 {
    i64::from(at.as_secs())
}

/// Returns why a signature does not count although its key does.
fn objection(signature: &Signature, key: &ComponentKeyPub, now: Timestamp) -> Option<String> {
    let hash = signature.hash_alg().filter(|hash| !HASHES.contains(hash));
    if let Some(hash) = hash {
        return Some(format!("by the hash {hash}, which is too weak"));
    }
    if signature.typ() != Some(SignatureType::Binary) || !signature_acceptable(signature) {
        return Some("in a way that is not the one of commits".to_owned());
    }
    let Some(created) = signature.created().map(seconds) else { return Some("without a time".to_owned()) };
    if created < seconds(key.created_at()) {
        return Some("before that key was made".to_owned());
    }
    if created > (now + AHEAD_MAX).as_second() {
        return Some(format!("at a time that is ahead of this clock, {now:.0}"));
    }
    let valid_for = signature.signature_expiration_time().map(|time| i64::from(time.as_secs()));
    let is_over = valid_for.is_some_and(|valid_for| valid_for > 0 && created + valid_for < now.as_second());
    is_over.then(|| "and the signature is expired".to_owned())
}
