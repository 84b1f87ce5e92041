//! What a simulated agent has beside what is decided for it: a disk, and commands for its members' tasks that wait to be carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use engine::MemberCommand;
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::WorkStatus;
use model::uptime::Uptime;
use wire::remote::agent::{AgentDisk, AgentTasks, Assignment};
use wire::{AgentMember, AgentOrder};

/// A disk. It outlives the process; what was not saved does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk {
    epoch: u64,
    assignment: Assignment,
    saved: Assignment,
    orders: BTreeMap<Digest, KeptOrder>,
    objects: BTreeMap<Digest, Arc<Value>>,
    reports: BTreeMap<(ClusterName, PlacementKey), Arc<WorkStatus>>,
    /// Wrong: it does not tell which epoch it kept.
    pub(crate) forgets_epoch: bool,
}

/// An order on the disk.
#[derive(Clone, Debug)]
struct KeptOrder {
    json: Vec<u8>,
    /// The objects that it names.
    objects: BTreeSet<Digest>,
}

impl SimulatedDisk {
    /// Returns an empty disk.
    pub(crate) fn empty(forgets_epoch: bool) -> Self {
        Self { forgets_epoch, ..Self::default() }
    }

    /// Returns the disk as the next process finds it.
    pub(crate) fn reopened(&self) -> Self {
        Self { assignment: self.saved.clone(), ..self.clone() }
    }
}

impl AgentDisk for SimulatedDisk {
    fn epoch(&self) -> u64 {
        if self.forgets_epoch { 0 } else { self.epoch }
    }

    fn note_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    fn assignment(&mut self) -> &mut Assignment {
        &mut self.assignment
    }

    fn save(&mut self) {
        self.saved = self.assignment.clone();
        let named: BTreeSet<&Digest> = self.assignment.kept().map(|(_, _, digest)| digest).collect();
        self.orders.retain(|digest, _| named.contains(digest));
        let objects: BTreeSet<&Digest> = self.orders.values().flat_map(|order| &order.objects).collect();
        self.objects.retain(|digest, _| objects.contains(digest));
        let kept: BTreeSet<(&ClusterName, &PlacementKey)> =
            self.assignment.kept().map(|(cluster, placement, _)| (cluster, placement)).collect();
        self.reports.retain(|(cluster, placement), _| kept.contains(&(cluster, placement)));
    }

    fn save_orders(&mut self, _: &[(ClusterName, PlacementKey)]) {
        self.save();
    }

    fn order(&mut self, digest: &Digest) -> Option<AgentOrder> {
        AgentOrder::decode(digest, &self.orders.get(digest)?.json).ok().flatten()
    }

    fn keep_order(&mut self, digest: &Digest, json: &[u8]) -> Result<Option<AgentOrder>, wire::Error> {
        let order = AgentOrder::decode(digest, json)?;
        if let Some(order) = &order {
            let objects = order.objects().into_iter().cloned().collect();
            self.orders.insert(digest.clone(), KeptOrder { json: json.to_vec(), objects });
        }
        Ok(order)
    }

    fn object(&mut self, digest: &Digest) -> Option<Arc<Value>> {
        self.objects.get(digest).cloned()
    }

    fn keep_object(&mut self, digest: &Digest, object: &Arc<Value>) {
        self.objects.insert(digest.clone(), Arc::clone(object));
    }

    fn report(&self, cluster: &ClusterName, placement: &PlacementKey) -> Option<Arc<WorkStatus>> {
        self.reports.get(&(cluster.clone(), placement.clone())).cloned()
    }

    fn keep_report(&mut self, cluster: &ClusterName, placement: &PlacementKey, status: &Arc<WorkStatus>) {
        self.reports.insert((cluster.clone(), placement.clone()), Arc::clone(status));
    }
}

/// What is to be done with members' tasks.
#[derive(Debug)]
pub(crate) enum TaskAct {
    Command(ClusterName, MemberCommand),
    Announce,
    Prolong(u64, Uptime),
}

/// The tasks of an agent's members.
#[derive(Debug, Default)]
pub(crate) struct SimulatedTasks {
    pub(crate) running: BTreeMap<ClusterName, AgentMember>,
    pub(crate) acts: Vec<TaskAct>,
    /// What inventories carry, and writes.
    pub(crate) epoch: u64,
}

impl AgentTasks for SimulatedTasks {
    fn has(&self, cluster: &ClusterName) -> bool {
        self.running.contains_key(cluster)
    }

    fn send(&mut self, cluster: &ClusterName, command: MemberCommand) {
        self.acts.push(TaskAct::Command(cluster.clone(), command));
    }

    fn announce(&mut self) {
        self.acts.push(TaskAct::Announce);
    }

    fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    fn prolong(&mut self, epoch: u64, end: Uptime) {
        self.acts.push(TaskAct::Prolong(epoch, end));
    }
}
