//! Makes HTTP clients for servers that the configuration names, and describes their errors without the address, which may hold a
//! token.

use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder};

/// How long connecting may take, unless a client says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters of foreign words that an error repeats.
const WORDS_MAX: usize = 200;
/// The user agent of our requests; GitHub refuses requests without one.
pub const USER_AGENT: &str = concat!("gitfleet/", env!("CARGO_PKG_VERSION"));

/// Returns the set-up of a client that follows no redirect, so that a secret reaches no other host. `timeout` is for a whole request.
pub fn builder(timeout: Duration) -> ClientBuilder {
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
}

/// Makes a client. `certificates` are those that a server's own is checked against, beside the system's, as PEM.
///
/// # Errors
/// The certificates or the system's TLS settings cannot be used, as text for users.
pub fn build(builder: ClientBuilder, certificates: Option<&[u8]>) -> Result<Client, String> {
    let more = certificates.map_or(Ok(Vec::new()), Certificate::from_pem_bundle).map_err(causes)?;
    builder.tls_certs_merge(more).build().map_err(causes)
}

/// Returns an error with its causes on one line, truncated and without the address.
pub fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    cut(&words)
}

/// Returns foreign words on one line, truncated.
pub fn cut(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect()
}
