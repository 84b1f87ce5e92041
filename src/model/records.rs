//! The records in the store. They are small: payload stays in git, at the snapshot's commit.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approvers::{ReplacedOwnership, one_or_many};
use super::id::{ClusterName, CommitId, Digest, ObjectId, ObjectKey, PlacementKey};
use super::journal::JournalKind;
use super::manifest::Origin;
use super::overrides::PickedOverrides;
use super::runs::Approval;
use super::tree::JoinedSource;
use super::variants::SnapshotVariants;
use super::warning::Warning;
use crate::api::condition::Condition;
use crate::api::placement::{ApplyStrategy, PlacementPolicy, PlacementSpec, PropagationPolicy};

mod clock;
mod cluster;
mod decision;
mod dropped;
mod held;
mod inventory;
mod source;
mod store;
mod work;

pub use clock::ClockReading;
pub use cluster::{ClusterRecord, MassLeave, MemberKind, SUSPENDED_WORDS, same_server};
pub use decision::{ClusterDecision, ClusterScore, PickReason};
pub use dropped::DroppedCommits;
pub use held::{HeldInputs, HeldSnapshot, SharedOverrides, SucceededState};
pub use inventory::{Glimpse, Inventory};
pub use source::SourceRecord;
pub use store::{Adoption, KEPT_WORDS_MAX, Kept, StoreRecord};
pub use work::{ApplyOutcome, Availability, Difference, ManifestStatus, WorkStatus};

/// One object of a resource snapshot: its identity and the origin of its payload in git.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotResource {
    /// The object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// File, line and blob at the snapshot's commit.
    pub origin: Origin,
    /// Digest of the sanitised object.
    pub digest: Digest,
}

/// A frozen selection. Immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshot {
    /// The placement it belongs to.
    pub placement: PlacementKey,
    /// Zero-based; grows by one where the hash changed.
    pub index: u64,
    /// The commit that brought it: what people are told, and what gates and history are of.
    pub commit: CommitId,
    /// Of a commit that joins several sources: the sources that it has at other commits than the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_sources: Vec<JoinedSource>,
    /// The later commit that holds the payload, where that only encrypted it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_at: Option<CommitId>,
    /// KubeFleet's resource hash over the sanitised objects in order.
    pub hash: Digest,
    /// The objects, in snapshot order.
    pub resources: Vec<SnapshotResource>,
    /// The number of objects in each of its parts: the first is the master, the others its sub-snapshots.
    pub parts: Vec<usize>,
    /// What clusters get instead, where it was rendered for clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<SnapshotVariants>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl ResourceSnapshot {
    /// Returns the name KubeFleet gives the master: `<placement>-<index>-snapshot`.
    pub fn name(&self) -> String {
        snapshot_name(&self.placement, self.index)
    }

    /// Returns the commits that hold its payload.
    pub fn commits(&self) -> impl Iterator<Item = &CommitId> {
        let of_variants = self.variants.iter().flat_map(|variants| &variants.made).map(|variant| &variant.commit);
        std::iter::once(self.encrypted_at.as_ref().unwrap_or(&self.commit)).chain(of_variants)
    }
}

/// Returns the name KubeFleet gives a master resource snapshot.
pub fn snapshot_name(placement: &PlacementKey, index: u64) -> String {
    format!("{}-{index}-snapshot", placement.name)
}

/// A policy as it was scheduled, with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshot {
    /// The placement it belongs to.
    pub placement: PlacementKey,
    /// Zero-based; grows by one where the hash changed.
    pub index: u64,
    /// KubeFleet's policy hash: without `numberOfClusters`.
    pub hash: Digest,
    /// The policy.
    pub policy: Option<PlacementPolicy>,
    /// The N of `PickN`, which is not part of the hash.
    pub number_of_clusters: Option<i32>,
    /// The placement generation that was scheduled last.
    pub observed_generation: i64,
    /// Whether the policy was fulfilled.
    pub fulfilled: bool,
    /// The decisions in KubeFleet's order.
    pub target_clusters: Vec<ClusterDecision>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl PolicySnapshot {
    /// Returns the name KubeFleet gives it: `<placement>-<index>`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.placement.name, self.index)
    }
}

/// The state of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BindingState {
    /// Picked; nothing delivered yet.
    Scheduled,
    /// Delivered, or being delivered.
    Bound,
    /// No longer picked; what was delivered is still there.
    Unscheduled,
}

/// One placement on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Unique name after KubeFleet's scheme; the rolling order is by this name.
    pub name: String,
    /// The placement.
    pub placement: PlacementKey,
    /// The cluster.
    pub cluster: ClusterName,
    /// Its state.
    pub state: BindingState,
    /// The state to restore if an unscheduled binding is picked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_state: Option<BindingState>,
    /// The policy snapshot (by index) that picked it.
    pub policy_index: u64,
    /// The decision that picked it.
    pub decision: ClusterDecision,
    /// The resource snapshot (by index) it is assigned; `None` before its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The apply strategy of its objects; rolls out like content.
    #[serde(default)]
    pub apply_strategy: ApplyStrategy,
    /// The overrides of its objects; they roll out like content.
    #[serde(default, skip_serializing_if = "PickedOverrides::is_empty")]
    pub overrides: PickedOverrides,
    /// When the cluster was picked; absent in what earlier versions kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When `snapshot` was last assigned: the progress deadline counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Grows with every change of the above.
    pub generation: i64,
    /// RolloutStarted, Overridden, WorkSynchronized, Applied, Available, DiffReported.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Being removed: its objects are being pruned; then the record is deleted.
    #[serde(default)]
    pub deleting: bool,
    /// The objects that the decisions about its removal knew: objects that appear later go through the deletion guard first.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub removes: BTreeSet<ObjectKey>,
    /// The placement abandoned its objects at the removal: they stay, whatever the placement says since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandons: bool,
}

impl Binding {
    /// Returns since when it is there, as far as that is known.
    pub fn created(&self) -> Option<Timestamp> {
        self.created_at.or(self.started_at)
    }
}

/// The record of a placement, beside its snapshots and bindings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRecord {
    /// The placement.
    pub key: PlacementKey,
    /// `spec` at the accepted commit.
    pub spec: PlacementSpec,
    /// `metadata.annotations` at the accepted commit.
    pub annotations: BTreeMap<String, String>,
    /// Grows with every change of spec or annotations.
    pub generation: i64,
    /// The file it is in.
    pub origin: Option<Origin>,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// Its conditions; see [`ConditionType`](crate::conditions::ConditionType).
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// An error of only this placement; it keeps its last good state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its warnings; they refuse nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// The deletion gate, where one is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_gate: Option<DeletionGate>,
    /// Snapshots of clusters whose payload could not be read from git: the clusters keep their objects, and reading is retried.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unreadable: BTreeSet<u64>,
    /// The commit that switched the deletion guard off: it is still guarded itself, the next one is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_off_at: Option<CommitId>,
    /// Approvals that protected clusters in runs that are gone, and that no newer run has asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked_before: BTreeMap<ClusterName, usize>,
    /// The name under which it continues, as long as members hold something of it under this one. It keeps what protected its clusters here
    /// as well: this name may come back before they have it under the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<PlacementKey>,
    /// Clusters that it leaves, and where all that is left is to be taken over by other placements.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub handing_over: BTreeSet<ClusterName>,
    /// Placements whose approvals it took over with their objects, each with the snapshot that they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<PlacementKey, u64>,
    /// `External`: picked clusters that its runs leave as they are, because they are in no stage and its strategy ignores such
    /// clusters.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ignored: BTreeSet<ClusterName>,
    /// Clusters that have the newest snapshot with other overrides, values or apply strategy than the accepted commit's.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub behind: BTreeSet<ClusterName>,
    /// Gone from git; its objects are being removed, or wait for the deletion gate.
    #[serde(default)]
    pub removed: bool,
    /// Why the rollout halted (`max-failures`), as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
    /// Nothing new is started: a person paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// A snapshot that is not rolled out again until a person retries it or the content gets another digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldSnapshot>,
    /// `RollingUpdate`: the target snapshot, if it is not the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<u64>,
    /// The last snapshot that succeeded everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_succeeded: Option<u64>,
    /// What clusters had whenever everything had succeeded everywhere, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<SucceededState>,
    /// What a rollback returns to, as long as something is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<SucceededState>,
    /// `RollingUpdate`: clusters that failed with what is rolled out now, also those that left since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedClusters>,
    /// The last snapshot with an automatic run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_automatic: Option<u64>,
    /// Runs with a smaller sequence are history: the placement was moved in another way since, so they have no effect any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs_from: u64,
    /// The snapshot whose rollout the journal describes, and how many of its events were written.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "told")]
    pub journaled: Option<(u64, usize)>,
    /// Who may approve its rollouts by comment, where that depends on its file: by the CODEOWNERS file, by its folder or its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// The configuration accepts an approval only with the digest of what is approved, so lines to copy have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub digest_required: bool,
    /// The owners that the CODEOWNERS file names for its file, as approvers are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Whom its strategy's annotation names as approvers; absent means no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed: Option<String>,
    /// What decided who may approve before a commit changed that, until that commit is rolled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub replaced: Vec<ReplacedOwnership>,
    /// The number of superseded rollouts since the last completed one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub superseded: u32,
    /// The results of this placement's evictions in git, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evictions: BTreeMap<String, EvictionRecord>,
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

impl PlacementRecord {
    /// Returns whose approval may count beside that of the approvers that hold now: the owners of its file, and all that were named before
    /// a change that is not rolled out.
    pub fn all_owners(&self) -> Vec<String> {
        let mut all = self.owners.clone();
        for replaced in &self.replaced {
            let owners = replaced.before.owners.iter().map(String::as_str);
            let narrowed = replaced.before.narrowed.iter().flat_map(|named| named.split(',')).map(str::trim);
            for entry in owners.chain(narrowed) {
                if !all.iter().any(|known| known == entry) {
                    all.push(entry.to_owned());
                }
            }
        }
        all
    }

    /// Returns the deletion gate, if it is closed.
    pub fn closed_gate(&self) -> Option<&DeletionGate> {
        self.deletion_gate.as_ref().filter(|gate| gate.opened_at.is_none())
    }

    /// Tells whether its runs leave a binding as it is.
    pub fn ignores(&self, binding: &Binding) -> bool {
        binding.state != BindingState::Unscheduled && self.ignored.contains(&binding.cluster)
    }

    /// Tells whether its objects stay on clusters that it leaves: `deleteStrategy.propagationPolicy: Abandon`.
    pub fn abandons(&self) -> bool {
        let policy = self.spec.strategy.delete_strategy.as_ref().map(|strategy| strategy.propagation_policy);
        policy == Some(PropagationPolicy::Abandon)
    }
}

/// A person's pause: nothing new starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The reason, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Clusters that failed with one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedClusters {
    /// SHA-256 over content, overrides and apply strategy: failures count for this alone.
    pub content: Digest,
    /// The clusters.
    pub clusters: BTreeSet<ClusterName>,
}

/// An evaluated ClusterResourcePlacementEviction; each is evaluated once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionRecord {
    /// The cluster to leave.
    pub cluster: ClusterName,
    /// Valid and Executed.
    pub conditions: Vec<Condition>,
    /// When it was evaluated.
    pub at: Timestamp,
}

/// Deletions that wait for a person, for one placement and digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionGate {
    /// SHA-256 over the deletions: an approval names it.
    pub digest: Digest,
    /// The guard's reason, as text for users.
    pub reason: String,
    /// The objects to delete, by cluster.
    pub deletions: BTreeMap<ClusterName, BTreeSet<ObjectKey>>,
    /// Clusters of a mass removal: their bindings go, and nothing on them is deleted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<ClusterName>,
    /// When it closed.
    pub since: Timestamp,
    /// Who may open it, by the strategy's annotation; absent means no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<String>,
    /// Who approved so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// When it got enough approvals. It stays open for the rest of these deletions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
}

impl DeletionGate {
    /// Returns the kind of waiting deletions, as text for users.
    pub fn what(&self) -> &'static str {
        match (self.deletions.is_empty(), self.leaving.is_empty()) {
            (_, true) => "deletions",
            (true, false) => "clusters that left",
            (false, false) => "deletions and clusters that left",
        }
    }

    /// Tells whether something on a cluster waits for this gate.
    pub fn holds(&self, cluster: &ClusterName) -> bool {
        self.deletions.contains_key(cluster) || self.leaving.contains(cluster)
    }
}

/// One line of the append-only journal of decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: JournalKind,
    /// The placement it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementKey>,
    /// The cluster it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// The facts.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

impl JournalEntry {
    /// Tells whether it concerns a placement of this name: `NAME` or `NAMESPACE/NAME`, of KubeFleet's kinds or OCM's.
    pub fn concerns(&self, name: &str) -> bool {
        self.placement.as_ref().is_some_and(|key| key.to_string() == name)
            || self.facts.get("ocmPlacement").and_then(Value::as_str) == Some(name)
    }

    /// Tells whether it reports that something went wrong.
    pub fn is_warning(&self) -> bool {
        self.event.is_warning() || self.facts.get("warning").is_some()
    }
}
