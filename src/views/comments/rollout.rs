//! The comment about a commit's rollout: one per rollout, edited as it progresses.

use super::escape::{cell, code, code_cell, prose};
use super::notice::{need_text, needs};
use super::reply::help;
use super::style::{CommandStyle, sign, state_text, when};
use crate::model::id::CommitId;
use crate::model::progress::{ClusterProgress, Progress, ProgressState, StageProgress};

/// Characters that a comment has at most. GitHub takes 65,536.
pub const COMMENT_CHARS_MAX: usize = 60_000;
/// Placements with a section in a comment; the others are counted.
pub const PLACEMENTS_MAX: usize = 50;
/// Requests to people in one comment; the others are counted.
pub const NEEDS_MAX: usize = 10;

const MARKER: &str = "<!-- gitfleet:v1 id=";
const SHORTENED: &str = "\nDetails were left out: the comment would be too long.\n";

/// The contents of a rollout's comment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutReport {
    /// The commit; it is shown in full if the short form is ambiguous.
    pub commit: Option<CommitId>,
    /// The first line of its message.
    pub subject: Option<String>,
    /// The progress of each placement that it moves, sorted by name.
    pub placements: Vec<Progress>,
    /// Somebody asked for the commands.
    pub help: bool,
    /// The style of commands.
    pub voice: CommandStyle,
}

/// Returns the hidden first line of gitfleet's comments: the id of the comment and the sequence number of its text.
pub fn marker(id: &str, seq: u64) -> String {
    let id: String = id.chars().filter(|c| is_of_id(*c)).collect();
    format!("{MARKER}{id} seq={seq} -->\n")
}

/// Returns the id in a comment's first line. Anybody can write one, so check the comment's author.
pub fn marker_id(body: &str) -> Option<&str> {
    let (id, rest) = body.strip_prefix(MARKER)?.split_once(' ')?;
    let is_whole = rest.lines().next()?.strip_prefix("seq=")?.strip_suffix(" -->")?.bytes().all(|b| b.is_ascii_digit());
    (is_whole && !id.is_empty() && id.chars().all(is_of_id)).then_some(id)
}

fn is_of_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '.' || c == '_'
}

/// A part of a comment. Parts without a rank stay; otherwise the lowest rank is dropped first.
struct CommentPart {
    text: String,
    rank: Option<(u8, usize)>,
}

/// Returns the comment, without its marker, of at most [`COMMENT_CHARS_MAX`] characters. If it would be longer, it drops first
/// the text of finished stages, from the first on; then that of other stages; then tables. Requests to people stay.
pub fn rollout_comment(report: &RolloutReport) -> String {
    let all_superseded = || report.placements.iter().all(|p| matches!(p.state, ProgressState::Superseded { .. }));
    // One line: two reports that look active would send readers to the wrong one.
    if !report.placements.is_empty() && all_superseded() {
        let by = report.placements.iter().map(|placement| state_text(&placement.state)).max().unwrap_or_default();
        return format!("⏩ {}: {by}\n", commit_text(report));
    }
    let mut parts = vec![fixed(headline(report))];
    parts.extend(needed(report));
    for (position, placement) in report.placements.iter().take(PLACEMENTS_MAX).enumerate() {
        parts.extend(placement_parts(placement, position));
    }
    let more = report.placements.len().saturating_sub(PLACEMENTS_MAX);
    parts.extend((more > 0).then(|| fixed(format!("\nand {more} more placements\n"))));
    parts.extend(report.help.then(|| CommentPart { text: format!("\n{}", help(&report.voice)), rank: Some((3, 0)) }));
    fitting(parts)
}

fn fixed(text: String) -> CommentPart {
    CommentPart { text, rank: None }
}

fn fitting(mut parts: Vec<CommentPart>) -> String {
    let length = |part: &CommentPart| part.text.chars().count();
    let mut total: usize = parts.iter().map(length).sum();
    let mut ranks: Vec<(u8, usize)> = parts.iter().filter_map(|part| part.rank).collect();
    ranks.sort_unstable();
    let mut is_whole = true;
    for rank in ranks {
        if total + SHORTENED.len() <= COMMENT_CHARS_MAX {
            break;
        }
        let gone = parts.iter_mut().filter(|part| part.rank == Some(rank));
        gone.for_each(|part| {
            total -= length(part);
            part.text.clear();
        });
        is_whole = false;
    }
    let mut text: String = parts.into_iter().map(|part| part.text).collect();
    if !is_whole {
        text.push_str(SHORTENED);
    }
    text
}

fn commit_text(report: &RolloutReport) -> String {
    let commit = report.commit.as_ref().map(|commit| format!(" of {}", code(commit.short()))).unwrap_or_default();
    let subject = report.subject.as_ref().filter(|subject| !subject.is_empty());
    format!("**Rollout{commit}**{}", subject.map(|subject| format!(" ({})", cell(subject))).unwrap_or_default())
}

fn headline(report: &RolloutReport) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for placement in &report.placements {
        let description = match &placement.state {
            // Counted together, whichever commits superseded them.
            ProgressState::Superseded { .. } => "superseded".to_owned(),
            ProgressState::RolledBack { .. } => "rolled back".to_owned(),
            state => state_text(state),
        };
        match counts.iter_mut().find(|(known, _)| *known == description) {
            Some((_, count)) => *count += 1,
            None => counts.push((description, 1)),
        }
    }
    let counts: Vec<String> = match &counts[..] {
        [] => vec!["no placement changes".to_owned()],
        counts => counts.iter().map(|(description, count)| format!("{count} {description}")).collect(),
    };
    format!("{}: {}\n", commit_text(report), counts.join(", "))
}

fn needed(report: &RolloutReport) -> Vec<CommentPart> {
    let Some(commit) = &report.commit else { return Vec::new() };
    let is_one_of_many = report.placements.len() > 1;
    let all = || {
        report.placements.iter().flat_map(|placement| needs(placement).into_iter().map(move |need| (placement, need)))
    };
    let texts = all()
        .take(NEEDS_MAX)
        .map(|(p, need)| fixed(format!("\n{}", need_text(commit, p, need, is_one_of_many, &report.voice))));
    let mut parts: Vec<CommentPart> = texts.collect();
    if !parts.is_empty() {
        parts.insert(0, fixed("\n#### Needs you\n".to_owned()));
    }
    let more = all().count().saturating_sub(NEEDS_MAX);
    parts.extend((more > 0).then(|| fixed(format!("\nand {more} more\n"))));
    parts
}

fn placement_parts(placement: &Progress, position: usize) -> Vec<CommentPart> {
    let name = code(&placement.placement.to_string());
    let description = format!("{} {name}: {}", sign(&placement.state), state_text(&placement.state));
    if matches!(placement.state, ProgressState::Superseded { .. }) {
        return vec![CommentPart { text: format!("\n{description}\n"), rank: Some((2, position)) }];
    }
    let message = if placement.message.is_empty() { String::new() } else { format!(" ({})", cell(&placement.message)) };
    let mut text = format!("\n#### {description}, {}/{} clusters{message}\n", placement.done, placement.total);
    if !placement.stages.is_empty() {
        text.push_str("\n| stage | clusters | state | who and when |\n|---|---|---|---|\n");
        placement.stages.iter().for_each(|stage| text.push_str(&row(stage)));
    }
    let mut parts = vec![CommentPart { text, rank: Some((2, position)) }];
    for (order, stage) in placement.stages.iter().enumerate() {
        let rank = (u8::from(!stage.state.is_final()), order);
        let title = format!("{name_of}: clusters", name_of = cell(&stage.name));
        parts.extend(details(&title, &stage.clusters).map(|text| CommentPart { text, rank: Some(rank) }));
    }
    parts.extend(details("clusters", &placement.clusters).map(|text| CommentPart { text, rank: Some((1, 0)) }));
    parts
}

fn row(stage: &StageProgress) -> String {
    let people: Vec<String> = stage.approved_by.iter().map(|person| code_cell(person)).collect();
    let people = if people.is_empty() { None } else { Some(format!("approved by {}", people.join(", "))) };
    let time = match (stage.started_at, stage.ended_at) {
        (_, Some(at)) => Some(format!("ended {}", when(at))),
        (Some(at), None) => Some(format!("since {}", when(at))),
        (None, None) => None,
    };
    let facts: Vec<String> = people.into_iter().chain(time).collect();
    let is_said_by_message = matches!(stage.state, ProgressState::WaitingForPerson | ProgressState::Waiting);
    let description = match &*stage.message {
        "" => state_text(&stage.state),
        message if is_said_by_message => cell(message),
        message => format!("{}: {}", state_text(&stage.state), cell(message)),
    };
    let (name, sign) = (code_cell(&stage.name), sign(&stage.state));
    format!("| {name} | {}/{} | {sign} {description} | {} |\n", stage.done, stage.total, facts.join(", "))
}

/// Returns a folded table of clusters; the title is safe.
fn details(title: &str, clusters: &[ClusterProgress]) -> Option<String> {
    if clusters.is_empty() {
        return None;
    }
    let row = |cluster: &ClusterProgress| {
        let (name, sign) = (code_cell(cluster.name.as_str()), sign(&cluster.state));
        format!("| {name} | {sign} {} | {} |\n", state_text(&cluster.state), prose(&cluster.message))
    };
    let rows = clusters.iter().map(row).collect::<Vec<_>>().concat();
    let head = "| cluster | state | message |\n|---|---|---|\n";
    Some(format!("\n<details><summary>{title}</summary>\n\n{head}{rows}\n</details>\n"))
}

#[cfg(test)]
mod tests;
