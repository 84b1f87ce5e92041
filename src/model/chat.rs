//! Commands as people write them into comments: what was asked for, before anybody knows what it means for which rollout.

/// Characters of a commit that a person must write at least.
pub const SHA_CHARS_MIN: usize = 7;

/// One command line of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatCommand {
    /// What.
    pub verb: ChatVerb,
    /// The stage, or `deletion`.
    pub stage: Option<String>,
    /// `sha=`: the commit that is meant, or the beginning of it, in lower case.
    pub sha: Option<String>,
    /// `placement=` or `fleet=`: the placement, as `NAME` or `NAMESPACE/NAME`.
    pub placement: Option<String>,
    /// `to=` of `rollback`: the commit to return to, or the beginning of it.
    pub to: Option<String>,
    /// `cluster=` of `retry`.
    pub cluster: Option<String>,
    /// `--all`: every gate that waits.
    pub all: bool,
    /// What follows ` -- `.
    pub reason: Option<String>,
}

impl ChatCommand {
    /// Returns the command without any argument.
    pub fn bare(verb: ChatVerb) -> Self {
        Self { verb, stage: None, sha: None, placement: None, to: None, cluster: None, all: false, reason: None }
    }
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChatVerb {
    /// Approve a gate.
    Approve,
    /// Say no at a gate.
    Reject,
    /// Start nothing new.
    Pause,
    /// Go on.
    Resume,
    /// Return to an earlier snapshot.
    Rollback,
    /// Try again.
    Retry,
    /// Bring the comment up to date now.
    Status,
    /// List the commands.
    Help,
}

/// What a comment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chat {
    /// Nothing: no line is a command of ours.
    Silence,
    /// These commands, in order; all or none.
    Commands(Vec<ChatCommand>),
    /// Something of ours that cannot be done as it is written; why, and what to write instead, safe to print.
    Mistake(String),
}
