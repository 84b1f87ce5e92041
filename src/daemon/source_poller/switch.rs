//! A switch of the branch that is checked out in a local repository.

use super::branch::Branch;
use engine::SourceEvent;
use model::id::CommitId;

impl Branch {
    /// Describes the switch if another branch than the followed one is checked out, unless a person accepted its tip.
    pub(super) fn switched(&mut self, tip: &CommitId) -> Option<String> {
        if !self.source.follows_checkout() {
            return None;
        }
        let now = self.source.tip().and_then(|tip| tip.branch.clone());
        match &self.checked_out {
            Some(followed) if now.as_ref() != Some(followed) && self.accepted_rewrite.as_ref() != Some(tip) => {
                let now = now.map_or_else(|| "no branch".to_owned(), |now| format!("the branch {now}"));
                return Some(format!("{now} is checked out, and {followed} was followed"));
            }
            // A branch that a person accepted replaces the earlier one: the core must learn of it.
            followed => self.checkout_reported &= *followed == now,
        }
        self.checked_out = now;
        if !std::mem::replace(&mut self.checkout_reported, true)
            && let Some(branch) = self.checked_out.clone()
        {
            self.send(SourceEvent::Follows(branch));
        }
        None
    }
}
