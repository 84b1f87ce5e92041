//! What others are told of the core: metrics, the log, views of the stored records, and the bot.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::changed::Changed;
use super::forge_updates::ForgeListener;
use super::measures::Measures;
use decide::state::{FleetState, PlacementState};
use decide::status::rollout::{RolloutState, rollout_state};
use model::id::{ClusterName, PlacementKey};
use model::records::ClusterRecord;

/// What each listener was told, and what it is to be told.
#[derive(Debug)]
pub(super) struct Listeners {
    /// What changed in the store since it was asked last.
    pub changed: Changed,
    /// Numbers about rollouts.
    pub measures: Measures,
    /// The last log message about each settled placement.
    pub settled: BTreeMap<PlacementKey, String>,
    /// Collects updates for the bot; absent without a forge.
    pub forge: Option<ForgeListener>,
}

impl Listeners {
    /// Counts the placements that a process starts with, and notes which of them an earlier process left rolled out: it has said so.
    pub(super) fn begin(
        placements: &BTreeMap<PlacementKey, PlacementState>,
        clusters: &BTreeMap<ClusterName, ClusterRecord>,
        fleet: &FleetState,
        has_forge: bool,
        now: Timestamp,
    ) -> Self {
        let mut measures = Measures::default();
        let mut settled = BTreeMap::new();
        for (key, state) in placements {
            let bindings = state.shared_bindings();
            let standing = rollout_state(&state.view(&bindings, fleet, now));
            measures.count(state, &standing);
            if standing == RolloutState::AllAtTarget {
                settled.insert(key.clone(), rolled_out(state));
            }
        }
        let changed = Changed::everything(placements, clusters);
        Self { changed, measures, settled, forge: has_forge.then(ForgeListener::default) }
    }

    /// Counts the state of a placement, and logs once that it has settled, and in which state.
    pub(super) fn announce(&mut self, state: &PlacementState, standing: &RolloutState) {
        self.measures.count(state, standing);
        let text = match standing {
            RolloutState::Progressing => String::new(),
            RolloutState::AllAtTarget if state.record.removed => String::new(),
            RolloutState::AllAtTarget => rolled_out(state),
            other => other.to_string(),
        };
        let before = self.settled.insert(state.record.key.clone(), text.clone());
        if text.is_empty() || before.as_ref() == Some(&text) {
            return;
        }
        match standing {
            RolloutState::AllAtTarget => tracing::info!(about = %text, "rolled out"),
            RolloutState::WaitingForTime(_) => tracing::info!("waits for time to pass"),
            RolloutState::WaitingForPerson(wait) => tracing::warn!(about = %wait, "waits for a person"),
            RolloutState::Unreachable(why) => tracing::warn!(about = %why, "waits for clusters"),
            RolloutState::Failed(why) => tracing::error!(about = %why, "cannot continue"),
            RolloutState::Progressing => {}
        }
    }

    /// Forgets a placement that is gone.
    pub(super) fn forget(&mut self, key: &PlacementKey) {
        self.settled.remove(key);
        self.measures.forget(key);
    }
}

/// Says that a placement is rolled out.
fn rolled_out(state: &PlacementState) -> String {
    let index = state.newest().map_or(0, |s| s.index);
    let ignored = state.record.ignored.len();
    let others = if ignored > 0 { format!("; {ignored} in no stage are left as they are") } else { String::new() };
    let on = match state.bindings.len().saturating_sub(ignored) {
        0 => "has no cluster to go to".to_owned(),
        1 => "is available on its cluster".to_owned(),
        reached => format!("is available on all {reached} clusters"),
    };
    format!("snapshot {index} {on}{others}")
}
