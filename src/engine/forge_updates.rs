//! Updates for the bot: changed states of placements and of the source.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::effect::{Effect, ForgeUpdate, PlacementUpdate};
use decide::state::{FleetState, PlacementState};
use decide::status::progress::progress;
use model::id::{CommitId, PlacementKey};
use model::progress::Progress;
use model::records::SourceRecord;

/// What the bot knows already.
#[derive(Debug, Default)]
pub(super) struct ForgeListener {
    /// It was told which placements there are.
    has_begun: bool,
    sent: BTreeMap<PlacementKey, Vec<Progress>>,
    source: SourceRecord,
    /// The commit that may move a placement, until a decision shows that it does not.
    concerned: BTreeMap<PlacementKey, CommitId>,
}

impl ForgeListener {
    /// Returns the update about a placement, `None` for one that is gone, if there is news of it.
    pub(super) fn placement(
        &mut self,
        key: &PlacementKey,
        state: Option<&PlacementState>,
        fleet: &FleetState,
        now: Timestamp,
    ) -> Option<Effect> {
        let ways = state.map_or_else(Vec::new, |state| {
            let bindings = state.shared_bindings();
            progress(&state.view(&bindings, fleet, now), fleet.approvals)
        });
        let concerned_by = self.concerned.get(key).cloned();
        if ways.first().is_none_or(|way| way.state.is_final()) {
            self.concerned.remove(key);
        }
        if self.sent.get(key).is_some_and(|sent| *sent == ways) {
            return None;
        }
        if ways.is_empty() {
            self.sent.remove(key);
        } else {
            self.sent.insert(key.clone(), ways.clone());
        }
        let update = PlacementUpdate { placement: key.clone(), ways, concerned_by };
        Some(Effect::UpdateForge(ForgeUpdate::Placement(Box::new(update))))
    }

    /// Returns the updates about the source, which this process has read, if there is news of it.
    pub(super) fn source<'a>(
        &mut self,
        source: &SourceRecord,
        placements: impl Iterator<Item = &'a PlacementKey>,
    ) -> Vec<Effect> {
        if self.source == *source {
            return Vec::new();
        }
        let mut updates = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            updates.push(Effect::UpdateForge(ForgeUpdate::Known(placements.cloned().collect())));
        }
        self.source = source.clone();
        updates.push(Effect::UpdateForge(ForgeUpdate::Source(Box::new(source.clone()))));
        updates
    }

    /// Notes which placements a commit may move.
    pub(super) fn note_concerned<'a>(&mut self, commit: &CommitId, placements: impl Iterator<Item = &'a PlacementKey>) {
        self.concerned.extend(placements.map(|key| (key.clone(), commit.clone())));
    }
}
