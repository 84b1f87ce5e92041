//! Takes the lease, prolongs it, and opens the fence while it lasts.
//!
//! A thread of its own, because calls of the store block: a database that does not answer holds up nothing else. Each length is counted
//! from before the call, by a clock of this machine that counts suspend, so this daemon never believes longer in its lease than the
//! database does.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use engine::store;
use engine::store::lease::{Holder, Leader, Lease, Leases, Role, Taken};
use system::fence::{Fence, LeaseClock};
use system::secret_files::reason;

/// A lease is prolonged so many times while it lasts.
const PROLONGED_IN_LEASE: u32 = 5;
/// Longest pause between two looks of a follower at the lease: a leader that ends gives it back, and the next one begins so much later.
const FOLLOW_PAUSE: Duration = Duration::from_millis(400);
/// Shortest such pause.
const FOLLOW_PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause before a store that did not answer is asked again by the leader.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Something that keeps a lease, as it is opened when it answers.
pub type Opener = Box<dyn FnMut() -> store::Result<Arc<dyn Leases>> + Send>;

enum Order {
    Release,
}

/// Keeps the lease of this daemon.
pub struct LeaseKeeper {
    orders: Sender<Order>,
    stepping_down: StepDown,
    thread: Option<JoinHandle<()>>,
}

impl LeaseKeeper {
    /// Starts to ask for the lease.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(leases: Opener, holder: Holder, length: Duration, now: LeaseClock) -> io::Result<Self> {
        let mut keeper = Keeper::new(leases, holder, length, now);
        let stepping_down = keeper.stepping_down.clone();
        let (orders, inbox) = channel();
        let thread = std::thread::Builder::new().name("gitfleet-lease".to_owned()).spawn(move || keeper.run(&inbox))?;
        Ok(Self { orders, stepping_down, thread: Some(thread) })
    }

    /// Returns what this daemon is, as it changes.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.stepping_down.role()
    }

    /// Returns the fence of the lease.
    pub fn fence(&self) -> &Fence {
        &self.stepping_down.fence
    }

    /// Returns what is told when the store says that another daemon leads.
    pub fn stepping_down(&self) -> StepDown {
        self.stepping_down.clone()
    }

    /// Closes the fence and gives the lease back, so that another daemon takes it at once. Blocks for as long as the store takes to answer.
    pub fn release(mut self) {
        self.stepping_down.fence.close();
        // It may have ended by itself.
        drop(self.orders.send(Order::Release));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Ends the leadership of this daemon.
#[derive(Clone, Debug)]
pub struct StepDown {
    role: watch::Sender<Role>,
    fence: Fence,
}

impl StepDown {
    /// Returns that of a daemon that has its store for itself.
    pub fn never() -> Self {
        Self { role: watch::channel(Role::Alone).0, fence: Fence::always_open() }
    }

    /// Returns what this daemon is, as it changes.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// Returns the fence that writes pass.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Notes that another daemon leads since: nothing is written any more.
    pub fn replaced(&self, epoch: u64, found: u64) {
        self.fence.close();
        self.tell(Role::Replaced { epoch, found });
    }

    /// Ends the leadership though no other daemon leads: this one has to read the store again. Tells whether there was one to end.
    pub fn begin_again(&self) -> bool {
        let epoch = self.fence.epoch();
        if let Some(epoch) = epoch {
            self.replaced(epoch, epoch);
        }
        epoch.is_some()
    }

    /// Waits until another daemon leads.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call returns at once where another leads.
    pub async fn wait(&self) {
        let mut role = self.role.subscribe();
        // The sender lives as long as this.
        drop(role.wait_for(|role| matches!(role, Role::Replaced { .. })).await);
    }

    /// Tells whether another daemon leads since.
    pub fn is_over(&self) -> bool {
        matches!(*self.role.borrow(), Role::Replaced { .. })
    }

    fn tell(&self, role: Role) {
        self.role.send_if_modified(|known| {
            // For good: a lease never comes back.
            let is_news = *known != role && !matches!(known, Role::Replaced { .. });
            if is_news {
                tell_log(known, &role);
                *known = role;
            }
            is_news
        });
    }
}

/// Tells whether the database does not answer.
fn is_silent(role: &Role) -> bool {
    matches!(role, Role::Follower { is_answered: false, .. } | Role::Unsure { .. })
}

fn tell_log(before: &Role, after: &Role) {
    match after {
        Role::Follower { is_answered: false, .. } => {
            if !is_silent(before) {
                tracing::warn!(
                    "the database does not answer; this daemon takes the lead when it does and nobody leads"
                );
            }
        }
        Role::Follower { leader: Some(leader), .. } => {
            tracing::info!(leader = leader.holder.url, epoch = leader.epoch, "another daemon leads; following it");
        }
        Role::Alone | Role::Follower { leader: None, .. } => {}
        Role::Leading { epoch } if is_silent(before) => {
            tracing::info!(epoch, "the database answers; this daemon still leads");
        }
        Role::Leading { epoch } => tracing::info!(epoch, "this daemon leads"),
        Role::Unsure { epoch } => tracing::warn!(
            epoch,
            "the database does not answer, and the lease may have ended: nothing is written until it answers and nobody else leads"
        ),
        Role::Replaced { epoch, found } => {
            tracing::warn!(epoch, found, "another daemon leads since; this one writes nothing any more");
        }
    }
}

/// What the thread does, step by step.
struct Keeper {
    open: Opener,
    leases: Option<Arc<dyn Leases>>,
    holder: Holder,
    length: Duration,
    now: LeaseClock,
    stepping_down: StepDown,
    /// The lease that it has.
    epoch: Option<u64>,
    /// The last error, which is logged once.
    failure: Option<String>,
}

impl Keeper {
    fn new(open: Opener, holder: Holder, length: Duration, now: LeaseClock) -> Self {
        let (role, _) = watch::channel(Role::Follower { leader: None, is_answered: true });
        let stepping_down = StepDown { role, fence: Fence::of_lease(length, Arc::clone(&now)) };
        Self { open, leases: None, holder, length, now, stepping_down, epoch: None, failure: None }
    }

    fn run(&mut self, inbox: &Receiver<Order>) {
        while !self.stepping_down.is_over() {
            let pause = self.step();
            match inbox.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::Release) => return self.release(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Asks the store once, and returns the pause until the next time.
    fn step(&mut self) -> Duration {
        let asked = match self.epoch {
            Some(epoch) => self.prolong(epoch),
            None => self.follow(),
        };
        asked.unwrap_or_else(|error| self.fail(&error))
    }

    fn leases(&mut self) -> store::Result<Arc<dyn Leases>> {
        if self.leases.is_none() {
            self.leases = Some((self.open)()?);
        }
        // It was just opened.
        self.leases.clone().map_or_else(|| (self.open)(), Ok)
    }

    /// Prolongs the lease, also one that ended and that nobody took.
    fn prolong(&mut self, epoch: u64) -> store::Result<Duration> {
        let leases = self.leases()?;
        let before = (self.now)();
        if leases.prolong(epoch, self.length)? {
            self.failure = None;
            self.epoch = Some(epoch);
            self.stepping_down.fence.open_until(epoch, before.after(self.length));
            self.stepping_down.tell(Role::Leading { epoch });
            return Ok(self.length / PROLONGED_IN_LEASE);
        }
        // Before anything else is asked.
        self.stepping_down.fence.close();
        let found = leases.read().ok().flatten().map_or(epoch, |lease| lease.epoch);
        self.stepping_down.replaced(epoch, found);
        Ok(Duration::ZERO)
    }

    /// Looks at the lease, and takes it where it is free.
    fn follow(&mut self) -> store::Result<Duration> {
        let leases = self.leases()?;
        let found = leases.read()?.filter(|lease| !lease.left.is_zero());
        self.failure = None;
        let found = if let Some(lease) = found {
            lease
        } else {
            let before = (self.now)();
            match leases.take(&self.holder, self.length)? {
                Taken::Yes { epoch } => {
                    self.epoch = Some(epoch);
                    self.stepping_down.fence.open_until(epoch, before.after(self.length));
                    self.stepping_down.tell(Role::Leading { epoch });
                    return Ok(self.length / PROLONGED_IN_LEASE);
                }
                Taken::No(lease) => lease,
            }
        };
        if found.holder.id == self.holder.id {
            // The answer to an earlier call was lost: the lease was taken all the same.
            return self.prolong(found.epoch);
        }
        let Lease { holder, epoch, left } = found;
        self.stepping_down.tell(Role::Follower { leader: Some(Leader { holder, epoch }), is_answered: true });
        Ok(left.min(FOLLOW_PAUSE).min(self.length / PROLONGED_IN_LEASE).max(FOLLOW_PAUSE_MIN))
    }

    /// The store does not answer.
    fn fail(&mut self, error: &store::Error) -> Duration {
        let reason = reason(error);
        if self.failure.as_ref() != Some(&reason) {
            tracing::warn!(reason, "the lease cannot be asked for; trying again");
            self.failure = Some(reason);
        }
        match self.epoch {
            None => {
                let role = self.stepping_down.role.borrow().clone();
                let leader = if let Role::Follower { leader, .. } = role { leader } else { None };
                self.stepping_down.tell(Role::Follower { leader, is_answered: false });
                FOLLOW_PAUSE
            }
            Some(epoch) => {
                if !self.stepping_down.fence.is_open() {
                    self.stepping_down.tell(Role::Unsure { epoch });
                }
                RETRY_PAUSE.min(self.length / PROLONGED_IN_LEASE / 2)
            }
        }
    }

    fn release(&mut self) {
        self.stepping_down.fence.close();
        let Some(leases) = &self.leases else { return };
        let Some(epoch) = self.epoch else { return };
        match leases.release(epoch) {
            Ok(()) => tracing::info!(epoch, "the lease is given back"),
            Err(error) => tracing::warn!(%error, epoch, "the lease could not be given back; it ends by itself"),
        }
    }
}

#[cfg(test)]
mod tests;
