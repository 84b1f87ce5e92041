//! Clusters that lead to one API server: the second name of a server gets nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::members::record_answering;
use super::{Core, Effect, MemberCommand};
use decide::servers::{ReachedServer, ReachedServers};
use model::id::ClusterName;
use model::records::ClusterRecord;

/// Returns the servers that clusters were delivered to before.
pub(super) fn stored(records: &BTreeMap<ClusterName, ClusterRecord>) -> ReachedServers {
    let mut servers = ReachedServers::default();
    for record in records.values().filter(|record| !record.left) {
        servers.set(&record.name, known(record));
    }
    servers
}

fn known(record: &ClusterRecord) -> Option<ReachedServer> {
    record.server.as_ref().map(|uid| ReachedServer { uid: uid.clone(), is_known: true })
}

impl Core {
    /// Notes the server that a cluster leads to; `None`: that is not known. Returns whether the cluster may be delivered to.
    pub(super) fn note_server(&mut self, cluster: &ClusterName, uid: Option<String>, now: Timestamp) -> bool {
        let record = self.fleet.records.get(cluster).filter(|record| !record.left);
        let stored = record.and_then(known);
        let server = uid.map(|uid| {
            let is_known = stored.as_ref().is_some_and(|stored| stored.uid == uid);
            ReachedServer { uid, is_known }
        });
        let concerned = self.servers.set(cluster, server.or(stored));
        self.compare_servers(concerned, now);
        let Some(record) = self.fleet.records.get_mut(cluster).filter(|record| record.same_as.is_some()) else {
            return true;
        };
        // Meanwhile it may have been unreachable for another reason.
        let reason = record.same_server();
        record_answering(record, false, reason, now);
        self.unseen.remove(cluster);
        self.queue.clusters.insert(cluster.clone());
        false
    }

    /// Forgets the server of a cluster that left, or that leads elsewhere from now on.
    pub(super) fn forget_server(&mut self, cluster: &ClusterName, now: Timestamp) {
        let concerned = self.servers.set(cluster, None);
        self.compare_servers(concerned, now);
    }

    /// Records the servers of clusters that may be delivered to, before anything is decided: from now on each is its cluster's.
    pub(super) fn keep_servers(&mut self) {
        let is_accepted = |record: &&mut ClusterRecord| record.answers() && record.same_as.is_none();
        for cluster in self.servers.take_new() {
            let Some(record) = self.fleet.records.get_mut(&cluster).filter(is_accepted) else { continue };
            record.server = self.servers.of(&cluster).map(|server| server.uid.clone());
            // No other cluster was first there, so this changes nothing for them.
            self.servers.set(&cluster, known(record));
            self.queue.clusters.insert(cluster);
        }
    }

    /// Refuses clusters that are another's server now, and takes back those that are not any more.
    fn compare_servers(&mut self, concerned: BTreeSet<ClusterName>, now: Timestamp) {
        for cluster in concerned {
            let first = self.servers.first(&cluster).cloned();
            let Some(record) = self.fleet.records.get_mut(&cluster).filter(|record| record.same_as != first) else {
                continue;
            };
            record.same_as.clone_from(&first);
            self.queue.clusters.insert(cluster.clone());
            if first.is_some() {
                self.refuse_server(&cluster, now);
            } else if self.members.contains_key(&cluster) {
                self.effects.push(Effect::Command(cluster, MemberCommand::Announce));
            }
        }
    }

    fn refuse_server(&mut self, cluster: &ClusterName, now: Timestamp) {
        let Some(record) = self.fleet.records.get_mut(cluster) else { return };
        let reason = record.same_server();
        record_answering(record, false, reason.clone(), now);
        tracing::error!(cluster = %cluster, reason, "two names of one server; nothing is delivered to the second");
        self.answered.remove(cluster);
        self.unseen.remove(cluster);
        self.await_reports(cluster);
        for (placement, sent) in &mut self.sent {
            if sent.remove(cluster).is_some() {
                let forget = MemberCommand::Forget(placement.clone());
                self.effects.push(Effect::Command(cluster.clone(), forget));
            }
        }
        // An agent may have orders of before.
        if self.members.get(cluster).is_some_and(|access| access.agent().is_some()) {
            let none = MemberCommand::Placements(BTreeSet::new());
            self.effects.push(Effect::Command(cluster.clone(), none));
        }
        self.queue.concerns_holders(cluster);
    }
}
