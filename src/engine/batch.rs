//! A batch: the writes for the store that belong together, and what changes once the store has answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::agent_tokens::AgentTokens;
use crate::store::{Expected, Op, records};
use decide::Decision;
use decide::state::PlacementState;
use decide::status::decisions::Exports;
use model::decisions::HubRecord;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::ocm::OcmPlacementRecord;
use model::overrides::OverrideRef;
use model::records::{ClusterRecord, JournalEntry, Kept, SourceRecord, StoreRecord, WorkStatus};
use schedule::ocm::Key;

/// Decisions to store; handed back as soon as the store has answered.
#[derive(Debug, Default)]
pub struct Batch {
    /// The operations, for one atomic batch of the store. Empty if nothing changes; then nothing needs to be written.
    pub ops: Vec<Op>,
    /// The number of decisions that change a record.
    pub changed: u64,
    /// The number of decisions that change nothing.
    pub unchanged: u64,
    /// The state of clusters was refreshed.
    pub refreshed: bool,
    /// What follows from the operations, in this order.
    pub(super) changes: Vec<BatchChange>,
}

/// What the store has with a batch: it counts once the store has kept the batch, and is undone if the store refused it.
#[derive(Debug)]
pub(super) enum BatchChange {
    /// The record of the source.
    Source(Box<SourceRecord>),
    /// A person accepted the tip of a rewritten history.
    AcceptedRewrite(CommitId),
    /// A person lets the accepted commit continue although the source was not read.
    Continued,
    /// The store's own record.
    Store(StoreRecord),
    /// The store's own record after a person has adopted the store.
    Adopted(StoreRecord),
    /// The decisions of this batch ended the takeover; this was the store's record before.
    TookOver(StoreRecord),
    /// The record of the hub.
    Hub(HubRecord),
    /// The tokens of agents.
    AgentTokens(Arc<AgentTokens>),
    /// The snapshot of an override.
    Override(OverrideRef),
    /// The record of a cluster.
    Cluster(Box<ClusterRecord>),
    /// The record of a cluster that something was pushed about.
    Pushed(Box<ClusterRecord>),
    /// A decision about an OCM Placement.
    Picked(PickedPlacement),
    /// The exports after the decisions.
    Exported(Arc<Exports>),
    /// A decision about a placement.
    Decided(Box<DecidedPlacement>),
    /// A placement that a person's command changed.
    Executed(Box<PlacementState>),
    /// A member whose task began, and that is told which placements it has.
    Restarted(ClusterName),
}

/// A decided OCM Placement: its record before, and when time alone changes the decision.
#[derive(Debug)]
pub(super) struct PickedPlacement {
    pub key: Key,
    pub known: Option<Arc<OcmPlacementRecord>>,
    pub journal: Vec<JournalEntry>,
    pub wake_at: Option<Timestamp>,
}

/// A decided placement, with what was read for this decision only.
#[derive(Debug)]
pub(super) struct DecidedPlacement {
    pub key: PlacementKey,
    pub decision: Decision,
    /// The reports of members that it includes.
    pub reports: BTreeMap<ClusterName, Arc<WorkStatus>>,
    /// Decisions of people that members keep, and that it takes over.
    pub kept: Option<Kept>,
    /// Clusters whose bindings it undoes, because they hold something newer.
    pub ahead: Option<BTreeMap<ClusterName, u64>>,
}

impl Batch {
    /// Collects the writes of one decision.
    pub(super) fn take(&mut self, difference: Vec<Op>) {
        if difference.is_empty() {
            self.unchanged += 1;
        } else {
            self.changed += 1;
        }
        self.ops.extend(difference);
    }

    /// Adds the write of a record. Returns whether it could be written as JSON: one that could not stays as the store has it.
    pub(super) fn write<T: Serialize>(&mut self, key: String, record: &T) -> bool {
        match records::put(key, record, Expected::Any) {
            Ok(op) => {
                self.ops.push(op);
                true
            }
            Err(error) => {
                tracing::error!(%error, "a record could not be stored and stays as it is");
                false
            }
        }
    }
}
