//! Classifies existing bindings for a scheduling cycle, and creates and changes bindings.

use fixedbitset::FixedBitSet;
use sha2::{Digest as _, Sha256};

use model::api::placement::ApplyStrategy;
use model::id::{ClusterName, PlacementKey};
use model::overrides::PickedOverrides;
use model::records::{Binding, BindingState, ClusterDecision};

use super::{Action, BindingChange, Error, Request};

/// Characters of the placement's name in a binding's name: with the cluster's name and the suffix they fit a DNS label of 63.
const PLACEMENT_CHARS: usize = 26;
/// Characters of the cluster's name in a binding's name.
const CLUSTER_CHARS: usize = 27;
/// Hexadecimal characters of the suffix, as in KubeFleet.
const SUFFIX_CHARS: usize = 8;

/// Returns a binding's name: `<placement[:26]>-<cluster[:27]>-<suffix>`, dots turned into dashes because it is one DNS
/// label.
///
/// The suffix is the first 8 hexadecimal digits of the SHA-256 of `<placement key>/<cluster>`, so that equal inputs give equal
/// names; KubeFleet's is random. While `is_taken` (an older binding of that name is still being removed), `/2`, `/3` and so on
/// is appended to the hashed text.
///
/// Source: KubeFleet, names of bindings.
pub fn binding_name(placement: &PlacementKey, cluster: &ClusterName, is_taken: impl Fn(&str) -> bool) -> String {
    // The full names are hashed: two names with the same truncated form get different suffixes.
    let text = format!("{placement}/{cluster}");
    let head = format!("{}-{}", head(&placement.name, PLACEMENT_CHARS), head(cluster.as_str(), CLUSTER_CHARS));
    let mut attempt = 1_u64;
    loop {
        let hashed = if attempt == 1 { text.clone() } else { format!("{text}/{attempt}") };
        let digest = format!("{:x}", Sha256::digest(hashed.as_bytes()));
        let name = format!("{head}-{}", &digest[..SUFFIX_CHARS]);
        if !is_taken(&name) {
            return name;
        }
        attempt += 1;
    }
}

/// Returns the first characters of a name as part of a DNS label.
fn head(name: &str, length: usize) -> String {
    name.chars().take(length).collect::<String>().replace('.', "-")
}

/// The class of a binding in this cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Unscheduled earlier; its objects may still be there.
    Unscheduled,
    /// From an earlier policy: evaluated again.
    Obsolete,
    /// Picked by this policy, not delivered yet.
    Scheduled,
    /// Picked by this policy and delivered.
    Bound,
}

/// A placement's bindings by class, each list sorted by name. Bindings being removed are in none.
#[derive(Debug, Default)]
pub(super) struct Classified<'a> {
    /// See [`Class::Unscheduled`].
    pub unscheduled: Vec<&'a Binding>,
    /// See [`Class::Obsolete`].
    pub obsolete: Vec<&'a Binding>,
    /// See [`Class::Scheduled`].
    pub scheduled: Vec<&'a Binding>,
    /// See [`Class::Bound`].
    pub bound: Vec<&'a Binding>,
    /// Bindings of clusters that are no longer in the fleet, whatever their state.
    pub left: Vec<&'a Binding>,
    /// Clusters with a binding that this policy scheduled or bound.
    pub current_at: FixedBitSet,
    /// Clusters with a binding of an earlier policy.
    pub obsolete_at: FixedBitSet,
    /// Clusters that have a binding.
    pub taken_at: FixedBitSet,
    /// Names in use, also by bindings being removed; sorted.
    names: Vec<&'a str>,
}

impl<'a> Classified<'a> {
    /// Classifies a request's bindings. The first rule that fits counts: cluster gone, being removed, unscheduled, of another
    /// policy, then by state.
    ///
    /// A missing cluster comes first: its binding must not wait for a removal that nobody can execute.
    pub(crate) fn of(request: &Request<'a>) -> Result<Self, Error> {
        let mut sorted: Vec<&Binding> = request.bindings.iter().map(AsRef::as_ref).collect();
        // The order of records must not affect the result, and `names` is searched by bisection.
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let nowhere = FixedBitSet::with_capacity(request.clusters.len());
        let mut classified =
            Self { current_at: nowhere.clone(), obsolete_at: nowhere.clone(), taken_at: nowhere, ..Self::default() };
        // Binding names start with the cluster's name, so the next binding usually belongs to the next cluster.
        let mut guess = 0;
        for binding in sorted {
            let Some(slot) = request.clusters.slot_near(guess, &binding.cluster) else {
                classified.left.push(binding);
                continue;
            };
            guess = slot + 1;
            // Bindings being removed count here: a new binding must not get the name of an existing one.
            classified.names.push(&binding.name);
            // A cluster may have a binding that is being removed and a new one, so this one takes no place.
            if binding.deleting {
                continue;
            }
            let class = match binding.state {
                // Whatever its policy: an unscheduled binding gives its cluster no bonus in the ranking.
                BindingState::Unscheduled => Class::Unscheduled,
                _ if binding.policy_index != request.policy_index => Class::Obsolete,
                BindingState::Scheduled => Class::Scheduled,
                BindingState::Bound => Class::Bound,
            };
            if classified.taken_at.put(slot) {
                return Err(classified.duplicate(binding));
            }
            match class {
                Class::Unscheduled => {}
                Class::Obsolete => classified.obsolete_at.insert(slot),
                Class::Scheduled | Class::Bound => classified.current_at.insert(slot),
            }
            classified.list(class).push(binding);
        }
        Ok(classified)
    }

    fn list(&mut self, class: Class) -> &mut Vec<&'a Binding> {
        match class {
            Class::Unscheduled => &mut self.unscheduled,
            Class::Obsolete => &mut self.obsolete,
            Class::Scheduled => &mut self.scheduled,
            Class::Bound => &mut self.bound,
        }
    }

    fn duplicate(&self, second: &Binding) -> Error {
        let lists = [&self.unscheduled, &self.obsolete, &self.scheduled, &self.bound];
        let first = lists.into_iter().flatten().find(|first| first.cluster == second.cluster);
        Error::DuplicateBinding {
            first: first.map(|first| first.name.clone()).unwrap_or_default(),
            second: second.name.clone(),
            cluster: second.cluster.clone(),
        }
    }

    /// Returns the clusters with the placement: they count as eligible if the request says so.
    pub(crate) fn held_at(&self, request: &Request<'_>) -> FixedBitSet {
        let mut held = FixedBitSet::with_capacity(request.clusters.len());
        if request.keep_held {
            held.union_with(&self.current_at);
            held.union_with(&self.obsolete_at);
        }
        held
    }

    /// Returns the changes of every cycle: bindings of missing clusters are left.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = BindingChange> {
        self.left.iter().map(|&binding| BindingChange { action: Action::Leave, binding: binding.clone() })
    }

    /// Creates a binding for a cluster without one.
    pub(crate) fn create(&self, request: &Request<'_>, decision: ClusterDecision) -> BindingChange {
        let cluster = decision.cluster_name.clone();
        let binding = Binding {
            name: binding_name(request.placement, &cluster, |name| self.names.binary_search(&name).is_ok()),
            placement: request.placement.clone(),
            cluster,
            state: BindingState::Scheduled,
            previous_state: None,
            policy_index: request.policy_index,
            decision,
            snapshot: None,
            apply_strategy: ApplyStrategy::default(),
            overrides: PickedOverrides::default(),
            created_at: None,
            started_at: None,
            generation: 1,
            conditions: Vec::new(),
            deleting: false,
            removes: std::collections::BTreeSet::new(),
            abandons: false,
        };
        BindingChange { action: Action::Create, binding }
    }
}

/// Moves a binding to the current policy; an unscheduled one gets its earlier state back.
pub(super) fn patch(
    request: &Request<'_>,
    binding: &Binding,
    decision: ClusterDecision,
) -> Result<BindingChange, Error> {
    let state = match (binding.state, binding.previous_state) {
        (BindingState::Unscheduled, None) => {
            return Err(Error::NoPreviousState { binding: binding.name.clone() });
        }
        // It keeps its snapshot too, so a bound one continues with its cluster's objects.
        (BindingState::Unscheduled, Some(previous)) => previous,
        (state, _) => state,
    };
    let binding = Binding {
        state,
        previous_state: None,
        policy_index: request.policy_index,
        decision,
        // Conditions from the earlier state do not count for this one.
        generation: binding.generation + 1,
        ..binding.clone()
    };
    Ok(BindingChange { action: Action::Patch, binding })
}

/// Unschedules a binding; it remembers its state in case it is picked again.
pub(super) fn unschedule(binding: &Binding) -> BindingChange {
    let binding = Binding {
        state: BindingState::Unscheduled,
        previous_state: Some(binding.state),
        generation: binding.generation + 1,
        ..binding.clone()
    };
    BindingChange { action: Action::Unschedule, binding }
}
