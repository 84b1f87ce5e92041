//! Tells receivers what happens: reads the journal from where each receiver was told last, and sends what it wants to know.
//!
//! The journal is the queue: an entry is in it before anything depends on it, and a receiver's number in the store grows only when
//! the receiver took a notification. So a process that ends between the two sends it again, with the same id.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::task::spawn_blocking;

use config::{NotificationReceiver, read_certificates, read_secret};
use engine::store;
use engine::store::{Expected, Store, batch_result, records};
use forge::receiver;
use forge::receiver::{Receiver, SigningKey, WebhookMessage};
use model::notification::NotifiedUpTo;
use model::records::JournalEntry;
use system::clock;
use system::fence::Fence;
use system::secret_files::{SecretFile, reason};
use system::supervise::Supervisor;
use system::telemetry::metrics::{ByNotification, Metrics, Notified, Part};
use views::notification::{CloudEvent, body, notification};

/// Journal entries that one read returns, about 300 KB.
const PAGE: usize = 1_000;
/// First pause before a notification is sent again; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause, also where the receiver asks for a longer one.
const RETRY_MAX: Duration = Duration::from_mins(5);
/// Pause before a store that could not be read or written is tried again.
const STORE_RETRY: Duration = Duration::from_secs(5);
/// How long a notification is sent again; what comes after it waits as long. A long weekend.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(72);

/// Why receivers cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of a receiver cannot be read.
    #[error(transparent)]
    Configuration(#[from] config::Error),
    /// A receiver cannot be used as it is configured.
    #[error("the receiver {name} of `notify` cannot be used")]
    Receiver {
        /// Its name.
        name: String,
        /// What is wrong.
        #[source]
        source: receiver::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// What the tasks are told.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Batches with journal entries that were stored in this process.
    batches: u64,
    /// No more will follow.
    is_last: bool,
}

/// A task for each receiver; they end when this is dropped.
#[derive(Debug)]
pub struct Notifier {
    news: watch::Sender<News>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Notifier {
    /// Starts the tasks. A receiver that the store does not know gets what happens from now on. `source` is the identity of the
    /// daemon's source.
    ///
    /// # Errors
    /// The files of a receiver, or the store, cannot be used.
    pub fn start(
        receivers: &[NotificationReceiver],
        store: &Arc<dyn Store>,
        source: &str,
        fence: &Fence,
        supervisor: &Supervisor,
    ) -> Result<Self, Error> {
        let (news, _) = watch::channel(News::default());
        let mut tasks = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            let recipient = Arc::new(Recipient::read(receiver)?);
            recipient.follow(supervisor);
            let worker = Worker {
                recipient,
                store: Arc::clone(store),
                source: source.to_owned(),
                fence: fence.clone(),
                news: news.subscribe(),
                metrics: supervisor.metrics(),
                reached: None,
                is_failing: false,
            };
            begin(store.as_ref(), &receiver.name)?;
            let supervisor = supervisor.clone();
            tasks.push(tokio::spawn(async move {
                // After an error of ours it begins from what the store has.
                supervisor.repeat(Part::Notifications, move || worker.clone().run()).await;
            }));
        }
        Ok(Self { news, tasks })
    }

    /// Says that the journal has new entries.
    pub fn note_written(&self) {
        self.news.send_modify(|news| news.batches += 1);
    }

    /// Waits until all receivers were told everything, but not longer than `patience`.
    ///
    /// # Cancel safety
    /// Nothing is lost: the receivers' tasks end by themselves when all is sent, and the next start sends what is left.
    pub async fn finish(&mut self, patience: Duration) {
        self.news.send_modify(|news| news.is_last = true);
        let tasks = std::mem::take(&mut self.tasks);
        let stops: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        if tokio::time::timeout(patience, futures::future::join_all(tasks)).await.is_err() {
            stops.iter().for_each(tokio::task::AbortHandle::abort);
            tracing::warn!("not all notifications were sent; the next start continues");
        }
    }
}

/// Returns the last entry that was sent to a receiver. One that is new begins at the end of the journal, and the store knows it from then on. So does
/// one that got more than the journal has: a restored store numbers its entries from 1 again.
fn begin(store: &dyn Store, name: &str) -> store::Result<u64> {
    let key = records::notified_key(name);
    let known = records::load::<NotifiedUpTo>(store, &key)?.map(|known| known.value.entry);
    let entry = store.journal_end()?;
    if let Some(known) = known.filter(|known| *known <= entry) {
        return Ok(known);
    }
    store.batch(vec![records::put(key, &NotifiedUpTo { entry }, Expected::Any)?])?;
    Ok(entry)
}

/// Reads from the store on a thread that may block.
async fn read<T: Send + 'static>(
    store: &Arc<dyn Store>,
    question: impl FnOnce(&dyn Store) -> store::Result<T> + Send + 'static,
) -> store::Result<T> {
    let store = Arc::clone(store);
    let answer = tokio::task::spawn_blocking(move || question(store.as_ref())).await;
    answer.map_err(|error| store::Error::Broken { message: error.to_string() })?
}

/// One receiver, as it is configured.
struct Recipient {
    configured: NotificationReceiver,
    /// Replaced where a file of a secret changes. A notification that is under way ends with what it began with.
    endpoint: Mutex<Endpoint>,
}

/// Where notifications go, and what they are signed with.
#[derive(Clone)]
struct Endpoint {
    receiver: Receiver,
    key: Option<SigningKey>,
}

impl Endpoint {
    fn read(configured: &NotificationReceiver) -> Result<Self, Error> {
        let unusable = |source| Error::Receiver { name: configured.name.clone(), source };
        let certificates = configured.ca_file.as_deref().map(read_certificates).transpose()?;
        let receiver = Receiver::new(configured.address()?, certificates.as_deref()).map_err(unusable)?;
        let secret = configured.secret_file.as_deref().map(read_secret).transpose()?;
        let key = secret.as_ref().map(SigningKey::new).transpose().map_err(unusable)?;
        Ok(Self { receiver, key })
    }
}

impl Recipient {
    fn read(configured: &NotificationReceiver) -> Result<Self, Error> {
        let endpoint = Mutex::new(Endpoint::read(configured)?);
        Ok(Self { configured: configured.clone(), endpoint })
    }

    /// Uses another address or secret whenever its file changes.
    fn follow(self: &Arc<Self>, supervisor: &Supervisor) {
        let NotificationReceiver { name, url_file, secret_file, .. } = &self.configured;
        for (what, path) in [("address", url_file), ("secret", secret_file)] {
            let Some(path) = path.clone() else { continue };
            let file = SecretFile { what: format!("the {what} of the receiver {name}"), path };
            let recipient = Arc::clone(self);
            file.follow(supervisor, move |_| {
                let endpoint = Endpoint::read(&recipient.configured).map_err(|error| reason(&error))?;
                *recipient.endpoint.lock().unwrap_or_else(PoisonError::into_inner) = endpoint;
                Ok(())
            });
        }
    }

    /// Sends a notification once.
    async fn send(&self, event: &CloudEvent) -> Result<(), receiver::Error> {
        let body = body(self.configured.template, event);
        let Endpoint { receiver, key } = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let timestamp = clock::wall().as_second();
        let message = WebhookMessage { id: &event.id, timestamp, content_type: body.content_type, body: &body.text };
        receiver.tell(message, key.as_ref()).await
    }
}

/// Returns how long the receiver asks to wait.
fn asked_wait(error: &receiver::Error) -> Duration {
    match error {
        receiver::Error::Refused { wait: Some(wait), .. } => *wait,
        _ => Duration::ZERO,
    }
}

/// Tells one receiver.
#[derive(Clone)]
struct Worker {
    recipient: Arc<Recipient>,
    store: Arc<dyn Store>,
    source: String,
    fence: Fence,
    news: watch::Receiver<News>,
    metrics: Arc<Metrics>,
    /// The last entry that was sent to the receiver, or need not be; `None` before the store was asked.
    reached: Option<u64>,
    /// The last try failed.
    is_failing: bool,
}

impl Worker {
    /// # Cancel safety
    /// May be dropped at any point: what was sent and is not in the store is sent again, with the same id.
    async fn run(mut self) {
        loop {
            let news = *self.news.borrow_and_update();
            match self.catch_up().await {
                Ok(()) if news.is_last => return,
                // The sender ends with the daemon.
                Ok(()) => {
                    if self.news.changed().await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let receiver = &self.recipient.configured.name;
                    tracing::warn!(receiver, %error, "notifications wait for the store; trying again");
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    }

    /// Sends what the journal has beyond what the receiver was told.
    async fn catch_up(&mut self) -> store::Result<()> {
        loop {
            let after = if let Some(reached) = self.reached {
                reached
            } else {
                let name = self.recipient.configured.name.clone();
                read(&self.store, move |store| begin(store, &name)).await?
            };
            let page = read(&self.store, move |store| store.journal(after, PAGE)).await?;
            self.reached = Some(after);
            let Some(first) = page.first().map(|(number, _)| *number) else { return Ok(()) };
            let Some(last) = page.last().map(|(number, _)| *number) else { return Ok(()) };
            let is_full = page.len() == PAGE;
            if first > after + 1 {
                let receiver = &self.recipient.configured.name;
                let entries = first - after - 1;
                tracing::error!(
                    receiver,
                    entries,
                    "the journal dropped entries before they were sent to a receiver; raise store.journalEntries"
                );
            }
            self.tell(page).await?;
            // Entries that are told to nobody cost one write for each full page.
            if is_full {
                self.reach(last).await?;
            }
            self.reached = Some(last);
        }
    }

    /// Sends what the receiver wants to know of a page of the journal.
    async fn tell(&mut self, page: Vec<(u64, JournalEntry)>) -> store::Result<()> {
        let mut given_up = 0_u64;
        for (number, entry) in page {
            let Some(event) = self.wanted(number, &entry) else { continue };
            given_up += u64::from(!self.deliver(&event, entry.at).await);
            self.reach(number).await?;
        }
        if given_up > 0 {
            let receiver = &self.recipient.configured.name;
            let within = format!("{AGE_MAX:#}");
            tracing::error!(
                receiver,
                notifications = given_up,
                within,
                "given up: the receiver did not take them in time"
            );
        }
        Ok(())
    }

    /// Returns the notification of an entry, if the receiver wants its kind.
    fn wanted(&self, number: u64, entry: &JournalEntry) -> Option<CloudEvent> {
        let (kind, event) = notification(number, entry, &self.source)?;
        self.recipient.configured.events.contains(&kind).then_some(event)
    }

    /// Sends a notification until the receiver takes it, or it is too old. Returns whether the receiver took it.
    async fn deliver(&mut self, event: &CloudEvent, at: Timestamp) -> bool {
        let mut delays = clock::delays(RETRY_FIRST, RETRY_MAX);
        while !is_old(at, clock::now()) {
            match self.send(event).await {
                Ok(()) => {
                    self.count(Notified::Ok);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!(
                            receiver = self.recipient.configured.name,
                            "the receiver takes notifications again"
                        );
                    }
                    return true;
                }
                Err(error) => {
                    self.count(Notified::Failed);
                    // Once, until it works again.
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(receiver = self.recipient.configured.name, %error, "a notification was not taken; trying again");
                    }
                    let pause = delays.next().unwrap_or(RETRY_MAX).max(asked_wait(&error));
                    tokio::time::sleep(pause.min(RETRY_MAX)).await;
                }
            }
        }
        self.count(Notified::GivenUp);
        false
    }

    /// Sends a notification once, while the fence is open.
    async fn send(&self, event: &CloudEvent) -> Result<(), receiver::Error> {
        let sent = self.fence.run(self.recipient.send(event)).await;
        sent.map_err(|cut| receiver::Error::Unreachable(cut.to_string()))?
    }

    fn count(&self, result: Notified) {
        self.metrics.notifications.get_or_create(&ByNotification { result }).inc();
    }

    /// Notes in the store how far the receiver was told.
    async fn reach(&mut self, number: u64) -> store::Result<()> {
        let key = records::notified_key(&self.recipient.configured.name);
        let op = records::put(key, &NotifiedUpTo { entry: number }, Expected::Any)?;
        let store = Arc::clone(&self.store);
        batch_result(spawn_blocking(move || store.batch(vec![op])).await)?;
        self.reached = Some(number);
        Ok(())
    }
}

/// Tells whether a notification about an instant comes too late.
fn is_old(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) > AGE_MAX
}

#[cfg(test)]
mod tests;
