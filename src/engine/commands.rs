//! Commands and previews that people request.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::batch::BatchChange;
use super::execute::{accept_rewrite, execute, preview, resolve};
use super::persist::SOURCE_NAME;
use super::{Batch, Core};
use crate::store;
use crate::store::{Op, records};
use model::commands::{Command, Done, ExecutedCommand, Person, Refusal, RefusalReason, Verb, WaitingGate};
use model::journal::JournalKind;
use model::records::JournalEntry;
use model::rights::may;

impl Core {
    /// Says what an approval would open, and changes nothing.
    ///
    /// # Errors
    /// Why nothing would be opened.
    pub fn preview(&self, command: &Command, person: &Person, now: Timestamp) -> Result<WaitingGate, Refusal> {
        preview(&self.placements, &self.fleet, command, person, now)
    }

    /// Executes a person's command. Returns the batch to store, and the answer to send once it is stored. As with
    /// [`Core::decide`], the batch must come back before anything else is decided.
    ///
    /// The batch of a comment's command contains the answer, too. A daemon that ends before it notes that the comment was handled leaves
    /// the next one to read the comment again, and that one must not take what the comment did for the work of another.
    ///
    /// # Errors
    /// Why it is not carried out; nothing has changed then.
    pub fn execute(&mut self, command: &Command, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        let (mut batch, done) = self.carry_out(command, person, now)?;
        self.persistence.outstanding = true;
        if let Some(executed) = ExecutedCommand::of(command, person, &done) {
            batch.write(records::executed_key(&executed), &executed);
        }
        Ok((batch, done))
    }

    fn carry_out(&self, command: &Command, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        // The batch with the store was decided on the records that this command would change.
        if self.persistence.outstanding {
            return Err(not_possible("a decision or a command is being saved; try again"));
        }
        if command.verb == Verb::Adopt {
            self.authorise(person, command.verb)?;
            return self.persistence.adopt(person, now);
        }
        if command.verb.is_about_agents() {
            self.authorise(person, command.verb)?;
            return self.change_agents(command, person, now);
        }
        // A pause begins nothing, so it needs no adopted store.
        if command.verb != Verb::Pause
            && let Some(complaint) = self.adoption_complaint()
        {
            return Err(not_possible(complaint));
        }
        if command.target.is_empty() {
            self.authorise(person, command.verb)?;
            self.act_on_source(command, person, now)
        } else {
            self.act_on_placement(command, person, now)
        }
    }

    /// Refuses a command of somebody who may not give it.
    fn authorise(&self, person: &Person, verb: Verb) -> Result<(), Refusal> {
        may(person, verb, &self.fleet.policy())
            .map_err(|message| Refusal { reason: RefusalReason::NotAllowed, message })
    }

    /// Changes which agents may connect.
    fn change_agents(&self, command: &Command, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        let agents = self.persistence.change_agents(command, person, now)?;
        let ops = agents.ops().map_err(|error| not_saved(&error))?;
        let changes = vec![BatchChange::AgentTokens(Arc::new(agents.tokens))];
        Ok((Batch { ops, changes, ..Batch::default() }, agents.done))
    }

    /// Accepts a held tip, or continues with the accepted commit although the source was not read.
    fn act_on_source(&self, command: &Command, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        // Where a tip is held, `resume` is about that tip.
        if command.verb == Verb::Resume && self.fleet.source_unread && self.source.record.held_rewrite.is_none() {
            return Ok(resume_unread(person, now));
        }
        let mut batch = Batch::default();
        let mut source = self.source.record.clone();
        let (commit, done) = accept_rewrite(&mut source, command, now)?;
        if !batch.write(records::source_key(SOURCE_NAME), &source) {
            return Err(not_possible("could not save the command, so it was not executed; see the daemon's log"));
        }
        batch.changes = vec![BatchChange::Source(Box::new(source)), BatchChange::AcceptedRewrite(commit)];
        Ok((batch, done))
    }

    /// Changes one placement.
    fn act_on_placement(&self, command: &Command, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        let aim = resolve(&self.placements, command)?;
        let state = self.placements.get(&aim.placement).expect("what was found there is there");
        let executed = execute(state, &self.fleet, &aim, command, person, now)?;
        let mut ops = self
            .persistence
            .difference(&aim.placement, Some(state), Some(&executed.state))
            .map_err(|error| not_saved(&error))?;
        ops.extend(executed.journal.into_iter().map(Op::Journal));
        let changes = vec![BatchChange::Executed(Box::new(executed.state))];
        Ok((Batch { ops, changes, ..Batch::default() }, executed.done))
    }
}

fn not_possible(message: impl Into<String>) -> Refusal {
    Refusal { reason: RefusalReason::NotPossible, message: message.into() }
}

fn not_saved(error: &store::Error) -> Refusal {
    not_possible(format!("could not save the command: {error}"))
}

/// Lets the accepted commit continue although this process could not read the source.
fn resume_unread(person: &Person, now: Timestamp) -> (Batch, Done) {
    let entry = JournalEntry {
        at: now,
        event: JournalKind::WentOnWithoutSource,
        placement: None,
        cluster: None,
        facts: json!({"by": person.name}),
    };
    let batch = Batch { ops: vec![Op::Journal(entry)], changes: vec![BatchChange::Continued], ..Batch::default() };
    let message =
        "gitfleet continues with the accepted commit, though it has not read the source since it started".to_owned();
    (batch, Done { message, at: now, gate: None })
}
