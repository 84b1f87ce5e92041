//! The queries of stages that wait, and what the servers say to them.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Core, Effect};
use model::id::PlacementKey;
use model::runs::{MetricQuery, MetricReply};

impl Core {
    /// Has exactly these queries of a placement asked from now on.
    pub(super) fn ask(&mut self, key: &PlacementKey, queries: BTreeSet<MetricQuery>) {
        if self.asked.get(key).is_some_and(|known| *known == queries)
            || (queries.is_empty() && !self.asked.contains_key(key))
        {
            return;
        }
        if let Some(replies) = self.fleet.replies.get_mut(key) {
            replies.retain(|query, _| queries.contains(query));
        }
        if queries.is_empty() {
            self.asked.remove(key);
            self.fleet.replies.remove(key);
        } else {
            self.asked.insert(key.clone(), queries.clone());
        }
        self.effects.push(Effect::Ask(key.clone(), queries));
    }

    /// Keeps what a server said, for the next decision. What was said to a query that is not asked any more is dropped.
    pub(super) fn take_answer(&mut self, query: MetricQuery, value: Result<f64, String>, now: Timestamp) {
        let key = query.placement.clone();
        if self.asked.get(&key).is_some_and(|asked| asked.contains(&query)) {
            self.queue.placements.insert(key.clone());
            self.fleet.replies.entry(key).or_default().insert(query, MetricReply { at: now, value });
        }
    }
}
