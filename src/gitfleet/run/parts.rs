//! The parts of a daemon that wait for it: channels, tokens, and what is served over HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::tokens::ApiTokens;
use bot::{Learned, RepositoryEnds};
use config::{Configuration, read_webhook_secrets};
use daemon::configuration;
use daemon::configuration::ConfigurationFile;
use daemon::lease::StepDown;
use daemon::run::{Asked, Daemon};
use daemon::source_history::GitHistory;
use engine::store::Store;
use engine::store::lease::Role;
use model::commands::Grant;
use model::forge::{CommitPulls, ForgeEvent};
use server::{Access, Forecasts, Hooks, PageSettings, RecentFragments, Sessions, Shared, Streams, TrustedProxy, Turns};
use system::clock;
use system::secret_files::{SecretFile, reason};
use system::supervise::Supervisor;
use system::telemetry::metrics::{Metrics, Part};
use views::page::{GitLinks, Site};
use views::redact::MaskKey;

/// Pause before an address that could not be listened on again is tried again.
const LISTEN_RETRY: Duration = Duration::from_secs(1);

/// Requests of one kind that may wait for the event loop; with more, connections wait.
const REQUESTS_MAX: usize = 1024;

/// What a daemon is opened with.
pub(super) struct Parts {
    /// What is served; absent where nobody looks.
    pub(super) shared: Option<Shared>,
    store: Arc<dyn Store>,
    version: watch::Sender<u64>,
    asked: Asked,
}

impl Parts {
    /// Prepares a daemon on a store. With `is_once` nothing is served.
    ///
    /// # Errors
    /// A file of the configuration cannot be read, or the system gives no random bytes.
    pub(super) fn of(
        configuration: &Configuration,
        file: Option<ConfigurationFile>,
        store: Arc<dyn Store>,
        stepping_down: &StepDown,
        is_once: bool,
        supervisor: &Supervisor,
    ) -> anyhow::Result<Self> {
        let (version, changes) = watch::channel(0);
        let (questions, asked) = mpsc::channel(REQUESTS_MAX);
        let (instructions, receiver) = mpsc::unbounded_channel();
        let (previews, previewed) = mpsc::unbounded_channel();
        let (pushes, delivered) = mpsc::channel(REQUESTS_MAX);
        let (repositories, hooks, pulls) = repositories(configuration, supervisor)?;
        // Versions of two processes are never taken for each other.
        let process = u64::try_from(clock::wall().as_millisecond()).unwrap_or_default();
        let (publisher, views) = server::Publisher::new(process);
        let config = configuration::follow(file, configuration, supervisor);
        let instruct = instructions.clone();
        let asked = Asked {
            questions: asked,
            instructions: receiver,
            previews: previewed,
            pushes: delivered,
            instruct,
            repositories,
            publisher,
            config,
        };
        if is_once {
            // Nobody looks, so nothing is published.
            return Ok(Self { shared: None, store, version, asked });
        }
        let is_shared = *stepping_down.role().borrow() != Role::Alone;
        let tokens = ApiTokens::read(configuration, is_shared)?;
        let page = page(configuration)?;
        tokens.follow(page.as_ref(), supervisor);
        let shared = Shared {
            store: Arc::clone(&store),
            metrics: supervisor.metrics(),
            health: Arc::clone(supervisor.health()),
            changes,
            views,
            history: Arc::new(history(configuration)?),
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
            grants: Arc::new(grants(configuration)),
            hooks,
            role: stepping_down.role(),
            access: access(&configuration.http),
            turns: Turns::default(),
            page,
        };
        Ok(Self { shared: Some(shared), store, version, asked })
    }

    /// Opens the daemon.
    ///
    /// # Errors
    /// As [`Daemon::open`].
    pub(super) fn open(
        self,
        configuration: Configuration,
        supervisor: Supervisor,
        stepping_down: StepDown,
    ) -> anyhow::Result<Daemon> {
        let metrics = supervisor.metrics();
        let Self { store, version, asked, .. } = self;
        Ok(Daemon::open(configuration, store, metrics, version, asked, supervisor, stepping_down)?)
    }
}

/// The addresses that a daemon listens on.
pub(super) struct Listeners {
    main: TcpListener,
    webhooks: Option<TcpListener>,
}

impl Listeners {
    /// Listens where the configuration says.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub(super) async fn bind(http: &config::Http) -> anyhow::Result<Self> {
        let bind = async |address: SocketAddr, field: &str| {
            let bound = server::bind(address).await;
            bound.with_context(|| format!("listening on {address} ({field}); is another daemon running there?"))
        };
        let main = bind(http.listen, "http.listen").await?;
        let webhooks = match http.webhook_listen {
            Some(address) => Some(bind(address, "http.webhookListen").await?),
            None => None,
        };
        Ok(Self { main, webhooks })
    }

    /// Returns what `http.listen` became: port 0 is any free port.
    pub(super) fn address(&self) -> anyhow::Result<SocketAddr> {
        self.main.local_addr().context("asking for the address that is listened on")
    }

    /// Serves what is to be had there.
    pub(super) fn serve(self, main: axum::Router, webhooks: axum::Router, supervisor: &Supervisor) {
        let metrics = supervisor.metrics();
        if let Some(listener) = self.webhooks {
            tokio::spawn(serve(listener, webhooks, supervisor.clone(), Arc::clone(&metrics)));
        }
        tokio::spawn(serve(self.main, main, supervisor.clone(), metrics));
    }
}

/// Returns who may read, and under which names.
pub(super) fn access(http: &config::Http) -> Access {
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
    let bytes = system::random::random().context("the system gives no random bytes for masks of secret values")?;
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
    let links = configuration.forges().map(|(source, forge)| GitLinks {
        source: source.name.clone(),
        repository: forge.web_url(),
        is_github: forge.type_ == config::ForgeType::Github,
        folder: source.path.clone(),
    });
    let site = Site {
        base: http.base_path().to_owned(),
        links: links.collect(),
        voice: configuration.forges().next().map(|(_, forge)| bot::command_style(forge)),
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

/// Serves the HTTP interface; listens again at the same address where that ended by an error of ours.
async fn serve(listener: TcpListener, router: axum::Router, supervisor: Supervisor, metrics: Arc<Metrics>) {
    let Ok(address) = listener.local_addr() else { return server::serve(listener, router, metrics).await };
    let mut watcher = supervisor.over(Part::Http, None);
    let mut listener = Some(listener);
    loop {
        let mut pause = LISTEN_RETRY;
        if let Some(listener) = listener.take() {
            let life = server::serve(listener, router.clone(), Arc::clone(&metrics));
            let Some(end) = watcher.live(life).await else { return };
            pause = end.pause;
        }
        tokio::time::sleep(pause).await;
        match server::bind(address).await {
            Ok(again) => {
                listener = Some(again);
                watcher.begin_again();
            }
            Err(error) => tracing::error!(%error, %address, "cannot listen again; trying again"),
        }
    }
}

/// What the bots are connected by, what deliveries are checked with, and the pull requests that brought commits.
type Repositories = (Vec<RepositoryEnds>, Vec<Hooks>, BTreeMap<String, watch::Receiver<Arc<CommitPulls>>>);

/// Connects the bots of all repositories with the page and with webhooks.
fn repositories(configuration: &Configuration, supervisor: &Supervisor) -> anyhow::Result<Repositories> {
    let mut ends = Vec::new();
    let mut all_hooks = Vec::new();
    let mut all_pulls = BTreeMap::new();
    for (source, forge) in configuration.forges() {
        let (learned, known, pulls) = Learned::channel();
        all_pulls.insert(source.name.clone(), pulls);
        let (hooks, hints) = hooks(forge, known, supervisor)?.unzip();
        all_hooks.extend(hooks);
        ends.push(RepositoryEnds { hints, learned });
    }
    Ok((ends, all_hooks, all_pulls))
}

/// What deliveries of a forge are checked with, and what they hint at.
type Hooked = (Hooks, mpsc::Receiver<ForgeEvent>);

/// Reads the secrets of webhooks and follows their file, where the configuration names one.
fn hooks(
    forge: &config::Forge,
    repository: watch::Receiver<Option<u64>>,
    supervisor: &Supervisor,
) -> anyhow::Result<Option<Hooked>> {
    let Some(file) = &forge.webhook_secret_file else { return Ok(None) };
    let hooked = Hooks::new(bot::kind(forge.type_), read_webhook_secrets(file)?, repository, clock::wall);
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
