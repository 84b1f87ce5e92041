//! The table of placements: a row for each that changes.

use std::fmt::Write as _;

use super::blocks::Block;
use super::{ObjectChange, ObjectDiff, PullReport, Timeline, concerned};
use crate::comments::escape::{cell, code_cell, prose};
use decide::status::work::counted;
use model::api::staged::StageTaskType;
use model::plan::{GatePlan, PlacementPlan};

/// Placements that have a row; the rest is counted.
const ROWS_MAX: usize = 50;

/// Returns the table; `None` if no placement changes.
pub(super) fn table_block(report: &PullReport, changed: &[&PlacementPlan]) -> Option<Block> {
    if changed.is_empty() {
        return None;
    }
    // A column that is empty in every row is left out.
    let predicted = match &report.timeline {
        Timeline::Predicted { takes, approvals_after, .. } if !takes.is_empty() => Some((takes, approvals_after)),
        _ => None,
    };
    let (head, rule) = if predicted.is_some() { (" takes |", "---|") } else { ("", "") };
    let mut text = format!("| placement | clusters | objects | gates |{head}\n|---|---|---|---|{rule}\n");
    for placement in changed.iter().take(ROWS_MAX) {
        let takes = predicted.map(|(takes, _)| takes.get(&placement.key()).map_or("", String::as_str));
        let takes = takes.map(|takes| format!(" {} |", cell(takes))).unwrap_or_default();
        let name = code_cell(&placement.key().to_string());
        let becomes = match (&placement.renamed_from, &placement.renamed_to) {
            (Some(from), _) => format!(" was {}", code_cell(&from.to_string())),
            (_, Some(to)) => format!(" is {} now", code_cell(&to.to_string())),
            _ if placement.removed => " is removed".to_owned(),
            _ => String::new(),
        };
        let clusters = clusters(placement);
        let objects = objects(report, placement);
        let gates = gates(placement);
        writeln!(text, "| {name}{becomes} | {clusters} | {objects} | {gates} |{takes}").expect("a String takes it");
    }
    if let Some(more) = changed.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        write!(text, "\nand {} more\n", counted(more, "placement")).expect("a String takes it");
    }
    text.push('\n');
    if let Some((_, approvals_after)) = predicted {
        let after = prose(approvals_after);
        write!(
            text,
            "_Takes: simulated, if nothing goes wrong and each approval comes {after} after it is asked for._\n\n"
        )
        .expect("a String takes it");
    }
    Some(Block::must(text))
}

/// Counts the clusters with changes, and those gained and lost.
fn clusters(placement: &PlacementPlan) -> String {
    let moved = placement.changes.as_ref().map(|changes| (changes.clusters.gained.len(), placement.lost().count()));
    let (gained, lost) = moved.unwrap_or_default();
    let parts = signed(&[('+', gained), ('−', lost)]);
    let count = concerned(placement).len();
    if parts.is_empty() { count.to_string() } else { format!("{count} ({parts})") }
}

/// Counts the objects that are added, changed and deleted in what is placed.
fn objects(report: &PullReport, placement: &PlacementPlan) -> String {
    let key = placement.key();
    let own: Vec<&ObjectDiff> = report.objects.iter().filter(|object| object.placement == key).collect();
    let kinds = [('+', ObjectChange::Added), ('~', ObjectChange::Changed), ('−', ObjectChange::Deleted)];
    signed(&kinds.map(|(sign, change)| (sign, own.iter().filter(|object| object.change == change).count())))
}

/// Joins counts with their signs; zeros are left out.
fn signed(counts: &[(char, usize)]) -> String {
    let parts = counts.iter().filter(|(_, count)| *count > 0).map(|(sign, count)| format!("{sign}{count}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// Counts what a rollout waits for.
fn gates(placement: &PlacementPlan) -> String {
    let stages = &placement.rollout.stages;
    let gates: Vec<&GatePlan> = stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after)).collect();
    let approvals = gates.iter().filter(|gate| gate.type_ == StageTaskType::Approval).count();
    let waits = gates.iter().filter(|gate| gate.type_ == StageTaskType::TimedWait).count();
    let checks = stages.iter().filter(|stage| stage.checks.is_some()).count();
    let counts = [
        (usize::from(placement.deletion_guard.is_some()), "approval of deletions"),
        (approvals, "approval"),
        (waits, "wait"),
        (checks, "check"),
    ];
    let parts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what));
    parts.collect::<Vec<_>>().join(", ")
}
