//! The messages: what an agent says when a session begins, what the server sends in it, what the agent reports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{PROTOCOL_NEWEST, PROTOCOL_OLDEST};
use deliver::inventory::Held;
use engine::MemberEvent;
use model::facts::Facts;
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::{Inventory, Kept, WorkStatus};
use model::work::SourceName;

/// The versions of the protocol that a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocols {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl Default for Protocols {
    /// The versions of this program.
    fn default() -> Self {
        Self { oldest: PROTOCOL_OLDEST, newest: PROTOCOL_NEWEST }
    }
}

impl Protocols {
    /// Returns the highest version that both speak; `None` where there is none.
    pub fn common(self, other: Self) -> Option<u32> {
        let highest = self.newest.min(other.newest);
        (highest >= self.oldest.max(other.oldest)).then_some(highest)
    }
}

/// What an agent says when it opens a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The versions of the protocol that it speaks.
    pub protocol: Protocols,
    /// The version of the program, for people.
    pub version: String,
    /// Names one start of the agent: a session of an earlier start of the same state folder is over.
    pub instance: String,
    /// The pools that it joins.
    #[serde(default)]
    pub pools: BTreeSet<String>,
    /// The highest epoch of a server that it saw.
    pub epoch: u64,
    /// The digests of the orders that it has, by member and placement.
    #[serde(default)]
    pub running: BTreeMap<ClusterName, BTreeMap<PlacementKey, Digest>>,
}

/// What the server sends in a session. A variant that the receiver does not know is read as [`FromServer::Unknown`] and skipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromServer {
    /// The session is open. Always the first frame.
    Welcome {
        /// Names the session; reports repeat it.
        session: String,
        /// The version of the protocol that counts.
        protocol: u32,
        /// The epoch of the server; an agent refuses one that is lower than the highest it saw.
        epoch: u64,
        /// How long a silent agent keeps its members, in milliseconds.
        lease_ms: u64,
    },
    /// All members of the agent; it replaces the earlier list. A member that is not in it is stopped, and nothing of it is removed.
    Members {
        /// The name of the source in inventories.
        source: SourceName,
        /// The rules that tell whether objects are available.
        health: AgentHealth,
        /// The members.
        members: Vec<AgentMember>,
    },
    /// The newest order of a placement on a member. The agent fetches what it lacks of it.
    Order {
        /// The member.
        cluster: ClusterName,
        /// The placement.
        placement: PlacementKey,
        /// The digest of the order: [`super::AgentOrder::encode`].
        digest: Digest,
        /// The last report about the placement, for an agent that has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reported: Option<Arc<WorkStatus>>,
    },
    /// The objects of a placement are left alone.
    Forget {
        /// The member.
        cluster: ClusterName,
        /// The placement.
        placement: PlacementKey,
    },
    /// These are all placements of a member: orders that the agent keeps of any other are forgotten, and their objects left alone.
    Placements {
        /// The member.
        cluster: ClusterName,
        /// The placements.
        placements: BTreeSet<PlacementKey>,
    },
    /// The server ends the session.
    Bye {
        /// Why, for people.
        reason: String,
    },
    /// A message of a newer server. Nothing follows from it.
    #[serde(other)]
    Unknown,
}

/// One member of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMember {
    /// Its name.
    pub cluster: ClusterName,
    /// How the agent reaches it.
    pub reach: AgentReach,
    /// The pool that it is of; such a member is written to only while the lease lasts. Absent for a member of a named agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// How an agent reaches a member. Paths are relative to the agent's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentReach {
    /// By a kubeconfig.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The context; absent means the file's current one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// Programs that may be started to sign in.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow_exec: Vec<String>,
    },
    /// As the folder that its manifests are written to.
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// By the service account that the agent runs as.
    InCluster,
    /// In a way that only newer agents know.
    #[serde(other)]
    Unknown,
}

/// When objects are available: the section `health` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHealth {
    /// Rules for kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<AgentKindHealth>,
    /// Whether kinds that KubeFleet has no rule for tell nothing.
    #[serde(default)]
    pub only_kubefleets: bool,
}

/// When objects of one kind are available, and when they failed: expressions as they are written in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentKindHealth {
    /// The group of the kind.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// True when an object is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// True when an object failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What an agent reports; without events it is the heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reports {
    /// The session.
    pub session: String,
    /// Counts the requests of the session from 1. A number that the server has seen is acknowledged again, and its events are dropped.
    pub seq: u64,
    /// The events, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ToServer>,
}

/// The answer to [`Reports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acked {
    /// The highest number that the server has.
    pub acked: u64,
}

/// The body of an answer that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Why, for people.
    pub message: String,
    /// The versions of the protocol that the server speaks, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocols>,
}

/// One event: that of a member's task, or of the agent. A variant that the server does not know is skipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ToServer {
    /// [`MemberEvent::Online`].
    Online {
        /// The member.
        cluster: ClusterName,
        /// Kubernetes version, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// What names its API server, where that can be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The snapshot that it holds completely, by placement.
        #[serde(default)]
        holds: BTreeMap<PlacementKey, Option<Held>>,
        /// Decisions of people that its inventories keep, by placement.
        #[serde(default)]
        kept: BTreeMap<PlacementKey, Kept>,
        /// Objects that carry a placement's label, by placement.
        #[serde(default)]
        inventory: BTreeMap<PlacementKey, Inventory>,
    },
    /// [`MemberEvent::Offline`].
    Offline {
        /// The member.
        cluster: ClusterName,
        /// The reason, as text for users.
        reason: String,
    },
    /// [`MemberEvent::Restarted`]: the server sends all orders of the member again.
    Restarted {
        /// The member.
        cluster: ClusterName,
    },
    /// [`MemberEvent::Work`].
    Work {
        /// The member.
        cluster: ClusterName,
        /// The placement.
        placement: PlacementKey,
        /// The result.
        status: Arc<WorkStatus>,
    },
    /// [`MemberEvent::Facts`].
    Facts {
        /// The member.
        cluster: ClusterName,
        /// The current sums.
        facts: Box<Facts>,
    },
    /// [`MemberEvent::Namespaces`].
    Namespaces {
        /// The member.
        cluster: ClusterName,
        /// Their names, or why they cannot be listed, for people.
        namespaces: Result<BTreeSet<String>, String>,
    },
    /// [`MemberEvent::Unwatched`].
    Unwatched {
        /// The member.
        cluster: ClusterName,
        /// The reason, as text for users.
        reason: String,
    },
    /// The agent has stopped the task of this member, with every write: another agent may have it at once.
    Stopped {
        /// The member.
        cluster: ClusterName,
    },
    /// The agent ends and has stopped all its members.
    Bye,
    /// An event of a newer agent. Nothing follows from it.
    #[serde(other)]
    Unknown,
}

impl From<MemberEvent> for ToServer {
    fn from(event: MemberEvent) -> Self {
        match event {
            MemberEvent::Online { cluster, version, server, holds, kept, inventory } => {
                Self::Online { cluster, version, server, holds, kept, inventory }
            }
            MemberEvent::Offline { cluster, reason } => Self::Offline { cluster, reason },
            MemberEvent::Restarted { cluster } => Self::Restarted { cluster },
            MemberEvent::Work { cluster, placement, status } => Self::Work { cluster, placement, status },
            MemberEvent::Facts { cluster, facts } => Self::Facts { cluster, facts },
            MemberEvent::Namespaces { cluster, namespaces } => Self::Namespaces { cluster, namespaces },
            MemberEvent::Unwatched { cluster, reason } => Self::Unwatched { cluster, reason },
        }
    }
}

impl ToServer {
    /// Returns the member that the event is about; `None` for an event of the agent.
    pub fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::Online { cluster, .. }
            | Self::Offline { cluster, .. }
            | Self::Restarted { cluster }
            | Self::Work { cluster, .. }
            | Self::Facts { cluster, .. }
            | Self::Namespaces { cluster, .. }
            | Self::Unwatched { cluster, .. }
            | Self::Stopped { cluster } => Some(cluster),
            Self::Bye | Self::Unknown => None,
        }
    }

    /// Returns the event of the member's task; `None` for one of the agent itself.
    pub fn into_event(self) -> Option<MemberEvent> {
        Some(match self {
            Self::Online { cluster, version, server, holds, kept, inventory } => {
                MemberEvent::Online { cluster, version, server, holds, kept, inventory }
            }
            Self::Offline { cluster, reason } => MemberEvent::Offline { cluster, reason },
            Self::Restarted { cluster } => MemberEvent::Restarted { cluster },
            Self::Work { cluster, placement, status } => MemberEvent::Work { cluster, placement, status },
            Self::Facts { cluster, facts } => MemberEvent::Facts { cluster, facts },
            Self::Namespaces { cluster, namespaces } => MemberEvent::Namespaces { cluster, namespaces },
            Self::Unwatched { cluster, reason } => MemberEvent::Unwatched { cluster, reason },
            Self::Stopped { .. } | Self::Bye | Self::Unknown => return None,
        })
    }
}
