//! A repository on a host with GitHub's routes. Gitea adopted most of them; `gitea` and `github` contain the differences.

use async_trait::async_trait;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::OnceCell;

use super::client::{Client, checked, parsed, query, segment};
use super::shapes::{
    Combined, CommentShape, Issue, Pull, ReactionShape, Repository, ReviewShape, RolesOf, Status, User,
};
use super::{Auth, Error, Forge, Kind, Limits, Reach, Result, gitea, github, parts, wire};
use model::forge::{
    Approval, Comment, CommitStatus, Commits, ForgeUser, History, Permission, PullRequest, Reacted, Reaction,
    ThreadNumber,
};
use model::id::CommitId;

/// A repository over its host's API.
pub(super) struct Rest {
    pub client: Client,
    pub kind: Kind,
    pub owner: String,
    pub name: String,
    /// Whether we act as an App.
    pub is_app: bool,
    /// How the host is reached, with another token too.
    pub reach: Reach,
    /// Whose token it is, once that is known: another one is of the same account.
    pub me: OnceCell<ForgeUser>,
}

impl Rest {
    /// Returns a route below the repository.
    pub(crate) fn route(&self, rest: &str) -> String {
        // The configuration takes names of letters, digits, `-`, `_` and `.` only: nothing is to be escaped.
        format!("/repos/{}/{}{rest}", self.owner, self.name)
    }

    /// Returns the repository as the host shows it to us.
    pub(crate) async fn repository(&self) -> Result<Repository> {
        self.client.get(&format!("read repository {}/{}", self.owner, self.name), &self.route("")).await
    }
}

#[async_trait]
impl Forge for Rest {
    fn limits(&self) -> Limits {
        match self.kind {
            Kind::Gitea => gitea::LIMITS,
            Kind::GitHub => github::LIMITS,
        }
    }

    fn use_auth(&self, auth: &Auth) -> Result<()> {
        let repository = format!("{}/{}", self.owner, self.name);
        self.client.replace_wire(wire(self.kind, self.client.base(), repository, auth, &self.reach)?);
        Ok(())
    }

    async fn repository_id(&self) -> Result<u64> {
        Ok(self.repository().await?.id)
    }

    async fn whoami(&self) -> Result<ForgeUser> {
        let ask = async || {
            if self.is_app {
                return github::app_account(&self.client).await;
            }
            Ok(self.client.get::<User>("ask whose token it is", "/user").await?.read())
        };
        self.me.get_or_try_init(ask).await.cloned()
    }

    async fn set_status(&self, commit: &CommitId, status: &CommitStatus) -> Result<()> {
        let what = format!("set status {} on {}", status.context, commit.short());
        let path = self.route(&format!("/statuses/{}", segment(&what, commit.as_str())?));
        let mut body = json!({"state": status.state, "context": status.context, "description": status.description});
        if let Some(url) = &status.target_url {
            body["target_url"] = json!(url);
        }
        let answer = self.client.try_write(&what, Method::POST, &path, &body).await?;
        let unclear = matches!(answer.status, StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_FOUND);
        if self.kind == Kind::Gitea && unclear && !gitea::has_commit(self, commit).await? {
            return Err(Error::Refused { what, why: format!("the host does not know commit {commit}") });
        }
        checked(&what, answer).map(drop)
    }

    async fn statuses(&self, commit: &CommitId) -> Result<Vec<CommitStatus>> {
        let what = format!("read statuses of {}", commit.short());
        let path = self.route(&format!("/commits/{}/status", segment(&what, commit.as_str())?));
        let all = self.client.pages(&what, &path, |page: Combined| page.statuses.unwrap_or_default()).await?;
        Ok(all.into_iter().map(Status::read).collect())
    }

    async fn pulls_of_commit(&self, commit: &CommitId) -> Result<Vec<ThreadNumber>> {
        match self.kind {
            Kind::Gitea => gitea::pulls_of_commit(self, commit).await,
            Kind::GitHub => github::pulls_of_commit(self, commit).await,
        }
    }

    async fn pull(&self, number: ThreadNumber) -> Result<Option<PullRequest>> {
        let what = format!("read pull request {number}");
        let path = self.route(&format!("/pulls/{number}"));
        Ok(self.client.find::<Pull>(&what, &path).await?.map(Pull::read))
    }

    async fn open_pulls(&self, base: &str) -> Result<Vec<PullRequest>> {
        let filter = match self.kind {
            Kind::Gitea => "base_branch",
            Kind::GitHub => "base",
        };
        let path = self.route(&format!("/pulls?state=open&{filter}={}", query(base)));
        let all = self.client.list::<Pull>("list open pull requests", &path).await?;
        // Older Gitea do not filter.
        Ok(all.into_iter().map(Pull::read).filter(|pull| pull.base == base).collect())
    }

    async fn comments(&self, thread: ThreadNumber, since: Option<Timestamp>) -> Result<Vec<Comment>> {
        let what = format!("read the comments of #{thread}");
        let since = since.map(|since| format!("?since={}", query(&since.to_string()))).unwrap_or_default();
        let path = self.route(&format!("/issues/{thread}/comments{since}"));
        let all: Vec<CommentShape> = match self.kind {
            // It answers all of them, whatever page is asked for.
            Kind::Gitea => self.client.get(&what, &path).await?,
            Kind::GitHub => self.client.list(&what, &path).await?,
        };
        let mut comments: Vec<_> = all.into_iter().map(|comment| comment.read(Some(thread))).collect();
        comments.sort_by_key(|comment| comment.id);
        Ok(comments)
    }

    async fn comment(&self, id: u64) -> Result<Option<Comment>> {
        let path = self.route(&format!("/issues/comments/{id}"));
        let found = self.client.find::<CommentShape>(&format!("read comment {id}"), &path).await?;
        Ok(found.map(|comment| comment.read(None)))
    }

    async fn create_comment(&self, thread: ThreadNumber, body: &str) -> Result<Comment> {
        let what = format!("comment on #{thread}");
        let path = self.route(&format!("/issues/{thread}/comments"));
        let answer = self.client.try_write(&what, Method::POST, &path, &json!({"body": body})).await?;
        if self.kind == Kind::Gitea && answer.status == StatusCode::INTERNAL_SERVER_ERROR {
            // It fails where there is no such conversation.
            let issue = self.client.find::<Issue>(&what, &self.route(&format!("/issues/{thread}"))).await?;
            if issue.is_none() {
                return Err(Error::NotFound { what });
            }
        }
        Ok(parsed::<CommentShape>(&what, &checked(&what, answer)?)?.read(Some(thread)))
    }

    async fn update_comment(&self, id: u64, body: &str) -> Result<Option<Comment>> {
        let what = format!("change comment {id}");
        let path = self.route(&format!("/issues/comments/{id}"));
        match self.client.write(&what, Method::PATCH, &path, &json!({"body": body})).await {
            // Gitea answers so for an entry of a conversation that has no text.
            Ok(answer) if answer.status == StatusCode::NO_CONTENT => Ok(None),
            Ok(answer) => Ok(Some(parsed::<CommentShape>(&what, &answer)?.read(None))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn open_issue(&self, title: &str, body: &str) -> Result<ThreadNumber> {
        let issue = json!({"title": title, "body": body});
        let answer = self.client.write("open an issue", Method::POST, &self.route("/issues"), &issue).await?;
        Ok(parsed::<Issue>("open an issue", &answer)?.number)
    }

    async fn own_issues(&self) -> Result<Vec<(ThreadNumber, String)>> {
        let me = self.whoami().await?;
        let what = "list our own issues";
        let by = match self.kind {
            Kind::Gitea => "type=issues&created_by",
            Kind::GitHub => "creator",
        };
        let path = self.route(&format!("/issues?state=all&{by}={}", query(&me.login)));
        let page: Vec<Issue> = self.client.get(what, &self.client.page(&path, 1)).await?;
        let issues = page.into_iter().filter(|issue| issue.pull_request.is_none());
        Ok(issues.map(|issue| (issue.number, issue.body.unwrap_or_default())).collect())
    }

    async fn react(&self, comment: u64, reaction: Reaction) -> Result<()> {
        let path = self.route(&format!("/issues/comments/{comment}/reactions"));
        let answer = self.client.write("react", Method::POST, &path, &json!({"content": reaction})).await;
        match answer {
            // Its administrator chooses which there are. A token without the right scope is told by other words.
            Err(Error::Forbidden { why, .. }) if self.kind == Kind::Gitea && why.contains("allowed reaction") => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn history(&self, comment: &Comment) -> Result<History> {
        match self.kind {
            Kind::Gitea => gitea::history(self, comment).await,
            Kind::GitHub => github::history(self, comment).await,
        }
    }

    async fn reactions(&self, comment: u64, reaction: Reaction) -> Result<Vec<Reacted>> {
        let what = format!("read the reactions to comment {comment}");
        let path = self.route(&format!("/issues/comments/{comment}/reactions"));
        let all: Option<Vec<ReactionShape>> = match self.kind {
            // It answers all of them, whatever page is asked for, and `null` for none.
            Kind::Gitea => self.client.get(&what, &path).await?,
            Kind::GitHub => Some(self.client.list(&what, &path).await?),
        };
        let wanted = json!(reaction);
        let given = all.into_iter().flatten().filter(|given| wanted == given.content.as_str());
        Ok(given.filter_map(ReactionShape::read).collect())
    }

    async fn approvals(&self, pull: ThreadNumber) -> Result<Vec<Approval>> {
        let path = self.route(&format!("/pulls/{pull}/reviews"));
        let all = self.client.list::<ReviewShape>(&format!("read the reviews of #{pull}"), &path).await?;
        Ok(all.into_iter().filter_map(ReviewShape::read).collect())
    }

    async fn commits(&self, pull: &PullRequest) -> Result<Commits> {
        parts::commits(self, pull).await
    }

    async fn permission(&self, login: &str) -> Result<Permission> {
        let what = format!("read the permission of {login}");
        let path = self.route(&format!("/collaborators/{}/permission", segment(&what, login)?));
        Ok(role(&self.client.get::<RolesOf>(&what, &path).await?))
    }

    async fn is_team_member(&self, team: &str, login: &str) -> Result<bool> {
        let what = format!("read whether {login} is in team {team}");
        let Some((org, name)) = team.split_once('/') else {
            return Err(Error::Refused { what, why: "a team is ORG/NAME".to_owned() });
        };
        let org = segment(&what, org)?;
        let login = segment(&what, login)?;
        match self.kind {
            Kind::Gitea => gitea::is_team_member(&self.client, &what, &org, name, &login).await,
            Kind::GitHub => github::is_team_member(&self.client, &what, &org, name, &login).await,
        }
    }
}

/// Returns the permission of the most specific known name; a custom role counts as its base role.
fn role(roles: &RolesOf) -> Permission {
    let names = [&roles.role_name, &roles.permission];
    // A name that is not known here allows nothing.
    names.into_iter().flatten().find_map(|name| permission(name)).unwrap_or_default()
}

fn permission(name: &str) -> Option<Permission> {
    match name {
        "owner" | "admin" => Some(Permission::Admin),
        "maintain" => Some(Permission::Maintain),
        "write" => Some(Permission::Write),
        "triage" => Some(Permission::Triage),
        "read" => Some(Permission::Read),
        "none" => Some(Permission::None),
        _ => None,
    }
}
