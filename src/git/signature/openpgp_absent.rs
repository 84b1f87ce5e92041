//! In the place of OpenPGP, in a program that was built without it: keys cannot be read, so no signature is ever accepted by mistake.

use jiff::Timestamp;

use super::{SignatureRefusal, Signer};

/// The keys of OpenPGP, which this program cannot read.
#[derive(Debug)]
pub enum Keyring {}

impl Keyring {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this program was built without OpenPGP.
    pub fn parse(_content: &[u8]) -> Result<Self, Vec<String>> {
        let why = "this gitfleet was built without OpenPGP; use a released one, or build it with `--features openpgp`";
        Err(vec![why.to_owned()])
    }

    /// Returns how many keys it has; there is no value to call it on.
    pub fn count(&self) -> usize {
        match *self {}
    }
}

/// Checks a signature; there are no keys to check it with.
pub(super) fn check(_: &[u8], _: &str, keyring: &Keyring, _: Timestamp) -> Result<Signer, SignatureRefusal> {
    match *keyring {}
}
