//! The command line's client of the daemon: plain HTTP, with the person's token.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use model::commands::{Command, Done, Refusal, WaitingGate};
use model::explanation::{Explained, Query};
use server::{COMMANDS_PATH, EXPLAIN_PATH, PREVIEW_PATH, RECORDS_PATH};
use system::clock;
use views::lists::PAGE_ITEMS_MAX;

/// How long one answer of the daemon may take, long polls excepted.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a daemon may take to say whether it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// Where it says that.
const READY_PATH: &str = "/readyz";
/// How long all records may take: hundreds of megabytes of a large fleet.
const RECORDS_TIMEOUT: Duration = Duration::from_mins(1);
/// How a token is named.
const TOKEN_ADVICE: &str = "name a token with --token-file or GITFLEET_TOKEN, or the daemon's configuration with -c, whose store \
                            holds one for the user that runs the daemon unless people are named under `http.tokens`, as they must be where the \
                            store is PostgreSQL";

/// Difference of two clocks that an answer on its way, and a date in whole seconds, explain.
const CLOCKS_DIFFER_MIN: SignedDuration = SignedDuration::from_secs(3);

/// A running daemon.
pub(crate) struct Server {
    /// Host and port.
    address: String,
    token: Option<SecretString>,
    /// How far its clock was ahead of ours at its last answer.
    clock_ahead: Cell<SignedDuration>,
}

impl Server {
    /// Takes an address, with or without a scheme, and the token to be known by.
    pub(crate) fn new(address: &str, token: Option<SecretString>) -> Self {
        let address = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { address, token, clock_ahead: Cell::new(SignedDuration::ZERO) }
    }

    /// Returns how far its clock was ahead of ours at its last answer: nothing where it was right but for what an answer takes.
    pub(crate) fn clock_ahead(&self) -> SignedDuration {
        self.clock_ahead.get()
    }

    /// Reads the records under some prefixes, and passes each with its key to `take`.
    ///
    /// # Errors
    /// The daemon does not answer, or with no records, or `take` fails.
    pub(crate) fn records(
        &self,
        prefixes: &[String],
        mut take: impl FnMut(&str, &RawValue) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            records: Vec<(Cow<'a, str>, &'a RawValue)>,
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(prefixes.iter().map(|prefix| ("prefix", prefix)));
        let body = self.read(&format!("{RECORDS_PATH}?{}", query.finish()), RECORDS_TIMEOUT)?;
        let answer: Answer = serde_json::from_slice(&body).context("the daemon's answer is not a list of records")?;
        answer.records.into_iter().try_for_each(|(key, record)| take(&key, record))
    }

    /// Reads a listing page by page, to its end. The first page is short, so that a short listing is there at once.
    ///
    /// # Errors
    /// As [`Server::ask`].
    pub(crate) fn pages(&self, path: &str, name: Option<&str>) -> anyhow::Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(name.iter().map(|name| ("name", name)));
            if let Some(after) = &after {
                query.append_pair("limit", &PAGE_ITEMS_MAX.to_string()).append_pair("continue", after);
            }
            let mut answer = self.ask(&format!("{path}?{}", query.finish()), ANSWER_TIMEOUT)?;
            let Value::Array(page) = answer["items"].take() else { bail!("the daemon's answer is no listing") };
            items.extend(page);
            match answer["continue"].take() {
                Value::String(next) => after = Some(next),
                _ => return Ok(items),
            }
        }
    }

    /// Asks for a path, and takes every answer but success for an error.
    ///
    /// # Errors
    /// The daemon does not answer so, or not with JSON.
    pub(crate) fn ask(&self, path: &str, timeout: Duration) -> anyhow::Result<Value> {
        let body = self.read(path, timeout)?;
        serde_json::from_slice(&body)
            .with_context(|| format!("the answer of the daemon at {} is not JSON", self.address))
    }

    /// Asks for something that may not exist; returns `None` then.
    ///
    /// # Errors
    /// As [`Server::ask`].
    pub(crate) fn ask_for(&self, path: &str, timeout: Duration) -> anyhow::Result<Option<Value>> {
        let (status, body) = self.send(http::Request::get(self.uri(path)?), Bytes::new(), timeout)?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let body = self.accepted(status, body)?;
        let value = serde_json::from_slice(&body);
        Ok(Some(value.with_context(|| format!("the answer of the daemon at {} is not JSON", self.address))?))
    }

    fn read(&self, path: &str, timeout: Duration) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(http::Request::get(self.uri(path)?), Bytes::new(), timeout)?;
        self.accepted(status, body)
    }

    /// Returns the body of a successful answer.
    fn accepted(&self, status: StatusCode, body: Bytes) -> anyhow::Result<Bytes> {
        let address = &self.address;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let text = if self.token.is_some() { "it does not know the token; " } else { "reading needs a token; " };
            bail!("asking the daemon at {address}: it answered {status}: {text}{TOKEN_ADVICE}");
        }
        if status == StatusCode::NOT_FOUND && !body.is_empty() {
            bail!("{}", String::from_utf8_lossy(&body));
        }
        anyhow::ensure!(
            status.is_success(),
            "asking the daemon at {address}: it answered {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    /// Tells whether one of several daemons on a database answers there.
    pub(crate) fn is_replica(&self) -> bool {
        let asked =
            self.uri(READY_PATH).and_then(|uri| self.send(http::Request::get(uri), Bytes::new(), READY_TIMEOUT));
        let text = asked.map(|(_, body)| String::from_utf8_lossy(&body).into_owned()).unwrap_or_default();
        ["follows ", "leads "].iter().any(|word| text.starts_with(word))
    }

    /// Tells the daemon to do something; returns what came of it, or why it refused.
    ///
    /// # Errors
    /// The daemon does not answer, does not know the token, or does not understand.
    pub(crate) fn execute(&self, command: &Command) -> anyhow::Result<Result<Done, Refusal>> {
        self.post(COMMANDS_PATH, command)
    }

    /// Asks what an approval would open, or why it would be refused.
    ///
    /// # Errors
    /// As [`Server::tell`]; a daemon of an earlier version does not know the question.
    pub(crate) fn preview(&self, command: &Command) -> anyhow::Result<Result<WaitingGate, Refusal>> {
        self.post(PREVIEW_PATH, command)
    }

    fn post<T: DeserializeOwned>(&self, path: &str, command: &Command) -> anyhow::Result<Result<T, Refusal>> {
        anyhow::ensure!(
            self.token.is_some(),
            "a command needs a token, and there is none for this user: {TOKEN_ADVICE}"
        );
        let request = http::Request::post(self.uri(path)?).header(CONTENT_TYPE, "application/json");
        let sent = self.send(request, serde_json::to_vec(command)?.into(), ANSWER_TIMEOUT);
        let (status, body) = if path == COMMANDS_PATH {
            sent.map_err(|error| {
                let outcome = outcome_unknown(&error);
                error.context(outcome)
            })?
        } else {
            sent?
        };
        if status.is_success() {
            return Ok(Ok(serde_json::from_slice(&body).context("the daemon's answer is not understood")?));
        }
        // Before the status: a refusal is an answer of the core. Anything else is the server's word, or a proxy's.
        if let Ok(refusal) = serde_json::from_slice::<Refusal>(&body) {
            return Ok(Err(refusal));
        }
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = said["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
        bail!("the daemon at {} answered {status}: {text}", self.address)
    }

    /// Asks the daemon why a placement has the clusters it has.
    ///
    /// # Errors
    /// The daemon does not answer, or knows no such placement.
    pub(crate) fn explain(&self, query: &Query) -> anyhow::Result<Explained> {
        let mut parameters = form_urlencoded::Serializer::new(String::new());
        parameters.append_pair("placement", &query.placement);
        if let Some(kind) = &query.kind {
            parameters.append_pair("kind", kind);
        }
        let answer = self.ask(&format!("{EXPLAIN_PATH}?{}", parameters.finish()), ANSWER_TIMEOUT)?;
        serde_json::from_value(answer).context("the daemon's answer is no explanation")
    }

    fn uri(&self, path: &str) -> anyhow::Result<http::Uri> {
        let address = &self.address;
        format!("http://{address}{path}").parse().with_context(|| format!("{address} is no address"))
    }

    /// Sends a request. Plain HTTP: whoever exposes the daemon puts a proxy with TLS in front.
    fn send(
        &self,
        request: http::request::Builder,
        body: Bytes,
        timeout: Duration,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let request = match &self.token {
            None => request,
            Some(token) => {
                let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
                    .map_err(|_| anyhow::anyhow!("the token has characters that no token has"))?;
                // So no debug output of the request shows it.
                bearer.set_sensitive(true);
                request.header(AUTHORIZATION, bearer)
            }
        };
        let request = request.body(http_body_util::Full::new(body))?;
        let question = async {
            let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
            let answer = client.request(request).await?;
            let status = answer.status();
            self.clock_ahead.set(clock_ahead(answer.headers(), clock::now()));
            anyhow::Ok((status, http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes()))
        };
        let asked = runtime.block_on(async { tokio::time::timeout(timeout, question).await });
        asked.map_err(|_| anyhow::anyhow!("no answer within {} s", timeout.as_secs())).flatten().with_context(|| {
            let address = &self.address;
            format!("asking the daemon at {address} (is `gitfleet run` running there? name its configuration with -c, or its address with --server)")
        })
    }
}

/// Says what became of a command whose answer did not come.
fn outcome_unknown(error: &anyhow::Error) -> &'static str {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<hyper_util::client::legacy::Error>());
    if causes.any(hyper_util::client::legacy::Error::is_connect) {
        "the command was not executed"
    } else {
        "whether the command was executed is not known; look with `gitfleet status` before you give it again"
    }
}

/// Returns how far the clock of whoever answered at `now` is ahead, by the date of the answer.
fn clock_ahead(headers: &HeaderMap, now: Timestamp) -> SignedDuration {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp());
    let ahead = date.map_or(SignedDuration::ZERO, |date| date.duration_since(now));
    if ahead.abs() < CLOCKS_DIFFER_MIN { SignedDuration::ZERO } else { ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_tells_how_far_a_clock_is_ahead() {
        let now: Timestamp = "2026-03-01T12:00:00.9Z".parse().expect("a moment");
        let rows = [
            (Some("Sun, 01 Mar 2026 12:00:00 GMT"), 0),
            (Some("Sun, 01 Mar 2026 12:00:02 GMT"), 0),
            (Some("Sun, 01 Mar 2026 13:00:00 GMT"), 3599),
            (Some("Sun, 01 Mar 2026 11:00:00 GMT"), -3600),
            (Some("yesterday"), 0),
            (None, 0),
        ];
        for (date, seconds) in rows {
            let header = date.map(|date| (DATE, HeaderValue::from_static(date)));
            let headers: HeaderMap = header.into_iter().collect();
            assert_eq!(clock_ahead(&headers, now).as_secs(), seconds, "{date:?}");
        }
    }
}
