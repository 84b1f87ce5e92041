//! Runs the steps in order for one placement: pure.
//!
//! The daemon, `plan` and the tests run this same function. It takes the state of a placement and returns its next state and
//! the orders for its members; the daemon stores the difference before it acts on the orders.

mod advance;
mod again;
mod back;
mod behind;
pub mod bindings;
mod evaluate;
pub mod evictions;
mod floor;
mod follow_up;
pub mod found;
mod freeze;
mod git;
mod given_up;
mod guard;
pub mod hand_over;
mod inherit;
pub mod memo;
pub mod names;
mod objects;
pub mod ocm;
pub mod overrides;
mod pass;
pub mod payload;
mod progress;
mod rename;
pub mod render;
mod rolling;
pub mod rollout;
mod run_stages;
mod runs;
mod schedule;
mod select;
pub mod servers;
pub mod snapshot;
mod standing;
pub mod state;
pub mod status;
pub mod strategies;
pub mod tenancy;
mod unready;
pub mod variants;
mod warnings;
pub mod without_effect;
mod works;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use self::bindings::BindingEdit;
use self::git::{followed, named_by_strategy, still_counting};
use self::given_up::given_up;
use self::guard::Guarded;
pub use self::guard::{is_guarded, only_reports};
pub use self::pass::Pass;
use self::progress::{DueEntries, progress_since};
use self::rolling::evaluate;
use self::standing::{Standing, changes_since};
use self::state::{FleetState, PlacementState};
use self::warnings::warnings;
use self::works::Orders;
use crate::status::rollup::placement_conditions;
use model::api::condition::{ConditionStatus, find_condition};
use model::conditions::ConditionType;
use model::id::{ClusterName, PlacementKey};
use model::journal::JournalKind;
use model::placement_phase::{DECIDED, violation};
use model::records::{Binding, BindingState, JournalEntry, WorkStatus};
use model::work::WorkOrder;

/// The state of a placement after a decision, and what follows from it.
#[derive(Debug)]
pub struct Decision {
    /// The placement as it stands now.
    pub state: PlacementState,
    /// The placement is gone from git and nothing of it is left: its records are deleted.
    pub finished: bool,
    /// The orders for members, in the order of the members; a member without an order keeps its objects.
    pub orders: Arc<Vec<Arc<WorkOrder>>>,
    /// Members that no longer have anything of the placement.
    pub forget: Vec<ClusterName>,
    /// What happened, for the journal.
    pub journal: Vec<JournalEntry>,
    /// When time alone changes the answer.
    pub wake_at: Option<Timestamp>,
}

impl Decision {
    /// Returns the name that the placement had before this decision, if it was renamed.
    pub fn renamed_from(&self) -> Option<PlacementKey> {
        let renamed = self.journal.iter().find(|entry| entry.event == JournalKind::Renamed)?;
        renamed.facts["from"].as_str()?.parse().ok()
    }
}

/// Decides about one placement.
pub fn decide(state: PlacementState, fleet: &FleetState, now: Timestamp) -> Decision {
    let before = state.record.phase();
    let stood = Standing::of(&state.record);
    let mut pass = Pass::new(state, fleet, now);
    // Before scheduling: a cluster that is picked again needs no second binding beside a removed one.
    let mut forget = pass.drop_removed_bindings();
    // Both only stop changes, so they do not wait for the source.
    pass.take_over();
    pass.unbind_clusters_ahead();
    // A commit that cannot be read may stop or revert what the accepted one would start.
    let followed = if fleet.source_unread { Followed::default() } else { pass.follow_commit() };
    pass.evaluate_bindings();
    // Evaluated again: a binding that just moved has a new generation, and no report covers it yet.
    // No report follows for what cannot be rendered: only another decision takes it further.
    let wake_at = if pass.moved_in_vain() { Some(now) } else { followed.wake_at };
    let Orders { orders, forbidden } = pass.orders(&followed.losing);
    pass.state.memo.orders = Arc::clone(&orders);
    if let Some(why) = forbidden {
        pass.state.record.error.get_or_insert(why);
    }
    pass.conclude();
    for (event, facts) in changes_since(&stood, &pass.state) {
        pass.note(event, None, facts);
    }
    forget.extend(followed.left);
    pass.state.given_up = Arc::new(given_up(&pass.state, &pass.lost, fleet));
    debug_assert_eq!(violation(DECIDED, before, &pass.state.record, &pass.journal), None);
    let finished = pass.state.record.removed && pass.state.bindings.is_empty();
    Decision { finished, orders, state: pass.state, forget, journal: pass.journal, wake_at }
}

/// The result of following the accepted commit, beside the new state of the placement.
#[derive(Default)]
struct Followed {
    /// Clusters that left the fleet: they keep what they have.
    left: Vec<ClusterName>,
    /// Clusters that hold something they may not keep.
    losing: BTreeSet<ClusterName>,
    /// When time alone changes the answer.
    wake_at: Option<Timestamp>,
}

impl Pass<'_> {
    /// Follows the accepted commit: starts, moves and removes bindings.
    fn follow_commit(&mut self) -> Followed {
        self.state.record = followed(&self.state, self.fleet);
        let left = self.leave();
        if self.state.record.removed {
            self.unschedule_all();
        } else {
            self.freeze_and_schedule();
        }
        self.load_newest_payload();
        // The snapshot may be new, with a payload that was not there when the pass started.
        self.find_candidates();
        self.bind_found();
        self.evaluate_bindings();
        if self.evict() {
            self.reschedule();
        }
        // The guard comes first: neither the rollout nor an order may remove what it protects.
        self.note_ignored();
        let upcoming = (self.upcoming_snapshots(), self.state.record.ignored.clone());
        let losing = self.take_guarded(&upcoming.0);
        let wake_at = self.roll();
        // A run that started may be of another strategy.
        let named = named_by_strategy(&self.state.record, &self.state.runs, self.fleet);
        self.state.record.narrowed = named.narrowed;
        self.state.record.replaced.extend(named.replaced);
        // A rollback or a run that started changes the upcoming snapshots and who gets them, and so what clusters may keep.
        let new_upcoming = (self.upcoming_snapshots(), self.state.record.ignored.clone());
        let losing = if new_upcoming == upcoming { losing } else { self.take_guarded(&new_upcoming.0) };
        // The guard may have closed a gate.
        self.state.record.replaced = still_counting(&self.state, self.fleet);
        self.note_removals();
        Followed { left, losing, wake_at }
    }

    /// Records what the guard says. Returns the clusters that hold something they may not keep.
    fn take_guarded(&mut self, upcoming: &BTreeSet<u64>) -> BTreeSet<ClusterName> {
        let Guarded { gate, losing, lost, rendered } = self.guard(upcoming);
        self.state.record.deletion_gate = gate;
        self.state.memo.rendered.keep(rendered);
        self.lost = lost;
        losing
    }

    /// Tells whether a binding was assigned something that cannot be rendered for its cluster.
    fn moved_in_vain(&self) -> bool {
        let mut moved = self.moved.iter().filter_map(|name| self.state.bindings.get(name));
        moved.any(|binding| {
            let overridden = find_condition(&binding.conditions, &ConditionType::Overridden);
            overridden.is_some_and(|condition| condition.is(ConditionStatus::False, binding.generation))
        })
    }

    /// Drops bindings whose objects are gone. Returns their clusters.
    fn drop_removed_bindings(&mut self) -> Vec<ClusterName> {
        self.drop_overtaken_bindings();
        let leaving = self.state.bindings().filter(|binding| binding.deleting);
        let gone = leaving.filter(|binding| {
            let work = self.state.works.get(&binding.cluster);
            work.is_some_and(|work| is_removed(binding, work))
        });
        let gone: Vec<Binding> = gone.cloned().collect();
        for binding in &gone {
            self.change(&binding.name, BindingEdit::Drop);
            self.state.works.remove(&binding.cluster);
            self.note(JournalKind::BindingRemoved, Some(&binding.cluster), json!({"binding": binding.name}));
        }
        gone.into_iter().map(|binding| binding.cluster).collect()
    }

    /// Drops bindings that leave a cluster which was picked again, once their removal has nothing left to delete: the newer binding wants
    /// the rest.
    fn drop_overtaken_bindings(&mut self) {
        let leaving = self.state.bindings().filter(|b| b.deleting && self.is_kept_whole(&b.cluster));
        let overtaken = leaving.filter_map(|old| {
            let mut others = self.state.bindings().filter(|b| !b.deleting && b.cluster == old.cluster);
            Some((old.clone(), others.next()?.name.clone()))
        });
        let overtaken: Vec<(Binding, String)> = overtaken.collect();
        for (old, by) in overtaken {
            self.change(&old.name, BindingEdit::Drop);
            // A report about the removal must not count as one about the new binding.
            self.change(&by, BindingEdit::Outdate { generation: old.generation });
            self.note(JournalKind::BindingRemoved, Some(&old.cluster), json!({"binding": old.name}));
        }
    }

    fn unschedule_all(&mut self) {
        self.state.record.error = None;
        self.state.memo.selected = None;
        let kept = self.state.bindings().filter(|b| b.state != BindingState::Unscheduled);
        let changes: Vec<_> = kept.map(|b| (b.name.clone(), BindingEdit::Unschedule)).collect();
        self.change_all(changes);
    }

    /// Schedules again after an eviction: if the cluster does not answer, no other event queues it.
    fn reschedule(&mut self) {
        if self.state.record.error.is_some() {
            return;
        }
        match self.scheduled() {
            Ok(scheduled) => self.take_scheduled(scheduled),
            Err(error) => self.state.record.error = Some(error),
        }
    }

    /// Records the placement's own status, and drops payloads that are no longer needed.
    fn conclude(&mut self) {
        let in_use: BTreeSet<u64> = self.state.snapshots_in_use().map(|s| s.index).collect();
        self.state.payloads.retain(|index, _| in_use.contains(index));
        self.state.record.unreadable = self.state.unreadable.intersection(&in_use).copied().collect();
        self.forget_rendered();
        let leaving = self.state.bindings().filter(|b| b.deleting && self.is_kept_whole(&b.cluster));
        self.state.record.handing_over = leaving.map(|binding| binding.cluster.clone()).collect();
        if let Some(warnings) = warnings(&self.state, self.fleet) {
            self.state.record.warnings = warnings;
        }
        self.note_behind();
        let bindings = self.state.shared_bindings();
        let conditions = placement_conditions(&self.state.view(&bindings, self.fleet, self.now));
        let before = std::mem::replace(&mut self.state.record.conditions, conditions);
        if let Some(DueEntries { snapshot, new, written }) = progress_since(&before, &self.state) {
            for event in new {
                self.note(event, None, json!({"snapshot": snapshot}));
            }
            self.state.record.journaled = Some((snapshot, written));
        }
        self.forget_snapshots();
    }
}

/// Tells whether a report says that nothing is left of a binding that was to be removed. A report of an older generation is from before the
/// removal, and a failed list looks empty.
fn is_removed(binding: &Binding, work: &WorkStatus) -> bool {
    work.generation == binding.generation && work.complete && work.inventory.is_known_empty()
}

#[cfg(test)]
mod random_tests;
