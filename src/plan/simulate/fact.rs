//! The observable facts of a simulation, for checkers, traces and timelines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use decide::deliver::inventory::Parent;
use decide::deliver::live::LiveObject;
use engine::SourceEvent;
use model::id::{ClusterName, CommitId, Digest, ObjectKey, PlacementKey};
use model::work::WorkOrder;

/// One fact.
#[derive(Clone, Debug)]
pub enum Fact {
    /// The daemon started a process.
    Began,
    /// The daemon process ended, between any two effects.
    Crashed,
    /// The daemon started a process with a changed clock, and shifted its instants by the change.
    Corrected(SignedDuration),
    /// The store was lost with the daemon process; the inventories of members at that time.
    StoreLost(BTreeMap<ClusterName, BTreeMap<PlacementKey, Parent>>),
    /// The store kept a record; `None` means removed.
    Kept {
        /// Its key.
        key: String,
        /// Its value, as JSON.
        value: Option<Arc<[u8]>>,
    },
    /// The store kept a record and answered with an error: the caller treats it as not kept, until the next process reads it.
    KeptUnsaid {
        /// Its key.
        key: String,
        /// Its value, as JSON; `None` means removed.
        value: Option<Arc<[u8]>>,
    },
    /// The store refused a batch.
    StoreRefused,
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
    /// The list of a kind failed on a member.
    ListFailed {
        /// The member.
        cluster: ClusterName,
        /// The kind.
        kind: String,
        /// The API server's status; 0 for an interrupted answer.
        code: u16,
    },
    /// A member was restored from a backup.
    Restored {
        /// The member.
        cluster: ClusterName,
        /// Its objects now.
        objects: Arc<BTreeMap<ObjectKey, LiveObject>>,
        /// Its inventories now.
        inventories: Arc<BTreeMap<PlacementKey, Parent>>,
    },
    /// A member answers again, or stopped answering.
    Reachable(ClusterName, bool),
    /// A requested instant was reached: see `Simulation::at`.
    Mark(u64),
    /// A replica took the lease.
    Led {
        /// The replica.
        replica: usize,
        /// The new epoch.
        epoch: u64,
    },
    /// The database kept a batch of this epoch.
    Batch {
        /// The epoch of the replica that decided it.
        epoch: u64,
    },
    /// The database refused a batch of this epoch, because another replica has taken the lease since.
    Replaced {
        /// The epoch of the refused batch.
        epoch: u64,
    },
    /// A member was given to an agent, as the list says that a daemon sent; or a daemon began to deliver to it itself.
    Given {
        /// The agent; `None` is the daemon.
        agent: Option<usize>,
        /// The member.
        cluster: ClusterName,
    },
    /// An agent runs exactly these members, as a server told it.
    Told {
        /// The agent.
        agent: usize,
        /// The members.
        members: BTreeSet<ClusterName>,
    },
    /// An agent executed a frame of a server.
    Executed {
        /// The agent.
        agent: usize,
        /// The epoch of the server.
        epoch: u64,
    },
    /// A daemon took the events of a request of an agent.
    Heard {
        /// The session.
        session: String,
        /// The number of the request.
        number: u64,
    },
    /// An agent lost its disk.
    DiskLost(usize),
    /// A write of a replica, or of an agent, reached a member.
    Wrote {
        /// The agent; `None` is the replica.
        agent: Option<usize>,
        /// The member.
        cluster: ClusterName,
        /// The epoch of the replica, or the one that the agent saw.
        epoch: u64,
        /// When it passed the fence.
        passed: Timestamp,
        /// When it left its process: later, where the process was stopped between the two.
        left: Timestamp,
    },
}

impl Fact {
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
            | SourceEvent::Payload(..) => false,
        };
        accepted.into_iter().chain(is_seen.then_some(Self::SourceSeen)).collect()
    }
}

impl Fact {
    /// Writes what concerns agents.
    fn fmt_of_agents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given { agent: Some(agent), cluster } => write!(f, "agent {agent} is GIVEN {cluster}"),
            Self::Given { agent: None, cluster } => write!(f, "the daemon delivers to {cluster} itself"),
            Self::Told { agent, members } => {
                let names: Vec<&str> = members.iter().map(ClusterName::as_str).collect();
                write!(f, "agent {agent} runs {}", names.join(", "))
            }
            Self::Executed { agent, epoch } => write!(f, "agent {agent} follows epoch {epoch}"),
            Self::Heard { session, number } => write!(f, "request {number} of session {session} is taken"),
            Self::DiskLost(agent) => write!(f, "agent {agent} LOST its disk"),
            Self::Wrote { agent, cluster, epoch, passed, left } => {
                let who = agent.map_or_else(|| "the daemon".to_owned(), |agent| format!("agent {agent}"));
                write!(f, "{cluster} is written by {who} under epoch {epoch}, begun {passed}, sent {left}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = |f: &mut fmt::Formatter<'_>, what: &str, order: &WorkOrder| {
            let remove = if order.remove { " removal" } else { "" };
            let (placement, cluster) = (&order.placement, &order.cluster);
            write!(
                f,
                "{what} {placement} on {cluster}: generation {} snapshot {}{remove}",
                order.generation, order.snapshot
            )
        };
        match self {
            Self::Began => f.write_str("began"),
            Self::Crashed => f.write_str("CRASHED"),
            Self::Corrected(by) => write!(f, "clock CORRECTED by {by:#}"),
            Self::StoreLost(holders) => write!(f, "LOST its store; {} members hold something", holders.len()),
            Self::Kept { key, value: Some(value) } => write!(f, "kept {key} {}", String::from_utf8_lossy(value)),
            Self::Kept { key, value: None } => write!(f, "kept {key} no more"),
            Self::KeptUnsaid { key, .. } => write!(f, "kept {key} and did NOT say so"),
            Self::StoreRefused => f.write_str("the store REFUSED"),
            Self::Accepted(commit) => write!(f, "accepted {commit}"),
            Self::SourceSeen => f.write_str("the source was seen"),
            Self::PayloadGone(commit) => write!(f, "payload of {commit} is GONE"),
            Self::Ordered(about) => order(f, "ordered", about),
            Self::Sent { order: about, connection: (life, epoch) } => {
                order(f, "sent", about)?;
                write!(f, " over {life}.{epoch}")
            }
            Self::Answered { order: about, .. } => order(f, "answered", about),
            Self::Disconnected { cluster, connection: (life, epoch) } => {
                write!(f, "disconnected {cluster} from {life}.{epoch}")
            }
            Self::Applied { order: about, object, digest, available, was_foreign } => {
                order(f, if *was_foreign { "APPLIED to what is SHARED" } else { "APPLIED" }, about)?;
                let is = if *available { "available" } else { "not available yet" };
                write!(f, " {object} as {:.8}, {is}", digest.as_str())
            }
            Self::Deleted { order: about, object, .. } => {
                order(f, "DELETED", about)?;
                write!(f, " {object}")
            }
            Self::Released { order: about, object, .. } => {
                order(f, "RELEASED", about)?;
                write!(f, " {object}")
            }
            Self::Inventory { order: about, holds } => {
                order(f, "INVENTORY", about)?;
                write!(f, " holds {holds:?}")
            }
            Self::Available { cluster, object } => write!(f, "available on {cluster}: {object}"),
            Self::ListFailed { cluster, kind, code } => write!(f, "the list of {kind} FAILED on {cluster} ({code})"),
            Self::Restored { cluster, objects, inventories } => {
                let (objects, inventories) = (objects.len(), inventories.len());
                write!(f, "RESTORED {cluster} to {objects} objects and {inventories} inventories of a backup")
            }
            Self::Reachable(cluster, true) => write!(f, "{cluster} answers"),
            Self::Reachable(cluster, false) => write!(f, "{cluster} does not answer"),
            Self::Mark(mark) => write!(f, "mark {mark}"),
            Self::Led { replica, epoch } => write!(f, "replica {replica} LEADS, epoch {epoch}"),
            Self::Batch { epoch } => write!(f, "batch of epoch {epoch}"),
            Self::Replaced { epoch } => write!(f, "batch of epoch {epoch} REFUSED: another replica leads"),
            other => other.fmt_of_agents(f),
        }
    }
}
