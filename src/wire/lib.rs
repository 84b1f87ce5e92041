//! What passes between the daemon and its agents: messages, frames, and orders by digest. Pure.
//!
//! The bodies of all requests and answers are JSON, compressed by zlib. An order names its objects by digest, so an agent fetches an
//! object once and keeps it. Why it is this way: docs/design/051-agents.md.

mod frame;
mod message;
mod order;
pub mod remote;
#[cfg(test)]
mod tests;

pub use frame::{CONTENT_BYTES_MAX, Error, FRAME_BYTES_MAX, Frames, frame, inflate, pack, pack_bytes, unpack};
pub use message::{
    Acked, AgentHealth, AgentKindHealth, AgentMember, AgentReach, FromServer, Hello, Protocols, Refused, Reports,
    ToServer,
};
pub use order::{AgentOrder, FetchObjects, FetchedObject, ManifestRef, WholeOrder};

/// Path of the request that opens a session: [`Hello`] in, frames of [`FromServer`] out.
pub const SESSION_PATH: &str = "/agent/v1/session";
/// Path of the requests that bring [`Reports`]; [`Acked`] is the answer.
pub const REPORTS_PATH: &str = "/agent/v1/reports";
/// Path in front of an order's digest.
pub const ORDERS_PATH: &str = "/agent/v1/orders/";
/// Path of the requests for several objects: [`FetchObjects`] in, frames of [`FetchedObject`] out.
pub const OBJECTS_PATH: &str = "/agent/v1/objects";
/// The header that names the agent.
pub const AGENT_HEADER: &str = "gitfleet-agent";
/// What `Content-Encoding` says of every body.
pub const ENCODING: &str = "deflate";
/// Words in the answer 503 of a daemon that does not lead.
pub const NOT_LEADING: &str = "does not lead";

/// The oldest version of the protocol that this program speaks.
pub const PROTOCOL_OLDEST: u32 = 1;
/// The newest one.
pub const PROTOCOL_NEWEST: u32 = 1;

/// Objects that one request may ask for.
pub const OBJECTS_MAX: usize = 256;
/// Events that one request may bring.
pub const EVENTS_MAX: usize = 1_024;
/// Members of one agent.
pub const MEMBERS_MAX: usize = 10_000;
/// Characters of the names of agents and pools: they are DNS labels.
pub const NAME_CHARS_MAX: usize = 63;
