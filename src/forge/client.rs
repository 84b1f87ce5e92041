//! The shared client of both hosts: one try per call, a limit for every answer, and the meaning of each status.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Called, Error, Kind, Meter, Result};

/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a host may be silent, and how long a whole call may take.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest answer in bytes: Gitea answers a conversation's comments all at once.
pub(super) const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Redirects that a read follows: a renamed repository is one.
const REDIRECTS_MAX: usize = 3;
/// Pages of a list that are read; of at least 30 entries.
const PAGES_MAX: u32 = 100;
/// Characters of a host's words that an error repeats.
const WORDS_MAX: usize = 300;
/// The pause if a host limits us without a duration.
///
/// Source: GitHub, "Best practices for using the REST API".
const WAIT_UNSAID: Duration = Duration::from_mins(1);

/// Pages of lists that are cached for conditional requests: those of the polled pull requests and conversations.
const KEPT_MAX: usize = 64;
/// Largest page that is kept, in bytes; a hundred comments of people are far below it.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub(super) struct RestAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What a path follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum At {
    /// The base of the API.
    #[default]
    Api,
    /// The address that people open; asked without the token, which pages do not take.
    Site,
    /// The address for GraphQL: GitHub only. The path is empty.
    GraphQl,
}

/// One request.
pub(super) struct Call<'a> {
    /// What it is for, for errors.
    pub what: &'a str,
    pub method: Method,
    pub at: At,
    /// Follows what `at` says.
    pub path: &'a str,
    pub body: Option<Vec<u8>>,
    /// The tag of the answer that we have: the host answers 304 where it would be the same.
    pub known: Option<String>,
}

/// Sends one request once. Follows no redirect.
#[async_trait]
pub(super) trait Wire: Send + Sync {
    /// # Errors
    /// There is no answer. [`Error::Unreachable`] for whatever happened on the way.
    async fn send(&self, call: Call<'_>) -> Result<RestAnswer>;
}

/// Pages of lists as they were last, by path, with their tags. A 304 is not counted against GitHub's limits.
///
/// Source: GitHub, "Best practices for using the REST API", conditional requests.
#[derive(Default)]
struct CachedAnswers {
    pages: BTreeMap<String, (String, RestAnswer)>,
    /// Paths, the oldest first.
    order: VecDeque<String>,
}

impl CachedAnswers {
    fn tag(&self, path: &str) -> Option<String> {
        self.pages.get(path).map(|(tag, _)| tag.clone())
    }

    fn page(&self, path: &str) -> Option<RestAnswer> {
        self.pages.get(path).map(|(_, answer)| answer.clone())
    }

    fn keep(&mut self, path: &str, answer: &RestAnswer) {
        if answer.status != StatusCode::OK || answer.body.len() > KEPT_BYTES_MAX {
            return;
        }
        let Some(tag) = answer.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()) else { return };
        if self.pages.insert(path.to_owned(), (tag.to_owned(), answer.clone())).is_none() {
            self.order.push_back(path.to_owned());
        }
        if self.order.len() > KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.pages.remove(&oldest);
        }
    }
}

/// A host's API.
pub(super) struct Client {
    /// Replaced where another token is used. A call that is under way ends with the one it began with.
    wire: Mutex<Arc<dyn Wire>>,
    kind: Kind,
    /// The base of the API, without a slash at its end.
    base: String,
    meter: Option<Meter>,
    kept: Mutex<CachedAnswers>,
}

impl Client {
    pub(crate) fn new(wire: Arc<dyn Wire>, kind: Kind, base: String, meter: Option<Meter>) -> Self {
        Self { wire: Mutex::new(wire), kind, base, meter, kept: Mutex::default() }
    }

    /// Returns the base of the API.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends by another way from the next call on.
    pub(crate) fn replace_wire(&self, wire: Arc<dyn Wire>) {
        *self.wire.lock().unwrap_or_else(PoisonError::into_inner) = wire;
    }

    /// Sends, once, and reports to the meter.
    async fn send(&self, call: Call<'_>) -> Result<RestAnswer> {
        let method = call.method.clone();
        let what = call.what;
        let wire = Arc::clone(&self.wire.lock().unwrap_or_else(PoisonError::into_inner));
        let answer = wire.send(call).await;
        let status = answer.as_ref().map_or(0, |answer| answer.status.as_u16());
        tracing::debug!(%method, status, what, "asked the git host");
        if let Some(meter) = &self.meter {
            meter(&method, called(answer.as_ref().ok()));
        }
        answer
    }

    /// Reads, and follows a redirect inside the API.
    pub(crate) async fn read(&self, what: &str, path: &str) -> Result<RestAnswer> {
        self.follow(what, path, None).await
    }

    /// Reads a page of a list; one that did not change since it was read last is not sent again. Gitea has no tags.
    async fn read_page(&self, what: &str, path: &str) -> Result<RestAnswer> {
        let known = self.kept.lock().unwrap_or_else(PoisonError::into_inner).tag(path);
        let answer = self.follow(what, path, known).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.status == StatusCode::NOT_MODIFIED {
            let why = "the host answers 304 to a request without a condition".to_owned();
            return kept.page(path).ok_or_else(|| Error::Unreachable { what: what.to_owned(), why });
        }
        kept.keep(path, &answer);
        Ok(answer)
    }

    async fn follow(&self, what: &str, path: &str, known: Option<String>) -> Result<RestAnswer> {
        let mut path = path.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let call = Call { what, method: Method::GET, at: At::Api, path: &path, body: None, known: known.clone() };
            let answer = self.send(call).await?;
            if answer.status == StatusCode::NOT_MODIFIED && known.is_some() {
                return Ok(answer);
            }
            if !answer.status.is_redirection() || answer.status == StatusCode::NOT_MODIFIED {
                return checked(what, answer);
            }
            // The token stays within this API. The slash matters: another host's name may begin like ours.
            let target = answer.headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            let below = target.strip_prefix(&self.base).filter(|rest| rest.starts_with('/'));
            path = below.ok_or_else(|| moved(what))?.to_owned();
        }
        Err(moved(what))
    }

    /// Reads a value.
    pub(crate) async fn get<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<T> {
        parsed(what, &self.read(what, path).await?)
    }

    /// Reads a value that may not be there.
    pub(crate) async fn find<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<Option<T>> {
        self.find_answer(what, path).await?.map(|answer| parsed(what, &answer)).transpose()
    }

    /// Reads something that may not be there.
    pub(crate) async fn find_answer(&self, what: &str, path: &str) -> Result<Option<RestAnswer>> {
        match self.read(what, path).await {
            // Gitea answers so for an entry of a conversation that is no comment.
            Ok(answer) if answer.status == StatusCode::NO_CONTENT => Ok(None),
            Ok(answer) => Ok(Some(answer)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a list to its end. Pages are asked for by number: Gitea's links lead to its public name, not to where we asked.
    pub(crate) async fn list<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<Vec<T>> {
        self.pages(what, path, |page: Vec<T>| page).await
    }

    /// Reads a list inside of objects to its end.
    pub(crate) async fn pages<P: DeserializeOwned, T>(
        &self,
        what: &str,
        path: &str,
        items: impl Fn(P) -> Vec<T> + Send,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for page in 1..=PAGES_MAX {
            let answer = self.read_page(what, &self.page(path, page)).await?;
            let found = items(parsed(what, &answer)?);
            // A short page is not the last one: Gitea's own setting may be below the size that was asked for.
            let empty = found.is_empty();
            all.extend(found);
            if empty || !has_next(&answer.headers, self.kind, all.len()) {
                break;
            }
        }
        Ok(all)
    }

    /// Returns the path of one page.
    pub(crate) fn page(&self, path: &str, page: u32) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        let size = match self.kind {
            // The largest page of its default settings; a larger one it cuts without saying so.
            Kind::Gitea => "limit=50",
            Kind::GitHub => "per_page=100",
        };
        format!("{path}{separator}{size}&page={page}")
    }

    /// Writes, once, and returns the answer whatever its status.
    pub(crate) async fn try_write(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<RestAnswer> {
        let body = serde_json::to_vec(body).expect("our own structs have a JSON form");
        self.send(Call { what, method, at: At::Api, path, body: Some(body), known: None }).await
    }

    /// Asks GitHub in its query language.
    pub(crate) async fn graphql<T: DeserializeOwned>(&self, what: &str, query: &impl Serialize) -> Result<T> {
        let body = serde_json::to_vec(query).expect("our own structs have a JSON form");
        let call = Call { what, method: Method::POST, at: At::GraphQl, path: "", body: Some(body), known: None };
        parsed(what, &checked(what, self.send(call).await?)?)
    }

    /// Reads what a page of the site asks for; whatever it answers.
    pub(crate) async fn site(&self, what: &str, path: &str) -> Result<RestAnswer> {
        self.send(Call { what, method: Method::GET, at: At::Site, path, body: None, known: None }).await
    }

    /// Writes, once. A redirect is not followed: what was meant for one repository must not reach another.
    pub(crate) async fn write(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<RestAnswer> {
        checked(what, self.try_write(what, method, path, body).await?)
    }
}

/// Tells whether there is another page, if the host says so; else there is one until a page is empty.
pub(super) fn has_next(headers: &HeaderMap, kind: Kind, count: usize) -> bool {
    match kind {
        Kind::GitHub => header_text(headers, "link").is_some_and(|link| link.contains("rel=\"next\"")),
        Kind::Gitea => {
            let total = header_text(headers, "x-total-count").and_then(|total| total.parse::<usize>().ok());
            total.is_none_or(|total| count < total)
        }
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn header_number(headers: &HeaderMap, name: &str) -> Option<i64> {
    header_text(headers, name)?.trim().parse().ok()
}

/// Reads an answer's JSON.
pub(super) fn parsed<T: DeserializeOwned>(what: &str, answer: &RestAnswer) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| Error::Unreachable {
        what: what.to_owned(),
        // Without the text: it is a stranger's.
        why: format!(
            "the host answers {} with JSON that is not understood, at column {}",
            answer.status,
            error.column()
        ),
    })
}

/// Makes errors of all statuses but success.
pub(super) fn checked(what: &str, answer: RestAnswer) -> Result<RestAnswer> {
    let status = answer.status;
    if status.is_success() {
        return Ok(answer);
    }
    let description = body_message(&answer.body);
    let what = what.to_owned();
    Err(match status.as_u16() {
        300..=399 => moved(&what),
        401 => Error::Unauthenticated { what },
        // GitHub limits with both, and refuses with 403 as well: headers and words tell which it is.
        403 | 429 => match wait(&answer.headers, status, &description) {
            Some(wait) => Error::RateLimited { what, wait },
            None => Error::Forbidden { what, why: or_status(&description, status) },
        },
        404 | 410 => Error::NotFound { what },
        408 | 500..=599 => {
            Error::Unreachable { what, why: format!("the host answers {}", or_status(&description, status)) }
        }
        _ => Error::Refused { what, why: or_status(&description, status) },
    })
}

/// Returns the meter's class of an answer, or of a missing one.
fn called(answer: Option<&RestAnswer>) -> Called {
    let Some(RestAnswer { status, headers, body }) = answer else { return Called::Failed };
    match status.as_u16() {
        200..=299 => Called::Ok,
        304 => Called::Unchanged,
        403 | 429 if wait(headers, *status, &body_message(body)).is_some() => Called::Limited,
        408 | 500..=599 => Called::Failed,
        _ => Called::Refused,
    }
}

fn or_status(description: &str, status: StatusCode) -> String {
    if description.is_empty() { status.to_string() } else { format!("{description} ({})", status.as_u16()) }
}

fn moved(what: &str) -> Error {
    let why = "the host redirects elsewhere, where no token is sent: has the repository been renamed? Write its name and \
               address in the configuration again";
    Error::Refused { what: what.to_owned(), why: why.to_owned() }
}

/// Returns the pause that a host asks for; `None` if a 403 is about permissions.
///
/// Source: GitHub, "Rate limits for the REST API": retry-after, else the reset where nothing remains, else a minute.
fn wait(headers: &HeaderMap, status: StatusCode, description: &str) -> Option<Duration> {
    if headers.contains_key(header::RETRY_AFTER) {
        // A date is as good as nothing said.
        let seconds = header_number(headers, "retry-after").and_then(|seconds| u64::try_from(seconds).ok());
        return Some(seconds.map_or(WAIT_UNSAID, Duration::from_secs));
    }
    if header_number(headers, "x-ratelimit-remaining") == Some(0) {
        // By the host's own clock: ours may differ from it by more than the wait.
        let reset = header_number(headers, "x-ratelimit-reset");
        let left = reset.zip(said_at(headers)).map_or(0, |(reset, now)| reset - now);
        // A wrong clock must not make us ask again immediately.
        return Some(u64::try_from(left).ok().filter(|left| *left > 0).map_or(WAIT_UNSAID, Duration::from_secs));
    }
    let description = description.to_lowercase();
    let limited =
        status == StatusCode::TOO_MANY_REQUESTS || description.contains("rate limit") || description.contains("abuse");
    limited.then_some(WAIT_UNSAID)
}

/// Returns when a host answered, by its own clock, in seconds since 1970.
fn said_at(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get(header::DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp().as_second())
}

/// Returns a host's message, on one line and truncated.
fn body_message(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return String::new() };
    let message = value["message"].as_str().unwrap_or_default();
    let first = value["errors"].get(0);
    let detail = first.and_then(|error| error.as_str().or_else(|| error["message"].as_str()));
    let text =
        detail.filter(|detail| !message.contains(detail)).map_or(message.to_owned(), |d| format!("{message}: {d}"));
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect::<String>().trim().to_owned()
}

/// Returns a text from outside as one segment of a path.
///
/// # Errors
/// It names no one thing.
pub(super) fn segment(what: &str, text: &str) -> Result<String> {
    if matches!(text, "" | "." | "..") {
        return Err(Error::Refused { what: what.to_owned(), why: format!("{text:?} is no name") });
    }
    Ok(query(text))
}

/// Returns a text as a value of a query.
pub(super) fn query(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests;
