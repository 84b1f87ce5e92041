//! Clusters that lead to one API server: the second name of a server gets nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::members::{known_server, record_answering};
use super::{Core, Effect, MemberCommand};
use decide::servers::ReachedServer;
use model::id::ClusterName;
use model::records::ClusterRecord;

impl Core {
    /// Notes the server that a cluster leads to; `None`: that is not known. Returns whether the cluster may be delivered to.
    pub(super) fn note_server(&mut self, cluster: &ClusterName, uid: Option<String>, now: Timestamp) -> bool {
        let record = self.fleet.records.get(cluster).filter(|record| !record.left);
        let stored = record.and_then(known_server);
        let server = uid.map(|uid| {
            let is_known = stored.as_ref().is_some_and(|stored| stored.uid == uid);
            ReachedServer { uid, is_known }
        });
        let concerned = self.members.servers.set(cluster, server.or(stored));
        self.compare_servers(concerned, now);
        let Some(record) = self.fleet.records.get_mut(cluster).filter(|record| record.same_as.is_some()) else {
            return true;
        };
        // Meanwhile it may have been unreachable for another reason.
        let reason = record.same_server();
        record_answering(record, false, reason, now);
        self.members.unseen.remove(cluster);
        self.queue.clusters.insert(cluster.clone());
        false
    }

    /// Forgets the server of a cluster that left, or that leads elsewhere from now on.
    pub(super) fn forget_server(&mut self, cluster: &ClusterName, now: Timestamp) {
        let concerned = self.members.servers.set(cluster, None);
        self.compare_servers(concerned, now);
    }

    /// Records the servers of clusters that may be delivered to, before anything is decided: from now on each is its cluster's.
    pub(super) fn keep_servers(&mut self) {
        let is_accepted = |record: &&mut ClusterRecord| record.answers() && record.same_as.is_none();
        for cluster in self.members.servers.take_new() {
            let Some(record) = self.fleet.records.get_mut(&cluster).filter(is_accepted) else { continue };
            record.server = self.members.servers.of(&cluster).map(|server| server.uid.clone());
            // No other cluster was first there, so this changes nothing for them.
            self.members.servers.set(&cluster, known_server(record));
            self.queue.clusters.insert(cluster);
        }
    }

    /// Refuses clusters that are another's server now, and takes back those that are not any more.
    fn compare_servers(&mut self, concerned: BTreeSet<ClusterName>, now: Timestamp) {
        for cluster in concerned {
            let first = self.members.servers.first(&cluster).cloned();
            let Some(record) = self.fleet.records.get_mut(&cluster).filter(|record| record.same_as != first) else {
                continue;
            };
            record.same_as.clone_from(&first);
            self.queue.clusters.insert(cluster.clone());
            if first.is_some() {
                self.refuse_server(&cluster, now);
            } else if self.members.tasks.contains_key(&cluster) {
                self.effects.push(Effect::Command(cluster, MemberCommand::Announce));
            }
        }
    }

    fn refuse_server(&mut self, cluster: &ClusterName, now: Timestamp) {
        let Some(record) = self.fleet.records.get_mut(cluster) else { return };
        let reason = record.same_server();
        record_answering(record, false, reason.clone(), now);
        tracing::error!(cluster = %cluster, reason, "two names of one server; nothing is delivered to the second");
        self.members.answered.remove(cluster);
        self.members.unseen.remove(cluster);
        self.members.await_reports(cluster, &mut self.fleet);
        self.effects.extend(self.members.withdraw_orders(cluster));
        // An agent may have orders of before.
        if self.members.tasks.get(cluster).is_some_and(|access| access.agent().is_some()) {
            let none = MemberCommand::Placements(BTreeSet::new());
            self.effects.push(Effect::Command(cluster.clone(), none));
        }
        self.queue.concerns_holders(cluster);
    }
}
