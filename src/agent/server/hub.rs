//! What the listener, the members and the event loop share, and what goes wrong there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc, watch};

use engine::MemberEvent;
use system::clock;
use system::clock::Uptime;
use system::fence::Fence;
use system::telemetry::metrics::Metrics;
use wire::remote::registry::{Registry, RegistryEffect};

/// Why agents cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the section cannot be used.
    #[error(transparent)]
    File(#[from] config::Error),
    /// The certificates cannot be used.
    #[error("agents.tls: {0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error("listening on {address} (agents.listen); is another daemon running there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// What the listener, the members and the event loop share.
#[derive(Debug)]
pub(super) struct AgentHub {
    pub(super) shared: Mutex<SharedRegistry>,
    /// Something changed that may end an earlier wait.
    pub(super) changed: Notify,
    /// Agents are answered while it is open: another daemon gives their members away when the lease of this one is over.
    pub(super) fence: Fence,
    pub(super) metrics: Arc<Metrics>,
}

/// The registry, and whom its effects reach.
#[derive(Debug)]
pub(super) struct SharedRegistry {
    pub(super) registry: Registry,
    /// Where the core gets the events of a member, by the number of its registration.
    pub(super) members: BTreeMap<u64, mpsc::UnboundedSender<MemberEvent>>,
    /// The streams of sessions, by the sessions' names.
    pub(super) streams: BTreeMap<String, StreamHandle>,
    /// An agent gave up a member that has no registration.
    pub(super) parted: watch::Sender<()>,
}

/// What the stream of a session is woken and ended by.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamHandle {
    pub(super) wake: Arc<Notify>,
    pub(super) hang_up: Arc<Notify>,
}

impl SharedRegistry {
    fn carry_out(&mut self) {
        for effect in self.registry.take_effects() {
            match effect {
                RegistryEffect::Event(member, event) => {
                    // The receiver goes only when the process ends.
                    if let Some(events) = self.members.get(&member) {
                        let _: bool = events.send(event).is_ok();
                    }
                }
                RegistryEffect::Parted(_) => self.parted.send_replace(()),
                RegistryEffect::Wake(session) => {
                    if let Some(stream) = self.streams.get(&session) {
                        stream.wake.notify_one();
                    }
                }
                RegistryEffect::HangUp(session) => {
                    if let Some(stream) = self.streams.remove(&session) {
                        stream.wake.notify_one();
                        stream.hang_up.notify_one();
                    }
                }
            }
        }
    }
}

impl AgentHub {
    /// Does something with the registry, and what follows from it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Registry, Uptime) -> T) -> T {
        self.change(|shared, now| act(&mut shared.registry, now))
    }

    /// Does something with the registry and whom it reaches, and what follows from it.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut SharedRegistry, Uptime) -> T) -> T {
        let mut shared = self.read();
        let opened = shared.registry.opened;
        let done = act(&mut shared, clock::uptime());
        shared.carry_out();
        self.metrics.agent_sessions.inc_by(shared.registry.opened - opened);
        self.metrics.agents.set(i64::try_from(shared.registry.connected()).unwrap_or(i64::MAX));
        self.changed.notify_one();
        done
    }

    /// Reads something of the registry.
    pub(super) fn read(&self) -> MutexGuard<'_, SharedRegistry> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on what time brings. Returns when to do it again.
    fn tick(&self) -> Option<Uptime> {
        let mut shared = self.read();
        let next = shared.registry.tick(clock::uptime());
        shared.carry_out();
        self.metrics.agents.set(i64::try_from(shared.registry.connected()).unwrap_or(i64::MAX));
        next
    }

    /// Acts on what time brings, for ever.
    pub(super) async fn follow_time(&self) {
        loop {
            let next = self.tick();
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }
}

pub(super) async fn sleep_until(at: Option<Uptime>) {
    match at {
        Some(at) => tokio::time::sleep(clock::uptime().until(at)).await,
        None => std::future::pending().await,
    }
}
