//! Seals what is kept on disk: AES-256-GCM with a key that is derived from the token, which lies elsewhere.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use secrecy::{ExposeSecret as _, SecretString};

use model::encrypted::DigestKey;
use model::text::hexadecimal;

/// The first bytes of a sealed file: the version of its form.
const MAGIC: &[u8] = b"GFS1";
/// What the key of the files is derived for.
const KEY_PURPOSE: &[u8] = b"gitfleet agent state: key";
/// What the names of the files are derived for: the digest of a short secret would tell the secret.
const NAME_PURPOSE: &[u8] = b"gitfleet agent state: names";

/// What the key of digests of plaintext is derived for.
const DIGEST_PURPOSE: &[u8] = b"gitfleet agent state: digests";

/// Returns the key of digests of what members hold in plaintext: the server stores such digests, and must not be able to check guesses.
pub(super) fn digest_key(token: &SecretString) -> DigestKey {
    DigestKey::new(derive(token, DIGEST_PURPOSE).as_ref().try_into().expect("SHA-256 gives the 32 bytes of the key"))
}

/// Seals and opens files.
pub(super) struct Seal {
    key: RandomizedNonceKey,
    names: hmac::Key,
}

impl Seal {
    /// Derives the keys from a token.
    pub(super) fn new(token: &SecretString) -> Self {
        let key = RandomizedNonceKey::new(&AES_256_GCM, derive(token, KEY_PURPOSE).as_ref())
            .expect("SHA-256 gives the 32 bytes of the key");
        Self { key, names: hmac::Key::new(hmac::HMAC_SHA256, derive(token, NAME_PURPOSE).as_ref()) }
    }

    /// Returns the file name of something that a digest names. It reveals nothing of the content.
    pub(super) fn name(&self, digest: &str) -> String {
        hexadecimal(hmac::sign(&self.names, digest.as_bytes()).as_ref())
    }

    /// Seals content under a name; it can be opened under that name alone. `None` where the system gives no random bytes.
    pub(super) fn seal(&self, name: &str, content: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = content.to_vec();
        let nonce = self.key.seal_in_place_append_tag(Aad::from(name.as_bytes()), &mut sealed).ok()?;
        Some([MAGIC, nonce.as_ref(), &sealed].concat())
    }

    /// Opens what was sealed under a name; `None` where it is damaged or sealed with another token.
    pub(super) fn open(&self, name: &str, file: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = file.strip_prefix(MAGIC)?.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let content = self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut sealed).ok()?.len();
        sealed.truncate(content);
        Some(sealed)
    }
}

/// Derives bytes from a secret for a purpose.
fn derive(secret: &SecretString, purpose: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes()), purpose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_and_name_open_what_was_sealed() {
        let seal = |token: &str| Seal::new(&SecretString::from(token.to_owned()));
        let sealed = seal("a").seal("x", b"canary").expect("random bytes");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"canary"));
        assert_eq!(seal("a").open("x", &sealed).as_deref(), Some(&b"canary"[..]));
        assert_eq!(seal("a").open("y", &sealed), None, "another name");
        assert_eq!(seal("b").open("x", &sealed), None, "another token");
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(seal("a").open("x", &damaged), None, "byte {at} is damaged");
            assert_eq!(seal("a").open("x", &sealed[..at]), None, "cut at {at}");
        }
        assert_ne!(seal("a").name("d"), seal("b").name("d"), "names tell nothing of digests");
    }
}
