//! Decisions about placements, with what the store is to keep of each.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rayon::prelude::*;

use crate::Core;
use crate::store::{Op, Result};
use decide::Decision;
use decide::hand_over::decide_each;
use model::id::PlacementKey;

impl Core {
    /// Decides on all cores and returns the store operations of each decision, in the order of the keys. Deciding is pure, so
    /// the result does not depend on the threads.
    pub(super) fn decisions(
        &self,
        due: &BTreeSet<PlacementKey>,
        now: Timestamp,
    ) -> Vec<(PlacementKey, Decision, Result<Vec<Op>>)> {
        let before = |key: &PlacementKey| {
            let mut before = self.placements.get(key).filter(|_| !self.awaits_payload(key))?.clone();
            before.works.extend(self.reports.get(key).cloned().unwrap_or_default());
            Some(before)
        };
        let decided = decide_each(due, &self.placements, before, &self.fleet, now);
        let with_difference = |(key, decision): (PlacementKey, Decision)| {
            let next = (!decision.finished).then_some(&decision.state);
            let difference = self.difference(&key, next);
            (key, decision, difference)
        };
        decided.into_par_iter().map(with_difference).collect()
    }
}
