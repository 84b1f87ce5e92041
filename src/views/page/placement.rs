//! One placement: how it stands, its stages and clusters; and in tabs what changes, why it is where it is, and what happened.

use maud::{Markup, html};

use super::changes::Contents;
use super::events::{Listed, listed};
use super::git_host::host_link;
use super::needs::{asks, list, longest_first};
use super::query::ListQuery;
use super::standing::PlacementStanding;
use super::words::{act_link, commit_link, placement_path, said, subject, time, to_copy, toned};
use super::{Follows, HtmlPage, Section, Visit, changes, explain, grid, history, pictures};
use crate::fleet::Placed;
use crate::page::badge::{Tone, badge};
use crate::page::graph::stage_graph;
use crate::page::timeline::timeline;
use crate::simulation::{APPROVED_AFTER, SimulatedRun};
use decide::status::work::counted;
use model::explanation::Explanation;

/// What is shown of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// How it stands.
    #[default]
    Overview,
    /// What changes from one snapshot to another.
    Diff,
    /// Why it is on which clusters.
    Explain,
    /// What happened.
    Events,
    /// Its snapshots and what became of them.
    History,
}

impl Tab {
    const ALL: [Self; 5] = [Self::Overview, Self::Diff, Self::Explain, Self::Events, Self::History];

    /// Returns the tab of a word in an address; what is unknown is the first.
    pub fn named(word: &str) -> Self {
        Self::ALL.into_iter().find(|tab| tab.word() == word).unwrap_or_default()
    }

    fn word(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Diff => "diff",
            Self::Explain => "explain",
            Self::Events => "events",
            Self::History => "history",
        }
    }
}

/// What a tab shows, with what the records of the placement do not hold.
#[derive(Debug)]
pub enum TabContent<'a> {
    /// How it stands.
    Overview {
        /// The key of the label by which clusters are grouped; empty is by stages.
        group: &'a str,
        /// What the simulation predicts of the run that is shown.
        predicted: Option<&'a SimulatedRun>,
    },
    /// What changes between two snapshots; absent are the last that succeeded and the newest.
    Diff {
        /// From which one.
        from: Option<u64>,
        /// To which one.
        to: Option<u64>,
        /// The lines that differ, where they are asked for.
        contents: Option<Contents<'a>>,
    },
    /// Why it is on which clusters, or why that cannot be said.
    Explain(Result<&'a Explanation, &'a str>, &'a ListQuery),
    /// What happened.
    Events(&'a Listed),
    /// Its snapshots.
    History,
}

impl TabContent<'_> {
    fn tab(&self) -> Tab {
        match self {
            Self::Overview { .. } => Tab::Overview,
            Self::Diff { .. } => Tab::Diff,
            Self::Explain(..) => Tab::Explain,
            Self::Events(_) => Tab::Events,
            Self::History => Tab::History,
        }
    }
}

/// Returns the page of a placement.
pub fn page(visit: &Visit, placed: &Placed, content: &TabContent) -> HtmlPage {
    let key = &placed.records.record.key;
    let main = html! {
        (heading(visit, placed))
        (tabs(visit, placed, content.tab()))
        @match content {
            TabContent::Overview { group, predicted } => { (overview(visit, placed, group, *predicted)) }
            TabContent::Diff { from, to, contents } => { (changes::between(visit, placed, *from, *to, contents.as_ref())) }
            TabContent::Explain(explanation, query) => { (explain::table(visit, key, *explanation, query)) }
            TabContent::Events(found) => {
                h2 { "Events" }
                (listed(visit, found, &format!("{}?tab=events", placement_path(visit.site, key)), false))
            }
            TabContent::History => { (history::snapshots(visit, placed)) }
        }
    };
    // Lines are of snapshots, which stay as they are.
    let is_still = matches!(content, TabContent::Diff { contents: Some(_), .. });
    let follows = if is_still { Follows::Nothing } else { Follows::Placement(key.clone()) };
    HtmlPage { follows, ..HtmlPage::new(key.to_string(), Section::Fleet, main) }
}

fn heading(visit: &Visit, placed: &Placed) -> Markup {
    let record = &placed.records.record;
    let shown = placed.shown(visit.fleet, visit.now);
    let standing = PlacementStanding::of(&shown.row.state);
    let clusters = shown.row.clusters;
    let done = shown.row.up_to_date;
    let word = placed.records.word();
    html! {
        h1 { (record.key) " " (toned(standing.tone(), standing.words())) }
        p {
            span data-value=(format!("{done}/{clusters}")) { (done) " of " (counted(clusters, "cluster")) " up to date" }
            @if let Some(snapshot) = placed.records.snapshots.values().next_back() {
                "; snapshot " (snapshot.index) " of commit " (commit_link(visit.site, &snapshot.commit)) (subject(visit, &snapshot.commit))
                ", " (time(snapshot.created_at, visit.now)) " " (host_link(visit, &snapshot.commit))
            }
            @if record.removed { "; removed from git" }
        }
        @if let Some(pause) = &record.paused {
            p.warning {
                (toned(Tone::Waiting, &format!("paused by {}", pause.by))) " " (time(pause.at, visit.now))
                @if let Some(reason) = &pause.reason { ": " (said(reason)) }
            }
        }
        @if let Some(held) = &record.held {
            p.warning {
                (toned(Tone::Bad, &format!("snapshot {} is held", held.index))) " since " (time(held.since, visit.now)) ": " (said(&held.why))
            }
        }
        @for warning in &record.warnings { p.warning { (toned(Tone::Waiting, &warning.to_string())) } }
        @if let Some(error) = &record.error { p.warning { (toned(Tone::Bad, error)) } }
        p.acts {
            @if record.paused.is_some() { (act_link(visit, "resume", &[("target", &word)])) }
            @else { (act_link(visit, "pause", &[("target", &word)])) }
            (act_link(visit, "rollback", &[("target", &word)]))
            @if record.held.is_some() || standing == PlacementStanding::Failed { (act_link(visit, "retry", &[("target", &word)])) }
        }
    }
}

fn tabs(visit: &Visit, placed: &Placed, current: Tab) -> Markup {
    let path = placement_path(visit.site, &placed.records.record.key);
    html! {
        nav.tabs aria-label="Of this placement" {
            @for tab in Tab::ALL {
                @let href = if tab == Tab::Overview { path.clone() } else { format!("{path}?tab={}", tab.word()) };
                a href=(href) aria-current=[(tab == current).then_some("page")] { (tab.word()) } " "
            }
        }
    }
}

fn overview(visit: &Visit, placed: &Placed, group: &str, predicted: Option<&SimulatedRun>) -> Markup {
    let mut waiting = asks(visit, placed);
    longest_first(&mut waiting);
    let shown = placed.shown(visit.fleet, visit.now);
    let key = &placed.records.record.key;
    html! {
        @if !waiting.is_empty() {
            section #needs aria-labelledby="needs-title" { h2 #needs-title { "Needs you" } (list(visit, &waiting, false)) }
        } @else if PlacementStanding::of(&shown.row.state) != PlacementStanding::Done {
            p { (said(&shown.row.state.to_string())) }
        }
        section aria-labelledby="stages" {
            h2 #stages { "Stages" }
            @match pictures::stages(visit, placed) {
                Some(graph) => { div.scroll tabindex="0" role="region" aria-label="Stages, as a picture" { (stage_graph(&graph)) } }
                None => { p { "It has no snapshot yet." } }
            }
        }
        (grid::grid(visit, placed, group))
        @if let Some(times) = pictures::times(visit, placed, predicted) {
            section aria-labelledby="times" {
                h2 #times { "Times" }
                @if predicted.is_some() {
                    p {
                        "Beneath what happened: what " code { "gitfleet simulate" } " predicts from empty clusters, with each approval "
                        (APPROVED_AFTER.1) " after it is asked for."
                    }
                }
                div.scroll tabindex="0" role="region" aria-label="Times, as a picture" { (timeline(&times)) }
            }
        }
        details {
            summary { "Embed" }
            p { "A picture of the stages, and of the state in a word:" }
            ul.lines {
                li { (to_copy(&format!("{}/graph.svg", placement_path(visit.site, key)))) }
                li { (to_copy(&format!("{}/badge/{key}.svg", visit.site.base))) }
            }
        }
    }
}

/// Returns the name of the run whose times the page of a placement shows.
pub fn shown_run(visit: &Visit, placed: &Placed) -> Option<String> {
    pictures::shown_run(placed, &placed.progress(visit.fleet, visit.now)).map(|(run, _)| run.name.clone())
}

/// Returns the stages of a placement as a picture of its own; `None` where there is nothing to draw.
pub fn graph_picture(visit: &Visit, placed: &Placed) -> Option<Markup> {
    pictures::stages(visit, placed).map(|graph| stage_graph(&graph))
}

/// Returns the state of a placement as a picture of its own.
pub fn badge_picture(visit: &Visit, placed: &Placed) -> Markup {
    let shown = placed.shown(visit.fleet, visit.now);
    let standing = PlacementStanding::of(&shown.row.state);
    let words = format!("{}, {} of {}", standing.words(), shown.row.up_to_date, shown.row.clusters);
    badge(&placed.records.record.key.to_string(), &words, standing.tone())
}
