//! Decisions about OCM Placements and placements, with what the store is to keep of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use rayon::prelude::*;

use crate::batch::{Batch, BatchChange, DecidedPlacement, PickedPlacement};
use crate::names::GivenNames;
use crate::store::{Op, Result};
use crate::{Core, persist};
use decide::Decision;
use decide::hand_over::decide_each;
use model::id::PlacementKey;
use schedule::ocm::Key;

impl Core {
    /// Decides on all cores and returns the store operations of each decision, in the order of the keys. Deciding is pure, so
    /// the result does not depend on the threads.
    pub(super) fn decisions(
        &self,
        due: &BTreeSet<PlacementKey>,
        now: Timestamp,
    ) -> Vec<(PlacementKey, Decision, Result<Vec<Op>>)> {
        let before = |key: &PlacementKey| {
            if self.awaits_payload(key) {
                return None;
            }
            let mut before = self.placements.get(key)?.clone();
            before.works.extend(self.members.reports.get(key).cloned().unwrap_or_default());
            Some(before)
        };
        let decided = decide_each(due, &self.placements, before, &self.fleet, now);
        let with_difference = |(key, decision): (PlacementKey, Decision)| {
            let next = (!decision.finished).then_some(&decision.state);
            let difference = self.persistence.difference(&key, self.placements.get(&key), next);
            (key, decision, difference)
        };
        decided.into_par_iter().map(with_difference).collect()
    }

    /// Writes changed override snapshots: a decision may name one, so both are stored in one batch or the snapshot first.
    pub(super) fn write_overrides(&mut self, batch: &mut Batch) {
        for id in self.fleet.overrides.take_unwritten() {
            match persist::override_op(&self.fleet.overrides, &id) {
                Ok(op) => {
                    batch.ops.push(op);
                    batch.changes.push(BatchChange::Override(id));
                }
                Err(error) => {
                    tracing::error!(name = id.name(), %error, "the snapshot of an override could not be stored; the next start takes it again");
                }
            }
        }
    }

    /// Decides OCM Placements one after the other, each with the picks of those before it; the placements that take clusters
    /// from them are decided in the same batch. Returns which were decided.
    pub(super) fn decide_ocm(&mut self, batch: &mut Batch, now: Timestamp) -> BTreeSet<Key> {
        let tree = Arc::clone(&self.fleet.tree);
        let mut picked = BTreeSet::new();
        for key in self.fleet.ocm.in_order(std::mem::take(&mut self.queue.ocm)) {
            let known = self.fleet.ocm.record(&key).cloned();
            let mut decision = self.fleet.ocm.decide(&key, now);
            match persist::ocm_difference(&key, known.as_deref(), decision.record.as_ref()) {
                Ok(more) => batch.take(more),
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision could not be stored and has no effect");
                    continue;
                }
            }
            let journal = std::mem::take(&mut decision.journal);
            batch.ops.extend(journal.iter().cloned().map(Op::Journal));
            let wake_at = decision.wake_at;
            self.fleet.ocm.settle(decision);
            if known.as_ref() != self.fleet.ocm.record(&key) {
                self.queue.concerns_followers(&tree, &key);
            }
            picked.insert(key.clone());
            batch.changes.push(BatchChange::Picked(PickedPlacement { key, known, journal, wake_at }));
        }
        picked
    }

    /// Decides the placements that are due, and exports what they and the OCM Placements decided.
    pub(super) fn decide_placements(&mut self, batch: &mut Batch, picked: &BTreeSet<Key>, now: Timestamp) {
        self.find_what_is_held();
        let all = std::mem::take(&mut self.queue.placements);
        let (waiting, due) = all.into_iter().partition(|key| self.awaits_payload(key));
        // Each of them is queued when its payload arrives.
        self.queue.placements = waiting;
        let mut given = GivenNames::default();
        let mut decided = Vec::new();
        for (key, decision, difference) in self.decisions(&due, now) {
            let known = self.placements.get(&key).map(|state| &state.runs);
            if !given.add(&key, known, &decision.state.runs) {
                self.queue.placements.insert(key);
                continue;
            }
            match difference {
                Ok(more) => batch.take(more),
                Err(error) => {
                    tracing::error!(placement = %key, %error, "the decision could not be stored and has no effect");
                    continue;
                }
            }
            batch.ops.extend(decision.journal.iter().cloned().map(Op::Journal));
            // The batch keeps its inputs until the store has answered: a refusal gives them back.
            let ahead = self.fleet.ahead.remove(&key);
            let kept = self.fleet.kept.remove(&key);
            let reports = self.members.reports.get(&key).cloned().unwrap_or_default();
            decided.push(DecidedPlacement { key, decision, reports, kept, ahead });
        }
        if decided.is_empty() && picked.is_empty() {
            return;
        }
        match self.exports.after(&decided, picked, &self.fleet, now) {
            Ok((exports, more)) => {
                batch.ops.extend(more);
                if !Arc::ptr_eq(&exports, &self.exports.decisions) {
                    batch.changes.push(BatchChange::Exported(exports));
                }
            }
            Err(error) => {
                tracing::error!(%error, "the exported decisions could not be stored and stay as they are");
            }
        }
        // A placement that gives up an object tells so before the one that takes it over asks for it.
        decided.sort_by_key(|decided| decided.decision.state.others.yielded.is_empty());
        batch.changes.extend(decided.into_iter().map(|decided| BatchChange::Decided(Box::new(decided))));
    }
}
