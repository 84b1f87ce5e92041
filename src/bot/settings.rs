//! The settings of a bot, and the ids that its comments are found by.

use std::collections::BTreeSet;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::links::Links;
use config::{Notify, Plans, Statuses};
use model::forge::{Part, ThreadNumber};
use model::id::{CommitId, PlacementKey};
use model::progress::GateProgress;
use model::runs::ApprovalRules;
use views::comments::style::CommandStyle;
use views::redact::MaskKey;

/// Characters of a marker's id: 64 bits, so that a million comments do not collide by accident.
const MARK_CHARS: usize = 16;

/// The settings of the bot.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Identity of our source, which marks our comments.
    pub source: String,
    /// The name of the source whose repository this is; empty where there is one source.
    pub name: String,
    /// How often the forge is polled without webhooks.
    pub poll_interval: Duration,
    /// When a new comment is written.
    pub notify: BTreeSet<Notify>,
    /// Which pull requests get plans.
    pub plans: Plans,
    /// Which commit statuses a rollout has.
    pub statuses: Statuses,
    /// Where they link to.
    pub links: Links,
    /// How commands are written.
    pub voice: CommandStyle,
    /// Who may approve.
    pub approvals: Approvals,
    /// The key for marks of hidden values in plans.
    pub mask: MaskKey,
    /// Pull requests can be fetched from the source.
    pub fetches: bool,
}

/// Who may approve, as the configuration says it.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    /// The configured rules.
    pub rules: ApprovalRules,
    /// Configured approvers: the bot asks for the members of their teams.
    pub approvers: Vec<String>,
    /// Those of folders and tenants, who may approve only rollouts of placements there.
    pub approvers_by_path: Vec<String>,
    /// What counts as contributing to a change: contributors do not approve it.
    pub parts: BTreeSet<Part>,
}

impl Settings {
    /// Returns the id of a comment's marker. It depends only on the comment's purpose, so that a process without records finds
    /// its comments again.
    pub(crate) fn mark(&self, parts: &[&str]) -> String {
        let mut hash = Sha256::new().chain_update(&self.source);
        for part in parts {
            // With its length: otherwise different parts could join to the same id.
            hash = hash.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
        }
        format!("{:x}", hash.finalize())[..MARK_CHARS].to_owned()
    }

    /// Returns the marker of the comment about a commit's rollout.
    pub(crate) fn rollout_slot(&self, commit: &CommitId) -> String {
        self.mark(&["rollout", commit.as_str()])
    }

    /// Returns the marker of the comment with a pull request's plan.
    pub(crate) fn plan_slot(&self, number: ThreadNumber) -> String {
        self.mark(&["plan", &number.to_string()])
    }

    /// Returns the mark of a gate: a new one each time the gate waits again.
    pub(crate) fn gate_mark(&self, commit: &CommitId, placement: &PlacementKey, gate: &GateProgress) -> String {
        let key = placement.to_string();
        let since = gate.since.as_nanosecond().to_string();
        self.mark(&["gate", commit.as_str(), &key, &gate.stage, gate.digest.as_str(), &since])
    }
}

impl Approvals {
    /// Returns all configured approvers.
    pub(crate) fn configured(&self) -> impl Iterator<Item = &str> {
        self.approvers.iter().chain(&self.approvers_by_path).map(String::as_str)
    }
}
