//! What waits for a person: the longest first, with everything that is needed to decide, and the lines to copy.

use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};

use super::Visit;
use super::badge::Tone;
use super::git_host::host_link;
use super::standing::PlacementStanding;
use super::words::{act_link, cluster_link, commit_link, placement_link, placement_path, said, time, to_copy, toned};
use crate::comments::notice::{Need, needs};
use crate::fleet::Placed;
use crate::tree::who_may;
use crate::waiting::{AwaitedAnswer, Waiting};
use decide::status::rollout::RolloutState;
use decide::status::work::counted;
use model::id::PlacementKey;
use model::progress::{GateProgress, Progress, ProgressState, StageProgress};
use model::runs::DELETION_GATE;

/// Rows that one list of needs has; the rest is counted.
pub(super) const NEEDS_MAX: usize = 20;
/// Lines of objects or clusters of one need.
const DETAILS_MAX: usize = 10;

/// Something that waits for a person.
pub(super) struct Ask {
    placement: PlacementKey,
    what: NeededAnswer,
    since: Option<Timestamp>,
}

/// What is asked.
enum NeededAnswer {
    /// What people are told on the git host, too: a gate or a failure.
    Told {
        progress: Arc<[Progress]>,
        /// Which of the ways, and which of its needs.
        at: (usize, usize),
    },
    /// To resume what somebody paused, or to start a run in git.
    Untold(Waiting),
}

/// Returns what waits for a person at a placement.
pub(super) fn asks(visit: &Visit, placed: &Placed) -> Vec<Ask> {
    let shown = placed.shown(visit.fleet, visit.now);
    let state = &shown.row.state;
    let waits = matches!(state, RolloutState::WaitingForPerson(_) | RolloutState::Failed(_));
    if !waits && placed.records.record.closed_gate().is_none() {
        return Vec::new();
    }
    let progress = placed.progress(visit.fleet, visit.now);
    let placement = &placed.records.record.key;
    let untold =
        shown.waiting.iter().filter(|waiting| matches!(waiting.answer, AwaitedAnswer::Resume | AwaitedAnswer::Run));
    let untold = untold.map(|waiting| Ask {
        placement: placement.clone(),
        what: NeededAnswer::Untold(waiting.clone()),
        since: Some(waiting.since),
    });
    let mut asks: Vec<Ask> = untold.collect();
    for (way, told) in progress.iter().enumerate() {
        for (number, need) in needs(told).into_iter().enumerate() {
            let since = match need {
                Need::Gate { gate, .. } => Some(gate.since),
                Need::Failure { stage, .. } => stage.and_then(|stage| stage.ended_at.or(stage.started_at)),
            };
            let what = NeededAnswer::Told { progress: Arc::clone(&progress), at: (way, number) };
            asks.push(Ask { placement: placement.clone(), what, since });
        }
    }
    asks
}

/// Puts those first that have waited longest; what has no time comes last.
pub(super) fn longest_first(asks: &mut [Ask]) {
    asks.sort_by_key(|ask| (ask.since.unwrap_or(Timestamp::MAX), ask.placement.clone()));
}

/// Lists what waits for a person; `named` says of which placement each is.
pub(super) fn list(visit: &Visit, asks: &[Ask], named: bool) -> Markup {
    html! {
        ol.needs {
            @for ask in asks.iter().take(NEEDS_MAX) { (row(visit, ask, named)) }
        }
        @if asks.len() > NEEDS_MAX {
            p { "and " (counted(asks.len() - NEEDS_MAX, "more")) ": "
                a href=(format!("{}/?state={}", visit.site.base, PlacementStanding::Person.key())) { "placements that wait for a person" } }
        }
    }
}

fn row(visit: &Visit, ask: &Ask, named: bool) -> Markup {
    let (progress, (way, number)) = match &ask.what {
        NeededAnswer::Told { progress, at } => (progress, *at),
        NeededAnswer::Untold(waiting) => return untold_row(visit, ask, waiting, named),
    };
    let Some(told) = progress.get(way) else { return html! {} };
    let all = needs(told);
    let Some(need) = all.get(number) else { return html! {} };
    html! {
        li.need data-value=(data_value(need)) {
            @if named { span.of { (placement_link(visit.site, &ask.placement)) } " " }
            @match need {
                Need::Gate { gate, stage } => (gate_row(visit, told, gate, *stage)),
                Need::Failure { message, clusters, can_retry, .. } => {
                    (toned(Tone::Bad, if *can_retry { "failed" } else { "cannot be carried out" }))
                    @if let Some(since) = ask.since { " since " (time(since, visit.now)) }
                    p { (said(message)) }
                    ul.details {
                        @for cluster in clusters.iter().filter(|c| c.state == ProgressState::Failed).take(DETAILS_MAX) {
                            li { (cluster_link(visit.site, &cluster.name)) ": " (said(&cluster.message)) }
                        }
                    }
                    @if *can_retry { (lines(visit, told, &["retry", "rollback"], None)) } @else { p { "Fix it in git." } }
                }
            }
        }
    }
}

fn untold_row(visit: &Visit, ask: &Ask, waiting: &Waiting, named: bool) -> Markup {
    let target = word(visit, &ask.placement).unwrap_or_else(|| ask.placement.to_string());
    html! {
        li.need data-value=(said(&waiting.reason)) {
            @if named { span.of { (placement_link(visit.site, &ask.placement)) } " " }
            (toned(Tone::Person, "waits for a person")) " since " (time(waiting.since, visit.now))
            p { (said(&waiting.reason)) }
            @if waiting.answer == AwaitedAnswer::Resume {
                p.acts { (act_link(visit, "resume", &[("target", &target)])) }
            }
            @if !waiting.commands.is_empty() {
                ul.lines { @for command in &waiting.commands { li { (to_copy(command)) } } }
            }
        }
    }
}

/// Returns what tells this need from another at the same place.
fn data_value(need: &Need) -> String {
    match need {
        Need::Gate { gate, .. } => format!("{} {}", gate.digest, gate.given),
        Need::Failure { message, .. } => said(message),
    }
}

fn gate_row(visit: &Visit, told: &Progress, gate: &GateProgress, stage: Option<&StageProgress>) -> Markup {
    let name = if stage.is_some() { format!("stage {}", gate.stage) } else { "deletions".to_owned() };
    let changes = format!("{}?tab=diff", placement_path(visit.site, &told.placement));
    html! {
        (toned(Tone::Person, &format!("{name} waits for a person"))) " since " (time(gate.since, visit.now))
        p {
            b { (opens(told, gate, stage)) } ". "
            (gate.given) " of " (counted(gate.required as usize, "approval")) "; by "
            (said(&who_may(gate.approvers.as_deref(), visit.fleet.source.approvers.as_deref())))
            "; digest " code title=(gate.digest) { (gate.digest.short()) }
            @if let Some(commit) = &told.commit { "; commit " (commit_link(visit.site, commit)) " " (host_link(visit, commit)) }
            "; " a href=(changes) { "what changes" }
        }
        @if !gate.what.is_empty() {
            ul.details { @for line in gate.what.iter().take(DETAILS_MAX) { li { (said(line)) } } }
        }
        (lines(visit, told, &["approve", "reject"], Some(gate)))
    }
}

/// Says what happens when a gate opens.
fn opens(told: &Progress, gate: &GateProgress, stage: Option<&StageProgress>) -> String {
    let Some(stage) = stage else { return "opens the deletions below".to_owned() };
    let opened = if stage.started_at.is_none() {
        Some(stage)
    } else {
        // It stands after its stage: the next one with clusters begins.
        let mut later = told.stages.iter().skip_while(|stage| stage.name != gate.stage).skip(1);
        later.find(|stage| stage.total > 0)
    };
    match opened {
        Some(stage) => format!("opens stage {}: {}", stage.name, counted(stage.total, "cluster")),
        None => "is the last: no stage is left after it".to_owned(),
    }
}

/// Returns the word that commands name a placement by.
fn word(visit: &Visit, placement: &PlacementKey) -> Option<String> {
    Some(visit.fleet.placements.get(placement)?.records.word())
}

/// Offers commands: to press where the visitor may command, and as lines to copy for the terminal and for a comment.
fn lines(visit: &Visit, told: &Progress, verbs: &[&str], gate: Option<&GateProgress>) -> Markup {
    let is_of_run = gate.is_some_and(|gate| gate.stage != DELETION_GATE);
    let is_shared = visit.fleet.placements.get(&told.placement).is_some_and(|placed| placed.records.shared_name);
    let target = match &told.run {
        // The name of a run says which placement is meant only where no other placement has the name.
        Some(run) if is_of_run && !is_shared => run.clone(),
        _ => word(visit, &told.placement).unwrap_or_else(|| told.placement.to_string()),
    };
    let mut fields = vec![("target", target.as_str())];
    fields.extend(gate.iter().flat_map(|gate| [("stage", gate.stage.as_str()), ("digest", gate.digest.short())]));
    let of_gate = gate.map(|gate| format!(" {} --digest {}", gate.stage, gate.digest.short())).unwrap_or_default();
    let voice = visit.site.voice.as_ref().filter(|voice| voice.comments_count);
    let stage = gate.map(|gate| gate.stage.as_str());
    let comment = verbs.iter().find_map(|verb| voice?.line(verb, stage, Some(&told.placement), told.commit.as_ref()?));
    html! {
        p.acts { @for verb in verbs { (act_link(visit, verb, &fields)) } }
        ul.lines {
            @for verb in verbs { li { (to_copy(&format!("gitfleet {verb} {target}{of_gate}"))) } }
            @if let Some(line) = comment { li { "as a comment: " (to_copy(&line)) } }
        }
    }
}
