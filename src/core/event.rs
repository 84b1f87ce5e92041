//! What the core is told: everything that happened outside of it, in types of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::decide::state::Payload;
use crate::deliver::inventory::Held;
use crate::model::facts::Facts;
use crate::model::id::{ClusterName, CommitId, PlacementKey};
use crate::model::manifest::InputError;
use crate::model::records::{Inventory, Kept, ResourceSnapshot, WorkStatus};
use crate::model::tree::Tree;
use crate::status::decisions::Exports;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The source said something.
    Source(SourceEvent),
    /// A member said something.
    Member(MemberEvent),
    /// The hub that decisions are exported to said something.
    Hub(HubReport),
}

/// What the source said.
#[derive(Debug)]
pub enum SourceEvent {
    /// The commit that was accepted before a restart, read again; or why it cannot be read, which may be told more than once.
    Restored(Result<Arc<Tree>, String>),
    /// A commit is the tip and not the accepted one; it is read now.
    Seen(CommitId),
    /// A commit is accepted: it is pinned and checked.
    Accepted(Arc<Tree>),
    /// A commit has errors and is not accepted.
    Refused(CommitId, Vec<InputError>),
    /// History was rewritten; the new tip waits for a person.
    Rewritten(CommitId),
    /// This branch is followed, because it is checked out.
    Follows(String),
    /// Another branch is checked out than the one that is followed; its tip waits for a person. With what happened, for people.
    Switched(CommitId, String),
    /// The source cannot be read; nothing changes.
    Failed(String),
    /// The tip is the accepted commit again, or still.
    Unchanged,
    /// The source can be read again, and its tip is where it was.
    Readable,
    /// Changes of a source on this machine are not heard of, and why; it is polled more often.
    Unwatched(String),
    /// The payload of a snapshot, or why it cannot be read.
    Payload(Arc<ResourceSnapshot>, Result<Payload, String>),
}

/// What a member said.
#[derive(Debug)]
pub enum MemberEvent {
    /// The member answers, and this is what it holds.
    Online {
        /// The member.
        cluster: ClusterName,
        /// Kubernetes version, where it has one.
        version: Option<String>,
        /// Placements by what it holds of them completely.
        holds: BTreeMap<PlacementKey, Option<Held>>,
        /// What people decided of placements, as inventories keep it.
        kept: BTreeMap<PlacementKey, Kept>,
        /// Placements by what carries their label.
        inventory: BTreeMap<PlacementKey, Inventory>,
    },
    /// The member does not answer.
    Offline {
        /// The member.
        cluster: ClusterName,
        /// Why, for people.
        reason: String,
    },
    /// The member's task ended by an error of gitfleet's own and was begun anew: it knows no orders.
    Restarted {
        /// The member.
        cluster: ClusterName,
    },
    /// What became of an order.
    Work {
        /// The member.
        cluster: ClusterName,
        /// The placement.
        placement: PlacementKey,
        /// What became of it; the task keeps it as well.
        status: Arc<WorkStatus>,
    },
    /// What the member's nodes and pods add up to has changed.
    Facts {
        /// The member.
        cluster: ClusterName,
        /// What is known now.
        facts: Box<Facts>,
    },
    /// The member's namespaces have changed, or cannot be listed. It says so before [`MemberEvent::Online`] for the first time, and
    /// of a namespace that an order brings before it reports that order.
    Namespaces {
        /// The member.
        cluster: ClusterName,
        /// Their names, or why they cannot be listed, for people.
        namespaces: Result<BTreeSet<String>, String>,
    },
    /// Changes by hand on the member are not heard of until it is connected to anew.
    Unwatched {
        /// The member.
        cluster: ClusterName,
        /// Why, for people.
        reason: String,
    },
}

/// What the task says of the hub.
#[derive(Clone, Debug)]
pub struct HubReport {
    /// What was made so; `None` where it was not.
    pub done: Option<Arc<Exports>>,
    /// Why the hub does not answer, for people.
    pub failure: Option<String>,
    /// The failure may be over at the next try, which comes by itself.
    pub is_passing: bool,
    /// What is left as it was found, or was refused, for people.
    pub problems: Vec<String>,
}
