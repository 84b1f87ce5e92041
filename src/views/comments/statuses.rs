//! Commit statuses: one for the rollout of a commit, one per placement, one per started stage, and one for the plan.
//!
//! Contexts are `gitfleet`, `gitfleet/PLACEMENT` and `gitfleet/PLACEMENT/STAGE`. A placement with a namespace is `NAMESPACE:NAME`: a slash
//! would make it a stage of another placement, and no name contains a colon. `gitfleet/plan` is the plan's, so a placement with
//! that name is `:plan`. KubeFleet's names have at most 63 characters, so a context has fewer than 255.

use super::escape::plain;
use super::style::state_text;
use super::totals::totals;
use model::forge::{CommitStatus, StatusState};
use model::id::PlacementKey;
use model::manifest::InputError;
use model::progress::{Progress, ProgressState};

/// The context of a commit's rollout as a whole.
pub const ROLLOUT_CONTEXT: &str = "gitfleet";
/// The plan's context.
pub const PLAN_CONTEXT: &str = "gitfleet/plan";

/// Returns the context of a placement.
pub fn context(placement: &PlacementKey) -> String {
    match &placement.namespace {
        Some(namespace) => format!("gitfleet/{namespace}:{}", placement.name),
        None if placement.name == "plan" => "gitfleet/:plan".to_owned(),
        None => format!("gitfleet/{}", placement.name),
    }
}

/// Returns the status of a rollout as a whole: its placements, counted by what they do. It fails as soon as one of them fails.
pub fn rollout_status(placements: &[&Progress], chars: usize, url: Option<&str>) -> CommitStatus {
    let states: Vec<StatusState> = placements.iter().map(|progress| status_state(&progress.state)).collect();
    let worst_first = [StatusState::Failure, StatusState::Error, StatusState::Pending];
    let state = worst_first.into_iter().find(|state| states.contains(state));
    CommitStatus {
        context: ROLLOUT_CONTEXT.to_owned(),
        state: state.unwrap_or(StatusState::Success),
        description: plain(&totals(placements.iter().copied(), None), chars),
        target_url: url.map(str::to_owned),
    }
}

/// Returns the statuses of a placement: its own, then one per stage that has started and has clusters. Descriptions have at
/// most `chars` characters; `url` links to the details.
pub fn statuses(progress: &Progress, chars: usize, url: Option<&str>) -> Vec<CommitStatus> {
    let context = context(&progress.placement);
    let own = status(context.clone(), &progress.state, &description(progress), chars, url);
    let begun =
        progress.stages.iter().filter(|stage| !matches!(stage.state, ProgressState::Queued | ProgressState::Skipped));
    let stages = begun.map(|stage| {
        let text = counted(stage.done, stage.total, &stage.state, &stage.message);
        status(format!("{context}/{}", stage.name), &stage.state, &text, chars, url)
    });
    std::iter::once(own).chain(stages).collect()
}

fn status(context: String, state: &ProgressState, text: &str, chars: usize, url: Option<&str>) -> CommitStatus {
    CommitStatus {
        context,
        state: status_state(state),
        description: plain(text, chars),
        target_url: url.map(str::to_owned),
    }
}

/// Returns the status for a state. A superseded commit is no failure.
fn status_state(state: &ProgressState) -> StatusState {
    match state {
        ProgressState::Queued
        | ProgressState::Moving
        | ProgressState::WaitingForPerson
        | ProgressState::Waiting
        | ProgressState::Paused => StatusState::Pending,
        // A superseded commit did not fail, and a failure would stay on it forever.
        ProgressState::Done | ProgressState::Skipped | ProgressState::Superseded { .. } => StatusState::Success,
        ProgressState::Failed | ProgressState::Rejected | ProgressState::RolledBack { .. } => StatusState::Failure,
        ProgressState::Error => StatusState::Error,
    }
}

/// Describes the state of a placement by its current stage.
fn description(progress: &Progress) -> String {
    match progress.stages.iter().find(|stage| !stage.state.is_final()) {
        Some(stage) if !progress.state.is_final() => {
            let message = if progress.message.is_empty() { &stage.message } else { &progress.message };
            format!("{} {}", stage.name, counted(stage.done, stage.total, &progress.state, message))
        }
        _ => counted(progress.done, progress.total, &progress.state, &progress.message),
    }
}

/// Counts the finished clusters and names the state; the reason only if somebody must know it, because reasons change often.
fn counted(done: usize, total: usize, state: &ProgressState, message: &str) -> String {
    let text = match state {
        ProgressState::Superseded { .. } => return state_text(state),
        ProgressState::Done => return format!("{done}/{total} clusters"),
        state => format!("{done}/{total}, {}", state_text(state)),
    };
    let has_details = matches!(
        state,
        ProgressState::Failed
            | ProgressState::Error
            | ProgressState::Rejected
            | ProgressState::Paused
            | ProgressState::Waiting
    );
    if has_details && !message.is_empty() { format!("{text}: {message}") } else { text }
}

/// Returns the status of a refused commit on the branch.
pub fn refused_status(errors: &[InputError], chars: usize, url: Option<&str>) -> CommitStatus {
    let begin = "not rolled out: ";
    let text = format!("{begin}{}", first_error(errors, chars.saturating_sub(begin.len())));
    plan(StatusState::Failure, &text, chars, url)
}

fn plan(state: StatusState, text: &str, chars: usize, url: Option<&str>) -> CommitStatus {
    CommitStatus {
        context: PLAN_CONTEXT.to_owned(),
        state,
        description: plain(text, chars),
        target_url: url.map(str::to_owned),
    }
}

/// Returns the position of the first error and the count of the others; a long message is truncated.
fn first_error(errors: &[InputError], chars: usize) -> String {
    let Some(first) = errors.first() else { return "it cannot be taken".to_owned() };
    let line = if first.line > 0 { format!(":{}", first.line) } else { String::new() };
    let text = format!("{}{line}: {}", first.path, first.message);
    match errors.len() - 1 {
        0 => text,
        more => {
            let end = format!(" (and {more} more)");
            format!("{}{end}", plain(&text, chars.saturating_sub(end.len())))
        }
    }
}

#[cfg(test)]
mod tests;
