//! What members and git say of clusters: their events, their records, and which tasks run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::batch::BatchChange;
use super::members::record_answering;
use super::{Batch, Core, MemberEvent};
use crate::store::records;
use config::MemberAccess;
use decide::ocm::dated_taints;
use decide::state::{PlacementState, cluster, clusters, mark_leavers, members, ocm_facts, silence_ends};
use decide::status::fleet::fleet_warnings;
use deliver::inventory::Held;
use model::api::annotations::SUSPENDED;
use model::api::cluster::MemberCluster;
use model::facts;
use model::facts::{Facts, KUBERNETES_VERSION};
use model::id::{ClusterName, PlacementKey};
use model::records::{ClusterRecord, Inventory, MemberKind, SUSPENDED_WORDS, WorkStatus};
use model::secrets::LAST_APPLIED;
use model::tree::Tree;
use model::warning::WarningKind;

/// The reason for a cluster that left although git still names it.
const UNLISTED: &str =
    "left the fleet: no entry of `members:` in the configuration names it any more; what it holds stays there";

impl Core {
    /// Starts and stops member tasks as git and the configuration require.
    pub(super) fn note_members(&mut self, before: &Tree, now: Timestamp) {
        let tree = Arc::clone(&self.fleet.tree);
        // Folders say nothing of a namespace that git does not bring, so all of them change with what git brings.
        let folders_differ = before.unmanaged_namespaces() != tree.unmanaged_namespaces();
        let is_listed = |name: &ClusterName| self.members.configuration.member(name).is_some();
        for name in mark_leavers(&mut self.fleet.records, &tree, is_listed, now) {
            tracing::warn!(cluster = %name, "left the fleet; what it holds stays there");
            self.effects.extend(self.members.stop(&name, &mut self.fleet));
            self.forget_server(&name, now);
            self.queue.clusters.insert(name);
        }
        for (name, member) in &tree.clusters {
            if before.clusters.get(name) != Some(member) {
                self.queue.clusters.insert(name.clone());
            }
            let access = self.members.configuration.member(name);
            let suspended = member.annotations.get(SUSPENDED).is_some_and(|v| v == "true");
            let kind = match &access {
                Some(access) if access.is_directory() => MemberKind::Directory,
                Some(_) => MemberKind::Live,
                None => MemberKind::Unreachable,
            };
            let begin = || ClusterRecord::new(name.clone(), now);
            let record = self.fleet.records.entry(name.clone()).or_insert_with(begin);
            // A cluster without an entry in `members:` comes back when it gets one.
            if record.left && (access.is_some() || record.kind == MemberKind::Unreachable) {
                *record = begin();
            }
            // Scheduling finds the placements that read the labels; overrides may read any label, and values by cluster properties too.
            let of_overrides = record.labels != member.labels && !self.fleet.overrides.is_empty();
            if of_overrides || (before.clusters.get(name) != Some(member) && !tree.varied.is_empty()) {
                self.queue.concerns_holders(name);
            }
            note_git(record, member, now);
            if !record.left {
                record.kind = kind;
                record.agent = access.as_ref().and_then(MemberAccess::agent).cloned();
            }
            // A folder has no nodes: stored facts are from a time when the name meant an API server.
            if kind == MemberKind::Directory {
                record.properties.clear();
                record.properties_unknown = None;
                if folders_differ {
                    self.queue.clusters.insert(name.clone());
                }
            }
            let reason = match (&access, suspended) {
                (None, _) if record.left => Some(UNLISTED),
                (_, true) => Some(SUSPENDED_WORDS),
                (None, _) => Some("no entry of `members:` in the configuration names it"),
                _ => None,
            };
            match (access, reason) {
                (Some(access), None) => self.effects.extend(self.members.start(name, access, &mut self.fleet)),
                (_, reason) => {
                    if record_answering(record, false, reason.map(str::to_owned), now) {
                        self.queue.clusters.insert(name.clone());
                        self.queue.concerns_holders(name);
                    }
                    self.effects.extend(self.members.stop(name, &mut self.fleet));
                }
            }
        }
        self.warn_unreached();
    }

    /// Warns once about clusters that no entry of `members:` reaches.
    fn warn_unreached(&mut self) {
        let warnings = fleet_warnings(self.fleet.records.values());
        let unreached = warnings.into_iter().find(|warning| warning.kind == WarningKind::NoAccess);
        if unreached != self.members.unreached
            && let Some(warning) = &unreached
        {
            tracing::warn!(about = %warning, "clusters cannot be reached");
        }
        self.members.unreached = unreached;
    }

    /// Handles an event of a member.
    pub(super) fn handle_member(&mut self, event: MemberEvent, now: Timestamp) {
        match event {
            MemberEvent::Online { cluster, version, server, holds, kept, inventory } => {
                if !self.members.tasks.contains_key(&cluster) || !self.note_server(&cluster, server, now) {
                    return;
                }
                // Asked before `note_holder`, which removes the cluster from that list.
                let is_unseen = self.persistence.is_unseen(&cluster);
                self.note_holder(&cluster, &holds, kept, now);
                tracing::info!(cluster = %cluster, version, "cluster answers");
                // A first decision without the member's properties would place by incomplete data.
                if self.fleet.records.get(&cluster).is_none_or(knows_facts) {
                    self.members.unseen.remove(&cluster);
                }
                self.warn_forgotten(&cluster, &inventory);
                self.note_inventory(&cluster, inventory, &holds);
                for (key, held) in holds {
                    if let Some(held) = held {
                        self.note_held(&cluster, key, held, is_unseen);
                    }
                }
                self.note_answering(&cluster, true, None, version, now);
            }
            MemberEvent::Offline { cluster, reason } => {
                if !self.members.tasks.contains_key(&cluster) {
                    return;
                }
                // The first decision waits for an answer, and this is one.
                self.members.unseen.remove(&cluster);
                self.members.await_reports(&cluster, &mut self.fleet);
                self.note_answering(&cluster, false, Some(reason), None, now);
            }
            // A report may arrive from a member that was stopped or that has left the placement.
            MemberEvent::Work { cluster, placement, status } => {
                if self.members.take_report(&cluster, &placement, status, &mut self.fleet, now) {
                    self.queue.placements.insert(placement);
                }
            }
            MemberEvent::Restarted { cluster } => {
                self.members.await_reports(&cluster, &mut self.fleet);
                // The new task knows no orders: the next decision sends all of them.
                self.members.forget_orders(&cluster);
                self.queue.concerns_holders(&cluster);
                self.members.restarted.insert(cluster);
            }
            MemberEvent::Facts { cluster, facts } => self.note_facts(&cluster, &facts),
            MemberEvent::Namespaces { cluster, namespaces } => self.note_namespaces(cluster, namespaces),
            MemberEvent::Unwatched { cluster, reason } => {
                if let Some(record) = self.fleet.records.get_mut(&cluster) {
                    record.unwatched = Some(reason);
                    self.queue.clusters.insert(cluster);
                }
            }
        }
    }

    /// Keeps what is known of a member's nodes and pods, and its claims. What was said before it stopped answering, or was stopped, is kept.
    fn note_facts(&mut self, cluster: &ClusterName, facts: &Facts) {
        if !self.members.tasks.contains_key(cluster) {
            return;
        }
        let Some(record) = self.fleet.records.get_mut(cluster) else { return };
        let complaint = facts.complaint();
        if complaint.is_some() && record.properties_unknown != complaint {
            tracing::warn!(cluster = %cluster, reason = complaint, "not all facts about the cluster can be seen");
        }
        // The version is known from the connection, not from nodes and pods.
        let version = record.properties.remove_entry(KUBERNETES_VERSION);
        let properties = facts.properties().into_iter().chain(version).collect();
        record.properties_unknown = complaint;
        record.properties = properties;
        // What a member claimed stays while it cannot be read: placements would leave it otherwise.
        if let Some(claims) = &facts.claims {
            record.claims.clone_from(claims);
        }
        self.queue.clusters.insert(cluster.clone());
        self.members.unseen.remove(cluster);
    }

    /// Keeps the namespaces of a member: ResourcePlacements go where their namespace is.
    fn note_namespaces(&mut self, cluster: ClusterName, namespaces: Result<BTreeSet<String>, String>) {
        if !self.members.tasks.contains_key(&cluster) {
            return;
        }
        let Some(record) = self.fleet.records.get_mut(&cluster) else { return };
        let (namespaces, unknown) = match namespaces {
            Ok(namespaces) => (Some(namespaces), None),
            Err(reason) => (None, Some(reason)),
        };
        if record.namespaces_unknown != unknown
            && let Some(reason) = &unknown
        {
            tracing::warn!(cluster = %cluster, reason,
                "the cluster's namespaces cannot be listed; ResourcePlacements go there whether it has their namespace or not");
        }
        record.namespaces = namespaces;
        record.namespaces_unknown = unknown;
        self.queue.clusters.insert(cluster);
    }

    /// Says what a member holds of placements that nothing is decided about any more, as one does that was restored from a
    /// backup: nobody removes it.
    fn warn_forgotten(&self, cluster: &ClusterName, inventory: &BTreeMap<PlacementKey, Inventory>) {
        if !self.source.is_seen() {
            return;
        }
        for placement in inventory.keys() {
            let state = self.placements.get(placement);
            let is_undecided = state.is_some_and(|state| state.record.generation == 0);
            if is_undecided || self.queue.holds(placement, cluster) {
                continue;
            }
            let reason = if state.is_some() { "it does not go there any more" } else { "it is not in git any more" };
            tracing::warn!(
                cluster = %cluster,
                placement = %placement,
                reason,
                "holds objects of a placement that left; remove by hand those that no other placement selects, or bring the placement \
                 back"
            );
        }
    }

    /// Records what a member holds before it gets orders. If a placement leaves and its last objects vanished unobserved, its
    /// removal is complete only when the inventory on the member is gone too; `holds` names the inventories that exist.
    fn note_inventory(
        &mut self,
        cluster: &ClusterName,
        inventory: BTreeMap<PlacementKey, Inventory>,
        holds: &BTreeMap<PlacementKey, Option<Held>>,
    ) {
        for (key, inventory) in inventory {
            let known = self.members.work(&key, cluster, &self.placements);
            let leaves = |state: &PlacementState| state.bindings().any(|b| b.cluster == *cluster && b.deleting);
            let is_left_over = inventory.is_known_empty()
                && holds.contains_key(&key)
                && known.is_some_and(|work| work.complete)
                && self.placements.get(&key).is_some_and(leaves);
            if is_left_over || known.is_none_or(|work| work.inventory != inventory) {
                let work = known.map(|work| WorkStatus::clone(work)).unwrap_or_default();
                let complete = work.complete && !is_left_over;
                let work = Arc::new(WorkStatus { complete, inventory, ..work });
                self.queue.placements.extend(self.placements.contains_key(&key).then(|| key.clone()));
                self.members.reports.entry(key).or_default().insert(cluster.clone(), work);
            }
        }
    }

    fn note_answering(
        &mut self,
        cluster: &ClusterName,
        online: bool,
        message: Option<String>,
        version: Option<String>,
        now: Timestamp,
    ) {
        let Some(record) = self.fleet.records.get_mut(cluster) else { return };
        if record_answering(record, online, message, now)
            && let Some(reason) = &record.message
        {
            tracing::warn!(cluster = %cluster, reason, "cluster does not answer; its turn is deferred");
        }
        if let Some(version) = version {
            record.properties.insert(KUBERNETES_VERSION.to_owned(), version);
        }
        // Refreshed once for all events that arrive together.
        self.queue.clusters.insert(cluster.clone());
        self.queue.concerns_holders(cluster);
    }

    /// Updates the clusters that scheduling sees, and queues the placements that read a change.
    pub(super) fn refresh_clusters(&mut self, batch: &mut Batch, now: Timestamp) {
        let tree = Arc::clone(&self.fleet.tree);
        let stale = std::mem::take(&mut self.queue.clusters);
        let is_same = members(&tree, &self.fleet.records).map(|(name, _)| name).eq(self
            .fleet
            .clusters
            .iter()
            .map(|(name, _)| name));
        if is_same {
            for name in &stale {
                if !self.fleet.clusters.contains(name.as_str()) {
                    continue;
                }
                let Some(member) = tree.clusters.get(name) else { continue };
                let seen = cluster(&tree, member, self.fleet.records.get(name), now);
                let change = self.fleet.clusters.set(name.clone(), seen);
                self.queue.changed(&change);
            }
        } else {
            // A cluster joined or left: any policy may pick it, or may have lost it.
            self.fleet.clusters = clusters(&tree, &self.fleet.records, now);
            self.queue.placements.extend(self.placements.keys().cloned());
        }
        for name in &stale {
            let Some(member) = tree.clusters.get(name) else { continue };
            let record = self.fleet.records.get(name);
            let ends = record.map(|record| [silence_ends(record, now), record.pushed.next_end(now)]);
            self.queue.wake_cluster(name, ends.into_iter().flatten().flatten().min());
            let concerned = self.fleet.ocm.observe(name, ocm_facts(member, record, now));
            self.queue.ocm.extend(concerned);
        }
        let records = stale.iter().filter_map(|name| self.fleet.records.get(name));
        for record in records.filter(|record| self.persistence.stored_clusters.get(&record.name) != Some(*record)) {
            if batch.write(records::cluster_key(&record.name), record) {
                batch.changes.push(BatchChange::Cluster(Box::new(record.clone())));
            }
        }
        batch.refreshed = true;
    }
}

/// Copies what git says of a cluster.
fn note_git(record: &mut ClusterRecord, member: &MemberCluster, now: Timestamp) {
    record.labels.clone_from(&member.labels);
    record.annotations.clone_from(&member.annotations);
    record.annotations.remove(LAST_APPLIED);
    record.spec.clone_from(&member.spec);
    record.managed_taints = dated_taints(&record.managed_taints, member, now);
    record.stated = facts::stated(member);
}

/// Tells whether the facts about a cluster are known, possibly from an earlier process, or cannot be known.
fn knows_facts(record: &ClusterRecord) -> bool {
    record.kind != MemberKind::Live
        || record.properties.contains_key(facts::NODE_COUNT)
        || record.properties_unknown.is_some()
}
