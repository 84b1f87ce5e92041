//! What people command, on its way to the event loop.

use model::commands::{Command, Done, Person, Refusal, WaitingGate};
use tokio::sync::oneshot;

/// A command for the engine, from an authenticated person.
#[derive(Debug)]
pub struct Instruction<T = Done> {
    /// The command.
    pub command: Command,
    /// The person who commands.
    pub person: Person,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<T, Refusal>>,
}

/// A request to preview an approval; nothing changes.
pub type Preview = Instruction<WaitingGate>;
