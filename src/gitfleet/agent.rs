//! `gitfleet agent`: delivers to members from where they are.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
use agent::connect::{Endpoint, TlsFiles};
use agent::run::{AgentOptions, AgentStanding};
use config::{CloudKeys, Decrypt, read_secret};
use model::api::check::is_dns_label;
use system::supervise::Supervisor;
use system::telemetry::metrics::Metrics;

/// `agent` runs an agent; with a subcommand it says which agents may connect.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
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
    /// The version of sops that decrypts what the source has encrypted, such as v3.13.3. Without it such objects are refused.
    #[arg(long, value_name = "VERSION", value_parser = sops_version)]
    sops: Option<String>,
    /// Folder that sops is in, instead of PATH.
    #[arg(long, value_name = "FOLDER", requires = "sops")]
    sops_folder: Option<PathBuf>,
    /// File with the age identities that decrypt.
    #[arg(long, value_name = "FILE", requires = "sops")]
    age_key_file: Option<PathBuf>,
    /// Folder of GnuPG with the PGP keys that decrypt.
    #[arg(long, value_name = "FOLDER", requires = "sops")]
    gnupg_home: Option<PathBuf>,
    /// Lets sops use the network, for keys at a cloud or in Vault, and gives it this variable of the environment; may be given several
    /// times.
    #[arg(long, value_name = "VARIABLE", requires = "sops")]
    cloud_keys: Vec<String>,
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

fn sops_version(text: &str) -> Result<String, String> {
    let version = semver::Version::parse(text.trim_start_matches('v'));
    version.map(|_| text.to_owned()).map_err(|_| "write the whole version, such as v3.13.3".to_owned())
}

/// Returns what decrypts, if anything does. Paths are made absolute: the program is started in a folder of its own.
fn decrypt(args: &Options) -> anyhow::Result<Option<Decrypt>> {
    let Some(sops) = args.sops.clone() else { return Ok(None) };
    let environment = args.cloud_keys.clone();
    Ok(Some(Decrypt {
        sops,
        folder: absolute(args.sops_folder.as_deref())?,
        age_key_file: absolute(args.age_key_file.as_deref())?,
        gnupg_home: absolute(args.gnupg_home.as_deref())?,
        cloud_keys: (!environment.is_empty()).then_some(CloudKeys { environment }),
    }))
}

fn absolute(path: Option<&Path>) -> std::io::Result<Option<PathBuf>> {
    path.map(std::path::absolute).transpose()
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
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
        decrypt: decrypt(args)?,
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
        let listener = server::bind(address).await;
        let listener = listener.with_context(|| format!("listening on {address} (--listen)"))?;
        tokio::spawn(server::serve(listener, router(Arc::clone(&metrics), seen), metrics));
    }
    let end = wait_for_signal();
    tokio::spawn(async move {
        end.await;
        tracing::info!("stopping");
        // The agent may have ended by itself.
        let _ = stopper.send(true);
    });
    agent::run::run(settings, supervisor, standing, stop).await
}

/// Says whether the agent has a session.
async fn ready(State(standing): State<watch::Receiver<AgentStanding>>) -> (StatusCode, String) {
    match standing.borrow().clone() {
        AgentStanding::Connected(server) => (StatusCode::OK, format!("session with {server}\n")),
        AgentStanding::Alone(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("no session: {reason}\n")),
    }
}

fn router(metrics: Arc<Metrics>, standing: watch::Receiver<AgentStanding>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(move || std::future::ready(metrics.encode())))
        .with_state(standing)
}
