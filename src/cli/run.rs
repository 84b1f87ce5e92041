//! `gitfleet run`: the daemon.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use self::tokens::ApiTokens;
use super::exit::Exit;
use super::records::overrides;
use super::{config_file, proxy};
use crate::clock;
use crate::config::{self, Configuration, read_webhook_secrets};
use crate::daemon::configuration::{self, ConfigurationFile};
use crate::daemon::forge_bot::{self, Learned};
use crate::daemon::lease::StepDown;
use crate::daemon::run::{Asked, Daemon};
use crate::daemon::secret_files::{SecretFile, reason};
use crate::daemon::source_history::GitHistory;
use crate::daemon::supervise::Supervisor;
use crate::error::panic_message;
use crate::http::{
    self, Access, Forecasts, Hooks, PageSettings, RecentFragments, Sessions, Shared, Streams, TrustedProxy, Turns,
};
use crate::model::commands::Grant;
use crate::model::forge::ForgeEvent;
use crate::page::{GitLinks, Site};
use crate::status::rollout::RolloutState;
use crate::store;
use crate::store::embedded::EmbeddedStore;
use crate::telemetry::metrics::{Metrics, Part};
use crate::views::redact::MaskKey;

mod tokens;

/// How long `--once` waits by default for timers and rollouts to end.
const ONCE_TIMEOUT_DEFAULT: &str = "90s";
/// How long members' requests in flight may take to end after a signal.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// Pause before an address that could not be listened on again is tried again.
const LISTEN_RETRY: Duration = Duration::from_secs(1);

/// How long to wait for a store that is in use.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause between two looks at it.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Threads for what waits for a disk or a name server. Each keeps freed memory of its own, and the largest uses (lists and writes of
/// folders, large answers) take a turn each.
const BLOCKING_THREADS_MAX: usize = 64;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
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
pub fn run(args: &Args) -> anyhow::Result<Exit> {
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
    let store = Arc::new(open_store(&configuration.store)?);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().max_blocking_threads(BLOCKING_THREADS_MAX).enable_all().build()?;
    // The engine's loop is not restarted in the same process: its state is rebuilt from the store by a new one.
    let life = live(configuration, file, store, once, end);
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(life)));
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    ended.unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        anyhow::bail!("the daemon ended because of an error in gitfleet ({message}); what it decided is in its store: start it again, and please report it")
    })
}

/// Open files that a daemon needs at least: its connections, one for each member, and those of git and the store.
const OPEN_FILES_MIN: u64 = 1024;

/// Takes all the open files the system gives. Too few are no reason to end: most fleets need less.
fn raise_open_files() {
    match http::raise_open_files() {
        Ok(files) if files >= OPEN_FILES_MIN => {}
        Ok(files) => tracing::warn!(files, at_least = OPEN_FILES_MIN, "few files may be opened; raise `ulimit -n`"),
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}

fn access(http: &config::Http) -> Access {
    let on_loopback = http.listen.ip().is_loopback();
    let mut hosts = http.hosts.clone();
    // Without any name it answers to every name beyond loopback, and one more would make it answer to no other.
    if on_loopback || !hosts.is_empty() {
        hosts.extend(http.public_name().map(str::to_owned));
    }
    Access { read_needs_token: http.read_needs_token(), on_loopback, hosts: hosts.into() }
}

/// Returns what reads the source's history for whoever looks. The key of masks lasts as long as the process: nobody else has it.
fn history(configuration: &Configuration) -> anyhow::Result<GitHistory> {
    let bytes = http::random().context("the system gives no random bytes for masks of secret values")?;
    Ok(GitHistory::new(configuration, MaskKey::new(bytes)))
}

/// Returns what the page needs, unless it is switched off.
fn page(configuration: &Configuration) -> anyhow::Result<Option<Arc<PageSettings>>> {
    let http = &configuration.http;
    if http.page == config::PageMode::Off {
        return Ok(None);
    }
    let proxy = http.proxy.as_ref().map(|proxy| {
        let header = proxy.header.parse().with_context(|| format!("http.proxy.header: {:?}", proxy.header))?;
        Ok::<_, anyhow::Error>(TrustedProxy { header, from: proxy.networks(), commanders: proxy.commanders.clone() })
    });
    let links = configuration.forge.as_ref().map(|forge| GitLinks {
        repository: forge.web_url(),
        is_github: forge.type_ == config::ForgeType::Github,
        folder: configuration.source.path.clone(),
    });
    let site = Site {
        base: http.base_path().to_owned(),
        links,
        voice: configuration.forge.as_ref().map(forge_bot::command_style),
        commands: http.page == config::PageMode::Command,
    };
    Ok(Some(Arc::new(PageSettings {
        site,
        is_https: http.is_https(),
        public_host: http.public_host().map(str::to_owned),
        proxy: proxy.transpose()?,
        public_badge: http.public.contains(&config::PublicPart::Badge),
        public_graph: http.public.contains(&config::PublicPart::Graph),
        sessions: Sessions::new().context("the system gives no random bytes for sessions")?,
        recent: RecentFragments::default(),
        forecasts: Forecasts::default(),
    })))
}

/// Listens where the configuration says, and serves what is to be had there.
async fn listen(http: &config::Http, shared: &Shared, supervisor: &Supervisor) -> anyhow::Result<()> {
    let bind = async |address: SocketAddr, field: &str| {
        let bound = http::bind(address).await;
        bound.with_context(|| format!("listening on {address} ({field}); is another daemon running there?"))
    };
    let main = bind(http.listen, "http.listen").await?;
    if let Some(address) = http.webhook_listen {
        let listener = bind(address, "http.webhookListen").await?;
        tokio::spawn(serve(
            listener,
            http::webhook_router(shared.clone()),
            supervisor.clone(),
            Arc::clone(&shared.metrics),
        ));
    }
    let router = http::router(shared.clone(), http.webhook_listen.is_none());
    tokio::spawn(serve(main, router, supervisor.clone(), Arc::clone(&shared.metrics)));
    Ok(())
}

/// Lives until `end` or, with `once`, until nothing is left to happen or so long. Returns how things stand then.
async fn live(
    configuration: Configuration,
    file: Option<ConfigurationFile>,
    store: Arc<EmbeddedStore>,
    once: Option<Duration>,
    end: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<RolloutState> {
    let metrics = Arc::new(Metrics::new());
    let supervisor = Supervisor::new(Arc::default(), Arc::clone(&metrics));
    let ((version, changes), (stopper, stop)) = (watch::channel(0), watch::channel(false));
    let (questions, asked) = mpsc::unbounded_channel();
    let (instructions, receiver) = mpsc::unbounded_channel();
    let (previews, previewed) = mpsc::unbounded_channel();
    let (pushes, delivered) = mpsc::unbounded_channel();
    let (learned, known, pulls) = Learned::channel();
    let (hooks, hints) = hooks(&configuration, known, &supervisor)?.unzip();
    // Versions of two processes are never taken for each other.
    let process = u64::try_from(clock::wall().as_millisecond()).unwrap_or_default();
    let (publisher, views) = http::Publisher::new(process);
    let config = configuration::follow(file, &configuration, &supervisor);
    let instruct = instructions.clone();
    let asked = Asked {
        questions: asked,
        instructions: receiver,
        previews: previewed,
        pushes: delivered,
        instruct,
        hints,
        learned,
        publisher,
        config,
    };
    if once.is_none() {
        let (tokens, page) = (ApiTokens::read(&configuration)?, page(&configuration)?);
        tokens.follow(page.as_ref(), &supervisor);
        let shared = Shared {
            store: store.clone(),
            metrics: Arc::clone(&metrics),
            health: Arc::clone(supervisor.health()),
            changes,
            views,
            history: Arc::new(history(&configuration)?),
            pulls,
            streams: Streams::default(),
            questions,
            readers: tokens.readers.tokens,
            commanders: tokens.commanders.tokens,
            watchers: tokens.watchers.tokens,
            pushers: tokens.pushers.tokens,
            pushes,
            instructions,
            previews,
            grants: Arc::new(grants(&configuration)),
            hooks,
            access: access(&configuration.http),
            turns: Turns::default(),
            page,
        };
        listen(&configuration.http, &shared, &supervisor).await?;
    } else {
        // Nobody looks, so nothing is published.
        drop(views);
    }
    tokio::spawn(stop_at(end, stopper));
    let daemon = Daemon::open(configuration, store, metrics, version, asked, supervisor, StepDown::never())?;
    Ok(daemon.run(stop, once).await)
}

/// Waits for `end`, and tells the daemon.
async fn stop_at(end: impl Future<Output = ()>, stopper: watch::Sender<bool>) {
    end.await;
    tracing::info!("stopping");
    // The daemon may have ended by itself.
    let _ = stopper.send(true);
}

/// Serves the HTTP interface; listens again at the same address where that ended by an error of ours.
async fn serve(listener: TcpListener, router: axum::Router, supervisor: Supervisor, metrics: Arc<Metrics>) {
    let Ok(address) = listener.local_addr() else { return http::serve(listener, router, metrics).await };
    let mut watcher = supervisor.over(Part::Http, None);
    let mut listener = Some(listener);
    loop {
        let mut pause = LISTEN_RETRY;
        if let Some(listener) = listener.take() {
            let life = http::serve(listener, router.clone(), Arc::clone(&metrics));
            let Some(end) = watcher.live(life).await else { return };
            pause = end.pause;
        }
        tokio::time::sleep(pause).await;
        match http::bind(address).await {
            Ok(again) => {
                listener = Some(again);
                watcher.begin_again();
            }
            Err(error) => tracing::error!(%error, %address, "cannot listen again; trying again"),
        }
    }
}

/// What deliveries of a forge are checked with, and what they hint at.
type Hooked = (Hooks, mpsc::Receiver<ForgeEvent>);

/// Reads the secrets of webhooks and follows their file, where the configuration names one.
fn hooks(
    configuration: &Configuration,
    repository: watch::Receiver<Option<u64>>,
    supervisor: &Supervisor,
) -> anyhow::Result<Option<Hooked>> {
    let Some(forge) = &configuration.forge else { return Ok(None) };
    let Some(file) = &forge.webhook_secret_file else { return Ok(None) };
    let hooked = Hooks::new(forge_bot::kind(forge.type_), read_webhook_secrets(file)?, repository, clock::wall);
    let hooks = hooked.0.clone();
    let file = SecretFile { what: "the webhook secret".to_owned(), path: file.clone() };
    file.follow(supervisor, move |path| {
        hooks.replace_secrets(read_webhook_secrets(path).map_err(|error| reason(&error))?);
        Ok(())
    });
    Ok(Some(hooked))
}

/// Returns what those who command may do.
fn grants(configuration: &Configuration) -> BTreeMap<String, Grant> {
    configuration.http.tokens.iter().map(|token| (token.name.clone(), token.grant())).collect()
}

/// Opens the store for writing. It waits for a reader (`get`, `status`), which holds the lock for a moment.
pub(super) fn open_store(settings: &config::Store) -> crate::store::Result<EmbeddedStore> {
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
