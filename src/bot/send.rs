//! Sends what is due: each write is one call, or a read and a call if the result of the last call is unknown. Writes of different
//! slots are under way together.

use std::sync::Arc;

use super::commit_rollout::CommitRollout;
use super::outbox::{SendOutcome, Slot, SlotContent, Write, is_set_already};
use super::settings::Settings;
use forge::{Forge, Result};
use model::forge::{Comment, ThreadNumber};
use model::id::{CommitId, PlacementKey};
use model::progress::GateProgress;
use views::comments::rollout::{marker, marker_id, stamped};

/// A write with everything that it needs: the bot continues meanwhile.
pub(crate) struct Sending {
    forge: Arc<dyn Forge>,
    /// The id of our own account.
    me: Option<u64>,
    pub write: Write,
    pub shows: Option<Shows>,
}

/// The gates in a text.
pub(crate) struct Shows {
    /// The rollout's commit.
    pub commit: CommitId,
    /// The text is that of the rollout's own comment.
    pub is_main: bool,
    /// Those that the text shows.
    pub gates: Vec<(PlacementKey, GateProgress)>,
    /// Those of them that a reaction to the comment approves.
    pub asks: Vec<(PlacementKey, GateProgress)>,
}

/// A write that has ended.
pub(crate) struct Sent {
    pub sending: Sending,
    pub outcome: SendOutcome,
    /// The comment as the forge has it, with our text.
    pub comment: Option<(Comment, String)>,
}

impl Sending {
    /// Prepares a write. `rollout` is the one that a comment belongs to.
    pub(crate) fn new(
        forge: Arc<dyn Forge>,
        me: Option<u64>,
        write: Write,
        rollout: Option<&CommitRollout>,
        settings: &Settings,
    ) -> Self {
        let shows = match (&write.slot, rollout) {
            (Slot::Comment { id }, Some(rollout)) => Some(Shows::of(rollout, id, settings)),
            _ => None,
        };
        Self { forge, me, write, shows }
    }

    /// Makes the write.
    pub(crate) async fn carry_out(self) -> Sent {
        let mut comment = None;
        let done = match (&self.write.slot, &self.write.content) {
            (Slot::Comment { id }, SlotContent::Comment { thread, body, of }) => {
                let body = of.map_or_else(|| body.clone(), |of| stamped(body, of));
                let text = format!("{}{body}", marker(id, self.write.sequence));
                self.put_comment(id, *thread, &text).await.map(|written| match written {
                    Some(written) => {
                        let id = written.id;
                        comment = Some((written, text));
                        SendOutcome::Stands { comment: Some(id) }
                    }
                    None => SendOutcome::Gone,
                })
            }
            (Slot::Status { commit, .. }, SlotContent::Status(_)) => {
                self.put_status(commit).await.map(|()| SendOutcome::Stands { comment: None })
            }
            (Slot::Reaction { comment, reaction }, _) => {
                self.forge.react(*comment, *reaction).await.map(|()| SendOutcome::Stands { comment: None })
            }
            // A slot holds content of its own kind; another record has no effect.
            _ => Ok(SendOutcome::Stands { comment: self.write.comment }),
        };
        Sent { outcome: done.unwrap_or_else(SendOutcome::Failed), comment, sending: self }
    }

    async fn put_comment(&self, id: &str, thread: ThreadNumber, text: &str) -> Result<Option<Comment>> {
        if let Some(comment) = self.write.comment {
            return self.forge.update_comment(comment, text).await;
        }
        if self.write.unsure
            && let Some(found) = self.find_comment(id, thread).await?
        {
            // A host's answer to an edit may still have the time from before the edit.
            return match self.forge.update_comment(found.id, text).await? {
                Some(updated) => self.forge.comment(updated.id).await,
                None => Ok(None),
            };
        }
        self.forge.create_comment(thread, text).await.map(Some)
    }

    /// Searches for the comment with a marker. Anybody can write a marker, so only our own comments count.
    async fn find_comment(&self, id: &str, thread: ThreadNumber) -> Result<Option<Comment>> {
        let comments = self.forge.comments(thread, None).await?;
        Ok(comments
            .into_iter()
            .find(|comment| Some(comment.author.id) == self.me && marker_id(&comment.body) == Some(id)))
    }

    async fn put_status(&self, commit: &CommitId) -> Result<()> {
        let SlotContent::Status(status) = &self.write.content else { return Ok(()) };
        if self.write.unsure && is_set_already(&self.forge.statuses(commit).await?, status) {
            return Ok(());
        }
        self.forge.set_status(commit, status).await
    }
}

impl Shows {
    /// Returns the gates that a comment about a rollout shows, by the comment's marker.
    fn of(rollout: &CommitRollout, id: &str, settings: &Settings) -> Self {
        let notice = rollout.notices.iter().find(|notice| notice.id == id);
        let is_main = settings.rollout_slot(&rollout.commit) == id;
        let mut gates = Vec::new();
        let mut asks = Vec::new();
        for (key, _, gate) in rollout.gates() {
            let mark = settings.gate_mark(&rollout.commit, key, gate);
            let asking = notice.filter(|notice| notice.needs.contains(&mark));
            if asking.is_some_and(|notice| notice.takes_reaction_for(gate)) {
                asks.push((key.clone(), gate.clone()));
            }
            // The rollout's own comment shows all of them.
            if asking.is_some() || is_main {
                gates.push((key.clone(), gate.clone()));
            }
        }
        Self { commit: rollout.commit.clone(), is_main, gates, asks }
    }
}
