//! Asks a Prometheus server, or one that answers as it does, for one number.
//!
//! One request, no retry: callers ask again when it is time. What the server says is bounded, and a redirect is not followed, so
//! that a token reaches no other host.

use std::time::Duration;

use reqwest::{StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;

use crate::http_client;
use crate::http_client::{causes, cut};

/// Largest answer in bytes; one number takes some hundred.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why there is no number. The texts hold neither address nor token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The client cannot be made.
    #[error("{0}")]
    Setup(String),
    /// There is no answer.
    #[error("the server does not answer: {0}")]
    Unreachable(String),
    /// The answer took too long.
    #[error("the server does not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server says no.
    #[error("the server answers {status}{}", if words.is_empty() { String::new() } else { format!(": {words}") })]
    Refused {
        /// The status code.
        status: u16,
        /// What it says.
        words: String,
    },
    /// The server is somewhere else.
    #[error("the server redirects elsewhere; change its address in the configuration")]
    Moved,
    /// The answer is too large.
    #[error("the answer is larger than {} KiB", ANSWER_BYTES_MAX >> 10)]
    TooLarge,
    /// It is no answer of a Prometheus server.
    #[error("the answer is not that of a Prometheus server")]
    NotUnderstood,
    /// There is no sample.
    #[error("no data")]
    NoData,
    /// There are several series.
    #[error("the query has {0} results, and must have one")]
    SeveralSeries(usize),
    /// The result is no number.
    #[error("the result is {0}, which is no number")]
    NotANumber(String),
}

/// A connection to one server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    /// The address of its query API.
    url: String,
    timeout: Duration,
}

#[derive(Deserialize)]
struct QueryAnswer {
    status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    type_: String,
    result: Value,
}

#[derive(Deserialize)]
struct Series {
    /// A time and a number as text; histograms have none.
    #[serde(default)]
    value: Option<(f64, String)>,
}

impl Client {
    /// Prepares requests to a server. `certificates` are those its own is checked against, beside the system's, as PEM.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn new(url: &str, certificates: Option<&[u8]>, timeout: Duration) -> Result<Self, Error> {
        let builder = http_client::builder(timeout).no_proxy();
        let http = http_client::build(builder, certificates).map_err(Error::Setup)?;
        Ok(Self { http, url: format!("{}/api/v1/query", url.trim_end_matches('/')), timeout })
    }

    /// Asks a query once and returns its number, which is finite.
    ///
    /// # Errors
    /// Why there is none.
    ///
    /// # Cancel safety
    /// May be dropped at any point: only the answer is lost.
    pub async fn number(&self, query: &str, token: Option<&SecretString>) -> Result<f64, Error> {
        let timeout = format!("{}ms", self.timeout.as_millis());
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .append_pair("timeout", &timeout)
            .finish();
        let mut request = self.http.post(&self.url).header(header::ACCEPT, "application/json");
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        if let Some(token) = token {
            request = request.bearer_auth(token.expose_secret());
        }
        let mut answer = request.send().await.map_err(|error| self.lost(error))?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(Error::Moved);
        }
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| self.lost(error))? {
            // Counted as it comes: a length that is announced may be absent or wrong.
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(Error::TooLarge);
            }
            body.extend_from_slice(&part);
        }
        number(status, &body)
    }

    fn lost(&self, error: reqwest::Error) -> Error {
        if error.is_timeout() { Error::TimedOut(self.timeout) } else { Error::Unreachable(causes(error)) }
    }
}

/// Reads the number of an answer.
///
/// Source: Prometheus, HTTP API, instant queries.
fn number(status: StatusCode, body: &[u8]) -> Result<f64, Error> {
    let answer = serde_json::from_slice::<QueryAnswer>(body);
    let data = match answer {
        Ok(QueryAnswer { status: said, data: Some(data), .. }) if status.is_success() && said == "success" => data,
        Ok(QueryAnswer { error: Some(words), .. }) => {
            return Err(Error::Refused { status: status.as_u16(), words: cut(&words) });
        }
        _ if status.is_success() => return Err(Error::NotUnderstood),
        _ => return Err(Error::Refused { status: status.as_u16(), words: String::new() }),
    };
    let text = match data.type_.as_str() {
        "scalar" => serde_json::from_value::<(f64, String)>(data.result).map_err(|_| Error::NotUnderstood)?.1,
        "vector" => {
            let mut series: Vec<Series> = serde_json::from_value(data.result).map_err(|_| Error::NotUnderstood)?;
            match (series.pop(), series.len()) {
                (None, _) => return Err(Error::NoData),
                (Some(one), 0) => one.value.ok_or_else(|| Error::NotANumber("a histogram".to_owned()))?.1,
                (Some(_), more) => return Err(Error::SeveralSeries(more + 1)),
            }
        }
        other => return Err(Error::NotANumber(format!("a {}", cut(other)))),
    };
    // Prometheus writes NaN and Inf where a division has no result.
    text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(|| Error::NotANumber(cut(&text)))
}

#[cfg(test)]
mod tests;
