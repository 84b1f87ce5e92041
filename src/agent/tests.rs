//! The agent against a scripted server over real HTTP/2.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::connect::TlsFiles;
use super::run::{AgentOptions, AgentStanding, run};
use decide::snapshot::go_json;
use model::id::{ClusterName, Digest, ObjectId, PlacementKey};
use model::work::{Desired, WorkOrder};
use system::supervise::Supervisor;
use wire::{
    Acked, AgentHealth, AgentMember, AgentReach, FetchObjects, FetchedObject, FromServer, Hello, OBJECTS_PATH,
    ORDERS_PATH, REPORTS_PATH, Refused, Reports, SESSION_PATH, ToServer, WholeOrder,
};

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);
const CANARY: &str = "canary-4711";

/// A session that an agent opened.
struct Opened {
    hello: Hello,
    frames: mpsc::Sender<Bytes>,
}

impl Opened {
    async fn send(&mut self, frame: FromServer) {
        let frame = wire::frame(&frame).expect("a frame");
        self.frames.send(frame.into()).await.expect("the agent listens");
    }

    /// Welcomes the agent and gives it a member.
    async fn welcome(&mut self, epoch: u64, lease_ms: u64, pool: Option<&str>) {
        let session = "s".to_owned();
        self.send(FromServer::Welcome { session, protocol: 1, epoch, lease_ms }).await;
        let reach = AgentReach::Directory { path: "m".into() };
        let member = AgentMember { cluster: "a".into(), reach, pool: pool.map(str::to_owned) };
        self.members(vec![member]).await;
    }

    async fn members(&mut self, members: Vec<AgentMember>) {
        let (source, health) = ("fleet".into(), AgentHealth::default());
        self.send(FromServer::Members { source, health, members }).await;
    }

    /// Gives the member its only order.
    async fn order(&mut self, digest: &Digest) {
        let placement = PlacementKey::cluster_scoped("p");
        self.send(FromServer::Order { cluster: "a".into(), placement, digest: digest.clone(), reported: None }).await;
        self.placements().await;
    }

    /// Says that the member has all its orders.
    async fn placements(&mut self) {
        let placements = [PlacementKey::cluster_scoped("p")].into();
        self.send(FromServer::Placements { cluster: "a".into(), placements }).await;
    }
}

#[derive(Default)]
struct Content {
    orders: BTreeMap<String, Vec<u8>>,
    objects: BTreeMap<Digest, Arc<Value>>,
    /// Digests that were asked for.
    fetched: Vec<String>,
}

struct Server {
    address: String,
    content: Arc<Mutex<Content>>,
    sessions: mpsc::UnboundedReceiver<Opened>,
    reports: mpsc::UnboundedReceiver<Reports>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Body = BoxBody<Bytes, std::convert::Infallible>;

#[derive(Clone)]
struct Handler {
    content: Arc<Mutex<Content>>,
    sessions: mpsc::UnboundedSender<Opened>,
    reports: mpsc::UnboundedSender<Reports>,
}

impl Handler {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let full = |bytes: Vec<u8>| Response::new(Full::new(Bytes::from(bytes)).boxed());
        if parts.headers["authorization"] != "Bearer token" || parts.headers["gitfleet-agent"] != "edge" {
            let refused = Refused { message: "the token is unknown".into(), protocol: None };
            let mut answer = full(wire::pack(&refused).expect("packs"));
            *answer.status_mut() = StatusCode::UNAUTHORIZED;
            return Ok(answer);
        }
        Ok(match (parts.method, parts.uri.path()) {
            (Method::POST, SESSION_PATH) => {
                let (frames, sent) = mpsc::channel::<Bytes>(16);
                let next = |mut sent: mpsc::Receiver<Bytes>| async move {
                    let bytes = sent.recv().await?;
                    Some((Ok(Frame::data(bytes)), sent))
                };
                let stream = StreamBody::new(futures::stream::unfold(sent, next));
                let hello = wire::unpack(&body).expect("a hello");
                self.sessions.send(Opened { hello, frames }).expect("the test waits");
                Response::new(stream.boxed())
            }
            (Method::POST, REPORTS_PATH) => {
                let reports: Reports = wire::unpack(&body).expect("reports");
                let acked = Acked { acked: reports.seq };
                drop(self.reports.send(reports));
                full(wire::pack(&acked).expect("packs"))
            }
            (Method::POST, OBJECTS_PATH) => {
                let wanted: FetchObjects = wire::unpack(&body).expect("digests");
                let mut content = self.content.lock().expect("no test panics in here");
                content.fetched.extend(wanted.digests.iter().map(ToString::to_string));
                let found = wanted.digests.into_iter().map(|digest| {
                    let object = Arc::clone(&content.objects[&digest]);
                    wire::frame(&FetchedObject { digest, object }).expect("a frame")
                });
                full(found.flatten().collect())
            }
            (Method::GET, path) => {
                let digest = path.strip_prefix(ORDERS_PATH).expect("an order").to_owned();
                let mut content = self.content.lock().expect("no test panics in here");
                let order = wire::pack_bytes(&content.orders[&digest]).expect("packs");
                content.fetched.push(digest);
                full(order)
            }
            (method, path) => panic!("{method} {path}"),
        })
    }
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (sessions, opened) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::unbounded_channel();
        let content = Arc::new(Mutex::new(Content::default()));
        let handler = Handler { content: Arc::clone(&content), sessions, reports };
        let task = tokio::spawn(async move {
            // Connections end with the server.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let handler = handler.clone();
                let service = service_fn(move |request| handler.clone().answer(request));
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                connections.spawn(async move { drop(builder.serve_connection(TokioIo::new(stream), service).await) });
            }
        });
        Self { address, content, sessions: opened, reports: reported, task }
    }

    async fn session(&mut self) -> Opened {
        within(self.sessions.recv()).await.expect("a session")
    }

    /// Makes an order with a Secret, and returns its digest.
    fn offer(&self, generation: i64, text: &str) -> Digest {
        let whole = WholeOrder::of(&order(generation, text));
        let (digest, json) = whole.order.encode().expect("JSON");
        let mut content = self.content.lock().expect("no test panics in here");
        content.objects.extend(whole.objects);
        content.orders.insert(digest.to_string(), json);
        digest
    }

    fn fetched(&self) -> usize {
        self.content.lock().expect("no test panics in here").fetched.len()
    }

    /// Waits until a complete report about this generation has come.
    async fn complete(&mut self, wanted: i64) {
        within(async {
            loop {
                let reports = self.reports.recv().await.expect("reports");
                let is_done = |event: &ToServer| {
                    matches!(event, ToServer::Work { status, .. } if status.complete && status.generation == wanted)
                };
                if reports.events.iter().any(is_done) {
                    return;
                }
            }
        })
        .await;
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

fn order(generation: i64, text: &str) -> WorkOrder {
    let desired = |object: Value| {
        let id = ObjectId::of(&object).expect("an id");
        let digest = Digest::new(format!("{:x}", Sha256::digest(go_json(&object))));
        Desired { key: id.key().shared(), id, object: Arc::new(object), digest, wave: 1, encrypted: None }
    };
    let named = |kind: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "o", "namespace": "n"}, "stringData": data});
    let manifests = [
        desired(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"text": text}}),
        ),
        desired(named("Secret", json!({"password": CANARY}))),
    ];
    WorkOrder { cluster: "a".into(), generation, manifests: manifests.into(), ..testkit::records::work_order() }
}

struct Agent {
    stop: watch::Sender<bool>,
    standing: watch::Receiver<AgentStanding>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Agent {
    fn start(address: &str, folder: &Path, token: &str) -> Self {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let settings = AgentOptions {
            servers: vec![address.parse().expect("an address")],
            name: "edge".into(),
            pools: ["eu".to_owned()].into(),
            token: SecretString::from(token.to_owned()),
            tls: TlsFiles::default().read().expect("certificates"),
            state: folder.join("state"),
            root: folder.join("root"),
            decrypt: None,
        };
        let (standing, seen) = watch::channel(AgentStanding::Alone(String::new()));
        let (stop, stopped) = watch::channel(false);
        let supervisor = Supervisor::new(Arc::default(), Arc::default());
        Self { stop, standing: seen, task: tokio::spawn(run(settings, supervisor, standing, stopped)) }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        within(self.task).await.expect("no panic").expect("no error");
    }

    /// Waits until it has no session, for a reason with this text.
    async fn alone(&mut self, text: &str) {
        let says = |standing: &AgentStanding| matches!(standing, AgentStanding::Alone(reason) if reason.contains(text));
        within(self.standing.wait_for(says)).await.expect("the agent runs");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn holding(folder: &Path, text: &str) -> Option<PathBuf> {
    let holds = |path: &PathBuf| fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text));
    files(folder).into_iter().find(holds)
}

/// Waits until a file of a folder holds a text.
async fn appears(folder: &Path, text: &str) -> PathBuf {
    within(async {
        loop {
            if let Some(path) = holding(folder, text) {
                return path;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// An agent that has delivered its first order.
struct Delivered {
    folder: tempfile::TempDir,
    server: Server,
    agent: Agent,
    session: Opened,
    /// The digest of the order.
    order: Digest,
}

impl Delivered {
    async fn start(lease_ms: u64, pool: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Server::start().await;
        let agent = Agent::start(&server.address, folder.path(), "token");
        let mut session = server.session().await;
        session.welcome(7, lease_ms, pool).await;
        let order = server.offer(1, "first");
        session.order(&order).await;
        server.complete(1).await;
        Self { folder, server, agent, session, order }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_fetched_once_and_survive_cuts_restarts_and_the_server() {
    let Delivered { folder, mut server, agent, session, order: first } = Delivered::start(15_000, None).await;
    let root = folder.path().join("root");
    assert!(session.hello.running.is_empty() && session.hello.epoch == 0);
    appears(&root, "first").await;
    assert_eq!(server.fetched(), 3, "an order and two objects");

    // A cut: the agent says what it has, and fetches nothing again.
    drop(session);
    let mut session = server.session().await;
    assert_eq!(session.hello.running[&ClusterName::from("a")][&PlacementKey::cluster_scoped("p")], first);
    assert_eq!(session.hello.epoch, 7);
    session.welcome(7, 15_000, None).await;
    session.order(&first).await;
    session.placements().await;
    server.complete(1).await;
    assert_eq!(server.fetched(), 3);

    // Replaced: only what is new is fetched.
    let second = server.offer(2, "second");
    session.order(&second).await;
    server.complete(2).await;
    assert_eq!(server.fetched(), 5, "an order and one object more");
    assert_eq!(
        files(&folder.path().join("state/content")).len(),
        4,
        "the report stays, and what no order names is removed"
    );
    agent.stop().await;
    let last = within(async {
        loop {
            let reports = server.reports.recv().await.expect("reports");
            if reports.events.contains(&ToServer::Bye) {
                return true;
            }
        }
    });
    assert!(last.await, "it says goodbye");

    for text in [CANARY, "second", "ConfigMap", "Y2FuYXJ5LTQ3MTE"] {
        assert_eq!(holding(&folder.path().join("state"), text), None, "{text} is on the disk in plain");
    }

    // Without a server the last order counts: drift is put back, and nothing is removed.
    let address = server.address.clone();
    drop(server);
    let written = holding(&root, "second").expect("it is still there");
    fs::write(&written, fs::read_to_string(&written).expect("text").replace("second", "drift")).expect("drift");
    let mut agent = Agent::start(&address, folder.path(), "token");
    appears(&root, "second").await;
    assert!(holding(&root, "Secret").is_some(), "nothing is removed");
    agent.alone("does not answer").await;
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_replaced_and_a_token_that_is_unknown_get_no_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start().await;
    let mut agent = Agent::start(&server.address, folder.path(), "token");
    server.session().await.welcome(7, 15_000, None).await;
    let mut session = server.session().await;
    session.send(FromServer::Welcome { session: "s".into(), protocol: 1, epoch: 6, lease_ms: 15_000 }).await;
    agent.alone("a server with epoch 7 has replaced it").await;
    let mut session = server.session().await;
    session.send(FromServer::Welcome { session: "s".into(), protocol: 9, epoch: 7, lease_ms: 15_000 }).await;
    agent.alone("speaks version 9 of the protocol").await;
    agent.stop().await;
    let mut agent = Agent::start(&server.address, folder.path(), "other");
    agent.alone("401 Unauthorized: the token is unknown").await;
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_token_or_damage_cost_a_fetch_and_remove_nothing() {
    let Delivered { folder, mut server, agent, session: _session, order: digest } =
        Delivered::start(15_000, None).await;
    let root = folder.path().join("root");
    agent.stop().await;
    for path in files(&folder.path().join("state/content")) {
        fs::write(path, "damage").expect("writable");
    }
    let agent = Agent::start(&server.address, folder.path(), "token");
    let mut session = server.session().await;
    assert!(session.hello.running.is_empty(), "nothing whole is there");
    session.welcome(7, 15_000, None).await;
    session.order(&digest).await;
    server.complete(1).await;
    assert_eq!(server.fetched(), 6, "all of it is fetched again");
    assert!(holding(&root, "first").is_some());
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_pool_are_written_to_only_while_the_lease_lasts() {
    let Delivered { folder, server, agent, session: _session, .. } = Delivered::start(1_000, Some("eu")).await;
    let root = folder.path().join("root");
    let address = server.address.clone();
    agent.stop().await;
    drop(server);
    // After a restart it has no lease: drift stays until a server gives one.
    let written = appears(&root, "first").await;
    fs::write(&written, fs::read_to_string(&written).expect("text").replace("first", "drift")).expect("drift");
    let mut agent = Agent::start(&address, folder.path(), "token");
    agent.alone("does not answer").await;
    // Longer than the lease, which a fence that was open by mistake would not outlast without a write.
    let looks = tokio::time::timeout(Duration::from_millis(1_500), appears(&root, "first"));
    assert!(looks.await.is_err(), "nobody wrote without a lease");
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_started_agent_asks_whose_its_members_are_before_it_writes() {
    let Delivered { folder, mut server, agent, session: _session, .. } = Delivered::start(1_000, None).await;
    let root = folder.path().join("root");
    agent.stop().await;
    let drift = |text: &str| {
        let written = holding(&root, text).expect("it is there");
        fs::write(&written, fs::read_to_string(&written).expect("text").replace(text, "drift")).expect("drift");
    };
    drift("first");

    // The member was given to somebody else meanwhile.
    let agent = Agent::start(&server.address, folder.path(), "token");
    let mut session = server.session().await;
    session.send(FromServer::Welcome { session: "s".into(), protocol: 1, epoch: 7, lease_ms: 1_000 }).await;
    session.members(Vec::new()).await;
    let looks = tokio::time::timeout(Duration::from_millis(1_500), appears(&root, "first"));
    assert!(looks.await.is_err(), "it writes nothing to a member that is not its own any more");
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_cut_off_before_its_first_order_has_those_of_the_disk() {
    let Delivered { folder, mut server, agent, session: _session, .. } = Delivered::start(15_000, None).await;
    let root = folder.path().join("root");
    agent.stop().await;
    let written = holding(&root, "first").expect("it is there");
    fs::write(&written, fs::read_to_string(&written).expect("text").replace("first", "drift")).expect("drift");
    let agent = Agent::start(&server.address, folder.path(), "token");
    let mut session = server.session().await;
    session.welcome(7, 15_000, None).await;
    drop(session);
    appears(&root, "first").await;
    agent.stop().await;
}
