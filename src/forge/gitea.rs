//! Gitea and Forgejo: the transport, and the differences from GitHub.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::client::{ANSWER_BYTES_MAX, At, CONNECT_TIMEOUT, Call, Client, READ_TIMEOUT, RestAnswer, Wire, segment};
use super::rest::Rest;
use super::shapes::PullOfCommit;
use super::{Error, Limits, Reach, Result};
use crate::http_client;
use crate::http_client::causes;
use model::forge::{Comment, History, ThreadNumber};
use model::id::CommitId;

/// Gitea itself has no limits; these are such that its pages stay readable, and that both hosts show the same.
/// Its smallest servers have two cores and SQLite, which writes one thing at a time.
pub(super) const LIMITS: Limits =
    Limits { description_chars: 140, comment_chars: 65_000, write_pause: Duration::ZERO, writes_max: 4 };

/// What its API's base ends with.
const API: &str = "/api/v1";

/// The way over plain HTTP/1.1 or 2.
pub(super) struct Plain {
    client: reqwest::Client,
    base: String,
    token: SecretString,
}

impl Plain {
    /// `base` is that of the API, without a slash at its end.
    pub(crate) fn new(base: &str, token: SecretString, reach: &Reach) -> Result<Self> {
        // The client above follows redirects, within the API only.
        let mut builder = http_client::builder(READ_TIMEOUT + CONNECT_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        if let Some(proxy) = &reach.proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(|error| not_prepared(causes(error)))?);
        }
        let client = http_client::build(builder, reach.certificates.as_deref()).map_err(not_prepared)?;
        Ok(Self { client, base: base.to_owned(), token })
    }
}

fn not_prepared(why: String) -> Error {
    Error::Refused { what: "prepare the connection to the forge".to_owned(), why }
}

#[async_trait]
impl Wire for Plain {
    async fn send(&self, Call { what, method, at, path, body, known }: Call<'_>) -> Result<RestAnswer> {
        let request = match at {
            At::Site => {
                let site = self.base.strip_suffix(API).unwrap_or(&self.base);
                self.client.request(method, format!("{site}{path}"))
            }
            _ => self.client.request(method, format!("{}{path}", self.base)).bearer_auth(self.token.expose_secret()),
        };
        let mut request = request.header(header::ACCEPT, "application/json");
        if let Some(known) = known {
            request = request.header(header::IF_NONE_MATCH, known);
        }
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        }
        let mut answer = request.send().await.map_err(|error| unreachable(what, error))?;
        let status = answer.status();
        let headers = answer.headers().clone();
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| unreachable(what, error))? {
            // Counted as it comes: a length that is announced may be absent or wrong.
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                let why = format!("the answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20);
                return Err(Error::Refused { what: what.to_owned(), why });
            }
            body.extend_from_slice(&part);
        }
        Ok(RestAnswer { status, headers, body: Bytes::from(body) })
    }
}

fn unreachable(what: &str, error: reqwest::Error) -> Error {
    Error::Unreachable { what: what.to_owned(), why: causes(error) }
}

#[derive(Deserialize)]
struct Overview {
    /// How many texts there were of each comment that was changed; `null` where it failed to look.
    #[serde(rename = "editedHistoryCountMap")]
    counts: Option<std::collections::BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
struct Texts {
    /// `null` where there are none, and where it failed to look.
    results: Option<Vec<serde::de::IgnoredAny>>,
}

/// Its pages show earlier texts, its API does not, and the pages accept no token: so this works only for public repositories.
/// It stores the first text before it writes the second, so an empty list means that the comment was never changed.
///
/// Source: Gitea v1.26.0, `routers/web/repo/issue_content_history.go`, `services/issue/comments.go` (`UpdateComment`).
pub(super) async fn history(rest: &Rest, comment: &Comment) -> Result<History> {
    let what = format!("read whether comment {} was changed", comment.id);
    let base = format!("/{}/{}/issues/{}/content-history", rest.owner, rest.name, comment.thread);
    let list = rest.client.site(&what, &format!("{base}/list?comment_id={}", comment.id)).await?;
    // After the list: an edit that came between the two shows here.
    let overview = rest.client.site(&what, &format!("{base}/overview")).await?;
    // A private repository answers with 404 or leads to the page for signing in.
    if list.status != StatusCode::OK || overview.status != StatusCode::OK {
        return Ok(History::Untold);
    }
    let Ok(list) = serde_json::from_slice::<Texts>(&list.body) else { return Ok(History::Untold) };
    let Ok(Overview { counts: Some(counts) }) = serde_json::from_slice(&overview.body) else {
        return Ok(History::Untold);
    };
    let has_former = list.results.is_some_and(|texts| !texts.is_empty());
    let is_counted = counts.contains_key(&comment.id.to_string());
    Ok(if has_former || is_counted { History::Edited } else { History::Untouched })
}

/// Tells whether the host knows a commit: it answers a status on one that it does not know with 500 and no words.
pub(super) async fn has_commit(rest: &Rest, commit: &CommitId) -> Result<bool> {
    let what = format!("look for commit {}", commit.short());
    let path = rest.route(&format!("/git/commits/{}?stat=false&files=false", segment(&what, commit.as_str())?));
    Ok(rest.client.find::<serde::de::IgnoredAny>(&what, &path).await?.is_some())
}

/// It knows the last commit of each merge, and no other.
pub(super) async fn pulls_of_commit(rest: &Rest, commit: &CommitId) -> Result<Vec<ThreadNumber>> {
    let what = format!("look for the pull request of {}", commit.short());
    let path = rest.route(&format!("/commits/{}/pull", segment(&what, commit.as_str())?));
    let found = rest.client.find::<PullOfCommit>(&what, &path).await?;
    Ok(found.into_iter().filter(|pull| pull.merged_at.is_some()).map(|pull| pull.number).collect())
}

#[derive(Deserialize)]
struct Teams {
    #[serde(default)]
    data: Vec<Team>,
}

#[derive(Deserialize)]
struct Team {
    id: u64,
    name: String,
}

/// Teams have ids there, and are found by searching.
pub(super) async fn is_team_member(client: &Client, what: &str, org: &str, name: &str, login: &str) -> Result<bool> {
    let path = format!("/orgs/{org}/teams/search?q={}", super::client::query(name));
    let teams = client.pages(what, &path, |page: Teams| page.data).await?;
    // The search also finds teams whose names only contain this one.
    let Some(team) = teams.into_iter().find(|team| team.name.eq_ignore_ascii_case(name)) else {
        return Err(Error::NotFound { what: what.to_owned() });
    };
    let path = format!("/teams/{}/members/{login}", team.id);
    Ok(client.find::<serde::de::IgnoredAny>(what, &path).await?.is_some())
}
