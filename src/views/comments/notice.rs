//! Requests to people: the same text in the rollout's comment and in the short comment that sends a mail.

use super::escape::{cell, code, prose};
use super::style::{CommandStyle, when};
use crate::model::id::CommitId;
use crate::model::progress::{ClusterProgress, GateProgress, Progress, ProgressState, StageProgress};

/// Shown characters of a digest, which a command may repeat.
pub const DIGEST_CHARS: usize = 12;
/// Clusters that a notice names.
const FAILURES_MAX: usize = 5;
/// Lines of a deletion gate that a notice has.
const DELETIONS_MAX: usize = 10;

/// Something that a person must do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need<'a> {
    /// A gate waits.
    Gate {
        /// The gate.
        gate: &'a GateProgress,
        /// Its stage; absent for deletions.
        stage: Option<&'a StageProgress>,
    },
    /// The rollout failed or cannot start.
    Failure {
        /// The failed stage, if there are stages.
        stage: Option<&'a StageProgress>,
        /// The message.
        message: &'a str,
        /// The clusters without the snapshot.
        clusters: &'a [ClusterProgress],
        /// Whether a retry can succeed.
        can_retry: bool,
    },
}

/// Returns what a person must do for a placement.
pub fn needs(progress: &Progress) -> Vec<Need<'_>> {
    let gate = |stage| -> Option<Need<'_>> {
        let stage: &StageProgress = stage;
        Some(Need::Gate { gate: stage.gate.as_ref()?, stage: Some(stage) })
    };
    let mut needs: Vec<Need> = Vec::new();
    if matches!(progress.state, ProgressState::Failed | ProgressState::Error) {
        let stage = progress.stages.iter().find(|stage| stage.state == ProgressState::Failed);
        let clusters = stage.map_or(&progress.clusters, |stage| &stage.clusters);
        let message =
            if progress.message.is_empty() { stage.map_or("", |stage| &stage.message) } else { &progress.message };
        let can_retry = progress.state == ProgressState::Failed;
        needs.push(Need::Failure { stage, message, clusters, can_retry });
    }
    if !progress.state.is_final() {
        needs.extend(progress.stages.iter().filter_map(gate));
    }
    // Also after the rollout has ended: this gate protects only deletions.
    needs.extend(progress.deletions.as_ref().map(|gate| Need::Gate { gate, stage: None }));
    needs
}

/// Returns the comment that requests an action. `is_one_of_many` says that the commit also moves other placements, so that
/// commands to copy name this one.
pub fn notice(
    commit: &CommitId,
    progress: &Progress,
    need: Need<'_>,
    is_one_of_many: bool,
    voice: &CommandStyle,
) -> String {
    let text = need_text(commit, progress, need, is_one_of_many, voice);
    match need {
        Need::Gate { stage, .. } => format!("{text}\n{}\n", ways(stage.is_some(), voice)),
        Need::Failure { .. } => text,
    }
}

/// Describes how to approve, in the comment whose reactions count.
fn ways(is_stage: bool, voice: &CommandStyle) -> String {
    let review = if is_stage && voice.reviews_count { ", or approve this pull request in a review" } else { "" };
    if voice.comments_count {
        format!("To approve, write this line in a new comment, or react to this comment with 🚀{review}.")
    } else {
        format!(
            "To approve, react to this comment with 🚀{review}. The line in a comment counts only where it can be known that \
             nobody changed it."
        )
    }
}

/// Returns one paragraph about the need, and the commands to copy in a code block.
pub fn need_text(
    commit: &CommitId,
    progress: &Progress,
    need: Need<'_>,
    is_one_of_many: bool,
    voice: &CommandStyle,
) -> String {
    let placement = code(&progress.placement.to_string());
    let key = is_one_of_many.then_some(&progress.placement);
    // The snapshot's commit: a later commit may move a placement without a new snapshot.
    let commit = progress.commit.as_ref().unwrap_or(commit);
    match need {
        Need::Gate { gate, stage } => {
            let line = voice.line("approve", Some(&gate.stage), key, commit);
            let head = match stage {
                Some(stage) => format!("✋ **{placement}, stage {}**: {}", code(&stage.name), cell(&gate_text(stage))),
                None => format!("✋ **{placement}**: deletions wait for approval"),
            };
            let what = gate.what.iter().take(DELETIONS_MAX).map(|what| format!("- {}\n", prose(what)));
            let what = what.collect::<Vec<_>>().concat();
            let gap = if what.is_empty() { "" } else { "\n" };
            format!("{head}\n\n{}\n{gap}{what}{}", gate_facts(gate, voice), block(&[line]))
        }
        Need::Failure { stage, message, clusters, can_retry } => {
            let place = stage.map(|stage| format!(", stage {}", code(&stage.name))).unwrap_or_default();
            let description = if can_retry { "failed" } else { "cannot be carried out" };
            let details = if message.is_empty() { String::new() } else { format!(": {}", prose(message)) };
            let failed = clusters.iter().filter(|c| c.state == ProgressState::Failed).take(FAILURES_MAX);
            let failed = failed.map(|c| format!("- {}: {}\n", code(c.name.as_str()), prose(&c.message)));
            let text =
                format!("❌ **{placement}{place}**: {description}{details}\n\n{}", failed.collect::<Vec<_>>().concat());
            let lines = ["retry", "rollback"].map(|verb| voice.line(verb, None, key, commit));
            // The placement has an error, not a cluster: a retry would fail the same way.
            if can_retry { text + &block(&lines) } else { text + "\nFix it in git.\n" }
        }
    }
}

fn gate_text(stage: &StageProgress) -> String {
    if stage.message.is_empty() { "waits for approval".to_owned() } else { stage.message.clone() }
}

/// Describes since when a gate waits, its digest, the required approvals, and who may approve. Names are never mentions.
fn gate_facts(gate: &GateProgress, voice: &CommandStyle) -> String {
    let digest: String = gate.digest.as_str().chars().take(DIGEST_CHARS).collect();
    let people = gate.approvers.as_deref().unwrap_or(&voice.approvers);
    let people = if people.is_empty() { String::new() } else { format!("; {} may approve", code(people)) };
    let (given, required) = (gate.given, gate.required);
    format!("Waits since {}; digest {}; {given} of {required} approvals{people}.", when(gate.since), code(&digest))
}

fn block(lines: &[Option<String>]) -> String {
    let lines: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
    to_copy(&lines)
}

/// Returns commands of [`CommandStyle::line`] to copy, each in its own code block and unescaped: [`super::escape::fenced`]
/// would add a character that is copied with the command. A line with other characters than such commands have is left out.
pub fn to_copy(lines: &[&str]) -> String {
    let is_plain = |line: &&&str| line.bytes().all(|b| b.is_ascii_alphanumeric() || b" /=.-".contains(&b));
    let blocks = lines.iter().filter(is_plain).map(|line| format!("\n```text\n{line}\n```\n"));
    blocks.collect::<Vec<_>>().concat()
}
