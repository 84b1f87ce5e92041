//! Reads tips that may be accepted, and accepts what has no error.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::branch::Branch;
use super::{AcceptedState, Poller, pin_name};
use crate::commit_reader;
use crate::commit_reader::{SourceAt, read_commit, read_joined};
use decide::found::FoundSnapshot;
use decide::tenancy::violations;
use deliver::inventory::Held;
use engine::SourceEvent;
use git::joined_sources;
use model::id::{CommitId, PlacementKey};
use model::manifest::InputError;
use model::tree::{JoinedSource, Tree};

impl Poller {
    /// Reads the accepted commit again if that has not succeeded yet: decisions about it must not depend on today's tip.
    pub(super) fn restore(&mut self) {
        let Some(accepted) = self.accepted.clone() else { return };
        if self.accepted_state != AcceptedState::Unread {
            return;
        }
        let _commit = tracing::error_span!("commit", commit = %accepted.short()).entered();
        let sources = self.sources_with(&[]);
        let read = match self.commit_of(&sources) {
            Ok(commit) if commit == accepted => self.read(&accepted, &sources),
            // The configuration names other sources since, and what the commit has of the others cannot be read.
            Ok(_) => return,
            Err(error) => Err(error),
        };
        let restored = match read {
            Ok(tree) => {
                self.accepted_state = AcceptedState::Read;
                self.copy_accepted();
                // Of another version of a program they may be others than those that were pinned.
                let pinned = self.rendering.pin(&accepted, self.cache.rendered());
                pinned.map(|()| Arc::new(tree)).map_err(|error| error.in_full())
            }
            // The content of a commit does not change: each further read would fail the same way.
            Err(commit_reader::Error::Refused(errors)) => {
                self.accepted_state = AcceptedState::Refused;
                let first = errors.first().map(|first| format!(", first of all {first}")).unwrap_or_default();
                Err(format!("{}: {}{first}", accepted.short(), commit_reader::Error::Refused(errors)))
            }
            // It stays unread: the local copy may be damaged, and the next poll clones it again.
            Err(error) => {
                self.doubt_accepted(&error);
                Err(format!("{}: {}", accepted.short(), error.in_full()))
            }
        };
        self.send(SourceEvent::Restored(restored));
    }

    /// Reads again what members hold of a placement, and keeps its commit: records will name it.
    pub(super) fn find(&mut self, key: PlacementKey, held: &Held) {
        self.finding = Some((key.clone(), held.index));
        let sources = match &self.joined {
            None => Ok(Some(vec![self.branches[0].at(&held.commit)])),
            Some(joined) => joined_sources(joined.reader(), &held.commit),
        };
        let sources = sources.map_err(|error| error.in_full());
        let sources =
            sources.and_then(|found| found.ok_or_else(|| "the commit that joins the sources is gone".to_owned()));
        let found = sources.and_then(|sources| {
            let tree = self.read(&held.commit, &sources).map_err(|error| error.in_full())?;
            let found = FoundSnapshot::read(&tree, &key, held)?;
            self.pin(&held.commit, &sources).map_err(|error| error.in_full())?;
            self.fresh.push(held.commit.clone());
            Ok(Box::new(found))
        });
        self.finding = None;
        self.send(SourceEvent::HeldRead(key, held.index, found));
    }

    /// Keeps a commit of sources, and the results of folders that were read last.
    fn pin(&self, commit: &CommitId, sources: &[JoinedSource]) -> Result<(), git::Error> {
        for source in sources {
            if let Some(branch) = self.branch_of(&source.name) {
                branch.source.reader().pin(&pin_name(&source.commit), &source.commit)?;
            }
        }
        if let Some(joined) = &self.joined {
            joined.reader().pin(&pin_name(commit), commit)?;
        }
        self.rendering.pin(commit, self.cache.rendered())
    }

    /// Has our copies of accepted commits fetched again where they may be damaged: of the source that an error is of, or of all.
    fn doubt_accepted(&mut self, error: &commit_reader::Error) {
        let (commit_reader::Error::Git(cause), source) = error.of_source() else { return };
        for branch in self.branches.iter_mut().filter(|branch| source.is_none_or(|name| name == branch.name)) {
            if let Some(commit) = branch.accepted.clone() {
                branch.source.doubt(&commit, cause);
            }
        }
    }

    /// Accepts the tips that may be: all together; where that fails, as many as can be; and then one after the other, so that none waits
    /// for another's errors.
    pub(super) fn accept_candidates(&mut self) {
        loop {
            let new = self.waiting();
            if new.is_empty() {
                return;
            }
            let again = self.reconsider();
            if !self.accept_together(&new) {
                self.put_aside(&again);
                let mut names = self.waiting().into_iter();
                // Before the sources were accepted together once, they wait for each other.
                if !self.was_joined || !names.any(|name| self.accept(&[name]).is_accepted()) {
                    return;
                }
            }
            // What another source had may have been the error.
            self.reconsider();
        }
    }

    /// Returns the names of the sources whose tips may be accepted.
    fn waiting(&self) -> Vec<String> {
        let waiting = self.branches.iter().filter(|branch| branch.candidate.is_some());
        waiting.map(|branch| branch.name.clone()).collect()
    }

    /// Accepts several tips in one step, so that an object that moves between two sources is not gone in between because of a third. Tries,
    /// in this order: all waiting tips; those without the sources that have errors; all but one; the new ones. A tip that was refused before
    /// is tried only beside a new one. Returns whether any were accepted.
    fn accept_together(&mut self, new: &[String]) -> bool {
        let all = self.waiting();
        if !self.was_joined {
            let are_known = self.branches.iter().all(|branch| branch.accepted.is_some() || branch.candidate.is_some());
            return are_known && self.accept(&all).is_accepted();
        }
        let mut tried = BTreeSet::new();
        let mut is_untried = |names: &[String]| {
            names.len() > 1 && names.iter().any(|name| new.contains(name)) && tried.insert(names.to_vec())
        };
        let mut names = all;
        while is_untried(&names) {
            let TipOutcome::Held(wrong) = self.accept(&names) else { return true };
            names.retain(|name| !wrong.contains(name));
        }
        // Of two files that contradict each other one has the error: it may be the other source that is wrong.
        let all = self.waiting();
        let without = |one: &String| all.iter().filter(|name| *name != one).cloned().collect();
        let new = all.iter().filter(|name| new.contains(name)).cloned().collect();
        let sets: Vec<Vec<String>> = all.iter().map(without).chain([new]).collect();
        sets.iter().any(|names| {
            let waiting = self.waiting();
            // One that could not be read meanwhile waits no more.
            names.iter().all(|name| waiting.contains(name)) && is_untried(names) && self.accept(names).is_accepted()
        })
    }

    /// Makes refused tips candidates again; returns the names of their sources.
    fn reconsider(&mut self) -> Vec<String> {
        let mut again = Vec::new();
        for branch in self.branches.iter_mut().filter(|branch| branch.candidate.is_none()) {
            let tip = branch.source.tip().map(|tip| &tip.commit);
            if let Some(refused) = branch.refused.take().filter(|refused| Some(refused) == tip) {
                branch.candidate = Some(refused);
                again.push(branch.name.clone());
            }
        }
        again
    }

    /// Undoes [`Self::reconsider`].
    fn put_aside(&mut self, names: &[String]) {
        for branch in self.branches.iter_mut().filter(|branch| names.contains(&branch.name)) {
            branch.refused = branch.candidate.take().or(branch.refused.take());
        }
    }

    /// Reads and accepts the candidates of some sources; reports why not.
    fn accept(&mut self, names: &[String]) -> TipOutcome {
        let sources = self.sources_with(names);
        let commit = match self.commit_of(&sources) {
            Ok(commit) => commit,
            Err(error) => return self.unread(names, &error),
        };
        let _commit = tracing::error_span!("commit", commit = %commit.short()).entered();
        let read = self.read(&commit, &sources);
        // What was accepted stays: nothing is delivered that a tenant may not have delivered.
        let read = match read {
            Ok(tree) if self.accepted.as_ref() != Some(&commit) => self.within_limits(&tree).map(|()| tree),
            read => read,
        };
        match read {
            Ok(tree) => match self.keep(&commit, tree, names) {
                Ok(()) => TipOutcome::Accepted,
                Err(error) => self.unread(names, &error.into()),
            },
            Err(commit_reader::Error::Refused(errors)) => {
                // Otherwise `restore` would read the same commit, and report its errors, after each poll.
                if self.accepted.as_ref() == Some(&commit) {
                    self.accepted_state = AcceptedState::Refused;
                }
                // Of several each is tried by itself first.
                if names.len() == 1 || !self.was_joined {
                    self.refuse_tips(names, &errors);
                    return TipOutcome::Held(names.to_vec());
                }
                let is_wrong = |name: &&String| errors.iter().any(|error| is_of(name, error));
                TipOutcome::Held(names.iter().filter(is_wrong).cloned().collect())
            }
            Err(error) => self.unread(names, &error),
        }
    }

    /// Pins a commit, and makes it the accepted one.
    fn keep(&mut self, commit: &CommitId, tree: Tree, names: &[String]) -> Result<(), git::Error> {
        if let Some(first) = tree.skipped.first() {
            let documents = tree.skipped.len();
            let first = format!("{}:{}", first.path, first.line);
            tracing::info!(documents, first, "documents that are no Kubernetes objects are not read");
        }
        // Before the commit is announced: records will name it, and git may collect unreferenced commits.
        let new = self.branches.iter().filter(|branch| names.contains(&branch.name));
        let new: Vec<JoinedSource> = new.filter_map(|branch| Some(branch.at(branch.candidate.as_ref()?))).collect();
        self.pin(commit, &new)?;
        self.accepted = Some(commit.clone());
        (self.accepted_state, self.was_joined) = (AcceptedState::Read, true);
        self.fresh.push(commit.clone());
        for branch in self.branches.iter_mut().filter(|branch| names.contains(&branch.name)) {
            if let Some(tip) = branch.candidate.take() {
                branch.accepted = Some(tip);
                branch.refused = None;
                branch.settle();
            }
        }
        self.copy_accepted();
        self.send(SourceEvent::Accepted(Arc::new(tree)));
        Ok(())
    }

    /// Copies what is accepted of several sources that have no mirror, so that a missing source does not delay the others.
    fn copy_accepted(&self) {
        let Some(joined) = &self.joined else { return };
        for branch in self.branches.iter().filter(|branch| !branch.source.is_mirrored()) {
            let Some(commit) = &branch.accepted else { continue };
            let copied = joined.copy(branch.source.reader(), commit);
            if let Err(error) = copied.and_then(|()| joined.reader().pin(&pin_name(commit), commit)) {
                tracing::warn!(
                    source = branch.name,
                    error = error.in_full(),
                    "what was accepted could not be copied; while the source is away no other commit can be accepted"
                );
            }
        }
    }

    /// Reports errors to the sources that they are of, or to all where they are of none. A tip without errors that was refused with others
    /// waits, as they do, for another one.
    fn refuse_tips(&mut self, names: &[String], errors: &[InputError]) {
        let is_placed = errors.iter().any(|error| names.iter().any(|name| is_of(name, error)));
        for branch in self.branches.iter_mut().filter(|branch| names.contains(&branch.name)) {
            let Some(tip) = branch.candidate.take() else { continue };
            let own = errors.iter().filter(|error| names.len() == 1 || !is_placed || is_of(&branch.name, error));
            let own: Vec<InputError> = own.cloned().collect();
            if !own.is_empty() {
                branch.send(SourceEvent::Refused(tip.clone(), own));
                branch.settle();
            }
            branch.refused = Some(tip);
        }
    }

    /// Has the tip of the source that cannot be read, or all tips where it is none of them, read again with the next poll. Of several,
    /// where it is none of them, others are tried first.
    fn unread(&mut self, names: &[String], error: &commit_reader::Error) -> TipOutcome {
        let (cause, source) = error.of_source();
        let own = names.iter().find(|name| Some(name.as_str()) == source);
        if source.is_some() && own.is_none() {
            self.doubt_accepted(error);
        }
        let failed = match own {
            Some(name) if self.was_joined => std::slice::from_ref(name),
            None if self.was_joined && names.len() > 1 => return TipOutcome::Held(Vec::new()),
            _ => names,
        };
        for branch in self.branches.iter_mut().filter(|branch| failed.contains(&branch.name)) {
            let is_own = source.is_none_or(|name| name == branch.name);
            let git = match cause {
                commit_reader::Error::Git(error) if is_own => Some(error),
                _ => None,
            };
            if let Some(tip) = branch.candidate.take() {
                branch.retry(tip, git, if is_own { cause.in_full() } else { error.in_full() });
            }
        }
        TipOutcome::Held(failed.to_vec())
    }

    /// Returns the sources as they would be with the candidates of some of them.
    fn sources_with(&self, names: &[String]) -> Vec<JoinedSource> {
        let at = |branch: &Branch| {
            let is_new = names.contains(&branch.name) && branch.candidate.is_some();
            let commit = if is_new { &branch.candidate } else { &branch.accepted };
            commit.as_ref().map(|commit| branch.at(commit))
        };
        self.branches.iter().filter_map(at).collect()
    }

    /// Returns the commit of sources; of several the one that joins them.
    fn commit_of(&self, sources: &[JoinedSource]) -> Result<CommitId, commit_reader::Error> {
        match &self.joined {
            None => Ok(sources[0].commit.clone()),
            Some(joined) => Ok(joined.join(sources)?),
        }
    }

    /// Reads a commit.
    fn read(&mut self, commit: &CommitId, sources: &[JoinedSource]) -> Result<Tree, commit_reader::Error> {
        if self.joined.is_none() {
            return read_commit(self.branches[0].source.reader(), commit, &mut self.cache);
        }
        let reader = self.all_blobs();
        let at = sources.iter().filter_map(|source| {
            let branch = self.branches.iter().find(|branch| branch.name == source.name)?;
            Some(SourceAt { name: &source.name, reader: branch.source.reader(), commit: &source.commit })
        });
        let at: Vec<SourceAt<'_>> = at.collect();
        read_joined(&reader, commit, &at, &mut self.cache)
    }

    /// Refuses a tree in which a tenant asks for more than it may.
    pub(super) fn within_limits(&self, tree: &Tree) -> Result<(), commit_reader::Error> {
        let broken = violations(tree, &self.tenants);
        if broken.is_empty() { Ok(()) } else { Err(commit_reader::Error::Refused(broken)) }
    }
}

/// Tells whether an error is in a file of a source.
fn is_of(source: &str, error: &InputError) -> bool {
    error.path.split(['/', '#']).next() == Some(source)
}

/// What became of tips.
enum TipOutcome {
    Accepted,
    /// They are not accepted; the names of those that errors are of, as far as they are known.
    Held(Vec<String>),
}

impl TipOutcome {
    fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted)
    }
}
