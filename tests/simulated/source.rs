//! What goes wrong between source threads and the source, and histories that are rewritten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{Core, Event, SourceEvent};
use model::id::CommitId;
use model::manifest::InputError;
use model::records::ResourceSnapshot;
use model::tree::Tree;
use plan::simulate::Happening;

use super::{Sim, SimulatedFleet};

/// Pause before a source that could not be read is polled again.
const POLL_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The delay of a late payload.
const PAYLOAD_LATE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// How commits follow each other.
#[derive(Default)]
pub(crate) struct History {
    /// Every push in order.
    pub(crate) pushed: Vec<CommitId>,
    /// Tips that do not descend from the tip before, by the number of earlier pushes.
    rewritten: BTreeMap<CommitId, usize>,
    /// Those of them on another branch that was checked out.
    switched: BTreeSet<CommitId>,
}

/// What a source thread has trouble with.
#[derive(Default)]
pub(crate) struct SourceTrouble {
    failing: bool,
    /// The accepted commit was not read again yet.
    unread: bool,
    /// A tip of a rewritten history that a person accepted.
    accepted_rewrite: Option<CommitId>,
}

impl SourceTrouble {
    /// Returns that of a process that begins.
    pub(crate) fn of(core: Option<&Core>) -> Self {
        Self { accepted_rewrite: core.and_then(Core::accepted_rewrite).cloned(), ..Self::default() }
    }
}

impl SimulatedFleet {
    /// Makes a commit the tip that does not descend from earlier pushes: a rewritten history.
    pub fn rewrite(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        let history = &mut self.deployment.history;
        history.rewritten.insert(commit.clone(), history.pushed.len());
        self.push(commit, tree);
    }

    /// Makes a commit the tip by checking out another branch than the followed one.
    pub fn switch(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        self.deployment.history.switched.insert(commit.clone());
        self.rewrite(commit, tree);
    }
}

/// Reads the accepted commit again, at the start of a process.
pub(crate) fn restore(sim: &mut Sim) {
    sim.deployment.trouble.unread = false;
    let Some(commit) = sim.process.source.accepted.clone() else { return };
    let fails = sim.dice.chance(sim.deployment.faults.restore_fails);
    let restored = match sim.source.commits.get(&commit) {
        Some(Ok(tree)) if !fails => Ok(Arc::clone(tree)),
        _ => Err(format!("the accepted commit {commit} cannot be read")),
    };
    sim.deployment.trouble.unread = restored.is_err();
    sim.tell_source(SourceEvent::Restored(restored));
}

/// The source thread looks at the source, which may fail.
pub(crate) fn poll(sim: &mut Sim) {
    if sim.process.core.is_none() {
        return;
    }
    if sim.dice.chance(sim.deployment.faults.source_fails) {
        sim.deployment.trouble.failing = true;
        sim.tell_source(SourceEvent::Failed("it does not answer".to_owned()));
        return sim.push_in(POLL_PAUSE, Happening::Poll(sim.process.life));
    }
    if sim.deployment.trouble.unread {
        restore(sim);
        return sim.push_in(POLL_PAUSE, Happening::Poll(sim.process.life));
    }
    let recovered = std::mem::take(&mut sim.deployment.trouble.failing);
    let Some(tip) = sim.source.tip.clone() else { return };
    if sim.process.source.reported.as_ref() == Some(&tip) {
        if recovered {
            sim.tell_source(SourceEvent::Readable);
        }
        return;
    }
    match held(sim, &tip) {
        Some(news) => {
            sim.process.source.reported = Some(tip);
            sim.tell_source(news);
        }
        None => sim.poll(),
    }
}

/// Returns the event for a tip that waits for a person.
fn held(sim: &Sim, tip: &CommitId) -> Option<SourceEvent> {
    let (history, accepted) = (&sim.deployment.history, sim.process.source.accepted.as_ref());
    let is_unchanged = accepted == Some(tip) && sim.source.commits[tip].is_ok();
    let is_accepted = sim.deployment.trouble.accepted_rewrite.as_ref() == Some(tip);
    if is_unchanged || is_accepted || history.descends(tip, accepted) {
        return None;
    }
    if history.switched.contains(tip) {
        return Some(SourceEvent::Switched(tip.clone(), "another branch is checked out".to_owned()));
    }
    Some(SourceEvent::Rewritten(tip.clone()))
}

impl History {
    /// Tells whether a tip descends from the accepted commit: history was not rewritten since its push.
    fn descends(&self, tip: &CommitId, accepted: Option<&CommitId>) -> bool {
        let place = |commit: &CommitId| self.pushed.iter().position(|pushed| pushed == commit);
        let Some(accepted) = accepted.and_then(place) else { return true };
        place(tip).is_none_or(|tip| !self.rewritten.values().any(|at| accepted < *at && *at <= tip))
    }
}

/// A person accepted a rewritten history: its tip is considered again.
pub(crate) fn accept_rewrite(sim: &mut Sim, commit: CommitId) {
    sim.deployment.trouble.accepted_rewrite = Some(commit);
    sim.process.source.reported = None;
    sim.poll_later();
}

/// Reads the payload of a snapshot, which may fail or take long.
pub(crate) fn read_payload(sim: &mut Sim, snapshot: Arc<ResourceSnapshot>) {
    let payload = if sim.dice.chance(sim.deployment.faults.source_fails) {
        Err("the source does not answer".to_owned())
    } else {
        sim.payload(&snapshot)
    };
    let event = Event::Source(SourceEvent::Payload(snapshot, payload));
    let is_late = sim.dice.chance(sim.deployment.faults.payload_late);
    let range = if is_late { PAYLOAD_LATE } else { sim.latencies.report };
    sim.push_in(range, Happening::Hear(sim.process.life, Box::new(event)));
}
