//! The effects of a pull request on the fleet, as a comment on it and as its commit status.

mod blocks;
mod objects;
mod sections;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::comments::escape::{code, shorten};
use blocks::fit;
use decide::status::work::counted;
use model::forge::StatusState;
use model::id::{ClusterName, CommitId, ObjectId, PlacementKey};
use model::manifest::InputError;
use model::plan::{PlacementPlan, Plan};

/// The length of a status description that every host accepts.
///
/// Source: GitHub, commit statuses.
const DESCRIPTION_CHARS_MAX: usize = 140;

/// The report about a pull request. Objects are masked already; other texts are unescaped.
#[derive(Clone, Debug, Default)]
pub struct PullReport {
    /// The accepted commit; absent for a folder.
    pub base: Option<CommitId>,
    /// The head commit of the pull request.
    pub head: Option<CommitId>,
    /// The plan of their merge, or why it is refused.
    pub plan: Plan,
    /// The running rollouts that the merge stops, a sentence each.
    pub stops: Vec<String>,
    /// Changed objects, by placement and identity.
    pub objects: Vec<ObjectDiff>,
    /// Effects of overrides that differ from the objects of most clusters.
    pub overrides: Vec<OverrideEffect>,
    /// The predicted duration.
    pub timeline: Timeline,
    /// Paths that both sides changed in different ways.
    pub conflicts: Vec<String>,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectChange {
    /// Only the head has it.
    Added,
    /// Both have it, with different content.
    Changed,
    /// Only the base has it.
    Deleted,
}

impl ObjectChange {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// One changed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDiff {
    /// The placement that selects it.
    pub placement: PlacementKey,
    /// The object.
    pub id: ObjectId,
    /// The kind of the change.
    pub change: ObjectChange,
    /// The diff of the masked objects; absent if it must not be shown.
    pub text: Option<String>,
}

/// What changes on some clusters, and otherwise than on most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideEffect {
    /// The placement.
    pub placement: PlacementKey,
    /// The clusters with this effect.
    pub clusters: Vec<ClusterName>,
    /// The diff of what they hold, or for new ones of what most get, of masked objects; absent if it must not be shown.
    pub text: Option<String>,
}

/// A prediction of the rollout's duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Timeline {
    /// There is nothing to predict.
    #[default]
    None,
    /// How long it takes if nothing goes wrong.
    Predicted {
        /// The time until the end, by placement, as text for users.
        takes: BTreeMap<PlacementKey, String>,
        /// The assumed time between a request and its approval, as text for users.
        approvals_after: String,
        /// A chart in mermaid's language; absent if it would show only waits.
        chart: Option<String>,
    },
    /// Why there is none, as text for users.
    LeftOut(String),
}

impl PullReport {
    /// Creates the report of a merge that has errors and would be refused.
    pub fn refused(base: Option<CommitId>, head: Option<CommitId>, errors: Vec<InputError>) -> Self {
        Self { plan: Plan::refused(head.clone(), errors), base, head, ..Self::default() }
    }
}

/// Characters of a comment: hosts accept 65,536, and the text around it needs room.
pub const COMMENT_CHARS_MAX: usize = 60_000;

/// Returns the comment, in at most `limit` characters: the least important parts are shortened first, and important ones stay.
/// It contains no command, and foreign text in it has no effect.
pub fn plan_comment(report: &PullReport, limit: usize) -> String {
    let cut = "_More is left out here, because it does not fit into a comment._\n";
    fit(sections::sections(report), limit, cut)
}

/// Returns the commit status of the head. Errors in the files are a failure with file and line; a rollout never changes the
/// status, so it may be required for the merge.
pub fn summary(report: &PullReport) -> (StatusState, String) {
    let mut errors = errors(&report.plan);
    let (state, text) = match errors.next() {
        None => (StatusState::Success, headline(report)),
        Some(first) => {
            let more = errors.count();
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            // The first error is truncated, so that the count after it stays.
            (StatusState::Failure, format!("{}{more}", shorten(&first, DESCRIPTION_CHARS_MAX - more.len())))
        }
    };
    (state, shorten(&text, DESCRIPTION_CHARS_MAX))
}

/// Returns all errors, with file and line if known; escape them before printing.
fn errors(plan: &Plan) -> impl Iterator<Item = String> {
    let files = plan.errors.iter().map(ToString::to_string);
    let placements = plan.placements.iter().flat_map(|placement| {
        let at = match (&placement.path, placement.line) {
            (Some(path), Some(line)) => format!("{path}:{line}: "),
            _ => String::new(),
        };
        let name = name(placement);
        placement.errors().map(move |error| format!("{at}{name}: {error}"))
    });
    let ocm = plan.ocm_placements.iter().flat_map(|placement| placement.errors.iter().map(ToString::to_string));
    files.chain(placements).chain(ocm)
}

/// Returns the most important numbers in a line.
fn headline(report: &PullReport) -> String {
    let plan = &report.plan;
    if !plan.errors.is_empty() {
        return format!("refused: {}", counted(plan.errors.len(), "error"));
    }
    let changed: Vec<&PlacementPlan> = plan.placements.iter().filter(|placement| is_changed(placement)).collect();
    let moved = plan.ocm_placements.iter().filter(|p| p.changes.as_ref().is_some_and(|c| !c.is_empty())).count();
    let errors = errors(plan).count();
    let mut parts = Vec::new();
    match changed.len() + moved {
        0 if errors == 0 => return "nothing changes on the fleet".to_owned(),
        0 => {}
        1 => parts.push("1 placement changes".to_owned()),
        many => parts.push(format!("{many} placements change")),
    }
    let clusters: BTreeSet<&ClusterName> = changed.iter().flat_map(|placement| concerned(placement)).collect();
    if !clusters.is_empty() {
        parts.push(counted(clusters.len(), "cluster"));
    }
    let guarded = changed.iter().filter(|placement| placement.deletion_guard.is_some());
    let gone = guarded.clone().flat_map(|placement| &placement.deletions);
    let objects: usize = gone.clone().map(|deletion| deletion.resources.len()).sum();
    let from: BTreeSet<&ClusterName> = gone.map(|deletion| &deletion.cluster_name).collect();
    let verb = if objects == 1 { "needs" } else { "need" };
    match guarded.count() {
        0 => {}
        // Clusters that leave the fleet keep their objects, and still need an approval.
        held if objects == 0 => parts.push(format!("{} to approve", counted(held, "departure"))),
        _ => parts.push(format!(
            "{} on {} {verb} approval",
            counted(objects, "deletion"),
            counted(from.len(), "cluster")
        )),
    }
    if errors > 0 {
        parts.push(counted(errors, "error"));
    }
    parts.join(", ")
}

/// Tells whether the merge changes a placement.
pub fn is_changed(placement: &PlacementPlan) -> bool {
    placement.removed && placement.renamed_to.is_none()
        || placement.renamed_from.is_some()
        || !placement.deletions.is_empty()
        || placement.handed().next().is_some()
        || placement.changes.as_ref().is_some_and(|changes| !changes.is_empty())
}

/// Returns the clusters with changes.
pub fn concerned(placement: &PlacementPlan) -> BTreeSet<&ClusterName> {
    let mut clusters: BTreeSet<&ClusterName> = placement.deletions.iter().map(|d| &d.cluster_name).collect();
    let Some(changes) = &placement.changes else { return clusters };
    clusters.extend(changes.clusters.gained.iter().chain(&changes.clusters.lost).chain(&changes.overridden));
    // A changed snapshot reaches every cluster, changed overrides only their clusters.
    if !changes.resources.is_empty() {
        clusters.extend(placement.works.iter().map(|work| &work.cluster_name));
    }
    clusters
}

/// Returns a placement's kind and name; escape it before printing.
fn name(placement: &PlacementPlan) -> String {
    format!("{} {}", placement.kind, placement.key())
}

/// Returns a list of the first names as code, and the count of the others.
fn codes<'a>(names: impl ExactSizeIterator<Item = &'a str>, max: usize) -> String {
    let more = names.len().saturating_sub(max);
    let mut parts: Vec<String> = names.take(max).map(code).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(", ")
}
