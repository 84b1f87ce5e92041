//! 3 and 4: nothing guarded is deleted without a gate that a person opened, nothing at all that no decision knew of, and a
//! placement is removed everywhere only where nothing of it is left.

use std::collections::{BTreeMap, BTreeSet};

use model::api::placement::ApplyStrategyType;
use model::id::{ClusterName, ObjectKey, PlacementKey};
use model::work::WorkOrder;

use super::check::{Checker, Spot, Verdict};
use super::records::PlacementRecord;

/// Kinds that a gate guards one by one.
const PRECIOUS: [&str; 3] = ["Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"];

/// What may be deleted, as far as it needs a person.
#[derive(Default)]
pub struct Deletions {
    /// What stood behind gates that were opened.
    opened: BTreeMap<Spot, BTreeSet<ObjectKey>>,
    /// What was to go with bindings before their placement was removed, or was told to go before.
    going: BTreeMap<Spot, BTreeSet<ObjectKey>>,
    /// Placements that were not guarded at some time.
    unguarded: BTreeSet<PlacementKey>,
}

impl Checker {
    pub(super) fn note_guard(&mut self, placement: &PlacementKey, record: &PlacementRecord) {
        if record.is_unguarded() {
            self.deletions.unguarded.insert(placement.clone());
        }
        let Some(gate) = record.deletion_gate.as_ref().filter(|gate| gate.opened_at.is_some()) else { return };
        for (cluster, keys) in &gate.deletions {
            let opened = self.deletions.opened.entry((placement.clone(), cluster.clone())).or_default();
            opened.extend(keys.iter().cloned());
        }
    }

    pub(super) fn note_removal(&mut self, spot: Spot, removes: &BTreeSet<ObjectKey>) {
        if self.placements.get(&spot.0).is_some_and(|record| !record.removed) {
            let removes = removes.iter().filter(|key| !is_precious(key)).cloned();
            self.deletions.going.entry(spot).or_default().extend(removes);
        }
    }

    /// 3: what a member has the order to delete and a person must agree to stood behind a gate that was opened.
    pub(super) fn may_prune(&mut self, order: &WorkOrder) -> Verdict {
        // What is abandoned stays.
        let deletes = order.strategy.type_ != ApplyStrategyType::ReportDiff && !order.abandon;
        if self.deletions.unguarded.contains(&order.placement) || !deletes {
            return Ok(());
        }
        // An eviction in git is a person's word for one cluster.
        let mut wants = self.wishes.values().filter_map(|wish| wish.placements.get(&order.placement));
        if order.remove && wants.any(|want| want.evicted.contains(&order.cluster)) {
            return Ok(());
        }
        let spot: Spot = (order.placement.clone(), order.cluster.clone());
        let is_removed = order.remove && self.placements.get(&order.placement).is_some_and(|record| record.removed);
        let Deletions { opened, going, .. } = &mut self.deletions;
        let (opened, going) = (opened.get(&spot), going.entry(spot.clone()).or_default());
        let needs_gate = |key: &&ObjectKey| is_removed || is_precious(key);
        let may_go = |key: &&ObjectKey| going.contains(*key) || opened.is_some_and(|opened| opened.contains(*key));
        if let Some(key) = order.prune.iter().find(|key| needs_gate(key) && !may_go(key)) {
            return Err(format!("3: {} has the order to delete {key} of {}, and no gate was opened", spot.1, spot.0));
        }
        if order.remove {
            going.extend(order.prune.iter().cloned());
        }
        Ok(())
    }

    /// A cluster that is picked again before its removal has ended gets what was deleted as with a first delivery: the removal took it down,
    /// and not what it gets.
    pub(super) fn note_taken_off(&mut self, order: &WorkOrder) {
        if order.remove {
            self.was_complete.remove(&(order.placement.clone(), order.cluster.clone()));
        }
    }

    /// 4: of a placement that is removed everywhere nothing is left.
    pub fn is_gone<'a>(
        &self,
        placement: &PlacementKey,
        mut left: impl Iterator<Item = (&'a ClusterName, &'a ObjectKey)>,
    ) -> Verdict {
        match left.next().filter(|_| !self.is_lenient) {
            None => Ok(()),
            Some((cluster, key)) => {
                Err(format!("4: {placement} counts as removed everywhere, and {cluster} holds {key}"))
            }
        }
    }
}

/// 3: what is deleted was known when the order was decided.
pub(super) fn was_decided(order: &WorkOrder, object: &ObjectKey) -> Verdict {
    if order.prune.contains(object) {
        return Ok(());
    }
    Err(format!("3: {object} of {} was deleted on {}, and no decision knew of it", order.placement, order.cluster))
}

fn is_precious(key: &ObjectKey) -> bool {
    PRECIOUS.contains(&key.kind.as_str())
}
