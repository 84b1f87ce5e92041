//! Writes to the git host while this daemon surely leads.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use forge::{Auth, Error, Forge, Limits, Result};
use model::forge::{
    Approval, Comment, CommitStatus, Commits, ForgeUser, History, Permission, PullRequest, Reacted, Reaction,
    ThreadNumber,
};
use model::id::CommitId;
use system::fence::Fence;

/// A git host whose writes pass the fence; reads do not.
pub(crate) struct FencedForge {
    forge: Arc<dyn Forge>,
    fence: Fence,
}

impl FencedForge {
    /// Wraps `forge`.
    pub(crate) fn new(forge: Arc<dyn Forge>, fence: Fence) -> Self {
        Self { forge, fence }
    }

    /// Makes a write; one that is cut may have been executed.
    async fn write<T>(&self, what: &str, write: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fence.run(write).await {
            Ok(answer) => answer,
            Err(reason) => Err(Error::Unreachable { what: what.to_owned(), why: reason.to_string() }),
        }
    }
}

#[async_trait]
impl Forge for FencedForge {
    fn limits(&self) -> Limits {
        self.forge.limits()
    }

    fn use_auth(&self, auth: &Auth) -> Result<()> {
        self.forge.use_auth(auth)
    }

    async fn repository_id(&self) -> Result<u64> {
        self.forge.repository_id().await
    }

    async fn whoami(&self) -> Result<ForgeUser> {
        self.forge.whoami().await
    }

    async fn set_status(&self, commit: &CommitId, status: &CommitStatus) -> Result<()> {
        self.write("set a status", self.forge.set_status(commit, status)).await
    }

    async fn statuses(&self, commit: &CommitId) -> Result<Vec<CommitStatus>> {
        self.forge.statuses(commit).await
    }

    async fn pulls_of_commit(&self, commit: &CommitId) -> Result<Vec<ThreadNumber>> {
        self.forge.pulls_of_commit(commit).await
    }

    async fn pull(&self, number: ThreadNumber) -> Result<Option<PullRequest>> {
        self.forge.pull(number).await
    }

    async fn open_pulls(&self, base: &str) -> Result<Vec<PullRequest>> {
        self.forge.open_pulls(base).await
    }

    async fn comments(&self, thread: ThreadNumber, since: Option<Timestamp>) -> Result<Vec<Comment>> {
        self.forge.comments(thread, since).await
    }

    async fn comment(&self, id: u64) -> Result<Option<Comment>> {
        self.forge.comment(id).await
    }

    async fn create_comment(&self, thread: ThreadNumber, body: &str) -> Result<Comment> {
        self.write("write a comment", self.forge.create_comment(thread, body)).await
    }

    async fn update_comment(&self, id: u64, body: &str) -> Result<Option<Comment>> {
        self.write("change a comment", self.forge.update_comment(id, body)).await
    }

    async fn open_issue(&self, title: &str, body: &str) -> Result<ThreadNumber> {
        self.write("open an issue", self.forge.open_issue(title, body)).await
    }

    async fn own_issues(&self) -> Result<Vec<(ThreadNumber, String)>> {
        self.forge.own_issues().await
    }

    async fn react(&self, comment: u64, reaction: Reaction) -> Result<()> {
        self.write("react to a comment", self.forge.react(comment, reaction)).await
    }

    async fn history(&self, comment: &Comment) -> Result<History> {
        self.forge.history(comment).await
    }

    async fn reactions(&self, comment: u64, reaction: Reaction) -> Result<Vec<Reacted>> {
        self.forge.reactions(comment, reaction).await
    }

    async fn approvals(&self, pull: ThreadNumber) -> Result<Vec<Approval>> {
        self.forge.approvals(pull).await
    }

    async fn commits(&self, pull: &PullRequest) -> Result<Commits> {
        self.forge.commits(pull).await
    }

    async fn permission(&self, login: &str) -> Result<Permission> {
        self.forge.permission(login).await
    }

    async fn is_team_member(&self, team: &str, login: &str) -> Result<bool> {
        self.forge.is_team_member(team, login).await
    }
}
