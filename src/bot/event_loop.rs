//! What the bot does next: it takes in what happened, writes, and reads.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::outbox::{Next, Slot, Write};
use super::{Console, FAR, FIND_AGAIN};
use model::forge::ForgeEvent;

/// Waits for a webhook; forever without them.
async fn next_hint(hints: &mut Option<mpsc::Receiver<ForgeEvent>>) -> Option<ForgeEvent> {
    match hints {
        Some(hints) => hints.recv().await,
        None => std::future::pending().await,
    }
}

impl Console {
    /// # Cancel safety
    /// May be dropped at any point: a write is stored before it starts, and the next process asks for its result.
    pub(super) async fn run(&mut self) {
        loop {
            if self.turn().await {
                continue;
            }
            let pause = self.until(self.next_wake());
            if !self.happens(pause).await {
                return;
            }
        }
    }

    fn until(&self, at: Timestamp) -> Duration {
        at.duration_since(self.now()).try_into().unwrap_or_default()
    }

    /// Waits until something happens, and takes it in. Returns whether anything can still happen.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    async fn happens(&mut self, pause: Duration) -> bool {
        tokio::select! {
            message = self.inbox.recv() => match message {
                Some(message) => self.take(message),
                None => return false,
            },
            Some(hint) = next_hint(&mut self.handles.hints) => self.hint(hint),
            Some(sent) = self.sends.join_next() => self.sent(sent),
            () = self.pulls.wait() => {}
            () = tokio::time::sleep(pause) => {}
        }
        true
    }

    /// Takes in what happened so far.
    fn take_in(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.take(message);
        }
        while let Some(hint) = self.handles.hints.as_mut().and_then(|hints| hints.try_recv().ok()) {
            self.hint(hint);
        }
        while let Some(plan) = self.pulls.finished() {
            self.planned(plan);
        }
        while let Some(sent) = self.sends.try_join_next() {
            self.sent(sent);
        }
    }

    /// Waits for an answer. Meanwhile takes in what happens and writes what is due: no status waits for a read, and no push for
    /// being polled.
    pub(super) async fn ask<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        loop {
            let due = match self.outbox.next(self.now()) {
                Next::At(at) => at,
                Next::Write(_) | Next::Nothing => self.now() + FAR,
            };
            let pause = self.until(due);
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                is_open = self.happens(pause) => if !is_open {
                    return answer.await;
                },
            }
            self.take_in();
            self.keep().await;
        }
    }

    /// Takes in what happened, writes what is due, and does the first other thing that is due. Returns whether there was
    /// anything.
    pub(super) async fn turn(&mut self) -> bool {
        self.take_in();
        let has_begun = self.keep().await;
        if self.act().await || has_begun {
            return true;
        }
        if self.is_done()
            && let Some(finished) = self.finishing.take()
        {
            // The receiver may be gone.
            let _ = finished.send(());
        }
        false
    }

    /// Reads the first thing that is to be read, or starts a plan. Returns whether there was one.
    async fn act(&mut self) -> bool {
        let now = self.now();
        // Only reads wait: writes have their own pauses, and a status may be written after a failed read.
        if self.read_after.is_some_and(|at| at > now) {
            return false;
        }
        // Before any comment is read: the account's name tells our comments from others.
        if self.me.is_none() {
            return self.introduce().await;
        }
        if let Some((thread, id)) = self.to_read.pop_front() {
            self.read_comment(thread, id).await;
            return true;
        }
        // The delivery of its creation did not arrive in time: it is evaluated without.
        if let Some((id, (thread, _))) = self.awaited.iter().find(|(_, (_, until))| *until <= now) {
            let (thread, id) = (*thread, *id);
            self.read_comment(thread, id).await;
            return true;
        }
        // Before the search for conversations: the one of a merge is the pull request that was merged.
        if self.read_next_pull(now).await {
            return true;
        }
        if let Some((commit, _)) = self.to_find.iter().find(|(_, at)| **at <= now) {
            let commit = commit.clone();
            // If the search fails, for example on a host without issues, the others get their turn first.
            self.to_find.insert(commit.clone(), now + FIND_AGAIN);
            self.find_thread(&commit).await;
            return true;
        }
        if self.look_at <= now {
            self.look(now).await;
            return true;
        }
        if let Some(thread) = self.to_list.pop_first() {
            self.list_comments(thread).await;
            return true;
        }
        if let Some(commit) = self.to_count.pop_first() {
            self.count_votes(&commit).await;
            return true;
        }
        self.plan_next(now).await
    }

    /// Tells whether a write is possible: statuses always, comments only once our account is known, because we could not find
    /// them again otherwise.
    pub(super) fn is_known(&self, write: &Write) -> bool {
        self.me.is_some() || !matches!(write.slot, Slot::Comment { .. })
    }

    pub(super) fn next_wake(&self) -> Timestamp {
        let now = self.now();
        let due = match self.outbox.next(now) {
            Next::At(at) => Some(at),
            // A due comment waits until our account is known; the reads below wake up for that. Other writes wait for one that is
            // under way, whose end wakes up.
            Next::Write(_) | Next::Nothing => None,
        };
        // Nothing can be planned before the accepted commit is known.
        let pulls = self.pulls.next_wake().filter(|_| self.tree.is_some());
        let awaited = self.awaited.values().map(|(_, until)| *until);
        let read = self.to_find.values().copied().chain([self.look_at]).chain(pulls).chain(awaited).min();
        let has_reading =
            !self.to_read.is_empty() || !self.to_list.is_empty() || !self.to_count.is_empty() || self.me.is_none();
        let read = read.filter(|_| !has_reading).or(Some(now));
        // Failed reads are not repeated before their pause is over.
        let read = read.max(self.read_after);
        due.into_iter().chain(read).min().unwrap_or(now + FAR)
    }

    /// Tells whether nothing is left to write that can be written now.
    fn is_done(&self) -> bool {
        self.outbox.waiting() == 0 && self.sends.is_empty() && self.to_find.is_empty() && !self.pulls.is_busy()
    }
}
