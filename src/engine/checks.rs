//! The queries of stages that wait, and what the servers say to them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::effect::Effect;
use super::queue::Queue;
use decide::state::FleetState;
use model::id::PlacementKey;
use model::runs::{MetricQuery, MetricReply};

/// The queries that are asked, by placement.
#[derive(Debug, Default)]
pub(super) struct AskedQueries(BTreeMap<PlacementKey, BTreeSet<MetricQuery>>);

impl AskedQueries {
    /// Has exactly these queries of a placement asked from now on. Returns what to do for it, and nothing if they are asked already.
    pub(super) fn ask(
        &mut self,
        key: &PlacementKey,
        queries: BTreeSet<MetricQuery>,
        fleet: &mut FleetState,
    ) -> Option<Effect> {
        let known = self.0.get(key);
        if known.map_or(queries.is_empty(), |known| *known == queries) {
            return None;
        }
        if let Some(replies) = fleet.replies.get_mut(key) {
            replies.retain(|query, _| queries.contains(query));
        }
        if queries.is_empty() {
            self.0.remove(key);
            fleet.replies.remove(key);
        } else {
            self.0.insert(key.clone(), queries.clone());
        }
        Some(Effect::Ask(key.clone(), queries))
    }

    /// Keeps what a server said, for the next decision. What was said to a query that is not asked any more is dropped.
    pub(super) fn take_answer(
        &self,
        query: MetricQuery,
        value: Result<f64, String>,
        fleet: &mut FleetState,
        queue: &mut Queue,
        now: Timestamp,
    ) {
        let key = query.placement.clone();
        if self.0.get(&key).is_some_and(|asked| asked.contains(&query)) {
            queue.placements.insert(key.clone());
            fleet.replies.entry(key).or_default().insert(query, MetricReply { at: now, value });
        }
    }
}
