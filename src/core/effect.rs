//! What the core asks for: everything that is to be done outside of it, in types of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::measures::Measured;
use crate::config::MemberAccess;
use crate::model::id::{ClusterName, CommitId, PlacementKey};
use crate::model::progress::Progress;
use crate::model::records::{ResourceSnapshot, SourceRecord, WorkStatus};
use crate::model::work::WorkOrder;
use crate::status::decisions::Exports;

/// Something to be done. Each may be done twice, or not at all where the process ends: the next life finds out by looking.
#[derive(Debug)]
pub enum Effect {
    /// Begin to talk to a member.
    StartMember(ClusterName, MemberAccess),
    /// Talk to a member no more.
    StopMember(ClusterName),
    /// Tell a member.
    Tell(ClusterName, MemberCommand),
    /// Read a snapshot's payload; [`SourceEvent::Payload`](super::event::SourceEvent::Payload) is the answer.
    ReadPayload(Arc<ResourceSnapshot>),
    /// Let a tip of a rewritten history in.
    AcceptRewrite(CommitId),
    /// Commits that need not be kept any more may go.
    Retain {
        /// The commits that records name, and the accepted one.
        named: BTreeSet<CommitId>,
        /// The accepted one: of what was accepted since nothing is known here.
        at: CommitId,
    },
    /// Make the hub hold these decisions.
    Publish(Arc<Exports>),
    /// Tell the console.
    Console(ForgeUpdate),
    /// Count something that is over.
    Measured(Measured),
}

/// What a member's task is to do.
#[derive(Debug)]
pub enum MemberCommand {
    /// Hold this, instead of what was ordered for the placement before.
    Order {
        /// What.
        order: Arc<WorkOrder>,
        /// What was last reported of the placement, before a restart.
        reported: Option<Arc<WorkStatus>>,
    },
    /// Leave what is there alone: the cluster left the fleet, or the placement left it completely.
    Forget(PlacementKey),
}

/// What people on the git host are to hear of.
#[derive(Clone, Debug)]
pub enum ForgeUpdate {
    /// How a placement stands.
    Placement(Box<PlacementUpdate>),
    /// How the source stands.
    Source(Box<SourceRecord>),
}

/// What the core says of a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementUpdate {
    /// The placement.
    pub placement: PlacementKey,
    /// Its ways, newest first; none where nothing of it is left.
    pub ways: Vec<Progress>,
    /// The commit that gave it a reason to move, where this life saw it come.
    pub concerned_by: Option<CommitId>,
}
