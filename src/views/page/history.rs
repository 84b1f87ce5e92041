//! The snapshots of a placement, and what became of each: runs, who approved what, how long it took.

use jiff::Timestamp;
use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::git_host::host_link;
use super::words::{act_link, commit_link, placement_path, said, subject, time, toned};
use crate::comments::style::state_text;
use crate::fleet::Placed;
use crate::table::age;
use decide::status::work::counted;
use model::progress::Progress;
use model::records::ResourceSnapshot;
use model::runs::{Approval, RunPhase, RunRecord};

/// Snapshots that are listed, the newest first; the rest is counted.
const SNAPSHOTS_MAX: usize = 50;

/// Lists the snapshots.
pub(super) fn snapshots(visit: &Visit, placed: &Placed) -> Markup {
    let progress = placed.progress(visit.fleet, visit.now);
    let all = &placed.records.snapshots;
    html! {
        h2 { "History" }
        div.scroll tabindex="0" role="region" aria-label="Snapshots" {
            table {
                thead { tr {
                    th scope="col" { "snapshot" } th scope="col" { "commit" } th scope="col" { "age" } th scope="col" { "result" }
                    th scope="col" { "runs" } th scope="col" { "approved by" } th scope="col" { "compare" }
                } }
                tbody {
                    @for snapshot in all.values().rev().take(SNAPSHOTS_MAX) { (row(visit, placed, &progress, snapshot)) }
                }
            }
        }
        @if all.len() > SNAPSHOTS_MAX { p { "and " (counted(all.len() - SNAPSHOTS_MAX, "more snapshot")) } }
        @if all.is_empty() { p { "It has no snapshot yet." } }
    }
}

fn row(visit: &Visit, placed: &Placed, progress: &[Progress], snapshot: &ResourceSnapshot) -> Markup {
    let told = progress.iter().find(|told| told.snapshot == Some(snapshot.index));
    let mut runs: Vec<&RunRecord> =
        placed.records.runs.values().filter(|run| run.snapshot() == Some(snapshot.index)).collect();
    runs.sort_by_key(|run| run.sequence);
    let before = placed.records.snapshots.range(..snapshot.index).next_back();
    let path = placement_path(visit.site, &placed.records.record.key);
    let word = placed.records.word();
    let index = snapshot.index.to_string();
    html! {
        tr {
            th scope="row" { (snapshot.index) }
            td { (commit_link(visit.site, &snapshot.commit)) (subject(visit, &snapshot.commit)) " " (host_link(visit, &snapshot.commit)) }
            td { (time(snapshot.created_at, visit.now)) }
            td {
                @match told {
                    Some(told) => { (toned(Tone::of(&told.state), &state_text(&told.state))) @if !told.message.is_empty() { " " (said(&told.message)) } }
                    None if placed.records.record.last_succeeded == Some(snapshot.index) => { (toned(Tone::Ok, "done")) }
                    None => { (toned(Tone::Quiet, "earlier")) }
                }
            }
            td { ul { @for run in &runs { li { (run_words(run, visit.now)) } } } }
            td { ul { @for (stage, approval) in runs.iter().flat_map(|run| approvals(run)) { li { (approved(visit, stage, approval)) } } } }
            td {
                @if let Some((from, _)) = before { a href=(format!("{path}?tab=diff&from={from}&to={index}")) { "with " (from) } " " }
                @if placed.records.snapshots.keys().next_back() != Some(&snapshot.index) {
                    (act_link(visit, "rollback", &[("target", &word), ("to", &index)]))
                }
            }
        }
    }
}

/// Returns who approved at which stage.
pub(super) fn approvals(run: &RunRecord) -> Vec<(&str, &Approval)> {
    let tasks =
        run.stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after).map(move |task| (stage, task)));
    tasks.flat_map(|(stage, task)| task.approvals.iter().map(|approval| (stage.name.as_str(), approval))).collect()
}

/// Says who approved a stage, when, and exactly what.
pub(super) fn approved(visit: &Visit, stage: &str, approval: &Approval) -> Markup {
    html! {
        (said(&approval.by.name)) ": stage " (stage) ", digest " code title=(approval.digest) { (approval.digest.short()) } ", " (time(approval.at, visit.now))
        @if let Some(message) = &approval.message { ", \"" (said(message)) "\"" }
    }
}

/// Says how a run ended, or that it lasts, and how long it took.
pub(super) fn run_words(run: &RunRecord, now: Timestamp) -> Markup {
    let begun = run.frozen.as_ref().map(|frozen| frozen.at);
    let end = if run.phase.is_final() { run.since } else { now };
    let (tone, words) = match run.phase {
        RunPhase::Succeeded => (Tone::Ok, "done"),
        RunPhase::Pending | RunPhase::Initialized => (Tone::Quiet, "not begun"),
        RunPhase::Updating => (Tone::Moving, "on the way"),
        RunPhase::Waiting => (Tone::Waiting, "waiting"),
        RunPhase::Stopping | RunPhase::Stopped => (Tone::Waiting, "stopped"),
        RunPhase::Halted => (Tone::Bad, "halted"),
        RunPhase::Failed => (Tone::Bad, "failed"),
        RunPhase::Rejected => (Tone::Bad, "rejected"),
        RunPhase::Superseded => (Tone::Quiet, "superseded"),
        RunPhase::RolledBack => (Tone::Quiet, "rolled back"),
    };
    html! {
        (run.name) " " (toned(tone, words))
        @if let Some(begun) = begun { ", " (age(begun, end)) }
    }
}
