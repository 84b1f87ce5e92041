//! All clusters.

use maud::{Markup, html};

use super::query::{ListQuery, Sort};
use super::standing::ClusterStanding;
use super::words::{cluster_link, cluster_path, count_link, pager, said, time};
use super::{HtmlPage, Section, Visit};
use crate::rows::cluster_counts;
use decide::status::work::counted;
use model::api::table::MEMBER_NAME_LABEL;
use model::facts::KUBERNETES_VERSION;
use model::records::ClusterRecord;

/// Labels that a row shows; the page of the cluster has all.
const LABELS_MAX: usize = 4;

/// Returns the page.
pub fn page(visit: &Visit, query: &ListQuery) -> HtmlPage {
    let clusters = &visit.fleet.clusters;
    let counts = ClusterStanding::ALL.map(|standing| {
        (standing, clusters.values().filter(|cluster| ClusterStanding::of(cluster) == standing).count())
    });
    let sought = query.q.to_lowercase();
    let mut rows: Vec<&ClusterRecord> = clusters.values().filter(|cluster| takes(query, &sought, cluster)).collect();
    match query.sort {
        Sort::Trouble => rows.sort_by_key(|cluster| ClusterStanding::of(cluster)),
        Sort::Age => rows.sort_by_key(|cluster| std::cmp::Reverse(cluster.since)),
        Sort::Name => {}
    }
    let found = rows.len();
    let (rows, page, pages) = query.part(rows);
    let base = format!("{}/clusters", visit.site.base);
    let main = html! {
        h1 { "Clusters" }
        section.counts aria-label="Counts" {
            ul {
                @for (standing, count) in counts {
                    (count_link(count, standing.words(), &format!("{base}?state={}", standing.key()), standing.tone()))
                }
            }
        }
        (filters(&base, query))
        p.found role="status" { (counted(found, "cluster")) @if found < clusters.len() { " of " (clusters.len()) } }
        div.scroll tabindex="0" role="region" aria-label="Clusters" {
            table {
                thead { tr {
                    th scope="col" { "cluster" } th scope="col" { "state" } th scope="col" { "since" } th scope="col" { "placements" }
                    th scope="col" { "behind" } th scope="col" { "version" } th scope="col" { "labels" }
                } }
                tbody { @for cluster in rows { (row(visit, cluster)) } }
            }
        }
        (pager(page, pages, |number| query.with(|query| query.page = number).address(&base)))
    };
    HtmlPage { searched: query.q.clone(), ..HtmlPage::new("Clusters", Section::Clusters, main) }
}

/// Tells whether a query asks for a cluster: for its state, and for a text in its name or in one of its labels.
fn takes(query: &ListQuery, sought: &str, cluster: &ClusterRecord) -> bool {
    let standing = ClusterStanding::of(cluster);
    if !query.state.is_empty() && query.state != standing.key() {
        return false;
    }
    if query.trouble && !standing.is_trouble() {
        return false;
    }
    let mut labels = cluster.labels.iter().map(|(name, value)| format!("{name}={value}"));
    cluster.name.as_str().to_lowercase().contains(sought) || labels.any(|label| label.to_lowercase().contains(sought))
}

fn filters(base: &str, query: &ListQuery) -> Markup {
    let sorts = [(Sort::Trouble, "trouble first"), (Sort::Name, "name"), (Sort::Age, "last changed")];
    html! {
        nav.filters aria-label="Filters" {
            a #trouble href=(query.with(|query| query.trouble = !query.trouble).address(base)) aria-current=[query.trouble.then_some("true")] { "only trouble" }
            " "
            @if !query.state.is_empty() || !query.q.is_empty() { a href=(base) { "show all" } " " }
            "order: "
            @for (sort, words) in sorts {
                a href=(query.with(|query| query.sort = sort).address(base)) aria-current=[(sort == query.sort).then_some("true")] { (words) } " "
            }
        }
    }
}

fn row(visit: &Visit, cluster: &ClusterRecord) -> Markup {
    let standing = ClusterStanding::of(cluster);
    let (placements, behind) = cluster_counts(visit.fleet, &cluster.name);
    // Every cluster has a label with its own name.
    let labels = cluster.labels.iter().filter(|(name, _)| *name != MEMBER_NAME_LABEL);
    let more = labels.clone().count() > LABELS_MAX;
    let labels: Vec<String> = labels.take(LABELS_MAX).map(|(name, value)| format!("{name}={value}")).collect();
    html! {
        tr id=(format!("cluster-{}", cluster.name)) data-href=(cluster_path(visit.site, cluster.name.as_str())) {
            th scope="row" { (cluster_link(visit.site, &cluster.name)) }
            td class=(standing.tone().class()) data-value=(standing.words()) {
                span.sign aria-hidden="true" { (standing.tone().sign()) } " " (standing.words())
                // What was last said of a cluster that answers is about an earlier time.
                @if !cluster.online { @if let Some(message) = &cluster.message { ": " (said(message)) } }
            }
            td { (time(cluster.since, visit.now)) }
            td { (placements) }
            td data-value=(behind) { (behind) }
            td { (version(cluster).unwrap_or_default()) }
            td { (said(&labels.join(", "))) @if more { " …" } }
        }
    }
}

/// Returns the version of Kubernetes that was seen on a cluster.
pub(super) fn version(cluster: &ClusterRecord) -> Option<&str> {
    cluster.properties.get(KUBERNETES_VERSION).map(String::as_str)
}
