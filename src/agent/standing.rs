//! A running agent, and how it stands.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::connect::{Connector, Endpoint};
use crate::disk::Disk;
use crate::members::Members;
use engine::MemberEvent;
use system::telemetry::metrics::{ByChannel, Channel, Metrics};
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
    pub(super) metrics: Arc<Metrics>,
    pub(super) standing: watch::Sender<AgentStanding>,
}

/// Takes an event of a member's task, and those that wait behind it.
pub(super) fn take_events(agent: &mut Agent, first: MemberEvent) {
    agent.state.note(first);
    while let Ok(event) = agent.inbox.try_recv() {
        agent.state.note(event);
    }
}

/// Notes how many events of members' tasks wait.
pub(super) fn measure_events(agent: &Agent) {
    let depth = agent.metrics.channel_depth.get_or_create_owned(&ByChannel { channel: Channel::Members });
    depth.set(i64::try_from(agent.inbox.len()).unwrap_or(i64::MAX));
}
