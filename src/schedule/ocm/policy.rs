//! Prepares a placement's spec: checks it like the scheduler, compiles expressions, computes weights.

use std::collections::BTreeSet;

use super::Notice;
use super::predicate;
use super::prioritize::{self, Prioritizer};
use crate::cel::Expressions;
use model::api::check::FieldError;
use model::api::ocm::OcmPlacementSpec;

/// A placement's spec, prepared for any number of evaluations.
#[derive(Clone, Debug)]
pub struct OcmPolicy {
    spec: OcmPlacementSpec,
    /// One per predicate, or the first error in any of them.
    pub(super) expressions: Result<Vec<Expressions>, Notice>,
    /// The prioritizers in use, or their error.
    pub(super) prioritizers: Result<Vec<Prioritizer>, Notice>,
}

impl OcmPolicy {
    /// Prepares a spec. Errors are kept and reported at the evaluation: an unreadable predicate has no effect while there are
    /// no clusters.
    pub fn new(spec: OcmPlacementSpec) -> Self {
        let expressions = predicate::prepare(&spec);
        let prioritizers = prioritize::prioritizers(&spec.prioritizer_policy);
        Self { spec, expressions, prioritizers }
    }

    /// Returns the spec as written.
    pub fn spec(&self) -> &OcmPlacementSpec {
        &self.spec
    }

    /// Returns everything in the files that makes the placement misconfigured, with paths from the object's root. An API server
    /// would accept it, so none of it refuses a commit: the placement gets its condition, and `validate` can report it.
    pub fn complaints(&self) -> Vec<FieldError> {
        let mut complaints = predicate::complaints(&self.spec);
        complaints.extend(super::taint::complaints(&self.spec));
        complaints.extend(super::groups::complaints(&self.spec));
        if let Err(notice) = &self.prioritizers {
            complaints.push(FieldError::new("spec.prioritizerPolicy", notice.message.clone()));
        }
        complaints
    }

    /// Returns the names of AddOnPlacementScores for its prioritizers.
    pub(super) fn score_names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.prioritizers.iter().flatten().filter_map(|prioritizer| match &prioritizer.kind {
            prioritize::PrioritizerKind::AddOn(coordinate) => {
                Some((coordinate.resource_name.as_str(), coordinate.score_name.as_str()))
            }
            _ => None,
        })
    }

    /// Returns the names of AddOnPlacementScores in its expressions; `None` if one of them is not a literal.
    pub(super) fn score_names_of_expressions(&self) -> Option<BTreeSet<&str>> {
        let mut names = BTreeSet::new();
        for expressions in self.expressions.iter().flatten() {
            names.extend(expressions.score_names()?.iter().map(String::as_str));
        }
        Some(names)
    }

    /// Tells whether an expression reads whole clusters.
    pub(super) fn reads_objects(&self) -> bool {
        self.expressions.iter().flatten().any(|expressions| !expressions.is_empty())
    }
}
