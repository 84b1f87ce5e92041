//! Connections to the database, and calls that wait for an answer no longer than their limit.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_postgres::Client;

use super::connect::DatabaseServer;
use super::failure::CallFailure;
use engine::store::Result;

/// How long an ordinary call may take, connecting included.
pub(super) const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a batch may take, and how long its unknown outcome is looked for.
pub(super) const BATCH_TIME_MAX: Duration = Duration::from_mins(1);
/// How much longer than its limit the caller waits for a call: the call ends by itself, and says why.
const GRACE: Duration = Duration::from_secs(2);

/// One connection, which one call uses at a time; none until the first call, and after a failure.
#[derive(Clone, Default)]
pub(super) struct Connection(Arc<Mutex<Option<Client>>>);

/// A connection that a call has for itself.
pub(super) type TakenConnection = OwnedMutexGuard<Option<Client>>;

/// Runs calls on a thread of its own, so that callers may block.
pub(super) struct Caller {
    server: Arc<DatabaseServer>,
    // `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Caller {
    /// Starts the thread; connects to nothing yet.
    pub(super) fn start(server: Arc<DatabaseServer>) -> std::io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("postgres").enable_all().build()?;
        Ok(Self { server, runtime: Some(runtime) })
    }

    /// Carries out a call on a connection and returns its answer. The connection is closed where the call failed beyond the store's own
    /// word, or did not end in time: a transaction may be open on it.
    pub(super) fn call<T: Send + 'static, Answer>(
        &self,
        connection: &Connection,
        action: &'static str,
        limit: Duration,
        job: impl FnOnce(TakenConnection) -> Answer + Send + 'static,
    ) -> Result<T>
    where
        Answer: Future<Output = (TakenConnection, Result<T, CallFailure>)> + Send,
    {
        let (sender, answer) = mpsc::sync_channel(1);
        let server = Arc::clone(&self.server);
        let connection = connection.clone();
        let named = Arc::clone(&server);
        self.spawn(async move {
            let whole = async {
                let mut connected = Arc::clone(&connection.0).lock_owned().await;
                if connected.as_ref().is_none_or(Client::is_closed) {
                    *connected = None;
                    *connected = Some(server.connect().await.map_err(CallFailure::Unconnected)?);
                }
                let (mut connected, result) = job(connected).await;
                if matches!(&result, Err(CallFailure::Database(_) | CallFailure::Unconnected(_))) {
                    *connected = None;
                }
                result
            };
            let result = if let Ok(result) = tokio::time::timeout(limit, whole).await {
                result.map_err(|failure| server.error(action, failure))
            } else {
                // What was dropped with the call may have left a transaction open.
                if let Ok(mut connected) = connection.0.try_lock() {
                    *connected = None;
                }
                Err(server.silent(action, limit))
            };
            // Whoever asked may have given up.
            drop(sender.send(result));
        });
        // Only an error in gitfleet ends the call without an answer.
        answer.recv_timeout(limit + GRACE).unwrap_or_else(|_| Err(named.silent(action, limit)))
    }

    /// Starts a task on the thread.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(task));
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Callers may be threads of another runtime, which must not wait.
            runtime.shutdown_background();
        }
    }
}
