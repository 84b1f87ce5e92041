//! What people command, on its way to the event loop.

use model::commands::{Command, Done, Person, Refusal, WaitingGate};
use tokio::sync::oneshot;

/// A command for the core, from somebody whose token is known.
#[derive(Debug)]
pub struct Instruction<T = Done> {
    /// What is to be done.
    pub command: Command,
    /// Who wants it.
    pub person: Person,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<T, Refusal>>,
}

/// A request to preview an approval; nothing changes.
pub type Preview = Instruction<WaitingGate>;
