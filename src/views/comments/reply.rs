//! Short answers, and the texts around a rollout's comment.

use super::escape::{cell, code, plain, prose};
use super::style::CommandStyle;
use model::forge::ThreadNumber;
use model::id::CommitId;
use model::manifest::InputError;

/// Errors of a commit that a comment names; the others are counted.
pub const ERRORS_MAX: usize = 20;
/// Characters of an issue's title.
pub const TITLE_CHARS_MAX: usize = 120;

/// Answers a comment whose commands cannot be parsed. `why` comes from the grammar, and is safe.
pub fn mistaken(login: &str, why: &str) -> String {
    format!("❌ {}: nothing was done, because {why}.\n", code(login))
}

/// Links to the thread with the rollout, in the thread of another change in the same rollout.
pub fn pointer(thread: ThreadNumber) -> String {
    format!("This change is rolled out with #{thread}; follow it there.\n")
}

/// Returns the title of the issue for a commit that no pull request brought.
pub fn issue_title(commit: &CommitId, subject: Option<&str>) -> String {
    let subject = subject.map(|subject| format!(": {subject}")).unwrap_or_default();
    plain(&format!("Rollout of {}{subject}", commit.short()), TITLE_CHARS_MAX)
}

/// Returns the text of that issue.
pub fn issue_body(commit: &CommitId, branch: &str, voice: &CommandStyle) -> String {
    format!(
        "{} came to {} without a pull request. Its rollout is followed here; commands are comments here.\n\n{}",
        code(commit.short()),
        code(branch),
        help(voice)
    )
}

/// Describes why a commit on the branch is not rolled out: the position of each error.
pub fn refused_commit(commit: &CommitId, errors: &[InputError]) -> String {
    let head = format!("❌ **{} is not rolled out**: what was rolled out before stays.\n", code(commit.short()));
    let list: String = errors.iter().take(ERRORS_MAX).map(error_item).collect();
    let more = match errors.len().saturating_sub(ERRORS_MAX) {
        0 => String::new(),
        more => format!("\nand {more} more\n"),
    };
    format!("{head}\n{list}{more}")
}

fn error_item(error: &InputError) -> String {
    let line = if error.line > 0 { format!(":{}", error.line) } else { String::new() };
    let place = code(&format!("{}{line}", error.path));
    let about = [&error.object, &error.field].into_iter().flatten().map(|part| format!(" {},", code(part)));
    let about: String = about.collect();
    let hint = error.hint.as_ref().map(|hint| format!("; {}", cell(hint))).unwrap_or_default();
    format!("- {place}:{about} {}{hint}\n", prose(&error.message))
}

/// Describes that a branch does not descend from the accepted commit, and how to accept it.
pub fn held_rewrite(branch: &str, accepted: &CommitId, tip: &CommitId, voice: &CommandStyle) -> String {
    let line = voice.line("resume", None, None, tip);
    let line = line.map(|line| format!("\n```text\n{line}\n```\n")).unwrap_or_default();
    format!(
        "✋ **History was rewritten**: {} is at {}, which does not come after {}. Nothing of it is rolled out until somebody \
         accepts it.\n{line}",
        code(branch),
        code(tip.short()),
        code(accepted.short())
    )
}

/// Lists the commands, folded. They are in code, so that the list itself is no command.
pub fn help(voice: &CommandStyle) -> String {
    let rows = [
        ("approve STAGE [sha=COMMIT] [placement=NAME]", "open the gate that waits"),
        ("approve --all [sha=COMMIT]", "open every gate that waits"),
        ("reject STAGE [-- why]", "end the rollout; what is done stays"),
        ("pause [-- why]", "start nothing new"),
        ("resume", "continue"),
        ("retry [placement=NAME]", "try again what failed"),
        ("rollback [placement=NAME] [to=COMMIT]", "return to the last commit that succeeded, or to this one"),
        ("status", "update the comment"),
        ("help", "show this list"),
    ];
    let rows = rows.iter().map(|(line, what)| format!("| `{}{line}` | {what} |\n", voice.prefix()));
    let rows = rows.collect::<Vec<_>>().concat();
    format!("<details><summary>Commands</summary>\n\n| comment | does |\n|---|---|\n{rows}\n</details>\n")
}

#[cfg(test)]
mod tests;
