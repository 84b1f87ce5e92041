//! A simulation as a Gantt chart in mermaid's language, for a pull request or a document.
//!
//! Source: mermaid, syntax of `gantt`.

use crate::model::runs::ClusterPhase;
use std::fmt::Write as _;

use super::{
    EventKind, GateType, Offset, Simulated, SimulatedCluster, SimulatedEvent, SimulatedGate, SimulatedPlacement,
};

/// Clusters of one section; the rest is counted, because a longer chart is unreadable.
const TASKS_MAX: usize = 60;
/// First words that mermaid does not accept in the name of a task.
const KEYWORDS: [&str; 18] = [
    "accdescr",
    "acctitle",
    "axisformat",
    "call",
    "click",
    "dateformat",
    "excludes",
    "gantt",
    "href",
    "includes",
    "inclusiveenddates",
    "section",
    "tickinterval",
    "title",
    "todaymarker",
    "topaxis",
    "weekday",
    "weekend",
];
/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Returns the chart: a section per stage, a task per cluster, gates between them. Placements without a change are left out.
pub fn gantt(simulated: &Simulated) -> String {
    let ends = simulated.placements.iter().filter_map(|placement| placement.ended_at);
    // An unfinished item is drawn until the last event, and a little longer.
    let last = ends.max().unwrap_or_default();
    let end = Offset(last.0 + (last.0 / 20).max(1000));
    // mermaid reads and shows times without a zone in the viewer's zone: the axis starts at midnight everywhere. Seconds since
    // 1970 would not.
    let axis = if end.0 < DAY { "%H:%M:%S" } else { "%j %H:%M" };
    let mut text = format!(
        "gantt\n    title Rollout from the push of the commit\n    dateFormat YYYY-MM-DD HH:mm:ss.SSS\n    axisFormat {axis}\n    \
         todayMarker off\n"
    );
    let later = |event: &&SimulatedEvent| event.event == EventKind::Pushed && event.at > Offset::default();
    let pushes: Vec<&SimulatedEvent> = simulated.events.iter().filter(later).collect();
    if !pushes.is_empty() {
        text.push_str("    section Pushes\n");
    }
    for push in pushes {
        Chart { text: &mut text, end, has_many: false }.line(&push.message, "milestone", push.at, None);
    }
    for placement in &simulated.placements {
        let mut chart = Chart { text: &mut text, end, has_many: simulated.placements.len() > 1 };
        chart.placement(placement);
    }
    if !text.contains("    section ") {
        text.push_str("    section Nothing changes\n    pushed :milestone, 2000-01-01 00:00:00.000, 0ms\n");
    }
    text
}

struct Chart<'a> {
    text: &'a mut String,
    end: Offset,
    has_many: bool,
}

impl Chart<'_> {
    fn placement(&mut self, placement: &SimulatedPlacement) {
        let key = placement.key().to_string();
        if placement.clusters.iter().any(|cluster| cluster.started_at.is_some()) || !placement.gates.is_empty() {
            self.section(&key, &placement.gates, &placement.clusters);
        }
        let several = placement.runs.len() > 1;
        for run in &placement.runs {
            for stage in &run.stages {
                let is_shown =
                    |cluster: &SimulatedCluster| cluster.started_at.is_some() || cluster.deferred_at.is_some();
                let is_reached = stage.gates.iter().any(|gate| gate.asked_at.is_some());
                if !is_reached && !stage.clusters.iter().any(is_shown) {
                    continue;
                }
                let name = match (self.has_many, several) {
                    (false, false) => stage.name.clone(),
                    (true, false) => format!("{key} {}", stage.name),
                    (_, true) => format!("{} {}", run.name, stage.name),
                };
                self.section(&name, &stage.gates, &stage.clusters);
            }
        }
        if let Some(at) = placement.failed_at {
            self.line("failure noticed", "crit, milestone", at, None);
        }
    }

    fn section(&mut self, name: &str, gates: &[SimulatedGate], clusters: &[SimulatedCluster]) {
        writeln!(self.text, "    section {}", escaped(name)).expect("a String takes it");
        let (before, after): (Vec<_>, Vec<_>) =
            gates.iter().partition(|gate| gate.when == Some(super::GateSide::Before));
        for gate in before {
            self.gate(gate);
        }
        let shown = clusters.iter().filter(|c| c.started_at.is_some() || c.deferred_at.is_some());
        let total = shown.clone().count();
        for cluster in shown.take(TASKS_MAX) {
            self.cluster(cluster);
        }
        if let Some(more) = total.checked_sub(TASKS_MAX).filter(|more| *more > 0) {
            let rest = || clusters.iter().filter(|c| c.started_at.is_some() || c.deferred_at.is_some()).skip(TASKS_MAX);
            let start = rest().filter_map(|c| c.started_at.or(c.deferred_at)).min().unwrap_or_default();
            let end = rest().map(|c| c.ended_at.unwrap_or(self.end)).max();
            self.line(&format!("and {more} more clusters"), "", start, end);
        }
        for gate in after {
            self.gate(gate);
        }
    }

    fn gate(&mut self, gate: &SimulatedGate) {
        let Some(asked) = gate.asked_at else { return };
        let what = match gate.type_ {
            GateType::Approval => "approval",
            GateType::TimedWait => "wait",
            GateType::Checks => "checks",
            GateType::Deletion => "approval of deletions",
        };
        match gate.opened_at {
            // A bar without length is invisible.
            Some(opened) if opened == asked => self.line(what, "milestone", asked, None),
            Some(opened) => self.line(what, "crit", asked, Some(opened)),
            None => self.line(&format!("{what} does not come"), "crit, active", asked, Some(self.end)),
        }
    }

    fn cluster(&mut self, cluster: &SimulatedCluster) {
        if let Some(at) = cluster.deferred_at {
            let end = cluster.started_at.unwrap_or(self.end);
            self.line(&format!("{} does not answer", cluster.name), "", at, Some(end));
        }
        let Some(start) = cluster.started_at else { return };
        let tags = match cluster.outcome {
            ClusterPhase::Succeeded | ClusterPhase::Skipped => "done",
            ClusterPhase::Failed => "crit, done",
            _ => "active",
        };
        self.line(cluster.name.as_str(), tags, start, Some(cluster.ended_at.unwrap_or(self.end)));
    }

    /// Draws a bar, or a milestone without an end.
    fn line(&mut self, name: &str, tags: &str, start: Offset, end: Option<Offset>) {
        let comma = if tags.is_empty() { "" } else { ", " };
        let end = end.map_or_else(|| "0ms".to_owned(), date);
        writeln!(self.text, "    {} :{tags}{comma}{}, {end}", task_name(name), date(start)).expect("a String takes it");
    }
}

/// Returns a time as a date of the year 2000, which begins with the push.
fn date(at: Offset) -> String {
    let day = jiff::civil::date(2000, 1, 1).to_datetime(jiff::civil::Time::midnight());
    let at = day.saturating_add(jiff::SignedDuration::from_millis(at.0.max(0)));
    let millis = at.subsec_nanosecond() / 1_000_000;
    format!("{} {:02}:{:02}:{:02}.{millis:03}", at.date(), at.hour(), at.minute(), at.second())
}

/// Returns a name that mermaid accepts for a task.
fn task_name(name: &str) -> String {
    let name = escaped(name);
    let first = name.split(' ').next().unwrap_or_default().to_ascii_lowercase();
    let is_odd = KEYWORDS.contains(&first.as_str()) || !name.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_odd { format!("cluster {name}") } else { name }
}

/// Returns a text without characters that end a name, start a comment, or are markup.
fn escaped(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || " .-_/".contains(c) { c } else { '_' }).collect()
}
