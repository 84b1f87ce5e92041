//! What people ask and command.

use jiff::Timestamp;
use serde_json::json;

use super::execute::{let_in, obey, preview, resolve};
use super::persist::{self, SOURCE_NAME};
use super::{Batch, Core, write_down};
use crate::model::commands::{Command, Done, Person, Refusal, RefusalReason, Verb, WaitingGate};
use crate::model::records::JournalEntry;
use crate::rollout::rights::{Policy, may};
use crate::store::{Op, records};

impl Core {
    /// Says what an approval would open, and changes nothing.
    ///
    /// # Errors
    /// Why nothing would be opened.
    pub fn preview(&self, command: &Command, person: &Person, now: Timestamp) -> Result<WaitingGate, Refusal> {
        preview(&self.placements, &self.world, command, person, now)
    }

    /// Takes a person's command. Returns what is to be written down, and the answer for when it is: as with
    /// [`Core::decide`], the batch must come back before anything else is decided.
    ///
    /// # Errors
    /// Why it is not carried out; nothing has changed then.
    pub fn obey(&mut self, command: &Command, person: &Person, now: Timestamp) -> Result<(Batch, Done), Refusal> {
        let busy = |what: &str| Refusal { reason: RefusalReason::NotPossible, message: what.to_owned() };
        if self.outstanding {
            return Err(busy("something else is being written down; try again"));
        }
        if command.verb == Verb::Adopt {
            let policy = Policy { rules: self.world.approvals, approvers: &self.world.approvers, ..Policy::default() };
            may(person, command.verb, &policy)
                .map_err(|message| Refusal { reason: RefusalReason::NotAllowed, message })?;
            let adopted = self.adopt(person, now)?;
            self.outstanding = true;
            return Ok(adopted);
        }
        if let Some(complaint) = self.adoption_complaint().filter(|_| command.verb != Verb::Pause) {
            return Err(busy(&complaint));
        }
        let mut batch = Batch::default();
        let done = if command.target.is_empty() {
            let policy = Policy { rules: self.world.approvals, approvers: &self.world.approvers, ..Policy::default() };
            may(person, command.verb, &policy)
                .map_err(|message| Refusal { reason: RefusalReason::NotAllowed, message })?;
            if command.verb == Verb::Resume && self.world.source_unread && self.source.held_rewrite.is_none() {
                let (batch, done) = goes_on(person, now);
                self.outstanding = true;
                return Ok((batch, done));
            }
            let mut source = self.source.clone();
            let (commit, done) = let_in(&mut source, command, now)?;
            if !write_down(&mut batch, records::source_key(SOURCE_NAME), &source) {
                return Err(busy("it cannot be written down; the daemon's log says why"));
            }
            (batch.source, batch.let_in) = (Some(source), Some(commit));
            done
        } else {
            let aim = resolve(&self.placements, command)?;
            let state = self.placements.get(&aim.placement).expect("what was found there is there");
            let obeyed = obey(state, &self.world, &aim, command, person, now)?;
            let difference = persist::difference(Some(state), Some(&obeyed.state));
            batch.ops = difference.map_err(|error| busy(&format!("it cannot be written down: {error}")))?;
            batch.ops.extend(obeyed.journal.into_iter().map(Op::Journal));
            batch.obeyed = Some(Box::new(obeyed.state));
            obeyed.done
        };
        self.outstanding = true;
        Ok((batch, done))
    }
}

/// Lets the commit in force go on where the source was not read in this life.
fn goes_on(person: &Person, now: Timestamp) -> (Batch, Done) {
    let entry = JournalEntry {
        at: now,
        event: "WentOnWithoutSource".to_owned(),
        placement: None,
        cluster: None,
        facts: json!({"by": person.name}),
    };
    let batch = Batch { ops: vec![Op::Journal(entry)], goes_on: true, ..Batch::default() };
    let message = "the commit in force goes on, though the source was not read since gitfleet started".to_owned();
    (batch, Done { message, at: now, gate: None })
}
