//! Delivery by agents: what the daemon and an agent decide, as values. Pure.
//!
//! [`registry`] is the daemon's side: which agents are connected, and which of them has which member. [`agent`] is the agent's side, and
//! [`agent_session`] what follows from a frame, an event and an answer, and until when it may write; [`outbox`] holds what it has to report. Both programs call
//! these, and so does the simulation. Why it is this way: docs/design/051-agents.md and docs/design/052-agents-server.md.

pub mod agent;
pub mod agent_session;
pub mod credentials;
pub mod outbox;
pub mod registry;
mod session;
