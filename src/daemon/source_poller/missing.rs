//! A source that is missing when the daemon starts: the daemon waits for it, and everything else continues.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use super::{
    Cache, CandidateError, DroppedKeeper, Follower, PollerSettings, SharedReader, SourceRequest, Standing, TokenFile,
    Verifier,
};
use crate::core::SourceEvent;
use crate::git::{self, Source};

/// How often a local source is polled that cannot be watched.
const POLL_UNWATCHED: Duration = Duration::from_secs(1);

/// Opens the source. Returns why not if it is missing but an earlier process read it, so that waiting makes sense.
///
/// # Errors
/// It cannot be used, or is missing at a first start.
pub(super) fn open(settings: &PollerSettings, state_dir: &Path) -> Result<Result<Source, String>, git::Error> {
    match Source::open(settings.spec.clone(), state_dir) {
        Ok(source) if settings.verify.is_some() && !source.may_be_signed() => {
            let reason = "a plain folder has no signed commits: follow a repository, or leave `source.verify` out";
            Err(git::Error::UnsupportedLocation { location: settings.spec.location.clone(), reason })
        }
        Ok(source) => Ok(Ok(source)),
        Err(error @ git::Error::NotARepository { .. }) if settings.accepted.is_some() => Ok(Err(error.in_full())),
        Err(error) => Err(error),
    }
}

/// Returns what keeps dropped commits in the store, where each of several daemons has a mirror of its own. The mirror has those of the
/// store from then on: payloads are read before the first poll.
pub(super) fn keeper(settings: &PollerSettings, opened: &Result<Source, String>) -> Option<DroppedKeeper> {
    let source = opened.as_ref().ok().filter(|source| source.is_mirrored())?;
    let mut keeper = DroppedKeeper::new(Arc::clone(settings.shared.as_ref()?));
    if let Err(error) = keeper.bring(source.reader()) {
        tracing::warn!(%error, "commits that the branch dropped could not be read from the store; trying again");
    }
    Some(keeper)
}

/// The source's thread from its start.
pub(super) struct Opening {
    /// The result of opening; taken when it was reported.
    pub opened: Option<Result<Source, String>>,
    /// Taken when the source exists. Only a source on this machine may be missing, and that has no mirror.
    pub dropped: Option<DroppedKeeper>,
    pub settings: PollerSettings,
    pub state_dir: PathBuf,
    /// Set when the process ends.
    pub stop: Arc<AtomicBool>,
    pub reader: SharedReader,
    pub requests: Sender<SourceRequest>,
    pub news: mpsc::UnboundedSender<SourceEvent>,
    /// The reason that was last reported.
    pub reported: Option<String>,
    /// The source once it exists, and its watch.
    pub following: Option<(Box<Follower>, Option<git::Watch>)>,
}

impl Opening {
    /// Follows the source, once it exists, until the requests end.
    pub fn run(&mut self, inbox: &Receiver<SourceRequest>) {
        let mut opened = self.opened.take();
        while self.following.is_none() {
            match opened.take().map_or_else(|| open(&self.settings, &self.state_dir), Ok) {
                Ok(Ok(source)) => self.following = Some(self.begin(source)),
                Ok(Err(why)) => self.fail(why),
                Err(error) => self.fail(error.in_full()),
            }
            if self.following.is_none() && self.wait(inbox) {
                return;
            }
        }
        // It stays in `self`: after a panic the restarted thread continues with the same source.
        if let Some((follower, _)) = &mut self.following {
            follower.run(inbox);
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
        drop(self.news.send(SourceEvent::Restored(Err(why.clone()))));
        drop(self.news.send(SourceEvent::Failed(why)));
    }

    /// Waits until the next search for the source; returns whether the requests have ended.
    fn wait(&self, inbox: &Receiver<SourceRequest>) -> bool {
        let missing = || "the source is missing since the start".to_owned();
        // The requester may be gone. A missing source cannot be watched, and a search for it costs next to nothing.
        match inbox.recv_timeout(POLL_UNWATCHED.min(self.settings.poll_interval)) {
            Ok(SourceRequest::End) | Err(RecvTimeoutError::Disconnected) => return true,
            Ok(SourceRequest::Candidate { reply, .. }) => drop(reply.send(Err(CandidateError::Unreadable(missing())))),
            Ok(SourceRequest::Landed { reply, .. }) => drop(reply.send(Err(missing()))),
            Ok(SourceRequest::Branch { reply }) => drop(reply.send(None)),
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

    fn begin(&mut self, source: Source) -> (Box<Follower>, Option<git::Watch>) {
        let (wake, dropped, settings) = (self.requests.clone(), self.dropped.take(), &self.settings);
        let watch = git::watch(&source, move || drop(wake.send(SourceRequest::Poll)));
        let mut poll_interval = settings.poll_interval;
        let watch = watch.unwrap_or_else(|error| {
            // Only a local source is watched, and reading its refs costs next to nothing.
            poll_interval = poll_interval.min(POLL_UNWATCHED);
            // The receiver exists.
            drop(self.news.send(SourceEvent::Unwatched(match error {
                git::Error::Watch { reason, .. } => reason,
                other => other.in_full(),
            })));
            None
        });
        let follower = Follower {
            source,
            stop: Arc::clone(&self.stop),
            reader: Arc::clone(&self.reader),
            cache: Cache::rendering(settings.rendering.clone()).decrypting(settings.decryption.clone()),
            rendering: settings.rendering.clone(),
            tenants: Arc::clone(&settings.tenants),
            accepted: settings.accepted.clone(),
            refused: std::collections::BTreeMap::new(),
            standing: Standing::Unread,
            fresh: Vec::new(),
            poll_interval,
            on_rewrite: settings.on_rewrite,
            accepted_rewrite: settings.accepted_rewrite.clone(),
            branch: settings.branch.clone(),
            branch_reported: false,
            failures: 0,
            token_file: settings.token_file.clone().map(TokenFile::new),
            verifier: settings.verify.clone().map(Verifier::new),
            unread: None,
            failing: false,
            later: std::collections::VecDeque::new(),
            news: self.news.clone(),
            dropped,
        };
        (Box::new(follower), watch)
    }
}
