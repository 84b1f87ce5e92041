//! What passes between the daemon and its agents: messages, frames, and orders by digest. Pure.
//!
//! The bodies of all requests and answers are JSON, compressed by zlib. An order names its objects by digest, so an agent fetches an
//! object once and keeps it. Why it is this way: docs/design/051-agents.md.

mod frame;
mod message;
mod order;
mod protocol;
pub mod remote;
#[cfg(test)]
mod tests;

pub use frame::{CONTENT_BYTES_MAX, Error, FRAME_BYTES_MAX, Frames, frame, inflate, pack, pack_bytes, unpack};
pub use message::{
    Acked, AgentHealth, AgentKindHealth, AgentMember, AgentReach, FromServer, Hello, Protocols, Refused, Reports,
    ToServer,
};
pub use order::{AgentOrder, FetchObjects, FetchedObject, ManifestRef, WholeOrder};
pub use protocol::*;
