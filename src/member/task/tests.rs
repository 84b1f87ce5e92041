//! A task that ends by an error of ours, with a member that makes it do so.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::*;
use cluster::{ApplyOptions, Deletion, Error, Observation, WatchHandle, WatchedKind};
use model::id::{ObjectId, PlacementKey};
use model::work::Release;

/// Longest wait for anything; only a failure takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// A member that panics when it is connected to, the first few times, and in a watch after that; and that cannot be reached with a
/// kubeconfig that says "wrong".
#[derive(Default)]
struct Trap {
    left: Arc<AtomicUsize>,
    watch_panics: Arc<AtomicBool>,
    kubeconfig: PathBuf,
}

#[async_trait]
impl Target for Trap {
    async fn connect(&self) -> Result<Option<String>, Error> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        assert!(left == 0, "the trap snapped");
        if std::fs::read_to_string(&self.kubeconfig).is_ok_and(|text| text.contains("wrong")) {
            return Err(Error::Unreachable { cluster: "m".to_owned(), reason: "wrong token".to_owned() });
        }
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

    async fn delete(&self, _id: &ObjectId, _uid: &str, _version: Option<u64>) -> Result<Deletion, Error> {
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
    let (commands, inbox) = channel(Arc::default());
    let (sender, mut events) = mpsc::unbounded_channel();
    let watch_panics = Arc::new(AtomicBool::new(true));
    let trap = move || Trap { left: Arc::clone(&left), watch_panics: Arc::clone(&watch_panics), ..Trap::default() };
    let target = move || -> Arc<dyn Target> { Arc::new(trap()) };
    let watcher = Supervisor::without_pauses().over(Part::Member, Some("m"));
    let member_events = sender.clone();
    let begin = move |orders| {
        Member::new(
            "m".into(),
            "s".into(),
            target(),
            Arc::default(),
            Fence::always_open(),
            orders,
            member_events.clone(),
        )
    };
    let task = tokio::spawn(supervise("m".into(), begin, inbox, sender, watcher, None));
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

#[tokio::test]
async fn a_kubeconfig_that_works_takes_the_place_of_the_one_before_and_another_one_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let write = |token: &str| {
        let text = format!("apiVersion: v1\nkind: Config\nusers: [{{name: u, user: {{token: {token}}}}}]\n");
        // As a whole, as the kubelet does.
        std::fs::write(folder.path().join("new"), text).expect("it is written");
        std::fs::rename(folder.path().join("new"), &path).expect("it is moved");
    };
    write("first");
    let (_commands, inbox) = channel(Arc::default());
    let (sender, mut events) = mpsc::unbounded_channel();
    let file = path.clone();
    // Each time that it is made, so that a test knows when a changed file was tried.
    let (made, mut targets) = mpsc::unbounded_channel();
    let target = Arc::new(move || -> Arc<dyn Target> {
        made.send(()).expect("the test listens");
        Arc::new(Trap { kubeconfig: file.clone(), ..Trap::default() })
    });
    let (making, member_events) = (Arc::clone(&target), sender.clone());
    let begin = move |orders| {
        Member::new(
            "m".into(),
            "s".into(),
            making(),
            Arc::default(),
            Fence::always_open(),
            orders,
            member_events.clone(),
        )
    };
    let replaced = Replaced::follow(path.clone(), None, target, tracing::Span::none());
    let watcher = Supervisor::without_pauses().over(Part::Member, Some("m"));
    let task = tokio::spawn(supervise("m".into(), begin, inbox, sender, watcher, Some(replaced)));
    let mut next = async || loop {
        let event = tokio::time::timeout(LIMIT, events.recv()).await.expect("it continues").expect("somebody speaks");
        match event {
            MemberEvent::Restarted { .. } => return "started again",
            MemberEvent::Online { .. } => return "answers",
            MemberEvent::Offline { .. } => return "is gone",
            _ => {}
        }
    };
    assert_eq!(next().await, "answers");
    let mut made_one = async || tokio::time::timeout(LIMIT, targets.recv()).await.expect("it is made");
    made_one().await;
    write("wrong");
    made_one().await;
    write("second");
    assert_eq!((next().await, next().await), ("started again", "answers"), "once: the wrong one changed nothing");
    task.abort();
}
