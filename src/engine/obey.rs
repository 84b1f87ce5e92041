//! What people tell gitfleet to do, whatever surface they say it on: authorised, carried out and written down in one place.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::config::Configuration;
use crate::http::Instruction;
use crate::model::commands::{Command, Done, Person, Refusal, RefusalReason};
use crate::store::Store;

/// Carries out a command on a store that no daemon holds.
///
/// # Errors
/// Why it is refused; nothing has changed then.
pub fn obey_in_store(
    _store: &Arc<dyn Store>,
    _configuration: &Configuration,
    command: &Command,
    _person: &Person,
) -> Result<Done, Refusal> {
    Err(not_yet(command))
}

/// Answers the daemon's commands until nobody can send any more.
pub async fn answer(mut instructions: mpsc::UnboundedReceiver<Instruction>) {
    while let Some(instruction) = instructions.recv().await {
        let answer = Err(not_yet(&instruction.command));
        // Whoever asked may have gone.
        drop(instruction.reply.send(answer));
    }
}

fn not_yet(command: &Command) -> Refusal {
    let message = format!("{} of {:?} is not possible yet", command.verb, command.target);
    Refusal { reason: RefusalReason::NotPossible, message }
}
