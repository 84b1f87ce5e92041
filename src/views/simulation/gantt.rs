//! A simulation as a Gantt chart in mermaid's language, for a pull request or a document.
//!
//! Source: mermaid, syntax of `gantt`.

use std::fmt::Write as _;

use super::{EventKind, GateSide, GateType, Offset, Simulated, SimulatedCluster, SimulatedGate, SimulatedPlacement};
use decide::status::work::counted;
use model::runs::ClusterPhase;

/// Clusters of one section that have a bar of their own; more have one together.
const CLUSTERS_MAX: usize = 10;
/// Hundredths of the time until the end in which clusters must move for a chart to show more than waits.
const WORK_HUNDREDTHS_MIN: i64 = 10;
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

/// Returns the chart: a section per placement, a bar per stage, waits in grey between them. Placements with equal times share a
/// section; those without a change are left out.
pub fn gantt(simulated: &Simulated) -> String {
    let last = last(simulated);
    // An unfinished item is drawn until the last event, and a little longer.
    let end = Offset(last.0 + (last.0 / 20).max(1000));
    // mermaid reads and shows times without a zone in the viewer's zone: the axis starts at midnight everywhere. Seconds since
    // 1970 would not.
    let axis = if end.0 < DAY { "%H:%M:%S" } else { "%j %H:%M" };
    let mut text = format!(
        "gantt\n    title Rollout from the push of the commit\n    dateFormat YYYY-MM-DD HH:mm:ss.SSS\n    axisFormat {axis}\n    \
         todayMarker off\n"
    );
    let mut pushes = Chart { text: String::new(), end };
    for event in &simulated.events {
        // The axis begins at the first push.
        if event.event == EventKind::Pushed && event.at > Offset::default() {
            pushes.line(&event.message, "milestone", event.at, None);
        }
    }
    let mut sections: Vec<(Vec<String>, String)> = Vec::new();
    if !pushes.text.is_empty() {
        sections.push((vec!["Pushes".to_owned()], pushes.text));
    }
    for placement in &simulated.placements {
        let mut chart = Chart { text: String::new(), end };
        chart.placement(placement);
        let body = chart.text;
        match sections.iter_mut().find(|(_, known)| *known == body) {
            _ if body.is_empty() => {}
            Some((names, _)) => names.push(placement.key().to_string()),
            None => sections.push((vec![placement.key().to_string()], body)),
        }
    }
    if sections.is_empty() {
        sections.push((
            vec!["Nothing changes".to_owned()],
            "    pushed :milestone, 2000-01-01 00:00:00.000, 0ms\n".to_owned(),
        ));
    }
    for (names, body) in sections {
        let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        write!(text, "    section {}{more}\n{body}", escaped(&names[0])).expect("a String takes it");
    }
    text
}

/// Tells whether clusters move for long enough that a chart shows more than waits.
pub fn shows_work(simulated: &Simulated) -> bool {
    let last = last(simulated);
    simulated.placements.iter().any(|placement| {
        let stages = placement.runs.iter().flat_map(|run| &run.stages).map(|stage| &stage.clusters);
        let spans = stages.chain([&placement.clusters]).filter_map(|clusters| span(clusters, last));
        let moving: i64 = spans.map(|(start, end)| end.since(start).0).sum();
        moving * 100 >= last.0 * WORK_HUNDREDTHS_MIN
    })
}

fn last(simulated: &Simulated) -> Offset {
    simulated.placements.iter().filter_map(|placement| placement.ended_at).max().unwrap_or_default()
}

/// Returns when the first of these clusters began to move, and when the last one ended; `open` for one that did not.
fn span(clusters: &[SimulatedCluster], open: Offset) -> Option<(Offset, Offset)> {
    let moved = clusters.iter().filter(|cluster| cluster.started_at.is_some());
    let start = moved.clone().filter_map(|cluster| cluster.started_at).min()?;
    let end = moved.map(|cluster| cluster.ended_at.unwrap_or(open)).max()?;
    Some((start, end))
}

struct Chart {
    text: String,
    end: Offset,
}

impl Chart {
    fn placement(&mut self, placement: &SimulatedPlacement) {
        for gate in &placement.gates {
            self.gate(gate, "");
        }
        if placement.clusters.iter().filter(|cluster| cluster.started_at.is_some()).count() > CLUSTERS_MAX {
            self.together("all ", &placement.clusters);
        } else {
            for cluster in &placement.clusters {
                self.cluster(cluster);
            }
        }
        let several = placement.runs.len() > 1;
        for run in &placement.runs {
            for stage in &run.stages {
                let name = if several { format!("{} {}", run.name, stage.name) } else { stage.name.clone() };
                for gate in stage.gates.iter().filter(|gate| gate.when == Some(GateSide::Before)) {
                    self.gate(gate, &format!(" before {name}"));
                }
                self.together(&format!("{name} - "), &stage.clusters);
                for gate in stage.gates.iter().filter(|gate| gate.when == Some(GateSide::After)) {
                    self.gate(gate, &format!(" after {name}"));
                }
            }
        }
        if let Some(at) = placement.failed_at {
            self.line("failure noticed", "crit, milestone", at, None);
        }
    }

    /// Draws one bar for clusters that move together, and one for each of those that failed or do not answer.
    fn together(&mut self, name: &str, clusters: &[SimulatedCluster]) {
        if let Some((start, end)) = span(clusters, self.end) {
            let moved: Vec<_> = clusters.iter().filter(|cluster| cluster.started_at.is_some()).collect();
            let is_open = moved.iter().any(|cluster| cluster.ended_at.is_none());
            let tags = if is_open { "active" } else { "" };
            self.line(&format!("{name}{}", counted(moved.len(), "cluster")), tags, start, Some(end));
        }
        let odd =
            clusters.iter().filter(|cluster| cluster.deferred_at.is_some() || cluster.outcome == ClusterPhase::Failed);
        for cluster in odd.take(CLUSTERS_MAX) {
            self.cluster(cluster);
        }
    }

    fn gate(&mut self, gate: &SimulatedGate, place: &str) {
        let Some(asked) = gate.asked_at else { return };
        let what = match gate.type_ {
            GateType::Approval => "approval",
            GateType::TimedWait => "wait",
            GateType::Checks => "checks",
            GateType::Deletion => "approval of deletions",
        };
        match gate.opened_at {
            // A bar without length is invisible.
            Some(opened) if opened == asked => self.line(&format!("{what}{place}"), "milestone", asked, None),
            // Drawn in grey: a wait is no error.
            Some(opened) => self.line(&format!("{what}{place}"), "done", asked, Some(opened)),
            None => self.line(&format!("{what}{place} does not come"), "done", asked, Some(self.end)),
        }
    }

    fn cluster(&mut self, cluster: &SimulatedCluster) {
        if let Some(at) = cluster.deferred_at {
            let end = cluster.started_at.unwrap_or(self.end);
            self.line(&format!("{} does not answer", cluster.name), "done", at, Some(end));
        }
        let Some(start) = cluster.started_at else { return };
        let tags = match cluster.outcome {
            ClusterPhase::Succeeded | ClusterPhase::Skipped => "",
            ClusterPhase::Failed => "crit",
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
