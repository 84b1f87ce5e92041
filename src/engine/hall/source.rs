//! The source's side of the hall: what its thread says, and what a commit in force changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::clock;
use super::super::disruptions::Disruptions;
use super::super::follow::{News, Request};
use super::super::overrides;
use super::super::staged::Staged;
use super::super::world::PlacementState;
use super::{Hall, SOURCE_NAME};
use crate::model::id::CommitId;
use crate::model::tree::Tree;
use crate::store::Expected;
use crate::store::records;
use crate::telemetry::metrics::{ByPoll, Poll};

impl Hall {
    /// Takes in what the source's thread says.
    pub(super) async fn hear(&mut self, news: News) {
        let news = match news {
            News::Restored(Ok(tree)) => return self.accept(tree).await,
            News::Restored(Err(reason)) => {
                tracing::error!(reason, "clusters keep what they have");
                return;
            }
            news => news,
        };
        self.source.failure = None;
        let poll = match news {
            News::Restored(_) => return,
            News::Accepted(tree) => {
                self.accept(tree).await;
                Poll::Accepted
            }
            News::Unchanged => {
                self.source.seen.clone_from(&self.source.accepted);
                self.source.refused.clear();
                self.source.held_rewrite = None;
                Poll::Unchanged
            }
            News::Readable => {
                tracing::info!("the source can be read again");
                Poll::Unchanged
            }
            News::Refused(commit, errors) => {
                tracing::error!(
                    commit = commit.short(),
                    errors = errors.len(),
                    "commit refused; the last good one stays in force"
                );
                for error in errors.iter().take(20) {
                    tracing::error!("  {error}");
                }
                self.source.seen = Some(commit);
                self.source.refused = errors;
                Poll::Refused
            }
            News::Rewritten(commit) => {
                tracing::warn!(
                    commit = commit.short(),
                    "history was rewritten; the last good commit stays in force until a person lets the new one in"
                );
                self.source.seen = Some(commit.clone());
                self.source.held_rewrite = Some(commit);
                Poll::Held
            }
            News::Failed(reason) => {
                tracing::error!(reason, "the source cannot be read; nothing changes");
                self.source.failure = Some(reason);
                Poll::Error
            }
        };
        self.metrics.source_polls.get_or_create(&ByPoll { result: poll }).inc();
        self.source_seen = true;
        self.write_source();
    }

    fn write_source(&mut self) {
        let written = records::put(records::source_key(SOURCE_NAME), &self.source, Expected::Any)
            .and_then(|op| self.store.batch(vec![op]));
        match written {
            Ok(_) => self.changes.send_modify(|version| *version += 1),
            Err(error) => tracing::error!(%error, "the source's record cannot be written"),
        }
    }

    /// Brings a commit into force.
    async fn accept(&mut self, tree: Arc<Tree>) {
        let commit = tree.commit.clone();
        let again = self.source.accepted == commit;
        let short = commit.as_ref().map(|c| c.short().to_owned()).unwrap_or_default();
        tracing::info!(
            commit = short,
            placements = tree.placements.len(),
            clusters = tree.clusters.len(),
            objects = tree.manifests.len(),
            "{}",
            if again { "commit in force" } else { "commit accepted" }
        );
        self.source.accepted.clone_from(&commit);
        self.source.seen = commit;
        self.source.refused.clear();
        self.source.held_rewrite = None;
        let before = std::mem::replace(&mut self.world.tree, Arc::clone(&tree));
        self.world.staged = Staged::of(&tree);
        self.world.overrides.follow(&tree, &overrides::named(self.placements.values()), clock::now());
        let disruptions = std::mem::replace(&mut self.world.disruptions, Disruptions::of(&tree));
        self.note_members(&before);
        self.load_payloads().await;
        let now = clock::now();
        for (key, placement) in &tree.placements {
            self.placements.entry(key.clone()).or_insert_with(|| PlacementState::begin(placement, now));
        }
        let wishes = self.world.ocm.follow(&tree);
        self.agenda.ocm.extend(wishes);
        self.refresh_clusters();
        if before.commit.is_none() {
            // The first commit of this life: what was decided before may have been decided of another.
            self.agenda.placements.extend(self.placements.keys().cloned());
        } else {
            self.agenda.compare(&before, &tree);
            self.agenda.placements.extend(self.world.disruptions.differing(&disruptions));
        }
        self.retain_commits();
    }

    fn retain_commits(&self) {
        let named: BTreeSet<CommitId> =
            self.placements.values().flat_map(|p| p.snapshots.values().map(|s| s.commit.clone())).collect();
        // Without its thread the source is not followed any more, which is told elsewhere.
        drop(self.requests.send(Request::Retain(named)));
    }

    /// Reads the payload that clusters still hold and that no selection gives: after a restart, older snapshots.
    async fn load_payloads(&mut self) {
        let mut missing = Vec::new();
        for state in self.placements.values() {
            for snapshot in state.snapshots_in_use().filter(|s| !state.payloads.contains_key(&s.index)) {
                missing.push((state.record.key.clone(), Arc::clone(snapshot)));
            }
        }
        for (key, snapshot) in missing {
            let (reply, answer) = oneshot::channel();
            let index = snapshot.index;
            if self.requests.send(Request::Payload(snapshot, reply)).is_err() {
                return;
            }
            match answer.await {
                Ok(Ok(payload)) => {
                    if let Some(state) = self.placements.get_mut(&key) {
                        state.payloads.insert(index, Arc::new(payload));
                    }
                }
                Ok(Err(reason)) => {
                    tracing::error!(placement = %key, reason, "payload missing; clusters keep what they have");
                }
                Err(_) => return,
            }
        }
    }
}
