//! What goes wrong in a seed, beside what the simulation throws for itself.

use std::collections::BTreeMap;

use deliver::live::LiveObject;
use engine::Core;
use engine::waits::DOWN_MAX;
use jiff::SignedDuration;
use model::id::{ClusterName, Digest, ObjectKey};
use model::records::WorkStatus;
use simulated::Faults;

use super::timeline::CLUSTERS_MAX;
use super::{JUMP_BACK_MAX_S, JUMP_MAX_S, Run, faults};

impl Run {
    /// Something goes wrong, as the dice fall.
    pub(super) fn fault(&mut self) {
        let cluster = ClusterName::new(format!("c{}", self.timeline.dice.below(CLUSTERS_MAX)));
        self.checker.calm_since = self.simulation.now;
        match self.timeline.dice.below(6) {
            0 | 1 => {
                let away = self.timeline.dice.chance(600);
                self.simulation.set_reachable(&cluster, !away);
            }
            2 if self.timeline.dice.chance(300) => {
                self.checker.early += DOWN_MAX;
                self.simulation.reboot();
            }
            2 => self.simulation.crash(),
            3 => {
                let is_large = self.timeline.dice.chance(300);
                let (ahead, back) = if is_large { (JUMP_MAX_S, JUMP_BACK_MAX_S) } else { (400, 20) };
                let skew = if self.timeline.dice.chance(300) {
                    -SignedDuration::from_secs(i64::try_from(self.timeline.dice.below(back)).unwrap_or(0))
                } else {
                    SignedDuration::from_secs(i64::try_from(self.timeline.dice.below(ahead)).unwrap_or(0))
                };
                self.simulation.set_skew(skew);
                // Only a new life sees it.
                if self.timeline.dice.chance(700) {
                    self.simulation.crash();
                }
            }
            4 => self.meddle(&cluster),
            _ => {
                let Faults { late_write, watch_ends, batch_late, lease_unsure, slow_write, .. } =
                    self.simulation.deployment.faults;
                let thrown = faults(&mut self.timeline.dice);
                self.simulation.deployment.faults =
                    Faults { late_write, watch_ends, batch_late, lease_unsure, slow_write, ..thrown };
            }
        }
    }

    /// Somebody changes or removes an object that we hold on a member. Each object once: who does it again and again is reported
    /// as contesting it. And only where it is seen: what happens while a cluster is suspended differs from what was declared only
    /// as long as its order stays the same.
    fn meddle(&mut self, cluster: &ClusterName) {
        let Some(held) = self.held(cluster) else { return };
        let Some(key) = self.timeline.dice.pick(&held).cloned() else { return };
        if !self.may_be_changed(cluster, &key) || !self.meddled.insert((cluster.clone(), key.clone())) {
            return;
        }
        self.say_that(format!("somebody meddles with {key} on {cluster}"));
        self.checker.changed.insert((cluster.clone(), key.clone()));
        if self.timeline.dice.chance(300) {
            self.checker.owned.remove(&(cluster.clone(), key.clone()));
            return self.simulation.steal(cluster, &key);
        }
        let mut live = self.simulation.members[cluster].objects[&key].clone();
        live.change(|content| content.owned = Digest::from("somebody's"));
        self.note_change(cluster, &key);
        self.simulation.meddle(cluster, live);
    }

    /// Returns what a cluster that answers holds of ours.
    pub(super) fn held(&self, cluster: &ClusterName) -> Option<Vec<ObjectKey>> {
        let records = self.simulation.core().map(|core| &core.fleet().records);
        records.and_then(|records| records.get(cluster)).filter(|record| record.online)?;
        let objects = &self.simulation.members.get(cluster)?.objects;
        let is_ours = |live: &LiveObject| !live.applyset.is_empty() && !live.terminating;
        Some(objects.iter().filter(|(_, live)| is_ours(live)).map(|(key, _)| key.clone()).collect())
    }

    /// Tells whether a change of an object is seen to be one. What was never reported has nothing that a change could be compared
    /// with, and before its first orders of a life nobody watches: docs/design/003 says so.
    pub(super) fn may_be_changed(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let is_new = self.simulation.core().is_none_or(|core| core.queue_depth() > 0);
        let is_reported = |status: &WorkStatus| {
            let is_seen = status.inventory.known().is_some();
            is_seen && status.manifests.iter().any(|m| m.id.key() == *key && m.owned.is_some())
        };
        let placements = self.simulation.core().map(Core::placements).into_iter().flat_map(BTreeMap::values);
        let mut works = placements.filter_map(|state| state.works.get(cluster));
        !is_new && works.any(|status| is_reported(status))
    }
}
