//! Whether a key signed something: for ECDSA and RSA aws-lc-rs says so, as for all other signatures. What security keys sign with Ed25519 the
//! library puts together itself, and so verifies.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED,
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use ed25519_dalek::Verifier as _;
use ssh_key::public::{EcdsaPublicKey, KeyData, RsaPublicKey};
use ssh_key::{Algorithm, EcdsaCurve, HashAlg, Signature};

/// The shortest RSA key that counts, in bits. Whole bytes are counted: some programs made keys of 2047 bits.
///
/// Source: NIST SP 800-131A, which disallows shorter ones.
pub(super) const RSA_BITS_MIN: usize = 2048;
/// The longest RSA key whose signatures count, in bits: longer ones never did.
const RSA_BITS_MAX: usize = 4096;

/// Tells whether a key signed a message.
pub(super) fn is_signed(key: &KeyData, message: &[u8], signature: &Signature) -> bool {
    match key {
        KeyData::Ecdsa(key) => is_signed_by_ecdsa(key, message, signature),
        KeyData::Rsa(key) => is_signed_by_rsa(key, message, signature),
        key => key.verify(message, signature).is_ok(),
    }
}

fn is_signed_by_ecdsa(key: &EcdsaPublicKey, message: &[u8], signature: &Signature) -> bool {
    let (algorithm, bytes) = match key.curve() {
        EcdsaCurve::NistP256 => (&ECDSA_P256_SHA256_FIXED, 32),
        EcdsaCurve::NistP384 => (&ECDSA_P384_SHA384_FIXED, 48),
        EcdsaCurve::NistP521 => (&ECDSA_P521_SHA512_FIXED, 66),
    };
    let Some((r, rest)) = number(signature.as_bytes(), bytes) else { return false };
    let Some((s, rest)) = number(rest, bytes) else { return false };
    signature.algorithm() == key.algorithm()
        && rest.is_empty()
        && UnparsedPublicKey::new(algorithm, key.as_sec1_bytes()).verify(message, &[r, s].concat()).is_ok()
}

fn is_signed_by_rsa(key: &RsaPublicKey, message: &[u8], signature: &Signature) -> bool {
    let (Some(n), Some(e)) = (key.n.as_positive_bytes(), key.e.as_positive_bytes()) else { return false };
    // The algorithms that begin at 2,048 bits take no key of 2047.
    let algorithm = match signature.algorithm() {
        Algorithm::Rsa { hash: Some(HashAlg::Sha256) } => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        Algorithm::Rsa { hash: Some(HashAlg::Sha512) } => &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        _ => return false,
    };
    (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&(n.len() * 8))
        && RsaPublicKeyComponents { n, e }.verify(algorithm, message, signature.as_bytes()).is_ok()
}

/// Takes a positive number with its length before it off some bytes; returns it as so many bytes.
fn number(bytes: &[u8], length: usize) -> Option<(Vec<u8>, &[u8])> {
    let (digits, rest) = prefixed(bytes)?;
    let digits = digits.strip_prefix(&[0]).unwrap_or(digits);
    let zeros = vec![0; length.checked_sub(digits.len())?];
    Some(([&zeros, digits].concat(), rest))
}

/// Takes a text with its length before it off some bytes.
pub(super) fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}
