//! Requests to the source's thread, which is the only one that reads git.

use std::collections::BTreeSet;

use deliver::inventory::Held;
use model::commit::Commit;
use model::id::{CommitId, PlacementKey};
use model::manifest::InputError;
use plan::pull_request::Candidate;
use tokio::sync::oneshot;

/// A request to the source's thread.
pub enum SourceRequest {
    /// End the thread.
    End,
    /// Poll now.
    Poll,
    /// Accept a tip that does not descend from the accepted commit: a person said so.
    AcceptRewrite(CommitId),
    /// Release the commits that need not be kept any more.
    Retain {
        /// The commits that records name, as of the decisions about commits up to `at`.
        named: BTreeSet<CommitId>,
        /// The newest commit that the requester knew: every later accepted commit is kept.
        at: CommitId,
    },
    /// Read again what members hold of a placement. The source's events have the answer.
    ReadHeld(PlacementKey, Held),
    /// Read the tree that a merge of a pull request into the accepted commit would have.
    Candidate {
        /// The name of its source; empty where there is one.
        source: String,
        /// The pull request.
        number: u64,
        /// Its head commit, as the forge names it.
        head: CommitId,
        /// Fetch it from the server. Otherwise the commit must be local: in the branch of a repository that is read in place.
        fetch: bool,
        /// Receives the answer; may be closed.
        reply: oneshot::Sender<Result<Candidate, CandidateError>>,
    },
    /// The pull request is closed: drop what was fetched for it.
    Forget {
        /// The name of its source; empty where there is one.
        source: String,
        /// The pull request.
        number: u64,
    },
    /// Name the followed branch, if known.
    Branch {
        /// The name of its source; empty where there is one.
        source: String,
        /// Receives the branch's short name; `None` if there is none, or nothing was read yet.
        reply: oneshot::Sender<Option<String>>,
    },
    /// List the commits that the branch gained between two tips.
    Landed {
        /// The name of the source; empty where there is one.
        source: String,
        /// The earlier tip; without it only the later one is listed.
        from: Option<CommitId>,
        /// The later tip.
        to: CommitId,
        /// Receives the commits, newest first, or why they cannot be read.
        reply: oneshot::Sender<Result<Vec<Commit>, String>>,
    },
}

/// Why a pull request has no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateError {
    /// The merged files have errors: as a commit they would be refused.
    Refused(Vec<InputError>),
    /// It cannot be read, or has moved meanwhile; the reason as text for users. A retry may help.
    Unreadable(String),
}
