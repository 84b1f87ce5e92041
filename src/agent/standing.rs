//! A running agent, and how it stands.

use std::collections::BTreeSet;

use tokio::sync::{mpsc, watch};

use crate::connect::{Connector, Endpoint};
use crate::disk::Disk;
use crate::members::Members;
use engine::MemberEvent;
use wire::remote::agent::AgentState;

/// How an agent stands, for its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentStanding {
    /// It has a session with this server.
    Connected(String),
    /// It has none, and continues with the last orders. The reason, for people.
    Alone(String),
}

/// A running agent.
pub(super) struct Agent {
    pub(super) servers: Vec<Endpoint>,
    pub(super) connector: Connector,
    pub(super) pools: BTreeSet<String>,
    /// Names this start.
    pub(super) instance: String,
    pub(super) state: AgentState<Disk, Members>,
    pub(super) inbox: mpsc::UnboundedReceiver<MemberEvent>,
    pub(super) standing: watch::Sender<AgentStanding>,
}
