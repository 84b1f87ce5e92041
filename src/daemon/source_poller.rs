//! Follows the source: a thread of its own, because git blocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use self::dropped::DroppedKeeper;
use self::ending::Ending;
use self::payloads::answer_payloads;
use self::pulls::RefusedPull;
use self::token::TokenFile;
use self::verify::Verifier;
use super::commit_reader::{self, Cache, read_commit};
use super::commit_signatures::read_keys;
use super::rendering::Rendering;
use super::supervise::Supervisor;
use crate::clock::{self, Uptime};
use crate::config::HistoryRewrite;
use crate::core::SourceEvent;
use crate::decide::tenancy::violations;
use crate::error::{Classify as _, ErrorClass};
use crate::git::{self, Reader, Source};
use crate::model::id::CommitId;
use crate::model::manifest::InputError;
use crate::model::records::ResourceSnapshot;
use crate::model::tenants::Tenants;
use crate::model::tree::Tree;
use crate::plan::pull_request::Candidate;
use crate::telemetry::metrics::Part;

mod dropped;
mod ending;
mod missing;
mod payloads;
mod pulls;
mod settings;
mod switch;
mod token;
mod verify;

pub use self::settings::{PollerSettings, source_spec};

/// Longest pause between two polls of a source that cannot be read.
const POLL_BACKOFF_MAX: Duration = Duration::from_mins(5);
/// How the names of pins start: one for each commit that a record names.
const PIN_PREFIX: &str = "commit-";

/// A request to the source's thread.
pub enum SourceRequest {
    /// End the thread.
    End,
    /// Poll now.
    Poll,
    /// Accept a tip that does not descend from the accepted commit: a person said so.
    AcceptRewrite(CommitId),
    /// Release the commits that need not be kept any more.
    Retain {
        /// The commits that records name, as of the decisions about commits up to `at`.
        named: BTreeSet<CommitId>,
        /// The newest commit that the requester knew: every later accepted commit is kept.
        at: CommitId,
    },
    /// Read the tree that a merge of a pull request into the accepted commit would have.
    Candidate {
        /// The pull request.
        number: u64,
        /// Its head commit, as the forge names it.
        head: CommitId,
        /// Fetch it from the server. Otherwise the commit must be local: in the branch of a repository that is read in place.
        fetch: bool,
        /// Receives the answer; may be closed.
        reply: oneshot::Sender<Result<Candidate, CandidateError>>,
    },
    /// The pull request is closed: drop what was fetched for it.
    Forget {
        /// The pull request.
        number: u64,
    },
    /// Name the followed branch, if known.
    Branch {
        /// Receives the branch's short name; `None` if there is none, or nothing was read yet.
        reply: oneshot::Sender<Option<String>>,
    },
    /// List the commits that the branch gained between two tips; see [`Reader::landed`](git::Reader::landed).
    Landed {
        /// The earlier tip; without it only the later one is listed.
        from: Option<CommitId>,
        /// The later tip.
        to: CommitId,
        /// Receives the commits, newest first, or why they cannot be read.
        reply: oneshot::Sender<Result<Vec<git::Commit>, String>>,
    },
}

/// Why a pull request has no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateError {
    /// The merged files have errors: as a commit they would be refused.
    Refused(Vec<InputError>),
    /// It cannot be read, or has moved meanwhile; the reason as text for users. A retry may help.
    Unreadable(String),
}

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
    news: mpsc::UnboundedSender<SourceEvent>,
    supervisor: &Supervisor,
) -> Result<Followed, git::Error> {
    settings.verify.as_deref().map(read_keys).transpose()?;
    let opened = missing::open(&settings, state_dir)?;
    let dropped = missing::keeper(&settings, &opened);
    let first = match &opened {
        Ok(source) => Ok(settings.rendering.reader(source.reader())?),
        Err(why) => Err(why.clone()),
    };
    let reader = Arc::new(Mutex::new(first));
    let payloads = answer_payloads(Arc::clone(&reader), settings.rendering.clone(), news.clone(), supervisor);
    let (requests, inbox) = channel();
    let (ending, stop, alive) = Ending::of(requests.clone());
    let mut follower = missing::Opening {
        opened: Some(opened),
        dropped,
        settings,
        state_dir: state_dir.to_owned(),
        stop,
        reader,
        requests: requests.clone(),
        news,
        reported: None,
        following: None,
    };
    let run = move || {
        // It ends with the thread: the shutdown waits for that.
        let _held = &alive;
        follower.run(&inbox);
    };
    supervisor.thread(Part::Source, "gitfleet-source", run).expect("a thread can be started at startup");
    Ok(Followed { _ending: ending, requests, payloads })
}

/// The reader for payloads, as of the last poll; or why there is none, if the source is missing since the start.
type SharedReader = Arc<Mutex<Result<Reader, String>>>;

/// Whether this process has read the accepted commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Not read yet, or unreadable: each poll retries it.
    Unread,
    /// It has errors under the present rules or the present path.
    Refused,
    /// The daemon has its tree.
    Read,
}

struct Follower {
    source: Source,
    /// Set when the process ends.
    stop: Arc<AtomicBool>,
    reader: SharedReader,
    cache: Cache,
    rendering: Rendering,
    /// What the files of folders may ask for.
    tenants: Arc<Tenants>,
    accepted: Option<CommitId>,
    /// Pull requests that were refused: they are not read again until they or the accepted commit change.
    refused: BTreeMap<u64, RefusedPull>,
    standing: Standing,
    /// The commits accepted in this process, oldest first, from the last one that the daemon has confirmed.
    fresh: Vec<CommitId>,
    poll_interval: Duration,
    on_rewrite: HistoryRewrite,
    /// A tip that a person accepted.
    accepted_rewrite: Option<CommitId>,
    /// The branch that is followed because it was checked out at the start.
    branch: Option<String>,
    /// The core has received the branch in this process.
    branch_reported: bool,
    failures: u32,
    token_file: Option<TokenFile>,
    verifier: Option<Verifier>,
    /// A tip that could not be read or pinned: the next poll retries it.
    unread: Option<CommitId>,
    /// The last poll failed, and the daemon was notified.
    failing: bool,
    /// Requests that waited behind a poll.
    later: VecDeque<SourceRequest>,
    news: mpsc::UnboundedSender<SourceEvent>,
    /// Keeps commits that the branch dropped in the store; absent where this daemon has the only mirror.
    dropped: Option<DroppedKeeper>,
}

/// Returns the name of a commit's pin.
fn pin_name(commit: &CommitId) -> String {
    format!("{PIN_PREFIX}{commit}")
}

/// Returns the next request, and a poll when one is due. One poll serves all requests for one that wait already: each push that a
/// webhook names asks for one.
fn next_request(later: &mut VecDeque<SourceRequest>, inbox: &Receiver<SourceRequest>, due: Uptime) -> SourceRequest {
    let next = match later.pop_front().map_or_else(|| inbox.recv_timeout(clock::uptime().until(due)), Ok) {
        Ok(request) => request,
        Err(RecvTimeoutError::Timeout) => SourceRequest::Poll,
        Err(RecvTimeoutError::Disconnected) => SourceRequest::End,
    };
    if matches!(next, SourceRequest::Poll) {
        later.extend(inbox.try_iter().filter(|request| !matches!(request, SourceRequest::Poll)));
    }
    next
}

impl Follower {
    /// Follows the source until the requests end. It is restarted after an error in gitfleet, and then retries a tip that was
    /// seen and not accepted.
    fn run(&mut self, inbox: &Receiver<SourceRequest>) {
        let seen = self.source.tip().map(|tip| tip.commit.clone());
        self.unread = self.unread.take().or(seen.filter(|seen| self.accepted.as_ref() != Some(seen)));
        self.restore();
        let mut due = self.poll();
        loop {
            match next_request(&mut self.later, inbox, due) {
                SourceRequest::Poll => due = self.poll(),
                SourceRequest::AcceptRewrite(commit) => {
                    self.accepted_rewrite = Some(commit);
                    // The branch may have moved since: then the commit that a person accepted is not the tip.
                    self.unread = self.source.tip().map(|tip| tip.commit.clone());
                    due = self.poll();
                }
                SourceRequest::Retain { named, at } => self.retain(&named, &at),
                // The requester may have stopped waiting.
                SourceRequest::Candidate { number, head, fetch, reply } => {
                    drop(reply.send(self.candidate(number, &head, fetch)));
                }
                SourceRequest::Branch { reply } => {
                    // The requester may be gone.
                    drop(reply.send(self.source.tip().and_then(|tip| tip.branch.clone())));
                }
                SourceRequest::Forget { number } => self.forget(number),
                SourceRequest::Landed { from, to, reply } => {
                    let landed = self.source.reader().landed(from.as_ref(), &to);
                    drop(reply.send(landed.map_err(|error| error.in_full())));
                }
                SourceRequest::End => return,
            }
            if self.news.is_closed() || self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn send(&self, news: SourceEvent) {
        // The receiver goes only when the process ends.
        drop(self.news.send(news));
    }

    /// Reads the accepted commit again if that has not succeeded yet: decisions about it must not depend on today's tip.
    fn restore(&mut self) {
        let Some(accepted) = self.accepted.clone().filter(|_| self.standing == Standing::Unread) else { return };
        let _commit = tracing::error_span!("commit", commit = %accepted.short()).entered();
        let restored = match read_commit(self.source.reader(), &accepted, &mut self.cache) {
            Ok(tree) => {
                self.standing = Standing::Read;
                // Of another version of a program they may be others than those that were pinned.
                let pinned = self.rendering.pin(&accepted, self.cache.rendered());
                pinned.map(|()| Arc::new(tree)).map_err(|error| error.in_full())
            }
            // The content of a commit does not change: each further read would fail the same way.
            Err(commit_reader::Error::Refused(errors)) => {
                self.standing = Standing::Refused;
                let first = errors.first().map(|first| format!(", first of all {first}")).unwrap_or_default();
                Err(format!("{}: {}{first}", accepted.short(), commit_reader::Error::Refused(errors)))
            }
            // It stays unread: the local copy may be damaged, and the next poll clones it again.
            Err(error) => {
                self.doubt(&accepted, &error);
                Err(format!("{}: {}", accepted.short(), error.in_full()))
            }
        };
        self.send(SourceEvent::Restored(restored));
    }

    /// Has our copy of the source fetched again if it may be the cause.
    fn doubt(&mut self, commit: &CommitId, error: &commit_reader::Error) {
        if let commit_reader::Error::Git(error) = error {
            self.source.doubt(commit, error);
        }
    }

    /// Refuses a tree in which a tenant asks for more than it may.
    fn within_limits(&self, tree: &Tree) -> Result<(), commit_reader::Error> {
        let broken = violations(tree, &self.tenants);
        if broken.is_empty() { Ok(()) } else { Err(commit_reader::Error::Refused(broken)) }
    }

    /// Polls, and returns when to do it again. That counts from here: other requests, which may come more often, delay no poll.
    fn poll(&mut self) -> Uptime {
        self.renew_token();
        self.notice_keys();
        self.look();
        // A poll may have opened or cloned the repository again: a reader from before may miss objects.
        let reader = self.rendering.reader(self.source.reader()).map_err(|error| error.in_full());
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = reader;
        // If the unread tip is the accepted commit, it is read again as a tip.
        if self.unread.is_none() || self.unread != self.accepted {
            self.restore();
        }
        // Failures do not shorten an interval that is configured longer than the limit.
        let pause = self.poll_interval.saturating_mul(1 << self.failures.min(8));
        clock::uptime().after(pause.min(POLL_BACKOFF_MAX.max(self.poll_interval)))
    }

    fn look(&mut self) {
        let moved = match self.source.poll(&self.stop) {
            Ok(moved) => moved.map(|tip| tip.commit),
            Err(error) => {
                self.failing = true;
                // Only temporary failures lengthen the interval: a person's fix is noticed soon.
                self.failures += u32::from(error.class() == ErrorClass::Transient || self.failures == 0);
                return self.send(SourceEvent::Failed(error.in_full()));
            }
        };
        // Before records change because of the tip: this daemon may end at any moment.
        self.keep_dropped();
        // `poll` reports a tip once: an unread one must be remembered here.
        let Some(tip) = moved.or_else(|| self.unread.take()) else {
            self.failures = 0;
            if std::mem::take(&mut self.failing) {
                self.send(SourceEvent::Readable);
            }
            return;
        };
        let _commit = tracing::error_span!("commit", commit = %tip.short()).entered();
        tracing::debug!("the branch has moved");
        match self.consider(&tip) {
            Ok(()) => {
                (self.failures, self.failing, self.unread) = (0, false, None);
                // A person accepts the pending tip, and no later one.
                self.accepted_rewrite = None;
            }
            Err(error) => {
                self.failing = true;
                self.failures += 1;
                self.doubt(&tip, &error);
                self.unread = Some(tip);
                self.send(SourceEvent::Failed(error.in_full()));
            }
        }
    }

    /// Decides whether a new tip is accepted.
    fn consider(&mut self, tip: &CommitId) -> Result<(), commit_reader::Error> {
        // First: the tip of another branch may well descend from the accepted commit.
        if let Some(text) = self.switched(tip) {
            self.send(SourceEvent::Switched(tip.clone(), text));
            return Ok(());
        }
        // After a start the tip is usually the accepted commit: it is read as a new one until this process has its tree.
        if self.accepted.as_ref() == Some(tip) && self.standing == Standing::Read {
            self.send(SourceEvent::Unchanged);
            return Ok(());
        }
        if let Some(accepted) = &self.accepted
            && accepted != tip
            && self.on_rewrite == HistoryRewrite::Hold
            && self.accepted_rewrite.as_ref() != Some(tip)
            && !self.source.reader().descends(accepted, tip)?
        {
            self.send(SourceEvent::Rewritten(tip.clone()));
            return Ok(());
        }
        self.send(SourceEvent::Seen(tip.clone()));
        let unsigned = self.unsigned(tip)?;
        let read = if unsigned.is_empty() {
            let read = read_commit(self.source.reader(), tip, &mut self.cache);
            // What was accepted stays: nothing is delivered that a tenant may not have delivered.
            if self.accepted.as_ref() == Some(tip) {
                read
            } else {
                read.and_then(|tree| self.within_limits(&tree).map(|()| tree))
            }
        } else {
            Err(commit_reader::Error::Refused(unsigned))
        };
        match read {
            Ok(tree) => {
                if let Some(first) = tree.skipped.first() {
                    let (documents, first) = (tree.skipped.len(), format!("{}:{}", first.path, first.line));
                    tracing::info!(documents, first, "documents that are no Kubernetes objects are not read");
                }
                // Before the commit is announced: records will name it, and git may collect unreferenced commits.
                self.source.reader().pin(&pin_name(tip), tip)?;
                self.rendering.pin(tip, self.cache.rendered())?;
                self.accepted = Some(tip.clone());
                self.standing = Standing::Read;
                self.fresh.push(tip.clone());
                self.send(SourceEvent::Accepted(Arc::new(tree)));
            }
            Err(commit_reader::Error::Refused(errors)) => {
                // Otherwise `restore` would read the same commit, and report its errors, after each poll.
                if self.accepted.as_ref() == Some(tip) {
                    self.standing = Standing::Refused;
                }
                self.send(SourceEvent::Refused(tip.clone(), errors));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Drops the pins of commits up to `at` that no record names: records of later commits may not be stored yet.
    fn retain(&mut self, named: &BTreeSet<CommitId>, at: &CommitId) {
        // A commit of an earlier process is not in the list: then no commit of this process was decided yet.
        let heard = self.fresh.iter().position(|commit| commit == at).unwrap_or(0);
        self.fresh.drain(..heard);
        let kept: BTreeSet<CommitId> = named.iter().chain(&self.fresh).chain(&self.accepted).cloned().collect();
        let reader = self.source.reader();
        let result = reader.pins().and_then(|pins| {
            let ours = pins.iter().filter(|(name, _)| name.starts_with(PIN_PREFIX));
            for (name, _) in ours.filter(|(_, commit)| !kept.contains(*commit)) {
                reader.unpin(name)?;
            }
            self.rendering.retain(|commit| kept.contains(commit))
        });
        if let Err(error) = result {
            tracing::warn!(%error, "pins of old commits could not be removed");
        }
        self.retain_dropped(&kept);
    }
}

#[cfg(test)]
mod tests;
