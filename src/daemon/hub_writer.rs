//! The hub's task: writes the latest exports of the daemon to the hub, where Argo CD reads them.
//!
//! It works like a member's task: it receives the latest exports, writes them, repairs changes by others, and retries while the
//! hub does not answer. Deliveries never wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBackoff;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::hub_writer::settings::failed;
use cluster::Error;
use cluster::hub::{Change, Hub, HubKind};
use decide::status::decisions::Exports;
use engine::HubReport;
use system::clock;
use system::fence::Fence;
use system::supervise::Supervisor;
use system::telemetry::metrics::Part;

mod pass;
mod settings;

pub use settings::HubSettings;

use pass::HubPass;

/// First pause before an unreachable hub is retried.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// The longest such pause.
const RECONNECT_MAX: Duration = Duration::from_mins(1);
/// Pause before a refused write, or one that met a foreign object, is retried.
const RETRY: Duration = Duration::from_secs(30);

/// The running task; ends when dropped.
pub struct HubTask {
    wanted: watch::Sender<Option<Arc<Exports>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for HubTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HubTask {
    /// Starts the task. It changes nothing before its first exports.
    pub fn start(
        settings: HubSettings,
        reports: mpsc::Sender<HubReport>,
        fence: Fence,
        supervisor: Supervisor,
    ) -> Self {
        let (wanted, receiver) = watch::channel(None);
        let begin = move || {
            let settings = settings.clone();
            let wanted = receiver.clone();
            let reports = reports.clone();
            Worker { settings, fence: fence.clone(), wanted, reports, logged: BTreeSet::new(), delay: delays() }.run()
        };
        Self { wanted, task: tokio::spawn(async move { supervisor.repeat(Part::Hub, begin).await }) }
    }

    /// Sends the latest exports; earlier ones that were not written yet are skipped.
    pub fn send(&self, exports: Arc<Exports>) {
        self.wanted.send_replace(Some(exports));
    }
}

fn delays() -> ExponentialBackoff {
    clock::delays(RECONNECT_FIRST, RECONNECT_MAX)
}

struct Worker {
    settings: HubSettings,
    fence: Fence,
    wanted: watch::Receiver<Option<Arc<Exports>>>,
    reports: mpsc::Sender<HubReport>,
    /// The problems that were logged.
    logged: BTreeSet<String>,
    delay: ExponentialBackoff,
}

impl Worker {
    /// # Cancel safety
    /// May be dropped at any point: every write leads from one valid state to the next, and the next process reads the hub
    /// first.
    async fn run(mut self) {
        // The sender ends with the daemon, which ends this task anyway.
        while self.wanted.wait_for(Option::is_some).await.is_ok() {
            let error = self.session().await;
            let report = failed(&error);
            tracing::warn!(reason = report.failure, "decisions cannot be written to the hub; trying again");
            // The daemon may have ended.
            let _ = self.reports.send(report).await;
            tokio::time::sleep(self.delay.next().unwrap_or(RECONNECT_MAX)).await;
        }
    }

    /// Works with the hub until it fails.
    async fn session(&mut self) -> Error {
        let HubSettings { kubeconfig, context, allow_exec, namespace, config_map, .. } = &self.settings;
        let hub = match Hub::connect(kubeconfig, context.as_deref(), allow_exec, namespace).await {
            Ok(hub) => hub,
            Err(error) => return error,
        };
        let (sink, mut changes) = Hub::changes();
        let mut watches = Vec::new();
        let config_map = config_map.clone();
        loop {
            let exports = self.wanted.borrow_and_update().clone().unwrap_or_default();
            let mut pass = HubPass::new(&hub, &self.settings, &self.fence);
            if let Err(error) = pass.make_so(&exports).await {
                return error;
            }
            let HubPass { known, problems, again, failed_for_now, .. } = pass;
            self.log(&problems);
            // Errors for a person to fix are reported as problems, and do not block the other writes.
            let done = (!again && !failed_for_now).then(|| Arc::clone(&exports));
            let pause = self.pause(again, failed_for_now);
            let retry_at = Instant::now() + pause;
            // A person may fix a problem that no watch sees: a missing right, an OCM Placement.
            let retries = again || !problems.is_empty();
            // The daemon may have ended.
            let _ = self.reports.send(HubReport { done, failure: None, is_passing: false, problems }).await;
            if watches.is_empty() {
                // Started only now: an earlier first list would repeat what was just read.
                watches.push(hub.watch(HubKind::PlacementDecision, None, sink.clone()));
                watches.push(hub.watch(HubKind::ConfigMap, Some(&config_map), sink.clone()));
            }
            loop {
                tokio::select! {
                    updated = self.wanted.changed() => {
                        if updated.is_err() {
                            return Error::Unreachable { cluster: String::new(), reason: "nobody listens".to_owned() };
                        }
                        break;
                    }
                    Some(change) = changes.recv() => match change {
                        Change::Failed(error) => return error,
                        change if known.is_news(&change) => break,
                        _ => {}
                    },
                    () = tokio::time::sleep_until(retry_at), if retries => break,
                }
            }
            // One pass handles all pending changes.
            while let Ok(change) = changes.try_recv() {
                if let Change::Failed(error) = change {
                    return error;
                }
            }
        }
    }

    /// Returns the pause before unfinished writes are retried: longer each time while the hub is busy.
    fn pause(&mut self, again: bool, failed_for_now: bool) -> Duration {
        if failed_for_now {
            return self.delay.next().unwrap_or(RECONNECT_MAX);
        }
        self.delay = delays();
        // Another writer was faster: its write can be read by now.
        if again { RECONNECT_FIRST } else { RETRY }
    }

    fn log(&mut self, problems: &[String]) {
        for problem in problems {
            if self.logged.insert(problem.clone()) {
                tracing::warn!(about = %problem, "decisions are not as they should be on the hub");
            }
        }
        // A problem that ended and returns is logged again.
        self.logged.retain(|said| problems.contains(said));
    }
}

#[cfg(test)]
mod tests;
