//! `gitfleet run`: the daemon.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use self::parts::{Listeners, Parts};
use super::exit::Exit;
use super::records::overrides;
use super::{config_file, proxy};
use ::store::embedded::EmbeddedStore;
use config::Configuration;
use daemon::configuration::ConfigurationFile;
use daemon::lease::StepDown;
use decide::status::rollout::RolloutState;
use engine::store;
use model::error::panic_message;
use system::supervise::Supervisor;
use system::telemetry::metrics::Metrics;

mod parts;
mod roles;
mod tokens;

/// How long `--once` waits by default for timers and rollouts to end.
const ONCE_TIMEOUT_DEFAULT: &str = "90s";
/// How long members' requests in flight may take to end after a signal.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// How long to wait for a store that is in use.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause between two looks at it.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Threads for what waits for a disk or a name server. Each keeps freed memory of its own, and the largest uses (lists and writes of
/// folders, large answers) take a turn each.
const BLOCKING_THREADS_MAX: usize = 64;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file; else GITFLEET_CONFIG, ./gitfleet.yaml, or gitfleet/gitfleet.yaml in the configuration folder of the user.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Reconcile once and end: exits 0 converged, 3 approval required, 1 otherwise.
    #[arg(long)]
    once: bool,
    /// With --once: how long to wait for rollouts and timers.
    #[arg(long, value_name = "DURATION", default_value = ONCE_TIMEOUT_DEFAULT, value_parser = duration)]
    timeout: Duration,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error}; write something like 90s or 5m"))?;
    Duration::try_from(span).map_err(|_| "a duration cannot be negative".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let path = config_file::require(args.config.as_deref())?;
    let file = ConfigurationFile { path, overrides: overrides() };
    let configuration = file.load()?;
    let once = args.once.then_some(args.timeout);
    // Who reconciles once does what the file said at the start.
    let file = (!args.once).then_some(file);
    let standing = daemon(configuration, file, once, wait_for_signal())?;
    if !args.once {
        return Ok(Exit::Done);
    }
    if standing != RolloutState::AllAtTarget {
        tracing::warn!(state = %standing, "not all at the accepted commit");
    }
    Ok(Exit::from(&standing))
}

/// Runs a daemon until `end`, which is asked for the first time when the daemon listens, or with `once` until nothing is left to
/// happen or so long. A changed `file` is followed. Returns how things stand then.
///
/// # Errors
/// The daemon cannot start, or ended because of an error in gitfleet.
pub(super) fn daemon(
    configuration: Configuration,
    file: Option<ConfigurationFile>,
    once: Option<Duration>,
    end: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<RolloutState> {
    // Before anything is opened: this may begin the program again.
    proxy::heed(configuration.proxy)?;
    raise_open_files();
    if let Some(store) = roles::shared_store(&configuration.store)? {
        return roles::daemon(configuration, file, once, end, store, roles::begin_again);
    }
    let store = Arc::new(open_store(&configuration.store)?);
    let runtime = runtime()?;
    let ended = complete(&runtime, live(configuration, file, store, once, end));
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    ended
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().max_blocking_threads(BLOCKING_THREADS_MAX).enable_all().build()
}

/// Runs a daemon's life to its end. The event loop is not restarted in the same process: its state is rebuilt from the store by a
/// new one.
fn complete<T>(runtime: &Runtime, life: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(life))).unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        anyhow::bail!("the daemon ended because of an error in gitfleet ({message}); what it decided is in its store: start it again, and please report it")
    })
}

/// Open files that a daemon needs at least: its connections, one for each member, and those of git and the store.
const OPEN_FILES_MIN: u64 = 1024;

/// Takes all the open files the system gives. Too few are no reason to end: most fleets need less.
fn raise_open_files() {
    match server::raise_open_files() {
        Ok(files) if files >= OPEN_FILES_MIN => {}
        Ok(files) => tracing::warn!(files, at_least = OPEN_FILES_MIN, "few files may be opened; raise `ulimit -n`"),
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}

/// Lives until `end` or, with `once`, until nothing is left to happen or so long. Returns how things stand then.
async fn live(
    configuration: Configuration,
    file: Option<ConfigurationFile>,
    store: Arc<EmbeddedStore>,
    once: Option<Duration>,
    end: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<RolloutState> {
    let supervisor = Supervisor::new(Arc::default(), Arc::new(Metrics::new()));
    supervisor.metrics().leading.set(1);
    let (stopper, stop) = watch::channel(false);
    let stepping_down = StepDown::never();
    let parts = Parts::of(&configuration, file, store, &stepping_down, once.is_some(), &supervisor)?;
    if let Some(shared) = &parts.shared {
        let listeners = Listeners::bind(&configuration.http).await?;
        let router = server::router(shared.clone(), configuration.http.webhook_listen.is_none());
        listeners.serve(router, server::webhook_router(shared.clone()), &supervisor);
    }
    tokio::spawn(stop_at(end, stopper));
    let daemon = parts.open(configuration, supervisor, stepping_down)?;
    Ok(Box::pin(daemon.run(stop, once)).await)
}

/// Waits for `end`, and tells the daemon.
async fn stop_at(end: impl Future<Output = ()>, stopper: watch::Sender<bool>) {
    end.await;
    tracing::info!("stopping");
    // The daemon may have ended by itself.
    let _ = stopper.send(true);
}

/// Opens the store for writing. It waits for a reader (`get`, `status`), which holds the lock for a moment.
pub(super) fn open_store(settings: &config::Store) -> engine::store::Result<EmbeddedStore> {
    let mut tries = LOCK_WAIT_MAX.as_millis() / LOCK_PAUSE.as_millis();
    loop {
        match EmbeddedStore::open_with(&settings.path, settings.journal_entries, settings.cache_bytes) {
            Err(store::Error::Locked { .. }) if tries > 0 => {
                tries -= 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Waits until the process is asked to end: Ctrl-C, or SIGTERM.
pub(super) async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    // The signal then ends the process by itself, which the store survives at any moment.
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
