//! Paths, versions and limits, on which both sides agree.

/// Path of the request that opens a session: [`Hello`](crate::Hello) in, frames of [`FromServer`](crate::FromServer) out.
pub const SESSION_PATH: &str = "/agent/v1/session";
/// Path of the requests that bring [`Reports`](crate::Reports); [`Acked`](crate::Acked) is the answer.
pub const REPORTS_PATH: &str = "/agent/v1/reports";
/// Path in front of an order's digest.
pub const ORDERS_PATH: &str = "/agent/v1/orders/";
/// Path of the requests for several objects: [`FetchObjects`](crate::FetchObjects) in, frames of [`FetchedObject`](crate::FetchedObject) out.
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
