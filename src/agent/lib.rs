//! The agent: a program next to clusters that delivers to their members in the daemon's place.
//!
//! [`run`] dials servers and keeps a `session`; `disk` keeps the last orders, sealed; `members` runs the same tasks as the daemon
//! does. What follows from what happens is decided in [`wire::remote::agent`]. Why it is this way: docs/design/051-agents.md.

mod changes;
pub mod connect;
mod disk;
mod members;
pub mod run;
mod seal;
pub mod server;
mod session;
mod standing;
#[cfg(test)]
mod tests;
