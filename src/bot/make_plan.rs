//! Makes the plan of a pull request beside the bot: a large one takes a second, and texts about rollouts do not wait for it.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::handles::Handles;
use super::records::Planned;
use super::settings::Settings;
use super::source_request::{CandidateError, SourceRequest};
use config::PlanContent;
use model::forge::{StatusState, ThreadNumber};
use model::id::CommitId;
use plan::Baseline;
use plan::pull_request::{Candidate, Showing, pull_report};
use system::clock;
use views::pull_request::{PullReport, plan_comment, summary};
use views::redact::MaskKey;

/// What is said of a plan.
pub(super) struct PlanTexts {
    /// The state of its status.
    pub state: StatusState,
    /// The description of its status.
    pub line: String,
    /// Its comment.
    pub body: String,
}

/// A finished plan, or its failure.
pub(super) struct FinishedPlan {
    pub number: ThreadNumber,
    pub head: CommitId,
    /// The accepted commit that it starts from, and its texts; or why there are none, which is retried.
    pub result: Result<(Option<CommitId>, PlanTexts), String>,
}

/// How a plan is shown.
struct PlanShowing {
    content: PlanContent,
    mask: MaskKey,
    /// The name of the source; empty where there is one.
    source: String,
    /// Characters of a comment.
    limit: usize,
}

/// Starts to make a plan, which is sent when it is finished.
pub(super) fn start(
    pull: Planned,
    settings: &Settings,
    handles: &Handles,
    finished: mpsc::UnboundedSender<FinishedPlan>,
) {
    let requests = handles.requests.clone();
    let baselines = handles.baselines.clone();
    let turn = Arc::clone(&handles.planning);
    let fetch = settings.fetches;
    let showing = PlanShowing {
        content: settings.plans.content,
        mask: settings.mask.clone(),
        source: settings.name.clone(),
        limit: handles.forge.limits().comment_chars,
    };
    tokio::spawn(async move {
        // It is never closed, so a turn comes.
        let _turn = turn.acquire_owned().await;
        let (reply, candidate) = oneshot::channel();
        let request = SourceRequest::Candidate {
            source: showing.source.clone(),
            number: pull.number,
            head: pull.head.clone(),
            fetch,
            reply,
        };
        let (ask, start) = oneshot::channel();
        let is_asked = requests.send(request).is_ok() && baselines.send(ask).is_ok();
        let result = match (candidate.await, start.await) {
            (Ok(candidate), Ok(start)) if is_asked => {
                let made = tokio::task::spawn_blocking(move || {
                    // A hypothetical decision is not logged: readers of the log would take it for a real one.
                    let silent = tracing::subscriber::NoSubscriber::new();
                    tracing::subscriber::with_default(silent, || texts(candidate, &start, &showing))
                });
                made.await.unwrap_or_else(|error| Err(error.to_string()))
            }
            _ => Err("gitfleet is ending".to_owned()),
        };
        // The bot may have ended.
        drop(finished.send(FinishedPlan { number: pull.number, head: pull.head, result }));
    });
}

/// Plans a candidate and renders its status and comment: pure, except that it reads the time.
fn texts(
    candidate: Result<Candidate, CandidateError>,
    baseline: &Baseline,
    PlanShowing { content, mask, source, limit }: &PlanShowing,
) -> Result<(Option<CommitId>, PlanTexts), String> {
    let base = baseline.tree().commit.clone();
    let report = match candidate {
        Ok(candidate) => {
            let only = if source.is_empty() { None } else { Some(source.as_str()) };
            let showing = Showing { diffs: *content == PlanContent::Diff, key: mask, only };
            pull_report(baseline, &candidate, &showing, clock::now())
        }
        Err(CandidateError::Refused(errors)) => PullReport::refused(base.clone(), None, errors),
        Err(CandidateError::Unreadable(why)) => return Err(why),
    };
    let (state, line) = summary(&report);
    Ok((base, PlanTexts { state, line, body: plan_comment(&report, *limit) }))
}
