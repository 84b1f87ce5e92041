//! What the pictures of a placement show: its stages, and how long each takes.

use jiff::Timestamp;

use super::Visit;
use super::graph::{BudgetUse, GateMark, StageBox, StageGraph};
use super::timeline::{Timeline, TimelineRow, TimelineSpan, taken};
use crate::fleet::Placed;
use crate::simulation::{GateSide, Offset, SimulatedRun};
use crate::tree::{Style, all_clusters};
use decide::rollout::{Limits, MaxFailures};
use decide::status::rollout::cluster_tally;
use decide::status::staged_run::{check_summaries, command_name};
use model::api::staged::StageTaskType;
use model::progress::{Progress, ProgressState, StageProgress};
use model::runs::{ChecksRecord, ClusterPhase, RunPhase, RunRecord, StageRecord, TaskRecord};

/// Names of clusters that a box of the graph has.
const NAMES_MAX: usize = 3;

/// Returns the run that a progress is about.
fn run_of<'a>(placed: &'a Placed, told: &Progress) -> Option<&'a RunRecord> {
    let name = told.run.as_deref()?;
    placed.records.runs.values().find(|run| command_name(&run.placement, &run.name) == name)
}

/// Returns the stages of a placement's rollout; a rolling update is one stage.
pub(super) fn stages(visit: &Visit, placed: &Placed) -> Option<StageGraph> {
    let progress = placed.progress(visit.fleet, visit.now);
    let told = progress.first()?;
    let title = format!("Stages of {}", placed.records.record.key);
    let run = if told.stages.is_empty() { None } else { run_of(placed, told) };
    let Some(run) = run else {
        return Some(StageGraph { title, ..rolling(visit, placed, told) });
    };
    let allowed = MaxFailures::read(&placed.records.record.annotations).ok();
    let records = run.stages.iter().chain(run.deletion.as_ref().filter(|stage| !stage.clusters.is_empty()));
    let boxes = records.zip(&told.stages).map(|(record, stage)| {
        let failures_allowed = allowed.as_ref().map_or(0, |allowed| allowed.of(record.clusters.len()));
        stage_box(visit, record, stage, failures_allowed)
    });
    Some(StageGraph { title, stages: boxes.collect(), budget: None })
}

fn stage_box(visit: &Visit, record: &StageRecord, stage: &StageProgress, failures_allowed: usize) -> StageBox {
    let before = record.before.iter().map(|task| gate_mark(visit, stage, task, record.since));
    let after = record.after.iter().map(|task| gate_mark(visit, stage, task, record.since));
    let checks = record.checks.iter().map(|checks| checks_mark(checks, stage));
    // Only a stage that moves shows which clusters are next.
    let next_max = if stage.state == ProgressState::Moving { record.max_concurrency.max(NAMES_MAX) } else { 0 };
    StageBox {
        name: stage.name.clone(),
        before: before.collect(),
        after: after.chain(checks).collect(),
        state: stage.state.clone(),
        done: stage.done,
        total: stage.total,
        at_once: record.max_concurrency,
        failed: record.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Failed).count(),
        failures_allowed,
        now: names(record, ClusterPhase::Updating, usize::MAX),
        next: names(record, ClusterPhase::Pending, next_max),
    }
}

fn names(record: &StageRecord, phase: ClusterPhase, max: usize) -> Vec<String> {
    let clusters = record.clusters.iter().filter(|cluster| cluster.phase == phase);
    clusters.take(max).map(|cluster| cluster.name.to_string()).collect()
}

fn gate_mark(visit: &Visit, of: &StageProgress, task: &TaskRecord, since: Timestamp) -> GateMark {
    let people: Vec<&str> = task.approvals.iter().map(|approval| approval.by.name.as_str()).collect();
    let is_approval = task.type_ == StageTaskType::Approval;
    let wait = task.wait.and_then(|wait| jiff::SignedDuration::try_from(wait).ok());
    let name = match wait {
        _ if is_approval => "approval".to_owned(),
        Some(wait) => format!("{wait:#}"),
        None => "wait".to_owned(),
    };
    let (state, words) = match (task.done_at, task.asked_at) {
        (Some(_), _) if is_approval => (ProgressState::Done, format!("by {}", people.join(", "))),
        (Some(_), _) => (ProgressState::Done, "over".to_owned()),
        (None, Some(_)) if is_approval => {
            let required = of.gate.as_ref().map_or(1, |gate| gate.required);
            (ProgressState::WaitingForPerson, format!("{} of {required}", people.len()))
        }
        (None, Some(_)) => {
            // The daemon opens it a moment after its time.
            let end = wait.and_then(|wait| since.checked_add(wait).ok()).filter(|end| *end > visit.now);
            let left = end.map(|end| format!("{} left", crate::table::age(visit.now, end)));
            (ProgressState::Waiting, left.unwrap_or_else(|| "over soon".to_owned()))
        }
        (None, None) => (ProgressState::Queued, String::new()),
    };
    GateMark { name, words, state }
}

fn checks_mark(checks: &ChecksRecord, of: &StageProgress) -> GateMark {
    let state = match (checks.done_at, checks.asked_at) {
        (Some(_), _) => ProgressState::Done,
        (None, Some(_)) if of.state == ProgressState::Failed => ProgressState::Failed,
        (None, Some(_)) => ProgressState::Waiting,
        (None, None) => ProgressState::Queued,
    };
    let words = match check_summaries(checks).into_iter().next() {
        // Before it is asked there is no answer to show.
        Some(first) if state != ProgressState::Queued => first.state,
        _ => String::new(),
    };
    GateMark { name: "checks".to_owned(), words, state }
}

fn rolling(visit: &Visit, placed: &Placed, told: &Progress) -> StageGraph {
    let view = placed.records.view(&visit.fleet.clusters, visit.now);
    let record = view.record;
    let limits = if view.is_external() {
        None
    } else {
        Limits::resolve(record.spec.strategy.rolling_update.as_ref(), &record.annotations, told.total).ok()
    };
    let tally = cluster_tally(&view);
    let [failed, offline, moving] = ["failed", "offline", "moving"].map(|state| tally.get(state).copied().unwrap_or(0));
    let nodes = all_clusters(&view);
    let now = nodes.iter().filter(|staged| staged.node.state.0 == Style::Progressing);
    let stage = StageBox {
        name: if view.is_external() { "clusters".to_owned() } else { "rolling update".to_owned() },
        before: Vec::new(),
        after: Vec::new(),
        state: told.state.clone(),
        done: told.done,
        total: told.total,
        at_once: limits.map_or(0, |limits| limits.max_unavailable + limits.max_surge),
        failed,
        failures_allowed: limits.map_or(0, |limits| limits.max_failures),
        now: now.map(|staged| staged.node.cluster.clone()).collect(),
        next: Vec::new(),
    };
    let budget = match limits {
        Some(limits) if told.total > 0 => Some(BudgetUse {
            words: "clusters unavailable".to_owned(),
            used: failed + offline + moving,
            allowed: limits.max_unavailable,
        }),
        _ => None,
    };
    StageGraph { title: String::new(), stages: vec![stage], budget }
}

/// Returns how long the stages of a placement's run took, over what the simulation predicts of it, else over the last run that
/// succeeded; `None` where no run began.
pub(super) fn times(visit: &Visit, placed: &Placed, predicted: Option<&SimulatedRun>) -> Option<Timeline> {
    let progress = placed.progress(visit.fleet, visit.now);
    let (run, told) = shown_run(placed, &progress)?;
    let begin = began(run)?;
    let before = placed.records.runs.values().filter(|other| {
        other.phase == RunPhase::Succeeded && other.sequence < run.sequence && other.strategy == run.strategy
    });
    let before = before.max_by_key(|other| other.sequence);
    let rows = run.stages.iter().zip(&told.stages).map(|(record, stage)| {
        let last_time = before.map(|before| spans_of(before, &record.name)).unwrap_or_default();
        // Without a prediction the bars of last time are drawn: they say how long it took.
        let last = if predicted.is_some() { taken(&last_time, None) } else { None };
        TimelineRow {
            name: stage.name.clone(),
            state: stage.state.clone(),
            spans: spans(record, begin, run),
            usual: predicted.map_or(last_time, |predicted| predicted_spans(predicted, &record.name)),
            last,
        }
    });
    Some(Timeline {
        title: format!("Times of run {}", run.name),
        usual_words: if predicted.is_some() { "simulated" } else { "last time" }.to_owned(),
        rows: rows.collect(),
        now: (!run.phase.is_final()).then(|| offset(begin, visit.now)),
    })
}

/// Returns the run that a placement's first progress is about, if it began.
pub(super) fn shown_run<'a>(placed: &'a Placed, progress: &'a [Progress]) -> Option<(&'a RunRecord, &'a Progress)> {
    let told = progress.first()?;
    let run = run_of(placed, told)?;
    began(run).map(|_| (run, told))
}

fn began(run: &RunRecord) -> Option<Timestamp> {
    let asked = run.stages.iter().flat_map(|stage| &stage.before).filter_map(|task| task.asked_at);
    let started = run.stages.iter().filter_map(|stage| stage.started_at);
    asked.chain(started).min()
}

fn offset(begin: Timestamp, at: Timestamp) -> Offset {
    Offset(at.as_millisecond() - begin.as_millisecond())
}

/// Returns what happened in a stage: it waited before, moved its clusters, and waited after.
fn spans(stage: &StageRecord, begin: Timestamp, run: &RunRecord) -> Vec<TimelineSpan> {
    let end = stage.ended_at.or_else(|| run.phase.is_final().then_some(run.since));
    let checked = stage.checks.as_ref().and_then(|checks| checks.asked_at);
    let waits_before = first_asked(&stage.before);
    let waits_after = first_asked(&stage.after).into_iter().chain(checked).min();
    let times = [waits_before, stage.started_at, waits_after, end];
    three_spans(times.map(|at| at.map(|at| offset(begin, at))))
}

fn first_asked(tasks: &[TaskRecord]) -> Option<Timestamp> {
    tasks.iter().filter_map(|task| task.asked_at).min()
}

/// Returns what happened in a stage of another run, from the beginning of that.
fn spans_of(run: &RunRecord, stage: &str) -> Vec<TimelineSpan> {
    let found = began(run).zip(run.stages.iter().find(|other| other.name == stage));
    found.map(|(begin, stage)| spans(stage, begin, run)).unwrap_or_default()
}

/// Returns what the simulation predicts of a stage, from where the run begins.
fn predicted_spans(run: &SimulatedRun, stage: &str) -> Vec<TimelineSpan> {
    let Some(stage) = run.stages.iter().find(|other| other.name == stage) else { return Vec::new() };
    let [waits_before, waits_after] = [GateSide::Before, GateSide::After].map(|side| {
        let gates = stage.gates.iter().filter(|gate| gate.when == Some(side));
        gates.filter_map(|gate| gate.asked_at).min()
    });
    let all =
        run.stages.iter().flat_map(|stage| stage.gates.iter().filter_map(|gate| gate.asked_at).chain(stage.started_at));
    let begin = all.min().unwrap_or_default();
    let times = [waits_before, stage.started_at, waits_after, stage.ended_at.or(run.ended_at)];
    three_spans(times.map(|at| at.map(|at| at.since(begin))))
}

/// Returns the spans between the times at which a stage waits, moves its clusters, waits again and ends; absent times begin none.
fn three_spans([waits_before, moves, waits_after, end]: [Option<Offset>; 4]) -> Vec<TimelineSpan> {
    let all = [(true, waits_before, moves.or(end)), (false, moves, waits_after.or(end)), (true, waits_after, end)];
    all.into_iter().filter_map(|(waits, from, until)| Some(TimelineSpan { waits, from: from?, until })).collect()
}
