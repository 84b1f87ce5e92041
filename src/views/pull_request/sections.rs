//! The sections of the comment, in order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::blocks::{Block, Priority};
use super::objects::{object_blocks, override_blocks};
use super::table::table_block;
use super::{PullReport, Timeline, codes, errors, headline, is_changed, name};
use crate::comments::escape::{cell, code, code_cell, prose};
use decide::status::work::counted;
use model::api::stage_checks::Checks;
use model::api::staged::StageTaskType;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::plan::{GatePlan, OcmPlan, PlacementPlan, Resource, StagePlan};

/// Errors that are named; the rest is counted.
const ERRORS_MAX: usize = 30;
/// Names on one line; the rest is counted.
pub(super) const LISTED_MAX: usize = 12;
/// Clusters of one stage that are named.
const STAGE_CLUSTERS_MAX: usize = 6;
/// Kinds of deletions that are named for one placement.
const DELETIONS_MAX: usize = 10;

/// Returns the whole comment as blocks: what the merge stops, breaks and deletes first, then a row for each placement, then
/// details, each said once for all placements that it is true of.
pub(super) fn sections(report: &PullReport) -> Vec<Block> {
    let mut blocks = vec![Block::must(format!("### Plan: {}\n\n{}", headline(report), standing(report)))];
    blocks.extend(report.stops.iter().map(|stop| Block::must(format!("**{}.**\n\n", prose(stop)))));
    blocks.extend(error_blocks(report));
    if !report.plan.errors.is_empty() {
        return blocks;
    }
    blocks.extend(warning_blocks(report));
    let changed: Vec<&PlacementPlan> = report.plan.placements.iter().filter(|p| is_changed(p)).collect();
    // Before the other sections of placements: a comment that is too long loses its end.
    blocks.extend(changed.iter().filter_map(|placement| deletion_block(placement)));
    blocks.extend(changed.iter().filter_map(|placement| hand_over_block(placement)));
    blocks.extend(table_block(report, &changed));
    blocks.extend(cluster_blocks(&changed));
    blocks.extend(rollout_blocks(&changed));
    blocks.extend(object_blocks(&report.objects));
    blocks.extend(override_blocks(report));
    blocks.extend(report.plan.ocm_placements.iter().filter_map(ocm_block));
    // One that is renamed is told under its new name.
    let told = report.plan.placements.iter().filter(|placement| placement.renamed_to.is_none());
    let quiet = told.filter(|placement| !is_changed(placement)).count();
    if quiet > 0 && !changed.is_empty() {
        let verb = if quiet == 1 { "does" } else { "do" };
        blocks.push(Block::must(format!("{} more {verb} not change.\n\n", counted(quiet, "placement"))));
    }
    blocks.extend(report.notes.iter().map(|note| Block::of(Priority::Clusters, format!("- {}\n", prose(note)), "")));
    blocks.extend(timeline_block(&report.timeline));
    blocks
}

/// Describes which commits were compared, and the notes.
fn standing(report: &PullReport) -> String {
    let head = short(report.head.as_ref());
    let base = short(report.base.as_ref());
    let mut text = format!("Plan for {head} on top of {base} (the accepted commit).\n\n");
    if !report.conflicts.is_empty() {
        let files = codes(report.conflicts.iter().map(String::as_str), LISTED_MAX);
        writeln!(text, "Changed on both sides, and taken from the head here: {files}.\n").expect("a String takes it");
    }
    text
}

fn short(commit: Option<&CommitId>) -> String {
    commit.map_or_else(|| "the folder".to_owned(), |commit| code(commit.short()))
}

fn error_blocks(report: &PullReport) -> Vec<Block> {
    let mut all = errors(&report.plan);
    let first: Vec<String> = all.by_ref().take(ERRORS_MAX).collect();
    let more = all.count();
    if first.is_empty() {
        return Vec::new();
    }
    let what = if report.plan.errors.is_empty() {
        "**Errors.** What they concern keeps its last good state after the merge:\n\n"
    } else {
        "**Errors.** After the merge the commit would be refused whole, and the last good one would stay accepted:\n\n"
    };
    let mut blocks = vec![Block::must(what)];
    blocks.extend(first.iter().map(|error| Block::must(format!("- {}\n", prose(error)))));
    if more > 0 {
        blocks.push(Block::must(format!("- and {more} more\n")));
    }
    blocks.push(Block::must("\n"));
    blocks
}

/// Lists the warnings that the merge adds.
fn warning_blocks(report: &PullReport) -> Vec<Block> {
    let warnings = &report.plan.warnings;
    if warnings.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::must("**Warnings.**\n\n")];
    let first = warnings.iter().take(ERRORS_MAX);
    blocks.extend(first.map(|warning| Block::must(format!("- {}\n", prose(&warning.to_string())))));
    if let Some(more) = warnings.len().checked_sub(ERRORS_MAX).filter(|more| *more > 0) {
        blocks.push(Block::must(format!("- and {more} more\n")));
    }
    blocks.push(Block::must("\n"));
    blocks
}

/// Lists the deletions by cluster, and whether they need an approval.
fn deletion_block(placement: &PlacementPlan) -> Option<Block> {
    if placement.deletions.is_empty() && placement.deletion_guard.is_none() {
        return None;
    }
    let mut text = match &placement.deletion_guard {
        Some(reason) => {
            format!("**Deletions of {} need approval** after the merge: {}.\n\n", code(&name(placement)), prose(reason))
        }
        None => format!("**Deletions** of {}:\n\n", code(&name(placement))),
    };
    // The same deletions on many clusters are listed once.
    let mut groups: BTreeMap<&[Resource], Vec<&ClusterName>> = BTreeMap::new();
    for deletion in &placement.deletions {
        groups.entry(&deletion.resources).or_default().push(&deletion.cluster_name);
    }
    for (resources, clusters) in groups.iter().take(DELETIONS_MAX) {
        let ids: Vec<String> = resources.iter().map(|resource| resource.0.to_string()).collect();
        let ids = codes(ids.iter().map(String::as_str), LISTED_MAX);
        writeln!(text, "- {ids} from {}", named(clusters)).expect("a String takes it");
    }
    if let Some(more) = groups.len().checked_sub(DELETIONS_MAX).filter(|more| *more > 0) {
        let clusters: usize = groups.values().skip(DELETIONS_MAX).map(Vec::len).sum();
        writeln!(text, "- and {} from {}", counted(more, "other list"), counted(clusters, "cluster"))
            .expect("a String takes it");
    }
    text.push('\n');
    Some(Block::must(text))
}

/// Lists what another placement has after the merge: it is deleted nowhere.
fn hand_over_block(placement: &PlacementPlan) -> Option<Block> {
    let mut groups: BTreeMap<(&PlacementKey, &[Resource]), Vec<&ClusterName>> = BTreeMap::new();
    for handed in placement.handed() {
        groups.entry((&handed.to, &handed.resources)).or_default().push(&handed.cluster_name);
    }
    if groups.is_empty() {
        return None;
    }
    let mut text = format!("**Changes hands** of {}:\n\n", code(&name(placement)));
    for ((to, resources), clusters) in groups.iter().take(DELETIONS_MAX) {
        let ids: Vec<String> = resources.iter().map(|resource| resource.0.to_string()).collect();
        let ids = codes(ids.iter().map(String::as_str), LISTED_MAX);
        writeln!(text, "- to {}: {ids} on {}", code(&to.to_string()), named(clusters)).expect("a String takes it");
    }
    if let Some(more) = groups.len().checked_sub(DELETIONS_MAX).filter(|more| *more > 0) {
        writeln!(text, "- and {}", counted(more, "other list")).expect("a String takes it");
    }
    text.push('\n');
    Some(Block::must(text))
}

/// Returns a count of clusters and the first of their names.
pub(super) fn named(clusters: &[&ClusterName]) -> String {
    format!("{}: {}", counted(clusters.len(), "cluster"), codes(clusters.iter().map(|c| c.as_str()), LISTED_MAX))
}

/// Texts that are true of some placements: each with those placements, in their order.
struct Grouped<T>(Vec<(T, Vec<PlacementKey>)>);

impl<T: PartialEq> Grouped<T> {
    fn of(all: impl Iterator<Item = (T, PlacementKey)>) -> Self {
        let mut groups: Vec<(T, Vec<PlacementKey>)> = Vec::new();
        for (text, key) in all {
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, keys)) => keys.push(key),
                None => groups.push((text, vec![key])),
            }
        }
        Self(groups)
    }
}

/// Returns the first of some placements' names, and the count of the others.
fn placements(keys: &[PlacementKey]) -> String {
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    codes(names.iter().map(String::as_str), LISTED_MAX)
}

fn cluster_blocks(changed: &[&PlacementPlan]) -> Vec<Block> {
    let texts = changed.iter().filter_map(|placement| Some((cluster_texts(placement)?, placement.key())));
    let mut blocks = Vec::new();
    for ((text, short), keys) in Grouped::of(texts).0 {
        let head = format!("Clusters of {}:\n\n", placements(&keys));
        blocks.push(Block::of(Priority::Clusters, format!("{head}{text}\n"), format!("{head}{short}\n")));
    }
    blocks
}

/// Lists clusters that are added, dropped, or get other overrides, and why; and counts them. `None` if there are none.
fn cluster_texts(placement: &PlacementPlan) -> Option<(String, String)> {
    let changes = placement.changes.as_ref()?;
    let mut text = String::new();
    let mut short = String::new();
    let lost = placement.lost().cloned().collect();
    let moves = [("gains", &changes.clusters.gained), ("loses", &lost)];
    for (verb, clusters) in moves.into_iter().filter(|(_, clusters)| !clusters.is_empty()) {
        let mut reasons: BTreeMap<String, Vec<&ClusterName>> = BTreeMap::new();
        for cluster in clusters {
            reasons.entry(reason_of(placement, cluster)).or_default().push(cluster);
        }
        for (reason, clusters) in reasons {
            let why = if reason.is_empty() { String::new() } else { format!(" ({})", prose(&reason)) };
            writeln!(text, "- {verb} {}{why}", named(&clusters)).expect("a String takes it");
        }
        writeln!(short, "- {verb} {}", counted(clusters.len(), "cluster")).expect("a String takes it");
    }
    if !changes.overridden.is_empty() {
        let clusters: Vec<&ClusterName> = changes.overridden.iter().collect();
        writeln!(text, "- other overrides for {}", named(&clusters)).expect("a String takes it");
        writeln!(short, "- other overrides for {}", counted(clusters.len(), "cluster")).expect("a String takes it");
    }
    (!text.is_empty()).then_some((text, short))
}

/// Returns why a cluster is gained or lost; empty where the rest of the comment says it.
fn reason_of(placement: &PlacementPlan, cluster: &ClusterName) -> String {
    if let Some(decision) = placement.decisions.iter().find(|decision| decision.cluster_name == *cluster) {
        let reason = decision.reason.to_string();
        // People need no code before the sentence.
        return reason.strip_prefix("ClusterUnschedulable, ").map_or(reason.clone(), str::to_owned);
    }
    let is_dropped = placement.deletions.iter().any(|deletion| deletion.cluster_name == *cluster);
    if is_dropped && !placement.removed {
        // A cluster that is no longer picked has no decision that could say why.
        "not picked any more".to_owned()
    } else {
        // It left the fleet and keeps its objects, or the placement is removed, which its heading says.
        String::new()
    }
}

/// Describes the rollouts, each once for all placements that are rolled out that way over the same clusters.
fn rollout_blocks(changed: &[&PlacementPlan]) -> Vec<Block> {
    let staged = changed.iter().filter(|placement| !placement.removed);
    let texts = staged.map(|placement| (rollout_texts(placement), placement.key()));
    let mut blocks = Vec::new();
    for ((head, text, short), keys) in Grouped::of(texts).0 {
        let head = format!("Rollout of {} {head}", placements(&keys));
        blocks.push(if text.is_empty() {
            Block::must(format!("{head}.\n\n"))
        } else {
            Block::of(Priority::Stages, format!("{head}:\n\n{text}"), format!("{head}: {short}.\n\n"))
        });
    }
    blocks
}

/// Returns how a placement is rolled out: in words, as a table of stages, and as their names.
fn rollout_texts(placement: &PlacementPlan) -> (String, String, String) {
    let rollout = &placement.rollout;
    if rollout.stages.is_empty() {
        return (format!("by {}", rollout.type_.as_str()), String::new(), String::new());
    }
    let head = format!("by {}, stage after stage", code(rollout.strategy.as_deref().unwrap_or_default()));
    let mut text = "| Stage | Clusters | At once | Before it | After it |\n|---|---|---|---|---|\n".to_owned();
    for stage in &rollout.stages {
        writeln!(text, "{}", stage_row(stage)).expect("a String takes it");
    }
    text.push('\n');
    if !rollout.ignored.is_empty() {
        let names = codes(rollout.ignored.iter().map(ClusterName::as_str), STAGE_CLUSTERS_MAX);
        write!(text, "In no stage, left as they are: {names}.\n\n").expect("a String takes it");
    }
    let names = codes(rollout.stages.iter().map(|stage| stage.name.as_str()), rollout.stages.len());
    (head, text, names)
}

fn stage_row(stage: &StagePlan) -> String {
    let mut clusters = stage.clusters.len().to_string();
    if !stage.clusters.is_empty() {
        let names = stage.clusters.iter().take(STAGE_CLUSTERS_MAX).map(|name| code_cell(name.as_str()));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = if stage.clusters.len() > STAGE_CLUSTERS_MAX { ", …" } else { "" };
        write!(clusters, ": {names}{more}").expect("a String takes it");
    }
    let name = code_cell(&stage.name);
    let before = gates(&stage.before);
    let checks = stage.checks.iter().flat_map(check_summaries).map(|words| cell(&words));
    let after = [gates(&stage.after)].into_iter().filter(|gates| !gates.is_empty()).chain(checks);
    let after = after.collect::<Vec<_>>().join(", ");
    format!("| {name} | {clusters} | {} | {before} | {after} |", stage.max_concurrency)
}

fn check_summaries(checks: &Checks) -> impl Iterator<Item = String> {
    let health = checks.healthy_for.iter().map(|time| format!("available for {time}"));
    health.chain(checks.metrics.iter().map(|metric| format!("check {} {}", metric.name, metric.limits())))
}

fn gates(gates: &[GatePlan]) -> String {
    let words = gates.iter().map(|gate| match (gate.type_, &gate.approvers, &gate.wait_time) {
        (StageTaskType::Approval, Some(approvers), _) => format!("approval by {}", cell(approvers)),
        (StageTaskType::Approval, None, _) => "approval".to_owned(),
        (StageTaskType::TimedWait, _, Some(time)) => format!("wait {}", cell(time)),
        (StageTaskType::TimedWait, _, None) => "wait".to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn ocm_block(placement: &OcmPlan) -> Option<Block> {
    let changes = placement.changes.as_ref().filter(|changes| !changes.is_empty())?;
    let name = format!("Placement {}/{}", placement.namespace, placement.name);
    let mut text = format!("#### {}\n\n", code(&name));
    let mut short = text.clone();
    let moves = [("gains", &changes.gained), ("loses", &changes.lost)];
    for (verb, clusters) in moves.into_iter().filter(|(_, clusters)| !clusters.is_empty()) {
        let all: Vec<&ClusterName> = clusters.iter().collect();
        writeln!(text, "- {verb} {}", named(&all)).expect("a String takes it");
        writeln!(short, "- {verb} {}", counted(all.len(), "cluster")).expect("a String takes it");
    }
    if !placement.message.is_empty() {
        writeln!(text, "- {}", prose(&placement.message)).expect("a String takes it");
    }
    Some(Block::of(Priority::Clusters, text + "\n", short + "\n"))
}

fn timeline_block(timeline: &Timeline) -> Option<Block> {
    match timeline {
        Timeline::None | Timeline::Predicted { chart: None, .. } => None,
        Timeline::LeftOut(why) => Some(Block::of(Priority::Timeline, format!("\nNo timeline: {}.\n", prose(why)), "")),
        Timeline::Predicted { chart: Some(chart), approvals_after, .. } => {
            let caption = format!(
                "simulated, with each approval {} after it is asked for; how long objects take is assumed",
                prose(approvals_after)
            );
            // The chart contains only letters and digits: it cannot end the fence.
            let text = format!(
                "\n<details><summary>Timeline: {caption}</summary>\n\n```mermaid\n{}\n```\n\n</details>\n",
                chart.trim_end()
            );
            Some(Block::of(Priority::Timeline, text, "\n_The timeline is left out: it does not fit._\n"))
        }
    }
}
