//! What the console is told: how placements and the source stand, where that has changed.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Core, Effect, ForgeUpdate, PlacementUpdate, SourceLook};
use crate::model::id::{CommitId, PlacementKey};
use crate::model::progress::Progress;
use crate::model::records::SourceRecord;
use crate::status::progress::progress;

/// What the console knows already.
#[derive(Debug, Default)]
pub(super) struct Listener {
    told: BTreeMap<PlacementKey, Vec<Progress>>,
    source: SourceRecord,
    /// The commit that gave a placement a reason to move, until it turns out that it gave none.
    concerned: BTreeMap<PlacementKey, CommitId>,
}

impl Core {
    /// Tells how a placement stands, where nobody knows yet.
    pub(super) fn tell_placement(&mut self, key: &PlacementKey, now: Timestamp) {
        let Some(listener) = &mut self.listener else { return };
        let ways = self.placements.get(key).map_or_else(Vec::new, |state| {
            let bindings = state.shared_bindings();
            progress(&state.view(&bindings, &self.world, now), self.world.approvals)
        });
        let concerned_by = listener.concerned.get(key).cloned();
        if ways.first().is_none_or(|way| way.state.is_final()) {
            listener.concerned.remove(key);
        }
        if listener.told.get(key).is_some_and(|told| *told == ways) {
            return;
        }
        if ways.is_empty() {
            listener.told.remove(key);
        } else {
            listener.told.insert(key.clone(), ways.clone());
        }
        let told = PlacementUpdate { placement: key.clone(), ways, concerned_by };
        self.effects.push(Effect::Console(ForgeUpdate::Placement(Box::new(told))));
    }

    /// Tells how the source stands, where nobody knows yet.
    pub(super) fn tell_source(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        // Until the source was looked at, its record is one of an earlier life.
        if self.source_look == SourceLook::Seen && listener.source != self.source {
            listener.source = self.source.clone();
            self.effects.push(Effect::Console(ForgeUpdate::Source(Box::new(self.source.clone()))));
        }
    }

    /// Notes which placements a commit may move.
    pub(super) fn note_concerned(&mut self, commit: Option<&CommitId>) {
        let (Some(listener), Some(commit)) = (&mut self.listener, commit) else { return };
        let concerned = self.queue.placements.iter().map(|key| (key.clone(), commit.clone()));
        listener.concerned.extend(concerned);
    }
}
