//! The simulated adapters: the source and its thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Event, Fact, Happening, Simulation, SourceEvent};
use decide::payload::payload_among;
use model::id::CommitId;
use model::manifest::InputError;
use model::records::ResourceSnapshot;
use model::tree::Tree;

/// Pause before a source that could not be read is polled again.
const POLL_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The delay of a late payload.
const PAYLOAD_LATE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// The source, which outlives the daemon process.
#[derive(Default)]
pub(super) struct SimulatedSource {
    pub(super) commits: BTreeMap<CommitId, Result<Arc<Tree>, Vec<InputError>>>,
    pub(super) tip: Option<CommitId>,
    /// In this process: the source thread's accepted commit, and the tip it has reported.
    pub(super) accepted: Option<CommitId>,
    pub(super) reported: Option<CommitId>,
    /// In this process: the commits accepted since the last retain effect.
    pub(super) fresh: Vec<CommitId>,
    pub(super) failing: bool,
    /// The accepted commit was not read again yet.
    pub(super) unread: bool,
    pub(super) pins: BTreeSet<CommitId>,
    /// Tips that do not descend from the tip before, by the number of earlier pushes.
    pub(super) rewritten: BTreeMap<CommitId, usize>,
    /// Those of them on another branch that was checked out.
    pub(super) switched: BTreeSet<CommitId>,
    /// Every push in order.
    pub(super) pushed: Vec<CommitId>,
    /// A tip of a rewritten history that a person accepted.
    pub(super) accepted_rewrite: Option<CommitId>,
}

/// The source.
impl Simulation {
    /// Reads the accepted commit again, at the start of a process.
    pub(super) fn restore(&mut self) {
        self.source.unread = false;
        let Some(commit) = self.source.accepted.clone() else { return };
        let fails = self.dice.chance(self.faults.restore_fails);
        let restored = match self.source.commits.get(&commit) {
            Some(Ok(tree)) if !fails => Ok(Arc::clone(tree)),
            _ => Err(format!("the accepted commit {commit} cannot be read")),
        };
        self.source.unread = restored.is_err();
        self.send(Event::Source(SourceEvent::Restored(restored)));
    }

    pub(super) fn poll(&mut self) {
        if self.core.is_none() {
            return;
        }
        if self.dice.chance(self.faults.source_fails) {
            self.source.failing = true;
            self.send(Event::Source(SourceEvent::Failed("it does not answer".to_owned())));
            return self.push_in(POLL_PAUSE, Happening::Poll(self.life));
        }
        if self.source.unread {
            self.restore();
            return self.push_in(POLL_PAUSE, Happening::Poll(self.life));
        }
        let recovered = std::mem::take(&mut self.source.failing);
        let Some(tip) = self.source.tip.clone() else { return };
        if self.source.reported.as_ref() == Some(&tip) {
            if recovered {
                self.send(Event::Source(SourceEvent::Readable));
            }
            return;
        }
        self.source.reported = Some(tip.clone());
        let news = match &self.source.commits[&tip] {
            Ok(_) if self.source.accepted.as_ref() == Some(&tip) => SourceEvent::Unchanged,
            _ if !self.source.descends(&tip) && self.source.accepted_rewrite.as_ref() != Some(&tip) => {
                self.source.held(tip)
            }
            Ok(tree) => {
                self.source.accepted = Some(tip.clone());
                self.source.fresh.push(tip.clone());
                self.source.pins.insert(tip);
                SourceEvent::Accepted(Arc::clone(tree))
            }
            Err(errors) => SourceEvent::Refused(tip, errors.clone()),
        };
        self.send(Event::Source(news));
    }

    /// A person accepted a rewritten history: its tip is considered again.
    pub(super) fn accept_rewrite(&mut self, commit: CommitId) {
        self.source.accepted_rewrite = Some(commit);
        self.source.reported = None;
        self.push_in(self.latencies.source, Happening::Poll(self.life));
    }

    pub(super) fn read_payload(&mut self, snapshot: Arc<ResourceSnapshot>) {
        let tree = |commit: &CommitId| match self.source.commits.get(commit) {
            Some(Ok(tree)) if self.source.pins.contains(commit) => Ok(&**tree),
            _ => Err(commit.clone()),
        };
        let trees: Result<Vec<&Tree>, CommitId> = snapshot.commits().map(tree).collect();
        let payload = match trees {
            _ if self.dice.chance(self.faults.source_fails) => Err("the source does not answer".to_owned()),
            Ok(trees) => payload_among(&trees, &snapshot),
            Err(commit) => {
                self.facts.push(Fact::PayloadGone(commit));
                Err("its commit is gone".to_owned())
            }
        };
        let event = Event::Source(SourceEvent::Payload(snapshot, payload));
        let range = if self.dice.chance(self.faults.payload_late) { PAYLOAD_LATE } else { self.latencies.report };
        self.push_in(range, Happening::Hear(self.life, Box::new(event)));
    }

    fn send(&mut self, event: Event) {
        self.push_in(self.latencies.report, Happening::Hear(self.life, Box::new(event)));
    }
}

impl SimulatedSource {
    /// Returns the event for a tip that waits for a person.
    fn held(&self, tip: CommitId) -> SourceEvent {
        if self.switched.contains(&tip) {
            return SourceEvent::Switched(tip, "another branch is checked out".to_owned());
        }
        SourceEvent::Rewritten(tip)
    }

    /// Tells whether a tip descends from the accepted commit: history was not rewritten since its push.
    fn descends(&self, tip: &CommitId) -> bool {
        let place = |commit: &CommitId| self.pushed.iter().position(|pushed| pushed == commit);
        let Some(accepted) = self.accepted.as_ref().and_then(place) else { return true };
        place(tip).is_none_or(|tip| !self.rewritten.values().any(|at| accepted < *at && *at <= tip))
    }
}
