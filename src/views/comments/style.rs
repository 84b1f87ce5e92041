//! Wording that statuses and comments share.

use std::collections::BTreeSet;

use jiff::Timestamp;

use model::id::{CommitId, PlacementKey};
use model::moment::moment;
use model::progress::ProgressState;

/// The style of commands in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandStyle {
    /// Commands start with a slash only; else with `/gitfleet `.
    pub short: bool,
    /// Who may approve if a strategy does not say so: the configured names, or the required permission.
    pub approvers: String,
    /// Commands in comments count, because the host can prove that nobody edited them.
    pub comments_count: bool,
    /// The host accepts approving reviews of merged pull requests.
    pub reviews_count: bool,
    /// The other sources whose commits are part of what waits: the people who made those are not known in this repository, so nobody
    /// approves it here.
    pub made_elsewhere: BTreeSet<String>,
}

impl CommandStyle {
    /// Returns why nobody approves in this repository, if that is so.
    pub fn no_approval(&self) -> Option<String> {
        let names: Vec<&str> = self.made_elsewhere.iter().map(String::as_str).collect();
        let names = names.join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "commits of other sources ({names}) are part of what waits, and this repository does not know who made those; approve it \
                 with gitfleet approve, on the command line, or on the page"
            )
        })
    }

    /// Returns a command line to copy; `None` if one of its names is invalid, so that no foreign text gets in, and for an approval that does
    /// not count here.
    pub fn line(
        &self,
        verb: &str,
        stage: Option<&str>,
        placement: Option<&PlacementKey>,
        commit: &CommitId,
    ) -> Option<String> {
        if verb == "approve" && !self.made_elsewhere.is_empty() {
            return None;
        }
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

    /// Returns the prefix of commands.
    pub fn prefix(&self) -> &'static str {
        if self.short { "/" } else { "/gitfleet " }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

/// Returns a state in a word or two, safe in any place.
pub fn state_text(state: &ProgressState) -> String {
    let message = match state {
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
    message.to_owned()
}

/// Returns a short commit id, safe in any place.
pub fn short(commit: &CommitId) -> String {
    commit.short().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Returns the symbol of a state.
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

/// Returns the moment that a text is of.
pub fn as_of(at: Timestamp) -> String {
    format!("as of {}", moment(at))
}

/// Returns an instant as text for users.
pub fn when(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
