//! Sends what is due: one call, or a read and a call if the result of the last call is unknown.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Console;
use super::commit_rollout::Asked;
use super::origin::shown_digest;
use super::outbox::{SendOutcome, Slot, SlotContent, Write, is_set_already};
use crate::forge::{Error, Result};
use crate::model::forge::{Comment, ThreadNumber};
use crate::model::id::CommitId;
use crate::views::comments::rollout::{marker, marker_id};

impl Console {
    /// Sends one content. Its start is stored first.
    pub(super) async fn send(&mut self, write: Write) {
        let now = self.now();
        self.outbox.begins(&write, now);
        let ops = self.outbox.take_changed();
        let ops = ops.iter().map(|(slot, entry)| super::records::outbox_op(slot, entry.as_ref())).collect();
        self.write(ops).await;
        let outcome = match (&write.slot, &write.content) {
            (Slot::Comment { id }, SlotContent::Comment { thread, body }) => {
                let text = format!("{}{body}", marker(id, write.sequence));
                match self.put_comment(&write, id, *thread, &text).await {
                    Ok(Some(comment)) => {
                        self.note_comment(id, &comment, &text);
                        SendOutcome::Stands { comment: Some(comment.id) }
                    }
                    Ok(None) => SendOutcome::Gone,
                    Err(error) => SendOutcome::Failed(error),
                }
            }
            (Slot::Status { commit, .. }, SlotContent::Status(_)) => match self.put_status(&write, commit).await {
                Ok(()) => SendOutcome::Stands { comment: None },
                Err(error) => SendOutcome::Failed(error),
            },
            (Slot::Reaction { comment, reaction }, _) => match self.handles.forge.react(*comment, *reaction).await {
                Ok(()) => SendOutcome::Stands { comment: None },
                Err(error) => SendOutcome::Failed(error),
            },
            // A slot holds content of its own kind; another record has no effect.
            _ => SendOutcome::Stands { comment: write.comment },
        };
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
        // The call may have taken long: pauses count from its end.
        let now = self.now();
        self.outbox.ended(&write, outcome, now);
    }

    /// Returns the commit of a slot, if it belongs to one commit.
    pub(super) fn commit_of<'a>(&'a self, slot: &'a Slot) -> Option<&'a CommitId> {
        match slot {
            Slot::Status { commit, .. } => Some(commit),
            Slot::Comment { id } => {
                let mut commits = self.rollouts.iter().map(|rollout| &rollout.commit);
                commits.find(|commit| self.rollout_slot(commit) == *id)
            }
            Slot::Reaction { .. } => None,
        }
    }

    async fn put_comment(&self, write: &Write, id: &str, thread: ThreadNumber, text: &str) -> Result<Option<Comment>> {
        let forge = &self.handles.forge;
        if let Some(comment) = write.comment {
            return forge.update_comment(comment, text).await;
        }
        if write.unsure
            && let Some(found) = self.find_comment(id, thread).await?
        {
            // A host's answer to an edit may still have the time from before the edit.
            return match forge.update_comment(found.id, text).await? {
                Some(updated) => forge.comment(updated.id).await,
                None => Ok(None),
            };
        }
        forge.create_comment(thread, text).await.map(Some)
    }

    /// Searches for the comment with a marker. Anybody can write a marker, so only our own comments count.
    async fn find_comment(&self, id: &str, thread: ThreadNumber) -> Result<Option<Comment>> {
        let me = self.me.as_ref().map(|me| me.id);
        let comments = self.handles.forge.comments(thread, None).await?;
        Ok(comments.into_iter().find(|comment| Some(comment.author.id) == me && marker_id(&comment.body) == Some(id)))
    }

    async fn put_status(&self, write: &Write, commit: &CommitId) -> Result<()> {
        let SlotContent::Status(status) = &write.content else { return Ok(()) };
        if write.unsure && is_set_already(&self.handles.forge.statuses(commit).await?, status) {
            return Ok(());
        }
        self.handles.forge.set_status(commit, status).await
    }

    /// Records the content of a comment of gitfleet, and since when it is visible, by the forge's clock.
    fn note_comment(&mut self, id: &str, comment: &Comment, text: &str) {
        self.note_asked(id, comment, text);
        let rollout = self.rollouts.iter().find(|rollout| self.rollout_slot(&rollout.commit) == id);
        let Some(commit) = rollout.map(|rollout| rollout.commit.clone()) else { return };
        let now: Timestamp = comment.updated_at;
        if let Some(rollout) = self.rollouts.get_mut(&commit) {
            rollout.note_shown(now);
            rollout.url = Some(comment.url.clone());
        }
    }

    /// Records that a comment of gitfleet asks for a gate's approval, with its text.
    fn note_asked(&mut self, id: &str, comment: &Comment, text: &str) {
        let asks = self.rollouts.iter().find_map(|rollout| {
            let mut gates = rollout.gates();
            let (key, _, gate) = gates.find(|(key, _, gate)| self.gate_slot(&rollout.commit, key, gate) == id)?;
            let asked = Asked {
                placement: key.clone(),
                stage: gate.stage.clone(),
                digest: gate.digest.clone(),
                since: gate.since,
                comment: comment.id,
                text: shown_digest(text),
                at: comment.updated_at,
                heard: BTreeMap::new(),
            };
            Some((rollout.commit.clone(), asked))
        });
        if let Some((commit, asked)) = asks
            && let Some(rollout) = self.rollouts.get_mut(&commit)
        {
            rollout.note_asked(asked);
        }
    }

    /// Returns the error for an unknown conversation.
    pub(super) fn unknown(what: &str) -> Error {
        Error::NotFound { what: what.to_owned() }
    }
}
