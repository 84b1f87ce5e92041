//! The observable facts of a simulation, for checkers, traces and timelines.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use engine::SourceEvent;
use model::id::{ClusterName, CommitId, Digest, ObjectKey, PlacementKey};
use model::work::WorkOrder;

/// One fact.
#[derive(Clone, Debug)]
pub enum Fact<O = Infallible> {
    /// The daemon started a process.
    Began,
    /// The store kept a record; `None` means removed.
    Kept {
        /// Its key.
        key: String,
        /// Its value, as JSON.
        value: Option<Arc<[u8]>>,
    },
    /// The daemon accepted a commit, or read the accepted one again.
    Accepted(CommitId),
    /// The daemon received the state of the source's tip, for the first time in this process or again.
    SourceSeen,
    /// The daemon requested the payload of a commit that nothing protects.
    PayloadGone(CommitId),
    /// A member received an order.
    Ordered(Arc<WorkOrder>),
    /// A step was sent to a member.
    Sent {
        /// Its order.
        order: Arc<WorkOrder>,
        /// The process and the member's connection of the step; Agents of tests have numbers of their own.
        connection: (u64, u64),
    },
    /// A member executed or refused a step; the answer may be lost.
    Answered {
        /// As sent.
        order: Arc<WorkOrder>,
        /// As sent.
        connection: (u64, u64),
    },
    /// All steps on a connection were given up.
    Disconnected {
        /// The member.
        cluster: ClusterName,
        /// The connection.
        connection: (u64, u64),
    },
    /// An object was written on a member.
    Applied {
        /// The order.
        order: Arc<WorkOrder>,
        /// The object.
        object: ObjectKey,
        /// Digest of the manifest.
        digest: Digest,
        /// It is available, or not trackable.
        available: bool,
        /// It existed without the placement's label, and had another owner.
        was_foreign: bool,
    },
    /// An object was deleted on a member.
    Deleted {
        /// The order.
        order: Arc<WorkOrder>,
        /// The object.
        object: ObjectKey,
        /// The placement in the object's label; `None` without one.
        holder: Option<PlacementKey>,
        /// It had another owner too.
        is_shared: bool,
    },
    /// An object on a member was given up, and still exists.
    Released {
        /// The order.
        order: Arc<WorkOrder>,
        /// The object.
        object: ObjectKey,
        /// It had another owner too.
        is_shared: bool,
    },
    /// The inventory of a placement was written or removed.
    Inventory {
        /// The order.
        order: Arc<WorkOrder>,
        /// The snapshot that the member holds completely, according to it.
        holds: Option<u64>,
    },
    /// An object on a member became available.
    Available {
        /// The member.
        cluster: ClusterName,
        /// The object.
        object: ObjectKey,
    },
    /// A member answers again, or stopped answering.
    Reachable(ClusterName, bool),
    /// A requested instant was reached: see `Simulation::at`.
    Mark(u64),
    /// What is seen in this deployment alone.
    Own(O),
}

impl<O> Fact<O> {
    /// Returns the fact for an event of the source.
    pub(super) fn of_news(news: &SourceEvent) -> Vec<Self> {
        let accepted = match news {
            SourceEvent::Accepted(tree) | SourceEvent::Restored(Ok(tree)) => tree.commit.clone().map(Self::Accepted),
            _ => None,
        };
        let is_seen = match news {
            SourceEvent::Accepted(_)
            | SourceEvent::Refused(..)
            | SourceEvent::Rewritten(_)
            | SourceEvent::Switched(..)
            | SourceEvent::Unchanged
            | SourceEvent::Readable => true,
            SourceEvent::Of(..)
            | SourceEvent::Restored(_)
            | SourceEvent::Follows(_)
            | SourceEvent::Failed(_)
            | SourceEvent::Unwatched(_)
            | SourceEvent::Unkept(_)
            | SourceEvent::Seen(_)
            | SourceEvent::HeldRead(..)
            | SourceEvent::Payload(..) => false,
        };
        accepted.into_iter().chain(is_seen.then_some(Self::SourceSeen)).collect()
    }
}

impl<O: fmt::Display> fmt::Display for Fact<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began => f.write_str("began"),
            Self::Kept { key, value: Some(value) } => write!(f, "kept {key} {}", String::from_utf8_lossy(value)),
            Self::Kept { key, value: None } => write!(f, "kept {key} no more"),
            Self::Accepted(commit) => write!(f, "accepted {commit}"),
            Self::SourceSeen => f.write_str("the source was seen"),
            Self::PayloadGone(commit) => write!(f, "payload of {commit} is GONE"),
            Self::Ordered(about) => write_order(f, "ordered", about),
            Self::Sent { order: about, connection: (life, epoch) } => {
                write_order(f, "sent", about)?;
                write!(f, " over {life}.{epoch}")
            }
            Self::Answered { order: about, .. } => write_order(f, "answered", about),
            Self::Disconnected { cluster, connection: (life, epoch) } => {
                write!(f, "disconnected {cluster} from {life}.{epoch}")
            }
            Self::Applied { order: about, object, digest, available, was_foreign } => {
                write_order(f, if *was_foreign { "APPLIED to what is SHARED" } else { "APPLIED" }, about)?;
                let is = if *available { "available" } else { "not available yet" };
                write!(f, " {object} as {:.8}, {is}", digest.as_str())
            }
            Self::Deleted { order: about, object, .. } => {
                write_order(f, "DELETED", about)?;
                write!(f, " {object}")
            }
            Self::Released { order: about, object, .. } => {
                write_order(f, "RELEASED", about)?;
                write!(f, " {object}")
            }
            Self::Inventory { order: about, holds } => {
                write_order(f, "INVENTORY", about)?;
                write!(f, " holds {holds:?}")
            }
            Self::Available { cluster, object } => write!(f, "available on {cluster}: {object}"),
            Self::Reachable(cluster, true) => write!(f, "{cluster} answers"),
            Self::Reachable(cluster, false) => write!(f, "{cluster} does not answer"),
            Self::Mark(mark) => write!(f, "mark {mark}"),
            Self::Own(own) => own.fmt(f),
        }
    }
}

fn write_order(f: &mut fmt::Formatter<'_>, what: &str, order: &WorkOrder) -> fmt::Result {
    let WorkOrder { placement, cluster, generation, snapshot, .. } = order;
    let remove = if order.remove { " removal" } else { "" };
    write!(f, "{what} {placement} on {cluster}: generation {generation} snapshot {snapshot}{remove}")
}
