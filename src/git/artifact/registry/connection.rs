//! How registries are connected to.

use std::time::Duration;

use reqwest::blocking::{Client, ClientBuilder};
use reqwest::redirect::Policy;

use crate::error::Secrets;
use crate::{Cause, Error, SourceSpec};

/// How long connecting may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// How long a registry may send nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Redirects that are followed: registries keep layers elsewhere.
const REDIRECTS_MAX: usize = 5;

/// Returns the set-up of the client. It follows redirects; to another host it goes without credentials, which reqwest takes off.
pub(super) fn builder() -> ClientBuilder {
    let redirects = Policy::custom(|attempt| {
        let is_from_https = attempt.previous().last().is_some_and(|from| from.scheme() == "https");
        if attempt.previous().len() > REDIRECTS_MAX {
            attempt.error("too many redirects")
        } else if is_from_https && attempt.url().scheme() != "https" {
            attempt.error("a redirect from https to http is not followed")
        } else {
            attempt.follow()
        }
    });
    Client::builder()
        .user_agent(concat!("gitfleet/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIME_MAX)
        .timeout(SILENCE_MAX)
        .redirect(redirects)
}

/// Describes why there is no answer. Neither address nor credentials are in it.
pub(super) fn failed(spec: &SourceSpec, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let mut texts = vec![error.to_string()];
    let mut next = std::error::Error::source(&error);
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    let text = texts.join(": ");
    let location = spec.location.clone();
    let cause = Cause::text(&text, &Secrets::new(spec.token.clone()));
    if text.contains("invalid peer certificate") {
        let reason =
            "its certificate does not count. If it comes from an authority of your own, name that as `source.caFile`";
        return Error::Untrusted { location, reason: reason.to_owned(), cause };
    }
    Error::Unreachable { location, cause }
}
