//! The state of the whole fleet, and when a single pass is over.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Core, Effect};
use decide::status::fleet::{fleet_states, source_failure};
use decide::status::rollout::RolloutState;
use model::work::WorkOrder;

impl Core {
    /// Returns the state of the whole fleet: the worst of its placements, or of the source.
    pub fn standing(&self, now: Timestamp) -> RolloutState {
        let placements = self.placements.values().map(|state| self.members.rollout_state(state, &self.fleet, now));
        let parts = placements.chain([self.exports.standing()]);
        let worst =
            fleet_states(self.persistence.store.as_ref(), &self.source.record, self.fleet.records.values(), parts)
                .into_iter()
                .fold(RolloutState::AllAtTarget, RolloutState::or_worse);
        let is_stopped = self.adoption_complaint().is_some() || source_failure(&self.source.record).is_some();
        if !is_stopped
            && (self.fleet.tree.commit.is_none() || !self.queue.is_empty() || !self.source.payloads.is_empty())
        {
            return RolloutState::Progressing;
        }
        worst
    }

    /// Returns the orders that members were given last.
    pub fn orders(&self) -> impl Iterator<Item = &Arc<WorkOrder>> {
        self.members.orders()
    }

    /// Has members try again what they refused, before a single pass ends with a failure: what an object needs may have come with another
    /// placement meanwhile, as the right of a tenant's account to write it. Nothing if all that was tried again last is refused still, so
    /// that a pass ends. Agents try again by themselves.
    pub fn try_again(&mut self) -> Vec<Effect> {
        self.members.try_again(&self.fleet, &self.placements)
    }

    /// Returns the state if nothing is left to wait for before the deadline of a single pass.
    pub fn finished(&self, now: Timestamp, deadline: Timestamp) -> Option<RolloutState> {
        if !self.source.is_seen() || !self.members.unseen.is_empty() {
            return None;
        }
        // Without the source OCM Placements stay queued: a pass would wait for them without end.
        let has_work = if self.fleet.source_unread { self.is_due() } else { !self.queue.is_empty() };
        // A store that nobody has adopted writes only one record: its own.
        if has_work && (self.adoption_complaint().is_none() || self.persistence.is_store_unwritten()) {
            return None;
        }
        if self.members.is_keeping(&self.fleet, &self.placements) || self.exports.is_tried_again() {
            return None;
        }
        match self.standing(now) {
            RolloutState::Progressing => None,
            // Failures that an earlier process stored may be over, and members may have lost something beside a gate.
            RolloutState::AllAtTarget | RolloutState::Failed(_) | RolloutState::WaitingForPerson(_)
                if self.members.is_trying(&self.fleet) =>
            {
                None
            }
            RolloutState::AllAtTarget if self.members.awaits_old_holder(&self.fleet, &self.placements) => None,
            RolloutState::WaitingForTime(Some(at)) if at < deadline => None,
            standing => Some(standing),
        }
    }

    /// Returns the state of a single pass that is ended before it has finished: work without a report does not count as done.
    pub fn cut_short(&self, now: Timestamp) -> RolloutState {
        match self.standing(now) {
            RolloutState::AllAtTarget => self.finished(now, now).unwrap_or(RolloutState::Progressing),
            standing => standing,
        }
    }
}
