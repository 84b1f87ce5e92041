//! Updates for the bot: changed states of placements and of the source.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Core, Effect, ForgeUpdate, PlacementUpdate, SourceLook};
use decide::status::progress::progress;
use model::id::{CommitId, PlacementKey};
use model::progress::Progress;
use model::records::SourceRecord;

/// What the bot knows already.
#[derive(Debug, Default)]
pub(super) struct Listener {
    /// It was told which placements there are.
    has_begun: bool,
    sent: BTreeMap<PlacementKey, Vec<Progress>>,
    source: SourceRecord,
    /// The commit that may move a placement, until a decision shows that it does not.
    concerned: BTreeMap<PlacementKey, CommitId>,
}

impl Core {
    /// Sends the state of a placement if it changed.
    pub(super) fn publish_placement(&mut self, key: &PlacementKey, now: Timestamp) {
        let Some(listener) = &mut self.listener else { return };
        let ways = self.placements.get(key).map_or_else(Vec::new, |state| {
            let bindings = state.shared_bindings();
            progress(&state.view(&bindings, &self.fleet, now), self.fleet.approvals)
        });
        let concerned_by = listener.concerned.get(key).cloned();
        if ways.first().is_none_or(|way| way.state.is_final()) {
            listener.concerned.remove(key);
        }
        if listener.sent.get(key).is_some_and(|sent| *sent == ways) {
            return;
        }
        if ways.is_empty() {
            listener.sent.remove(key);
        } else {
            listener.sent.insert(key.clone(), ways.clone());
        }
        let update = PlacementUpdate { placement: key.clone(), ways, concerned_by };
        self.effects.push(Effect::UpdateForge(ForgeUpdate::Placement(Box::new(update))));
    }

    /// Sends the state of the source if it changed.
    pub(super) fn publish_source(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        // Before the first read of the source its record is from an earlier process.
        if self.source_look == SourceLook::Seen && listener.source != self.source {
            if !std::mem::replace(&mut listener.has_begun, true) {
                let known = self.placements.keys().cloned().collect();
                self.effects.push(Effect::UpdateForge(ForgeUpdate::Known(known)));
            }
            listener.source = self.source.clone();
            self.effects.push(Effect::UpdateForge(ForgeUpdate::Source(Box::new(self.source.clone()))));
        }
    }

    /// Notes which placements a commit may move.
    pub(super) fn note_concerned(&mut self, commit: Option<&CommitId>) {
        let (Some(listener), Some(commit)) = (&mut self.listener, commit) else { return };
        let concerned = self.queue.placements.iter().map(|key| (key.clone(), commit.clone()));
        listener.concerned.extend(concerned);
    }
}
