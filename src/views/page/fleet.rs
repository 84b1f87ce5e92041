//! The first page: how the fleet stands, what needs a person, and every placement by its stages.

use maud::{Markup, html};

use super::badge::Tone;
use super::git_host::host_link;
use super::groups::{Grouping, groups};
use super::matrix::{MatrixRow, matrix};
use super::needs::{Ask, asks, list, longest_first};
use super::query::{ListQuery, Sort};
use super::standing::{ClusterStanding, PlacementStanding};
use super::words::{act_link, commit_link, count_link, pager, said, subject, time, to_copy, toned};
use super::{HtmlPage, Section, Visit};
use decide::status::fleet::{fleet_warnings, source_failure};
use decide::status::work::counted;
use model::records::{SourceRecord, StoreRecord};

/// Errors of a refused commit that are shown.
const ERRORS_MAX: usize = 5;

/// Returns the page.
pub fn page(visit: &Visit, query: &ListQuery) -> HtmlPage {
    let mut rows: Vec<MatrixRow> = visit
        .fleet
        .shown(visit.now)
        .map(|(placed, shown)| {
            let standing = PlacementStanding::of(&shown.row.state);
            MatrixRow { placed, shown, standing }
        })
        .collect();
    let mut waiting: Vec<Ask> = rows.iter().flat_map(|row| asks(visit, row.placed)).collect();
    longest_first(&mut waiting);
    let counts =
        PlacementStanding::ALL.map(|standing| (standing, rows.iter().filter(|row| row.standing == standing).count()));
    let all = rows.len();
    let groupings: Vec<Grouping> =
        Grouping::ALL.into_iter().filter(|by| by.parts(&rows) || Grouping::of(query) == Some(*by)).collect();
    let sought = query.q.to_lowercase();
    rows.retain(|row| {
        let is_within = Grouping::of(query).is_none_or(|by| query.within == by.name_of(row));
        query.takes(row.standing)
            && row.placed.records.record.key.to_string().to_lowercase().contains(&sought)
            && (query.within.is_empty() || is_within)
    });
    // The fleet has them by name already.
    match query.sort {
        Sort::Trouble => rows.sort_by_key(|row| row.standing),
        Sort::Age => rows.sort_by_key(|row| {
            let newest = row.placed.records.snapshots.values().next_back();
            std::cmp::Reverse(newest.map(|snapshot| snapshot.created_at))
        }),
        Sort::Name => {}
    }
    let found = rows.len();
    let (groups, page, pages) = groups(query, rows);
    let path = format!("{}/", visit.site.base);
    let main = html! {
        h1 class="visually-hidden" { "Fleet" }
        (source(visit))
        (counted_states(visit, &counts, all))
        (needs_you(visit, &waiting))
        section aria-labelledby="placements" {
            h2 #placements { "Placements" }
            (filters(visit, query, &groupings))
            p.found role="status" { (counted(found, "placement")) @if found < all { " of " (all) } }
            @if found > 0 { (matrix(visit, &groups, |heading| alone(query, &heading.name).address(&path))) }
            (pager(page, pages, |number| query.with(|query| query.page = number).address(&path)))
        }
    };
    HtmlPage { searched: query.q.clone(), ..HtmlPage::new("Fleet", Section::Fleet, main) }
}

/// Returns the query for one group, or for all where one is asked for already.
fn alone(query: &ListQuery, group: &str) -> ListQuery {
    query.with(|query| {
        if query.within.is_empty() {
            group.clone_into(&mut query.within);
        } else {
            query.within.clear();
        }
    })
}

/// Says which commit is accepted, and what is wrong with the newest one.
fn source(visit: &Visit) -> Markup {
    let source = &visit.fleet.source;
    html! {
        section.source aria-label="Source" {
            p {
                @match &source.accepted {
                    Some(commit) => {
                        "accepted commit " (commit_link(visit.site, commit)) (subject(visit, commit))
                        @if let Some(at) = source.accepted_at { " since " (time(at, visit.now)) }
                        " " (host_link(visit, commit))
                    }
                    None => "no commit is accepted yet",
                }
                @if !source.url.is_empty() { " of " span.url { (said(&source.url)) } }
            }
            (newest(visit, source))
            @for warning in fleet_warnings(visit.fleet.clusters.values()) {
                p.warning { (toned(Tone::Bad, &warning.to_string())) }
            }
        }
    }
}

fn newest(visit: &Visit, source: &SourceRecord) -> Markup {
    let complaint = visit.fleet.store.as_deref().and_then(StoreRecord::complaint);
    html! {
        @if let Some(complaint) = complaint { p.warning { (toned(Tone::Person, &complaint)) } }
        @if let Some(failure) = source_failure(source) {
            div.warning {
                p {
                    (toned(Tone::Bad, &failure.to_string()))
                    @if let Some(seen) = source.seen.as_ref().filter(|seen| Some(*seen) != source.accepted.as_ref()) {
                        ": commit " (commit_link(visit.site, seen)) (subject(visit, seen)) " " (host_link(visit, seen))
                        @if let Some(at) = source.seen_at { ", seen " (time(at, visit.now)) " ago" }
                    }
                }
                @if !source.refused.is_empty() {
                    ul.errors { @for error in source.refused.iter().take(ERRORS_MAX) { li { code { (said(&error.to_string())) } } } }
                    @if source.refused.len() > ERRORS_MAX { p { "and " (counted(source.refused.len() - ERRORS_MAX, "more error")) } }
                }
                @if source.held_rewrite.is_some() { p { (act_link(visit, "resume", &[])) (to_copy("gitfleet resume")) } }
            }
        }
    }
}

fn counted_states(visit: &Visit, placements: &[(PlacementStanding, usize)], all: usize) -> Markup {
    let base = &visit.site.base;
    let clusters = ClusterStanding::ALL.map(|standing| {
        let clusters = visit.fleet.clusters.values().filter(|cluster| ClusterStanding::of(cluster) == standing);
        (standing, clusters.count())
    });
    html! {
        section.counts aria-label="Counts" {
            ul aria-label="Placements" {
                li { a href=(format!("{base}/")) { b { (all) } " placements" } }
                @for (standing, count) in placements {
                    (count_link(*count, standing.words(), &format!("{base}/?state={}", standing.key()), standing.tone()))
                }
            }
            ul aria-label="Clusters" {
                li { a href=(format!("{base}/clusters")) { b { (visit.fleet.clusters.len()) } " clusters" } }
                @for (standing, count) in clusters.iter().filter(|(s, count)| *count > 0 || *s != ClusterStanding::Left) {
                    (count_link(*count, standing.words(), &format!("{base}/clusters?state={}", standing.key()), standing.tone()))
                }
            }
        }
    }
}

fn needs_you(visit: &Visit, waiting: &[Ask]) -> Markup {
    html! {
        section #needs aria-labelledby="needs-title" {
            h2 #needs-title { "Needs you" @if !waiting.is_empty() { " (" (waiting.len()) ")" } }
            @if waiting.is_empty() { p { "Nothing waits for a person." } } @else { (list(visit, waiting, true)) }
        }
    }
}

fn filters(visit: &Visit, query: &ListQuery, groupings: &[Grouping]) -> Markup {
    let path = format!("{}/", visit.site.base);
    let trouble = query.with(|query| query.trouble = !query.trouble).address(&path);
    let sorts = [(Sort::Trouble, "trouble first"), (Sort::Name, "name"), (Sort::Age, "newest first")];
    let current = Grouping::of(query);
    let within = if query.within.is_empty() { None } else { current };
    html! {
        nav.filters aria-label="Filters" {
            a #trouble href=(trouble) aria-current=[query.trouble.then_some("true")] { "only trouble" }
            " "
            @if !query.state.is_empty() || !query.q.is_empty() || within.is_some() {
                @let state = PlacementStanding::ALL.iter().find(|standing| standing.key() == query.state);
                @let q = &query.q;
                span { "shown: " @if let Some(state) = state { (state.words()) " " } @if !q.is_empty() { "with \"" (said(q)) "\" " } @if let Some(by) = within { (by.word()) " " (said(&query.within)) " " } }
                a href=(ListQuery { sort: query.sort, group: query.group.clone(), ..ListQuery::default() }.address(&path)) { "show all" } " "
            }
            "order: "
            @for (sort, words) in sorts {
                a href=(query.with(|query| query.sort = sort).address(&path)) aria-current=[(sort == query.sort).then_some("true")] { (words) } " "
            }
            @if !groupings.is_empty() {
                "groups: "
                @for by in std::iter::once(None).chain(groupings.iter().copied().map(Some)) {
                    a href=(grouped(query, by).address(&path))
                        aria-current=[(by == current).then_some("true")] { (by.map_or("none", Grouping::word)) } " "
                }
            }
        }
    }
}

fn grouped(query: &ListQuery, by: Option<Grouping>) -> ListQuery {
    query.with(|query| {
        by.map_or("", Grouping::word).clone_into(&mut query.group);
        query.within.clear();
    })
}
