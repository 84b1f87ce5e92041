//! The branch of a staged update run: its stages, the relevant clusters, and what it waits for.

use jiff::Timestamp;

use super::{DIGEST_SHOWN, Line, Node, Style, cluster_state, object_lines};
use crate::model::records::Binding;
use crate::model::runs::{
    ChecksRecord, ClusterPhase, MetricState, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord, number_text,
};
use crate::status::placement::{PlacementView, why};
use crate::status::rollout::approve_line;
use crate::status::staged_run::{
    ClosedGate, active_run, closed_gates, clusters_summary, command_name, current_stage, end_message, stuck_clusters,
};
use crate::status::work::{counted, listing};
use crate::views::table::age;

/// Returns the branch of the run that moves the placement; for finished runs only the newest, in one line.
pub fn run_node(view: &PlacementView, approvers: Option<&str>) -> Option<Node> {
    if let Some(run) = active_run(view.runs) {
        return Some(active_node(view, run, approvers));
    }
    let last = view.runs.values().max_by_key(|run| run.sequence)?;
    let since = age(last.since, view.now);
    let line = match last.phase {
        RunPhase::Succeeded => {
            Line::default().with(Style::Muted, format!("run {} done {since} ago, {}", last.name, stages(last)))
        }
        _ => Line::default()
            .with(Style::Bad, "✗ ")
            .with(Style::Plain, format!("run {}  ", last.name))
            .with(Style::Bad, format!("ended {since} ago: {}", end_message(last))),
    };
    Some(Node::leaf(vec![line]))
}

/// Tells whether the branch of the run that moves the placement shows a cluster.
pub fn is_in_run(view: &PlacementView, cluster: &str) -> bool {
    let stages = active_run(view.runs).into_iter().flat_map(|run| run.stages.iter().chain(&run.deletion));
    stages.flat_map(|stage| &stage.clusters).any(|found| found.name.as_str() == cluster)
}

fn stages(run: &RunRecord) -> String {
    counted(run.stages.len(), "stage")
}

fn active_node(view: &PlacementView, run: &RunRecord, approvers: Option<&str>) -> Node {
    let name = command_name(&run.placement, &run.name);
    let snapshot = run.snapshot().map_or_else(|| "the newest snapshot".to_owned(), |index| format!("snapshot {index}"));
    let (style, glyph, words) = run_state(view, run, &name);
    let heading = Line::default()
        .with(style, format!("{glyph} "))
        .with(Style::Plain, format!("run {name}  "))
        .with(Style::Muted, format!("to {snapshot} by {}  ", run.strategy))
        .with(style, words);
    let mut lines = vec![heading];
    if let Some((_, stuck)) = stuck_clusters(run, view.now) {
        let names = listing(stuck.iter().map(|cluster| cluster.name.to_string()));
        lines.push(
            Line::default().with(Style::Progressing, format!("    on their way for more than 5 minutes: {names}")),
        );
    }
    let current = current_stage(run).map(|stage| stage.name.as_str());
    // Every run has a deletion stage, as in KubeFleet; one that removes nothing gets no line.
    let shown = run.stages.iter().chain(run.deletion.as_ref().filter(|stage| !stage.clusters.is_empty()));
    let children =
        shown.map(|stage| stage_node(view, run, stage, current == Some(stage.name.as_str()), approvers)).collect();
    Node { lines, children }
}

fn run_state(view: &PlacementView, run: &RunRecord, name: &str) -> (Style, &'static str, String) {
    let says = |otherwise: &str| if run.message.is_empty() { otherwise.to_owned() } else { run.message.clone() };
    match run.phase {
        RunPhase::Pending if run.refused => (Style::Bad, "✗", format!("cannot begin: {}", says("refused"))),
        RunPhase::Pending => (Style::Muted, "·", says("has not begun")),
        RunPhase::Initialized => (Style::Progressing, "!", "prepared; starts when its `state` says Run".to_owned()),
        RunPhase::Waiting => (Style::Progressing, "!", "waits".to_owned()),
        RunPhase::Halted => {
            (Style::Bad, "✗", format!("halted: {}; gitfleet retry {name}", says("too many clusters failed")))
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

fn stage_node(
    view: &PlacementView,
    run: &RunRecord,
    stage: &StageRecord,
    is_current: bool,
    approvers: Option<&str>,
) -> Node {
    let (style, glyph) = match stage.phase {
        StagePhase::Succeeded | StagePhase::Skipped => (Style::Ok, "✓"),
        StagePhase::Failed => (Style::Bad, "✗"),
        // Its phase stays that of a stage under way, because a retry continues from there.
        StagePhase::Updating | StagePhase::WaitingAfter if run.phase == RunPhase::Halted => (Style::Bad, "✗"),
        StagePhase::Updating => (Style::Progressing, "↻"),
        StagePhase::WaitingBefore | StagePhase::WaitingAfter => (Style::Progressing, "!"),
        StagePhase::Pending => (Style::Muted, "·"),
    };
    let words = match stage.phase {
        StagePhase::Skipped => "no clusters".to_owned(),
        StagePhase::Pending if is_current => format!("{}, next", counted(stage.clusters.len(), "cluster")),
        StagePhase::Pending => counted(stage.clusters.len(), "cluster"),
        _ => clusters_summary(stage),
    };
    let ended = stage.ended_at.map(|at| format!(", ended {} ago", age(at, view.now))).unwrap_or_default();
    let heading = Line::default()
        .with(style, format!("{glyph} "))
        .with(Style::Plain, format!("stage {}  ", stage.name))
        .with(Style::Muted, format!("{words}{ended}"));
    let mut lines = vec![heading];
    if is_current {
        lines.extend(closed_gates(run).iter().flat_map(|gate| gate_lines(run, gate, view.now, approvers)));
        lines.extend(run.waiting_checks().into_iter().flat_map(|(_, checks)| check_lines(checks, view.now)));
    }
    let width = stage.clusters.iter().map(|cluster| cluster.name.as_str().chars().count()).max().unwrap_or(0);
    // For stages that are done or have not started, only clusters outside their desired state are shown.
    let matters = |cluster: &&RunCluster| {
        is_current && stage.phase == StagePhase::Updating
            || matches!(cluster.phase, ClusterPhase::Failed | ClusterPhase::Deferred | ClusterPhase::Skipped)
    };
    let clusters = stage.clusters.iter().filter(matters);
    let children = clusters.map(|cluster| Node::leaf(cluster_lines(view, run, cluster, width))).collect();
    Node { lines, children }
}

/// Describes what a gate waits for: an approval, with the command to copy, or a timer.
fn gate_lines(run: &RunRecord, gate: &ClosedGate, now: Timestamp, approvers: Option<&str>) -> Vec<Line> {
    let place = if gate.before { "before it begins" } else { "before the next stage" };
    if let Some(at) = gate.opens_at() {
        let left = if at > now { format!("waits {} more", age(now, at)) } else { "the wait is over".to_owned() };
        return vec![Line::default().with(Style::Progressing, format!("    {left} {place}"))];
    }
    let digest: String = gate.stage.digest.as_str().chars().take(DIGEST_SHOWN).collect();
    let people: Vec<&str> = gate.task.approvals.iter().map(|approval| approval.by.name.as_str()).collect();
    let so_far = if people.is_empty() { String::new() } else { format!(", so far {}", people.join(", ")) };
    let since = age(gate.since(), now);
    let line = approve_line(&command_name(&run.placement, &run.name), gate);
    vec![
        Line::default()
            .with(Style::Progressing, format!("    waits for approval {place} since {since}{so_far}, digest {digest}")),
        Line::default().with(Style::Muted, format!("    by {}", who_may(run.approvers.as_deref(), approvers))),
        Line::default().with(Style::Strong, format!("    {line}")),
    ]
}

/// Describes the checks of a stage that waits: what was answered last, and when.
fn check_lines(checks: &ChecksRecord, now: Timestamp) -> Vec<Line> {
    let line = |style, words: String| Line::default().with(style, format!("    {words}"));
    let health = checks.given.healthy_for.iter().map(|wanted| match (checks.healthy_since, checks.healthy_at()) {
        (Some(_), Some(end)) if end <= now => line(Style::Ok, format!("available for {wanted}")),
        (Some(since), Some(end)) => {
            let (since, left) = (age(since, now), age(now, end));
            line(Style::Progressing, format!("available for {since}, {left} more"))
        }
        _ => line(Style::Progressing, format!("waits for all clusters to be available for {wanted}")),
    });
    let metrics = checks.metrics().map(|(check, state)| {
        let answer = state.and_then(|state| state.answer);
        let said = answer.map(|last| format!("answers {}, {} ago", number_text(last.value), age(last.at, now)));
        let problem = state.and_then(|state| state.problem.as_ref()).map(|why| format!("no answer: {why}"));
        let style = match state {
            Some(MetricState { failed: Some(_), .. }) => Style::Bad,
            Some(MetricState { answer: Some(_), problem: None, .. }) => Style::Ok,
            _ => Style::Progressing,
        };
        let said: Vec<String> = said.into_iter().chain(problem).collect();
        let said = if said.is_empty() { "not answered yet".to_owned() } else { said.join("; ") };
        line(style, format!("check {}, {}: {said}", check.name, check.limits()))
    });
    health.chain(metrics).collect()
}

/// Describes who may approve, in the same words as the comment about the gate.
///
/// `narrowed` is the strategy's restriction, `approvers` the configuration's.
pub(super) fn who_may(narrowed: Option<&str>, approvers: Option<&str>) -> String {
    match narrowed.or(approvers) {
        Some(people) if approvers.is_some() => format!("{people} by comment, or a token of the API"),
        Some(people) => people.to_owned(),
        None => "anybody who may command the daemon".to_owned(),
    }
}

fn cluster_lines(view: &PlacementView, run: &RunRecord, cluster: &RunCluster, width: usize) -> Vec<Line> {
    let binding = view.bindings().find(|binding| binding.cluster == cluster.name);
    let held = binding.and_then(|b| b.snapshot).map_or_else(|| "-".to_owned(), |index| index.to_string());
    let (style, glyph, words) = state(view, run, cluster, binding);
    let line = Line::default()
        .with(style, format!("{glyph} "))
        .with(Style::Plain, format!("{:width$}  ", cluster.name.as_str()))
        .with(Style::Muted, format!("snapshot {held}  "))
        .with(style, words);
    let mut lines = vec![line];
    // Objects of other clusters are in their desired state, or in that of the earlier snapshot.
    if let Some(binding) = binding.filter(|_| matches!(cluster.phase, ClusterPhase::Updating | ClusterPhase::Failed)) {
        lines.extend(object_lines(view, binding));
    }
    lines
}

/// Returns the state of a run's cluster, in one phrase.
fn state(
    view: &PlacementView,
    run: &RunRecord,
    cluster: &RunCluster,
    binding: Option<&Binding>,
) -> (Style, &'static str, String) {
    let says =
        |otherwise: &str| if cluster.message.is_empty() { otherwise.to_owned() } else { cluster.message.clone() };
    match cluster.phase {
        ClusterPhase::Pending => (Style::Muted, "·", "waits for its turn".to_owned()),
        ClusterPhase::Deferred => {
            let offline = view.offline(&cluster.name).map(why).unwrap_or_default();
            (Style::Muted, "?", format!("deferred, offline{offline}; updated when it returns"))
        }
        ClusterPhase::Updating => match binding.filter(|binding| binding.snapshot == run.snapshot()) {
            Some(binding) if !binding.deleting => cluster_state(view, &cluster.name, binding),
            Some(_) => (Style::Progressing, "↻", "being removed".to_owned()),
            None => (Style::Progressing, "↻", "begins".to_owned()),
        },
        ClusterPhase::Succeeded => (Style::Ok, "✓", format!("done {} ago", age(cluster.since, view.now))),
        ClusterPhase::Failed => (Style::Bad, "✗", says("failed")),
        ClusterPhase::Skipped => (Style::Muted, "-", says("left; skipped")),
    }
}
