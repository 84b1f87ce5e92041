//! The agent as a whole: it dials one server after the other, keeps the session that one gives, and where none does continues with
//! the last orders.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustls::ClientConfig;
use secrecy::SecretString;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::connect::{Connector, Endpoint, Error};
use super::disk::Disk;
use super::members::Members;
use super::seal::digest_key;
use super::session::Ended;
pub use super::standing::AgentStanding;
use crate::standing::{Agent, measure_events, take_events};
use config::Decrypt;
use member::decryption::Decryption;
use system::clock;
use system::supervise::Supervisor;
use wire::remote::agent::{AgentDisk as _, AgentState, ChangedMembers};

/// First pause after no server gave a session; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Longest such pause, but for chance, which may double it. A daemon that begins gives members out after one lease, by default 15 s: whoever
/// comes later has members move.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a session must last before the pauses begin with the first again.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// What an agent is started with.
pub struct AgentOptions {
    /// The servers, in the order in which they are tried.
    pub servers: Vec<Endpoint>,
    /// Its name.
    pub name: String,
    /// The pools that it joins.
    pub pools: BTreeSet<String>,
    /// Its token.
    pub token: SecretString,
    /// What servers' certificates are checked against.
    pub tls: ClientConfig,
    /// The state folder.
    pub state: PathBuf,
    /// The folder that paths of members are relative to.
    pub root: PathBuf,
    /// What decrypts objects that the source has encrypted.
    pub decrypt: Option<Decrypt>,
}

/// Runs an agent until `stop` is set.
///
/// # Errors
/// The state folder cannot be used.
///
/// # Cancel safety
/// May be dropped at any point, as in a crash: members keep what they hold, and the next start continues from the state folder. Without
/// a goodbye the server gives members of pools to another agent only when the lease is over.
pub async fn run(
    settings: AgentOptions,
    supervisor: Supervisor,
    standing: watch::Sender<AgentStanding>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let AgentOptions { servers, name, pools, token, tls, state, root, decrypt } = settings;
    let disk = Disk::open(&state, &token).with_context(|| format!("opening the state folder {}", state.display()))?;
    let decryption = Decryption::new(digest_key(&token), decrypt.as_ref(), &state);
    let (events, inbox) = mpsc::unbounded_channel();
    let mut agent = Agent {
        servers,
        connector: Connector { tls: Arc::new(tls), token, name },
        pools,
        instance: format!("{}-{}", clock::wall().as_millisecond(), std::process::id()),
        metrics: supervisor.metrics(),
        state: AgentState::new(disk, Members::new(root, supervisor, decryption, events)),
        inbox,
        standing,
    };
    agent.work(&mut stop).await;
    Ok(())
}

impl Agent {
    async fn work(&mut self, stop: &mut watch::Receiver<bool>) {
        let mut delay = clock::delays(RETRY_FIRST, RETRY_MAX);
        let mut said = String::new();
        loop {
            let mut reasons = Vec::new();
            for endpoint in self.servers.clone() {
                let began = Instant::now();
                reasons.push(match self.session(&endpoint, stop).await {
                    Ended::Stopped => return,
                    Ended::Failed(error) => chain(&error),
                    Ended::Left(reason) => format!("{endpoint} ended the session: {reason}"),
                });
                let earlier = self.standing.send_replace(AgentStanding::Alone(reasons.join("; ")));
                if matches!(earlier, AgentStanding::Connected(_)) {
                    said.clear();
                }
                if began.elapsed() >= STEADY_AFTER {
                    delay = clock::delays(RETRY_FIRST, RETRY_MAX);
                }
            }
            // Only now: while a server answers, it may have given members to somebody else.
            let changed = self.set_members(false).await;
            self.state.take_changed(changed);
            self.state.take_kept_orders();
            let reason = reasons.join("; ");
            if said != reason {
                tracing::warn!(reason, "no session; members keep their last orders, and reports wait");
                said = reason;
            }
            let pause = tokio::time::sleep(delay.next().unwrap_or(RETRY_MAX));
            tokio::pin!(pause);
            loop {
                measure_events(self);
                tokio::select! {
                    () = &mut pause => break,
                    _ = stop.changed() => return self.state.tasks.stop().await,
                    Some(event) = self.inbox.recv() => take_events(self, event),
                }
            }
        }
    }

    /// Runs exactly the members of the assignment, with new tasks for those of pools where `restart_pools` says so.
    pub(super) async fn set_members(&mut self, restart_pools: bool) -> ChangedMembers {
        let AgentState { disk, tasks, .. } = &mut self.state;
        let assignment = disk.assignment();
        tasks.set(&assignment.source, &assignment.health, &assignment.members, restart_pools).await
    }
}

/// Returns what an error says, with its causes.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
