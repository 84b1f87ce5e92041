//! Events: everything that happens outside the core and that it handles. The core owns these types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use config::Member;
use decide::found::FoundSnapshot;
use decide::state::Payload;
use decide::status::decisions::Exports;
use deliver::inventory::Held;
use model::facts::Facts;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::manifest::InputError;
use model::records::{Inventory, Kept, ResourceSnapshot, WorkStatus};
use model::runs::MetricQuery;
use model::tree::Tree;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// An event of the source.
    Source(SourceEvent),
    /// An event of a member.
    Member(MemberEvent),
    /// A report of the hub that decisions are exported to.
    Hub(HubReport),
    /// What a server said to a query.
    Answered(MetricQuery, Result<f64, String>),
    /// The file of the configuration changed.
    Configuration(ConfigurationEvent),
}

/// What the file of the configuration says since it changed.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigurationEvent {
    /// It can be used.
    Read {
        /// How members are reached.
        members: Vec<Member>,
        /// The sections that differ from those at the start; they count from the next start on.
        at_restart: Vec<&'static str>,
    },
    /// It cannot be used. The text says why, for users.
    Unusable(String),
}

/// An event of the source.
#[derive(Debug)]
pub enum SourceEvent {
    /// An event that concerns one of several sources, by name. What is accepted, restored or read concerns all of them together.
    Of(String, Box<SourceEvent>),
    /// The commit that was accepted before a restart, read again, or why it cannot be read. The error may arrive more than
    /// once.
    Restored(Result<Arc<Tree>, String>),
    /// A commit is the new tip; the poller reads it now.
    Seen(CommitId),
    /// A commit is accepted: it is checked and pinned.
    Accepted(Arc<Tree>),
    /// A commit has errors and is not accepted.
    Refused(CommitId, Vec<InputError>),
    /// History was rewritten; the new tip waits for a person.
    Rewritten(CommitId),
    /// This branch is followed because it is checked out.
    Follows(String),
    /// Another branch than the followed one is checked out; its tip waits for a person. The text says what happened.
    Switched(CommitId, String),
    /// The source cannot be read; nothing changes.
    Failed(String),
    /// The tip is still, or again, the accepted commit. Without a name, of several sources: each was asked once since the start.
    Unchanged,
    /// The source can be read again, and its tip has not moved.
    Readable,
    /// Changes of a source on this machine are not noticed, and why; it is polled more often.
    Unwatched(String),
    /// Commits that the branch dropped are in the mirror of this daemon alone, and why; or all of them are in the store.
    Unkept(Option<String>),
    /// The payload of a snapshot, or why it cannot be read.
    Payload(Arc<ResourceSnapshot>, Result<Payload, String>),
    /// What members hold of a placement, at this index, or why it cannot be read.
    HeldRead(PlacementKey, u64, Result<Box<FoundSnapshot>, String>),
}

/// An event of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberEvent {
    /// The member answers, with everything that it holds.
    Online {
        /// The member.
        cluster: ClusterName,
        /// Kubernetes version, where it has one.
        version: Option<String>,
        /// What names its API server: the uid of its Namespace `kube-system`. `None` where it has none, or where that cannot be read.
        server: Option<String>,
        /// The snapshot that it holds completely, by placement.
        holds: BTreeMap<PlacementKey, Option<Held>>,
        /// Decisions of people that its inventories keep, by placement.
        kept: BTreeMap<PlacementKey, Kept>,
        /// Objects that carry a placement's label, by placement.
        inventory: BTreeMap<PlacementKey, Inventory>,
    },
    /// The member does not answer.
    Offline {
        /// The member.
        cluster: ClusterName,
        /// The reason, as text for users.
        reason: String,
    },
    /// The member's task ended because of an error in gitfleet and was restarted: it has no orders.
    Restarted {
        /// The member.
        cluster: ClusterName,
    },
    /// The result of an order.
    Work {
        /// The member.
        cluster: ClusterName,
        /// The placement.
        placement: PlacementKey,
        /// The result; the task keeps it as well.
        status: Arc<WorkStatus>,
    },
    /// The sums over the member's nodes and pods changed.
    Facts {
        /// The member.
        cluster: ClusterName,
        /// The current sums.
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
    /// Changes by hand on the member are not noticed until the next connection to it.
    Unwatched {
        /// The member.
        cluster: ClusterName,
        /// The reason, as text for users.
        reason: String,
    },
}

/// The report of the hub's task.
#[derive(Clone, Debug)]
pub struct HubReport {
    /// The decisions that the hub holds now; `None` if the write failed.
    pub done: Option<Arc<Exports>>,
    /// Why the hub does not answer, as text for users.
    pub failure: Option<String>,
    /// The failure may be over at the next automatic try.
    pub is_passing: bool,
    /// Objects that were left alone or that the hub refused, as text for users.
    pub problems: Vec<String>,
}
