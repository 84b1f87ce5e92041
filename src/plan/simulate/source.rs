//! The simulated adapters: the source and its thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::deployment::Deployment;
use super::{Event, Fact, Happening, Simulation, SourceEvent};
use decide::found::FoundSnapshot;
use decide::payload::{Payload, payload_among};
use deliver::inventory::Held;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::manifest::InputError;
use model::records::ResourceSnapshot;
use model::tree::Tree;

/// The source, which outlives the daemon process.
#[derive(Default)]
pub struct SimulatedSource {
    /// What was pushed: trees, or the errors of refused commits.
    pub commits: BTreeMap<CommitId, Result<Arc<Tree>, Vec<InputError>>>,
    /// The commit that was pushed last.
    pub tip: Option<CommitId>,
    /// Commits that are protected.
    pub(super) pins: BTreeSet<CommitId>,
}

/// The thread of a process that looks at the source.
#[derive(Default)]
pub struct SourceThread {
    /// The accepted commit.
    pub accepted: Option<CommitId>,
    /// The tip that it has reported.
    pub reported: Option<CommitId>,
    /// The commits accepted since the last retain effect.
    pub(super) fresh: Vec<CommitId>,
}

impl<D: Deployment> Simulation<D> {
    /// Makes a commit the tip of the source, or a refused commit with these errors. Source threads see it when they look.
    pub fn set_tip(&mut self, commit: CommitId, tree: Result<Arc<Tree>, Vec<InputError>>) {
        self.source.commits.insert(commit.clone(), tree);
        let namespaces = self.unmanaged_namespaces();
        let clusters: Vec<ClusterName> = self.members.keys().cloned().collect();
        D::each_process(self, |this| clusters.iter().for_each(|cluster| this.see_namespaces(cluster, &namespaces)));
        self.source.tip = Some(commit);
    }

    /// Lets the source thread look at the source as soon as it notices a push.
    pub fn poll_later(&mut self) {
        self.push_in(self.latencies.source, Happening::Poll(self.process.life));
    }

    /// The source thread looks at the source, and says what is new.
    pub fn poll(&mut self) {
        if self.process.core.is_none() {
            return;
        }
        let Some(tip) = self.source.tip.clone() else { return };
        let thread = &mut self.process.source;
        // The tip that was reported last is not reported again.
        if thread.reported.as_ref() == Some(&tip) {
            return;
        }
        thread.reported = Some(tip.clone());
        let news = match &self.source.commits[&tip] {
            Ok(_) if thread.accepted.as_ref() == Some(&tip) => SourceEvent::Unchanged,
            Ok(tree) => {
                thread.accepted = Some(tip.clone());
                thread.fresh.push(tip.clone());
                self.source.pins.insert(tip);
                SourceEvent::Accepted(Arc::clone(tree))
            }
            Err(errors) => SourceEvent::Refused(tip, errors.clone()),
        };
        self.tell_source(news);
    }

    /// Returns the payload of a snapshot.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn payload(&mut self, snapshot: &ResourceSnapshot) -> Result<Payload, String> {
        let mut trees: Vec<&Tree> = Vec::new();
        for commit in snapshot.commits() {
            match self.source.commits.get(commit) {
                Some(Ok(tree)) if self.source.pins.contains(commit) => trees.push(tree),
                _ => {
                    self.facts.push(Fact::PayloadGone(commit.clone()));
                    return Err("its commit is gone".to_owned());
                }
            }
        }
        payload_among(&trees, snapshot)
    }

    /// Returns what members hold of a placement. A commit that was accepted once is there: no history is rewritten.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn found(&mut self, key: &PlacementKey, held: &Held) -> Result<FoundSnapshot, String> {
        let Some(Ok(tree)) = self.source.commits.get(&held.commit) else {
            return Err("its commit is gone".to_owned());
        };
        self.source.pins.insert(held.commit.clone());
        self.process.source.fresh.push(held.commit.clone());
        FoundSnapshot::read(tree, key, held)
    }

    /// Lets the daemon hear what its source thread says.
    pub fn tell_source(&mut self, news: SourceEvent) {
        let event = Event::Source(news);
        self.push_in(self.latencies.report, Happening::Hear(self.process.life, Box::new(event)));
    }
}
