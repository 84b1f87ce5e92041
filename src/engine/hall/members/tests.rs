//! A task that ends by an error of ours, with a member that makes it do so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::*;
use crate::cluster::{ApplyOptions, Deletion, Error, Observation, WatchHandle, WatchedKind};
use crate::model::id::{ObjectId, PlacementKey};

/// Longest wait for anything; only a failure takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// A member that panics when it is connected to, the first few times.
struct Trap {
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl Target for Trap {
    async fn connect(&self) -> Result<Option<String>, Error> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        assert!(left == 0, "the trap snapped");
        Ok(None)
    }

    fn has_health(&self) -> bool {
        false
    }

    async fn parents(&self) -> Result<Vec<Value>, Error> {
        Ok(Vec::new())
    }

    async fn apply(&self, object: &Value, _options: ApplyOptions) -> Result<Value, Error> {
        Ok(object.clone())
    }

    async fn get(&self, _id: &ObjectId) -> Result<Option<Value>, Error> {
        Ok(None)
    }

    async fn delete(&self, _id: &ObjectId, _uid: &str) -> Result<Deletion, Error> {
        Ok(Deletion::Gone)
    }

    fn watch(&self, _kind: &WatchedKind, _version: Option<&str>, _sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle::of(tokio::spawn(async {}))
    }
}

#[tokio::test]
async fn a_task_that_panics_is_told_of_and_begun_anew() {
    let left = Arc::new(AtomicUsize::new(2));
    let (commands, inbox) = mpsc::unbounded_channel();
    let (sender, mut events) = mpsc::unbounded_channel();
    let target = move || -> Arc<dyn Target> { Arc::new(Trap { left: Arc::clone(&left) }) };
    let watcher = Supervisor::without_pauses().over(Part::Member, Some("m"));
    let task = tokio::spawn(supervise("m".into(), "s".into(), target, inbox, sender, watcher));
    let mut said = Vec::new();
    while said.last().is_none_or(|last| last != "answers") {
        let event = tokio::time::timeout(LIMIT, events.recv()).await.expect("it goes on").expect("somebody speaks");
        said.push(match event {
            Event::Offline { cluster, reason } => {
                assert!(
                    cluster == "m".into() && reason.contains("an error of gitfleet's own (the trap snapped)"),
                    "{reason}"
                );
                "ended".to_owned()
            }
            Event::Restarted { .. } => "begun anew".to_owned(),
            Event::Online { .. } => "answers".to_owned(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(said, ["ended", "begun anew", "ended", "begun anew", "answers"]);
    commands.send(Command::Forget(PlacementKey::cluster_scoped("p"))).expect("the new task is told");
    drop(commands);
    tokio::time::timeout(LIMIT, task).await.expect("it ends with the hall").expect("without an error");
}
