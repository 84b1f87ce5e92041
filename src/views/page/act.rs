//! Commands: first what would happen, with digest and differences; after that what happened.

use maud::{Markup, html};

use super::badge::Tone;
use super::words::{commit_link, placement_path, said, toned};
use super::{HtmlPage, Visit, changes};
use crate::fleet::Placed;
use decide::status::work::counted;
use model::commands::{Command, Refusal, Verb, WaitingGate};
use model::runs::DELETION_GATE;
use model::target::TargetWord;

/// Clusters that are named; the rest is counted.
const CLUSTERS_MAX: usize = 50;
/// Characters of a reason.
const REASON_CHARS_MAX: usize = 500;

/// The commands that the page offers.
const VERBS: [Verb; 6] = [Verb::Approve, Verb::Reject, Verb::Pause, Verb::Resume, Verb::Retry, Verb::Rollback];

/// Reads a command from the query of an address or from a form; `None` where it is none that the page offers.
pub fn command(fields: &[(String, String)]) -> Option<Command> {
    let word = given(fields, "verb")?;
    let verb = VERBS.into_iter().find(|verb| verb.to_string() == word)?;
    let to = match given(fields, "to") {
        Some(to) => Some(to.parse().ok()?),
        None => None,
    };
    Some(Command {
        stage: given(fields, "stage"),
        digest: given(fields, "digest"),
        to,
        message: given(fields, "message").map(|message| message.chars().take(REASON_CHARS_MAX).collect()),
        ..Command::new(verb, given(fields, "target").unwrap_or_default())
    })
}

/// Returns the value of a field; `None` where it is empty, as forms send what was not filled in.
fn given(fields: &[(String, String)], name: &str) -> Option<String> {
    let (_, value) = fields.iter().find(|(key, _)| key == name)?;
    let value = value.trim();
    if value.is_empty() { None } else { Some(value.to_owned()) }
}

/// Tells whether what a command would do can be shown before: it opens or closes a gate, or returns to a snapshot.
pub fn has_preview(verb: Verb) -> bool {
    matches!(verb, Verb::Approve | Verb::Reject | Verb::Rollback)
}

/// Returns the placement that a target names: itself, or by one of its runs.
pub fn placed_of<'a>(visit: &Visit<'a>, target: &str) -> Option<&'a Placed> {
    let target = TargetWord::read(target);
    let wanted = target.placement();
    let placements = &visit.fleet.placements;
    if let Some(placed) = placements.get(&wanted)
        && target.is_placement(&placed.records.record.key)
    {
        return Some(placed);
    }
    let run = target.name();
    let by_run = placements.values().find(|placed| {
        let key = &placed.records.record.key;
        key.namespace == wanted.namespace && target.is_run(key, run) && placed.records.runs.contains_key(run)
    });
    by_run.map(AsRef::as_ref)
}

/// Asks whether a command is to be sent. `preview` says what it would do, where that can be said before.
pub fn question(visit: &Visit, command: &Command, preview: Option<&Result<WaitingGate, Refusal>>) -> HtmlPage {
    let placed = placed_of(visit, &command.target);
    let title = title(command);
    let main = html! {
        h1 { (title) }
        @match preview {
            Some(Err(refusal)) => { p.warning role="alert" { (toned(Tone::Bad, &refusal.message)) } }
            Some(Ok(gate)) => { (shown(visit, command, gate, placed)) (form(visit, command, Some(gate))) }
            None => { p { (effect(command)) } (form(visit, command, None)) }
        }
        (back(visit, placed))
    };
    HtmlPage::still(title, main)
}

/// Says what came of a command.
pub fn answer(visit: &Visit, command: &Command, done: &Result<String, String>) -> HtmlPage {
    let title = title(command);
    let main = html! {
        h1 { (title) }
        @match done {
            Ok(message) => { p role="status" { (toned(Tone::Ok, message)) } }
            Err(why) => { p.warning role="alert" { (toned(Tone::Bad, &format!("refused: {why}"))) } }
        }
        (back(visit, placed_of(visit, &command.target)))
    };
    HtmlPage::still(title, main)
}

fn title(command: &Command) -> String {
    let mut verb = command.verb.to_string();
    if let Some(first) = verb.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let target = if command.target.is_empty() { "the source" } else { &command.target };
    match &command.stage {
        Some(stage) => format!("{verb} {target}, {stage}"),
        None => format!("{verb} {target}"),
    }
}

fn effect(command: &Command) -> &'static str {
    match command.verb {
        Verb::Pause => "Nothing new starts for it until somebody resumes it. What moves already comes to its end.",
        Verb::Resume if command.target.is_empty() => "The rewritten history is accepted.",
        Verb::Resume => "It continues where it was paused.",
        Verb::Retry => "Failed clusters are tried again, and a snapshot that was held may be rolled out.",
        Verb::Approve | Verb::Reject | Verb::Rollback | Verb::Adopt | Verb::Enroll | Verb::Revoke => "",
    }
}

fn shown(visit: &Visit, command: &Command, gate: &WaitingGate, placed: Option<&Placed>) -> Markup {
    let records = placed.map(|placed| &placed.records);
    let newest = records.and_then(|records| records.snapshots.values().next_back());
    let back = gate.snapshot.and_then(|index| records?.snapshots.get(&index));
    let last = records.and_then(|records| records.snapshots.get(&records.record.last_succeeded?));
    // A rollback changes what is there now; a gate lets the newest snapshot follow the last one that was rolled out.
    let (from, to) = match command.verb {
        Verb::Rollback => (newest, back),
        _ => (last.filter(|last| Some(last.index) != newest.map(|newest| newest.index)), newest),
    };
    html! {
        p { b { (said(&gate.opens)) } }
        @if command.verb == Verb::Reject { p { "Rejecting ends the rollout: the snapshot is not rolled out again until somebody says retry." } }
        dl.facts {
            @if !gate.stage.is_empty() { dt { "gate" } dd { (gate.stage) } }
            dt { "digest" } dd { code { (gate.digest) } }
            @if let Some(to) = to { dt { "commit" } dd { (commit_link(visit.site, &to.commit)) } }
            dt { "clusters" }
            dd {
                (gate.clusters.len()) ": "
                @for (number, cluster) in gate.clusters.iter().take(CLUSTERS_MAX).enumerate() { @if number > 0 { ", " } (cluster) }
                @if gate.clusters.len() > CLUSTERS_MAX { " and " (counted(gate.clusters.len() - CLUSTERS_MAX, "more")) }
            }
        }
        @if gate.stage == DELETION_GATE { (deletions(placed)) }
        @if let Some(to) = to { h2 { "What changes" } (changes::objects(visit, from.map(AsRef::as_ref), to)) }
    }
}

/// Lists what a deletion gate lets go.
fn deletions(placed: Option<&Placed>) -> Markup {
    let gate = placed.and_then(|placed| placed.records.record.closed_gate());
    html! {
        @if let Some(gate) = gate {
            h2 { "What is deleted" }
            ul {
                @for (cluster, objects) in gate.deletions.iter().take(CLUSTERS_MAX) {
                    li { (cluster) ": " (said(&objects.iter().take(CLUSTERS_MAX).map(ToString::to_string).collect::<Vec<_>>().join(", ")))
                        @if objects.len() > CLUSTERS_MAX { " and " (counted(objects.len() - CLUSTERS_MAX, "more object")) } }
                }
                @if gate.deletions.len() > CLUSTERS_MAX { li { "and " (counted(gate.deletions.len() - CLUSTERS_MAX, "more cluster")) } }
            }
        }
    }
}

/// The form that sends the command: with the digest of the gate that was shown, and of no other.
fn form(visit: &Visit, command: &Command, gate: Option<&WaitingGate>) -> Markup {
    // A rollback opens no gate: only the snapshot of what was shown is sent.
    let opened = if command.verb == Verb::Rollback { None } else { gate };
    let stage = opened.map(|gate| gate.stage.clone()).or_else(|| command.stage.clone());
    let digest = opened.map(|gate| gate.digest.to_string());
    let to = gate.and_then(|gate| gate.snapshot).or(command.to).map(|to| to.to_string());
    let fields = [
        ("verb", Some(command.verb.to_string())),
        ("target", Some(command.target.clone())),
        ("stage", stage),
        ("digest", digest),
        ("to", to),
        ("form", Some(visit.visitor.form_token.to_owned())),
    ];
    html! {
        form.act-form method="post" action=(format!("{}/act", visit.site.base)) {
            @for (name, value) in fields { @if let Some(value) = value { input type="hidden" name=(name) value=(value); } }
            label for="act-message" { "Why, for the journal (may be empty)" }
            input #act-message name="message" maxlength=(REASON_CHARS_MAX) autocomplete="off";
            button #act-send type="submit" { (title(command)) }
        }
    }
}

fn back(visit: &Visit, placed: Option<&Placed>) -> Markup {
    html! {
        p {
            @match placed {
                Some(placed) => { a href=(placement_path(visit.site, &placed.records.record.key)) { "back to " (placed.records.record.key) } }
                None => { a href=(format!("{}/", visit.site.base)) { "back to the fleet" } }
            }
        }
    }
}
