//! What became of one commit: where it is, who approved what, how long each stage took, and what is left.

use maud::{Markup, html};

use super::badge::Tone;
use super::git_host::host_link;
use super::history::{approvals, approved, run_words};
use super::words::{pager, placement_link, placement_path, said, subject, time, toned};
use super::{HtmlPage, Section, Visit};
use crate::comments::style::state_text;
use crate::fleet::{FleetView, Placed};
use crate::page::query::ListQuery;
use crate::table::age;
use decide::status::work::counted;
use model::id::CommitId;
use model::progress::{Progress, StageProgress};
use model::records::ResourceSnapshot;
use model::runs::RunRecord;

/// Characters of a commit that an address must have at least.
const PREFIX_CHARS_MIN: usize = 7;

/// Returns the commit that an address names, by its id or the beginning of it; of those that the fleet has to do with.
pub fn found(fleet: &FleetView, prefix: &str) -> Option<CommitId> {
    if prefix.len() < PREFIX_CHARS_MIN {
        return None;
    }
    let of_source = [&fleet.source.accepted, &fleet.source.seen, &fleet.source.held_rewrite].into_iter().flatten();
    let of_placements = fleet.placements.values().flat_map(|placed| placed.records.snapshots.values());
    let mut known = of_source.chain(of_placements.map(|snapshot| &snapshot.commit));
    known.find(|commit| commit.as_str().starts_with(prefix)).cloned()
}

/// What a placement did with a commit.
struct Moved<'a> {
    placed: &'a Placed,
    snapshot: &'a ResourceSnapshot,
}

/// Returns the page of a commit.
pub fn page(visit: &Visit, commit: &CommitId, query: &ListQuery) -> HtmlPage {
    let source = &visit.fleet.source;
    let moved = visit.fleet.placements.values().filter_map(|placed| {
        let snapshot = placed.records.snapshots.values().rev().find(|snapshot| snapshot.commit == *commit)?;
        Some(Moved { placed, snapshot })
    });
    let moved: Vec<Moved> = moved.collect();
    let count = moved.len();
    let (rows, page, pages) = query.part(moved);
    let here = format!("{}/commits/{commit}", visit.site.base);
    let main = html! {
        h1 { "Commit " code { (commit.short()) } (subject(visit, commit)) }
        p {
            code { (commit) } " " (host_link(visit, commit))
            @if source.accepted.as_ref() == Some(commit) {
                "; " (toned(Tone::Ok, "the accepted commit")) @if let Some(at) = source.accepted_at { " since " (time(at, visit.now)) }
            } @else if source.held_rewrite.as_ref() == Some(commit) {
                "; " (toned(Tone::Person, "held: the history was rewritten, and a person must accept it"))
            } @else if source.seen.as_ref() == Some(commit) && !source.refused.is_empty() {
                "; " (toned(Tone::Bad, "refused"))
            }
        }
        @if source.seen.as_ref() == Some(commit) && !source.refused.is_empty() {
            ul.errors { @for error in &source.refused { li { code { (said(&error.to_string())) } } } }
        }
        h2 { "Placements" }
        p { (counted(count, "placement")) " changed with it" }
        @if !rows.is_empty() { (table(visit, &rows)) }
        (pager(page, pages, |number| format!("{here}{}", query.with(|query| query.page = number).write())))
    };
    HtmlPage::new(format!("Commit {}", commit.short()), Section::None, main)
}

fn table(visit: &Visit, rows: &[Moved]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Placements that changed" {
            table {
                thead { tr {
                    th scope="col" { "placement" } th scope="col" { "state" } th scope="col" { "done" } th scope="col" { "stages" }
                    th scope="col" { "time" } th scope="col" { "approved by" }
                } }
                tbody { @for moved in rows { (row(visit, moved)) } }
            }
        }
    }
}

fn row(visit: &Visit, moved: &Moved) -> Markup {
    let progress = moved.placed.progress(visit.fleet, visit.now);
    let told = progress.iter().find(|told| told.commit.as_ref() == Some(&moved.snapshot.commit));
    let key = &moved.placed.records.record.key;
    let mut runs: Vec<&RunRecord> = moved.placed.records.runs.values().collect();
    runs.retain(|run| run.snapshot() == Some(moved.snapshot.index));
    html! {
        tr data-href=(placement_path(visit.site, key)) {
            th scope="row" { (placement_link(visit.site, key)) }
            td {
                @match told {
                    Some(told) => { (toned(Tone::of(&told.state), &state_text(&told.state))) @if !told.message.is_empty() { " " (said(&told.message)) } }
                    None => { (toned(Tone::Quiet, "earlier")) }
                }
            }
            td { @if let Some(told) = told { (told.done) "/" (told.total) } }
            td { ul { @for stage in told.iter().flat_map(|told| &told.stages) { li { (stage_words(visit, stage)) } } } }
            td { @if let Some(words) = told.and_then(|told| lead_time(visit, moved, told)) { (words) } @for run in &runs { " " (run_words(run, visit.now)) } }
            td { ul { @for (stage, approval) in runs.iter().flat_map(|run| approvals(run)) { li { (approved(visit, stage, approval)) } } } }
        }
    }
}

fn stage_words(visit: &Visit, stage: &StageProgress) -> Markup {
    let taken = stage.started_at.map(|from| age(from, stage.ended_at.unwrap_or(visit.now)));
    html! {
        (stage.name) " " (stage.done) "/" (stage.total) " " (toned(Tone::of(&stage.state), &state_text(&stage.state)))
        @if let Some(taken) = taken { ", " (taken) }
    }
}

/// Says how long it took from the snapshot to the end of its last stage.
fn lead_time(visit: &Visit, moved: &Moved, told: &Progress) -> Option<String> {
    let begin = moved.snapshot.created_at;
    if !told.state.is_final() {
        return Some(format!("{} so far", age(begin, visit.now)));
    }
    let end = told.stages.iter().filter_map(|stage| stage.ended_at).max()?;
    Some(age(begin, end))
}
