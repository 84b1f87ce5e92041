//! What people do with comments, reactions, reviews and branches of the fake.

use super::Fake;
use forge::webhook::text_digest;
use model::forge::{Approval, Part, Reacted, Reaction, Said, ThreadNumber};
use model::id::CommitId;

impl Fake {
    /// Holds the answers of `set_status`, `comment` or `create_comment` back, until they are not held any more.
    pub fn hold(&self, method: &'static str, is_held: bool) {
        let mut state = self.state();
        if is_held {
            state.held.insert(method)
        } else {
            state.held.remove(method)
        };
    }

    /// Waits until an answer is not held back.
    pub(super) async fn answers(&self, method: &'static str) {
        while self.state().held.contains(method) {
            tokio::task::yield_now().await;
        }
    }

    /// From now on tells nobody whether comments were changed, as a Gitea that not everybody may read.
    pub fn hide_history(&self) {
        self.state().hides_history = true;
    }

    /// Returns a comment as the delivery of its creation has it.
    pub fn said(&self, id: u64) -> Option<Said> {
        let state = self.state();
        let author = state.comments.get(&id)?.author.id;
        Some(Said { author, body: text_digest(state.written.get(&id)?) })
    }

    /// Gives a comment a reaction as somebody.
    pub fn react_as(&self, login: &str, comment: u64, reaction: Reaction) {
        let by = self.add_user(login);
        self.state().give(by, comment, reaction);
    }

    /// Takes back what somebody gave to a comment.
    pub fn take_back(&self, login: &str, comment: u64) {
        let by = self.add_user(login);
        let mut state = self.state();
        let given: &mut Vec<(Reaction, Reacted)> = state.reactions.entry(comment).or_default();
        given.retain(|(_, given)| given.by != by);
    }

    /// Approves a pull request in a review, as somebody who read this commit.
    pub fn review(&self, login: &str, pull: ThreadNumber, commit: &CommitId) -> u64 {
        let by = self.add_user(login);
        let mut state = self.state();
        let id = state.approvals.values().map(Vec::len).sum::<usize>() as u64 + 1;
        let url = format!("https://forge.example/o/r/pulls/{pull}#pullrequestreview-{id}");
        let approval = Approval { id, by, commit: commit.clone(), at: state.now, url };
        state.approvals.entry(pull).or_default().push(approval);
        id
    }

    /// Withdraws a review.
    pub fn dismiss(&self, pull: ThreadNumber, review: u64) {
        self.state().approvals.entry(pull).or_default().retain(|approval| approval.id != review);
    }

    /// Lets somebody write or push a commit of a pull request; the host knows whose it is.
    pub fn commit_as(&self, login: &str, pull: ThreadNumber, commit: &CommitId, part: Part) {
        let by = self.add_user(login);
        self.add_commit(commit);
        let mut state = self.state();
        let commits = state.pull_commits.entry(pull).or_default();
        commits.head = Some(commit.clone());
        commits.all.insert(commit.clone());
        match part {
            Part::Authored => commits.authors.push(by),
            Part::Pushed => commits.pushers.push(by),
            Part::Opened | Part::Merged => {}
        }
    }
}
