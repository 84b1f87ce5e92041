//! The section of the file that no commit can lower.

use schemars::JsonSchema;
use serde::Deserialize;

use super::complaint;
use model::manifest::InputError;
use model::policy::Floor;

/// What is demanded of every commit: nothing in the repository lowers it, it can only ask for more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// Whether placements may switch their deletion guard off.
    pub deletion_guard: GuardFloor,
    /// How many people must approve at every gate, at least: the larger of this and `forge.approvals.required` counts.
    #[schemars(range(min = 1))]
    pub min_approvals: Option<u32>,
    /// Names of stages, with `*` for any text, before which a person must approve, whether the strategy says so or not. A commit can
    /// rename a stage: `clusters` cannot be evaded so.
    pub stages: Vec<String>,
    /// Names of clusters, with `*` for any text: a person must approve every stage that holds one of them, and a placement
    /// that is not rolled out by stages is not moved there.
    pub clusters: Vec<String>,
    /// How approvals are given.
    pub approvals: ApprovalPolicy,
}

/// Whether placements may switch their deletion guard off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GuardFloor {
    /// As the annotation `gitfleet.io/deletion-guard` says.
    #[default]
    AsAnnotated,
    /// No: the annotation has no effect.
    Required,
}

/// How approvals are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApprovalPolicy {
    /// Whether an approval by command line or API must name the digest of what the person saw.
    pub digest: DigestPolicy,
}

/// Whether an approval must name a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DigestPolicy {
    /// Without one it is for what waits at that moment.
    #[default]
    Optional,
    /// Without one it is refused. On a terminal the digest is shown, and named by whoever confirms it.
    Required,
}

impl Policy {
    /// Returns what decisions read.
    pub fn floor(&self) -> Floor {
        Floor {
            deletion_guard: self.deletion_guard == GuardFloor::Required,
            stages: self.stages.clone(),
            clusters: self.clusters.clone(),
            digest: self.approvals.digest == DigestPolicy::Required,
        }
    }

    pub(super) fn problems(&self, errors: &mut Vec<InputError>) {
        for (field, patterns) in [("stages", &self.stages), ("clusters", &self.clusters)] {
            for (position, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| pattern.is_empty()) {
                let message = format!("{pattern:?} fits nothing; write a name, or * for all");
                errors.push(complaint(&format!("policy.{field}[{position}]"), message));
            }
        }
    }
}
