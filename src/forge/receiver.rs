//! Sends a notification to a receiver over HTTP, signed.
//!
//! One request, no retry: callers send again when it is time. A redirect is not followed, and what the receiver says is not read.
//! The address may itself be a secret, so no text here holds it.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header;
use secrecy::{ExposeSecret as _, SecretString};

use crate::http_client;
use crate::http_client::causes;

/// How long a receiver may take to answer.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);
/// Shortest key in bytes.
///
/// Source: Standard Webhooks, "Signature scheme".
pub const KEY_BYTES_MIN: usize = 24;
/// What a key in base64 begins with; any other secret is the key itself.
const BASE64_PREFIX: &str = "whsec_";

/// Why a notification did not arrive, or may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client cannot be made.
    #[error("{0}")]
    Setup(String),
    /// The secret cannot sign.
    #[error("the secret {0}")]
    Secret(&'static str),
    /// There is no answer.
    #[error("the receiver does not answer: {0}")]
    Unreachable(String),
    /// The answer took too long.
    #[error("the receiver does not answer within {} s", ANSWER_TIME_MAX.as_secs())]
    TimedOut,
    /// The receiver says no.
    #[error("the receiver answers {status}")]
    Refused {
        /// The status code.
        status: u16,
        /// How long it asks to wait.
        wait: Option<Duration>,
    },
    /// The receiver is somewhere else.
    #[error("the receiver redirects elsewhere; change its address in the configuration")]
    Moved,
}

/// A key that bodies are signed with.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl SigningKey {
    /// Makes a key from a secret: what follows `whsec_` in base64, else the secret's bytes.
    ///
    /// # Errors
    /// The secret is no base64, or too short.
    pub fn new(secret: &SecretString) -> Result<Self, Error> {
        let secret = secret.expose_secret();
        let decoded = secret.strip_prefix(BASE64_PREFIX).map(|text| STANDARD.decode(text));
        let key = match decoded {
            Some(Ok(key)) => key,
            Some(Err(_)) => return Err(Error::Secret("is not base64 after whsec_")),
            None => secret.as_bytes().to_vec(),
        };
        if key.len() < KEY_BYTES_MIN {
            return Err(Error::Secret("is shorter than 24 bytes"));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// Returns the value of the header `webhook-signature`. `timestamp` is in seconds since 1970.
    ///
    /// Source: Standard Webhooks, "Signature scheme".
    pub fn signature(&self, id: &str, timestamp: i64, body: &str) -> String {
        let mac = hmac::sign(&self.0, format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac))
    }
}

/// One try to tell a receiver something.
#[derive(Clone, Copy, Debug)]
pub struct WebhookMessage<'a> {
    /// Names what is told: the same at each try.
    pub id: &'a str,
    /// The time of this try, in seconds since 1970.
    pub timestamp: i64,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: &'a str,
}

/// A connection to one receiver.
#[derive(Clone)]
pub struct Receiver {
    http: reqwest::Client,
    url: SecretString,
}

impl Receiver {
    /// Prepares requests to a receiver. `certificates` are those its own is checked against, beside the system's, as PEM.
    ///
    /// # Errors
    /// The address or the certificates cannot be used.
    pub fn new(url: SecretString, certificates: Option<&[u8]>) -> Result<Self, Error> {
        if reqwest::Url::parse(url.expose_secret()).is_err() {
            return Err(Error::Setup("the address is no URL".to_owned()));
        }
        let http = http_client::build(http_client::builder(ANSWER_TIME_MAX), certificates).map_err(Error::Setup)?;
        Ok(Self { http, url })
    }

    /// Tells the receiver something once.
    ///
    /// # Errors
    /// It did not say that it took it. It may have taken it all the same.
    ///
    /// # Cancel safety
    /// The receiver may have taken it: it is told again with the same id.
    pub async fn tell(&self, message: WebhookMessage<'_>, key: Option<&SigningKey>) -> Result<(), Error> {
        let WebhookMessage { id, timestamp, content_type, body } = message;
        let mut request = self.http.post(self.url.expose_secret()).header(header::CONTENT_TYPE, content_type);
        request = request.header("webhook-id", id).header("webhook-timestamp", timestamp);
        if let Some(key) = key {
            request = request.header("webhook-signature", key.signature(id, timestamp, body));
        }
        let answer = request.body(body.to_owned()).send().await.map_err(lost)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        if status.is_redirection() {
            return Err(Error::Moved);
        }
        let wait = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Err(Error::Refused { status: status.as_u16(), wait: wait.map(Duration::from_secs) })
    }
}

fn lost(error: reqwest::Error) -> Error {
    if error.is_timeout() { Error::TimedOut } else { Error::Unreachable(causes(error)) }
}

#[cfg(test)]
mod tests;
