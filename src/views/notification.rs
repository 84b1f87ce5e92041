//! Notifications: journal entries that are sent to receivers, as CloudEvents and as texts for chat services.
//!
//! A notification depends on its journal entry alone. So it is the same whenever it is sent, after a restart too.

use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use decide::status::staged_run::command_name;
use model::id::{Digest, PlacementKey};
use model::journal::JournalKind;
use model::notification::{NotificationKind, NotificationTemplate};
use model::records::JournalEntry;
use model::runs::DELETION_GATE;
use model::text::one_line;

/// Characters of a message; chat services cut longer ones, or refuse them.
pub const MESSAGE_CHARS_MAX: usize = 1_000;
/// Characters of a commit that a sentence shows.
const COMMIT_SHOWN: usize = 7;

/// A CloudEvent 1.0 in structured mode: the whole event is the body.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CloudEvent {
    /// `1.0`.
    pub specversion: &'static str,
    /// Names the event: the same each time that it is sent.
    pub id: String,
    /// Names the daemon's source: `/gitfleet/` and the source's identity, percent-encoded.
    pub source: String,
    /// What happened.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// The placement as `NAME` or `NAMESPACE/NAME`; the commit where the event is about a commit.
    pub subject: String,
    /// When it happened.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: Timestamp,
    /// `application/json`.
    pub datacontenttype: &'static str,
    /// The facts.
    pub data: NotificationData,
}

/// The facts of a notification. What is not known, or does not concern the kind, is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NotificationData {
    /// One sentence for people. It may contain text from the repository and from clusters.
    pub message: String,
    /// The identity of the daemon's source.
    pub source: String,
    /// The placement, as `NAME` or `NAMESPACE/NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// The run, by its name in commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The stage whose gate waits; `deletion` for deletions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The index of the snapshot; of a rollback the one that clusters leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// The index of the snapshot that clusters return to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The commit: the snapshot's, or the one that is not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The digest that an approval names. That of deletions may change while they wait; a command prints the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The number of errors in the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// A command that a person may want to run next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationBody {
    /// Its media type.
    pub content_type: &'static str,
    /// Its text.
    pub text: String,
}

/// Returns what an entry of the journal is told as, by its number; `None` if it is told to nobody. `source` is the identity of the
/// daemon's source.
pub fn notification(number: u64, entry: &JournalEntry, source: &str) -> Option<(NotificationKind, CloudEvent)> {
    let kind = kind(entry)?;
    let data = data(kind, entry, source);
    let subject = data.placement.clone().or_else(|| data.commit.clone()).unwrap_or_default();
    let encoded: String = form_urlencoded::byte_serialize(source.as_bytes()).collect();
    let event = CloudEvent {
        specversion: "1.0",
        // A restored store may give a number again, but not at the same instant.
        id: format!("{}-{number}", entry.at.as_millisecond()),
        source: format!("/gitfleet/{encoded}"),
        type_: kind.event_type(),
        subject,
        time: entry.at,
        datacontenttype: "application/json",
        data,
    };
    Some((kind, event))
}

fn kind(entry: &JournalEntry) -> Option<NotificationKind> {
    Some(match entry.event {
        JournalKind::ApprovalRequested | JournalKind::DeletionsHeld => NotificationKind::GateWaiting,
        JournalKind::RolloutHalted => NotificationKind::RolloutHalted,
        JournalKind::CommitRefused => NotificationKind::CommitRefused,
        JournalKind::CommitHeld => NotificationKind::CommitHeld,
        JournalKind::RolledBack => NotificationKind::RolledBack,
        JournalKind::RolloutSucceeded => NotificationKind::RolloutDone,
        _ => return None,
    })
}

fn data(kind: NotificationKind, entry: &JournalEntry, source: &str) -> NotificationData {
    let is_deletion = entry.event == JournalKind::DeletionsHeld;
    let run = text(entry, "run").map(|run| entry.placement.as_ref().map_or(run.clone(), |key| command_name(key, &run)));
    let data = NotificationData {
        message: String::new(),
        source: one_line(source).into_owned(),
        placement: entry.placement.as_ref().map(ToString::to_string),
        run,
        stage: if is_deletion { Some(DELETION_GATE.to_owned()) } else { text(entry, "stage") },
        snapshot: number(entry, "from").or_else(|| number(entry, "snapshot")),
        to: number(entry, "to"),
        commit: text(entry, "commit"),
        digest: text(entry, "digest"),
        errors: number(entry, "errors"),
        command: None,
    };
    let why = text(entry, "why").or_else(|| text(entry, "message")).unwrap_or_default();
    let message = sentence(kind, &data, &why).chars().take(MESSAGE_CHARS_MAX).collect();
    NotificationData { message, command: command(kind, &data, entry.placement.as_ref()), ..data }
}

/// Returns a fact as one line of text.
fn text(entry: &JournalEntry, name: &str) -> Option<String> {
    let text = entry.facts.get(name)?.as_str()?;
    Some(one_line(text).into_owned())
}

fn number(entry: &JournalEntry, name: &str) -> Option<u64> {
    entry.facts.get(name)?.as_u64()
}

/// Says in one sentence what happened, and what of.
fn sentence(kind: NotificationKind, data: &NotificationData, why: &str) -> String {
    let name = data.placement.as_deref().unwrap_or_default();
    let commit: String = data.commit.iter().flat_map(|commit| commit.chars().take(COMMIT_SHOWN)).collect();
    let run = data.run.as_deref().unwrap_or_default();
    let stage = data.stage.as_deref().unwrap_or_default();
    let snapshot = match data.snapshot {
        Some(index) if commit.is_empty() => format!("snapshot {index}"),
        Some(index) => format!("snapshot {index} (commit {commit})"),
        None => "its snapshot".to_owned(),
    };
    match kind {
        // Deletions are of no run and no stage.
        NotificationKind::GateWaiting if stage == DELETION_GATE => {
            format!("{name} waits for an approval of deletions: {why}")
        }
        NotificationKind::GateWaiting => {
            let digest = data.digest.as_deref().map(Digest::from);
            let digest = digest.as_ref().map_or("", Digest::short);
            format!("{name} waits for an approval: {snapshot}, stage {stage} of run {run}, digest {digest}")
        }
        NotificationKind::RolloutHalted => format!("the rollout of {name} halted at {snapshot}: {why}"),
        NotificationKind::CommitRefused => {
            let more = data.errors.unwrap_or_default().saturating_sub(1);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!("commit {commit} is refused, the last good one stays accepted: {why}{more}")
        }
        NotificationKind::CommitHeld => format!("commit {commit} waits until a person accepts it: {why}"),
        NotificationKind::RolledBack => {
            let to = data.to.map_or_else(|| "an earlier snapshot".to_owned(), |to| format!("snapshot {to}"));
            format!("{name} returns from {snapshot} to {to}: {why}")
        }
        NotificationKind::RolloutDone => format!("{name} is rolled out: {snapshot} is available on all its clusters"),
    }
}

/// Returns the command that a person may want to run next. It names the placement in full and the digest of the gate: it may be read when
/// something else has the name, or waits there.
fn command(kind: NotificationKind, data: &NotificationData, placement: Option<&PlacementKey>) -> Option<String> {
    let placement = placement.map(PlacementKey::qualified);
    match kind {
        NotificationKind::GateWaiting => {
            let stage = data.stage.as_deref()?;
            // That of deletions may change while they wait.
            let digest = if stage == DELETION_GATE { None } else { data.digest.as_deref() };
            let digest = digest.map(|digest| format!(" --digest {}", Digest::from(digest).short()));
            Some(format!("gitfleet approve {} {stage}{}", placement?, digest.unwrap_or_default()))
        }
        NotificationKind::RolloutHalted => Some(format!("gitfleet retry {}", placement?)),
        NotificationKind::CommitHeld => Some("gitfleet resume".to_owned()),
        NotificationKind::CommitRefused | NotificationKind::RolledBack | NotificationKind::RolloutDone => None,
    }
}

/// Returns a notification in the form that a receiver takes.
pub fn body(template: NotificationTemplate, event: &CloudEvent) -> NotificationBody {
    let data = &event.data;
    let (content_type, text) = match template {
        NotificationTemplate::CloudEvents => ("application/cloudevents+json; charset=utf-8", json!(event).to_string()),
        NotificationTemplate::Slack => ("application/json", slack(data).to_string()),
        NotificationTemplate::Teams => ("application/json", teams(data).to_string()),
        NotificationTemplate::Plain => {
            let mut text = format!("{}\n", data.message);
            if let Some(command) = &data.command {
                writeln!(text, "{command}").expect("writing to a String cannot fail");
            }
            ("text/plain; charset=utf-8", text)
        }
    };
    NotificationBody { content_type, text }
}

fn slack(data: &NotificationData) -> Value {
    let mut text = slack_text(&data.message);
    if let Some(command) = &data.command {
        write!(text, "\n`{}`", slack_text(command)).expect("writing to a String cannot fail");
    }
    json!({ "text": text })
}

/// Source: Slack, "Formatting text for app surfaces": these three characters begin mentions and links.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Source: Adaptive Cards 1.2.
fn teams(data: &NotificationData) -> Value {
    let mut blocks = vec![teams_block(&data.message, "Default")];
    blocks.extend(data.command.iter().map(|command| teams_block(command, "Monospace")));
    json!({"type": "message", "attachments": [{
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard", "version": "1.2", "body": blocks,
        },
    }]})
}

/// A `RichTextBlock` shows text as it is; a `TextBlock` would make links of it.
fn teams_block(text: &str, font: &str) -> Value {
    json!({"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, "fontType": font}]})
}

#[cfg(test)]
mod tests;
