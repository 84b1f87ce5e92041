//! The bindings of a placement. The steps of a decision say as values what changes; only this file changes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Pass;
use model::api::condition::Condition;
use model::api::placement::ApplyStrategy;
use model::id::ObjectKey;
use model::overrides::PickedOverrides;
use model::records::{Binding, BindingState};

/// What becomes of a binding.
#[derive(Clone, Debug)]
pub enum BindingEdit {
    /// Scheduling made it, or scheduled it otherwise.
    Put(Box<Binding>),
    /// Its cluster has nothing of it any more, or keeps what it has: the record goes.
    Drop,
    /// Its cluster is not picked any more, because the whole placement goes.
    Unschedule,
    /// Its cluster gets a snapshot.
    Bring {
        /// The index of the snapshot.
        snapshot: u64,
        /// How its objects are applied.
        apply_strategy: ApplyStrategy,
        /// What its objects are made with.
        overrides: PickedOverrides,
    },
    /// Its cluster is left.
    Remove {
        /// The objects that are deleted there.
        objects: BTreeSet<ObjectKey>,
        /// Nothing is deleted, whatever is there.
        abandons: bool,
    },
    /// Objects that appeared since its removal began are deleted, too.
    RemoveMore(BTreeSet<ObjectKey>),
    /// It has no snapshot any more; its cluster keeps what it has.
    Unassign,
    /// Reports of another binding of its cluster, up to this generation, are not about it.
    Outdate {
        /// The generation of the other binding.
        generation: i64,
    },
    /// Its cluster is told again what it has been told, and has the whole time for it.
    TryAgain,
    /// A deadline counts from later on: so long it was paused.
    Delay(SignedDuration),
    /// What is known about it.
    Conditions(Vec<Condition>),
}

impl BindingEdit {
    /// Returns a binding after the change; `None` if there is none then.
    fn of(self, before: Option<&Arc<Binding>>, now: Timestamp) -> Option<Binding> {
        if let Self::Put(binding) = self {
            return Some(*binding);
        }
        let mut binding = Binding::clone(before?);
        match self {
            Self::Put(_) | Self::Drop => return None,
            Self::Unschedule => {
                // A placement that comes back to git continues from there: its clusters are not bound again.
                binding.previous_state = Some(binding.state);
                binding.state = BindingState::Unscheduled;
            }
            Self::Bring { snapshot, apply_strategy, overrides } => {
                binding.state = BindingState::Bound;
                binding.snapshot = Some(snapshot);
                binding.apply_strategy = apply_strategy;
                binding.overrides = overrides;
                binding.started_at = Some(now);
                binding.generation += 1;
            }
            Self::Remove { objects, abandons } => {
                binding.removes = objects;
                binding.deleting = true;
                binding.abandons = abandons;
                binding.generation += 1;
            }
            Self::RemoveMore(objects) => binding.removes.extend(objects),
            Self::Unassign => {
                // A scheduled binding without a snapshot gets no order, so nothing on the cluster changes.
                if binding.state == BindingState::Bound {
                    binding.state = BindingState::Scheduled;
                }
                binding.snapshot = None;
                binding.started_at = None;
                binding.overrides = PickedOverrides::default();
                binding.generation += 1;
            }
            Self::Outdate { generation } => binding.generation = binding.generation.max(generation) + 1,
            Self::TryAgain => {
                binding.started_at = Some(now);
                binding.generation += 1;
            }
            Self::Delay(paused_for) => {
                binding.started_at = binding.started_at.and_then(|at| at.checked_add(paused_for).ok());
            }
            Self::Conditions(conditions) => binding.conditions = conditions,
        }
        Some(binding)
    }
}

impl Pass<'_> {
    /// Changes a binding. Of one that does not exist, only `Put` makes one.
    pub fn change(&mut self, name: &str, change: BindingEdit) {
        let bindings = &mut self.state.bindings;
        match change.of(bindings.get(name), self.now) {
            Some(binding) => drop(bindings.insert(name.to_owned(), Arc::new(binding))),
            None => drop(bindings.remove(name)),
        }
    }

    /// Changes bindings, each by its name.
    pub(super) fn change_all(&mut self, changes: impl IntoIterator<Item = (String, BindingEdit)>) {
        for (name, change) in changes {
            self.change(&name, change);
        }
    }
}
