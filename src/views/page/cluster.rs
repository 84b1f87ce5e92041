//! One cluster: whether it answers, what is known of it, and every placement on it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::badge::Tone;
use super::clusters::version;
use super::grid::{objects, state};
use super::standing::ClusterStanding;
use super::words::{placement_link, placement_path, said, time, toned};
use super::{HtmlPage, Section, Visit};
use crate::fleet::Placed;
use crate::tree::{StagedNode, cluster_on};
use decide::status::work::counted;
use model::id::PlacementKey;
use model::records::{ClusterRecord, PickReason};

/// Placements that are listed because they did not pick the cluster; the rest is counted.
const UNPICKED_MAX: usize = 50;

/// Returns the page of a cluster.
pub fn page(visit: &Visit, cluster: &ClusterRecord) -> HtmlPage {
    let standing = ClusterStanding::of(cluster);
    let properties = cluster.known_properties(visit.now);
    let main = html! {
        h1 { (cluster.name) " " (toned(standing.tone(), standing.words())) }
        p {
            (standing.words()) " since " (time(cluster.since, visit.now))
            @if let Some(message) = &cluster.message { ": " (said(message)) }
            @if let Some(version) = version(cluster) { "; Kubernetes " (version) }
            @if let Some(agent) = &cluster.agent { "; by " (agent) }
        }
        @for problem in [&cluster.properties_unknown, &cluster.namespaces_unknown, &cluster.unwatched].into_iter().flatten() {
            p.warning { (toned(Tone::Waiting, problem)) }
        }
        (placements(visit, cluster))
        (unpicked(visit, cluster))
        (facts("Labels", &cluster.labels))
        (facts("Properties", &properties))
        (facts("Claims", &cluster.claims))
        p { a href=(format!("{}/events?cluster={}", visit.site.base, super::words::encoded(cluster.name.as_str()))) { "events on this cluster" } }
    };
    HtmlPage::new(cluster.name.to_string(), Section::Clusters, main)
}

fn placements(visit: &Visit, cluster: &ClusterRecord) -> Markup {
    let concerned =
        visit.fleet.placements.values().filter(|placed| placed.records.concerns(|name| *name == cluster.name));
    let rows: Vec<(&Placed, StagedNode)> = concerned
        .filter_map(|placed| {
            let view = placed.records.view(&visit.fleet.clusters, visit.now);
            Some((placed.as_ref(), cluster_on(&view, &cluster.name)?))
        })
        .collect();
    html! {
        section aria-labelledby="placements" {
            h2 #placements { "Placements" }
            @if rows.is_empty() { p { "No placement is on it." } } @else {
                div.scroll tabindex="0" role="region" aria-label="Placements on this cluster" {
                    table {
                        thead { tr {
                            th scope="col" { "placement" } th scope="col" { "state" } th scope="col" { "stage" } th scope="col" { "snapshot" }
                            th scope="col" { "behind" }
                        } }
                        tbody { @for (placed, staged) in &rows { (row(visit, placed, staged)) } }
                    }
                }
            }
        }
    }
}

fn row(visit: &Visit, placed: &Placed, staged: &StagedNode) -> Markup {
    let key = &placed.records.record.key;
    let node = &staged.node;
    let held = node.snapshot.as_deref().and_then(|snapshot| snapshot.parse::<u64>().ok());
    let behind = held.map(|held| placed.records.snapshots.range(held + 1..).count());
    html! {
        tr data-href=(placement_path(visit.site, key)) {
            th scope="row" { (placement_link(visit.site, key)) }
            td { (state(node, visit.now)) (objects(node, visit.now)) }
            td { (staged.stage.unwrap_or_default()) }
            td { (node.snapshot.as_deref().unwrap_or_default()) }
            td data-value=[behind] { @if let Some(behind) = behind.filter(|behind| *behind > 0) { (behind) } }
        }
    }
}

/// Lists the placements that did not pick the cluster, with the reason of the last decision.
fn unpicked(visit: &Visit, cluster: &ClusterRecord) -> Markup {
    let refused = visit.fleet.placements.values().filter_map(|placed| {
        let decisions = &placed.records.policy.as_ref()?.target_clusters;
        let decision = decisions.iter().find(|decision| decision.cluster_name == cluster.name)?;
        (!decision.selected).then_some((&placed.records.record.key, &decision.reason))
    });
    let refused: Vec<(&PlacementKey, &PickReason)> = refused.collect();
    html! {
        @if !refused.is_empty() {
            section aria-labelledby="unpicked" {
                h2 #unpicked { "Not picked by" }
                ul {
                    @for (key, reason) in refused.iter().take(UNPICKED_MAX) {
                        li { a href=(format!("{}?tab=explain&q={}", placement_path(visit.site, key), cluster.name)) { (key) } ": " (said(&reason.to_string())) }
                    }
                }
                @if refused.len() > UNPICKED_MAX { p { "and " (counted(refused.len() - UNPICKED_MAX, "more placement")) } }
            }
        }
    }
}

fn facts(title: &str, facts: &BTreeMap<String, String>) -> Markup {
    html! {
        @if !facts.is_empty() {
            details {
                summary { (title) " (" (facts.len()) ")" }
                dl.facts { @for (name, value) in facts { dt { (said(name)) } dd { (said(value)) } } }
            }
        }
    }
}
