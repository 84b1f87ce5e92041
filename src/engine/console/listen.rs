//! Listens to comments: reads them, finds out about their authors, and hands commands to the hall.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::Console;
use super::books::{self, Heard};
use super::outbox::{Saying, Slot};
use super::story::Story;
use super::weigh::{Answer, Meaning, Verdict, meaning, verdict};
use super::words::EDIT_PAUSE;
use crate::forge::Error;
use crate::http::Instruction;
use crate::model::chat::ChatCommand;
use crate::model::commands::{Command, Person, Refusal, Verb};
use crate::model::forge::{Comment, Credentials, ForgeUser, Permission, Reaction, ThreadNumber};
use crate::model::id::Digest;
use crate::model::runs::Surface;

/// Answers in words within an hour, in one conversation: machines that answer each other must come to an end.
const ANSWERS_MAX: usize = 10;
/// The time in which they are counted, and in which one person gets one answer, which is edited.
const ANSWERS_WITHIN: SignedDuration = SignedDuration::from_hours(1);
/// Teams one strategy may name and be asked about.
const TEAMS_MAX: usize = 10;

/// Comments within that time, in one conversation, that get signs: each sign is a call, and goes before everything else.
const SIGNS_MAX: usize = 100;

fn is_recent(heard: &Heard, thread: ThreadNumber, now: Timestamp) -> bool {
    heard.thread == thread && now.duration_since(heard.at) < ANSWERS_WITHIN
}

/// What became of a comment.
struct Dealt {
    outcome: String,
    answer: Option<u64>,
}

impl Meaning {
    fn command(&self) -> Option<&Command> {
        match self {
            Self::Do(command) => Some(command),
            Self::Status | Self::Help => None,
        }
    }
}

impl Console {
    /// Reads one comment that a hint named.
    pub(super) async fn read_comment(&mut self, thread: ThreadNumber, id: u64) {
        if self.heard.contains_key(&id) {
            return;
        }
        match self.doors.forge.comment(id).await {
            Ok(comment) => {
                (self.read_failures, self.read_after) = (0, None);
                // What was deleted is nobody's word any more. Where it stands is the host's word, and not the hint's: whoever has
                // the webhook's secret must not move a word from one conversation to another.
                if let Some(comment) = comment.filter(|comment| comment.thread == thread) {
                    self.hear(thread, &comment).await;
                }
            }
            Err(error) => {
                let _ = self.read::<()>(Err(error));
                // The others get their turn: one comment that cannot be read silences nobody else.
                self.to_list.insert(thread);
            }
        }
    }

    /// Reads what was written in a conversation since it was read last.
    pub(super) async fn list_comments(&mut self, thread: ThreadNumber) {
        let since = self.stories.told_in(thread).and_then(|story| story.read_until.get(&thread).copied());
        let Some(mut comments) = self.read(self.doors.forge.comments(thread, since).await) else { return };
        let newest = comments.iter().map(|comment| comment.updated_at).max();
        comments.sort_by_key(|comment| comment.id);
        comments.retain(|comment| !self.heard.contains_key(&comment.id));
        for comment in comments {
            self.hear(thread, &comment).await;
        }
        let commit = self.stories.told_in(thread).map(|story| story.commit.clone());
        if let (Some(newest), Some(commit)) = (newest.filter(|newest| since.is_none_or(|at| at < *newest)), commit)
            && let Some(story) = self.stories.get_mut(&commit)
        {
            story.read_until.insert(thread, newest);
        }
    }

    /// Deals with a comment as it was read just now, once.
    async fn hear(&mut self, thread: ThreadNumber, comment: &Comment) {
        let Some(me) = self.me.clone() else { return };
        let now = self.now();
        let dealt = match verdict(comment, &me, self.settings.voice.short, now) {
            // Nothing is kept of what concerns nobody: it is as quickly told again.
            Verdict::Ignore(_) => return,
            Verdict::Answer(answer) => self.answer(thread, comment, &answer, now),
            Verdict::Commands(commands) => self.commands(thread, comment, &commands, now).await,
        };
        let heard = Heard {
            id: comment.id,
            thread,
            author: comment.author.id,
            at: now,
            body: Digest::new(format!("{:x}", Sha256::digest(&comment.body))),
            outcome: dealt.outcome,
            answer: dealt.answer,
        };
        tracing::info!(thread, person = comment.author.login, outcome = heard.outcome, "comment dealt with");
        self.write(vec![books::heard_op(&heard)]).await;
        self.heard.insert(heard.id, heard);
    }

    /// Carries out the commands of a comment: all of them, or none.
    async fn commands(
        &mut self,
        thread: ThreadNumber,
        comment: &Comment,
        chats: &[ChatCommand],
        now: Timestamp,
    ) -> Dealt {
        let Some(story) = self.stories.told_in(thread).cloned() else {
            if self.pulls.is_open(thread) {
                let asks = chats.iter().all(|chat| chat.verb == crate::model::chat::ChatVerb::Status);
                if asks {
                    self.pulls.again(thread, now);
                    self.react(comment, Reaction::Rocket, now);
                    return Dealt { outcome: "plan asked for".to_owned(), answer: None };
                }
                let why = "this pull request is not merged yet: nothing of it is rolled out, and nothing waits here";
                return self.answer(thread, comment, &Answer::of(why), now);
            }
            // A conversation about something else: other machines may have the same words.
            return Dealt { outcome: "no rollout is told here".to_owned(), answer: None };
        };
        let mut meant = Vec::new();
        for chat in chats {
            match meaning(&story, thread, chat, comment.created_at) {
                Ok(all) => meant.extend(all),
                Err(answer) => return self.answer(thread, comment, &answer, now),
            }
        }
        if self.is_calm(thread, now) {
            self.react(comment, Reaction::Eyes, now);
        }
        let commands: Vec<&Command> = meant.iter().filter_map(Meaning::command).collect();
        let mut done = Vec::new();
        if !commands.is_empty() {
            let person = match self.person(&story, comment, commands.iter().any(|c| c.verb == Verb::Approve)).await {
                Ok(person) => person,
                Err(answer) => return self.answer(thread, comment, &answer, now),
            };
            for command in commands {
                match self.instruct(command.clone(), person.clone()).await {
                    Ok(said) => done.push(said),
                    Err(refusal) => {
                        let before = if done.is_empty() {
                            String::new()
                        } else {
                            format!("; done before that: {}", done.join("; "))
                        };
                        return self.answer(thread, comment, &Answer::of(refusal.message + &before), now);
                    }
                }
            }
        }
        if meant.iter().any(|meaning| !matches!(meaning, Meaning::Do(_))) {
            let help = meant.contains(&Meaning::Help);
            self.refresh(&story, help, now);
            done.push("the comment is brought up to date".to_owned());
        }
        self.react(comment, Reaction::Rocket, now);
        Dealt { outcome: done.join("; "), answer: None }
    }

    /// Has the comment of a story written again as things stand.
    fn refresh(&mut self, story: &Story, help: bool, now: Timestamp) {
        let slot = Slot::Comment { id: self.rollout_slot(&story.commit) };
        self.outbox.doubt(&slot);
        if let Some(story) = self.stories.get_mut(&story.commit) {
            story.help |= help;
        }
        if let Some(story) = self.stories.get(&story.commit).cloned() {
            self.tell_story(&story, now);
        }
    }

    async fn instruct(&self, command: Command, person: Person) -> Result<String, Refusal> {
        let (reply, answer) = oneshot::channel();
        let gone = || Refusal {
            reason: crate::model::commands::RefusalReason::NotPossible,
            message: "gitfleet is just ending; write it again in a moment".to_owned(),
        };
        self.doors.instructions.send(Instruction { command, person, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map(|done| done.message)
    }

    /// Finds out about the author, now: what they may do, which teams they are in, whether the change is their own. What cannot
    /// be found out counts as no.
    async fn person(&self, story: &Story, comment: &Comment, judges: bool) -> Result<Person, Answer> {
        let author = &comment.author;
        let cannot = |what: &str, error: &Error| {
            tracing::warn!(person = author.login, reason = %error, "a command is refused, because {what} cannot be looked up");
            Answer::of(format!(
                "{what} could not be looked up, so nothing was done; write the command again in a moment"
            ))
        };
        let forge = &self.doors.forge;
        let permission = match forge.permission(&author.login).await {
            // Where approvers are named, our account need not be one that may ask. Nobody has a permission then.
            Err(Error::Forbidden { .. }) if !self.settings.approvers.is_empty() => Permission::None,
            answer => answer.map_err(|error| cannot("what you may do here", &error))?,
        };
        let mut teams = BTreeSet::new();
        for team in self.teams(story) {
            // Who cannot be asked about is in no team: other words may still let them.
            match forge.is_team_member(&team, &author.login).await {
                Ok(true) => drop(teams.insert(team)),
                Ok(false) => {}
                Err(error) => tracing::warn!(team, reason = %error, "who is in a team cannot be looked up"),
            }
        }
        let mut took_part = None;
        if judges {
            for number in self.stories.carried(story) {
                let pull = forge.pull(number).await.map_err(|error| cannot("who made this change", &error))?;
                let Some(pull) = pull else {
                    return Err(cannot("who made this change", &Self::unknown("pull request")));
                };
                if self.branch.as_ref().is_some_and(|branch| pull.base != *branch) {
                    return Err(Answer::of(format!(
                        "this pull request goes into {}, which is not rolled out",
                        pull.base
                    )));
                }
                let merger = pull.merged.and_then(|merge| merge.by);
                let is_author = |user: &ForgeUser| user.id == author.id;
                if is_author(&pull.author) {
                    took_part = Some(format!("opened #{number}"));
                } else if merger.as_ref().is_some_and(is_author) {
                    took_part = took_part.or_else(|| Some(format!("merged #{number}")));
                }
            }
        }
        let credentials = Credentials { id: author.id, permission, teams, took_part, comment: comment.url.clone() };
        Ok(Person { name: author.login.clone(), surface: Surface::Comment, credentials: Some(credentials) })
    }

    /// Returns the teams that are named as approvers, by the configuration or by a strategy whose gate waits.
    fn teams(&self, story: &Story) -> BTreeSet<String> {
        let narrowed = story.gates().filter_map(|(_, _, gate)| gate.approvers.as_deref());
        let entries = narrowed.flat_map(|all| all.split(',')).chain(self.settings.approvers.iter().map(String::as_str));
        let teams = entries.filter_map(|entry| entry.trim().strip_prefix("team:"));
        teams.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().take(TEAMS_MAX).collect()
    }

    fn react(&mut self, comment: &Comment, reaction: Reaction, now: Timestamp) {
        self.outbox.say(Slot::Reaction { comment: comment.id, reaction }, Saying::Reaction, now);
    }

    /// Tells whether so few comments of a conversation were dealt with of late that each may get its signs.
    fn is_calm(&self, thread: ThreadNumber, now: Timestamp) -> bool {
        self.heard.values().filter(|heard| is_recent(heard, thread, now)).count() < SIGNS_MAX
    }

    /// Says no: with a sign and in words, as long as that is no flood.
    fn answer(&mut self, thread: ThreadNumber, comment: &Comment, answer: &Answer, now: Timestamp) -> Dealt {
        if self.is_calm(thread, now) {
            self.react(comment, Reaction::Confused, now);
        }
        // One answer a person and hour: the next takes its place.
        let begun = |heard: &&Heard| heard.answer == Some(heard.id) && is_recent(heard, thread, now);
        let own = self.heard.values().filter(begun).find(|heard| heard.author == comment.author.id);
        let may = self.heard.values().filter(begun).count() < ANSWERS_MAX;
        let first = own.map(|heard| heard.id).or(may.then_some(comment.id));
        if let Some(first) = first {
            let slot = Slot::Comment { id: self.mark(&["reply", &first.to_string()]) };
            let body = super::words::reply(&comment.author.login, answer);
            let written = self.outbox.entry(&slot).and_then(|entry| entry.written_at);
            let due = written.map_or(now, |at| at + EDIT_PAUSE);
            self.outbox.say(slot, Saying::Comment { thread, body }, due);
        }
        Dealt { outcome: format!("refused: {}", answer.why), answer: first }
    }
}
