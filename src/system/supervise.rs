//! Restarts tasks and threads of the daemon that end because of an error in gitfleet: after a pause, with a log message, a
//! failed probe and a metric.
//!
//! Each restarts from stored records, so that its end costs no more than a restart of the daemon. The event loop is not
//! restarted: the process ends with an error, and its service manager restarts it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use crate::clock;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::{ByPart, Metrics, Part};
use model::error::panic_message;

/// First pause before a task is restarted; doubles up to [`RESTART_MAX`].
pub const RESTART_FIRST: Duration = Duration::from_secs(1);
/// Longest pause. After a task that ran longer than this, the pauses start again with the first.
pub const RESTART_MAX: Duration = Duration::from_mins(5);

/// Supervises all tasks and threads of a daemon.
#[derive(Clone, Debug)]
pub struct Supervisor {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    first: Duration,
}

impl Supervisor {
    /// Returns the daemon's metrics.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Creates a supervisor. It reports ended tasks in `health` and counts them in `metrics`.
    pub fn new(health: Arc<Health>, metrics: Arc<Metrics>) -> Self {
        Self { health, metrics, first: RESTART_FIRST }
    }

    /// Creates a supervisor for tests: it restarts tasks without a pause, and no probe reads its reports.
    pub fn without_pauses() -> Self {
        Self { first: Duration::ZERO, ..Self::new(Arc::default(), Arc::default()) }
    }

    /// Returns the health that the probes read.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Returns the watcher of one task. `name` distinguishes tasks of the same part.
    pub fn over(&self, part: Part, name: Option<&str>) -> Watcher {
        let label = name.map_or_else(|| part.as_str().to_owned(), |name| format!("{} {name}", part.as_str()));
        Watcher { supervisor: self.clone(), part, label, pause: self.first }
    }

    /// Runs a stateless task again and again until it returns without a panic.
    ///
    /// # Cancel safety
    /// The running task is dropped too, at its last `await`; nothing of this is reported.
    pub async fn repeat<Life: Future<Output = ()>>(&self, part: Part, mut begin: impl FnMut() -> Life) {
        let mut watcher = self.over(part, None);
        while let Some(end) = watcher.live(begin()).await {
            tokio::time::sleep(end.pause).await;
            watcher.begin_again();
        }
    }

    /// Starts a thread that restarts after a panic.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn thread(
        &self,
        part: Part,
        name: &str,
        mut life: impl FnMut() + Send + 'static,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        let mut watcher = self.over(part, None);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(end) = watcher.live_blocking(&mut life) {
                std::thread::sleep(end.pause);
                watcher.begin_again();
            }
        })
    }
}

/// Supervises one task.
#[derive(Debug)]
pub struct Watcher {
    supervisor: Supervisor,
    part: Part,
    label: String,
    pause: Duration,
}

/// The end of a task by a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The reason, as text for users.
    pub reason: String,
    /// The pause before the restart.
    pub pause: Duration,
}

impl Watcher {
    /// Returns the daemon's metrics.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.supervisor.metrics()
    }

    /// Runs a task. Returns its end if it panicked; `None` if it returned.
    ///
    /// # Cancel safety
    /// The running task is dropped too, at its last `await`; nothing of this is reported.
    pub async fn live(&mut self, life: impl Future<Output = ()>) -> Option<End> {
        let born = Instant::now();
        let ended = AssertUnwindSafe(life).catch_unwind().await;
        ended.err().map(|panic| self.end(panic.as_ref(), born.elapsed()))
    }

    /// Runs a blocking task; as [`Watcher::live`].
    pub fn live_blocking(&mut self, life: impl FnOnce()) -> Option<End> {
        let born = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(life));
        ended.err().map(|panic| self.end(panic.as_ref(), born.elapsed()))
    }

    /// Reports that the task works again.
    pub fn begin_again(&self) {
        self.supervisor.health.begin_again(&self.label);
    }

    fn end(&mut self, panic: &(dyn Any + Send), lived: Duration) -> End {
        if lived > RESTART_MAX {
            self.pause = self.supervisor.first;
        }
        // One cause may end the tasks of many members: they must not all reconnect in the same second.
        let pause = clock::jittered(self.pause);
        self.pause = self.pause.saturating_mul(2).min(RESTART_MAX);
        let reason = format!(
            "its task ended because of an error in gitfleet ({}) and gitfleet starts it again after {:.0} s; please report it",
            panic_message(panic),
            pause.as_secs_f64()
        );
        tracing::error!(part = self.label, reason, "a part of the daemon ended");
        // The failure of one cluster's task does not make the whole daemon unready: it serves the other clusters.
        self.supervisor.health.fail(&self.label, self.part != Part::Member);
        self.supervisor.metrics.task_restarts.get_or_create(&ByPart { part: self.part }).inc();
        End { reason, pause }
    }
}

#[cfg(test)]
mod tests;
