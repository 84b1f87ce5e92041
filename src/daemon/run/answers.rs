//! Answers questions from the core's state.

use std::sync::Arc;

use super::Daemon;
use plan::explain::explain;
use plan::forecast::forecast;
use server::Question;
use system::clock;
use system::instruction::Preview;

impl Daemon {
    /// Answers a question, unless the client is gone: answers are expensive.
    pub(super) fn answer(&self, question: Question) {
        let fleet = self.core.fleet();
        let placements = self.core.placements();
        match question {
            Question::Explain { query, reply } if !reply.is_closed() => {
                let answer = explain(fleet, placements, &query, clock::now());
                drop(reply.send(answer.map_err(|error| error.to_string())));
            }
            Question::Forecast { placement, run, reply } if !reply.is_closed() => {
                let run = placements.get(&placement).and_then(|state| state.runs.records().get(&run)).cloned();
                let tree = Arc::clone(&fleet.tree);
                // On a thread of its own: it takes longer than a decision.
                tokio::task::spawn_blocking(move || {
                    // What is only simulated is not logged: readers of the log would take it for real.
                    let silent = tracing::subscriber::NoSubscriber::new();
                    let predicted = tracing::subscriber::with_default(silent, || forecast(&tree, run.as_deref()?));
                    drop(reply.send(predicted));
                });
            }
            Question::Explain { .. } | Question::Forecast { .. } => {}
        }
    }

    /// Answers a request to preview an approval.
    pub(super) fn preview(&self, preview: Preview) {
        let Preview { command, person, reply } = preview;
        // The client may be gone.
        drop(reply.send(self.core.preview(&command, &person, clock::now())));
    }
}
