//! The git host adapter: commit statuses, pull requests, comments, and permissions.
//!
//! One trait with our own types ([`model::forge`]): hosts' answers differ in many small ways, and one file contains all
//! their shapes. Every call is one try; the caller decides what a failure means and when to retry, because a write with a lost
//! answer must not be repeated blindly.

pub mod webhook;

mod admin;
mod client;
mod gitea;
mod github;
pub mod http_client;
mod parts;
pub mod prometheus;
pub mod receiver;
mod rest;
mod shapes;

pub use admin::{Ability, Admin, HookRepair, Known};
pub use github::InstallationTokens;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};

use model::error::ErrorClass;
use model::forge::{
    Approval, Comment, CommitStatus, Commits, ForgeUser, History, Permission, PullRequest, Reacted, Reaction,
    ThreadNumber,
};
use model::id::CommitId;

/// Why a call to a git host failed. Messages contain only the host's error message, and never a token.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there, or not visible to us.
    #[error("{what}: not found, or not visible to this token")]
    NotFound {
        /// What was tried.
        what: String,
    },
    /// The token may not.
    #[error("{what}: refused: {why}")]
    Forbidden {
        /// What was tried.
        what: String,
        /// What is missing, as text for users.
        why: String,
    },
    /// The token is wrong, expired or revoked.
    #[error("{what}: the token is not accepted")]
    Unauthenticated {
        /// What was tried.
        what: String,
    },
    /// The host wants a pause.
    #[error("{what}: the host wants us to wait {} s", wait.as_secs())]
    RateLimited {
        /// What was tried.
        what: String,
        /// How long.
        wait: Duration,
    },
    /// It could not be reached, did not answer in time, or failed. A write may have been executed.
    #[error("{what}: {why}")]
    Unreachable {
        /// What was tried.
        what: String,
        /// What happened, as text for users.
        why: String,
    },
    /// The host refuses it for good: trying again changes nothing.
    #[error("{what}: {why}")]
    Refused {
        /// What was tried.
        what: String,
        /// The reason, as text for users.
        why: String,
    },
}

impl Error {
    /// Returns what to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::RateLimited { .. } | Self::Unreachable { .. } => ErrorClass::Transient,
            Self::Forbidden { .. } | Self::Unauthenticated { .. } => ErrorClass::Denied,
            Self::NotFound { .. } | Self::Refused { .. } => ErrorClass::Invalid,
        }
    }
}

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// What a host takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Characters of a status's description.
    pub description_chars: usize,
    /// Characters of a comment.
    pub comment_chars: usize,
    /// The least time between two writes.
    pub write_pause: Duration,
    /// Writes that may be under way at a time.
    pub writes_max: usize,
}

/// A repository on a git host.
///
/// # Cancel safety
/// Every request may be dropped at any point. A write may be executed all the same: only reading tells.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Returns what the host takes.
    fn limits(&self) -> Limits;

    /// Makes requests as somebody else, from the next one on: with another token or key of the same account.
    ///
    /// # Errors
    /// `Refused`: the token or the key cannot be one; the one before stays in use.
    fn use_auth(&self, auth: &Auth) -> Result<()>;

    /// Returns the repository's id, which survives renaming.
    async fn repository_id(&self) -> Result<u64>;

    /// Returns whose token it is.
    async fn whoami(&self) -> Result<ForgeUser>;

    /// Adds a status to a commit; of one context the newest counts.
    ///
    /// # Errors
    /// `Refused` where the host does not know the commit, or takes no more statuses of this context.
    async fn set_status(&self, commit: &CommitId, status: &CommitStatus) -> Result<()>;

    /// Returns the newest status of each context of a commit.
    async fn statuses(&self, commit: &CommitId) -> Result<Vec<CommitStatus>>;

    /// Returns the merged pull requests that a commit came with, as far as the host knows.
    async fn pulls_of_commit(&self, commit: &CommitId) -> Result<Vec<ThreadNumber>>;

    /// Returns a pull request; `None` where the number is an issue's or nobody's.
    async fn pull(&self, number: ThreadNumber) -> Result<Option<PullRequest>>;

    /// Returns the open pull requests into a branch.
    async fn open_pulls(&self, base: &str) -> Result<Vec<PullRequest>>;

    /// Returns the comments of a conversation that were written or changed since then, oldest first; all without an instant.
    async fn comments(&self, thread: ThreadNumber, since: Option<Timestamp>) -> Result<Vec<Comment>>;

    /// Returns a comment as it is now; `None` where it was deleted.
    async fn comment(&self, id: u64) -> Result<Option<Comment>>;

    /// Writes a comment.
    async fn create_comment(&self, thread: ThreadNumber, body: &str) -> Result<Comment>;

    /// Replaces a comment's text; `None` where it was deleted.
    async fn update_comment(&self, id: u64, body: &str) -> Result<Option<Comment>>;

    /// Opens an issue.
    async fn open_issue(&self, title: &str, body: &str) -> Result<ThreadNumber>;

    /// Returns the newest issues that we opened, with their texts; at most a page.
    async fn own_issues(&self) -> Result<Vec<(ThreadNumber, String)>>;

    /// Adds a reaction to a comment; one that is there already, or that the host does not offer, is no error.
    async fn react(&self, comment: u64, reaction: Reaction) -> Result<()>;

    /// Tells whether a comment's text is proven to be its author's. Call it after reading the comment, so that the host's
    /// answer covers that text. Timestamps in whole seconds prove nothing.
    ///
    /// # Errors
    /// Any error means no proof, and no command in the comment counts.
    async fn history(&self, comment: &Comment) -> Result<History>;

    /// Returns who gave a comment this reaction, as far as the host takes it.
    async fn reactions(&self, comment: u64, reaction: Reaction) -> Result<Vec<Reacted>>;

    /// Returns the reviews that approve a pull request and were not dismissed.
    async fn approvals(&self, pull: ThreadNumber) -> Result<Vec<Approval>>;

    /// Returns the commits of a pull request: also after the merge, and after its branch is gone.
    ///
    /// # Errors
    /// `Refused` if there are more commits than the host lists.
    async fn commits(&self, pull: &PullRequest) -> Result<Commits>;

    /// Returns what an account may do with the repository now.
    ///
    /// # Errors
    /// Any error means no permission.
    async fn permission(&self, login: &str) -> Result<Permission>;

    /// Tells whether an account is in a team now; the team is `ORG/NAME`.
    ///
    /// # Errors
    /// Any error means that the account counts as outside.
    async fn is_team_member(&self, team: &str, login: &str) -> Result<bool>;
}

/// Where GitHub is, unless it is somebody's own.
const GITHUB: &str = "https://github.com";

/// The kind of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gitea, and Forgejo.
    Gitea,
    /// github.com, and GitHub Enterprise Server.
    GitHub,
}

/// The identity of our requests.
#[derive(Clone, Debug)]
pub enum Auth {
    /// The owner of a token.
    Token(SecretString),
    /// As a GitHub App, wherever it is installed for the repository.
    App {
        /// Its id.
        id: u64,
        /// Its private key.
        pem: SecretString,
    },
}

/// Which repository on which host, and as whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the host is.
    pub kind: Kind,
    /// Its address as people open it, not that of its API; absent for github.com.
    pub url: Option<String>,
    /// Who owns the repository.
    pub owner: String,
    /// What it is called.
    pub name: String,
    /// As whom.
    pub auth: Auth,
    /// How it is reached; Gitea only.
    pub reach: Reach,
}

/// How a host is reached, beside what the system says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Certificates of authorities, as PEM, that count beside those of the system.
    pub certificates: Option<Vec<u8>>,
    /// The proxy that every request passes through; none of the environment counts then.
    pub proxy: Option<String>,
}

impl Settings {
    /// Returns the address of the repository as people open it, without a slash at its end.
    pub fn web(&self) -> String {
        let url = self.url.as_deref().unwrap_or(GITHUB).trim_end_matches('/');
        format!("{url}/{}/{}", self.owner, self.name)
    }

    /// Returns the base of the API, without a slash at its end.
    fn base(&self) -> String {
        let url = self.url.as_deref().map(|url| url.trim_end_matches('/'));
        match (self.kind, url) {
            (Kind::Gitea, url) => format!("{}/api/v1", url.unwrap_or_default()),
            (Kind::GitHub, None | Some(GITHUB | "https://www.github.com")) => github::API.to_owned(),
            (Kind::GitHub, Some(url)) => format!("{url}/api/v3"),
        }
    }
}

/// The class of one request's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// Success.
    Ok,
    /// The cached answer is still valid.
    Unchanged,
    /// The host wants a pause.
    Limited,
    /// The host refuses, or does not know the object.
    Refused,
    /// No answer, or an internal error of the host.
    Failed,
}

/// Called for each request. An App's own requests for its token are left out.
pub type Meter = Arc<dyn Fn(&http::Method, Called) + Send + Sync>;

/// Creates the client of a repository without a request; must be called in a tokio runtime.
///
/// # Errors
/// `Refused`: the token or the key cannot be one, or the settings contradict each other.
pub fn connect(settings: &Settings, meter: Option<Meter>) -> Result<Arc<dyn Forge>> {
    Ok(Arc::new(rest(settings, meter)?))
}

fn rest(settings: &Settings, meter: Option<Meter>) -> Result<rest::Rest> {
    let base = settings.base();
    let repository = format!("{}/{}", settings.owner, settings.name);
    let wire = wire(settings.kind, &base, repository, &settings.auth, &settings.reach)?;
    let is_app = matches!(settings.auth, Auth::App { .. });
    Ok(rest::Rest {
        client: client::Client::new(wire, settings.kind, base, meter),
        kind: settings.kind,
        owner: settings.owner.clone(),
        name: settings.name.clone(),
        is_app,
        reach: settings.reach.clone(),
        me: tokio::sync::OnceCell::new(),
    })
}

/// Makes what sends requests to the API at a base, about a repository `OWNER/NAME`.
fn wire(kind: Kind, base: &str, repository: String, auth: &Auth, reach: &Reach) -> Result<Arc<dyn client::Wire>> {
    if kind == Kind::GitHub && *reach != Reach::default() {
        let why = "authorities and a proxy of its own are for Gitea only".to_owned();
        return Err(Error::Refused { what: "connect to the forge".to_owned(), why });
    }
    Ok(match (kind, auth) {
        (Kind::Gitea, Auth::Token(token)) => Arc::new(gitea::Plain::new(base, usable(token)?, reach)?),
        (Kind::GitHub, Auth::Token(token)) => Arc::new(github::Crab::with_token(base, &usable(token)?)?),
        (Kind::GitHub, Auth::App { id, pem }) => Arc::new(github::Crab::with_app(base, *id, pem, repository)?),
        (Kind::Gitea, Auth::App { .. }) => {
            let what = "connect to the forge".to_owned();
            return Err(Error::Refused { what, why: "only GitHub knows Apps".to_owned() });
        }
    })
}

/// Returns a token without the blanks around it. One that no header can hold would be a panic further down.
fn usable(token: &SecretString) -> Result<SecretString> {
    let text = token.expose_secret().trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = "it must be one word of ASCII characters".to_owned();
        return Err(Error::Refused { what: "read the forge's token".to_owned(), why });
    }
    Ok(SecretString::from(text))
}
