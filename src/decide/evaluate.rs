//! What is known about each binding: its conditions, by what its cluster reported last and what its objects are made with.

use std::sync::Arc;

use super::Pass;
use super::bindings::BindingEdit;
use super::memo::Evaluated;
use super::overrides::NewlyMade;
use crate::status::binding::binding_conditions;
use model::along::Along;
use model::api::condition::{Condition, ConditionStatus, set_condition};
use model::conditions::{ConditionType, Reason};
use model::overrides::{OverrideRef, PickedOverrides};
use model::records::{BindingState, ClusterRecord};
use model::variants::described;

impl Pass<'_> {
    /// Records what is known about each binding, by what its cluster reported last. Unchanged inputs are recognised: usually all are.
    pub(super) fn evaluate_bindings(&mut self) {
        self.evaluate_overrides();
        let before = Arc::clone(&self.state.memo.evaluated);
        let mut known = before.iter().peekable();
        let mut inputs = Vec::with_capacity(self.state.bindings.len());
        let mut changes = Vec::new();
        let mut works = Along::new(&self.state.works);
        let mut records = Along::new(&self.fleet.records);
        for (name, binding) in &self.state.bindings {
            let work = works.get(&binding.cluster);
            let online = records.get(&binding.cluster).is_some_and(ClusterRecord::answers);
            // Both are sorted by name: one pass over both skips what is gone. Usually nothing is.
            if known.peek().is_some_and(|evaluated| !Arc::ptr_eq(&evaluated.binding, binding)) {
                while known.next_if(|evaluated| evaluated.binding.name < *name).is_some() {}
            }
            if !known.peek().is_some_and(|evaluated| evaluated.is_of(binding, work, online)) {
                let conditions = binding_conditions(binding, work.map(AsRef::as_ref), online, self.now);
                if binding.conditions != conditions {
                    changes.push((name.clone(), BindingEdit::Conditions(conditions)));
                }
            }
            inputs.push((work.cloned(), online));
        }
        self.change_all(changes);
        // With their new conditions: the next decision recognises a binding by identity.
        let bindings = self.state.bindings.values().map(Arc::clone);
        let evaluated = bindings.zip(inputs).map(|(binding, (work, online))| Evaluated { binding, work, online });
        self.state.memo.evaluated = Arc::new(evaluated.collect());
    }

    /// Records, for each binding with overrides, whether its objects can be rendered.
    fn evaluate_overrides(&mut self) {
        let mut newly_made = NewlyMade::new();
        let mut changes = Vec::new();
        let bound = self.state.bindings().filter(|b| !b.deleting && b.state != BindingState::Scheduled);
        for binding in bound.filter(|b| !b.overrides.is_empty()) {
            let Some(snapshot) = binding.snapshot else { continue };
            let objects = self.objects(&binding.cluster, snapshot, &binding.overrides, &mut newly_made);
            let (status, reason, message) = match objects {
                // Without the payload the result is unknown, so the earlier one stays.
                None => continue,
                Some(Ok(_)) => (ConditionStatus::True, Reason::OverriddenSucceeded, made_with(&binding.overrides)),
                Some(Err(error)) => (ConditionStatus::False, Reason::OverriddenFailed, error),
            };
            let condition = Condition {
                type_: ConditionType::Overridden,
                status,
                reason,
                message,
                observed_generation: binding.generation,
                last_transition_time: self.now,
            };
            let mut conditions = binding.conditions.clone();
            set_condition(&mut conditions, condition);
            if binding.conditions != conditions {
                changes.push((binding.name.clone(), BindingEdit::Conditions(conditions)));
            }
        }
        self.state.memo.rendered.keep(newly_made);
        self.change_all(changes);
    }
}

/// Says what a cluster's objects were made with.
fn made_with(picked: &PickedOverrides) -> String {
    let rendered = picked.variant.as_ref().map(|inputs| format!("rendered with {}", described(inputs)));
    let names = picked.cluster.iter().chain(&picked.namespaced).map(OverrideRef::name).collect::<Vec<_>>().join(", ");
    let made = (!names.is_empty()).then(|| format!("made with {names}"));
    rendered.into_iter().chain(made).collect::<Vec<_>>().join(", ")
}
