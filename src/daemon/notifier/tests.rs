//! A receiver on this machine that is told what the journal says, and sometimes does not want to know.

use std::sync::Mutex;

use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use engine::store::{MemoryStore, Op};
use model::id::PlacementKey;
use model::journal::JournalKind;
use model::notification::{NotificationKind, NotificationTemplate};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(1);

/// Returns an entry about how far the snapshots of `web` are.
fn done(snapshot: u64, at: Timestamp) -> Op {
    let facts = json!({"snapshot": snapshot});
    let placement = Some(PlacementKey::cluster_scoped("web"));
    Op::Journal(JournalEntry { at, event: JournalKind::RolloutSucceeded, placement, cluster: None, facts })
}

/// An entry that is told to nobody.
fn silent() -> Op {
    let event = JournalKind::SnapshotCreated;
    Op::Journal(JournalEntry { at: clock::now(), event, placement: None, cluster: None, facts: json!({}) })
}

/// Answers with these status codes, the last of them again and again. Returns the address, and what is sent.
async fn server(codes: &'static [u16]) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (told, texts) = mpsc::unbounded_channel();
    let left = Arc::new(Mutex::new(codes.iter().copied()));
    let answer = move |text: String| {
        let mut left = left.lock().expect("nobody failed");
        let code = left.next().unwrap_or(codes[codes.len() - 1]);
        let _ = told.send(text);
        async move { axum::http::StatusCode::from_u16(code).expect("a status code") }
    };
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, texts)
}

fn receiver(name: &str, url: &str) -> NotificationReceiver {
    NotificationReceiver {
        name: name.to_owned(),
        url: Some(url.to_owned()),
        url_file: None,
        secret_file: None,
        ca_file: None,
        events: NotificationKind::ALL.to_vec(),
        template: NotificationTemplate::Plain,
        allow_insecure_http: false,
    }
}

fn start(store: &Arc<dyn Store>, receivers: &[NotificationReceiver]) -> (Notifier, Supervisor) {
    let supervisor = Supervisor::without_pauses();
    (
        Notifier::start(receivers, store, "fleet", &Fence::always_open(), &supervisor).expect("they can be used"),
        supervisor,
    )
}

async fn next(texts: &mut mpsc::UnboundedReceiver<String>) -> String {
    let text = tokio::time::timeout(LIMIT, texts.recv()).await.expect("somebody is told in time");
    text.expect("the server lives").split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect()
}

#[tokio::test]
async fn a_receiver_is_told_of_what_follows_in_order_until_it_takes_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    store.batch(vec![done(0, clock::now())]).expect("it is kept");
    let (url, mut texts) = server(&[500, 200]).await;
    let (mut notifier, supervisor) = start(&store, &[receiver("ops", &url)]);
    store.batch(vec![done(1, clock::now()), silent(), done(2, clock::now())]).expect("it is kept");
    notifier.note_written();
    let told = [next(&mut texts).await, next(&mut texts).await, next(&mut texts).await];
    assert_eq!(told, ["1", "1", "2"], "nothing from before; the first again after it was not taken");
    notifier.finish(LIMIT).await;
    let of = |result| supervisor.metrics().notifications.get_or_create(&ByNotification { result }).get();
    assert_eq!((of(Notified::Ok), of(Notified::Failed)), (2, 1));
    assert_eq!(begin(store.as_ref(), "ops").expect("it can be read"), 4);
}

#[tokio::test]
async fn the_next_process_continues_where_a_receiver_was_told_last() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (deaf, mut unheard) = server(&[503]).await;
    let (notifier, _) = start(&store, &[receiver("ops", &deaf)]);
    store.batch(vec![done(1, clock::now()), done(2, clock::now())]).expect("it is kept");
    notifier.note_written();
    assert_eq!(next(&mut unheard).await, "1");
    drop(notifier);
    let (url, mut texts) = server(&[200]).await;
    let (mut notifier, _) = start(&store, &[receiver("ops", &url), receiver("new", &url)]);
    notifier.finish(LIMIT).await;
    assert_eq!([next(&mut texts).await, next(&mut texts).await], ["1", "2"]);
    assert!(texts.try_recv().is_err(), "a receiver that is new gets nothing from before");
}

#[tokio::test]
async fn another_address_is_used_when_its_file_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("address");
    let ((before, mut unheard), (after, mut texts)) = (server(&[503]).await, server(&[200]).await);
    std::fs::write(&file, &before).expect("a file");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let in_file = NotificationReceiver {
        url: None,
        url_file: Some(file.clone()),
        allow_insecure_http: true,
        ..receiver("ops", "")
    };
    let (notifier, _) = start(&store, &[in_file]);
    store.batch(vec![done(1, clock::now())]).expect("it is kept");
    notifier.note_written();
    assert_eq!(next(&mut unheard).await, "1");
    std::fs::write(&file, &after).expect("a file");
    assert_eq!(next(&mut texts).await, "1", "it is sent again, to the other address");
}

#[test]
fn a_restored_store_numbers_its_journal_again() {
    let store = MemoryStore::new();
    let put = |entry| records::put(records::notified_key("ops"), &NotifiedUpTo { entry }, Expected::Any);
    store.batch(vec![put(9).expect("it is JSON"), silent(), silent()]).expect("it is kept");
    assert_eq!(begin(&store, "ops").expect("it can be read"), 2);
    store.batch(vec![silent(), silent()]).expect("it is kept");
    assert_eq!(begin(&store, "ops").expect("it can be read"), 2, "what follows is told");
}

#[tokio::test]
async fn what_is_too_old_is_given_up_and_the_rest_is_told() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (url, mut texts) = server(&[200]).await;
    let mut wanted = receiver("ops", &url);
    let (notifier, _) = start(&store, std::slice::from_ref(&wanted));
    drop(notifier);
    let old = clock::now() - AGE_MAX - SignedDuration::from_secs(1);
    store.batch(vec![done(1, old), done(2, clock::now())]).expect("it is kept");
    let (mut notifier, supervisor) = start(&store, std::slice::from_ref(&wanted));
    notifier.finish(LIMIT).await;
    assert_eq!(next(&mut texts).await, "2");
    let given_up = ByNotification { result: Notified::GivenUp };
    assert_eq!(supervisor.metrics().notifications.get_or_create(&given_up).get(), 1);
    // Another receiver's choice of events.
    wanted.events = vec![NotificationKind::GateWaiting];
    store.batch(vec![done(3, clock::now())]).expect("it is kept");
    let (mut notifier, _) = start(&store, &[wanted]);
    notifier.finish(LIMIT).await;
    assert!(texts.try_recv().is_err(), "it does not want to know");
}

#[tokio::test]
async fn a_receiver_that_never_answers_holds_up_neither_the_end_nor_others() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (deaf, mut unheard) = server(&[500]).await;
    let (url, mut texts) = server(&[200]).await;
    let (mut notifier, _) = start(&store, &[receiver("deaf", &deaf), receiver("ops", &url)]);
    store.batch(vec![done(1, clock::now())]).expect("it is kept");
    notifier.note_written();
    assert_eq!((next(&mut unheard).await, next(&mut texts).await), ("1".to_owned(), "1".to_owned()));
    notifier.finish(Duration::ZERO).await;
    assert_eq!(begin(store.as_ref(), "deaf").expect("it can be read"), 0, "it is told later");
}
