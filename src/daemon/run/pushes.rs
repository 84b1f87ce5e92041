//! What machines push about clusters, on its way to the core and into the store.

use super::Daemon;
use model::commands::{Refusal, RefusalReason};
use server::PushRequest;
use system::clock;

/// Pushes that are written in one batch, beside the first.
const MORE_MAX: usize = 255;

impl Daemon {
    /// Takes what machines push: the answers go out when it is stored. What arrived together is written together, so that
    /// a push of every cluster costs some batches and not one each.
    pub(super) async fn take_pushed(&mut self, first: PushRequest) {
        let mut deliveries = vec![first];
        deliveries.extend(std::iter::from_fn(|| self.pushes.try_recv().ok()).take(MORE_MAX));
        let mut pushes = Vec::new();
        let mut replies = Vec::new();
        for PushRequest { push, by, reply } in deliveries {
            replies.push((push.cluster.clone(), by.clone(), reply));
            pushes.push((push, by));
        }
        let (batch, answers) = self.core.push(pushes, clock::now());
        let is_kept = self.keep(batch).await;
        for ((cluster, by, reply), answer) in replies.into_iter().zip(answers) {
            let answer = answer.and_then(|()| if is_kept { Ok(()) } else { Err(unsaved()) });
            match &answer {
                Ok(()) => tracing::debug!(cluster = %cluster, by, "something was pushed"),
                Err(refusal) => tracing::warn!(cluster = %cluster, by, about = %refusal, "a push was refused"),
            }
            // Whoever sent it may have gone.
            drop(reply.send(answer));
        }
    }
}

fn unsaved() -> Refusal {
    Refusal {
        reason: RefusalReason::NotPossible,
        message: "could not be saved, so it was not taken; see the daemon's log".to_owned(),
    }
}
