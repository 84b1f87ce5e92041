//! The thread that reads payloads again.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;

use super::SharedReader;
use crate::core::SourceEvent;
use crate::daemon::commit_reader::read_payload;
use crate::daemon::supervise::Supervisor;
use crate::decide::state::Payload;
use crate::model::records::ResourceSnapshot;
use crate::telemetry::metrics::Part;

/// Reads payloads in a separate thread: a fetch may take minutes, and a rollback must not wait for it.
pub(super) fn answer_payloads(
    reader: SharedReader,
    news: mpsc::UnboundedSender<SourceEvent>,
    supervisor: &Supervisor,
) -> Sender<Arc<ResourceSnapshot>> {
    let (payloads, inbox) = channel::<Arc<ResourceSnapshot>>();
    let read = move |snapshot: &ResourceSnapshot| {
        // Cloned: a poll that ends meanwhile sets the next reader, and must not wait for payloads.
        let reader = reader.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        read_payload(&reader, snapshot)
    };
    let run = payload_answers(inbox, news, read);
    supervisor.thread(Part::Payloads, "gitfleet-payloads", run).expect("a thread can be started at startup");
    payloads
}

/// Returns the main function of the payload thread. After an error in gitfleet it answers that the payload cannot be read,
/// because the requester waits for an answer.
pub(super) fn payload_answers(
    inbox: Receiver<Arc<ResourceSnapshot>>,
    news: mpsc::UnboundedSender<SourceEvent>,
    read: impl Fn(&ResourceSnapshot) -> Result<Payload, String>,
) -> impl FnMut() {
    let mut unanswered: Option<Arc<ResourceSnapshot>> = None;
    move || {
        if let Some(snapshot) = unanswered.take() {
            let why = "reading it ended because of an error in gitfleet; please report it".to_owned();
            drop(news.send(SourceEvent::Payload(snapshot, Err(why))));
        }
        for snapshot in &inbox {
            unanswered = Some(Arc::clone(&snapshot));
            let (placement, commit) = (&snapshot.placement, snapshot.commit.short());
            let payload = tracing::error_span!("payload", %placement, %commit).in_scope(|| read(&snapshot));
            unanswered = None;
            if news.send(SourceEvent::Payload(snapshot, payload)).is_err() {
                return;
            }
        }
    }
}
