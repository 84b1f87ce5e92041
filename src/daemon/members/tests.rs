//! A task that ends by an error of ours, with a member that makes it do so.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::*;
use crate::cluster::{ApplyOptions, Deletion, Error, Observation, WatchHandle, WatchedKind};
use crate::model::id::{ObjectId, PlacementKey};
use crate::model::work::Release;

/// Longest wait for anything; only a failure takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// A member that panics when it is connected to, the first few times, and in a watch after that.
struct Trap {
    left: Arc<AtomicUsize>,
    watch_panics: Arc<AtomicBool>,
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

    async fn release(&self, _id: &ObjectId, _uid: &str, _release: Release) -> Result<(), Error> {
        Ok(())
    }

    fn watch(&self, _kind: &WatchedKind, _version: Option<&str>, sink: mpsc::Sender<Observation>) -> WatchHandle {
        WatchHandle::start(sink, Observation::panicked, async {})
    }

    fn watch_facts(&self, sink: mpsc::Sender<Observation>) -> WatchHandle {
        let panics = self.watch_panics.fetch_and(false, Ordering::Relaxed);
        WatchHandle::start(sink, Observation::panicked, async move {
            assert!(!panics, "the watch snapped");
        })
    }
}

#[tokio::test]
async fn d17_a_task_or_watch_that_panics_is_reported_and_restarted() {
    let left = Arc::new(AtomicUsize::new(2));
    let (commands, inbox) = mpsc::unbounded_channel();
    let (sender, mut events) = mpsc::unbounded_channel();
    let watch_panics = Arc::new(AtomicBool::new(true));
    let trap = move || Trap { left: Arc::clone(&left), watch_panics: Arc::clone(&watch_panics) };
    let target = move || -> Arc<dyn Target> { Arc::new(trap()) };
    let watcher = Supervisor::without_pauses().over(Part::Member, Some("m"));
    let member_events = sender.clone();
    let begin =
        move |orders| Member::new("m".into(), "s".into(), target(), Arc::default(), orders, member_events.clone());
    let task = tokio::spawn(supervise("m".into(), begin, inbox, sender, watcher));
    let mut said = Vec::new();
    while said.iter().filter(|said| *said == "answers").count() < 2 {
        let event = tokio::time::timeout(LIMIT, events.recv()).await.expect("it continues").expect("somebody speaks");
        said.push(match event {
            MemberEvent::Offline { cluster, reason } => {
                let snapped =
                    if said.iter().any(|said| said == "answers") { "the watch snapped" } else { "the trap snapped" };
                let words = format!("an error in gitfleet ({snapped})");
                assert!(cluster == "m".into() && reason.contains(&words), "{reason}");
                "ended".to_owned()
            }
            MemberEvent::Restarted { .. } => "started again".to_owned(),
            MemberEvent::Online { .. } => "answers".to_owned(),
            MemberEvent::Namespaces { namespaces: Ok(_), .. } => continue,
            other => format!("{other:?}"),
        });
    }
    assert_eq!(
        said,
        ["ended", "started again", "ended", "started again", "answers", "ended", "started again", "answers"]
    );
    commands.send(MemberCommand::Forget(PlacementKey::cluster_scoped("p"))).expect("the new task is told");
    drop(commands);
    tokio::time::timeout(LIMIT, task).await.expect("it ends with the daemon").expect("without an error");
}
