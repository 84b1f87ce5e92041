//! GitHub: its differences from Gitea. `github/transport.rs` has the way there.

use std::time::Duration;

use serde::Deserialize;

use super::client::{Client, segment};
use super::rest::Rest;
use super::shapes::{PullOfCommit, User};
use super::{Error, Limits, Result};
use model::forge::{Comment, ForgeUser, History, ThreadNumber};
use model::id::CommitId;

#[cfg(feature = "github")]
mod transport;
#[cfg(not(feature = "github"))]
mod transport_absent;

#[cfg(feature = "github")]
pub(super) use transport::Crab;
#[cfg(feature = "github")]
pub use transport::InstallationTokens;
#[cfg(not(feature = "github"))]
pub(super) use transport_absent::Crab;
#[cfg(not(feature = "github"))]
pub use transport_absent::InstallationTokens;

/// Source: GitHub, "REST API endpoints for commit statuses" (140), "Rate limits" (a second between writes) and "Best practices for
/// using the REST API" (one after the other); comments may have 65,536 characters.
pub(super) const LIMITS: Limits =
    Limits { description_chars: 140, comment_chars: 65_000, write_pause: Duration::from_secs(1), writes_max: 1 };

/// Where github.com has its API.
pub(super) const API: &str = "https://api.github.com";
/// A route that is asked as the App itself, not as its installation.
const APP_ROUTE: &str = "/app";

#[derive(Deserialize)]
struct App {
    slug: String,
}

/// Returns the account that an App writes as.
pub(super) async fn app_account(client: &Client) -> Result<ForgeUser> {
    let App { slug } = client.get("ask which App it is", APP_ROUTE).await?;
    let what = format!("look up the account of the App {slug}");
    let login = segment(&what, &format!("{slug}[bot]"))?;
    Ok(client.get::<User>(&what, &format!("/users/{login}")).await?.read())
}

#[derive(Deserialize)]
struct GraphNode {
    node_id: String,
}

#[derive(Deserialize)]
struct Queried {
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    node: Option<Edits>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edits {
    body: String,
    /// Absent where it was never edited.
    last_edited_at: Option<String>,
    includes_created_edit: bool,
}

/// The edit history of a comment, which only GraphQL returns. The text comes with it, so that both are from one moment.
const EDITS: &str =
    "query($id: ID!) { node(id: $id) { ... on IssueComment { body lastEditedAt includesCreatedEdit } } }";

/// Source: GitHub, GraphQL reference, `IssueComment` (`lastEditedAt`, `includesCreatedEdit`, `editor`).
pub(super) async fn history(rest: &Rest, comment: &Comment) -> Result<History> {
    let what = format!("read whether comment {} was changed", comment.id);
    let path = rest.route(&format!("/issues/comments/{}", comment.id));
    // A deleted comment proves nothing.
    let Some(GraphNode { node_id }) = rest.client.find(&what, &path).await? else { return Ok(History::Edited) };
    let query = serde_json::json!({"query": EDITS, "variables": {"id": node_id}});
    let answer: Queried = rest.client.graphql(&what, &query).await?;
    let Some(edits) = answer.data.and_then(|data| data.node) else {
        let why = "the host does not say; the token may have to be allowed to read issues and pull requests".to_owned();
        return Err(Error::Forbidden { what, why });
    };
    // A different text was written after the read, whatever the times say.
    let is_untouched = edits.last_edited_at.is_none() && !edits.includes_created_edit && edits.body == comment.body;
    Ok(if is_untouched { History::Untouched } else { History::Edited })
}

/// It knows every commit that a merge brought; open pull requests among them are left out.
pub(super) async fn pulls_of_commit(rest: &Rest, commit: &CommitId) -> Result<Vec<ThreadNumber>> {
    let what = format!("look for the pull requests of {}", commit.short());
    let path = rest.route(&format!("/commits/{}/pulls", segment(&what, commit.as_str())?));
    let all = rest.client.list::<PullOfCommit>(&what, &path).await?;
    Ok(all.into_iter().filter(|pull| pull.merged_at.is_some()).map(|pull| pull.number).collect())
}

#[derive(Deserialize)]
struct Membership {
    state: String,
}

/// Teams have names there, written as in addresses. Who was only invited is no member.
pub(super) async fn is_team_member(client: &Client, what: &str, org: &str, name: &str, login: &str) -> Result<bool> {
    let path = format!("/orgs/{org}/teams/{}/memberships/{login}", segment(what, name)?);
    Ok(client.find::<Membership>(what, &path).await?.is_some_and(|found| found.state == "active"))
}
