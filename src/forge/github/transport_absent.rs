//! In the place of the transport, in a program that was built without GitHub: it says so, and how to get one with it.

use async_trait::async_trait;
use secrecy::SecretString;

use crate::client::{Call, RestAnswer, Wire};
use crate::{Error, Result, Settings};

/// The way to GitHub, which this program has not.
pub(crate) enum Crab {}

impl Crab {
    /// Refuses.
    pub(crate) fn with_token(_base: &str, _token: &SecretString) -> Result<Self> {
        Err(absent())
    }

    /// Refuses.
    pub(crate) fn with_app(_base: &str, _id: u64, _pem: &SecretString, _repository: String) -> Result<Self> {
        Err(absent())
    }
}

#[async_trait]
impl Wire for Crab {
    async fn send(&self, _call: Call<'_>) -> Result<RestAnswer> {
        match *self {}
    }
}

/// Tokens of a GitHub App, which this program cannot get.
pub enum InstallationTokens {}

impl InstallationTokens {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this program was built without GitHub.
    pub fn new(_settings: &Settings) -> Result<Self> {
        Err(absent())
    }

    /// Returns a token; there is no value to call it on.
    ///
    /// # Errors
    /// None.
    ///
    /// # Cancel safety
    /// There is nothing to drop.
    #[expect(clippy::unused_async, reason = "the transport's own waits for the host")]
    pub async fn token(&self) -> Result<SecretString> {
        match *self {}
    }
}

fn absent() -> Error {
    let why = "this gitfleet was built without GitHub; use a released one, or build it with `--features github`";
    Error::Refused { what: "connect to GitHub".to_owned(), why: why.to_owned() }
}
