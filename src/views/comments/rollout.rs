//! The comment about a commit's rollout: one per rollout, edited as it progresses.

use jiff::Timestamp;

use super::escape::{cell, code, prose};
use super::matrix::{details, matrix};
use super::notice::{Need, needs, request_text, requests, ways};
use super::reply::help;
use super::style::{CommandStyle, as_of, state_text};
use super::totals::{totals, urgency};
use model::id::CommitId;
use model::progress::{Progress, ProgressState};

/// Characters that a comment has at most. GitHub takes 65,536.
pub const COMMENT_CHARS_MAX: usize = 60_000;
/// Placements with a row in a comment; the others are counted.
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
    /// How many needs this comment itself asks people for: their gates may be approved by a reaction to it.
    pub asks: usize,
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

/// Returns a rollout's comment with the moment that it is of, in its first line.
pub fn stamped(body: &str, at: Timestamp) -> String {
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    format!("{first}, {}\n{rest}", as_of(at))
}

/// Returns the comment, without its marker, of at most [`COMMENT_CHARS_MAX`] characters. If it would be longer, it drops first
/// the details of finished placements, from the first on; then those of the others; then the list of commands; then the table.
/// Requests to people stay.
pub fn rollout_comment(report: &RolloutReport) -> String {
    let mut states = report.placements.iter().map(|placement| &placement.state);
    // One line: two reports that look active would send readers to the wrong one.
    if !report.placements.is_empty() && states.all(|state| matches!(state, ProgressState::Superseded { .. })) {
        let by = report.placements.iter().map(|placement| state_text(&placement.state)).max().unwrap_or_default();
        return format!("⏩ {}: {by}\n", commit_text(report));
    }
    let mut placements: Vec<&Progress> = report.placements.iter().collect();
    placements.sort_by_key(|placement| urgency(&placement.state));
    let more = placements.len().saturating_sub(PLACEMENTS_MAX);
    let shown = &placements[..placements.len() - more];
    let mut parts = vec![fixed(headline(report))];
    parts.extend(needed(report));
    if !shown.is_empty() {
        let more = if more > 0 { format!("\nand {more} more placements\n") } else { String::new() };
        parts.push(CommentPart { text: matrix(shown) + &more, rank: Some((3, 0)) });
    }
    parts.extend(shown.iter().enumerate().filter_map(|(position, placement)| {
        let rank = Some((u8::from(!placement.state.is_final()), position));
        details(placement).map(|text| CommentPart { text, rank })
    }));
    parts.extend(report.help.then(|| CommentPart { text: format!("\n{}", help(&report.voice)), rank: Some((2, 0)) }));
    fitting(parts)
}

fn fixed(text: String) -> CommentPart {
    CommentPart { text, rank: None }
}

fn fitting(mut parts: Vec<CommentPart>) -> String {
    let mut total: usize = parts.iter().map(|part| part.text.chars().count()).sum();
    let mut ranks: Vec<(u8, usize)> = parts.iter().filter_map(|part| part.rank).collect();
    ranks.sort_unstable();
    let mut is_whole = true;
    for rank in ranks {
        if total + SHORTENED.len() <= COMMENT_CHARS_MAX {
            break;
        }
        for part in parts.iter_mut().filter(|part| part.rank == Some(rank)) {
            total -= part.text.chars().count();
            part.text.clear();
        }
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
    let totals = match &report.placements[..] {
        [] => "no placement changes".to_owned(),
        placements => prose(&totals(placements, Some("placement"))),
    };
    format!("{}: {totals}\n", commit_text(report))
}

fn needed(report: &RolloutReport) -> Vec<CommentPart> {
    let Some(commit) = &report.commit else { return Vec::new() };
    let is_one_of_many = report.placements.len() > 1;
    let all: Vec<(&Progress, Need<'_>)> = report
        .placements
        .iter()
        .flat_map(|placement| needs(placement).into_iter().map(move |need| (placement, need)))
        .collect();
    let requests = requests(&all);
    let mut parts = Vec::new();
    if !requests.is_empty() {
        parts.push(fixed("\n#### Needs you\n".to_owned()));
    }
    for request in requests.iter().take(NEEDS_MAX) {
        parts.push(fixed(format!("\n{}", request_text(commit, request, is_one_of_many, &report.voice))));
    }
    let more = requests.len().saturating_sub(NEEDS_MAX);
    parts.extend((more > 0).then(|| fixed(format!("\nand {more} more\n"))));
    // A reaction to a comment that asks for nothing approves nothing.
    if report.asks > 0 {
        parts.extend(ways(&all, report.asks, &report.voice).map(|how| fixed(format!("\n{how}\n"))));
    }
    parts
}

#[cfg(test)]
mod tests;
