//! Writes to members while this daemon surely leads, and its epoch in their inventories.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::mpsc;

use cluster::{ApplyOptions, Deletion, Error, Observation, Target, WatchHandle, WatchedKind};
use deliver::inventory::ID_LABEL;
use model::api::annotations::EPOCH;
use model::id::ObjectId;
use model::work::Release;
use system::fence::{Cut, Fence};

/// A member target whose writes pass the fence; reads, dry runs and watches do not.
pub(crate) struct Fenced {
    target: Arc<dyn Target>,
    fence: Fence,
}

impl Fenced {
    /// Wraps `target`.
    pub(crate) fn new(target: Arc<dyn Target>, fence: Fence) -> Self {
        Self { target, fence }
    }

    /// Executes a write on an object.
    async fn write<T>(
        &self,
        object: impl FnOnce() -> String,
        write: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.fence.run(write).await {
            Ok(answer) => answer,
            Err(cut @ Cut) => Err(Error::Unanswered { object: object(), reason: cut.to_string() }),
        }
    }

    /// Returns the parent of an inventory with the epoch of this daemon; `None` for any other object, and without an epoch.
    fn with_epoch(&self, object: &Value) -> Option<Value> {
        let epoch = self.fence.epoch()?;
        object.pointer("/metadata/labels")?.get(ID_LABEL)?;
        let mut object = object.clone();
        object
            .pointer_mut("/metadata/annotations")?
            .as_object_mut()?
            .insert(EPOCH.to_owned(), epoch.to_string().into());
        Some(object)
    }
}

#[async_trait]
impl Target for Fenced {
    async fn connect(&self) -> Result<Option<String>, Error> {
        self.target.connect().await
    }

    async fn server(&self) -> Result<Option<String>, Error> {
        self.target.server().await
    }

    fn acting_as(&self, user: &str) -> Result<Option<Arc<dyn Target>>, Error> {
        let target = self.target.acting_as(user)?;
        Ok(target.map(|target| Arc::new(Self::new(target, self.fence.clone())) as Arc<dyn Target>))
    }

    fn has_health(&self) -> bool {
        self.target.has_health()
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        self.target.parents().await
    }

    async fn apply(&self, object: &Value, options: ApplyOptions) -> Result<Value, Error> {
        if options.dry_run {
            return self.target.apply(object, options).await;
        }
        self.fence.pass().await;
        let with_epoch = self.with_epoch(object);
        let object = with_epoch.as_ref().unwrap_or(object);
        let what = || ObjectId::of(object).map_or_else(|| "an object".to_owned(), |id| id.to_string());
        self.write(what, self.target.apply(object, options)).await
    }

    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, Error> {
        self.target.get(id).await
    }

    async fn names(&self, id: &ObjectId) -> Result<Option<BTreeSet<String>>, Error> {
        self.target.names(id).await
    }

    async fn delete(&self, id: &ObjectId, uid: &str, version: Option<u64>) -> Result<Deletion, Error> {
        self.write(|| id.to_string(), self.target.delete(id, uid, version)).await
    }

    async fn release(&self, id: &ObjectId, uid: &str, release: Release) -> Result<(), Error> {
        self.write(|| id.to_string(), self.target.release(id, uid, release)).await
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
