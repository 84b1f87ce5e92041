//! The thread that reads payloads again.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;

use super::SharedReader;
use crate::commit_reader::{Cache, read_commit, read_payload};
use crate::rendering::Rendering;
use decide::state::Payload;
use engine::SourceEvent;
use git::Reader;
use model::id::CommitId;
use model::records::ResourceSnapshot;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;

/// Reads payloads in a separate thread: a fetch may take minutes, and a rollback must not wait for it.
pub(super) fn answer_payloads(
    reader: SharedReader,
    rendering: Rendering,
    news: mpsc::Sender<SourceEvent>,
    supervisor: &Supervisor,
) -> Sender<Arc<ResourceSnapshot>> {
    let (payloads, inbox) = channel::<Arc<ResourceSnapshot>>();
    let read = move |snapshot: &ResourceSnapshot| {
        // Cloned: a poll that ends meanwhile sets the next reader, and must not wait for payloads.
        let reader = reader.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        read_payload(&reader, snapshot).or_else(|why| {
            let again = rendering.is_configured().then(|| rendered_again(&reader, &rendering, snapshot));
            again.flatten().unwrap_or(Err(why))
        })
    };
    let run = payload_answers(inbox, news, read);
    supervisor.thread(Part::Payloads, "gitfleet-payloads", run).expect("a thread can be started at startup");
    payloads
}

/// Reads a payload after its commit was rendered again: the repository of results may have been lost, and git holds what they were made of.
/// `None` where the commit cannot be rendered.
fn rendered_again(
    reader: &Reader,
    rendering: &Rendering,
    snapshot: &ResourceSnapshot,
) -> Option<Result<Payload, String>> {
    let mut cache = Cache::rendering(rendering.clone());
    let commits: BTreeSet<&CommitId> = snapshot.commits().collect();
    for commit in commits {
        read_commit(reader, commit, &mut cache).ok()?;
        rendering.pin(commit, cache.rendered()).ok()?;
    }
    Some(read_payload(reader, snapshot))
}

/// Returns the main function of the payload thread. After an error in gitfleet it answers that the payload cannot be read,
/// because the requester waits for an answer.
pub(super) fn payload_answers(
    inbox: Receiver<Arc<ResourceSnapshot>>,
    news: mpsc::Sender<SourceEvent>,
    read: impl Fn(&ResourceSnapshot) -> Result<Payload, String>,
) -> impl FnMut() {
    let mut unanswered: Option<Arc<ResourceSnapshot>> = None;
    move || {
        if let Some(snapshot) = unanswered.take() {
            let why = "reading it ended because of an error in gitfleet; please report it".to_owned();
            drop(news.blocking_send(SourceEvent::Payload(snapshot, Err(why))));
        }
        for snapshot in &inbox {
            unanswered = Some(Arc::clone(&snapshot));
            let placement = &snapshot.placement;
            let commit = snapshot.commit.short();
            let payload = tracing::error_span!("payload", %placement, %commit).in_scope(|| read(&snapshot));
            unanswered = None;
            if news.blocking_send(SourceEvent::Payload(snapshot, payload)).is_err() {
                return;
            }
        }
    }
}
