//! What a daemon does while another leads: it keeps its copy of the source fresh, so that it begins at once when it leads.
//!
//! It decides nothing, pins nothing and writes nothing outside its own folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::source_poller::{TokenOrigin, TokenReader, source_specs};
use config::{Configuration, POLL_INTERVAL_DEFAULT};
use git::Source;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;

/// How long a new leader waits for a fetch that is under way; it stops at a point where nothing is left half done.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Fetches the source now and then, until it is dropped.
pub struct FreshMirror {
    stop: Arc<AtomicBool>,
    /// Wakes the thread when it is gone.
    wake: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl Drop for FreshMirror {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake = None;
        if self.ended.recv_timeout(END_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the source is still being fetched while this daemon begins to lead");
        }
    }
}

impl FreshMirror {
    /// Starts fetching into a folder. A source on this machine is read in place, so there is nothing to fetch: returns `None`.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        configuration: &Configuration,
        state_dir: PathBuf,
        supervisor: &Supervisor,
    ) -> std::io::Result<Option<Self>> {
        if configuration.all_sources().iter().all(|source| source.local().is_some()) {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (wake, woken) = channel();
        let (alive, ended) = channel();
        let fetching = Fetching {
            configuration: configuration.clone(),
            state_dir,
            stop: Arc::clone(&stop),
            woken,
            sources: Vec::new(),
            failure: None,
        };
        let mut fetching = Some((fetching, alive));
        let run = move || {
            // It ends with the thread; a panic ends the fetches of this follower, and its first as leader begins again.
            if let Some((mut fetching, _alive)) = fetching.take() {
                fetching.run();
            }
        };
        drop(supervisor.thread(Part::Source, "gitfleet-mirror", run)?);
        Ok(Some(Self { stop, wake: Some(wake), ended }))
    }
}

struct Fetching {
    configuration: Configuration,
    state_dir: PathBuf,
    stop: Arc<AtomicBool>,
    woken: Receiver<()>,
    /// The sources, once they are opened, with what reads their tokens.
    sources: Vec<(Source, Option<TokenReader>)>,
    /// Logged once.
    failure: Option<String>,
}

impl Fetching {
    fn run(&mut self) {
        let intervals = self.configuration.all_sources().iter().map(|source| source.poll_interval);
        let interval = intervals.min().unwrap_or(POLL_INTERVAL_DEFAULT);
        while !self.stop.load(Ordering::Relaxed) {
            let failure = self.fetch().err();
            if let Some(reason) = failure.as_ref().filter(|reason| self.failure.as_ref() != Some(reason)) {
                tracing::warn!(reason, "the source cannot be fetched; trying again");
            }
            self.failure = failure;
            if self.woken.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Fetches once. Returns why not, as text for users.
    fn fetch(&mut self) -> Result<(), String> {
        if self.sources.is_empty() {
            let specs = source_specs(&self.configuration).map_err(|error| error.to_string())?;
            let token = |settings| TokenOrigin::of(settings).map(TokenReader::new);
            let open = |(spec, settings)| {
                let source = Source::open(spec, &self.state_dir).map_err(|error| error.in_full())?;
                Ok((source, token(settings)))
            };
            let each = specs.into_iter().zip(self.configuration.all_sources());
            self.sources = each.map(open).collect::<Result<_, String>>()?;
        }
        let of_each = self.sources.iter_mut();
        let fetched = of_each.map(|(source, token)| fetch(source, token.as_mut(), &self.stop));
        // One that fails keeps none of the others from being fetched.
        let failures: Vec<String> = fetched.filter_map(Result::err).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }
}

/// Fetches one source. Returns why not, as text for users.
fn fetch(source: &mut Source, token: Option<&mut TokenReader>, stop: &AtomicBool) -> Result<(), String> {
    if let Some(token) = token {
        source.use_token(token.read()?).map_err(|error| error.in_full())?;
    }
    match source.poll(stop) {
        Err(error) if !stop.load(Ordering::Relaxed) => Err(error.in_full()),
        _ => Ok(()),
    }
}
