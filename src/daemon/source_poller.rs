//! Follows the source: a thread of its own, because git blocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use self::branch::{Branch, fetch_all};
use self::ending::Ending;
use self::payloads::answer_payloads;
use self::pulls::RefusedPull;
use super::commit_reader::Cache;
use super::commit_signatures::read_keys;
use super::rendering::Rendering;
use bot::source_request::SourceRequest;
use engine::SourceEvent;
use git::{JoinedRepository, Reader, joined_sources};
use model::id::{CommitId, PlacementKey};
use model::records::ResourceSnapshot;
use model::tenants::Tenants;
use system::clock;
use system::clock::Uptime;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;

mod accept;
mod branch;
mod dropped;
mod ending;
mod payloads;
mod pulls;
mod settings;
mod switch;
mod thread;
mod token;
mod verify;

pub use self::settings::{BranchSettings, PollerSettings, source_spec, source_specs};
pub use self::token::{TokenOrigin, TokenReader};

/// Longest pause between two polls of a source that cannot be read.
const POLL_BACKOFF_MAX: Duration = Duration::from_mins(5);
/// How the names of pins start: one for each commit that a record names.
const PIN_PREFIX: &str = "commit-";

/// The handles of the source's threads.
pub struct Followed {
    /// Ends the source's thread when it is dropped.
    _ending: Ending,
    /// Requests that need the source itself, which may be remote.
    pub requests: Sender<SourceRequest>,
    /// Snapshots whose payload must be read again; [`SourceEvent::Payload`] is the answer. The data is local, so this never
    /// waits for a server.
    pub payloads: Sender<Arc<ResourceSnapshot>>,
}

/// Starts following a source; its threads end when the result is dropped.
///
/// If a commit was accepted before, it waits for a missing local source, because members hold its objects; at a first start a
/// missing source is an error, like a wrong path.
///
/// # Errors
/// The source's configuration cannot be used, or a file of keys cannot be read.
pub fn follow(
    settings: PollerSettings,
    state_dir: &Path,
    news: mpsc::Sender<SourceEvent>,
    supervisor: &Supervisor,
) -> Result<Followed, git::Error> {
    for branch in &settings.branches {
        branch.verify.as_deref().map(read_keys).transpose()?;
    }
    let joined = settings.is_joined().then(|| JoinedRepository::open(state_dir)).transpose()?;
    let opened = thread::open(&settings, state_dir, joined.as_ref())?;
    let dropped = thread::keepers(&settings, &opened);
    let first = match &opened {
        Ok(sources) => {
            let mut readers =
                joined.iter().map(JoinedRepository::reader).chain(sources.iter().map(git::Source::reader));
            let first = readers.next().expect("a configuration has a source").clone();
            Ok(settings.rendering.reader(&readers.fold(first, |all, reader| all.with_blobs_of(reader)))?)
        }
        Err(why) => Err(why.clone()),
    };
    let reader = Arc::new(Mutex::new(first));
    let payloads = answer_payloads(Arc::clone(&reader), settings.rendering.clone(), news.clone(), supervisor);
    let (requests, inbox) = channel();
    let (ending, stop, alive) = Ending::of(requests.clone());
    let mut thread = thread::PollerThread {
        opened: Some(opened),
        dropped,
        joined,
        settings,
        state_dir: state_dir.to_owned(),
        stop,
        reader,
        requests: requests.clone(),
        news,
        reported: None,
        poller: None,
    };
    let run = move || {
        // It ends with the thread: the shutdown waits for that.
        let _held = &alive;
        thread.run(&inbox);
    };
    supervisor.thread(Part::Source, "gitfleet-source", run).expect("a thread can be started at startup");
    Ok(Followed { _ending: ending, requests, payloads })
}

/// The reader for payloads, as of the last poll; or why there is none, if the source is missing since the start.
type SharedReader = Arc<Mutex<Result<Reader, String>>>;

/// Whether this process has read the accepted commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptedState {
    /// Not read yet, or unreadable: each poll retries it.
    Unread,
    /// It has errors under the present rules or the present path.
    Refused,
    /// The daemon has its tree.
    Read,
}

/// What polls the sources, and accepts and reads their commits.
struct Poller {
    /// The followed branches: of several sources one each.
    branches: Vec<Branch>,
    /// Has the commits that join several sources; absent where there is one.
    joined: Option<JoinedRepository>,
    /// The sources were accepted together once. Before, none is accepted without the others: what is missing would be removed.
    was_joined: bool,
    /// Set when the process ends.
    stop: Arc<AtomicBool>,
    reader: SharedReader,
    cache: Cache,
    rendering: Rendering,
    /// What the files of folders may ask for.
    tenants: Arc<Tenants>,
    /// The accepted commit; of several sources the one that joins theirs.
    accepted: Option<CommitId>,
    /// Pull requests that were refused: they are not read again until they or the accepted commit change.
    refused: BTreeMap<(String, u64), RefusedPull>,
    accepted_state: AcceptedState,
    /// The commits accepted in this process, oldest first, from the last one that the daemon has confirmed.
    fresh: Vec<CommitId>,
    /// What is read again for the daemon, which waits for the answer.
    finding: Option<(PlacementKey, u64)>,
    /// Requests that waited behind a poll.
    later: VecDeque<SourceRequest>,
    news: mpsc::Sender<SourceEvent>,
}

/// Returns the name of a commit's pin.
fn pin_name(commit: &CommitId) -> String {
    format!("{PIN_PREFIX}{commit}")
}

/// Returns the next request, or `None` when a poll is due. One poll serves all requests for one that wait already: each push that a
/// webhook names asks for one.
fn next_request(
    later: &mut VecDeque<SourceRequest>,
    inbox: &Receiver<SourceRequest>,
    due: Uptime,
) -> Option<SourceRequest> {
    let next = match later.pop_front().map_or_else(|| inbox.recv_timeout(clock::uptime().until(due)), Ok) {
        Ok(request) => Some(request),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(SourceRequest::End),
    };
    if matches!(next, None | Some(SourceRequest::Poll)) {
        later.extend(inbox.try_iter().filter(|request| !matches!(request, SourceRequest::Poll)));
    }
    next
}

impl Poller {
    /// Follows the source until the requests end. It is restarted after an error in gitfleet, and then retries a tip that was
    /// seen and not accepted.
    fn run(&mut self, inbox: &Receiver<SourceRequest>) {
        if let Some((key, index)) = self.finding.take() {
            let why = "reading it ended because of an error in gitfleet; please report it".to_owned();
            self.send(SourceEvent::HeldRead(key, index, Err(why)));
        }
        for branch in &mut self.branches {
            let seen = branch.source.tip().map(|tip| tip.commit.clone());
            let seen = seen.filter(|seen| branch.accepted.as_ref() != Some(seen));
            branch.unread = branch.unread.take().or(branch.candidate.take()).or(seen);
        }
        self.restore();
        self.poll(true);
        // One that answers first must not make the core begin before the others were read.
        if self.joined.is_some() && self.branches.iter().any(|branch| !branch.failing) {
            self.send(SourceEvent::Unchanged);
        }
        loop {
            let due = self.branches.iter().map(|branch| branch.due).min().unwrap_or_else(clock::uptime);
            match next_request(&mut self.later, inbox, due) {
                None => self.poll(false),
                Some(SourceRequest::Poll) => self.poll(true),
                Some(SourceRequest::AcceptRewrite(commit)) => {
                    let is_it = |branch: &&mut Branch| branch.source.tip().is_some_and(|tip| tip.commit == commit);
                    // The branch may have moved since: then the commit that a person accepted is not the tip.
                    let only = self.branches.len() == 1;
                    if let Some(branch) = self.branches.iter_mut().find(|branch| only || is_it(branch)) {
                        branch.unread = branch.source.tip().map(|tip| tip.commit.clone());
                        branch.accepted_rewrite = Some(commit);
                    }
                    self.poll(true);
                }
                Some(SourceRequest::Retain { named, at }) => self.retain(&named, &at),
                Some(SourceRequest::ReadHeld(key, held)) => self.find(key, &held),
                // The requester may have stopped waiting.
                Some(SourceRequest::Candidate { source, number, head, fetch, reply }) => {
                    drop(reply.send(self.candidate(&source, number, &head, fetch)));
                }
                Some(SourceRequest::Branch { source, reply }) => {
                    let tip = self.branch_of(&source).and_then(|branch| branch.source.tip());
                    // The requester may be gone.
                    drop(reply.send(tip.and_then(|tip| tip.branch.clone())));
                }
                Some(SourceRequest::Forget { source, number }) => self.forget(&source, number),
                Some(SourceRequest::Landed { source, from, to, reply }) => {
                    drop(reply.send(self.landed(&source, from.as_ref(), &to)));
                }
                Some(SourceRequest::End) => return,
            }
            if self.news.is_closed() || self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn send(&self, news: SourceEvent) {
        // The receiver goes only when the process ends.
        drop(self.news.blocking_send(news));
    }

    /// Returns the branch of a source.
    fn branch_of(&self, source: &str) -> Option<&Branch> {
        self.branches.iter().find(|branch| branch.name == source)
    }

    /// Polls the branches that are due; `asked` those too that have answered so far.
    fn poll(&mut self, asked: bool) {
        let now = clock::uptime();
        let is_only = self.branches.len() == 1;
        let is_due = |branch: &Branch| is_only || branch.due <= now || (asked && branch.failures == 0);
        let fetched = fetch_all(&mut self.branches, is_due, &self.stop);
        let mut polled = Vec::new();
        for (index, fetched) in fetched.into_iter().enumerate() {
            let Some(fetched) = fetched else { continue };
            polled.push(index);
            if let Some(tip) = self.branches[index].notice(fetched) {
                self.consider(index, tip);
            }
        }
        self.accept_candidates();
        // A poll may have opened or cloned the repository again: a reader from before may miss objects.
        let reader = self.rendering.reader(&self.all_blobs()).map_err(|error| error.in_full());
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = reader;
        // If the unread tip is the accepted commit, it is read again as a tip.
        if !self.branches.iter().any(|branch| branch.unread.is_some() && branch.unread == branch.accepted) {
            self.restore();
        }
        self.sync_results();
        for index in polled {
            self.branches[index].rest();
        }
    }

    /// Has results of folders written to the disk, those of refused commits and of pull requests too: a loss of power could damage them.
    fn sync_results(&self) {
        if let Err(error) = self.rendering.sync() {
            tracing::warn!(error = error.in_full(), "results of rendered folders may not be on the disk");
        }
    }

    /// Decides whether a new tip may be accepted.
    fn consider(&mut self, index: usize, tip: CommitId) {
        let branch = &mut self.branches[index];
        let _source = (!branch.name.is_empty()).then(|| tracing::error_span!("source", source = branch.name).entered());
        let _commit = tracing::error_span!("commit", commit = %tip.short()).entered();
        tracing::debug!("the branch has moved");
        match branch.may_accept(&tip, self.accepted_state) {
            Ok(true) => branch.candidate = Some(tip),
            Ok(false) => branch.settle(),
            Err(error) => branch.retry(tip, Some(&error), error.in_full()),
        }
    }

    /// Returns a reader that finds the files of all sources.
    fn all_blobs(&self) -> Reader {
        let readers = self.branches.iter().map(|branch| branch.source.reader());
        match &self.joined {
            Some(joined) => readers.fold(joined.reader().clone(), |all, reader| all.with_blobs_of(reader)),
            None => self.branches[0].source.reader().clone(),
        }
    }

    /// Drops the pins of commits up to `at` that no record names: records of later commits may not be stored yet.
    fn retain(&mut self, named: &BTreeSet<CommitId>, at: &CommitId) {
        // A commit of an earlier process is not in the list: then no commit of this process was decided yet.
        let heard = self.fresh.iter().position(|commit| commit == at).unwrap_or(0);
        self.fresh.drain(..heard);
        let kept: BTreeSet<CommitId> = named.iter().chain(&self.fresh).chain(&self.accepted).cloned().collect();
        let of_branches = match &self.joined {
            None => Ok(vec![kept.clone()]),
            Some(joined) => retained(joined, &self.branches, &kept),
        };
        let result = of_branches.and_then(|of_branches| {
            for (branch, kept) in self.branches.iter_mut().zip(of_branches) {
                unpin_others(branch.source.reader(), &kept)?;
                branch.retain_dropped(&kept);
            }
            self.rendering.retain(|commit| kept.contains(commit))
        });
        if let Err(error) = result {
            tracing::warn!(%error, "pins of old commits could not be removed");
        }
    }
}

/// Drops the pins of commits that are not kept; tells whether there were any.
fn unpin_others(reader: &Reader, kept: &BTreeSet<CommitId>) -> Result<bool, git::Error> {
    let pins = reader.pins()?;
    let ours = pins.iter().filter(|(name, commit)| name.starts_with(PIN_PREFIX) && !kept.contains(*commit));
    let mut dropped = false;
    for (name, _) in ours {
        reader.unpin(name)?;
        dropped = true;
    }
    Ok(dropped)
}

/// Drops the commits that join sources and are not kept. Returns the commits of each branch that those kept need.
fn retained(
    joined: &JoinedRepository,
    branches: &[Branch],
    kept: &BTreeSet<CommitId>,
) -> Result<Vec<BTreeSet<CommitId>>, git::Error> {
    let mut of_branches = vec![BTreeSet::new(); branches.len()];
    for commit in kept {
        // Another daemon made one that is not here: this machine pinned nothing for it.
        for source in joined_sources(joined.reader(), commit)?.into_iter().flatten() {
            if let Some(index) = branches.iter().position(|branch| branch.name == source.name) {
                of_branches[index].insert(source.commit);
            }
        }
    }
    for (branch, kept) in branches.iter().zip(&mut of_branches) {
        kept.extend(branch.accepted.clone());
    }
    // It has copies of what some of them have.
    let kept = of_branches.iter().flatten().chain(kept).cloned().collect();
    if unpin_others(joined.reader(), &kept)? {
        joined.sweep()?;
    }
    Ok(of_branches)
}

#[cfg(test)]
mod tests;
