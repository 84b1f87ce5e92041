//! The clusters of a placement: a square each, and in words those that are not as they are to be.

use jiff::Timestamp;
use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::words::{cluster_path, said, toned_as};
use crate::model::runs::{DELETION_GATE, DELETION_STAGE};
use crate::status::work::counted;
use crate::views::fleet::Placed;
use crate::views::tree::{ClusterNode, LISTED_MAX, StagedNode, Style, all_clusters};

/// Squares that one placement has; the rest is counted.
const SQUARES_MAX: usize = 2_000;

/// The sign of a cluster whose turn has not come.
const QUEUED_SIGN: &str = "·";
/// The sign of a cluster that does not answer.
const OFFLINE_SIGN: &str = "?";

/// Returns how the state of a cluster looks.
fn tone(node: &ClusterNode) -> Tone {
    match node.state.0 {
        Style::Muted if node.state.1 == OFFLINE_SIGN => Tone::Waiting,
        Style::Ok => Tone::Ok,
        Style::Progressing => Tone::Moving,
        Style::Bad => Tone::Bad,
        Style::Plain | Style::Strong | Style::Muted => Tone::Quiet,
    }
}

/// Draws the clusters of a placement, by stages.
pub(super) fn grid(visit: &Visit, placed: &Placed) -> Markup {
    let view = placed.records.view(&visit.fleet.clusters, visit.now);
    let mut nodes = all_clusters(&view);
    let more = nodes.len().saturating_sub(SQUARES_MAX);
    nodes.truncate(SQUARES_MAX);
    let groups: Vec<&[StagedNode]> = nodes.chunk_by(|one, other| one.stage == other.stage).collect();
    let wrong = nodes.iter().map(|staged| &staged.node);
    let wrong: Vec<&ClusterNode> = wrong.filter(|node| !node.is_right() && node.state.1 != QUEUED_SIGN).collect();
    html! {
        section aria-labelledby="clusters" {
            h2 #clusters { "Clusters" }
            @for group in &groups {
                @if groups.len() > 1 { h3 { (group_name(group)) } }
                ul.grid { @for staged in *group { (square(visit, &staged.node)) } }
            }
            @if more > 0 { p { "and " (counted(more, "more cluster")) } }
            @if nodes.is_empty() { p { "It has no clusters." } }
            @if !wrong.is_empty() { (in_words(visit, &wrong)) }
        }
    }
}

fn group_name(group: &[StagedNode]) -> String {
    let count = counted(group.len(), "cluster");
    match group.first().and_then(|staged| staged.stage) {
        Some(DELETION_STAGE) => format!("{DELETION_GATE}, {count}"),
        Some(stage) => format!("stage {stage}, {count}"),
        None => format!("in no stage, {count}"),
    }
}

fn square(visit: &Visit, node: &ClusterNode) -> Markup {
    let (tone, words) = (tone(node), sentence(node, visit.now));
    html! {
        li class=(tone.class()) {
            a href=(cluster_path(visit.site, &node.cluster)) title=(words) aria-label=(words) data-value=(tone.class()) {
                span aria-hidden="true" { (tone.sign()) }
            }
        }
    }
}

fn sentence(node: &ClusterNode, now: Timestamp) -> String {
    said(&format!("{}: {}", node.cluster, node.words.at(now)))
}

fn in_words(visit: &Visit, wrong: &[&ClusterNode]) -> Markup {
    html! {
        h3 { "Under way, or in trouble" }
        ul.clusters {
            @for node in wrong.iter().take(LISTED_MAX) {
                li {
                    a href=(cluster_path(visit.site, &node.cluster)) { (node.cluster) } " "
                    (state(node, visit.now))
                    (objects(node, visit.now))
                }
            }
        }
        @if wrong.len() > LISTED_MAX { p { "and " (counted(wrong.len() - LISTED_MAX, "more cluster")) } }
    }
}

/// Says the state of a cluster.
pub(super) fn state(node: &ClusterNode, now: Timestamp) -> Markup {
    let tone = tone(node);
    toned_as(tone, &node.words.at(now), &format!("{} {}", tone.class(), node.snapshot.as_deref().unwrap_or_default()))
}

/// Lists the objects that keep a cluster from its state.
pub(super) fn objects(node: &ClusterNode, now: Timestamp) -> Markup {
    let text = |line: &crate::views::timed::TimedLine| -> String {
        line.at(now).spans.iter().map(|span| span.text.as_str()).collect()
    };
    html! {
        @if !node.objects.is_empty() {
            ul.objects { @for line in &node.objects { li { (said(text(line).trim())) } } }
        }
    }
}
