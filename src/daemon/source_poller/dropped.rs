//! Commits that a rewritten history dropped, where several daemons share the store: the mirror of the leader may be the only place that
//! has their objects, and the next leader delivers from them.
//!
//! They are in one record of the store, so that backups, a move to another store, and the refusal of a leader that was replaced hold
//! for them as for every other record.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::branch::Branch;
use engine::SourceEvent;
use engine::store;
use engine::store::records;
use engine::store::{Expected, Op, Store};
use git::{PACKED_SIZE_MAX_BYTES, Reader};
use model::id::CommitId;
use model::records::DroppedCommits;

/// Commits that a message names; the rest is counted.
const NAMED_MAX: usize = 5;

/// Why dropped commits could not be stored, or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepFailure {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("{}", .0.in_full())]
    Git(#[from] git::Error),
    #[error("the objects of dropped commits in the store are damaged: {0}")]
    Damaged(#[from] base64::DecodeError),
}

/// Keeps dropped commits in the store.
pub(super) struct DroppedKeeper {
    store: Arc<dyn Store>,
    /// Where they are in it.
    key: String,
    /// What the store has, without the objects; `None` until it was read.
    kept: Option<DroppedCommits>,
    /// The tip with which the pinned commits were compared last.
    compared: Option<CommitId>,
    /// What was reported last.
    reported: Option<String>,
}

impl DroppedKeeper {
    /// Takes the name of the source; empty where there is one.
    pub(super) fn new(store: Arc<dyn Store>, source: &str) -> Self {
        let key = records::dropped_key(source);
        Self { store, key, kept: None, compared: None, reported: None }
    }

    /// Writes the commits into a mirror that the store has and the mirror lacks.
    ///
    /// # Errors
    /// The store or the mirror cannot be used.
    pub(super) fn bring(&mut self, reader: &Reader) -> Result<(), KeepFailure> {
        if self.kept.as_ref().is_some_and(|kept| kept.commits.iter().all(|commit| reader.has(commit))) {
            return Ok(());
        }
        let found = records::load::<DroppedCommits>(self.store.as_ref(), &self.key)?;
        let mut found = found.map(|record| record.value).unwrap_or_default();
        let objects = std::mem::take(&mut found.objects);
        if self.kept.is_none() {
            self.compared.clone_from(&found.tip);
        }
        let missing = found.commits.iter().filter(|commit| !reader.has(commit)).count();
        self.kept = Some(found);
        if missing > 0 {
            reader.unpack(&STANDARD.decode(objects)?)?;
            tracing::info!(commits = missing, "commits that the branch dropped were read from the store");
        }
        Ok(())
    }

    /// Stores the pinned commits that are no part of the branch any more, as soon as its history was rewritten.
    fn follow(&mut self, reader: &Reader, tip: &CommitId) -> Result<(), KeepFailure> {
        let is_continued = match &self.compared {
            Some(compared) => reader.descends(compared, tip)?,
            None => false,
        };
        if !is_continued {
            let mut commits: BTreeSet<CommitId> = reader.pins()?.into_values().collect();
            commits.extend(self.known());
            let dropped = reader.unreached(&commits, tip)?;
            self.store(reader, &dropped, tip)?;
        }
        self.compared = Some(tip.clone());
        Ok(())
    }

    /// Removes the commits that no record names any more.
    fn retain(&mut self, reader: &Reader, tip: &CommitId, named: &BTreeSet<CommitId>) -> Result<(), KeepFailure> {
        let known = self.known();
        let left: BTreeSet<CommitId> = known.intersection(named).cloned().collect();
        if left == known { Ok(()) } else { self.store(reader, &left, tip) }
    }

    /// Returns the commits that the store has, and those that it has no room for.
    fn known(&self) -> BTreeSet<CommitId> {
        let kept = self.kept.iter().flat_map(|kept| kept.commits.iter().chain(&kept.left_out));
        kept.cloned().collect()
    }

    fn store(&mut self, reader: &Reader, dropped: &BTreeSet<CommitId>, tip: &CommitId) -> Result<(), KeepFailure> {
        let key = self.key.clone();
        let expected = Expected::Any;
        if dropped.is_empty() {
            if !self.known().is_empty() {
                self.store.batch(vec![Op::Delete { key, expected }])?;
            }
            self.kept = Some(DroppedCommits::default());
            return Ok(());
        }
        let git::PackedCommits { commits, left_out, bytes } = reader.pack(dropped, tip)?;
        let record = DroppedCommits { tip: Some(tip.clone()), commits, left_out, objects: STANDARD.encode(bytes) };
        self.store.batch(vec![records::put(key, &record, expected)?])?;
        let commits = record.commits.len();
        let bytes = record.objects.len();
        tracing::info!(commits, bytes, "commits that the branch dropped are in the store, for other daemons");
        self.kept = Some(DroppedCommits { objects: String::new(), ..record });
        Ok(())
    }

    /// Returns what is at risk, as text for users.
    fn risk(&self, done: Result<(), KeepFailure>) -> Option<String> {
        let left_out = self.kept.iter().flat_map(|kept| &kept.left_out);
        let names: Vec<&str> = left_out.map(CommitId::short).collect();
        let failure = done.err().map(|error| {
            format!(
                "commits that the branch dropped and records name could not be put into the store, so this daemon alone can deliver \
                 them; trying again: {error}"
            )
        });
        let too_large = || {
            let shown = names[..names.len().min(NAMED_MAX)].join(", ");
            let more = names.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "the branch dropped {shown}{more}, records name them, and all together have more than {} MiB: this daemon alone can \
                 deliver them, or roll back to them; keep its folder until they are replaced",
                PACKED_SIZE_MAX_BYTES / (1024 * 1024)
            )
        };
        failure.or_else(|| (!names.is_empty()).then(too_large))
    }
}

impl Branch {
    /// Has the dropped commits here and in the store. A failure is reported, and tried again with the next poll.
    pub(super) fn keep_dropped(&mut self) {
        let Some(tip) = self.source.tip().map(|tip| tip.commit.clone()) else { return };
        let reader = self.source.reader();
        let Some(keeper) = &mut self.dropped else { return };
        let done = keeper.bring(reader).and_then(|()| keeper.follow(reader, &tip));
        self.report_dropped(done);
    }

    /// Removes from the store what no record names, and pins here what records name: the earlier leader's pins are in its own mirror.
    pub(super) fn retain_dropped(&mut self, named: &BTreeSet<CommitId>) {
        let Some(tip) = self.source.tip().map(|tip| tip.commit.clone()) else { return };
        let reader = self.source.reader();
        let Some(keeper) = &mut self.dropped else { return };
        let known = keeper.known();
        let pinned = || -> Result<(), KeepFailure> {
            let pins: BTreeSet<CommitId> = reader.pins()?.into_values().collect();
            // Dropped commits get no pin: a fetch would tell the server that their history is here.
            for commit in named.iter().filter(|commit| !pins.contains(*commit) && !known.contains(*commit)) {
                if reader.has(commit) {
                    reader.pin(&super::pin_name(commit), commit)?;
                }
            }
            Ok(())
        };
        let done = pinned().and_then(|()| keeper.retain(reader, &tip, named));
        self.report_dropped(done);
    }

    fn report_dropped(&mut self, done: Result<(), KeepFailure>) {
        let Some(keeper) = &mut self.dropped else { return };
        let risk = keeper.risk(done);
        if keeper.reported == risk {
            return;
        }
        if let Some(risk) = &risk {
            tracing::error!(about = %risk, "commits that the branch dropped are at risk");
        } else {
            tracing::info!("all commits that the branch dropped and records name are in the store");
        }
        keeper.reported.clone_from(&risk);
        self.send(SourceEvent::Unkept(risk));
    }
}
