//! The inputs of a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::evictions::Disruptions;
use super::found::Holders;
use super::memo::Memo;
use super::names::Names;
use super::ocm::{Facts, Ocm};
use super::overrides::Overrides;
pub use super::payload::{Payload, desired};
use super::strategies::Staged;
use crate::rollout::Heard;
use crate::snapshot;
use crate::status::placement::PlacementView;
use crate::status::records::PlacementRecords;
use crate::status::staged_run::placement_word;
use deliver::inventory::Held;
use model::api::cluster::MemberCluster;
use model::api::placement::PlacementPolicy;
use model::approvers::{ApproversByPath, Ownership};
use model::cluster::Cluster;
use model::facts;
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::policy::Floor;
use model::records::{
    Binding, ClusterRecord, Kept, MassLeave, MemberKind, PlacementRecord, PolicySnapshot, ResourceSnapshot, WorkStatus,
};
use model::rights::{Approving, Policy};
use model::runs::{ApprovalRules, MetricQuery, MetricReply, MetricServers, RunRecord, Runs};
use model::tenants::{Tenant, Tenants};
use model::tree::{JoinedSource, Placement, Tree};
use model::work::SourceName;
use schedule::Fleet;
use schedule::eligibility::SILENCE_MAX;

/// Added to the longest silence: at the exact limit a cluster still counts as reachable.
const SILENCE_MARGIN: SignedDuration = SignedDuration::from_millis(1);

/// The inputs of every decision, beside the placement itself.
#[derive(Clone, Debug, Default)]
pub struct FleetState {
    /// Identity of the source, written on inventories.
    pub source: SourceName,
    /// The accepted commit.
    pub tree: Arc<Tree>,
    /// Of several sources those that the accepted commit changed.
    pub changed_sources: Vec<JoinedSource>,
    /// The fleet for scheduling: the clusters that git names and that have not left.
    pub clusters: Fleet,
    /// The record of each cluster, including those that left.
    pub records: BTreeMap<ClusterName, ClusterRecord>,
    /// The newest snapshot of a placement on any member: a lost store continues from it.
    pub held: BTreeMap<PlacementKey, Held>,
    /// Pauses and holds that members keep and the store may not know, because it was lost or is older; the placement's next
    /// decision takes them over.
    pub kept: BTreeMap<PlacementKey, Kept>,
    /// What members hold of placements with a hold among those; some of it is read again from git before that decision.
    pub holders: BTreeMap<PlacementKey, Holders>,
    /// Clusters that hold a newer snapshot than a store restored from an older backup says, with the snapshot's index.
    pub ahead: BTreeMap<PlacementKey, BTreeMap<ClusterName, u64>>,
    /// Reports about placements since the start of this process, or since the cluster answers again, for clusters whose last
    /// report is older.
    pub heard: BTreeMap<PlacementKey, BTreeMap<ClusterName, Heard>>,
    /// OCM Placements, and what they decided.
    pub ocm: Ocm,
    /// Evictions and disruption budgets of the accepted commit.
    pub disruptions: Disruptions,
    /// Snapshots of overrides.
    pub overrides: Overrides,
    /// Staged update strategies and runs of the accepted commit.
    pub staged: Staged,
    /// The names of placements and runs in use.
    pub names: Names,
    /// How many approvals open a gate, and how long an approval is valid.
    pub approvals: ApprovalRules,
    /// Who may approve by comment, from the configuration; if empty, the permission counts.
    pub approvers: Vec<String>,
    /// Who may approve by comment by the file of a placement, from the configuration.
    pub by_path: Arc<ApproversByPath>,
    /// The minimum that the configuration demands, whatever commits say.
    pub floor: Floor,
    /// What the files of folders may ask for, from the configuration.
    pub tenants: Arc<Tenants>,
    /// The Prometheus servers of the configuration.
    pub servers: MetricServers,
    /// What they said last to the queries that are asked now.
    pub replies: BTreeMap<PlacementKey, BTreeMap<MetricQuery, MetricReply>>,
    /// This process could not read the source yet: started work continues, and nothing new starts.
    pub source_unread: bool,
}

impl FleetState {
    /// Tells whether a cluster answers and may be written to.
    pub fn is_online(&self, cluster: &ClusterName) -> bool {
        self.records.get(cluster).is_some_and(ClusterRecord::answers)
    }

    /// Returns the tenant that a placement belongs to, by its file; `None` where it is of whoever runs the fleet.
    pub fn tenant_of(&self, placement: &PlacementRecord) -> Option<&Tenant> {
        self.tenants.of(&placement.origin.as_ref()?.path)
    }

    /// Returns who may approve rollouts of a placement by comment where the configuration decides.
    pub fn approvers_of(&self, placement: &PlacementRecord) -> &[String] {
        let path = placement.origin.as_ref().map(|origin| &*origin.path);
        path.and_then(|path| self.approvers_at(path)).unwrap_or(&self.approvers)
    }

    /// Returns who may approve rollouts of placements in a file by comment: those of the deepest folder around it, of a tenant or with
    /// approvers of its own. `None` if no folder names any.
    pub fn approvers_at(&self, path: &str) -> Option<&[String]> {
        let tenant = self.tenants.of(path).filter(|tenant| !tenant.approvers.is_empty());
        let tenant = tenant.map(|tenant| (tenant.path.as_str(), tenant.approvers.as_slice()));
        let folder = self.by_path.of(path);
        let deepest = folder.into_iter().chain(tenant).min_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        deepest.map(|(_, approvers)| approvers)
    }

    /// Returns the rights in the configuration about what is of no placement.
    pub fn policy(&self) -> Policy<'_> {
        let approving = Approving { approvers: &self.approvers, ..Approving::default() };
        Policy { rules: self.approvals, approving, ..Policy::default() }
    }

    /// Returns whom the CODEOWNERS file names as owners of a placement's file; if empty, the configuration decides.
    pub fn owners_of<'a>(&self, placement: &'a PlacementRecord) -> &'a [String] {
        if self.by_path.code_owners { &placement.owners } else { &[] }
    }

    /// Returns what an ownership comes to: the approvers of the configuration, the owners of the file and whom the strategy names.
    pub fn approving<'a>(&'a self, ownership: &'a Ownership) -> Approving<'a> {
        Approving {
            approvers: self.approvers_at(&ownership.path).unwrap_or(&self.approvers),
            owners: if self.by_path.code_owners { &ownership.owners } else { &[] },
            narrowed: ownership.narrowed.as_deref(),
        }
    }

    /// Returns whether a cluster has reported about a placement again; `None` if it never stopped.
    pub fn heard(&self, placement: &PlacementKey, cluster: &ClusterName) -> Option<Heard> {
        self.heard.get(placement)?.get(cluster).copied()
    }
}

/// Objects that are handed over, by cluster.
pub type Claims = BTreeMap<ClusterName, BTreeSet<ObjectKey>>;

/// Namespaces and definitions that a placement would delete, with the placements that have objects in them, or are to have some.
pub type Inhabited = BTreeMap<ObjectKey, BTreeSet<PlacementKey>>;

/// What a placement has to know of other placements: see [`crate::hand_over`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Objects that it gives up and other placements claim: they stay on the member until those took them over.
    pub claimed: Claims,
    /// Those of them that another placement is to hold now: orders do not contain them any more.
    pub yielded: Claims,
    /// Namespaces that stay because of other placements.
    pub inhabited: Inhabited,
    /// Clusters that get the Namespace of a ResourcePlacement by another placement and do not have it yet; each with whether it comes
    /// without a person.
    pub awaited: BTreeMap<ClusterName, bool>,
    /// Clusters on which it gets objects of other placements: they have had something before. Named are those that the others still have.
    pub taking_over: Claims,
}

/// All state of one placement.
#[derive(Clone, Debug)]
pub struct PlacementState {
    /// Its record.
    pub record: PlacementRecord,
    /// Policy snapshots by index.
    pub policies: BTreeMap<u64, Arc<PolicySnapshot>>,
    /// Resource snapshots by index.
    pub snapshots: BTreeMap<u64, Arc<ResourceSnapshot>>,
    /// Bindings by name.
    pub bindings: BTreeMap<String, Arc<Binding>>,
    /// Staged update runs by name.
    pub runs: Runs,
    /// What each cluster holds.
    pub works: BTreeMap<ClusterName, Arc<WorkStatus>>,
    /// Payload of the snapshots in use, by index. A snapshot in use without payload keeps what its clusters have.
    pub payloads: BTreeMap<u64, Arc<Payload>>,
    /// Snapshots whose payload cannot be read from git.
    pub unreadable: BTreeSet<u64>,
    /// Objects that it gives up by the last decision, on the clusters that have them: other placements may claim them at any time.
    pub given_up: Arc<Claims>,
    /// What it has to know of other placements.
    pub others: Others,
    /// What the last decision computed.
    pub memo: Memo,
    /// A name of it or of an unfinished run of it may also mean another placement: commands that are shown name it in full.
    pub shared_name: bool,
}

impl PlacementState {
    /// Creates the state of a placement without records.
    pub fn new(record: PlacementRecord) -> Self {
        Self {
            record,
            policies: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            bindings: BTreeMap::new(),
            runs: Runs::default(),
            works: BTreeMap::new(),
            payloads: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            given_up: Arc::default(),
            others: Others::default(),
            memo: Memo::default(),
            shared_name: false,
        }
    }

    /// Creates the state of a placement in the tree without records.
    pub fn begin(placement: &Placement, now: Timestamp) -> Self {
        Self::new(PlacementRecord {
            key: placement.key.clone(),
            spec: placement.spec.clone(),
            annotations: placement.annotations.clone(),
            generation: 0,
            origin: Some(placement.origin.clone()),
            created_at: now,
            conditions: Vec::new(),
            error: None,
            warnings: Vec::new(),
            deletion_gate: None,
            unreadable: BTreeSet::new(),
            guard_off_at: None,
            asked_before: BTreeMap::new(),
            renamed_to: None,
            inherited: BTreeMap::new(),
            handing_over: BTreeSet::new(),
            ignored: BTreeSet::new(),
            behind: BTreeSet::new(),
            removed: false,
            halted: None,
            paused: None,
            held: None,
            goal: None,
            last_succeeded: None,
            succeeded: Vec::new(),
            back: None,
            failed: None,
            last_automatic: None,
            runs_from: 0,
            approvers: None,
            digest_required: false,
            journaled: None,
            owners: Vec::new(),
            narrowed: None,
            replaced: Vec::new(),
            superseded: 0,
            evictions: BTreeMap::new(),
        })
    }

    /// Returns the placement's view for status functions, with its `bindings` as a list.
    pub fn view<'a>(
        &'a self,
        bindings: &'a [Arc<Binding>],
        fleet: &'a FleetState,
        now: Timestamp,
    ) -> PlacementView<'a> {
        PlacementView {
            record: &self.record,
            policy: self.policy(),
            snapshot: self.newest().map(AsRef::as_ref),
            history: &self.snapshots,
            bindings,
            works: &self.works,
            runs: &self.runs,
            clusters: &fleet.records,
            shared_name: self.shared_name,
            now,
        }
    }

    /// Returns the word that commands name it by.
    pub fn word(&self) -> String {
        placement_word(&self.record.key, self.shared_name)
    }

    /// Returns its records, shared with it.
    pub fn records(&self) -> PlacementRecords {
        PlacementRecords {
            record: self.record.clone(),
            policy: self.policies.values().next_back().cloned(),
            snapshots: self.snapshots.clone(),
            bindings: self.shared_bindings(),
            runs: self.runs.clone(),
            works: self.works.clone(),
            shared_name: self.shared_name,
        }
    }

    /// Returns the bindings, in order of their names.
    pub fn bindings(&self) -> impl DoubleEndedIterator<Item = &Binding> {
        self.bindings.values().map(AsRef::as_ref)
    }

    /// Returns the bindings as a list that shares them.
    pub fn shared_bindings(&self) -> Vec<Arc<Binding>> {
        self.bindings.values().cloned().collect()
    }

    /// Returns the newest resource snapshot.
    pub fn newest(&self) -> Option<&Arc<ResourceSnapshot>> {
        self.snapshots.last_key_value().map(|(_, snapshot)| snapshot)
    }

    /// Returns the newest policy snapshot.
    pub fn policy(&self) -> Option<&PolicySnapshot> {
        self.policies.last_key_value().map(|(_, policy)| policy.as_ref())
    }

    /// Returns the policy index for scheduling: that of the newest snapshot if the policy is the same, else a new one.
    pub fn policy_index(&self, policy: Option<&PlacementPolicy>) -> u64 {
        let hash = snapshot::policy_hash(policy);
        self.policy().map_or(0, |newest| if newest.hash == hash { newest.index } else { newest.index + 1 })
    }

    /// Returns the indexes of snapshots in use by bindings, the goal or unfinished runs.
    pub fn snapshots_named(&self) -> BTreeSet<u64> {
        let bindings = self.bindings().filter_map(|binding| binding.snapshot);
        let runs = self.runs.values().filter(|run| !run.phase.is_final()).filter_map(RunRecord::snapshot);
        bindings.chain(runs).chain(self.record.goal).collect()
    }

    /// Returns the snapshots whose payload is needed: those in use, and the newest.
    pub fn snapshots_in_use(&self) -> impl Iterator<Item = &Arc<ResourceSnapshot>> {
        let mut indexes: Vec<u64> = self.snapshots_named().into_iter().collect();
        indexes.extend(self.newest().map(|s| s.index));
        indexes.sort_unstable();
        indexes.dedup();
        indexes.into_iter().filter_map(|index| self.snapshots.get(&index))
    }
}

/// Returns the clusters of the fleet: those that git names, without those that left.
pub fn members<'a>(
    tree: &'a Tree,
    records: &'a BTreeMap<ClusterName, ClusterRecord>,
) -> impl Iterator<Item = (&'a ClusterName, &'a MemberCluster)> {
    tree.clusters.iter().filter(|(name, _)| !records.get(*name).is_some_and(|record| record.left))
}

/// Returns the fleet for scheduling.
pub fn clusters(tree: &Tree, records: &BTreeMap<ClusterName, ClusterRecord>, now: Timestamp) -> Fleet {
    let members = members(tree, records);
    members.map(|(name, member)| (name.clone(), cluster(tree, member, records.get(name), now))).collect()
}

/// Marks clusters as left that a commit no longer names, and reachable ones without an entry in `members:` (`is_listed`);
/// returns them. If more than half of the fleet leaves at once they are marked as a mass removal: a moved folder or a wrong
/// path is a more likely cause than intent.
pub fn mark_leavers(
    records: &mut BTreeMap<ClusterName, ClusterRecord>,
    tree: &Tree,
    is_listed: impl Fn(&ClusterName) -> bool,
    now: Timestamp,
) -> Vec<ClusterName> {
    let of = records.values().filter(|record| !record.left).count();
    let present = records.values_mut().filter(|record| !record.left);
    let gone = present.filter(|record| {
        let is_named = tree.clusters.contains_key(&record.name);
        !is_named || record.kind != MemberKind::Unreachable && !is_listed(&record.name)
    });
    let mut gone: Vec<&mut ClusterRecord> = gone.collect();
    let left = gone.len();
    for record in &mut gone {
        record.left = true;
        record.left_with = (left * 2 > of).then_some(MassLeave { left, of });
        record.online = false;
        record.message = Some("left the fleet; what it holds stays there".to_owned());
        record.since = now;
    }
    gone.into_iter().map(|record| record.name.clone()).collect()
}

/// Returns a cluster as scheduling sees it: eligible where it can be reached, with the properties that were seen on it over
/// those that git states.
pub fn cluster(tree: &Tree, member: &MemberCluster, record: Option<&ClusterRecord>, now: Timestamp) -> Cluster {
    let eligible = match record {
        Some(record) if record.kind == MemberKind::Unreachable => {
            Err("no entry of `members:` in the configuration names it".to_owned())
        }
        Some(record) if silent_since(record, now).is_some() => {
            Err(format!("it has not answered since {}", record.since))
        }
        _ => Ok(()),
    };
    let namespaces = record.and_then(|record| namespaces(tree, record));
    Cluster { eligible, properties: properties(member, record, now), namespaces, ..Cluster::from(member) }
}

/// Returns the namespaces of a cluster; `None` where nobody knows them, so that ResourcePlacements may go there.
///
/// A folder shows what is delivered to it. Of a namespace that git has no manifest of it says nothing, so that one counts as there.
fn namespaces(tree: &Tree, record: &ClusterRecord) -> Option<BTreeSet<String>> {
    let mut namespaces = record.namespaces.clone()?;
    if record.kind == MemberKind::Directory {
        namespaces.extend(tree.unmanaged_namespaces().iter().cloned());
    }
    Some(namespaces)
}

/// Returns what is known of a cluster's properties: what was seen on it, over what was pushed, over what git states.
fn properties(member: &MemberCluster, record: Option<&ClusterRecord>, now: Timestamp) -> BTreeMap<String, String> {
    let mut properties = facts::stated(member);
    properties.extend(record.into_iter().flat_map(|record| record.pushed.properties(now)));
    properties.extend(record.into_iter().flat_map(|record| record.properties.clone()));
    properties
}

/// Returns a member's facts for OCM Placements, beside its data in git.
pub fn ocm_facts(member: &MemberCluster, record: Option<&ClusterRecord>, now: Timestamp) -> Facts {
    Facts {
        properties: properties(member, record, now),
        scores: record.map(|record| record.pushed.score_objects()).unwrap_or_default(),
        claims: record.map(|record| record.claims.clone()).unwrap_or_default(),
        taints: record.map(|record| record.managed_taints.clone()).unwrap_or_default(),
        silent_since: record.and_then(|record| silent_since(record, now)),
    }
}

/// Returns since when a cluster is unreachable, if that is too long to schedule anything new there.
pub fn silent_since(record: &ClusterRecord, now: Timestamp) -> Option<Timestamp> {
    (!record.online && record.since + SILENCE_MAX < now).then_some(record.since)
}

/// Returns when a cluster's outage becomes too long; `None` if it answers, or if it is too long already.
pub fn silence_ends(record: &ClusterRecord, now: Timestamp) -> Option<Timestamp> {
    let end = record.since + SILENCE_MAX + SILENCE_MARGIN;
    (!record.online && !record.left && end > now).then_some(end)
}

#[cfg(test)]
mod tests;
