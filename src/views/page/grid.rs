//! The clusters of a placement: a square each, and in words those that are not as they are to be.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::query::ListQuery;
use super::words::{cluster_path, placement_path, said, toned_as};
use crate::fleet::Placed;
use crate::layout::plain;
use crate::tree::{ClusterNode, LISTED_MAX, StagedNode, Style, all_clusters};
use decide::status::work::counted;
use model::api::table::MEMBER_NAME_LABEL;
use model::runs::{DELETION_GATE, DELETION_STAGE};

/// Squares that one placement has; the rest is counted.
const SQUARES_MAX: usize = 2_000;

/// Groups that a label may make: one that tells nearly every cluster apart groups none.
const GROUPS_MAX: usize = 40;
/// Labels that are offered.
const LABELS_MAX: usize = 8;

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

/// Draws the clusters of a placement: by stages, or by the values of the label with this key.
pub(super) fn grid(visit: &Visit, placed: &Placed, label: &str) -> Markup {
    let view = placed.records.view(&visit.fleet.clusters, visit.now);
    let mut nodes = all_clusters(&view);
    let more = nodes.len().saturating_sub(SQUARES_MAX);
    nodes.truncate(SQUARES_MAX);
    let labels = labels_that_part(visit, &nodes);
    let mut nodes: Vec<(GridGroup, StagedNode)> =
        nodes.into_iter().map(|node| (group_of(visit, &node, label), node)).collect();
    if !label.is_empty() {
        nodes.sort_by_key(|(group, _)| *group);
    }
    let groups: Vec<&[(GridGroup, StagedNode)]> = nodes.chunk_by(|(one, _), (other, _)| one == other).collect();
    let wrong = nodes.iter().map(|(_, staged)| &staged.node);
    let wrong: Vec<&ClusterNode> = wrong.filter(|node| !node.is_right() && node.state.1 != QUEUED_SIGN).collect();
    html! {
        section aria-labelledby="clusters" {
            h2 #clusters { "Clusters" }
            (choice(visit, placed, label, &labels))
            @for group in &groups {
                @if groups.len() > 1 { h3 { (group_name(group, label)) } }
                ul.grid { @for (_, staged) in *group { (square(visit, &staged.node)) } }
            }
            @if more > 0 { p { "and " (counted(more, "more cluster")) } }
            @if nodes.is_empty() { p { "It has no clusters." } }
            @if !wrong.is_empty() { (in_words(visit, &wrong)) }
        }
    }
}

/// The stage of a cluster, or the value of its label; absent where it has none.
type GridGroup<'a> = Option<&'a str>;

fn labels_of<'a>(visit: &Visit<'a>, node: &StagedNode) -> Option<&'a BTreeMap<String, String>> {
    visit.fleet.clusters.get(node.node.cluster.as_str()).map(|cluster| &cluster.labels)
}

fn group_of<'a>(visit: &Visit<'a>, node: &StagedNode<'a>, label: &str) -> GridGroup<'a> {
    if label.is_empty() {
        return node.stage;
    }
    labels_of(visit, node)?.get(label).map(String::as_str)
}

/// Returns the keys of labels by which clusters make a few groups, in the order of their names.
fn labels_that_part<'a>(visit: &Visit<'a>, nodes: &[StagedNode]) -> Vec<&'a str> {
    let mut values: BTreeMap<&str, (BTreeSet<&str>, usize)> = BTreeMap::new();
    for (key, value) in nodes.iter().filter_map(|node| labels_of(visit, node)).flatten() {
        let (known, clusters) = values.entry(key).or_default();
        *clusters += 1;
        if known.len() <= GROUPS_MAX {
            known.insert(value);
        }
    }
    let parts = values.into_iter().filter(|(key, (known, clusters))| {
        let groups = known.len() + usize::from(*clusters < nodes.len());
        *key != MEMBER_NAME_LABEL && (2..=GROUPS_MAX).contains(&groups) && groups < nodes.len()
    });
    parts.map(|(key, _)| key).take(LABELS_MAX).collect()
}

/// Links the groupings that there are.
fn choice(visit: &Visit, placed: &Placed, label: &str, labels: &[&str]) -> Markup {
    let path = placement_path(visit.site, &placed.records.record.key);

    // One that is asked for by hand is shown too.
    let asked = Some(label).filter(|label| !label.is_empty() && !labels.contains(label));
    let all: Vec<&str> = labels.iter().copied().chain(asked).collect();
    html! {
        @if !all.is_empty() {
            nav.filters aria-label="Groups of clusters" {
                "groups: "
                a href=(path) aria-current=[label.is_empty().then_some("true")] { "stage" } " "
                "label: "
                @for key in all {
                    @let grouped = ListQuery::default().with(|query| key.clone_into(&mut query.group));
                    a href=(grouped.address(&path)) aria-current=[(key == label).then_some("true")] { (said(key)) } " "
                }
            }
        }
    }
}

fn group_name(group: &[(GridGroup, StagedNode)], label: &str) -> String {
    let count = counted(group.len(), "cluster");
    match (group.first().and_then(|(name, _)| *name), label) {
        (Some(DELETION_STAGE), "") => format!("{DELETION_GATE}, {count}"),
        (Some(stage), "") => format!("stage {stage}, {count}"),
        (None, "") => format!("in no stage, {count}"),
        (Some(value), label) => said(&format!("{label}={value}, {count}")),
        (None, label) => said(&format!("without {label}, {count}")),
    }
}

fn square(visit: &Visit, node: &ClusterNode) -> Markup {
    let tone = tone(node);
    let words = sentence(node, visit.now);
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
    html! {
        @if !node.objects.is_empty() {
            ul.objects { @for line in &node.objects { li { (said(plain(&line.at(now)).trim())) } } }
        }
    }
}
