//! What is true once nothing happens any more: records, the store and what people see say that everything is where it is to be.

use std::collections::BTreeSet;

use decide::state::PlacementState;
use decide::status::rollout::StateKind;
use engine::{Core, persist};
use model::api::condition::ConditionStatus;
use model::conditions::ConditionType;
use model::id::{ClusterName, CommitId};
use model::records::{Binding, BindingState};
use simulated::SimulatedFleet;

use super::check::Verdict;

/// 6: the daemon says that it is at rest, of each placement and of the fleet, and a later life would begin with the same.
pub(super) fn says_so(core: &Core, simulation: &SimulatedFleet, last: &CommitId) -> Verdict {
    let now = simulation.clock();
    let standing = core.standing(now);
    if standing.kind() != StateKind::AtTarget {
        let open: Vec<String> = core.measures().listed().map(|(key, kind)| format!("{key} {kind}")).collect();
        return Err(format!("6: everything is at rest, and the fleet is said to be {standing:?}: {}", open.join(", ")));
    }
    let source = core.stored_source();
    if source.accepted.as_ref() != Some(last) || source.seen.as_ref() != Some(last) {
        return Err(format!("6: {last} is the newest commit, and {:?} is said to be", source.seen));
    }
    let stored = persist::load(&simulation.store).map_err(|error| format!("the store cannot be read: {error}"))?;
    let differs = core
        .placements()
        .iter()
        .find(|(key, state)| stored.get(*key).map(PlacementState::records).as_ref() != Some(&state.records()));
    if let Some((key, _)) = differs {
        return Err(format!("7: the store has another {key} than the daemon"));
    }
    core.placements().values().try_for_each(is_finished)
}

/// 6: all that a placement has begun ended, and counts as what a rollback returns to.
fn is_finished(state: &PlacementState) -> Verdict {
    let (key, record) = (&state.record.key, &state.record);
    if record.removed {
        return Ok(());
    }
    let begun = |binding: &Binding| {
        binding.conditions.iter().any(|condition| {
            condition.type_ == ConditionType::RolloutStarted
                && condition.status == ConditionStatus::True
                && condition.observed_generation == binding.generation
        })
    };
    let bound: Vec<&Binding> =
        state.bindings().filter(|binding| binding.state == BindingState::Bound && !binding.deleting).collect();
    if let Some(binding) = bound.iter().find(|binding| !begun(binding)) {
        return Err(format!("6: {} is at rest, and does not say that its rollout started", binding.name));
    }
    let newest = state.newest().map(|newest| newest.index);
    if bound.is_empty() || newest.is_none() {
        return Ok(());
    }
    let succeeded = record.succeeded.last();
    if succeeded.map(|succeeded| succeeded.snapshot) != newest {
        return Err(format!("6: {key} has snapshot {newest:?} everywhere, and {succeeded:?} counts as succeeded"));
    }
    let overridden: BTreeSet<&ClusterName> =
        bound.iter().filter(|binding| !binding.overrides.is_empty()).map(|binding| &binding.cluster).collect();
    let said: BTreeSet<&ClusterName> =
        succeeded.into_iter().flat_map(|state| &state.overrides).flat_map(|shared| &shared.clusters).collect();
    // Clusters may have left since.
    if !said.is_superset(&overridden) {
        return Err(format!("6: {key} has overrides on {overridden:?}, and {said:?} is kept for a rollback"));
    }
    Ok(())
}
