//! The JSON shapes of hosts' answers. GitHub and Gitea agree on most; fields that one of them lacks are optional, and all
//! others are ignored, so that a new or removed field breaks nothing.

use jiff::Timestamp;
use serde::Deserialize;

use model::forge::{
    Approval, Comment, CommitStatus, ForgeUser, Merge, PullRequest, Reacted, StatusState, ThreadNumber,
};
use model::id::CommitId;

#[derive(Debug, Deserialize)]
pub(super) struct User {
    /// Gitea: -1 for an account that is gone.
    pub id: i64,
    pub login: String,
    /// GitHub only.
    #[serde(default, rename = "type")]
    pub type_: Option<String>,
}

impl User {
    pub(crate) fn read(self) -> ForgeUser {
        let is_bot = self.type_.as_deref() == Some("Bot");
        ForgeUser { id: u64::try_from(self.id).unwrap_or(0), login: self.login, is_bot }
    }
}

/// Returns an account; one that is gone has the id 0, which nobody has.
fn user(user: Option<User>) -> ForgeUser {
    user.map_or_else(|| ForgeUser { id: 0, login: "ghost".into(), is_bot: false }, User::read)
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub id: u64,
    #[serde(default)]
    pub permissions: Permissions,
}

/// What the token's account may do.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the hosts say it so")]
pub(super) struct Permissions {
    pub admin: bool,
    pub maintain: bool,
    pub push: bool,
    pub pull: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Branch {
    #[serde(rename = "ref")]
    pub name: String,
    pub sha: String,
    /// Absent where the repository is gone.
    #[serde(default)]
    pub repo: Option<Repository>,
}

impl Branch {
    fn repository(&self) -> Option<u64> {
        self.repo.as_ref().map(|repo| repo.id)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub number: ThreadNumber,
    pub title: String,
    pub user: Option<User>,
    pub state: String,
    pub base: Branch,
    pub head: Branch,
    #[serde(default)]
    pub merged_at: Option<Timestamp>,
    /// GitHub: a throw-away commit until there is a merge.
    #[serde(default)]
    pub merge_commit_sha: Option<String>,
    #[serde(default)]
    pub merged_by: Option<User>,
    pub html_url: String,
}

impl Pull {
    pub(crate) fn read(self) -> PullRequest {
        let from = self.head.repository();
        // Where the repository is gone nobody can tell, so it counts as a stranger's.
        let is_fork = from.is_none() || from != self.base.repository();
        let merged = match (self.merged_at, self.merge_commit_sha) {
            (Some(_), Some(commit)) => {
                Some(Merge { commit: CommitId::new(commit), by: self.merged_by.map(User::read) })
            }
            _ => None,
        };
        PullRequest {
            number: self.number,
            title: self.title,
            author: user(self.user),
            base: self.base.name,
            head: CommitId::new(self.head.sha),
            head_ref: self.head.name,
            is_fork,
            is_open: self.state == "open",
            merged,
            url: self.html_url,
        }
    }
}

/// A pull request as lists of a commit's have it.
#[derive(Debug, Deserialize)]
pub(super) struct PullOfCommit {
    pub number: ThreadNumber,
    #[serde(default)]
    pub merged_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommentShape {
    pub id: u64,
    pub user: Option<User>,
    #[serde(default)]
    pub body: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub html_url: String,
    /// Gitea: empty for a pull request's.
    #[serde(default)]
    pub issue_url: Option<String>,
    /// Gitea only.
    #[serde(default)]
    pub pull_request_url: Option<String>,
    /// GitHub only.
    #[serde(default)]
    pub performed_via_github_app: Option<serde::de::IgnoredAny>,
}

impl CommentShape {
    pub(crate) fn read(self, thread: Option<ThreadNumber>) -> Comment {
        // A comment that is read by its id says which conversation it is in by an address only.
        let urls = [self.issue_url, self.pull_request_url];
        let said = urls.into_iter().flatten().find_map(|url| url.rsplit('/').next()?.parse().ok());
        Comment {
            id: self.id,
            thread: thread.or(said).unwrap_or_default(),
            author: user(self.user),
            body: self.body.unwrap_or_default(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            via_app: self.performed_via_github_app.is_some(),
            url: self.html_url,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ReactionShape {
    pub user: Option<User>,
    pub content: String,
    pub created_at: Timestamp,
}

impl ReactionShape {
    /// Returns it; nothing where its account is gone.
    pub(crate) fn read(self) -> Option<Reacted> {
        Some(Reacted { by: self.user?.read(), at: self.created_at }).filter(|given| given.by.id > 0)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ReviewShape {
    pub id: u64,
    /// Gitea: absent where a team was asked.
    pub user: Option<User>,
    pub state: String,
    #[serde(default)]
    pub commit_id: Option<String>,
    /// Absent of one that is not submitted.
    #[serde(default)]
    pub submitted_at: Option<Timestamp>,
    /// Gitea; GitHub has a state for it.
    #[serde(default)]
    pub dismissed: bool,
    #[serde(default)]
    pub html_url: String,
}

impl ReviewShape {
    /// Returns it where it approves.
    pub(crate) fn read(self) -> Option<Approval> {
        let by = self.user?.read();
        let commit = CommitId::new(self.commit_id?);
        let at = self.submitted_at?;
        let approval = Approval { id: self.id, by, commit, at, url: self.html_url };
        Some(approval).filter(|given| self.state == "APPROVED" && !self.dismissed && given.by.id > 0)
    }
}

/// A commit as lists of a pull request's have it.
#[derive(Debug, Deserialize)]
pub(super) struct CommitOfPull {
    pub sha: String,
    /// Absent where the host knows no account with the author's address.
    #[serde(default)]
    pub author: Option<User>,
    #[serde(default)]
    pub committer: Option<User>,
}

/// Gitea: what a commit was made on.
#[derive(Debug, Deserialize)]
pub(super) struct Parents {
    #[serde(default)]
    pub parents: Vec<Parent>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Parent {
    pub sha: String,
}

/// Gitea: what one commit has and another has not.
#[derive(Debug, Deserialize)]
pub(super) struct Comparison {
    #[serde(default)]
    pub commits: Vec<CommitOfPull>,
}

/// GitHub: something that moved a branch.
#[derive(Debug, Deserialize)]
pub(super) struct Activity {
    #[serde(default)]
    pub after: String,
    #[serde(default)]
    pub actor: Option<User>,
}

/// Gitea: something that happened in a conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Happened {
    #[serde(default, rename = "type")]
    pub type_: String,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub body: Option<String>,
}

/// Gitea: what the text of a push in a conversation says.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PushText {
    #[serde(default)]
    pub commit_ids: Vec<String>,
}

/// Gitea: an entry of a repository's news.
#[derive(Debug, Deserialize)]
pub(super) struct NewsItem {
    #[serde(default)]
    pub op_type: String,
    #[serde(default)]
    pub act_user: Option<User>,
    /// The full name of the branch it moved, as `refs/heads/main`.
    #[serde(default)]
    pub ref_name: String,
    #[serde(default)]
    pub content: Option<String>,
}

/// Gitea: what the text of a push in a repository's news says.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NewsText {
    pub commits: Option<Vec<NewsCommit>>,
    pub head_commit: Option<NewsCommit>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NewsCommit {
    pub sha1: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    pub number: ThreadNumber,
    #[serde(default)]
    pub body: Option<String>,
    /// There where it is a pull request.
    #[serde(default)]
    pub pull_request: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Combined {
    #[serde(default)]
    pub statuses: Option<Vec<Status>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub context: String,
    /// Gitea names it `status`.
    #[serde(alias = "status")]
    pub state: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub target_url: Option<String>,
}

impl Status {
    pub(crate) fn read(self) -> CommitStatus {
        // Gitea has two states more, and takes any other text for one as well.
        let state = match self.state.as_str() {
            "pending" => StatusState::Pending,
            "success" | "skipped" => StatusState::Success,
            "failure" | "warning" => StatusState::Failure,
            _ => StatusState::Error,
        };
        let target_url = self.target_url.filter(|url| !url.is_empty());
        CommitStatus { context: self.context, state, description: self.description.unwrap_or_default(), target_url }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RolesOf {
    #[serde(default)]
    pub permission: Option<String>,
    /// GitHub: finer than `permission`, and possibly a name that an organisation made up.
    #[serde(default)]
    pub role_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Hook {
    pub id: u64,
    #[serde(default)]
    pub active: bool,
    #[serde(default)]
    pub events: Vec<String>,
    pub config: HookConfig,
}

#[derive(Debug, Deserialize)]
pub(super) struct HookConfig {
    #[serde(default)]
    pub url: String,
    #[serde(default)]
    pub content_type: String,
}
