//! `gitfleet run` on a store that several daemons share: one leads, the others follow it and take over.
//!
//! A daemon begins as a follower. It serves HTTP from its first moment, and its address stays the same when it leads. A leader that
//! another one replaced becomes the same program again, with the same arguments and process id: nothing of its state is left.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::parts::{Listeners, Parts, access};
use super::tokens::ApiTokens;
use super::{SHUTDOWN_MAX, complete, runtime, stop_at};
use crate::opened::{SOURCE, postgres_settings};
use config::Configuration;
use daemon::configuration::ConfigurationFile;
use daemon::follower::FreshMirror;
use daemon::lease::{LeaseKeeper, Opener, StepDown};
use daemon::run::state_dir;
use decide::status::rollout::RolloutState;
use engine::store::Store;
use engine::store::lease::{Holder, Leases, Role};
use server::{Front, FrontParts, LEADER_WAIT, LeaderRouters};
use store::PostgresStore;
use system::fence::lease_clock;
use system::supervise::Supervisor;
use system::telemetry::metrics::Metrics;

/// The running program, also after its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// A store that several daemons share.
pub(super) struct SharedStore {
    /// Opens its lease; is called again until the database answers.
    pub(super) leases: Opener,
    /// Returns the store for writing under an epoch. Called once, after `leases` has opened.
    pub(super) lead: Box<dyn FnOnce(u64) -> engine::store::Result<Arc<dyn Store>> + Send>,
    /// How long a lease lasts.
    pub(super) lease: Duration,
}

/// Returns the store that a configuration shares between daemons; `None` for one in a folder, which is for one daemon.
///
/// # Errors
/// A file with a secret cannot be read.
pub(super) fn shared_store(settings: &config::Store) -> anyhow::Result<Option<SharedStore>> {
    let Some(postgres) = &settings.postgres else { return Ok(None) };
    let lease = postgres.lease;
    let settings = postgres_settings(settings, postgres)?;
    let opened: Arc<OnceLock<Arc<PostgresStore>>> = Arc::default();
    let leading = Arc::clone(&opened);
    Ok(Some(SharedStore {
        leases: Box::new(move || {
            let store = Arc::new(PostgresStore::open(&settings, SOURCE)?);
            Ok(Arc::clone(opened.get_or_init(|| store)) as Arc<dyn Leases>)
        }),
        lead: Box::new(move |epoch| {
            let store = Arc::clone(leading.get().expect("the lease is in this store"));
            store.lead(epoch);
            Ok(store)
        }),
        lease,
    }))
}

/// What a daemon on a shared store is made of while it runs.
struct Replica {
    configuration: Configuration,
    file: Option<ConfigurationFile>,
    supervisor: Supervisor,
    stepping_down: StepDown,
    front: Option<Front>,
    lead: Box<dyn FnOnce(u64) -> engine::store::Result<Arc<dyn Store>> + Send>,
    once: Option<Duration>,
}

/// Runs a daemon on a shared store until `end`, or with `once` until it led and nothing is left to happen. `begin_again` is called where
/// another daemon took its place. Returns how things stand then.
///
/// # Errors
/// The daemon cannot start, or ended because of an error in gitfleet; with `once` also where another daemon leads for so long.
pub(super) fn daemon(
    configuration: Configuration,
    file: Option<ConfigurationFile>,
    once: Option<Duration>,
    end: impl Future<Output = ()> + Send + 'static,
    store: SharedStore,
    begin_again: impl FnOnce() + Send + 'static,
) -> anyhow::Result<RolloutState> {
    let runtime = runtime()?;
    let SharedStore { leases, lead, lease } = store;
    let (stopper, stop) = watch::channel(false);
    let supervisor = Supervisor::new(Arc::default(), Arc::new(Metrics::new()));
    let begun = runtime.block_on(async {
        let listeners = match once {
            None => Some(Listeners::bind(&configuration.http).await?),
            Some(_) => None,
        };
        let address = listeners.as_ref().map(Listeners::address).transpose()?;
        // Whoever reconciles once answers nobody.
        let url = address.map_or_else(String::new, |address| configuration.http.peer_url(address));
        let own = Holder { id: random_id()?, url };
        let keeper = LeaseKeeper::start(leases, own.clone(), lease, lease_clock())?;
        tokio::spawn(measure(keeper.role(), supervisor.metrics()));
        let front = match listeners {
            Some(listeners) => {
                let front = Front::new(front_parts(&configuration, own, &keeper, &supervisor)?);
                listeners.serve(front.router(), front.webhook_router(), &supervisor);
                Some(front)
            }
            None => None,
        };
        tokio::spawn(stop_at(end, stopper));
        anyhow::Ok((keeper, front))
    });
    let (keeper, front) = begun?;
    let stepping_down = keeper.stepping_down();
    let replaced = stepping_down.clone();
    let ending = stop.clone();
    // Beside the daemon, which may be in the middle of a decision.
    let again = once.is_none().then(|| {
        runtime.spawn(async move {
            replaced.wait().await;
            if !*ending.borrow() {
                begin_again();
            }
        })
    });
    let replica = Replica { configuration, file, supervisor, stepping_down: stepping_down.clone(), front, lead, once };
    let ended = complete(&runtime, replica.live(stop));
    if let Some(again) = again
        && stepping_down.is_over()
    {
        // The daemon may have ended first, and the end of the runtime would drop what has not begun.
        runtime.block_on(again)?;
    }
    // What blocks, such as the write of a file, ends before another daemon leads.
    runtime.shutdown_timeout(SHUTDOWN_MAX);
    keeper.release();
    ended
}

/// Becomes the same program once more; ends the process where that fails, and its service manager starts it again.
pub(super) fn begin_again() {
    let mut arguments = std::env::args_os();
    let mut again = Command::new(PROGRAM);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    tracing::warn!("beginning again as a follower");
    // Returns only where it failed.
    let error = again.args(arguments).exec();
    tracing::error!(%error, "this program cannot be started again; ending");
    std::process::exit(super::Exit::Error.code().into());
}

fn front_parts(
    configuration: &Configuration,
    own: Holder,
    keeper: &LeaseKeeper,
    supervisor: &Supervisor,
) -> anyhow::Result<FrontParts> {
    let tokens = ApiTokens::read(configuration, true)?;
    tokens.follow(None, supervisor);
    Ok(FrontParts {
        own,
        role: keeper.role(),
        metrics: supervisor.metrics(),
        health: Arc::clone(supervisor.health()),
        access: access(&configuration.http),
        readers: vec![tokens.commanders.tokens, tokens.watchers.tokens],
        base: configuration.http.base_path().to_owned(),
        leader_wait: LEADER_WAIT,
    })
}

fn random_id() -> anyhow::Result<String> {
    let bytes = system::random::random().context("the system gives no random bytes for the name of this daemon")?;
    Ok(model::text::hexadecimal(&bytes))
}

/// Keeps the metrics of the role.
async fn measure(mut role: watch::Receiver<Role>, metrics: Arc<Metrics>) {
    loop {
        let (leads, epoch) = match &*role.borrow_and_update() {
            Role::Alone => (true, 0),
            Role::Follower { leader, .. } => (false, leader.as_ref().map_or(0, |leader| leader.epoch)),
            Role::Leading { epoch } | Role::Unsure { epoch } => (true, *epoch),
            Role::Replaced { found, .. } => (false, *found),
        };
        metrics.leading.set(leads.into());
        metrics.leading_epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
        if role.changed().await.is_err() {
            return;
        }
    }
}

impl Replica {
    /// Follows until it leads, and leads until it is stopped.
    async fn live(self, mut stop: watch::Receiver<bool>) -> anyhow::Result<RolloutState> {
        let Self { configuration, file, supervisor, stepping_down, front, lead, once } = self;
        let deadline = once.map(|timeout| Instant::now() + timeout);
        let mirror = FreshMirror::start(&configuration, state_dir(&configuration), &supervisor)
            .context("starting to fetch the source")?;
        let mut leading = stepping_down.role();
        let role = stepping_down.role();
        let late = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let is_stopped = tokio::select! {
            biased;
            // A follower that is asked to end has nothing to finish.
            _ = stop.wait_for(|stop| *stop) => true,
            _ = leading.wait_for(Role::leads) => false,
            () = late => anyhow::bail!("another daemon leads ({}); stop it, or give --timeout more time", server::role_text(&role.borrow())),
        };
        // It waits for a fetch that is under way.
        tokio::task::spawn_blocking(move || drop(mirror)).await?;
        if is_stopped {
            return Ok(RolloutState::AllAtTarget);
        }
        let epoch = stepping_down.fence().epoch().context("a leader has an epoch")?;
        let store = tokio::task::spawn_blocking(move || lead(epoch)).await??;
        let parts = Parts::of(&configuration, file, store, &stepping_down, once.is_some(), &supervisor)?;
        if let (Some(front), Some(shared)) = (&front, &parts.shared) {
            // Followers pass webhooks on to the leader's first address: each is signed.
            let main = server::router(shared.clone(), true);
            front.lead(LeaderRouters { main, webhooks: server::webhook_router(shared.clone()) });
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let daemon = tokio::task::block_in_place(|| parts.open(configuration, supervisor, stepping_down.clone()))?;
        let standing = Box::pin(daemon.run(stop, left)).await;
        anyhow::ensure!(
            !stepping_down.is_over(),
            "another daemon leads since ({}); this one ends, and has written nothing from then on",
            server::role_text(&role.borrow())
        );
        Ok(standing)
    }
}

#[cfg(test)]
mod tests;
