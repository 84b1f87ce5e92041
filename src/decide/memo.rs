//! What a decision keeps for the next one. Without it the next one decides the same, and computes it again.

use std::sync::Arc;

use super::overrides::Rendered;
use super::payload::Payload;
use crate::snapshot::Frozen;
use model::manifest::Manifest;
use model::records::{Binding, WorkStatus};
use model::tree::Tree;
use model::warning::Warning;
use model::work::WorkOrder;

/// What a decision computed for a placement.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    /// What the accepted commit selects; recomputed when the commit or the placement changes.
    pub selected: Option<Arc<Selected>>,
    /// Objects that overrides made for clusters.
    pub rendered: Rendered,
    /// The inputs of the bindings' conditions, in the order of the bindings.
    pub evaluated: Arc<Vec<Evaluated>>,
    /// The orders of the last decision, in the order of members: an unchanged order stays shared.
    pub orders: Arc<Vec<Arc<WorkOrder>>>,
}

/// A binding with its conditions, and their inputs: unchanged inputs mean unchanged conditions.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The binding; compared by identity.
    pub binding: Arc<Binding>,
    /// What its cluster holds; compared by identity.
    pub work: Option<Arc<WorkStatus>>,
    /// Its cluster answers.
    pub online: bool,
}

impl Evaluated {
    /// Tells whether the conditions were computed from these inputs.
    pub fn is_of(&self, binding: &Arc<Binding>, work: Option<&Arc<WorkStatus>>, online: bool) -> bool {
        let same_work = match (&self.work, work) {
            (Some(known), Some(work)) => Arc::ptr_eq(known, work),
            (known, work) => known.is_none() && work.is_none(),
        };
        same_work && online == self.online && Arc::ptr_eq(&self.binding, binding)
    }
}

/// What a commit selects for a placement, frozen.
#[derive(Debug)]
pub struct Selected {
    /// The tree it was selected from; compared by identity.
    pub tree: Arc<Tree>,
    /// The placement generation it was selected for.
    pub generation: i64,
    /// The selection, or why there is none; shared by the commits that do not change it.
    pub outcome: Arc<Result<(Frozen, Arc<Payload>), String>>,
    /// Warnings about it.
    pub warnings: Vec<Warning>,
}

impl Selected {
    /// Tells whether this is the selection of these objects: the same positions of the same blobs, in the same order. Then the
    /// frozen result is still valid and nothing is hashed again.
    pub fn is_of(&self, manifests: &[Manifest]) -> bool {
        self.outcome.as_ref().as_ref().is_ok_and(|(frozen, _)| {
            let mut pairs = frozen.resources.iter().zip(manifests);
            // Those with variants are always frozen again: the payload of each depends on what the newest snapshot has.
            frozen.variants.is_none()
                && frozen.resources.len() == manifests.len()
                && pairs.all(|(known, new)| known.origin == new.origin && known.id == new.id)
        })
    }
}
