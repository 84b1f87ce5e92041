//! Placements by stages: a row each, and a cell for each stage; one wide cell where there are none.

use std::sync::Arc;

use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::groups::{Heading, MatrixGroup};
use super::standing::PlacementStanding;
use super::words::{commit_link, encoded, placement_link, placement_path, said, time, toned};
use crate::comments::style::state_text;
use crate::fleet::{Placed, Shown};
use decide::status::work::counted;
use model::progress::{Progress, StageProgress};

/// Stages that have a column; where the placements of a page have more, each row lists its own in one wide cell.
const COLUMNS_MAX: usize = 8;

/// A row.
pub(super) struct MatrixRow<'a> {
    /// The placement.
    pub(super) placed: &'a Placed,
    /// What is said of it.
    pub(super) shown: Arc<Shown>,
    /// Its state.
    pub(super) standing: PlacementStanding,
}

/// Draws the table. `open` returns the address of a group alone.
pub(super) fn matrix(visit: &Visit, groups: &[MatrixGroup], open: impl Fn(&Heading) -> String) -> Markup {
    let mut progress: Vec<Vec<Arc<[Progress]>>> = Vec::new();
    for group in groups {
        progress.push(group.rows.iter().map(|row| row.placed.progress(visit.fleet, visit.now)).collect());
    }
    let columns = columns(progress.iter().flatten().map(|ways| stages_of(ways)));
    let width = columns.as_ref().map_or(1, Vec::len).max(1);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Placements by stages" {
            table.matrix {
                caption class="visually-hidden" { "Placements by stages: done of all clusters" }
                thead { tr {
                    th scope="col" { "placement" }
                    th scope="col" { "state" }
                    @match &columns {
                        Some(columns) if !columns.is_empty() => @for name in columns { th scope="col" { (name) } },
                        _ => th scope="col" { "clusters" },
                    }
                    th scope="col" { "commit" }
                    th scope="col" { "age" }
                } }
                @for (group, progress) in groups.iter().zip(&progress) {
                    tbody {
                        @if let Some(heading) = &group.heading { (heading_row(heading, width, &open(heading))) }
                        @for (row, ways) in group.rows.iter().zip(progress) { (matrix_row(visit, row, stages_of(ways), columns.as_deref(), width)) }
                    }
                }
            }
        }
    }
}

fn stages_of(ways: &[Progress]) -> &[StageProgress] {
    ways.first().map_or(&[], |way| &way.stages)
}

/// Returns the names of the stages in the order in which rollouts pass them; `None` where they are too many.
fn columns<'a>(rows: impl Iterator<Item = &'a [StageProgress]>) -> Option<Vec<&'a str>> {
    let mut columns: Vec<&str> = Vec::new();
    for stages in rows {
        let mut place = 0;
        for stage in stages {
            if let Some(found) = columns.iter().position(|name| *name == stage.name) {
                place = found + 1;
            } else {
                columns.insert(place, &stage.name);
                place += 1;
            }
        }
    }
    (columns.len() <= COLUMNS_MAX).then_some(columns)
}

/// Says how a group stands.
fn heading_row(heading: &Heading, width: usize, open: &str) -> Markup {
    let placements = heading.states.iter().map(|(_, count)| count).sum();
    html! {
        tr.group id=(format!("group-{}", encoded(&heading.name))) data-href=[heading.is_closed.then_some(open)] {
            th scope="rowgroup" colspan=(width + 4) {
                a href=(open) { (said(&heading.name)) } ": " (counted(placements, "placement"))
                @for (standing, count) in &heading.states {
                    @let words = format!("{count} {}", standing.words());
                    ", " (toned(standing.tone(), if heading.is_closed { "all up to date" } else { &words }))
                }
            }
        }
    }
}

fn matrix_row(
    visit: &Visit,
    row: &MatrixRow,
    stages: &[StageProgress],
    columns: Option<&[&str]>,
    width: usize,
) -> Markup {
    let key = &row.placed.records.record.key;
    let of = &row.shown.row;
    let standing = row.standing;
    let tone = standing.tone();
    let snapshot = row.placed.records.snapshots.values().next_back();
    html! {
        tr id=(format!("placement-{}", key.to_string().replace('/', "."))) data-href=(placement_path(visit.site, key)) {
            th scope="row" { (placement_link(visit.site, key)) @if of.removed { " (removed)" } }
            td class=(tone.class()) data-value=(standing.words()) {
                span.sign aria-hidden="true" { (tone.sign()) } " " (standing.words())
            }
            @match columns {
                Some(columns) if !stages.is_empty() => @for name in columns {
                    @match stages.iter().find(|stage| stage.name == *name) {
                        Some(stage) => (stage_cell(stage)),
                        None => td.none { span class="visually-hidden" { "no such stage" } },
                    }
                },
                _ if stages.is_empty() => td.wide colspan=(width) class=(tone.class()) data-value=(format!("{}/{}", of.up_to_date, of.clusters)) {
                    progress max=(of.clusters.max(1)) value=(of.up_to_date) aria-hidden="true" {}
                    " " (of.up_to_date) "/" (of.clusters)
                },
                _ => td.wide colspan=(width) { ul.stages { @for stage in stages { li class=(Tone::of(&stage.state).class()) { (stage.name) " " (counts(stage)) } } } },
            }
            td { @if let Some(commit) = &of.commit { (commit_link(visit.site, commit)) } }
            td { @if let Some(snapshot) = snapshot { (time(snapshot.created_at, visit.now)) } }
        }
    }
}

fn stage_cell(stage: &StageProgress) -> Markup {
    let tone = Tone::of(&stage.state);
    html! { td class=(tone.class()) data-value=(format!("{} {}", tone.class(), stage.done)) { (counts(stage)) } }
}

fn counts(stage: &StageProgress) -> Markup {
    let words = state_text(&stage.state);
    html! {
        span.sign aria-hidden="true" title=(words) { (Tone::of(&stage.state).sign()) } " "
        (stage.done) "/" (stage.total) span class="visually-hidden" { " " (words) }
    }
}
