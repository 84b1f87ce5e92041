//! `gitfleet run`: the daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};

use super::books::load_configuration;
use super::exit::Exit;
use super::person;
use crate::config::{Configuration, read_secret, read_webhook_secrets};
use crate::engine::hall::{Asked, Hall};
use crate::engine::{clock, console};
use crate::http::tokens::Tokens;
use crate::http::{self, Hooks, Shared};
use crate::model::forge::ForgeEvent;
use crate::report::converge::Converged;
use crate::store::{self, embedded::EmbeddedStore};
use crate::telemetry::metrics::Metrics;

/// How long `--once` waits by default for timers and rollouts to end.
const ONCE_TIMEOUT_DEFAULT: &str = "90s";
/// How long members' requests in flight may take to end after a signal.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// The name under which the plugin generator of Argo CD reads decisions.
const PLUGIN: &str = "decisions.tokenFile";

/// How long a store that is in use is waited for.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause between two looks at it.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", env = "GITFLEET_CONFIG")]
    config: PathBuf,
    /// Reconcile once and end: 0 all at the accepted commit, 3 a person is waited for, 1 anything else.
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
    let configuration = load_configuration(&args.config)?;
    let store = Arc::new(open_store(&configuration.store.path)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let standing = runtime.block_on(async {
        let metrics = Arc::new(Metrics::new());
        let (version, changes) = watch::channel(0);
        let (stopper, stop) = watch::channel(false);
        let (questions, asked) = mpsc::unbounded_channel();
        let (instructions, told) = mpsc::unbounded_channel();
        let (repository, known) = watch::channel(None);
        let (hooks, hints) = hooks(&configuration, known)?.unzip();
        let asked = Asked { questions: asked, instructions: told, instruct: instructions.clone(), hints, repository };
        if !args.once {
            let shared = Shared {
                store: store.clone(),
                metrics: Arc::clone(&metrics),
                changes,
                questions,
                readers: Arc::new(readers(&configuration)?),
                commanders: Arc::new(commanders(&configuration)?),
                instructions,
                hooks,
            };
            let listen = configuration.http.listen;
            let listener = http::bind(listen)
                .await
                .with_context(|| format!("listening on {listen} (http.listen); is another daemon running there?"))?;
            tokio::spawn(http::serve(listener, shared));
        }
        tokio::spawn(async move {
            wait_for_signal().await;
            tracing::info!("stopping");
            // The hall may have ended by itself.
            let _ = stopper.send(true);
        });
        let hall = Hall::open(configuration, store, metrics, version, asked)?;
        anyhow::Ok(hall.run(stop, args.once.then_some(args.timeout)).await)
    });
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    let standing = standing?;
    if !args.once {
        return Ok(Exit::Done);
    }
    if standing != Converged::AllAtTarget {
        tracing::warn!(standing = ?standing, "not all at the accepted commit");
    }
    Ok(Exit::from(&standing))
}

/// What deliveries of a forge are checked with, and what they hint at.
type Hooked = (Hooks, mpsc::Receiver<ForgeEvent>);

/// Reads the secrets of webhooks, where the configuration names any.
fn hooks(configuration: &Configuration, repository: watch::Receiver<Option<u64>>) -> anyhow::Result<Option<Hooked>> {
    let Some(forge) = &configuration.forge else { return Ok(None) };
    let Some(file) = &forge.webhook_secret_file else { return Ok(None) };
    Ok(Some(Hooks::new(console::kind(forge.type_), read_webhook_secrets(file)?, repository, clock::now)))
}

/// Reads the tokens that may read decisions: that of the plugin generator, and those that may command.
fn readers(configuration: &Configuration) -> anyhow::Result<Tokens> {
    let plugin = configuration.decisions.as_ref().and_then(|decisions| decisions.token_file.as_deref());
    let named = configuration.http.tokens.iter().map(|token| (token.name.as_str(), token.token_file.as_path()));
    let all = plugin.map(|path| (PLUGIN, path)).into_iter().chain(named);
    let read = all.map(|(name, path)| Ok((name.to_owned(), read_secret(path)?)));
    Ok(Tokens::new(read.collect::<anyhow::Result<Vec<_>>>()?))
}

/// Reads the tokens that may command: those of the configuration, else a new one for whoever runs the daemon.
fn commanders(configuration: &Configuration) -> anyhow::Result<Tokens> {
    let (store, named) = (&configuration.store.path, &configuration.http.tokens);
    if named.is_empty() {
        return Ok(Tokens::new(vec![(person::os_user(), person::issue_token(store)?)]));
    }
    person::revoke_token(store)?;
    let read = named.iter().map(|token| Ok((token.name.clone(), read_secret(&token.token_file)?)));
    Ok(Tokens::new(read.collect::<anyhow::Result<Vec<_>>>()?))
}

/// Opens the store for writing. A reader (`get`, `status`) holds its lock for a moment, which is waited for.
pub(super) fn open_store(path: &Path) -> crate::store::Result<EmbeddedStore> {
    let mut tries = LOCK_WAIT_MAX.as_millis() / LOCK_PAUSE.as_millis();
    loop {
        match EmbeddedStore::open(path) {
            Err(store::Error::Locked { .. }) if tries > 0 => {
                tries -= 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
