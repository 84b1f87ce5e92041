//! Effects: everything that the daemon has to do for the core. The core owns these types.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::agent_tokens::AgentTokens;
use super::measures::Measured;
use config::MemberAccess;
use decide::status::decisions::Exports;
use deliver::inventory::Held;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::progress::Progress;
use model::records::{ResourceSnapshot, SourceRecord, WorkStatus};
use model::runs::MetricQuery;
use model::work::WorkOrder;

/// Something to do. An effect may be executed twice, or not at all if the process ends: the next process finds out by reading
/// the actual state.
#[derive(Debug)]
pub enum Effect {
    /// Start the task of a member.
    StartMember(ClusterName, MemberAccess),
    /// Stop the task of a member.
    StopMember(ClusterName),
    /// Send a command to a member's task.
    Command(ClusterName, MemberCommand),
    /// Read a snapshot's payload; [`SourceEvent::Payload`](super::event::SourceEvent::Payload) is the answer.
    ReadPayload(Arc<ResourceSnapshot>),
    /// Read again what members hold of a placement; [`SourceEvent::HeldRead`](super::event::SourceEvent::HeldRead) is the answer.
    ReadHeld(PlacementKey, Held),
    /// Accept a tip whose history was rewritten.
    AcceptRewrite(CommitId),
    /// Release the commits that no longer need to be kept.
    Retain {
        /// The commits that records name, and the accepted one.
        named: BTreeSet<CommitId>,
        /// The accepted commit: the source keeps every commit that it accepted after this one.
        at: CommitId,
    },
    /// Write these decisions to the hub.
    Publish(Arc<Exports>),
    /// Send an update to the bot.
    UpdateForge(ForgeUpdate),
    /// Ask these queries of a placement again and again, each at once when it is new, and no others of it;
    /// [`Event::Answered`](super::event::Event::Answered) is each answer.
    Ask(PlacementKey, BTreeSet<MetricQuery>),
    /// These are the tokens of agents from now on.
    AgentTokens(Arc<AgentTokens>),
    /// Count something that has finished.
    Measured(Measured),
}

/// A command for a member's task.
#[derive(Debug)]
pub enum MemberCommand {
    /// Deliver this order; it replaces the placement's earlier order.
    Order {
        /// The order.
        order: Arc<WorkOrder>,
        /// The last report about the placement before a restart.
        reported: Option<Arc<WorkStatus>>,
    },
    /// Say again what the member holds: whoever listens has begun again.
    Announce,
    /// Say again how far each order is: what was said before whoever listens had sent it counted for nothing.
    ReportAgain,
    /// Try what was refused again now, and report the result, also if it is the same.
    TryAgain(PlacementKey),
    /// Leave the objects alone: the cluster left the fleet, or the placement left the cluster completely.
    Forget(PlacementKey),
    /// These are all placements of the member, once its task has begun: what is kept of any other is forgotten, and an object whose label
    /// names any other belongs to nobody.
    Placements(BTreeSet<PlacementKey>),
}

/// An update for the bot.
#[derive(Clone, Debug)]
pub enum ForgeUpdate {
    /// The placements that there are when this process sees the source for the first time: nothing is left of any other.
    Known(BTreeSet<PlacementKey>),
    /// The state of a placement.
    Placement(Box<PlacementUpdate>),
    /// The state of the source.
    Source(Box<SourceRecord>),
}

/// The state of a placement, for the bot.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementUpdate {
    /// The placement.
    pub placement: PlacementKey,
    /// Its progress towards each recent commit, newest first; empty if nothing of it is left.
    pub ways: Vec<Progress>,
    /// The commit that may have caused a change, if this process saw it arrive.
    pub concerned_by: Option<CommitId>,
}
