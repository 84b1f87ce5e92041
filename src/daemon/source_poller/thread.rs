//! The poller's thread: opens the sources, waits for one that is missing, and then polls. Everything else continues meanwhile.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use super::branch::Branch;
use super::dropped::DroppedKeeper;
use super::settings::BranchSettings;
use super::{AcceptedState, Cache, Poller, PollerSettings, SharedReader};
use bot::source_request::{CandidateError, SourceRequest};
use engine::SourceEvent;
use git::{JoinedRepository, Source};
use source::OwnersSyntax;

/// How often a local source is polled that cannot be watched.
const POLL_UNWATCHED: Duration = Duration::from_secs(1);

/// Opens the sources. Returns why not if one is missing but an earlier process read it, so that waiting makes sense.
///
/// # Errors
/// One cannot be used, or is missing at a first start.
pub(super) fn open(
    settings: &PollerSettings,
    state_dir: &Path,
    joined: Option<&JoinedRepository>,
) -> Result<Result<Vec<Source>, String>, git::Error> {
    let mut sources = Vec::with_capacity(settings.branches.len());
    for branch in &settings.branches {
        match open_one(branch, settings.code_owners, state_dir, joined)? {
            Ok(source) => sources.push(source),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(sources))
}

fn open_one(
    settings: &BranchSettings,
    code_owners: Option<OwnersSyntax>,
    state_dir: &Path,
    joined: Option<&JoinedRepository>,
) -> Result<Result<Source, String>, git::Error> {
    let spec = settings.spec.clone();
    let opened = match joined {
        None => Source::open(spec, state_dir),
        Some(joined) => Source::open_among(spec, state_dir, joined, settings.accepted.as_ref()),
    };
    match opened {
        Ok(source) if code_owners.is_some() && !source.may_be_signed() => {
            let reason = "a plain folder has no commit that holds CODEOWNERS: follow a repository, or leave \
                          `forge.approvals.codeOwners` out";
            Err(git::Error::UnsupportedLocation { location: settings.spec.location.clone(), reason })
        }
        Ok(source) if settings.verify.is_some() && !source.may_be_signed() => {
            let reason = "a plain folder has no signed commits: follow a repository, or leave `source.verify` out";
            Err(git::Error::UnsupportedLocation { location: settings.spec.location.clone(), reason })
        }
        Ok(source) => Ok(Ok(source)),
        Err(error @ git::Error::NotARepository { .. }) if settings.accepted.is_some() => Ok(Err(error.in_full())),
        Err(error) => Err(error),
    }
}

/// Returns what keeps dropped commits of each source in the store, where each of several daemons has a mirror of its own. The mirrors have
/// those of the store from then on: payloads are read before the first poll.
pub(super) fn keepers(settings: &PollerSettings, opened: &Result<Vec<Source>, String>) -> Vec<Option<DroppedKeeper>> {
    let Ok(sources) = opened else { return settings.branches.iter().map(|_| None).collect() };
    let keeper = |(branch, source): (&BranchSettings, &Source)| {
        if !source.is_mirrored() {
            return None;
        }
        let store = settings.shared.as_ref()?;
        let mut keeper = DroppedKeeper::new(Arc::clone(store), &branch.name);
        if let Err(error) = keeper.bring(source.reader()) {
            tracing::warn!(%error, "commits that the branch dropped could not be read from the store; trying again");
        }
        Some(keeper)
    };
    settings.branches.iter().zip(sources).map(keeper).collect()
}

/// The source's thread from its start.
pub(super) struct PollerThread {
    /// The result of opening; taken when it was reported.
    pub opened: Option<Result<Vec<Source>, String>>,
    /// Of each source; taken when they exist. Only a source on this machine may be missing, and that has no mirror.
    pub dropped: Vec<Option<DroppedKeeper>>,
    /// Taken when the sources exist.
    pub joined: Option<JoinedRepository>,
    pub settings: PollerSettings,
    pub state_dir: PathBuf,
    /// Set when the process ends.
    pub stop: Arc<AtomicBool>,
    pub reader: SharedReader,
    pub requests: Sender<SourceRequest>,
    pub news: mpsc::Sender<SourceEvent>,
    /// The reason that was last reported.
    pub reported: Option<String>,
    /// The sources once they exist.
    pub poller: Option<Box<Poller>>,
}

impl PollerThread {
    /// Follows the source, once it exists, until the requests end.
    pub(super) fn run(&mut self, inbox: &Receiver<SourceRequest>) {
        let mut opened = self.opened.take();
        while self.poller.is_none() {
            match opened.take().map_or_else(|| open(&self.settings, &self.state_dir, self.joined.as_ref()), Ok) {
                Ok(Ok(sources)) => self.poller = Some(self.begin(sources)),
                Ok(Err(why)) => self.fail(why),
                Err(error) => self.fail(error.in_full()),
            }
            if self.poller.is_none() && self.wait(inbox) {
                return;
            }
        }
        // It stays in `self`: after a panic the restarted thread continues with the same source.
        if let Some(poller) = &mut self.poller {
            poller.run(inbox);
        }
    }

    /// Reports why the source is missing if the reason changed. The accepted commit cannot be read either.
    fn fail(&mut self, why: String) {
        if self.reported.as_ref() == Some(&why) {
            return;
        }
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Err(why.clone());
        self.reported = Some(why.clone());
        // The receiver may be gone.
        drop(self.news.blocking_send(SourceEvent::Restored(Err(why.clone()))));
        drop(self.news.blocking_send(SourceEvent::Failed(why)));
    }

    /// Waits until the next search for the source; returns whether the requests have ended.
    fn wait(&self, inbox: &Receiver<SourceRequest>) -> bool {
        let missing = "the source is missing since the start".to_owned();
        // The requester may be gone. A missing source cannot be watched, and a search for it costs next to nothing.
        match inbox.recv_timeout(
            POLL_UNWATCHED
                .min(self.settings.branches.iter().map(|branch| branch.poll_interval).min().unwrap_or(POLL_UNWATCHED)),
        ) {
            Ok(SourceRequest::End) | Err(RecvTimeoutError::Disconnected) => return true,
            Ok(SourceRequest::Candidate { reply, .. }) => drop(reply.send(Err(CandidateError::Unreadable(missing)))),
            Ok(SourceRequest::Landed { reply, .. }) => drop(reply.send(Err(missing))),
            Ok(SourceRequest::Branch { reply, .. }) => drop(reply.send(None)),
            Ok(SourceRequest::ReadHeld(key, held)) => {
                drop(self.news.blocking_send(SourceEvent::HeldRead(key, held.index, Err(missing))));
            }
            Ok(
                SourceRequest::Poll
                | SourceRequest::AcceptRewrite(_)
                | SourceRequest::Retain { .. }
                | SourceRequest::Forget { .. },
            )
            | Err(RecvTimeoutError::Timeout) => {}
        }
        self.news.is_closed() || self.stop.load(Ordering::Relaxed)
    }

    fn begin(&mut self, sources: Vec<Source>) -> Box<Poller> {
        let dropped = std::mem::take(&mut self.dropped).into_iter();
        let settings = &self.settings;
        let opened = settings.branches.iter().zip(sources).zip(dropped);
        let branch = |((settings, source), dropped): ((&BranchSettings, Source), Option<DroppedKeeper>)| {
            let wake = self.requests.clone();
            let watch = git::watch(&source, move || drop(wake.send(SourceRequest::Poll)));
            let mut branch = Branch::new(settings, source, dropped, self.news.clone());
            match watch {
                Ok(watch) => branch.watch = watch,
                Err(error) => {
                    // Only a local source is watched, and reading its refs costs next to nothing.
                    branch.poll_interval = branch.poll_interval.min(POLL_UNWATCHED);
                    branch.send(SourceEvent::Unwatched(match error {
                        git::Error::Watch { reason, .. } => reason,
                        other => other.in_full(),
                    }));
                }
            }
            branch
        };
        let branches: Vec<Branch> = opened.map(branch).collect();
        Box::new(Poller {
            was_joined: branches.iter().any(|branch| branch.accepted.is_some()),
            branches,
            joined: self.joined.take(),
            stop: Arc::clone(&self.stop),
            reader: Arc::clone(&self.reader),
            cache: Cache::rendering(settings.rendering.clone())
                .decrypting(settings.decryption.clone())
                .owned(settings.code_owners),
            rendering: settings.rendering.clone(),
            tenants: Arc::clone(&settings.tenants),
            accepted: settings.accepted.clone(),
            refused: std::collections::BTreeMap::new(),
            accepted_state: AcceptedState::Unread,
            fresh: Vec::new(),
            finding: None,
            later: std::collections::VecDeque::new(),
            news: self.news.clone(),
        })
    }
}
