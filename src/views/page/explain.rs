//! Why a placement is on which clusters, and not on others.

use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::query::ListQuery;
use super::words::{cluster_link, pager, placement_path, said, toned};
use decide::status::work::counted;
use model::explanation::{ClusterExplanation, Explanation};
use model::id::PlacementKey;

/// Shows why each cluster was picked or not, or why that cannot be said.
pub(super) fn table(visit: &Visit, key: &PlacementKey, of: Result<&Explanation, &str>, query: &ListQuery) -> Markup {
    let explanation = match of {
        Ok(explanation) => explanation,
        Err(why) => return html! { h2 { "Why it is where it is" } p.warning { (toned(Tone::Bad, why)) } },
    };
    let sought = query.q.to_lowercase();
    let mut clusters: Vec<&ClusterExplanation> = explanation.clusters.iter().collect();
    clusters.retain(|cluster| cluster.cluster_name.as_str().to_lowercase().contains(&sought));
    let found = clusters.len();
    let (rows, page, pages) = query.part(clusters);
    let path = placement_path(visit.site, key);
    let picked = explanation.clusters.iter().filter(|cluster| cluster.picked).count();
    let tone = if explanation.fulfilled { Tone::Ok } else { Tone::Waiting };
    html! {
        h2 { "Why it is where it is" }
        p { "wanted: " (said(&explanation.wanted)) "; " (toned(tone, &explanation.message)) "; picked " (picked) " of " (counted(explanation.clusters.len(), "cluster")) }
        form.choice method="get" {
            input type="hidden" name="tab" value="explain";
            label for="explain-q" { "clusters with " }
            input #explain-q type="search" name="q" value=(query.q);
            " " button type="submit" { "Show" }
        }
        p.found role="status" { (counted(found, "cluster")) }
        div.scroll tabindex="0" role="region" aria-label="Clusters and why" {
            table {
                thead { tr {
                    th scope="col" { "cluster" } th scope="col" { "picked" } th scope="col" { "rank" } th scope="col" { "score" }
                    th scope="col" { "why" } th scope="col" { "is" } th scope="col" { "wanted" }
                } }
                tbody { @for cluster in rows { (row(visit, cluster)) } }
            }
        }
        (pager(page, pages, |number| {
            let query = query.with(|query| query.page = number).write();
            format!("{path}?tab=explain{}", query.replacen('?', "&", 1))
        }))
    }
}

fn row(visit: &Visit, cluster: &ClusterExplanation) -> Markup {
    let (tone, picked) = if cluster.picked { (Tone::Ok, "yes") } else { (Tone::Quiet, "no") };
    let refusal = cluster.rejected.as_ref();
    html! {
        tr data-href=(super::words::cluster_path(visit.site, cluster.cluster_name.as_str())) {
            th scope="row" { (cluster_link(visit.site, &cluster.cluster_name)) }
            td { (toned(tone, picked)) }
            td { @if let Some(rank) = cluster.rank { (rank) } }
            td { @if let Some(total) = cluster.total() { (total) } }
            td { (said(&cluster.reason)) }
            td { @if let Some(refusal) = refusal { (said(&refusal.subject)) ": " (said(refusal.observed.as_deref().unwrap_or("absent"))) } }
            td { @if let Some(refusal) = refusal { (said(&refusal.wanted)) } }
        }
    }
}
