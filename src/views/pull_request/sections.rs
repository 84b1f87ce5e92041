//! The sections of the comment, in order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::blocks::{Block, Priority};
use super::{ObjectChange, ObjectDiff, PullReport, Timeline, codes, errors, headline, is_changed, name};
use crate::api::stage_checks::Checks;
use crate::api::staged::StageTaskType;
use crate::model::id::ClusterName;
use crate::model::plan::{GatePlan, OcmPlan, PlacementPlan, Resource, StagePlan};
use crate::status::work::counted;
use crate::views::comments::escape::{cell, code, code_cell, fenced, prose};

/// Errors that are named; the rest is counted.
const ERRORS_MAX: usize = 30;
/// Names on one line; the rest is counted.
const LISTED_MAX: usize = 12;
/// Objects of one placement that are named.
const OBJECTS_MAX: usize = 100;
/// Clusters of one stage that are named.
const STAGE_CLUSTERS_MAX: usize = 6;
/// Groups of clusters whose rendered objects are shown, for one placement.
const OVERRIDES_MAX: usize = 10;
/// Kinds of deletions that are named for one placement.
const DELETIONS_MAX: usize = 10;

/// Returns the whole comment as blocks.
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
    for placement in &changed {
        placement_blocks(report, placement, &mut blocks);
    }
    blocks.extend(report.plan.ocm_placements.iter().filter_map(ocm_block));
    let quiet = report.plan.placements.len() - changed.len();
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
    let short = |commit: &Option<crate::model::id::CommitId>| {
        commit.as_ref().map_or_else(|| "the folder".to_owned(), |commit| code(commit.short()))
    };
    let mut text =
        format!("{} merged into {}, which is the accepted commit.\n\n", short(&report.head), short(&report.base));
    if !report.conflicts.is_empty() {
        let files = codes(report.conflicts.iter().map(String::as_str), LISTED_MAX);
        writeln!(text, "Changed on both sides, and taken from the head here: {files}.\n").expect("a String takes it");
    }
    text
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

/// Returns a count of clusters and the first of their names.
fn named(clusters: &[&ClusterName]) -> String {
    format!("{}: {}", counted(clusters.len(), "cluster"), codes(clusters.iter().map(|c| c.as_str()), LISTED_MAX))
}

fn placement_blocks(report: &PullReport, placement: &PlacementPlan, blocks: &mut Vec<Block>) {
    let key = placement.key();
    let standing = if placement.removed { " is removed" } else { "" };
    blocks.push(Block::must(format!("#### {}{standing}\n\n", code(&name(placement)))));
    blocks.extend(cluster_block(placement));
    if !placement.removed {
        blocks.extend(rollout_blocks(placement));
    }
    let objects: Vec<&ObjectDiff> = report.objects.iter().filter(|object| object.placement == key).collect();
    let count = |change| objects.iter().filter(|object| object.change == change).count();
    let counts = [ObjectChange::Added, ObjectChange::Changed, ObjectChange::Deleted]
        .map(|change| (count(change), change.name()))
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect::<Vec<_>>();
    if !counts.is_empty() {
        blocks.push(Block::must(format!("Objects: {}.\n\n", counts.join(", "))));
    }
    blocks.extend(objects.iter().take(OBJECTS_MAX).map(|object| object_block(object)));
    if let Some(more) = objects.len().checked_sub(OBJECTS_MAX).filter(|more| *more > 0) {
        blocks.push(Block::of(Priority::Diff, format!("and {more} more objects\n\n"), ""));
    }
    blocks.extend(override_blocks(report, &key));
}

/// Lists clusters that are added, dropped, or get other objects, and why.
fn cluster_block(placement: &PlacementPlan) -> Option<Block> {
    let changes = placement.changes.as_ref()?;
    let reason_of = |cluster: &ClusterName| {
        let decision = placement.decisions.iter().find(|decision| decision.cluster_name == *cluster);
        let is_dropped = || placement.deletions.iter().any(|deletion| deletion.cluster_name == *cluster);
        match decision {
            Some(decision) => decision.reason.to_string(),
            // A cluster that is no longer picked has no decision that could say why.
            None if !placement.removed && is_dropped() => "not picked any more".to_owned(),
            // It left the fleet and keeps its objects, or the placement is removed, which its heading says.
            None => String::new(),
        }
    };
    let mut text = String::new();
    let mut short = String::new();
    let moves = [("gains", &changes.clusters.gained), ("loses", &changes.clusters.lost)];
    for (verb, clusters) in moves.into_iter().filter(|(_, clusters)| !clusters.is_empty()) {
        let mut reasons: BTreeMap<String, Vec<&ClusterName>> = BTreeMap::new();
        for cluster in clusters {
            reasons.entry(reason_of(cluster)).or_default().push(cluster);
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
    if !changes.resources.is_empty() && !placement.works.is_empty() {
        let clusters: Vec<&ClusterName> = placement.works.iter().map(|work| &work.cluster_name).collect();
        writeln!(text, "- changes what it places on {}", named(&clusters)).expect("a String takes it");
        writeln!(short, "- changes what it places on {}", counted(clusters.len(), "cluster"))
            .expect("a String takes it");
    }
    let lines = |text: String| if text.is_empty() { text } else { text + "\n" };
    Some(Block::of(Priority::Clusters, lines(text), lines(short)))
}

/// Describes the rollout.
fn rollout_blocks(placement: &PlacementPlan) -> Vec<Block> {
    let rollout = &placement.rollout;
    if rollout.stages.is_empty() {
        return vec![Block::must(format!("Rollout: {}.\n\n", rollout.type_.as_str()))];
    }
    let strategy = rollout.strategy.as_deref().unwrap_or_default();
    let mut text = format!("Rollout by {}, stage after stage:\n\n", code(strategy));
    text.push_str("| Stage | Clusters | At once | Before it | After it |\n|---|---|---|---|---|\n");
    for stage in &rollout.stages {
        writeln!(text, "{}", stage_row(stage)).expect("a String takes it");
    }
    text.push('\n');
    if !rollout.ignored.is_empty() {
        let names = codes(rollout.ignored.iter().map(ClusterName::as_str), STAGE_CLUSTERS_MAX);
        write!(text, "In no stage, left as they are: {names}.\n\n").expect("a String takes it");
    }
    let names = codes(rollout.stages.iter().map(|stage| stage.name.as_str()), rollout.stages.len());
    let short = format!("Rollout by {}, stage after stage: {names}.\n\n", code(strategy));
    vec![Block::of(Priority::Stages, text, short)]
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
    let gate = |gate: &GatePlan| match (gate.type_, &gate.approvers, &gate.wait_time) {
        (StageTaskType::Approval, Some(approvers), _) => format!("approval by {}", cell(approvers)),
        (StageTaskType::Approval, None, _) => "approval".to_owned(),
        (StageTaskType::TimedWait, _, Some(time)) => format!("wait {}", cell(time)),
        (StageTaskType::TimedWait, _, None) => "wait".to_owned(),
    };
    gates.iter().map(gate).collect::<Vec<_>>().join(", ")
}

fn object_block(object: &ObjectDiff) -> Block {
    let (word, id) = (object.change.name(), object.id.to_string());
    let line = format!("{word} {}\n\n", code(&id));
    match &object.text {
        // Prose and no code span: in a `<summary>` hosts read HTML, where backticks have no meaning.
        Some(text) => Block::of(Priority::Diff, details(&format!("{word} {}", prose(&id)), text), line),
        None => Block::of(Priority::Diff, line.clone(), line),
    }
}

/// Returns a folded diff.
fn details(summary: &str, diff: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{}\n</details>\n\n", fenced("diff", diff))
}

/// Shows the objects of some clusters where they differ from those of most.
fn override_blocks(report: &PullReport, key: &crate::model::id::PlacementKey) -> Vec<Block> {
    let effects: Vec<_> = report.overrides.iter().filter(|effect| effect.placement == *key).collect();
    let mut blocks: Vec<Block> = effects
        .iter()
        .take(OVERRIDES_MAX)
        .map(|effect| {
            let clusters: Vec<&ClusterName> = effect.clusters.iter().collect();
            let line = format!("overrides make it otherwise for {}\n\n", named(&clusters));
            let names = effect.clusters.iter().take(LISTED_MAX).map(|c| prose(c.as_str())).collect::<Vec<_>>();
            let more = if effect.clusters.len() > LISTED_MAX { ", …" } else { "" };
            let summary = format!("overrides make it otherwise for {}{more}", names.join(", "));
            match &effect.text {
                Some(text) => Block::of(Priority::Override, details(&summary, text), line),
                None => Block::of(Priority::Override, line.clone(), line),
            }
        })
        .collect();
    if let Some(more) = effects.len().checked_sub(OVERRIDES_MAX).filter(|more| *more > 0) {
        let groups = counted(more, "more group");
        blocks.push(Block::of(Priority::Override, format!("and otherwise for {groups} of clusters\n\n"), ""));
    }
    blocks
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
        Timeline::None => None,
        Timeline::LeftOut(why) => Some(Block::of(Priority::Timeline, format!("\nNo timeline: {}.\n", prose(why)), "")),
        Timeline::Chart { chart, approvals_after } => {
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
