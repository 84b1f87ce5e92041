//! Errors of a source, by how a person or the daemon reacts to them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::{BLOB_SIZE_MAX_BYTES, Excess, READ_SIZE_MAX_BYTES};
use model::error::ErrorClass;
use model::id::{BlobId, CommitId};

/// The longest text a cause keeps, in bytes: servers may answer with pages.
const CAUSE_SIZE_MAX_BYTES: usize = 2000;

/// Why something failed, as text, with every secret replaced.
///
/// gix's errors may contain URLs, configuration values and server answers; they are converted to text here, once, so that no
/// printed error can contain a token.
#[derive(Debug)]
pub struct Cause(String);

impl Cause {
    /// Joins the texts of an error and its causes.
    pub(super) fn of(error: &gix::Error, secrets: &Secrets) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in error.iter_errors() {
            let text = format!("{error:#}");
            if !texts.iter().any(|seen| seen.contains(&text)) {
                texts.push(text);
            }
        }
        Self::text(&texts.join(": "), secrets)
    }

    /// Returns the text of the last cause alone: those before it may be written for developers.
    pub(super) fn last(error: &gix::Error) -> Self {
        let last = error.iter_errors().last().map(ToString::to_string).unwrap_or_default();
        Self::text(&last, &Secrets::default())
    }

    /// Takes a text, shortened.
    pub(super) fn text(text: &str, secrets: &Secrets) -> Self {
        // Before it is cut: the first half of a token would not be recognised any more.
        let mut text = secrets.redact(text).replace(['\n', '\r'], " ");
        if text.len() > CAUSE_SIZE_MAX_BYTES {
            let end = (0..=CAUSE_SIZE_MAX_BYTES).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        Self(text)
    }
}

impl From<gix::Error> for Cause {
    fn from(error: gix::Error) -> Self {
        Self::of(&error, &Secrets::default())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// The texts to hide: a token, and its form in a header.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// Remembers texts to hide; empty ones hide nothing.
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        Self(secrets.into_iter().filter(|s| !s.expose_secret().is_empty()).collect())
    }

    fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose_secret(), "***"))
    }
}

/// All errors between gitfleet and a source. No text ever contains a token.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The location is neither a URL we speak nor a path.
    #[error("cannot use {location} as a source: {reason}")]
    UnsupportedLocation {
        /// What was configured.
        location: String,
        /// Why not, and what to write instead.
        reason: &'static str,
    },
    /// A token would travel in clear text, or stands in the URL.
    #[error("refusing to use a token for {location}: {reason}")]
    InsecureToken {
        /// The location, without the token.
        location: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// There is nothing, or nothing we can read as a repository or folder.
    #[error("no git repository or folder at {location}: {reason}")]
    NotARepository {
        /// Where we looked.
        location: String,
        /// What was found instead.
        reason: String,
    },
    /// The server refuses access.
    #[error("access to {location} denied: {reason}")]
    AccessDenied {
        /// The repository.
        location: String,
        /// What to do about it.
        reason: &'static str,
        /// What the server said.
        #[source]
        cause: Cause,
    },
    /// The server shows no host key or certificate that counts.
    #[error("{location} is not trusted: {reason}")]
    Untrusted {
        /// The repository.
        location: String,
        /// What it shows, and what to do.
        reason: String,
        /// What was said.
        #[source]
        cause: Cause,
    },
    /// A file that is needed to reach it cannot be used.
    #[error("cannot use {} to reach {location}: {reason}", path.display())]
    AccessFile {
        /// The repository.
        location: String,
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// There is no token to read it with.
    #[error("cannot get a token to read {location}: {reason}")]
    NoToken {
        /// The repository.
        location: String,
        /// Why not.
        reason: String,
    },
    /// ssh cannot be started.
    #[error("cannot start ssh to reach {location}: {reason}")]
    SshProgram {
        /// The repository.
        location: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The server cannot be reached now.
    #[error("cannot reach {location}")]
    Unreachable {
        /// The repository.
        location: String,
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// Two commits of it cannot be merged.
    #[error("{location}: {} shares no history with {}", other.short(), one.short())]
    Unrelated {
        /// The repository.
        location: String,
        /// The one commit.
        one: CommitId,
        /// The other.
        other: CommitId,
    },
    /// The head of a pull request is not there.
    #[error("{location} has no head of pull request {number}: {reason}")]
    PullMissing {
        /// The repository.
        location: String,
        /// The pull request.
        number: u64,
        /// Where it was looked for, and what to do.
        reason: &'static str,
    },
    /// The server is too slow.
    #[error("gave up on {location} after {} s without a complete answer", limit.as_secs())]
    Timeout {
        /// The repository.
        location: String,
        /// How long we waited.
        limit: Duration,
    },
    /// The daemon ends.
    #[error("stopped reading {location} because the daemon is shutting down")]
    Interrupted {
        /// The repository.
        location: String,
    },
    /// The server answered something we cannot use.
    #[error("fetching from {location} failed")]
    Remote {
        /// The repository.
        location: String,
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// There is no artifact, or none that can be unpacked.
    #[error("cannot use the artifact {digest} of {location}: {reason}")]
    Artifact {
        /// Where it is in the registry.
        location: String,
        /// Its digest, or the tag where no digest is known.
        digest: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// There is no commit at all, or no file that could be read.
    #[error("{location} is empty: push a first commit, or add a first manifest")]
    EmptyRepository {
        /// The repository or folder.
        location: String,
    },
    /// There are commits, but not on that branch. `HEAD` is never taken instead.
    #[error("{location} has no branch {branch:?}: create it, or name another one in `branch`")]
    BranchMissing {
        /// The repository.
        location: String,
        /// The branch that was asked for.
        branch: String,
    },
    /// The subtree is not in the commit.
    #[error("commit {} of {location} has no folder {path:?}: correct `path`", commit.short())]
    PathMissing {
        /// The repository.
        location: String,
        /// The subtree that was asked for.
        path: String,
        /// The commit.
        commit: CommitId,
    },
    /// The subtree's path is not one inside a repository.
    #[error("{path:?} is not a path inside a repository: write it relative, without `..`")]
    PathInvalid {
        /// What was configured.
        path: String,
    },
    /// A revision names nothing, or more than one thing.
    #[error("{location} has no commit {revision:?}")]
    RevisionUnknown {
        /// The repository.
        location: String,
        /// What was asked for.
        revision: String,
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// What is to be fetched is more than is fetched.
    #[error("{what} of {location} is too large to be fetched: {excess}; take large files out of its history")]
    FetchTooLarge {
        /// The repository.
        location: String,
        /// The branch, or the head of a pull request.
        what: String,
        /// Which limit it goes over.
        excess: Excess,
    },
    /// Our copy is damaged, and could not be made again.
    #[error("our copy of {location} in {} is damaged ({damage}) and cannot be made again now: {why}", dir.display())]
    Damaged {
        /// The repository.
        location: String,
        /// Our copy.
        dir: PathBuf,
        /// What is wrong with it.
        damage: String,
        /// Why it could not be made again.
        why: String,
    },
    /// An object that should be there is not: payload missing.
    #[error("object {id} is missing from {location}")]
    ObjectMissing {
        /// The repository.
        location: String,
        /// The object.
        id: String,
    },
    /// One file is too large to read.
    #[error("blob {blob} has {size} bytes, more than the {BLOB_SIZE_MAX_BYTES} that are read")]
    BlobTooLarge {
        /// The file's blob.
        blob: BlobId,
        /// Its size in bytes.
        size: u64,
    },
    /// All files together are too large to read.
    #[error("the files of {location} have more than the {READ_SIZE_MAX_BYTES} bytes that are read: narrow `path`")]
    SourceTooLarge {
        /// The repository or folder.
        location: String,
    },
    /// A branch's name is not one git accepts.
    #[error("{name:?} cannot name a branch: git does not accept it")]
    BranchName {
        /// The name.
        name: String,
    },
    /// A commit on this branch would leave the work tree behind.
    #[error("{branch} is checked out in {location}: name another branch, or change the files and commit them yourself")]
    BranchCheckedOut {
        /// The repository.
        location: String,
        /// The branch.
        branch: String,
    },
    /// A pin's name is not one git accepts.
    #[error("{name:?} cannot name a pin: git does not accept it as part of a ref")]
    PinName {
        /// The name.
        name: String,
    },
    /// A folder or file could not be read from disk.
    #[error("cannot read {}", path.display())]
    Disk {
        /// The path.
        path: PathBuf,
        /// What happened.
        #[source]
        source: std::io::Error,
    },
    /// A folder changed while it was read; the next poll sees the result.
    #[error("{} changed while it was read", path.display())]
    FolderChanged {
        /// What vanished.
        path: PathBuf,
    },
    /// A place cannot be watched; polling continues.
    #[error("cannot watch {location} for changes, polling only: {reason}")]
    Watch {
        /// The place.
        location: String,
        /// What happened, such as an exhausted inotify limit.
        reason: String,
    },
    /// A repository on disk could not be read or written.
    #[error("cannot {doing} {location}")]
    Repository {
        /// The repository.
        location: String,
        /// What was tried, such as `write a pin to`.
        doing: &'static str,
        /// What happened.
        #[source]
        cause: Cause,
    },
}

impl Error {
    /// Names what was tried on a repository on disk; for `map_err`.
    pub(super) fn at(location: &str, doing: &'static str) -> impl Fn(gix::Error) -> Self {
        let location = location.to_owned();
        move |error| Self::Repository { location: location.clone(), doing, cause: error.into() }
    }

    /// Writes it with its cause, which it does not repeat.
    pub fn in_full(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }

    /// Tells whether damage of our own copy may be the cause, whatever the message: gix reads it while it talks to a server.
    pub(super) fn may_be_damage(&self) -> bool {
        matches!(
            self,
            Self::Repository { .. } | Self::ObjectMissing { .. } | Self::Remote { .. } | Self::Unreachable { .. }
        )
    }

    /// Names the path that could not be read or written; for `map_err`.
    pub(super) fn disk(path: &Path) -> impl Fn(std::io::Error) -> Self {
        |source| Self::Disk { path: path.to_owned(), source }
    }

    /// As [`Error::disk`]; what vanished meanwhile is a change, not a failure.
    pub(super) fn disk_or_change(path: &Path) -> impl Fn(std::io::Error) -> Self {
        |source| match source.kind() {
            std::io::ErrorKind::NotFound => Self::FolderChanged { path: path.to_owned() },
            _ => Self::Disk { path: path.to_owned(), source },
        }
    }

    /// Says why a location cannot be used.
    pub(super) fn unsupported(location: &str, reason: &'static str) -> Self {
        Self::UnsupportedLocation { location: location.to_owned(), reason }
    }

    /// Says why there is no repository at a location.
    pub(super) fn not_a_repository(location: &str, reason: &dyn std::fmt::Display) -> Self {
        Self::NotARepository { location: location.to_owned(), reason: reason.to_string() }
    }

    /// Classifies a server's error, from gix's classes and, without one, from the HTTP status in its message.
    ///
    /// A 401 is classified by gix as unauthenticated; other statuses come as `Received HTTP status N`. Before a pack is
    /// received nothing local is touched, so a denied permission is the server's: `connecting` says so.
    pub(super) fn remote(location: &str, error: &gix::Error, secrets: &Secrets, connecting: bool) -> Self {
        let location = location.to_owned();
        let cause = Cause::of(error, secrets);
        let says = |text: &str| cause.0.contains(text);
        let denied = error.is_unauthenticated()
            || says("HTTP status 401")
            || says("HTTP status 403")
            || (connecting && error.is_permission_denied());
        if denied {
            let reason = if secrets.0.is_empty() {
                "it wants a token: set `tokenFile`"
            } else {
                "the token is wrong, expired, or may not read it"
            };
            return Self::AccessDenied { location, reason, cause };
        }
        // Forges answer 404 for a private repository, too, so that nobody learns which ones exist.
        if says("HTTP status 404") || says("HTTP status 410") {
            let reason = "the server knows no such repository, or the token may not see it".to_owned();
            return Self::NotARepository { location, reason };
        }
        if says("invalid peer certificate") {
            let reason = "its certificate does not count. If it comes from an authority of your own, name that as \
                          `source.caFile`"
                .to_owned();
            return Self::Untrusted { location, reason, cause };
        }
        if error.can_retry_lenient() || says("HTTP status 5") || says("HTTP status 429") {
            return Self::Unreachable { location, cause };
        }
        Self::Remote { location, cause }
    }
}

impl Error {
    /// Returns what to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::AccessDenied { .. } | Self::Untrusted { .. } | Self::AccessFile { .. } => ErrorClass::Denied,
            // They pass by themselves: servers come back, locks go, a damaged mirror is cloned again.
            Self::Unreachable { .. }
            | Self::NoToken { .. }
            | Self::Timeout { .. }
            | Self::Interrupted { .. }
            | Self::Remote { .. }
            | Self::Disk { .. }
            | Self::FolderChanged { .. }
            | Self::Watch { .. }
            | Self::Damaged { .. }
            | Self::Repository { .. } => ErrorClass::Transient,
            Self::UnsupportedLocation { .. }
            | Self::SshProgram { .. }
            | Self::InsecureToken { .. }
            | Self::NotARepository { .. }
            | Self::Artifact { .. }
            | Self::EmptyRepository { .. }
            | Self::BranchMissing { .. }
            | Self::BranchName { .. }
            | Self::BranchCheckedOut { .. }
            | Self::PathMissing { .. }
            | Self::PullMissing { .. }
            | Self::Unrelated { .. }
            | Self::PathInvalid { .. }
            | Self::RevisionUnknown { .. }
            | Self::ObjectMissing { .. }
            | Self::BlobTooLarge { .. }
            | Self::FetchTooLarge { .. }
            | Self::SourceTooLarge { .. } => ErrorClass::Invalid,
            Self::PinName { .. } => ErrorClass::Bug,
        }
    }
}
