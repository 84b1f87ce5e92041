//! Sends what is due: each write is one call, or a read and a call if the result of the last call is unknown. Writes of different
//! slots are under way together.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinError;
use tracing::Instrument as _;

use super::Console;
use super::commit_rollout::CommitRollout;
use super::origin::shown_digest;
use super::outbox::{Next, SendOutcome, Slot, SlotContent, Write, is_set_already};
use forge::{Error, Forge, Result};
use model::forge::{Comment, ThreadNumber};
use model::id::{CommitId, PlacementKey};
use model::progress::GateProgress;
use views::comments::rollout::{marker, marker_id, stamped};
use views::comments::statuses::ROLLOUT_CONTEXT;

/// A write with everything that it needs: the bot continues meanwhile.
pub(super) struct Sending {
    forge: Arc<dyn Forge>,
    /// The id of our own account.
    me: Option<u64>,
    write: Write,
    shows: Option<Shows>,
}

/// The gates in a text.
struct Shows {
    /// The rollout's commit.
    commit: CommitId,
    /// Those that the text shows.
    gates: Vec<(PlacementKey, GateProgress)>,
    /// Those of them that a reaction to the comment approves.
    asks: Vec<(PlacementKey, GateProgress)>,
}

/// A write that has ended.
pub(super) struct Sent {
    sending: Sending,
    outcome: SendOutcome,
    /// The comment as the forge has it, with our text.
    comment: Option<(Comment, String)>,
}

impl Sending {
    async fn carry_out(self) -> Sent {
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
        let is_ours = |comment: &Comment| Some(comment.author.id) == self.me;
        Ok(comments.into_iter().find(|comment| is_ours(comment) && marker_id(&comment.body) == Some(id)))
    }

    async fn put_status(&self, commit: &CommitId) -> Result<()> {
        let SlotContent::Status(status) = &self.write.content else { return Ok(()) };
        if self.write.unsure && is_set_already(&self.forge.statuses(commit).await?, status) {
            return Ok(());
        }
        self.forge.set_status(commit, status).await
    }
}

impl Console {
    /// Begins the writes that are due, as many as may be under way. Their start must be stored before they are started.
    pub(super) fn begin_writes(&mut self, now: Timestamp) -> Vec<Sending> {
        let mut begun = Vec::new();
        while let Next::Write(write) = self.outbox.next(now)
            && self.is_known(&write)
        {
            self.outbox.begins(&write, now);
            let shows = match &write.slot {
                Slot::Comment { id } => self.rollout_of(id).map(|rollout| self.shows(rollout, id)),
                _ => None,
            };
            let (forge, me) = (self.forge(), self.me.as_ref().map(|me| me.id));
            begun.push(Sending { forge, me, write: *write, shows });
        }
        begun
    }

    pub(super) fn start(&mut self, sending: Sending) {
        let commit =
            self.commit_of(&sending.write.slot).map(|commit| tracing::field::display(commit.short().to_owned()));
        let span = tracing::error_span!("message", commit);
        self.sends.spawn(sending.carry_out().instrument(span));
    }

    /// Takes in the result of a write.
    pub(super) fn sent(&mut self, ended: std::result::Result<Sent, JoinError>) {
        let Sent { sending, outcome, comment } = match ended {
            Ok(sent) => sent,
            // Nobody cancels a write: it panicked, and the bot is begun again.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let (write, now) = (sending.write, self.now());
        // The pause that a host asks for applies to all calls, so reads wait too.
        if let SendOutcome::Failed(Error::RateLimited { wait, .. }) = &outcome {
            self.read_after =
                self.read_after.max(SignedDuration::try_from(*wait).ok().and_then(|w| now.checked_add(w).ok()));
        }
        match &outcome {
            SendOutcome::Failed(error) => self.warn(error, now),
            SendOutcome::Stands { .. } => tracing::debug!(slot = write.slot.key(), "sent to the forge"),
            SendOutcome::Gone => {
                tracing::warn!(slot = write.slot.key(), "a comment of ours was deleted; it is written again");
            }
        }
        if let (Slot::Comment { id }, Some((comment, text)), Some(shows)) = (&write.slot, &comment, &sending.shows) {
            let is_main = *id == self.rollout_slot(&shows.commit);
            if let Some(rollout) = self.rollouts.get_mut(&shows.commit) {
                // Since when it is visible, by the forge's clock.
                rollout.note_shown(&shows.gates, comment.updated_at);
                rollout.note_asked(comment, &shown_digest(text), &shows.asks);
                if is_main && rollout.url.replace(comment.url.clone()).is_none() {
                    // A status that was written before links to less.
                    self.outbox
                        .doubt(&Slot::Status { commit: shows.commit.clone(), context: ROLLOUT_CONTEXT.to_owned() });
                }
            }
        }
        self.outbox.ended(&write, outcome, now);
    }

    /// Returns the commit of a slot, if it belongs to one commit.
    pub(super) fn commit_of<'a>(&'a self, slot: &'a Slot) -> Option<&'a CommitId> {
        match slot {
            Slot::Status { commit, .. } => Some(commit),
            Slot::Comment { id } => self.rollout_of(id).map(|rollout| &rollout.commit),
            Slot::Reaction { .. } => None,
        }
    }

    /// Returns the rollout that a comment belongs to, by the comment's marker.
    fn rollout_of(&self, id: &str) -> Option<&CommitRollout> {
        self.rollouts.iter().find(|rollout| {
            rollout.notices.iter().any(|notice| notice.id == id) || self.rollout_slot(&rollout.commit) == id
        })
    }

    /// Returns the gates that a comment about a rollout shows.
    fn shows(&self, rollout: &CommitRollout, id: &str) -> Shows {
        let notice = rollout.notices.iter().find(|notice| notice.id == id);
        let (mut gates, mut asks) = (Vec::new(), Vec::new());
        for (key, _, gate) in rollout.gates() {
            let is_asked =
                notice.is_some_and(|notice| notice.needs.contains(&self.gate_mark(&rollout.commit, key, gate)));
            if is_asked && notice.is_some_and(|notice| notice.takes_reaction_for(gate)) {
                asks.push((key.clone(), gate.clone()));
            }
            // The rollout's own comment shows all of them.
            if is_asked || self.rollout_slot(&rollout.commit) == id {
                gates.push((key.clone(), gate.clone()));
            }
        }
        Shows { commit: rollout.commit.clone(), gates, asks }
    }

    /// Returns the error for an unknown conversation.
    pub(super) fn unknown(what: &str) -> Error {
        Error::NotFound { what: what.to_owned() }
    }
}
