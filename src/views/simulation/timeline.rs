//! A simulation as a timeline for users: one part per placement, with its events and its outcome.

use super::{
    EventKind, GateType, Offset, Outcome, Simulated, SimulatedEvent, SimulatedGate, SimulatedPlacement, Wait, WaitFor,
};
use crate::tree::{Line, Style, refused_lines};
use decide::status::work::counted;
use model::id::ClusterName;
use model::names::first_of;

/// Lines of one placement's timeline; the rest is counted.
const LINES_MAX: usize = 200;
/// Clusters that a line names; the rest is counted.
const NAMES_MAX: usize = 8;
/// Width of the column with the labels of summary lines.
const LABEL_WIDTH: usize = 13;

/// Returns the timeline of every placement, each with its summary.
pub fn timeline_lines(simulated: &Simulated) -> Vec<Line> {
    if !simulated.errors.is_empty() {
        return refused_lines(&simulated.errors);
    }
    let mut lines = Vec::new();
    let changed = simulated.placements.iter().filter(|placement| !is_quiet(placement)).count();
    // Events of the whole fleet are printed once.
    if changed != 1 && simulated.events.iter().any(is_of_fleet) {
        lines.push(Line::default().with(Style::Strong, "fleet"));
        lines.extend(event_lines(&grouped(simulated.events.iter().filter(|event| is_of_fleet(event)))));
        lines.push(Line::default());
    }
    for placement in &simulated.placements {
        let name = placement.key().to_string();
        let own = simulated.events.iter().filter(|event| match &event.placement {
            Some(of) => *of == name,
            None => changed == 1 && is_of_fleet(event),
        });
        lines.extend(placement_lines(placement, &grouped(own)));
        lines.push(Line::default());
    }
    lines.push(Line::default().with(Style::Strong, total(simulated)));
    lines
}

/// Tells whether an event is of no placement alone. All times count from the first push, so that it needs no line.
fn is_of_fleet(event: &SimulatedEvent) -> bool {
    let is_first_push = event.event == EventKind::Pushed && event.at == Offset::default();
    event.placement.is_none() && !is_first_push
}

fn total(simulated: &Simulated) -> String {
    let mut done = 0;
    let mut unchanged = 0;
    let mut waiting = 0;
    let mut not_converged = 0;
    for placement in &simulated.placements {
        match placement.outcome {
            Outcome::Done if is_quiet(placement) => unchanged += 1,
            Outcome::Done => done += 1,
            Outcome::WaitsForPerson => waiting += 1,
            _ => not_converged += 1,
        }
    }
    let mut text = counted(simulated.placements.len(), "placement");
    for (number, words) in
        [(done, "done"), (unchanged, "unchanged"), (waiting, "waiting for a person"), (not_converged, "not converged")]
    {
        if number > 0 {
            text.extend([format!(", {number} {words}")]);
        }
    }
    text
}

/// Tells whether nothing happened to a placement and it needs nothing.
fn is_quiet(placement: &SimulatedPlacement) -> bool {
    placement.ended_at.is_none() && placement.outcome == Outcome::Done
}

fn placement_lines(placement: &SimulatedPlacement, groups: &[TimelineGroup<'_>]) -> Vec<Line> {
    let snapshot = placement.snapshot.map(|index| format!("  snapshot {index}")).unwrap_or_default();
    let heading = format!("{} {}", placement.kind, placement.key());
    let heading = Line::default().with(Style::Strong, heading).with(Style::Muted, snapshot);
    if is_quiet(placement) {
        return vec![heading.with(Style::Muted, "  does not change")];
    }
    let mut lines = vec![heading];
    lines.extend(event_lines(groups));
    lines.extend(summary_lines(placement));
    lines
}

fn event_lines(groups: &[TimelineGroup<'_>]) -> Vec<Line> {
    let width = groups.iter().map(|group| group.place.chars().count()).max().unwrap_or(0);
    let gap = if width == 0 { 0 } else { 2 };
    let shown = groups.iter().take(LINES_MAX).map(|group| {
        Line::default()
            .with(Style::Muted, format!("  {}  ", clock(group.at)))
            .with(Style::Plain, format!("{:1$}", group.place, width + gap))
            .with(group.style, group.text())
    });
    let mut lines: Vec<Line> = shown.collect();
    if let Some(more) = groups.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        lines.push(Line::default().with(Style::Muted, format!("  and {more} more lines; -o json shows all")));
    }
    lines
}

/// Returns a time in the form of the timeline, rounded down to the second: `T+00:01:05`.
pub fn clock(at: Offset) -> String {
    let seconds = at.0.max(0) / 1000;
    format!("T+{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Events of several clusters within a second.
struct TimelineGroup<'a> {
    at: Offset,
    place: &'a str,
    kind: EventKind,
    style: Style,
    message: &'a str,
    clusters: Vec<&'a str>,
}

fn grouped<'a>(events: impl Iterator<Item = &'a SimulatedEvent>) -> Vec<TimelineGroup<'a>> {
    let mut groups: Vec<TimelineGroup<'a>> = Vec::new();
    for event in events {
        let place = event.stage.as_deref().or(event.run.as_deref()).unwrap_or_default();
        let second = event.at.0 / 1000;
        // Events of one stage's clusters within a second are grouped by kind, not ordered by the millisecond.
        let same = groups.iter_mut().rev().take_while(|group| group.at.0 / 1000 == second).find(|group| {
            group.kind == event.event
                && group.place == place
                && group.message == event.message
                && event.cluster.is_some()
        });
        let cluster = event.cluster.as_ref().map(ClusterName::as_str);
        if let Some(group) = same {
            group.clusters.extend(cluster);
            continue;
        }
        groups.push(TimelineGroup {
            at: event.at,
            place,
            kind: event.event,
            style: style(event.event),
            message: &event.message,
            clusters: cluster.into_iter().collect(),
        });
    }
    groups
}

fn style(kind: EventKind) -> Style {
    use EventKind as E;
    match kind {
        E::ClusterSucceeded | E::ClusterRemoved | E::GateOpened => Style::Ok,
        E::ClusterFailed | E::Halted | E::RunRefused | E::ApprovalRefused | E::RollbackBegan => Style::Bad,
        E::GateAsked | E::ClusterDeferred | E::ClusterOffline => Style::Progressing,
        E::ClusterSkipped => Style::Muted,
        E::Pushed | E::RunEnded | E::RunBegan => Style::Strong,
        E::ClusterOnline | E::ClusterBegan | E::RemovalBegan => Style::Plain,
    }
}

impl TimelineGroup<'_> {
    fn text(&self) -> String {
        use EventKind as E;
        let many = self.clusters.len() > 1;
        // Only events of clusters need a verb: the message of any other is a sentence of its own.
        let (one, several) = match self.kind {
            E::Pushed
            | E::RunBegan
            | E::RunRefused
            | E::RunEnded
            | E::GateAsked
            | E::GateOpened
            | E::ApprovalRefused
            | E::Halted
            | E::RollbackBegan => ("", ""),
            E::ClusterOffline => ("does not answer", "do not answer"),
            E::ClusterOnline => ("answers again", "answer again"),
            E::ClusterBegan => ("begins", "begin"),
            E::ClusterSucceeded => ("is available", "are available"),
            E::ClusterFailed => ("fails", "fail"),
            E::ClusterDeferred => ("is deferred", "are deferred"),
            E::ClusterSkipped => ("is skipped", "are skipped"),
            E::RemovalBegan => ("starts to remove it", "start to remove it"),
            E::ClusterRemoved => ("has removed it", "have removed it"),
        };
        let verb = if many { several } else { one };
        let names = first_of(self.clusters.iter().copied(), NAMES_MAX);
        let mut words = match self.clusters.len() {
            0 => String::new(),
            1 => format!("{names} {verb}"),
            count => format!("{} {verb}: {names}", counted(count, "cluster")),
        };
        match (words.is_empty(), self.message.is_empty()) {
            (_, true) => {}
            (true, false) => words.push_str(self.message),
            (false, false) if many => words.extend(["; ", self.message]),
            (false, false) => words.extend([": ", self.message]),
        }
        words
    }
}

fn summary_lines(placement: &SimulatedPlacement) -> Vec<Line> {
    let style = match placement.outcome {
        Outcome::Done => Style::Ok,
        Outcome::WaitsForPerson | Outcome::Offline => Style::Progressing,
        _ => Style::Bad,
    };
    let mut lines = vec![labelled("outcome", style, outcome_text(placement))];
    if let Some(at) = placement.failed_at {
        let touched: Vec<&str> = placement.touched_at_failure.iter().map(ClusterName::as_str).collect();
        let names = if touched.is_empty() { "none".to_owned() } else { first_of(touched.into_iter(), NAMES_MAX) };
        let count = placement.touched_at_failure.len();
        let of = counted(placement.clusters_picked, "cluster");
        let text = format!("{count} of {of} when the failure was noticed at {}: {names}", clock(at));
        lines.push(labelled("touched", Style::Bad, text));
    }
    if let Some(wait) = &placement.longest_wait {
        lines.push(labelled("longest wait", Style::Plain, wait_text(wait)));
    }
    let gates = gate_text(placement);
    if !gates.is_empty() {
        lines.push(labelled("gates", Style::Plain, gates));
    }
    if placement.max_unavailable > 0 {
        let text = format!("at most {} at once", counted(placement.max_unavailable, "cluster"));
        lines.push(labelled("unavailable", Style::Plain, text));
    }
    lines
}

fn labelled(label: &str, style: Style, text: String) -> Line {
    Line::default().with(Style::Muted, format!("  {label:LABEL_WIDTH$} ")).with(style, text)
}

fn outcome_text(placement: &SimulatedPlacement) -> String {
    let ended = placement.ended_at.unwrap_or_default();
    let because = if placement.message.is_empty() { String::new() } else { format!(": {}", placement.message) };
    match placement.outcome {
        Outcome::Done => format!("done after {}{because}", ended.text()),
        Outcome::WaitsForPerson => format!("waits for a person since {}{because}", clock(ended)),
        Outcome::Offline => format!("waits for clusters that do not answer{because}"),
        Outcome::NotFinished => format!("not finished in time{because}"),
        // The reason already says that it halted.
        Outcome::Halted => placement.message.clone(),
        Outcome::RolledBack => format!("rolled back{because}"),
        Outcome::Failed => format!("cannot continue{because}"),
    }
}

fn wait_text(wait: &Wait) -> String {
    let long = wait.seconds.map_or_else(|| "without end".to_owned(), Offset::text);
    let cluster = wait.cluster.as_ref().map(ToString::to_string).unwrap_or_default();
    let what = match wait.for_ {
        WaitFor::Cluster => format!("for {cluster} to be done"),
        WaitFor::OfflineCluster => format!("for {cluster} to answer"),
        WaitFor::Time => "for the time to pass that the strategy waits".to_owned(),
        WaitFor::Person => "for a person".to_owned(),
    };
    let stage = wait.stage.as_ref().map(|stage| format!(", stage {stage}")).unwrap_or_default();
    let run = wait.run.as_ref().map(|run| format!(" of {run}")).unwrap_or_default();
    format!("{long} {what}{stage}{run}, from {}", clock(wait.started_at))
}

fn gate_text(placement: &SimulatedPlacement) -> String {
    let of_stages = placement
        .runs
        .iter()
        .flat_map(|run| run.stages.iter().flat_map(|stage| stage.gates.iter().map(|gate| (stage.name.as_str(), gate))));
    let own = placement.gates.iter().map(|gate| ("deletion", gate));
    let reached = of_stages.chain(own).filter(|(_, gate)| gate.asked_at.is_some());
    reached.map(|(place, gate)| format!("{place} {}", one_gate(gate))).collect::<Vec<_>>().join(", ")
}

fn one_gate(gate: &SimulatedGate) -> String {
    let (done, open) = match gate.type_ {
        GateType::TimedWait => ("waited", "still waiting"),
        GateType::Checks => ("checked for", "still checked"),
        GateType::Approval | GateType::Deletion => ("approved after", "not approved"),
    };
    match gate.waited {
        Some(waited) => format!("{done} {}", waited.text()),
        None => open.to_owned(),
    }
}
