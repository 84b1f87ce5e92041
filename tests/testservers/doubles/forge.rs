//! A git host in memory, with the promises of a real Gitea and with failures on demand. `forge_contract` holds it to what a real
//! host does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use forge::{Auth, Error, Forge, Limits, Result};
use model::forge::{
    Approval, Comment, CommitStatus, Commits, ForgeUser, History, Merge, Permission, PullRequest, Reacted, Reaction,
    ThreadNumber,
};
use model::id::CommitId;

mod people;
#[cfg(test)]
mod tests;

/// The id of the fake's one repository.
pub const REPOSITORY_ID: u64 = 4711;

/// When a failure strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing was done.
    Before,
    /// It was done, and the answer was lost.
    After,
}

/// A failure on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host wants a pause.
    RateLimited(Duration),
    /// No answer.
    Unreachable,
    /// The token was revoked.
    Unauthenticated,
    /// The token may not.
    Forbidden,
    /// Refused for good.
    Refused,
}

impl Failure {
    fn error(self, what: String) -> Error {
        let why = "as the test wants it".to_owned();
        match self {
            Self::RateLimited(wait) => Error::RateLimited { what, wait },
            Self::Unreachable => Error::Unreachable { what, why },
            Self::Unauthenticated => Error::Unauthenticated { what },
            Self::Forbidden => Error::Forbidden { what, why },
            Self::Refused => Error::Refused { what, why },
        }
    }
}

/// An issue that is no pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Who opened it.
    pub author: ForgeUser,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
}

#[derive(Debug, Default)]
struct State {
    now: Timestamp,
    /// By login in lower case.
    users: BTreeMap<String, ForgeUser>,
    me: String,
    is_private: bool,
    permissions: BTreeMap<String, Permission>,
    teams: BTreeMap<String, BTreeSet<String>>,
    commits: BTreeSet<CommitId>,
    statuses: Vec<(CommitId, CommitStatus)>,
    pulls: BTreeMap<ThreadNumber, PullRequest>,
    issues: BTreeMap<ThreadNumber, Issue>,
    comments: BTreeMap<u64, Comment>,
    /// What each comment was when it was written.
    written: BTreeMap<u64, String>,
    edited: BTreeSet<u64>,
    hides_history: bool,
    reactions: BTreeMap<u64, Vec<(Reaction, Reacted)>>,
    approvals: BTreeMap<ThreadNumber, Vec<Approval>>,
    pull_commits: BTreeMap<ThreadNumber, Commits>,
    last_comment: u64,
    failures: VecDeque<(&'static str, Moment, Failure)>,
    outage: Option<Failure>,
    calls: Vec<&'static str>,
    /// Methods whose answers do not come.
    held: BTreeSet<&'static str>,
}

/// The fake. Methods that are not of [`Forge`] are what people, git and time do; they cannot fail.
#[derive(Debug)]
pub struct Fake {
    state: Mutex<State>,
}

impl Fake {
    /// Returns an empty public repository; `me` is whose token it is, an administrator.
    pub fn new(me: &str) -> Self {
        let fake = Self { state: Mutex::default() };
        fake.state().me = fake.add_user(me).login;
        fake.permit(me, Permission::Admin);
        fake
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a test that failed left behind is still what was done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, method: &'static str, run: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        state.calls.push(method);
        if let Some(outage) = state.outage {
            return Err(outage.error(method.to_owned()));
        }
        let next = state.failures.iter().position(|(of, ..)| of.is_empty() || *of == method);
        match next.and_then(|position| state.failures.remove(position)) {
            None => run(&mut state),
            Some((_, Moment::Before, failure)) => Err(failure.error(method.to_owned())),
            Some((_, Moment::After, failure)) => run(&mut state).and(Err(failure.error(method.to_owned()))),
        }
    }

    /// Makes the next call of a method of [`Forge`] fail; of any method where the name is empty. Each call of this is for one.
    pub fn fail(&self, method: &'static str, moment: Moment, failure: Failure) {
        self.state().failures.push_back((method, moment, failure));
    }

    /// Makes every call fail until `None` ends it.
    pub fn outage(&self, failure: Option<Failure>) {
        self.state().outage = failure;
    }

    /// Returns the names of the methods that were called, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.state().calls.clone()
    }

    /// Returns how often a method was called.
    pub fn count(&self, method: &str) -> usize {
        self.state().calls.iter().filter(|call| **call == method).count()
    }

    /// Sets the host's clock.
    pub fn set_time(&self, now: Timestamp) {
        self.state().now = now;
    }

    /// Adds an account, or returns the one with this login.
    pub fn add_user(&self, login: &str) -> ForgeUser {
        let mut state = self.state();
        let id = state.users.len() as u64 + 1;
        let user = ForgeUser { id, login: login.to_owned(), is_bot: false };
        state.users.entry(login.to_lowercase()).or_insert(user).clone()
    }

    /// Marks an account as a machine's.
    pub fn mark_bot(&self, login: &str) {
        if let Some(user) = self.state().users.get_mut(&login.to_lowercase()) {
            user.is_bot = true;
        }
    }

    /// Makes the repository private: who has no permission may nothing.
    pub fn set_private(&self, is_private: bool) {
        self.state().is_private = is_private;
    }

    /// Gives an account a permission.
    pub fn permit(&self, login: &str, permission: Permission) {
        self.state().permissions.insert(login.to_lowercase(), permission);
    }

    /// Creates a team, `ORG/NAME`, with these members.
    pub fn set_team(&self, team: &str, members: &[&str]) {
        let members = members.iter().map(|login| login.to_lowercase()).collect();
        self.state().teams.insert(team.to_lowercase(), members);
    }

    /// Makes the host know a commit.
    pub fn add_commit(&self, commit: &CommitId) {
        self.state().commits.insert(commit.clone());
    }

    /// Opens a pull request of an account, into a branch.
    pub fn open_pull(&self, author: &str, title: &str, base: &str, head_ref: &str, head: &CommitId) -> ThreadNumber {
        let author = self.add_user(author);
        self.add_commit(head);
        let mut state = self.state();
        let number = state.next_thread();
        let pull = PullRequest {
            number,
            title: title.to_owned(),
            author,
            base: base.to_owned(),
            head: head.clone(),
            head_ref: head_ref.to_owned(),
            is_fork: false,
            is_open: true,
            merged: None,
            url: format!("https://forge.example/o/r/pulls/{number}"),
        };
        let authors = vec![pull.author.clone()];
        let commits = Commits { head: Some(head.clone()), all: [head.clone()].into(), authors, pushers: Vec::new() };
        state.pulls.insert(number, pull);
        state.pull_commits.insert(number, commits);
        number
    }

    /// Changes a pull request in any way: a push to its branch, another base, closing, a fork.
    pub fn edit_pull(&self, number: ThreadNumber, edit: impl FnOnce(&mut PullRequest)) {
        let mut state = self.state();
        if let Some(pull) = state.pulls.get_mut(&number) {
            edit(pull);
            let head = pull.head.clone();
            state.commits.insert(head);
        }
    }

    /// Merges a pull request; `commit` is the last one that this brings to its base.
    pub fn merge(&self, number: ThreadNumber, commit: &CommitId, by: &str) {
        let by = self.add_user(by);
        self.add_commit(commit);
        self.edit_pull(number, |pull| {
            pull.is_open = false;
            pull.merged = Some(Merge { commit: commit.clone(), by: Some(by) });
        });
    }

    /// Writes a comment as somebody.
    pub fn say(&self, login: &str, thread: ThreadNumber, body: &str) -> u64 {
        let author = self.add_user(login);
        self.state().say(author, thread, body).id
    }

    /// Changes a comment as somebody who may: its author stays.
    pub fn edit_comment(&self, id: u64, body: &str) {
        self.state().edit(id, body);
    }

    /// Deletes a comment.
    pub fn delete_comment(&self, id: u64) {
        self.state().comments.remove(&id);
    }

    /// Returns the comments of a conversation.
    pub fn comments_of(&self, thread: ThreadNumber) -> Vec<Comment> {
        self.state().comments.values().filter(|comment| comment.thread == thread).cloned().collect()
    }

    /// Returns every status that was set on a commit, oldest first.
    pub fn statuses_of(&self, commit: &CommitId) -> Vec<CommitStatus> {
        self.state().statuses.iter().filter(|(of, _)| of == commit).map(|(_, status)| status.clone()).collect()
    }

    /// Returns the reactions to a comment, whoever gave them.
    pub fn reactions_to(&self, comment: u64) -> BTreeSet<Reaction> {
        self.state().reactions.get(&comment).into_iter().flatten().map(|(reaction, _)| *reaction).collect()
    }

    /// Returns the issues, by number.
    pub fn issues(&self) -> BTreeMap<ThreadNumber, Issue> {
        self.state().issues.clone()
    }
}

impl State {
    fn next_thread(&self) -> ThreadNumber {
        (self.pulls.len() + self.issues.len()) as u64 + 1
    }

    fn me(&self) -> ForgeUser {
        self.users.get(&self.me.to_lowercase()).cloned().expect("`Fake::new` added it, and accounts stay")
    }

    fn say(&mut self, author: ForgeUser, thread: ThreadNumber, body: &str) -> Comment {
        self.last_comment += 1;
        let id = self.last_comment;
        let url = format!("https://forge.example/o/r/pulls/{thread}#issuecomment-{id}");
        let (created_at, updated_at) = (self.now, self.now);
        let comment =
            Comment { id, thread, author, body: body.to_owned(), created_at, updated_at, via_app: false, url };
        self.comments.insert(id, comment.clone());
        self.written.insert(id, body.to_owned());
        comment
    }

    fn give(&mut self, by: ForgeUser, comment: u64, reaction: Reaction) {
        let given = self.reactions.entry(comment).or_default();
        if !given.iter().any(|(known, given)| *known == reaction && given.by == by) {
            given.push((reaction, Reacted { by, at: self.now }));
        }
    }

    fn edit(&mut self, id: u64, body: &str) -> Option<Comment> {
        let now = self.now;
        let comment = self.comments.get_mut(&id)?;
        if comment.body != body {
            self.edited.insert(id);
        }
        body.clone_into(&mut comment.body);
        comment.updated_at = now;
        Some(comment.clone())
    }

    fn has_thread(&self, thread: ThreadNumber) -> bool {
        self.pulls.contains_key(&thread) || self.issues.contains_key(&thread)
    }

    fn known(&self, what: &str, login: &str) -> Result<String> {
        let login = login.to_lowercase();
        if self.users.contains_key(&login) { Ok(login) } else { Err(not_found(what)) }
    }
}

fn not_found(what: &str) -> Error {
    Error::NotFound { what: what.to_owned() }
}

#[async_trait]
impl Forge for Fake {
    fn limits(&self) -> Limits {
        Limits { description_chars: 140, comment_chars: 65_000, write_pause: Duration::ZERO, writes_max: 4 }
    }

    fn use_auth(&self, _: &Auth) -> Result<()> {
        Ok(())
    }

    async fn repository_id(&self) -> Result<u64> {
        self.call("repository_id", |_| Ok(REPOSITORY_ID))
    }

    async fn whoami(&self) -> Result<ForgeUser> {
        self.call("whoami", |state| Ok(state.me()))
    }

    async fn set_status(&self, commit: &CommitId, status: &CommitStatus) -> Result<()> {
        let done = self.call("set_status", |state| {
            if !state.commits.contains(commit) {
                let why = format!("the host does not know commit {commit}");
                return Err(Error::Refused { what: "set_status".into(), why });
            }
            state.statuses.push((commit.clone(), status.clone()));
            Ok(())
        });
        self.answers("set_status").await;
        done
    }

    async fn statuses(&self, commit: &CommitId) -> Result<Vec<CommitStatus>> {
        self.call("statuses", |state| {
            let of_commit = state.statuses.iter().filter(|(of, _)| of == commit);
            let newest: BTreeMap<_, _> = of_commit.map(|(_, status)| (&status.context, status)).collect();
            Ok(newest.into_values().cloned().collect())
        })
    }

    async fn pulls_of_commit(&self, commit: &CommitId) -> Result<Vec<ThreadNumber>> {
        self.call("pulls_of_commit", |state| {
            let brought = |pull: &&PullRequest| pull.merged.as_ref().is_some_and(|merge| merge.commit == *commit);
            Ok(state.pulls.values().filter(brought).map(|pull| pull.number).collect())
        })
    }

    async fn pull(&self, number: ThreadNumber) -> Result<Option<PullRequest>> {
        self.call("pull", |state| Ok(state.pulls.get(&number).cloned()))
    }

    async fn open_pulls(&self, base: &str) -> Result<Vec<PullRequest>> {
        self.call("open_pulls", |state| {
            Ok(state.pulls.values().filter(|pull| pull.is_open && pull.base == base).cloned().collect())
        })
    }

    async fn comments(&self, thread: ThreadNumber, since: Option<Timestamp>) -> Result<Vec<Comment>> {
        self.call("comments", |state| {
            if !state.has_thread(thread) {
                return Err(not_found("comments"));
            }
            let wanted = |c: &&Comment| c.thread == thread && since.is_none_or(|since| c.updated_at >= since);
            Ok(state.comments.values().filter(wanted).cloned().collect())
        })
    }

    async fn comment(&self, id: u64) -> Result<Option<Comment>> {
        let found = self.call("comment", |state| Ok(state.comments.get(&id).cloned()));
        self.answers("comment").await;
        found
    }

    async fn create_comment(&self, thread: ThreadNumber, body: &str) -> Result<Comment> {
        let written = self.call("create_comment", |state| {
            if !state.has_thread(thread) {
                return Err(not_found("create_comment"));
            }
            Ok(state.say(state.me(), thread, body))
        });
        self.answers("create_comment").await;
        written
    }

    async fn update_comment(&self, id: u64, body: &str) -> Result<Option<Comment>> {
        self.call("update_comment", |state| Ok(state.edit(id, body)))
    }

    async fn open_issue(&self, title: &str, body: &str) -> Result<ThreadNumber> {
        self.call("open_issue", |state| {
            let number = state.next_thread();
            let issue = Issue { author: state.me(), title: title.to_owned(), body: body.to_owned() };
            state.issues.insert(number, issue);
            Ok(number)
        })
    }

    async fn own_issues(&self) -> Result<Vec<(ThreadNumber, String)>> {
        self.call("own_issues", |state| {
            let me = state.me();
            let own = state.issues.iter().rev().filter(|(_, issue)| issue.author == me);
            Ok(own.map(|(number, issue)| (*number, issue.body.clone())).collect())
        })
    }

    async fn react(&self, comment: u64, reaction: Reaction) -> Result<()> {
        self.call("react", |state| {
            if !state.comments.contains_key(&comment) {
                return Err(not_found("react"));
            }
            state.give(state.me(), comment, reaction);
            Ok(())
        })
    }

    async fn history(&self, comment: &Comment) -> Result<History> {
        self.call("history", |state| {
            Ok(match state.edited.contains(&comment.id) {
                _ if state.hides_history => History::Untold,
                true => History::Edited,
                false => History::Untouched,
            })
        })
    }

    async fn reactions(&self, comment: u64, reaction: Reaction) -> Result<Vec<Reacted>> {
        self.call("reactions", |state| {
            let given = state.reactions.get(&comment).into_iter().flatten();
            Ok(given.filter(|(known, _)| *known == reaction).map(|(_, given)| given.clone()).collect())
        })
    }

    async fn approvals(&self, pull: ThreadNumber) -> Result<Vec<Approval>> {
        self.call("approvals", |state| Ok(state.approvals.get(&pull).cloned().unwrap_or_default()))
    }

    async fn commits(&self, pull: &PullRequest) -> Result<Commits> {
        self.call("commits", |state| state.pull_commits.get(&pull.number).cloned().ok_or_else(|| not_found("commits")))
    }

    async fn permission(&self, login: &str) -> Result<Permission> {
        self.call("permission", |state| {
            let login = state.known("permission", login)?;
            let everybody = if state.is_private { Permission::None } else { Permission::Read };
            Ok(state.permissions.get(&login).copied().unwrap_or(everybody))
        })
    }

    async fn is_team_member(&self, team: &str, login: &str) -> Result<bool> {
        self.call("is_team_member", |state| {
            let members = state.teams.get(&team.to_lowercase()).ok_or_else(|| not_found("is_team_member"))?;
            Ok(members.contains(&login.to_lowercase()))
        })
    }
}
