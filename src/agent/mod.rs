//! The agent: a program next to clusters that delivers to their members in the daemon's place.
//!
//! [`run`] dials servers and keeps a [`session`]; [`disk`] keeps the last orders, sealed; [`members`] runs the same tasks as the daemon
//! does; [`outbox`] keeps the newest reports until a server has them. Why it is this way: docs/design/051-agents.md.

pub mod connect;
mod disk;
mod fetch;
mod members;
mod outbox;
pub mod run;
mod seal;
mod session;
#[cfg(test)]
mod tests;
