//! Commands in comments, before they are resolved to a rollout.

use super::commands::Verb;

pub mod grammar;

/// The least number of characters of a commit id in a command.
pub const SHA_CHARS_MIN: usize = 7;

/// One command line of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatCommand {
    /// The command.
    pub verb: ChatVerb,
    /// The stage, or `deletion`.
    pub stage: Option<String>,
    /// `sha=`: the commit, or a prefix of its id, in lower case.
    pub sha: Option<String>,
    /// `placement=` or `fleet=`: the placement, as `NAME` or `NAMESPACE/NAME`.
    pub placement: Option<String>,
    /// `to=` of `rollback`: the target commit, or a prefix of its id.
    pub to: Option<String>,
    /// `cluster=` of `retry`.
    pub cluster: Option<String>,
    /// `--all`: every waiting gate.
    pub all: bool,
    /// The text after ` -- `.
    pub reason: Option<String>,
}

impl ChatCommand {
    /// Returns the command without any argument.
    pub fn bare(verb: ChatVerb) -> Self {
        Self { verb, stage: None, sha: None, placement: None, to: None, cluster: None, all: false, reason: None }
    }
}

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChatVerb {
    /// Approve a gate.
    Approve,
    /// Reject a gate.
    Reject,
    /// Start nothing new.
    Pause,
    /// Continue.
    Resume,
    /// Return to an earlier snapshot.
    Rollback,
    /// Try again.
    Retry,
    /// Update the comment now.
    Status,
    /// List the commands.
    Help,
}

impl ChatVerb {
    /// Returns what it does to a rollout; `None` for those that only show something.
    pub fn verb(self) -> Option<Verb> {
        match self {
            Self::Approve => Some(Verb::Approve),
            Self::Reject => Some(Verb::Reject),
            Self::Pause => Some(Verb::Pause),
            Self::Resume => Some(Verb::Resume),
            Self::Rollback => Some(Verb::Rollback),
            Self::Retry => Some(Verb::Retry),
            Self::Status | Self::Help => None,
        }
    }
}

/// The commands in a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chat {
    /// None: no line is a command of gitfleet.
    Silence,
    /// None, but the first word of a line is a known command with one mistyped letter.
    Misspelt,
    /// These commands, in order; all or none.
    Commands(Vec<ChatCommand>),
    /// An invalid command; why, and what to write instead, safe to print.
    Mistake(String),
}
