//! Counts and times the writes on members.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use cluster::{ApplyOptions, Deletion, Error, Observation, Target, WatchHandle, WatchedKind};
use model::error::ErrorClass;
use model::id::ObjectId;
use model::work::Release;
use system::telemetry::metrics::{ByWrite, Metrics, Verb, WriteOutcome};

/// A member target that counts and times writes in the daemon's metrics; dry runs change nothing and do not count.
pub(crate) struct Counted {
    target: Arc<dyn Target>,
    metrics: Arc<Metrics>,
}

impl Counted {
    /// Wraps `target`.
    pub(crate) fn new(target: Arc<dyn Target>, metrics: Arc<Metrics>) -> Self {
        Self { target, metrics }
    }

    /// Notes a write that began at an instant.
    fn note<T>(&self, verb: Verb, began: Instant, answer: &Result<T, Error>) {
        let result = match answer.as_ref().map_err(Error::class) {
            Ok(_) => WriteOutcome::Ok,
            Err(ErrorClass::Conflict) => WriteOutcome::Conflict,
            Err(ErrorClass::Transient) => WriteOutcome::Unavailable,
            Err(_) => WriteOutcome::Refused,
        };
        let write = ByWrite { verb, result };
        self.metrics.member_writes.get_or_create(&write).inc();
        self.metrics.member_write_seconds.get_or_create(&write).observe(began.elapsed().as_secs_f64());
    }
}

#[async_trait]
impl Target for Counted {
    async fn connect(&self) -> Result<Option<String>, Error> {
        self.target.connect().await
    }

    async fn server(&self) -> Result<Option<String>, Error> {
        self.target.server().await
    }

    fn acting_as(&self, user: &str) -> Result<Option<Arc<dyn Target>>, Error> {
        let target = self.target.acting_as(user)?;
        Ok(target.map(|target| Arc::new(Self::new(target, Arc::clone(&self.metrics))) as Arc<dyn Target>))
    }

    fn has_health(&self) -> bool {
        self.target.has_health()
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        self.target.parents().await
    }

    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        let began = Instant::now();
        let answer = self.target.apply(object, options).await;
        if !options.dry_run {
            self.note(Verb::Apply, began, &answer);
        }
        answer
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        self.target.get(id).await
    }

    async fn names(&self, id: &ObjectId) -> Result<Option<BTreeSet<String>>, Error> {
        self.target.names(id).await
    }

    async fn delete(&self, id: &ObjectId, uid: &str, version: Option<u64>) -> Result<Deletion, Error> {
        let began = Instant::now();
        let answer = self.target.delete(id, uid, version).await;
        self.note(Verb::Delete, began, &answer);
        answer
    }

    async fn release(&self, id: &ObjectId, uid: &str, release: Release) -> Result<(), Error> {
        let began = Instant::now();
        let answer = self.target.release(id, uid, release).await;
        self.note(Verb::Release, began, &answer);
        answer
    }

    fn watch(&self, kind: &WatchedKind, version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        self.target.watch(kind, version, sink)
    }

    fn watch_parents(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        self.target.watch_parents(sink)
    }

    fn watch_facts(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        self.target.watch_facts(sink)
    }

    fn watch_namespaces(&self, sink: mpsc::Sender<Observation>) -> Option<WatchHandle> {
        self.target.watch_namespaces(sink)
    }
}
