//! The branch of a staged update run: its stages, the relevant clusters, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::row::{cluster_state, held, object_lines};
use super::{ClusterNode, Node, Style, TimedLine, Words};
use crate::runs::cluster_message_or;
use decide::status::placement::{PlacementView, why};
use decide::status::staged_run::{
    ClosedGate, active_run, approve_line, asks, closed_gates, clusters_summary, command_name, current_stage,
    end_message, message_or, run_word, stuck_clusters,
};
use decide::status::work::{counted, listing};
use model::id::ClusterName;
use model::records::Binding;
use model::runs::{
    ChecksRecord, ClusterPhase, MetricState, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord, number_text,
};

/// One stage of the run that moves a placement, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageCell {
    /// Its name.
    pub name: String,
    /// What kind of state it is in, and the sign for it.
    pub state: (Style, String),
    /// How many of its clusters are done.
    pub done: usize,
    /// How many clusters it has.
    pub total: usize,
}

/// Returns the stages of the run that moves the placement, in order; none where no run does.
pub(super) fn stage_cells(view: &PlacementView) -> Vec<StageCell> {
    // What git has no longer moves nobody from stage to stage.
    if !view.is_external() || view.record.removed {
        return Vec::new();
    }
    let Some(run) = active_run(view.runs) else { return Vec::new() };
    let cells = run.stages.iter().map(|stage| {
        let (style, glyph) = sign(run, stage);
        let done = stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Succeeded).count();
        StageCell { name: stage.name.clone(), state: (style, glyph.to_owned()), done, total: stage.clusters.len() }
    });
    cells.collect()
}

/// Returns the branch of the run that moves the placement; for finished runs only the newest, in one line.
pub(super) fn run_node(view: &PlacementView, approvers: Option<&str>) -> Option<Node> {
    if let Some(run) = active_run(view.runs) {
        return Some(active_node(view, run, approvers));
    }
    let last = view.runs.values().max_by_key(|run| run.sequence)?;
    let line = match last.phase {
        RunPhase::Succeeded => TimedLine::default().with(
            Style::Muted,
            Words::from(format!("run {} done ", last.name)).since(last.since).then(format!(" ago, {}", stages(last))),
        ),
        _ => TimedLine::default()
            .with(Style::Bad, "✗ ")
            .with(Style::Plain, format!("run {}  ", last.name))
            .with(Style::Bad, Words::from("ended ").since(last.since).then(format!(" ago: {}", end_message(last)))),
    };
    Some(Node::leaf(vec![line]))
}

/// Returns the clusters that the branch of the run that moves the placement shows.
pub(super) fn clusters_in_run<'a>(view: &PlacementView<'a>) -> BTreeSet<&'a ClusterName> {
    let stages = active_run(view.runs).into_iter().flat_map(|run| run.stages.iter().chain(&run.deletion));
    stages.flat_map(|stage| &stage.clusters).map(|cluster| &cluster.name).collect()
}

fn stages(run: &RunRecord) -> String {
    counted(run.stages.len(), "stage")
}

fn active_node(view: &PlacementView, run: &RunRecord, approvers: Option<&str>) -> Node {
    let name = command_name(&run.placement, &run.name);
    let snapshot = run.snapshot().map_or_else(|| "the newest snapshot".to_owned(), |index| format!("snapshot {index}"));
    let (style, glyph, words) = run_state(view, run);
    let heading = TimedLine::default()
        .with(style, format!("{glyph} "))
        .with(Style::Plain, format!("run {name}  "))
        .with(Style::Muted, format!("to {snapshot} by {}  ", run.strategy))
        .with(style, words);
    let mut lines = vec![heading];
    if let Some((_, stuck)) = stuck_clusters(run, view.now) {
        let names = listing(stuck.iter().map(|cluster| cluster.name.to_string()));
        lines.push(
            TimedLine::default().with(Style::Progressing, format!("    on their way for more than 5 minutes: {names}")),
        );
    }
    let current = current_stage(run).map(|stage| stage.name.as_str());
    let mut bindings = BTreeMap::new();
    for binding in view.bindings() {
        // If a cluster has several, the first one counts.
        bindings.entry(&binding.cluster).or_insert(binding);
    }
    let view = &RunView { view, run, bindings: &bindings, approvers };
    // Every run has a deletion stage, as in KubeFleet; one that removes nothing gets no line.
    let shown = run.stages.iter().chain(run.deletion.as_ref().filter(|stage| !stage.clusters.is_empty()));
    let children = shown.map(|stage| stage_node(view, stage, current == Some(stage.name.as_str()))).collect();
    Node { lines, children, ..Node::default() }
}

fn run_state(view: &PlacementView, run: &RunRecord) -> (Style, &'static str, String) {
    if view.record.removed {
        return (Style::Muted, "·", "waits until git has its placement again".to_owned());
    }
    match run.phase {
        RunPhase::Pending if run.refused => (Style::Bad, "✗", format!("cannot begin: {}", message_or(run, "refused"))),
        RunPhase::Pending => (Style::Muted, "·", message_or(run, "has not begun")),
        RunPhase::Initialized => (Style::Progressing, "!", "prepared; starts when its `state` says Run".to_owned()),
        RunPhase::Waiting => (Style::Progressing, "!", "waits".to_owned()),
        RunPhase::Halted => {
            let name = run_word(run, view.shared_name);
            (Style::Bad, "✗", format!("halted: {}; gitfleet retry {name}", message_or(run, "too many clusters failed")))
        }
        RunPhase::Stopping => (Style::Progressing, "↻", "stopping".to_owned()),
        // The run's own `state` may say Run: changing it would not help.
        RunPhase::Stopped if view.record.paused.is_some() => {
            (Style::Progressing, "!", "stopped, because the placement is paused".to_owned())
        }
        RunPhase::Stopped => (Style::Progressing, "!", "stopped; continues when its `state` says Run".to_owned()),
        _ => (Style::Progressing, "↻", "in progress".to_owned()),
    }
}

/// A run and what it moves.
struct RunView<'a> {
    view: &'a PlacementView<'a>,
    run: &'a RunRecord,
    bindings: &'a BTreeMap<&'a ClusterName, &'a Binding>,
    approvers: Option<&'a str>,
}

/// Returns the sign for the state of a stage, and its meaning.
fn sign(run: &RunRecord, stage: &StageRecord) -> (Style, &'static str) {
    match stage.phase {
        StagePhase::Succeeded | StagePhase::Skipped => (Style::Ok, "✓"),
        StagePhase::Failed => (Style::Bad, "✗"),
        // Its phase stays that of a stage under way, because a retry continues from there.
        StagePhase::Updating | StagePhase::WaitingAfter if run.phase == RunPhase::Halted => (Style::Bad, "✗"),
        StagePhase::Updating => (Style::Progressing, "↻"),
        StagePhase::WaitingBefore | StagePhase::WaitingAfter => (Style::Progressing, "!"),
        StagePhase::Pending => (Style::Muted, "·"),
    }
}

fn stage_node(of: &RunView, stage: &StageRecord, is_current: bool) -> Node {
    let RunView { view, run, approvers, .. } = *of;
    let (style, glyph) = sign(run, stage);
    let words = match stage.phase {
        StagePhase::Skipped => "no clusters".to_owned(),
        StagePhase::Pending if is_current => format!("{}, next", counted(stage.clusters.len(), "cluster")),
        StagePhase::Pending => counted(stage.clusters.len(), "cluster"),
        _ => clusters_summary(stage),
    };
    let words = Words::from(words);
    let words = match stage.ended_at {
        Some(at) => words.then(", ended ").since(at).then(" ago"),
        None => words,
    };
    let heading = TimedLine::default()
        .with(style, format!("{glyph} "))
        .with(Style::Plain, format!("stage {}  ", stage.name))
        .with(Style::Muted, words);
    let mut lines = vec![heading];
    if is_current {
        lines.extend(closed_gates(run).iter().flat_map(|gate| gate_lines(view, run, gate, approvers)));
        lines.extend(run.waiting_checks().into_iter().flat_map(|(_, checks)| check_lines(checks, view.now)));
    }
    let width = stage.clusters.iter().map(|cluster| cluster.name.as_str().chars().count()).max().unwrap_or(0);
    // For stages that are done or have not started, only clusters outside their desired state are shown.
    let is_moving = is_current && stage.phase == StagePhase::Updating;
    let clusters = stage.clusters.iter().filter(|cluster| {
        is_moving || matches!(cluster.phase, ClusterPhase::Failed | ClusterPhase::Deferred | ClusterPhase::Skipped)
    });
    let clusters = clusters.map(|cluster| cluster_node(of, cluster)).collect();
    Node::leaf(lines).with_clusters(clusters, width)
}

/// Describes what a gate waits for: an approval, with the command to copy, or a timer.
fn gate_lines(view: &PlacementView, run: &RunRecord, gate: &ClosedGate, approvers: Option<&str>) -> Vec<TimedLine> {
    let place = if gate.before { "before it begins" } else { "before the next stage" };
    if let Some(at) = gate.opens_at() {
        let left = if at > view.now {
            Words::from("    waits ").until(at).then(" more")
        } else {
            Words::from("    the wait is over")
        };
        return vec![TimedLine::default().with(Style::Progressing, left.then(format!(" {place}")))];
    }
    let digest = gate.stage.digest.short();
    let people: Vec<&str> = gate.task.approvals.iter().map(|approval| approval.by.name.as_str()).collect();
    let so_far = if people.is_empty() { String::new() } else { format!(", so far {}", people.join(", ")) };
    let waits = Words::from(format!("    waits for approval {place}, for ")).since(gate.since());
    let waits = TimedLine::default().with(Style::Progressing, waits.then(format!("{so_far}, digest {digest}")));
    // Where an approval alone lets nothing continue nobody is asked.
    if !asks(view.record, run) {
        return vec![waits];
    }
    let line = approve_line(run, gate, Some(view.record), view.shared_name);
    vec![
        waits,
        TimedLine::default().with(Style::Muted, format!("    by {}", who_may(run.approvers.as_deref(), approvers))),
        TimedLine::default().with(Style::Strong, format!("    {line}")),
    ]
}

/// Describes the checks of a stage that waits: what was answered last, and when.
fn check_lines(checks: &ChecksRecord, now: Timestamp) -> Vec<TimedLine> {
    let health = checks.given.healthy_for.iter().map(|wanted| match (checks.healthy_since, checks.healthy_at()) {
        (Some(_), Some(end)) if end <= now => line(Style::Ok, format!("    available for {wanted}").into()),
        (Some(since), Some(end)) => {
            line(Style::Progressing, Words::from("    available for ").since(since).then(", ").until(end).then(" more"))
        }
        _ => line(Style::Progressing, format!("    waits for all clusters to be available for {wanted}").into()),
    });
    let metrics = checks.metrics().map(|(check, state)| {
        let answer = state.and_then(|state| state.answer);
        // A server that does not answer now leaves its last answer standing: both are said.
        let problem = state.and_then(|state| state.problem.as_ref()).map(|why| format!("no answer: {why}"));
        let style = match state {
            Some(MetricState { failed: Some(_), .. }) => Style::Bad,
            Some(MetricState { answer: Some(_), problem: None, .. }) => Style::Ok,
            _ => Style::Progressing,
        };
        let mut said = Words::from(format!("    check {}, {}: ", check.name, check.limits()));
        if let Some(last) = answer {
            said = said.then(format!("answers {}, ", number_text(last.value))).since(last.at).then(" ago");
        }
        said = match (answer, problem) {
            (Some(_), Some(problem)) => said.then(format!("; {problem}")),
            (None, Some(problem)) => said.then(problem),
            (None, None) => said.then("not answered yet"),
            (Some(_), None) => said,
        };
        line(style, said)
    });
    health.chain(metrics).collect()
}

fn line(style: Style, words: Words) -> TimedLine {
    TimedLine::default().with(style, words)
}

/// Describes who may approve, in the same words as the comment about the gate.
///
/// `narrowed` is the strategy's restriction, `approvers` the configuration's.
pub fn who_may(narrowed: Option<&str>, approvers: Option<&str>) -> String {
    match narrowed.or(approvers) {
        Some(people) if approvers.is_some() => format!("{people} by comment, or a token of the API"),
        Some(people) => people.to_owned(),
        None => "anybody who may command the daemon".to_owned(),
    }
}

/// Returns the clusters of the run that moves a placement, each with its stage; only those that are meant.
pub(super) fn run_clusters<'a>(
    view: &PlacementView<'a>,
    is_meant: impl Fn(&ClusterName) -> bool,
) -> Vec<(&'a str, ClusterNode)> {
    let Some(run) = active_run(view.runs) else { return Vec::new() };
    let mut bindings = BTreeMap::new();
    for binding in view.bindings().filter(|binding| is_meant(&binding.cluster)) {
        bindings.entry(&binding.cluster).or_insert(binding);
    }
    let of = RunView { view, run, bindings: &bindings, approvers: None };
    let stages = run.stages.iter().chain(&run.deletion);
    let clusters = stages.flat_map(|stage| stage.clusters.iter().map(|cluster| (stage.name.as_str(), cluster)));
    let meant = clusters.filter(|(_, cluster)| is_meant(&cluster.name));
    meant.map(|(stage, cluster)| (stage, cluster_node(&of, cluster))).collect()
}

fn cluster_node(of: &RunView, cluster: &RunCluster) -> ClusterNode {
    let binding = of.bindings.get(&cluster.name).copied();
    let (style, glyph, words) = state(of.view, of.run, cluster, binding);
    // Objects of other clusters are in their desired state, or in that of the earlier snapshot.
    let shows_objects = matches!(cluster.phase, ClusterPhase::Updating | ClusterPhase::Failed);
    let objects = match binding {
        Some(binding) if shows_objects => object_lines(of.view, binding),
        _ => Vec::new(),
    };
    ClusterNode {
        cluster: cluster.name.to_string(),
        state: (style, glyph.to_owned()),
        snapshot: Some(held(binding)),
        words,
        objects,
    }
}

/// Returns the state of a run's cluster, in one phrase.
fn state(
    view: &PlacementView,
    run: &RunRecord,
    cluster: &RunCluster,
    binding: Option<&Binding>,
) -> (Style, &'static str, Words) {
    match cluster.phase {
        ClusterPhase::Pending => (Style::Muted, "·", "waits for its turn".into()),
        ClusterPhase::Deferred => {
            let offline = view.offline(&cluster.name).map(why).unwrap_or_default();
            (Style::Muted, "?", format!("deferred, offline{offline}; updated when it returns").into())
        }
        // Until it is assigned the run's snapshot, its conditions are of an earlier one.
        ClusterPhase::Updating => match binding.filter(|binding| binding.snapshot == run.snapshot()) {
            Some(binding) if !binding.deleting => cluster_state(view, &cluster.name, binding),
            Some(_) => (Style::Progressing, "↻", "being removed".into()),
            None => (Style::Progressing, "↻", "begins".into()),
        },
        ClusterPhase::Succeeded => (Style::Ok, "✓", Words::from("done ").since(cluster.since).then(" ago")),
        ClusterPhase::Failed => (Style::Bad, "✗", cluster_message_or(cluster, "failed").into()),
        ClusterPhase::Skipped => (Style::Muted, "-", cluster_message_or(cluster, "left; skipped").into()),
    }
}
