//! What is seen of machines beside what each daemon does: crashes, leases, agents and lost stores.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use deliver::inventory::Parent;
use deliver::live::LiveObject;
use model::id::{ClusterName, ObjectKey, PlacementKey};

/// One fact of a simulated fleet.
pub type Fact = plan::simulate::Fact<MachineFact>;

/// One fact about machines.
#[derive(Clone, Debug)]
pub enum MachineFact {
    /// The daemon process ended, between any two effects.
    Crashed,
    /// The daemon started a process with a changed clock, and shifted its instants by the change.
    Corrected(SignedDuration),
    /// The store was lost with the daemon process; the inventories of members at that time.
    StoreLost(BTreeMap<ClusterName, BTreeMap<PlacementKey, Parent>>),
    /// The store kept a record and answered with an error: the caller treats it as not kept, until the next process reads it.
    KeptUnsaid {
        /// Its key.
        key: String,
        /// Its value, as JSON; `None` means removed.
        value: Option<Arc<[u8]>>,
    },
    /// The store refused a batch.
    StoreRefused,
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

impl fmt::Display for MachineFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed => f.write_str("CRASHED"),
            Self::Corrected(by) => write!(f, "clock CORRECTED by {by:#}"),
            Self::StoreLost(holders) => write!(f, "LOST its store; {} members hold something", holders.len()),
            Self::KeptUnsaid { key, .. } => write!(f, "kept {key} and did NOT say so"),
            Self::StoreRefused => f.write_str("the store REFUSED"),
            Self::ListFailed { cluster, kind, code } => write!(f, "the list of {kind} FAILED on {cluster} ({code})"),
            Self::Restored { cluster, objects, inventories } => {
                let (objects, inventories) = (objects.len(), inventories.len());
                write!(f, "RESTORED {cluster} to {objects} objects and {inventories} inventories of a backup")
            }
            Self::Led { replica, epoch } => write!(f, "replica {replica} LEADS, epoch {epoch}"),
            Self::Batch { epoch } => write!(f, "batch of epoch {epoch}"),
            Self::Replaced { epoch } => write!(f, "batch of epoch {epoch} REFUSED: another replica leads"),
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
        }
    }
}
