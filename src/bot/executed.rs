//! Commands that were executed and whose comments are not recorded as handled yet.
//!
//! A daemon that ends between the two leaves the next one to read the comment again. That one answers as the first would have, and
//! executes only the commands that the first did not come to.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::comment_policy::COMMENT_AGE_MAX;
use engine::store::records::executed_key;
use engine::store::{Expected, Op};
use model::chat::{ChatCommand, ChatVerb};
use model::commands::{Command, Done, ExecutedCommand, Person};
use model::forge::Comment;

/// The executed commands, by the keys of their records.
#[derive(Debug, Default)]
pub(crate) struct Executions {
    known: BTreeMap<String, ExecutedCommand>,
    /// Keys of records to delete.
    settled: BTreeSet<String>,
}

impl Executions {
    /// Restores what an earlier process left.
    pub(crate) fn restore(known: BTreeMap<String, ExecutedCommand>) -> Self {
        Self { known, settled: BTreeSet::new() }
    }

    /// Returns the answer to a command that was executed.
    pub(crate) fn answer(&self, command: &Command, person: &Person) -> Option<&str> {
        self.known.values().find(|known| known.is_of(command, person)).map(|known| known.message.as_str())
    }

    /// Notes a command that was executed just now.
    pub(crate) fn add(&mut self, command: &Command, person: &Person, done: &Done) {
        if let Some(executed) = ExecutedCommand::of(command, person, done) {
            self.known.insert(executed_key(&executed), executed);
        }
    }

    /// Returns what was executed of a comment, oldest first.
    pub(crate) fn of(&self, comment: &Comment) -> Vec<&ExecutedCommand> {
        let mut found: Vec<&ExecutedCommand> = self.known.values().collect();
        found.retain(|known| known.comment == comment.url && known.author == comment.author.id);
        found.sort_by(|a, b| (a.at, &a.target, &a.stage, a.verb).cmp(&(b.at, &b.target, &b.stage, b.verb)));
        found
    }

    /// Returns the answers to what was executed of a comment, oldest first.
    pub(crate) fn answers(&self, comment: &Comment) -> Vec<String> {
        self.of(comment).into_iter().map(|known| known.message.clone()).collect()
    }

    /// Tells whether this command of a comment was executed.
    pub(crate) fn has(&self, comment: &Comment, command: &Command) -> bool {
        let key = (command.verb, &command.target, &command.stage);
        self.of(comment).into_iter().any(|known| (known.verb, &known.target, &known.stage) == key)
    }

    /// Tells whether anything was executed that a line of a comment meant.
    pub(crate) fn has_of_line(&self, comment: &Comment, line: &ChatCommand) -> bool {
        self.of(comment).into_iter().any(|known| {
            let is_named = line.stage.is_none() || known.stage == line.stage;
            Some(known.verb) == line.verb.verb() && is_named
        })
    }

    /// Lets the records of one person's comment, reaction or review be deleted: the record that it was handled is written now.
    pub(crate) fn settle(&mut self, comment: &str, author: u64) {
        self.drop_all(|known| known.comment == comment && known.author == author);
    }

    /// Drops what a person's earlier reaction to a comment did: one that was given since is another word.
    pub(crate) fn drop_before(&mut self, comment: &str, author: u64, given: Timestamp) {
        self.drop_all(|known| known.comment == comment && known.author == author && known.at < given);
    }

    /// Drops what belongs to comments that are too old to be read again, or were deleted.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.drop_all(|known| now.duration_since(known.at) > COMMENT_AGE_MAX);
    }

    fn drop_all(&mut self, is_over: impl Fn(&ExecutedCommand) -> bool) {
        let over = self.known.iter().filter(|(_, known)| is_over(known)).map(|(key, _)| key.clone());
        let over: Vec<String> = over.collect();
        for key in over {
            self.known.remove(&key);
            self.settled.insert(key);
        }
    }

    /// Returns the deletions of records that are not needed any more.
    pub(crate) fn take_settled(&mut self) -> Vec<Op> {
        let settled = std::mem::take(&mut self.settled).into_iter();
        settled.map(|key| Op::Delete { key, expected: Expected::Any }).collect()
    }
}

/// Tells whether a line means one gate or placement, however many wait there. Such a line is done when anything of it was executed:
/// what waits since was not meant.
pub(crate) fn means_one(line: &ChatCommand) -> bool {
    match line.verb {
        ChatVerb::Approve | ChatVerb::Reject => line.placement.is_some() || (line.sha.is_none() && !line.all),
        ChatVerb::Rollback => true,
        _ => line.placement.is_some(),
    }
}
