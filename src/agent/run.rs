//! The agent as a whole: it dials one server after the other, keeps the session that one gives, and where none does continues with
//! the last orders.

use std::collections::{BTreeMap, BTreeSet};
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
use super::outbox::Outbox;
use super::session::Ended;
use crate::clock;
use crate::core::{MemberCommand, MemberEvent};
use crate::daemon::supervise::Supervisor;
use crate::model::id::{ClusterName, Digest, PlacementKey};

/// First pause after no server gave a session; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Longest such pause.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long a session must last before the pauses begin with the first again.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// What an agent is started with.
pub struct Settings {
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
}

/// How an agent stands, for its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a session with this server.
    Connected(String),
    /// It has none, and continues with the last orders. The reason, for people.
    Alone(String),
}

/// A running agent.
pub(super) struct Agent {
    pub(super) servers: Vec<Endpoint>,
    pub(super) connector: Connector,
    pub(super) pools: BTreeSet<String>,
    /// Names this start.
    pub(super) instance: String,
    pub(super) disk: Disk,
    pub(super) members: Members,
    pub(super) outbox: Outbox,
    pub(super) inbox: mpsc::UnboundedReceiver<MemberEvent>,
    /// The orders that the tasks have.
    pub(super) given: BTreeMap<ClusterName, BTreeMap<PlacementKey, Digest>>,
    pub(super) standing: watch::Sender<Standing>,
}

/// Runs an agent until `stop` is set.
///
/// # Errors
/// The state folder cannot be used.
pub async fn run(
    settings: Settings,
    supervisor: Supervisor,
    standing: watch::Sender<Standing>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Settings { servers, name, pools, token, tls, state, root } = settings;
    let disk = Disk::open(&state, &token).with_context(|| format!("opening the state folder {}", state.display()))?;
    let (events, inbox) = mpsc::unbounded_channel();
    let mut agent = Agent {
        servers,
        connector: Connector { tls: Arc::new(tls), token, name },
        pools,
        instance: format!("{}-{}", clock::wall().as_millisecond(), std::process::id()),
        disk,
        members: Members::new(root, supervisor, events),
        outbox: Outbox::default(),
        inbox,
        given: BTreeMap::new(),
        standing,
    };
    agent.members.set_epoch(agent.disk.epoch);
    agent.work(&mut stop).await;
    Ok(())
}

impl Agent {
    async fn work(&mut self, stop: &mut watch::Receiver<bool>) {
        let delays = || clock::delays(RETRY_FIRST, RETRY_MAX);
        let mut delay = delays();
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
                let earlier = self.standing.send_replace(Standing::Alone(reasons.join("; ")));
                if matches!(earlier, Standing::Connected(_)) {
                    said.clear();
                }
                if began.elapsed() >= STEADY_AFTER {
                    delay = delays();
                }
            }
            // Only now: while a server answers, it may have given members to somebody else.
            self.take_members().await;
            self.take_kept_orders();
            let reason = reasons.join("; ");
            if said != reason {
                tracing::warn!(reason, "no session; members keep their last orders, and reports wait");
                said = reason;
            }
            let pause = tokio::time::sleep(delay.next().unwrap_or(RETRY_MAX));
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    _ = stop.changed() => return self.members.stop().await,
                    Some(event) = self.inbox.recv() => self.note(event),
                }
            }
        }
    }

    /// Runs the members of the state. Those that begin have no orders.
    pub(super) async fn take_members(&mut self) {
        let state = &self.disk.state;
        let changed = self.members.set(&state.source, &state.health, &state.members).await;
        for cluster in changed.started.iter().chain(&changed.stopped) {
            self.given.remove(cluster);
            self.outbox.forget(cluster);
        }
        for cluster in changed.stopped {
            self.outbox.push(crate::wire::ToServer::Stopped { cluster });
        }
    }

    /// Gives members the orders of the state that they lack, as far as the disk has them.
    pub(super) fn take_kept_orders(&mut self) {
        for (cluster, orders) in self.disk.state.orders.clone() {
            for (placement, digest) in orders {
                let is_given = self.given.get(&cluster).is_some_and(|given| given.contains_key(&placement));
                if is_given || !self.members.has(&cluster) {
                    continue;
                }
                if let Some(order) = self.disk.whole(&digest) {
                    let reported = self.disk.report(&cluster, &placement);
                    self.members.send(&cluster, MemberCommand::Order { order, reported });
                    self.given.entry(cluster.clone()).or_default().insert(placement, digest);
                }
            }
        }
    }

    /// Takes an event of a member's task.
    pub(super) fn note(&mut self, event: MemberEvent) {
        // Its orders are here; the server need not send them again.
        if let MemberEvent::Restarted { cluster } = &event {
            for (placement, digest) in self.given.get(cluster).into_iter().flatten() {
                if let Some(order) = self.disk.whole(digest) {
                    let reported = self.disk.report(cluster, placement);
                    self.members.send(cluster, MemberCommand::Order { order, reported });
                }
            }
            return;
        }
        if let MemberEvent::Work { cluster, placement, status } = &event {
            self.disk.keep_report(cluster, placement, status);
        }
        let event = crate::wire::ToServer::from(event);
        if event.cluster().is_some_and(|cluster| self.members.has(cluster)) {
            self.outbox.push(event);
        }
    }
}

/// Returns what an error says, with its causes.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
