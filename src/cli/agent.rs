//! `gitfleet agent`: delivers to members from where they are.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use tokio::sync::watch;

use super::agent_token::TokenCommand;
use super::exit::Exit;
use super::run::wait_for_signal;
use crate::agent::connect::{Endpoint, TlsFiles};
use crate::agent::run::{AgentOptions, AgentStanding};
use crate::api::check::is_dns_label;
use crate::config::read_secret;
use crate::daemon::supervise::Supervisor;
use crate::telemetry::metrics::Metrics;

/// `agent` runs an agent; with a subcommand it says which agents may connect.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    options: Option<Options>,
}

#[derive(Debug, clap::Subcommand)]
enum AgentCommand {
    /// The tokens that agents connect with.
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// A server that the agent dials: the `agents.listen` of a daemon. Several are tried in turn.
    #[arg(long, value_name = "URL", required = true)]
    server: Vec<Endpoint>,
    /// The name of the agent, as entries of `members:` have it.
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// File with the token of the agent.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// A pool that the agent joins; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pool: Vec<String>,
    /// File with the certificates that servers' are checked against, instead of those of the system.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// File with the certificate of the agent, where the server asks for one.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// File with the key of that certificate.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Folder for the last orders; its content is sealed with the token.
    #[arg(long, value_name = "FOLDER")]
    state: PathBuf,
    /// Folder that the paths of members are relative to.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    root: PathBuf,
    /// Address to serve /healthz, /readyz and /metrics at.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
}

fn name(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("a name has at most 63 lowercase letters, digits and `-`".to_owned())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match (&args.command, &args.options) {
        (Some(AgentCommand::Token(what)), _) => what.run(),
        (None, Some(options)) => deliver(options),
        // The options that an agent must have stop this earlier.
        (None, None) => Err(anyhow!("`gitfleet agent` needs --server, --name, --token-file and --state")),
    }
}

fn deliver(args: &Options) -> anyhow::Result<Exit> {
    let client = args.client_cert.clone().zip(args.client_key.clone());
    let tls = TlsFiles { ca: args.ca_file.clone(), client };
    let settings = AgentOptions {
        servers: args.server.clone(),
        name: args.name.clone(),
        pools: args.pool.iter().cloned().collect(),
        token: read_secret(&args.token_file)?,
        tls: tls.read().map_err(|error| anyhow!(error)).context("reading the certificates")?,
        state: args.state.clone(),
        root: std::path::absolute(&args.root).context("finding the folder of --root")?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(live(settings, args.listen));
    // Requests in flight to members end with the process.
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

async fn live(settings: AgentOptions, listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new());
    let supervisor = Supervisor::new(Arc::default(), Arc::clone(&metrics));
    let (standing, seen) = watch::channel(AgentStanding::Alone("it has not connected yet".to_owned()));
    let (stopper, stop) = watch::channel(false);
    if let Some(address) = listen {
        let listener = crate::http::bind(address).await;
        let listener = listener.with_context(|| format!("listening on {address} (--listen)"))?;
        tokio::spawn(crate::http::serve(listener, router(Arc::clone(&metrics), seen), metrics));
    }
    let end = wait_for_signal();
    tokio::spawn(async move {
        end.await;
        tracing::info!("stopping");
        // The agent may have ended by itself.
        let _ = stopper.send(true);
    });
    crate::agent::run::run(settings, supervisor, standing, stop).await
}

fn router(metrics: Arc<Metrics>, standing: watch::Receiver<AgentStanding>) -> Router {
    let ready = |State(standing): State<watch::Receiver<AgentStanding>>| async move {
        match standing.borrow().clone() {
            AgentStanding::Connected(server) => (StatusCode::OK, format!("session with {server}\n")),
            AgentStanding::Alone(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("no session: {reason}\n")),
        }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(move || std::future::ready(metrics.encode())))
        .with_state(standing)
}
