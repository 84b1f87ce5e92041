//! What is done when a task or a thread of the daemon ends by an error of gitfleet's own: it is said in the log, in the probes
//! and in a metric, and the task is begun again after a pause.
//!
//! Each begins again from what is written down, so a life that ends at any point costs no more than a restart of the daemon
//! would. The engine's own loop is not begun again: the process ends with an error, and whoever runs it starts it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use crate::clock;
use crate::error::panic_words;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::{ByPart, Metrics, Part};

/// First pause before a task is begun again; doubles up to [`RESTART_MAX`].
pub const RESTART_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause. A task that lived longer begins with the first again.
pub const RESTART_MAX: Duration = Duration::from_mins(5);

/// Watches over all tasks and threads of a daemon.
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

    /// Begins to watch. What ends is reported in `health` and counted in `metrics`.
    pub fn new(health: Arc<Health>, metrics: Arc<Metrics>) -> Self {
        Self { health, metrics, first: RESTART_FIRST }
    }

    /// Begins to watch without pauses.
    #[cfg(test)]
    pub fn without_pauses() -> Self {
        Self { first: Duration::ZERO, ..Self::new(Arc::default(), Arc::default()) }
    }

    /// Returns what the probes answer from.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Returns who watches over one task. `name` tells it from others of its part.
    pub fn over(&self, part: Part, name: Option<&str>) -> Watcher {
        let words = name.map_or_else(|| part.as_str().to_owned(), |name| format!("{} {name}", part.as_str()));
        Watcher { supervisor: self.clone(), part, words, pause: self.first }
    }

    /// Runs a task that needs nothing of its life before, over and over, until it ends as it should.
    pub async fn repeat<Life: Future<Output = ()>>(&self, part: Part, mut begin: impl FnMut() -> Life) {
        let mut watcher = self.over(part, None);
        while let Some(end) = watcher.live(begin()).await {
            tokio::time::sleep(end.pause).await;
            watcher.begin_again();
        }
    }

    /// Starts a thread that is begun again where it panics.
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

/// Watches over one task.
#[derive(Debug)]
pub struct Watcher {
    supervisor: Supervisor,
    part: Part,
    words: String,
    pause: Duration,
}

/// How a life ended that should not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Why, for people.
    pub reason: String,
    /// How long to wait before the next.
    pub pause: Duration,
}

impl Watcher {
    /// Lets a task live. Returns how it ended where it panicked; `None` where it ended as it should.
    pub async fn live(&mut self, life: impl Future<Output = ()>) -> Option<End> {
        let born = Instant::now();
        let ended = AssertUnwindSafe(life).catch_unwind().await;
        ended.err().map(|panic| self.end(panic.as_ref(), born.elapsed()))
    }

    /// Lets a task live that blocks; as [`Watcher::live`].
    pub fn live_blocking(&mut self, life: impl FnOnce()) -> Option<End> {
        let born = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(life));
        ended.err().map(|panic| self.end(panic.as_ref(), born.elapsed()))
    }

    /// Says that the task works again.
    pub fn begin_again(&self) {
        self.supervisor.health.begin_again(&self.words);
    }

    fn end(&mut self, panic: &(dyn Any + Send), lived: Duration) -> End {
        if lived > RESTART_MAX {
            self.pause = self.supervisor.first;
        }
        // One cause may end the tasks of many members at once: they must not all connect again in the same second.
        let pause = clock::jittered(self.pause);
        self.pause = self.pause.saturating_mul(2).min(RESTART_MAX);
        let reason = format!(
            "its task ended by an error of gitfleet's own ({}) and is begun anew after {:.0} s; please report it",
            panic_words(panic),
            pause.as_secs_f64()
        );
        tracing::error!(part = self.words, reason, "a part of the daemon ended");
        // One cluster's task is no reason to call the whole daemon not ready: the other clusters are served.
        self.supervisor.health.fail(&self.words, self.part != Part::Member);
        self.supervisor.metrics.task_restarts.get_or_create(&ByPart { part: self.part }).inc();
        End { reason, pause }
    }
}

#[cfg(test)]
mod tests;
