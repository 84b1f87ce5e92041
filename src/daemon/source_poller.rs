//! Follows the source: a thread of its own, because git blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use self::ending::Ending;
use self::payloads::answer_payloads;
use super::commit_reader::{self, Cache, read_commit};
use super::supervise::Supervisor;
use crate::config::{self, Configuration, HistoryRewrite, read_secret};
use crate::core::SourceEvent;
use crate::error::{Classify as _, ErrorClass};
use crate::git::{self, Reader, Source, SourceSpec};
use crate::model::id::CommitId;
use crate::model::manifest::InputError;
use crate::model::records::ResourceSnapshot;
use crate::plan::pull_request::Candidate;
use crate::telemetry::metrics::Part;

mod ending;
mod missing;
mod payloads;
mod switch;

/// Longest pause between two polls of a source that cannot be read.
const POLL_BACKOFF_MAX: Duration = Duration::from_mins(5);
/// How the names of pins start: one for each commit that a record names.
const PIN_PREFIX: &str = "commit-";

/// What the daemon asks of the source's thread.
pub enum SourceRequest {
    /// End.
    End,
    /// Look now.
    Poll,
    /// Let a tip in though it does not descend from the accepted commit: a person said so.
    AcceptRewrite(CommitId),
    /// Commits that need not be kept any more may go.
    Retain {
        /// The commits that records name, as far as those accepted up to `at` were decided about.
        named: BTreeSet<CommitId>,
        /// The newest commit that whoever asks had heard of: what was accepted since is kept.
        at: CommitId,
    },
    /// Read a pull request as its merge into the accepted commit would leave the tree.
    Candidate {
        /// The pull request.
        number: u64,
        /// The commit it ends with, as the forge says.
        head: CommitId,
        /// Fetch it from the server. Otherwise the commit must be here: the branch of a repository that is read in place.
        fetch: bool,
        /// Where the answer goes; nobody need wait for it.
        reply: oneshot::Sender<Result<Candidate, CandidateError>>,
    },
    /// The pull request is not looked at any more: what was fetched for it need not be kept.
    Forget {
        /// The pull request.
        number: u64,
    },
    /// Say which branch is followed, as far as that is known.
    Branch {
        /// Where the answer goes: its short name; `None` where there is none, or nothing was read yet.
        reply: oneshot::Sender<Option<String>>,
    },
    /// List the commits that the branch gained between two tips; see [`Reader::landed`](git::Reader::landed).
    Landed {
        /// The earlier tip; absent: the later one alone is listed.
        from: Option<CommitId>,
        /// The later tip.
        to: CommitId,
        /// Where the answer goes: newest first, or why they cannot be read.
        reply: oneshot::Sender<Result<Vec<git::Commit>, String>>,
    },
}

/// Why there is no tree of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateError {
    /// The merged files have errors: as a commit they would be refused whole.
    Refused(Vec<InputError>),
    /// It cannot be read, or has moved meanwhile; for people. Asking again may help.
    Unreadable(String),
}

/// How a source is followed.
pub struct PollerSettings {
    /// Where it is.
    pub spec: SourceSpec,
    /// How often it is polled.
    pub poll_interval: Duration,
    /// What to do about a rewritten history.
    pub on_rewrite: HistoryRewrite,
    /// A tip of a rewritten history that a person accepted.
    pub accepted_rewrite: Option<CommitId>,
    /// The accepted commit, from the store.
    pub accepted: Option<CommitId>,
    /// The branch that was followed because it was checked out, from the store.
    pub branch: Option<String>,
}

/// Returns which source a configuration names, with its token.
///
/// # Errors
/// The token's file cannot be read.
pub fn source_spec(configuration: &Configuration) -> Result<SourceSpec, config::Error> {
    let source = &configuration.source;
    Ok(SourceSpec {
        location: source.url.clone(),
        branch: source.branch.clone(),
        path: source.path.clone(),
        token: source.token_file.as_deref().map(read_secret).transpose()?,
        allow_insecure_http: source.allow_insecure_http,
        excluded: configuration.excluded_paths(),
    })
}

/// Where the source's threads are asked.
pub struct Followed {
    /// Ends the source's thread when it is dropped.
    _ending: Ending,
    /// What needs the source itself, which may be far away.
    pub requests: Sender<SourceRequest>,
    /// Snapshots whose payload is to be read again; [`SourceEvent::Payload`] is the answer. What is read is on this machine, so nothing
    /// waits for a server that does not answer.
    pub payloads: Sender<Arc<ResourceSnapshot>>,
}

/// Starts following a source; its threads end when what is returned is dropped.
///
/// Waits for a place on this machine that is missing where a commit is accepted, which is what members hold; at a first start
/// it is an error, as a wrong path would be.
///
/// # Errors
/// The source's configuration cannot be used.
pub fn follow(
    settings: PollerSettings,
    state_dir: &Path,
    news: mpsc::UnboundedSender<SourceEvent>,
    supervisor: &Supervisor,
) -> Result<Followed, git::Error> {
    let opened = missing::open(&settings, state_dir)?;
    let reader = Arc::new(Mutex::new(opened.as_ref().map(|source| source.reader().clone()).map_err(String::clone)));
    let payloads = answer_payloads(Arc::clone(&reader), news.clone(), supervisor);
    let (requests, inbox) = channel();
    let (ending, stop, alive) = Ending::of(requests.clone());
    let mut follower = missing::Opening {
        opened: Some(opened),
        settings,
        state_dir: state_dir.to_owned(),
        stop,
        reader,
        requests: requests.clone(),
        news,
        told: None,
        following: None,
    };
    let run = move || {
        // It goes with the thread: the end of the process waits for that.
        let _held = &alive;
        follower.run(&inbox);
    };
    supervisor.thread(Part::Source, "gitfleet-source", run).expect("a thread can be started at startup");
    Ok(Followed { _ending: ending, requests, payloads })
}

/// What payloads are read with, as of the last poll; why not, where the source is missing since the start.
type SharedReader = Arc<Mutex<Result<Reader, String>>>;

/// What this life knows of the accepted commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was not read yet, or could not be: it is tried again with each poll.
    Unread,
    /// It has errors, by the rules or the path of this life.
    Refused,
    /// The daemon has its tree.
    Read,
}

/// A pull request that was refused.
struct RefusedPull {
    head: CommitId,
    /// The accepted commit it was compared with.
    base: CommitId,
    errors: Vec<InputError>,
}

struct Follower {
    source: Source,
    /// Raised when the process ends.
    stop: Arc<AtomicBool>,
    reader: SharedReader,
    cache: Cache,
    accepted: Option<CommitId>,
    /// Pull requests that were read and refused: they are not read again until they or the accepted commit change.
    refused: BTreeMap<u64, RefusedPull>,
    standing: Standing,
    /// The commits that were accepted in this life, oldest first, without those before the last that the daemon has spoken of.
    fresh: Vec<CommitId>,
    poll_interval: Duration,
    on_rewrite: HistoryRewrite,
    /// A tip that a person accepted.
    accepted_rewrite: Option<CommitId>,
    /// The branch that is followed because it was checked out when it began to be.
    branch: Option<String>,
    /// The engine knows which one, in this life.
    branch_told: bool,
    failures: u32,
    /// A tip that was seen and could not be read or pinned: it is tried again with the next poll.
    unread: Option<CommitId>,
    /// The last poll failed, and the daemon knows.
    failing: bool,
    news: mpsc::UnboundedSender<SourceEvent>,
}

impl Follower {
    /// Follows until nobody asks any more. Is begun again where it ended by an error of ours: a tip that was seen then and did
    /// not be accepted is looked at again.
    fn run(&mut self, inbox: &Receiver<SourceRequest>) {
        let seen = self.source.tip().map(|tip| tip.commit.clone());
        self.unread = self.unread.take().or(seen.filter(|seen| self.accepted.as_ref() != Some(seen)));
        self.restore();
        self.poll();
        loop {
            match inbox.recv_timeout(self.pause()) {
                Ok(SourceRequest::Poll) | Err(RecvTimeoutError::Timeout) => self.poll(),
                Ok(SourceRequest::AcceptRewrite(commit)) => {
                    self.accepted_rewrite = Some(commit);
                    // The branch may have moved on since: what a person accepted is not the tip then.
                    self.unread = self.source.tip().map(|tip| tip.commit.clone());
                    self.poll();
                }
                Ok(SourceRequest::Retain { named, at }) => self.retain(&named, &at),
                // Who asked may have stopped waiting.
                Ok(SourceRequest::Candidate { number, head, fetch, reply }) => {
                    drop(reply.send(self.candidate(number, &head, fetch)));
                }
                Ok(SourceRequest::Branch { reply }) => {
                    // Whoever asked may have gone.
                    drop(reply.send(self.source.tip().and_then(|tip| tip.branch.clone())));
                }
                Ok(SourceRequest::Forget { number }) => self.forget(number),
                Ok(SourceRequest::Landed { from, to, reply }) => {
                    let landed = self.source.reader().landed(from.as_ref(), &to);
                    drop(reply.send(landed.map_err(|error| error.in_full())));
                }
                Ok(SourceRequest::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.news.is_closed() || self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn pause(&self) -> Duration {
        // An interval that is configured longer than the limit is not shortened by failures.
        self.poll_interval.saturating_mul(1 << self.failures.min(8)).min(POLL_BACKOFF_MAX.max(self.poll_interval))
    }

    fn tell(&self, news: SourceEvent) {
        // The receiver goes only when the process ends.
        drop(self.news.send(news));
    }

    /// Reads the accepted commit again, where that has not succeeded yet: what follows from it must not depend on what the tip
    /// is today.
    fn restore(&mut self) {
        let Some(accepted) = self.accepted.clone().filter(|_| self.standing == Standing::Unread) else { return };
        let _commit = tracing::error_span!("commit", commit = %accepted.short()).entered();
        let restored = match read_commit(self.source.reader(), &accepted, &mut self.cache) {
            Ok(tree) => {
                self.standing = Standing::Read;
                Ok(Arc::new(tree))
            }
            // The content of a commit does not change: to read it with each poll would end the same each time.
            Err(commit_reader::Error::Refused(errors)) => {
                self.standing = Standing::Refused;
                let first = errors.first().map(|first| format!(", first of all {first}")).unwrap_or_default();
                Err(format!("{}: {}{first}", accepted.short(), commit_reader::Error::Refused(errors)))
            }
            // It stays unread: our copy may be damaged, and the next poll makes it anew.
            Err(commit_reader::Error::Git(error)) => {
                self.source.doubt(&accepted, &error);
                Err(format!("{}: {}", accepted.short(), error.in_full()))
            }
        };
        self.tell(SourceEvent::Restored(restored));
    }

    /// Reads a pull request merged into the accepted commit.
    fn candidate(&mut self, number: u64, head: &CommitId, fetch: bool) -> Result<Candidate, CandidateError> {
        let unreadable = |why: String| CandidateError::Unreadable(format!("pull request {number}: {why}"));
        let Some(accepted) = self.accepted.clone() else {
            return Err(unreadable("no commit is accepted yet that it could be compared with".to_owned()));
        };
        if let Some(known) = self.refused.get(&number).filter(|known| known.head == *head && known.base == accepted) {
            return Err(CandidateError::Refused(known.errors.clone()));
        }
        self.refused.remove(&number);
        if fetch {
            let fetched = match self.source.fetch_pull(number, &self.stop) {
                Ok(fetched) => fetched,
                // The same head would be too large again: it is refused, or each look would fetch as far as the limit.
                Err(error @ git::Error::FetchTooLarge { .. }) => {
                    let errors = vec![commit_reader::about_the_whole(error.to_string())];
                    return Err(self.refuse(number, head, &accepted, errors));
                }
                Err(error) => return Err(unreadable(error.in_full())),
            };
            // The answer would be shown as the plan of the commit that was asked for.
            if fetched != *head {
                let (now, asked) = (fetched.short(), head.short());
                return Err(unreadable(format!("its head has moved to {now} and is {asked} no more; ask again")));
            }
        }
        commit_reader::read_candidate(self.source.reader(), &accepted, head, &self.cache).map_err(|error| match error {
            commit_reader::Error::Refused(errors) => self.refuse(number, head, &accepted, errors),
            commit_reader::Error::Git(error) => unreadable(error.in_full()),
        })
    }

    /// Remembers that a pull request was refused.
    fn refuse(&mut self, number: u64, head: &CommitId, base: &CommitId, errors: Vec<InputError>) -> CandidateError {
        let refused = RefusedPull { head: head.clone(), base: base.clone(), errors: errors.clone() };
        self.refused.insert(number, refused);
        CandidateError::Refused(errors)
    }

    fn forget(&mut self, number: u64) {
        self.refused.remove(&number);
        if let Err(error) = self.source.reader().forget_pull(number) {
            tracing::warn!(%error, number, "what was fetched for a pull request stays");
        }
    }

    fn poll(&mut self) {
        self.look();
        // A poll may have opened or cloned the repository anew: a reader from before may miss objects.
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Ok(self.source.reader().clone());
        // A tip that is the accepted commit and could not be read is read again as a tip.
        if self.unread.is_none() || self.unread != self.accepted {
            self.restore();
        }
    }

    fn look(&mut self) {
        let moved = match self.source.poll(&self.stop) {
            Ok(moved) => moved.map(|tip| tip.commit),
            Err(error) => {
                self.failing = true;
                // Only what may be over by itself is polled less and less often: what a person fixes is seen soon.
                self.failures += u32::from(error.class() == ErrorClass::Transient || self.failures == 0);
                return self.tell(SourceEvent::Failed(error.in_full()));
            }
        };
        // `poll` tells of a tip once: one that could not be read or pinned is not told again.
        let Some(tip) = moved.or_else(|| self.unread.take()) else {
            self.failures = 0;
            if std::mem::take(&mut self.failing) {
                self.tell(SourceEvent::Readable);
            }
            return;
        };
        let _commit = tracing::error_span!("commit", commit = %tip.short()).entered();
        match self.consider(&tip) {
            Ok(()) => {
                (self.failures, self.failing, self.unread) = (0, false, None);
                // A person's word is for the tip that was held then, and for no later one.
                self.accepted_rewrite = None;
            }
            Err(error) => {
                self.failing = true;
                self.failures += 1;
                self.source.doubt(&tip, &error);
                self.unread = Some(tip);
                self.tell(SourceEvent::Failed(error.in_full()));
            }
        }
    }

    /// Decides whether a new tip is accepted.
    fn consider(&mut self, tip: &CommitId) -> Result<(), git::Error> {
        // Before all else: the tip of another branch may well descend from the accepted commit.
        if let Some(words) = self.switched(tip) {
            self.tell(SourceEvent::Switched(tip.clone(), words));
            return Ok(());
        }
        // After a start the tip mostly is the accepted commit: it is read as a new one until this life has its tree.
        if self.accepted.as_ref() == Some(tip) && self.standing == Standing::Read {
            self.tell(SourceEvent::Unchanged);
            return Ok(());
        }
        if let Some(accepted) = &self.accepted
            && accepted != tip
            && self.on_rewrite == HistoryRewrite::Hold
            && self.accepted_rewrite.as_ref() != Some(tip)
            && !self.source.reader().descends(accepted, tip)?
        {
            self.tell(SourceEvent::Rewritten(tip.clone()));
            return Ok(());
        }
        self.tell(SourceEvent::Seen(tip.clone()));
        match read_commit(self.source.reader(), tip, &mut self.cache) {
            Ok(tree) => {
                if let Some(first) = tree.skipped.first() {
                    let (documents, first) = (tree.skipped.len(), format!("{}:{}", first.path, first.line));
                    tracing::info!(documents, first, "documents that are no Kubernetes objects are not read");
                }
                // Before anybody hears of the commit: records will name it, and git may collect what nothing refers to.
                self.source.reader().pin(&format!("{PIN_PREFIX}{tip}"), tip)?;
                self.accepted = Some(tip.clone());
                self.standing = Standing::Read;
                self.fresh.push(tip.clone());
                self.tell(SourceEvent::Accepted(Arc::new(tree)));
            }
            Err(commit_reader::Error::Refused(errors)) => {
                // Else `restore` would read the same commit, and complain of it, after each poll.
                if self.accepted.as_ref() == Some(tip) {
                    self.standing = Standing::Refused;
                }
                self.tell(SourceEvent::Refused(tip.clone(), errors));
            }
            Err(commit_reader::Error::Git(error)) => return Err(error),
        }
        Ok(())
    }

    /// Drops the pins of commits that no record names, of those up to `at`: of later ones records may be on their way.
    fn retain(&mut self, named: &BTreeSet<CommitId>, at: &CommitId) {
        // A commit of an earlier life is not in the list: then none of this life was decided about yet.
        let heard = self.fresh.iter().position(|commit| commit == at).unwrap_or(0);
        self.fresh.drain(..heard);
        let is_kept = |commit: &CommitId| {
            named.contains(commit) || self.fresh.contains(commit) || self.accepted.as_ref() == Some(commit)
        };
        let reader = self.source.reader();
        let result = reader.pins().and_then(|pins| {
            let ours = pins.iter().filter(|(name, _)| name.starts_with(PIN_PREFIX));
            for (name, _) in ours.filter(|(_, commit)| !is_kept(commit)) {
                reader.unpin(name)?;
            }
            Ok(())
        });
        if let Err(error) = result {
            tracing::warn!(%error, "pins of old commits stay");
        }
    }
}

#[cfg(test)]
mod tests;
