//! Words that statuses and comments share.

use jiff::Timestamp;

use crate::model::id::{CommitId, PlacementKey};
use crate::model::progress::ProgressState;

/// How we speak in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandStyle {
    /// Commands begin with a mere slash; else with `/gitfleet `.
    pub short: bool,
    /// Who may approve where a strategy does not say: the names of the configuration, or the permission that is needed.
    pub approvers: String,
    /// A command in a comment counts, because it can be known that nobody changed it.
    pub comments_count: bool,
    /// The host takes approving reviews of what is merged.
    pub reviews_count: bool,
}

impl CommandStyle {
    /// Returns a command line to copy; `None` where a name of it is none, so that nothing foreign gets in.
    pub fn line(
        &self,
        verb: &str,
        stage: Option<&str>,
        placement: Option<&PlacementKey>,
        commit: &CommitId,
    ) -> Option<String> {
        let is_name = |text: &str| {
            let is_known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
            !text.is_empty() && text.bytes().all(is_known)
        };
        let sha = commit.short();
        let names = stage
            .into_iter()
            .chain(placement.map(|key| &*key.name))
            .chain(placement.and_then(|key| key.namespace.as_deref()));
        if !names.chain([sha]).all(is_name) {
            return None;
        }
        let stage = stage.map(|stage| format!(" {stage}")).unwrap_or_default();
        let placement = placement.map(|key| format!(" placement={key}")).unwrap_or_default();
        Some(format!("{}{verb}{stage}{placement} sha={sha}", self.prefix()))
    }

    /// Returns what commands begin with.
    pub fn prefix(&self) -> &'static str {
        if self.short { "/" } else { "/gitfleet " }
    }
}

/// Returns how something stands, in a word or two, safe wherever they stand.
pub fn state_words(state: &ProgressState) -> String {
    let words = match state {
        ProgressState::Queued => "not begun",
        ProgressState::Moving => "on the way",
        ProgressState::WaitingForPerson => "waiting for approval",
        ProgressState::Waiting => "waiting",
        ProgressState::Paused => "paused",
        ProgressState::Done => "done",
        ProgressState::Skipped => "skipped",
        ProgressState::Failed => "failed",
        ProgressState::Error => "cannot be carried out",
        ProgressState::Rejected => "rejected",
        ProgressState::Superseded { by } => return format!("superseded by {}", short(by)),
        ProgressState::RolledBack { to } => return format!("rolled back to {}", short(to)),
    };
    words.to_owned()
}

/// Returns a commit for people, safe wherever it stands.
pub fn short(commit: &CommitId) -> String {
    commit.short().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Returns the sign of a state, for a glance.
pub fn sign(state: &ProgressState) -> &'static str {
    match state {
        ProgressState::Queued | ProgressState::Skipped => "⚪",
        ProgressState::Moving => "🔵",
        ProgressState::WaitingForPerson => "✋",
        ProgressState::Waiting | ProgressState::Paused => "🟡",
        ProgressState::Done => "✅",
        ProgressState::Failed | ProgressState::Error | ProgressState::Rejected => "❌",
        ProgressState::Superseded { .. } => "⏩",
        ProgressState::RolledBack { .. } => "↩",
    }
}

/// Returns an instant for people.
pub fn when(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
