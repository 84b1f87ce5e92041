//! Requests to people: the same text in the rollout's comment and in the short comment that sends a mail.

use std::collections::{BTreeMap, BTreeSet};

use super::escape::{cell, code, code_cell, prose};
use super::style::{CommandStyle, when};
use model::id::CommitId;
use model::progress::{ClusterProgress, GateProgress, Progress, ProgressState, StageProgress};

/// Clusters that a notice names.
const FAILURES_MAX: usize = 5;
/// Lines of a deletion gate that a notice has.
const DELETIONS_MAX: usize = 10;
/// Placements that a request names in a line.
const NAMED_MAX: usize = 12;
/// Placements that wait at one stage and have a row with their digest.
const ROWS_MAX: usize = 50;

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
        let gates = progress.stages.iter().filter_map(|stage| Some((stage, stage.gate.as_ref()?)));
        needs.extend(gates.map(|(stage, gate)| Need::Gate { gate, stage: Some(stage) }));
    }
    // Also after the rollout has ended: this gate protects only deletions.
    needs.extend(progress.deletions.as_ref().map(|gate| Need::Gate { gate, stage: None }));
    needs
}

/// What one paragraph asks for: a need, or all gates that wait at stages of one name.
pub type NeedGroup<'a> = Vec<(&'a Progress, Need<'a>)>;

/// Puts needs together that one command answers, failures first. Deletions are approved one placement at a time.
pub fn requests<'a>(needs: &[(&'a Progress, Need<'a>)]) -> Vec<NeedGroup<'a>> {
    let mut requests: BTreeMap<(u8, String), NeedGroup<'a>> = BTreeMap::new();
    for (progress, need) in needs {
        let key = match need {
            Need::Failure { .. } => (0, progress.placement.to_string()),
            Need::Gate { stage: Some(stage), .. } => (1, stage.name.clone()),
            Need::Gate { stage: None, .. } => (2, progress.placement.to_string()),
        };
        requests.entry(key).or_default().push((progress, *need));
    }
    requests.into_values().collect()
}

/// Returns the comment that requests actions. `asks` counts all needs that it was ever written for; `is_one_of_many` says that the
/// commit also moves other placements, so that commands about a placement name it.
pub fn notice(
    commit: &CommitId,
    needs: &[(&Progress, Need<'_>)],
    asks: usize,
    is_one_of_many: bool,
    voice: &CommandStyle,
) -> String {
    let requests = requests(needs);
    let texts = requests.iter().map(|request| request_text(commit, request, is_one_of_many, voice));
    let texts: Vec<String> = texts.collect();
    let how = ways(needs, asks, voice).map(|how| format!("\n{how}\n"));
    texts.join("\n") + &how.unwrap_or_default()
}

/// Describes how to approve, in the comment whose reactions count; `None` if it asks for no approval. A reaction approves every
/// stage that the comment asks for, and deletions only if the comment never asked for anything else.
pub fn ways(needs: &[(&Progress, Need<'_>)], asks: usize, voice: &CommandStyle) -> Option<String> {
    let stages = needs.iter().filter(|(_, need)| matches!(need, Need::Gate { stage: Some(_), .. })).count();
    let deletions = needs.iter().filter(|(_, need)| matches!(need, Need::Gate { stage: None, .. })).count();
    if stages + deletions == 0 {
        return None;
    }
    if let Some(why) = voice.no_approval() {
        return Some(format!("Not approved by comment: {}.", prose(&why)));
    }
    let line = if requests(needs).len() == 1 { "this line" } else { "one of these lines" };
    // A reaction to an earlier text of the comment would approve deletions that it did not ask for then.
    if stages == 0 && asks > 1 {
        return Some(format!("To approve, write {line} in a new comment."));
    }
    let what = match (stages, deletions) {
        (2.., 0) => ", which approves all of it",
        (1.., 1..) => ", which approves all of it but deletions",
        _ => "",
    };
    let review = if stages == 1 && voice.reviews_count { ", or approve this pull request in a review" } else { "" };
    Some(if voice.comments_count {
        format!("To approve, write {line} in a new comment, or react to this comment with 🚀{what}{review}.")
    } else {
        format!(
            "To approve, react to this comment with 🚀{what}{review}. The line in a comment counts only where it can be known \
             that nobody changed it."
        )
    })
}

/// Returns the text of one request.
pub fn request_text(commit: &CommitId, request: &NeedGroup<'_>, is_one_of_many: bool, voice: &CommandStyle) -> String {
    match &request[..] {
        [(progress, need)] => need_text(commit, progress, *need, is_one_of_many, voice),
        several => stage_text(commit, several, voice),
    }
}

/// Returns the text about placements that wait at stages of one name, with one command for all of them.
fn stage_text(commit: &CommitId, gates: &[(&Progress, Need<'_>)], voice: &CommandStyle) -> String {
    let gates: Vec<(&Progress, &GateProgress, &StageProgress)> = gates
        .iter()
        .filter_map(|(progress, need)| match need {
            Need::Gate { gate, stage: Some(stage) } => Some((*progress, *gate, *stage)),
            _ => None,
        })
        .collect();
    let Some((_, first, _)) = gates.first() else { return String::new() };
    let names = gates.iter().take(NAMED_MAX).map(|(progress, ..)| code(&progress.placement.to_string()));
    let mut names: Vec<String> = names.collect();
    names.extend(gates.len().checked_sub(NAMED_MAX).filter(|more| *more > 0).map(|more| format!("and {more} more")));
    let since = gates.iter().map(|(_, gate, _)| gate.since).min().unwrap_or(first.since);
    let people: BTreeSet<&str> = gates.iter().map(|(_, gate, _)| approvers(gate, voice)).collect();
    // Where different people may approve, each row of the table says who.
    let people = match people.iter().collect::<Vec<_>>()[..] {
        [people] if !people.is_empty() => format!("; {} may approve", code(people)),
        _ => String::new(),
    };
    let line = voice.line("approve", Some(&first.stage), None, commit);
    let for_all = if line.is_some() { " For all of them:" } else { "" };
    let rows = gates.iter().take(ROWS_MAX).map(|(progress, gate, stage)| {
        let name = code_cell(&progress.placement.to_string());
        let what = cell(&gate_text(stage));
        let digest = code_cell(gate.digest.short());
        let people = code_cell(approvers(gate, voice));
        format!("| {name} | {what} | {digest} | {} of {} | {people} |\n", gate.given, gate.required)
    });
    let rows: String = rows.collect();
    format!(
        "✋ **{} placements wait at stage {}**: {}\n\nThe first waits since {}{people}.{for_all}\n{}\n\
         <details><summary>What exactly is approved</summary>\n\n| placement | waits | digest | approvals | may approve |\n\
         |---|---|---|---|---|\n{}\n</details>\n",
        gates.len(),
        code(&first.stage),
        names.join(", "),
        when(since),
        block(&[line]),
        rows
    )
}

/// Returns one paragraph about the need, and the commands to copy in a code block.
fn need_text(
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
            // A stage's name with the commit means every placement that waits there, which is this one.
            let key = if stage.is_none() { key } else { None };
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

fn approvers<'a>(gate: &'a GateProgress, voice: &'a CommandStyle) -> &'a str {
    gate.approvers.as_deref().unwrap_or(&voice.approvers)
}

fn gate_text(stage: &StageProgress) -> String {
    if stage.message.is_empty() { "waits for approval".to_owned() } else { stage.message.clone() }
}

/// Describes since when a gate waits, its digest, the required approvals, and who may approve. Names are never mentions.
fn gate_facts(gate: &GateProgress, voice: &CommandStyle) -> String {
    let since = when(gate.since);
    let digest = code(gate.digest.short());
    let GateProgress { given, required, .. } = gate;
    let people = approvers(gate, voice);
    let people = if people.is_empty() { String::new() } else { format!("; {} may approve", code(people)) };
    format!("Waits since {since}; digest {digest}; {given} of {required} approvals{people}.")
}

fn block(lines: &[Option<String>]) -> String {
    let lines: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
    to_copy(&lines)
}

/// Returns commands of [`CommandStyle::line`] to copy, each in its own code block and unescaped: [`super::escape::fenced`]
/// would add a character that is copied with the command. A line with other characters than such commands have is left out.
pub fn to_copy(lines: &[&str]) -> String {
    let plain = lines.iter().filter(|line| line.bytes().all(|b| b.is_ascii_alphanumeric() || b" /=.-".contains(&b)));
    plain.map(|line| ["\n```text\n", line, "\n```\n"].concat()).collect()
}
