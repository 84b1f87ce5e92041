//! A scripted agent against the real listener, over HTTP/2 on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::*;
use model::agent::AgentToken;
use model::id::{Digest, ObjectId, PlacementKey};
use model::work::{Desired, WorkOrder};
use system::clock::Uptime;
use wire::{
    AGENT_HEADER, Acked, AgentOrder, FetchObjects, FetchedObject, Frames, FromServer, Hello, OBJECTS_PATH, ORDERS_PATH,
    Protocols, REPORTS_PATH, Refused, Reports, SESSION_PATH, ToServer, pack, unpack,
};

mod sessions;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);
/// In the Secret of one member, and never with another agent.
const CANARY: &str = "canary-4711";

fn configuration(lease: &str) -> Configuration {
    let text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: /fleet}}\nagents: {{listen: '127.0.0.1:0', lease: {lease}}}\n"
    );
    Configuration::parse(&text, Path::new("/"), &BTreeMap::new()).expect("it is right")
}

fn tokens(names: &[&str]) -> AgentTokens {
    let token = |name: &&str| AgentToken {
        name: (*name).to_owned(),
        sha256: format!("{:x}", Sha256::digest(format!("token-{name}"))),
        pools: BTreeSet::from(["eu".to_owned()]),
        created_by: "ann".to_owned(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
    };
    names.iter().map(|name| ((*name).to_owned(), token(name))).collect()
}

fn server(lease: &str) -> Agents {
    server_of(lease, &leading())
}

fn server_of(lease: &str, fence: &Fence) -> Agents {
    let supervisor = Supervisor::without_pauses();
    let tokens = tokens(&["a", "b"]);
    Agents::start(&configuration(lease), &tokens, "fleet".into(), fence, &supervisor).expect("it listens")
}

/// The fence of a daemon that leads in epoch 7.
fn leading() -> Fence {
    let fence = Fence::of_lease(Duration::from_mins(1), system::fence::lease_clock());
    fence.open_until(7, Uptime::MAX);
    fence
}

fn order(cluster: &str, secret: &str) -> Arc<WorkOrder> {
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": {"x": secret}});
    let id = ObjectId::of(&object).expect("an id");
    let digest = Digest::new(format!("{:x}", Sha256::digest(object.to_string())));
    let desired = Desired { key: id.key().shared(), id, object: Arc::new(object), digest, wave: 0, encrypted: None };
    Arc::new(WorkOrder {
        placement: PlacementKey::namespaced("n", "p"),
        cluster: cluster.into(),
        manifests: [desired].into(),
        ..testkit::records::work_order()
    })
}

fn named(name: &str) -> AgentChoice {
    AgentChoice::Named(name.to_owned())
}

fn hello(instance: &str, pools: &[&str]) -> Hello {
    Hello {
        protocol: Protocols::default(),
        version: "test".to_owned(),
        instance: instance.to_owned(),
        pools: pools.iter().map(|pool| (*pool).to_owned()).collect(),
        epoch: 0,
        running: BTreeMap::new(),
    }
}

/// One connection of an agent.
struct Agent {
    name: &'static str,
    token: String,
    send: SendRequest<Body>,
    connection: JoinHandle<()>,
    stream: Option<Incoming>,
    frames: Frames,
    session: String,
    /// Every byte that came, decompressed.
    seen: String,
}

impl Agent {
    async fn connect(agents: &Agents, name: &'static str) -> Self {
        let stream = TcpStream::connect(agents.address().expect("it listens")).await.expect("a connection");
        let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        let connection = tokio::spawn(async move { drop(connection.await) });
        let token = format!("token-{name}");
        Self {
            name,
            token,
            send,
            connection,
            stream: None,
            frames: Frames::default(),
            session: String::new(),
            seen: String::new(),
        }
    }

    async fn request(&mut self, method: Method, path: &str, body: Vec<u8>) -> axum::http::Response<Incoming> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://localhost{path}"))
            .header(AGENT_HEADER, self.name)
            .header("authorization", format!("Bearer {}", self.token))
            .body(Body::from(body))
            .expect("a request");
        tokio::time::timeout(LIMIT, self.send.send_request(request)).await.expect("in time").expect("an answer")
    }

    /// Opens a session; the error is the answer that refuses it.
    async fn open(&mut self, hello: &Hello) -> Result<u64, (StatusCode, Refused)> {
        let answer = self.request(Method::POST, SESSION_PATH, pack(hello).expect("it packs")).await;
        if answer.status() != StatusCode::OK {
            let status = answer.status();
            let body = answer.into_body().collect().await.expect("a body").to_bytes();
            return Err((status, unpack(&body).expect("a refusal")));
        }
        self.stream = Some(answer.into_body());
        let Some(FromServer::Welcome { session, epoch, .. }) = self.frame().await else {
            unreachable!("the welcome comes first")
        };
        self.session = session;
        Ok(epoch)
    }

    /// Returns the next frame; `None` at the end of the stream.
    async fn frame(&mut self) -> Option<FromServer> {
        loop {
            if let Some(message) = self.frames.take::<FromServer>().expect("a frame") {
                self.seen += &serde_json::to_string(&message).expect("JSON");
                return Some(message);
            }
            let next = tokio::time::timeout(LIMIT, self.stream.as_mut()?.frame()).await.expect("in time");
            match next {
                Some(Ok(part)) => self.frames.push(part.data_ref()?),
                _ => return None,
            }
        }
    }

    /// Returns the members of the next list that has so many.
    async fn members(&mut self, count: usize) -> Vec<String> {
        loop {
            let message = self.frame().await.expect("the session lives");
            if let FromServer::Members { members, .. } = message
                && members.len() == count
            {
                return members.into_iter().map(|member| member.cluster.to_string()).collect();
            }
        }
    }

    async fn next_order(&mut self) -> Digest {
        loop {
            if let Some(FromServer::Order { digest, .. }) = self.frame().await {
                return digest;
            }
        }
    }

    async fn report(&mut self, seq: u64, events: Vec<ToServer>) -> Result<u64, StatusCode> {
        let reports = Reports { session: self.session.clone(), seq, events };
        let answer = self.request(Method::POST, REPORTS_PATH, pack(&reports).expect("it packs")).await;
        let status = answer.status();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        if status == StatusCode::OK { Ok(unpack::<Acked>(&body).expect("its form").acked) } else { Err(status) }
    }

    async fn get(&mut self, path: &str) -> (StatusCode, Vec<u8>) {
        let answer = self.request(Method::GET, path, Vec::new()).await;
        let status = answer.status();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        let json = wire::inflate(&body).expect("it is compressed");
        self.seen += &String::from_utf8_lossy(&json);
        (status, json)
    }

    async fn objects(&mut self, digests: Vec<Digest>) -> Vec<FetchedObject> {
        let answer = self.request(Method::POST, OBJECTS_PATH, pack(&FetchObjects { digests }).expect("it packs")).await;
        let mut frames = Frames::default();
        frames.push(&answer.into_body().collect().await.expect("a body").to_bytes());
        let found: Vec<FetchedObject> = std::iter::from_fn(|| frames.take().expect("a frame")).collect();
        self.seen += &serde_json::to_string(&found).expect("JSON");
        found
    }

    fn cut(self) {
        self.connection.abort();
    }
}

/// A member with what the core gets from it.
struct Of {
    remote: RemoteMember,
    events: mpsc::UnboundedReceiver<MemberEvent>,
}

fn member(agents: &Agents, name: &str, choice: &AgentChoice) -> Of {
    let (sender, events) = mpsc::unbounded_channel();
    let access = MemberAccess::Directory { path: format!("out/{name}").into() };
    Of { remote: RemoteMember::start(agents, &ClusterName::from(name), choice, &access, sender), events }
}

impl Of {
    async fn event(&mut self) -> MemberEvent {
        tokio::time::timeout(LIMIT, self.events.recv()).await.expect("in time").expect("it lives")
    }

    fn order(&self, order: &Arc<WorkOrder>) {
        self.remote.send(MemberCommand::Order { order: Arc::clone(order), reported: None });
    }

    async fn is_given(&mut self) {
        while !matches!(self.event().await, MemberEvent::Restarted { .. }) {}
    }

    async fn offline(&mut self) -> String {
        loop {
            if let MemberEvent::Offline { reason, .. } = self.event().await {
                return reason;
            }
        }
    }
}

fn offline_event(cluster: &str) -> ToServer {
    ToServer::Offline { cluster: cluster.into(), reason: "said by the agent".to_owned() }
}

#[tokio::test]
async fn an_agent_gets_its_own_orders_and_objects_and_nobody_elses() {
    let agents = server("15s");
    let (mut own, mut other) = (member(&agents, "m-a", &named("a")), member(&agents, "m-b", &named("b")));
    let (mut a, mut b) = (Agent::connect(&agents, "a").await, Agent::connect(&agents, "b").await);
    assert_eq!(a.open(&hello("1", &[])).await.expect("it is open"), 7);
    b.open(&hello("1", &[])).await.expect("it is open");
    own.is_given().await;
    other.is_given().await;
    let (mine, foreign) = (order("m-a", "mine"), order("m-b", CANARY));
    own.order(&mine);
    other.order(&foreign);
    let (digest, foreign_digest) = (a.next_order().await, b.next_order().await);
    let (status, json) = a.get(&format!("{ORDERS_PATH}{digest}")).await;
    assert_eq!(status, StatusCode::OK);
    let read = AgentOrder::decode(&digest, &json).expect("the form").expect("the digest");
    assert!(a.seen.contains("m-a") && !String::from_utf8_lossy(&json).contains("mine"), "objects are not in the order");
    let objects = [read.manifests[0].digest.clone(), foreign.manifests[0].digest.clone()];
    let found = a.objects(objects.to_vec()).await;
    assert_eq!(found.len(), 1, "the other member's object is left out");
    assert_eq!(found[0].object, mine.manifests[0].object);
    for path in
        [format!("{ORDERS_PATH}{foreign_digest}"), format!("{OBJECTS_PATH}/{}", objects[1]), "/agent/v1/x".to_owned()]
    {
        assert_eq!(a.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    // An order that is not current any more can no longer be fetched, nor can what it alone named.
    own.order(&order("m-a", "newer"));
    a.next_order().await;
    assert_eq!(a.get(&format!("{ORDERS_PATH}{digest}")).await.0, StatusCode::NOT_FOUND);
    assert!(a.objects(vec![objects[0].clone()]).await.is_empty());
    assert!(!a.seen.contains(CANARY), "{}", a.seen);
}

#[tokio::test]
async fn reports_count_once_and_about_own_members_only() {
    let agents = server("15s");
    let (mut own, mut other) = (member(&agents, "m-a", &named("a")), member(&agents, "m-b", &named("b")));
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &[])).await.expect("it is open");
    own.is_given().await;
    assert_eq!(a.report(1, vec![offline_event("m-a"), offline_event("m-b")]).await, Ok(1));
    assert_eq!(a.report(1, vec![offline_event("m-a")]).await, Ok(1), "it was seen");
    assert_eq!(a.report(2, vec![ToServer::Restarted { cluster: "m-a".into() }]).await, Ok(2));
    assert_eq!(own.offline().await, "said by the agent");
    assert!(matches!(own.event().await, MemberEvent::Restarted { .. }), "the duplicate had no effect");
    assert_eq!(other.offline().await, "no agent named b is connected");
    assert!(other.events.try_recv().is_err());
    assert_eq!(agents.hub.metrics.agent_refused.get(), 1);
    a.session = "another".to_owned();
    assert_eq!(a.report(3, Vec::new()).await, Err(StatusCode::GONE));
}

#[tokio::test]
async fn a_revoked_token_ends_the_session_at_once() {
    let agents = server("15s");
    let mut own = member(&agents, "m-a", &named("a"));
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &[])).await.expect("it is open");
    own.is_given().await;
    agents.set_tokens(&tokens(&["b"]));
    loop {
        match a.frame().await {
            Some(FromServer::Bye { reason }) => break assert_eq!(reason, "its token is invalid"),
            Some(_) => {}
            None => unreachable!("it says why"),
        }
    }
    assert!(a.frame().await.is_none(), "the stream ends");
    assert_eq!(own.offline().await, "agent a is not connected any more: its token is invalid");
    let mut again = Agent::connect(&agents, "a").await;
    assert_eq!(again.open(&hello("2", &[])).await.expect_err("revoked").0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn after_a_cut_all_orders_are_asked_for_again() {
    let agents = server("15s");
    let mut own = member(&agents, "m-a", &named("a"));
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &[])).await.expect("it is open");
    own.is_given().await;
    own.order(&order("m-a", "x"));
    let first = a.next_order().await;
    a.cut();
    assert_eq!(own.offline().await, "agent a is not connected any more: its connection ended");
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("2", &[])).await.expect("a new start");
    own.is_given().await;
    own.order(&order("m-a", "x"));
    assert_eq!(a.next_order().await, first, "an agent that has it fetches nothing");
}

#[tokio::test]
async fn a_member_of_a_pool_moves_after_the_lease_or_a_goodbye() {
    let agents = server("3s");
    let pool = AgentChoice::Pool { pool: "eu".to_owned() };
    let mut one = member(&agents, "m-1", &pool);
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &["eu"])).await.expect("it is open");
    let mut seq = 0;
    // Agents of an earlier leader may still write: nothing is given out before their lease has run out.
    let given = loop {
        tokio::select! {
            members = a.members(1) => break members,
            () = tokio::time::sleep(Duration::from_millis(500)) => {
                seq += 1;
                a.report(seq, Vec::new()).await.expect("a heartbeat");
            }
        }
    };
    assert_eq!(given, ["m-1"]);
    one.is_given().await;
    assert_eq!(agents.hub.read().registry.connected(), 1);
    let heard = Instant::now();
    a.report(seq + 1, Vec::new()).await.expect("the last heartbeat");
    a.cut();
    one.offline().await;
    let mut b = Agent::connect(&agents, "b").await;
    b.open(&hello("1", &["eu"])).await.expect("it is open");
    let mut seq = 0;
    loop {
        tokio::select! {
            members = b.members(1) => break assert_eq!(members, ["m-1"]),
            () = tokio::time::sleep(Duration::from_millis(500)) => {
                seq += 1;
                b.report(seq, Vec::new()).await.expect("a heartbeat");
            }
        }
    }
    assert!(heard.elapsed() >= Duration::from_secs(3), "the lease of the other had to run out");
    // A goodbye gives them up at once: nobody waits for a lease.
    b.report(seq + 1, vec![ToServer::Bye]).await.expect("it ends");
    let mut c = Agent::connect(&agents, "a").await;
    c.open(&hello("2", &["eu"])).await.expect("it is open");
    assert_eq!(c.members(1).await, ["m-1"]);
}

/// They stopped their members and forgot their orders, and the next daemon sent all of it again.
#[tokio::test]
async fn a_daemon_that_ends_takes_no_member_from_its_agents() {
    let agents = server("15s");
    let mut own = member(&agents, "m-a", &named("a"));
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &[])).await.expect("it is open");
    own.is_given().await;
    assert_eq!(a.members(1).await, ["m-a"]);
    agents.close();
    drop(own);
    assert_eq!(a.frame().await, Some(FromServer::Bye { reason: "the daemon ends".to_owned() }));
    assert_eq!(a.frame().await, None);
    let mut again = Agent::connect(&agents, "a").await;
    assert_eq!(again.open(&hello("1", &[])).await.expect_err("it ends").0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_daemon_whose_lease_is_over_answers_no_agent() {
    let fence = leading();
    let agents = server_of("60s", &fence);
    let mut a = Agent::connect(&agents, "a").await;
    assert_eq!(a.open(&hello("1", &[])).await.expect("it is open"), 7);
    assert_eq!(a.report(1, Vec::new()).await, Ok(1));
    // Another daemon leads, and gives the agent's members away when the last answered lease has run out.
    fence.close();
    assert_eq!(a.report(2, Vec::new()).await, Err(StatusCode::SERVICE_UNAVAILABLE));
    let mut again = Agent::connect(&agents, "a").await;
    let (status, refused) = again.open(&hello("1", &[])).await.expect_err("it is refused");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.message.contains(wire::NOT_LEADING), "{}", refused.message);
}

#[tokio::test]
async fn a_member_of_the_daemon_itself_waits_for_its_last_agent() {
    let agents = server("60s");
    let (events, _heard) = mpsc::unbounded_channel();
    let cluster = ClusterName::from("m-1");
    let remote = RemoteMember::start(&agents, &cluster, &named("a"), &MemberAccess::InCluster, events);
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &[])).await.expect("it is open");
    a.members(1).await;
    drop(remote);
    let mut parted = Box::pin(agents.parted(&cluster));
    assert!(futures::poll!(&mut parted).is_pending(), "the agent still delivers");
    a.members(0).await;
    a.report(1, vec![ToServer::Stopped { cluster: cluster.clone() }]).await.expect("it is taken");
    tokio::time::timeout(LIMIT, parted).await.expect("in time");
    tokio::time::timeout(LIMIT, agents.parted(&cluster)).await.expect("at once");
}

/// Moves of a member from its agent to the daemon, each with some that wait for it.
const MOVES: u64 = 50;
const WAITING: u32 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_an_agent_while_it_stops_a_member_begins_after_it_and_is_not_forgotten() {
    let agents = Arc::new(server("60s"));
    let cluster = ClusterName::from("m-1");
    let mut a = Agent::connect(&agents, "a").await;
    a.open(&hello("1", &[])).await.expect("it is open");
    for round in 1..=MOVES {
        let moved = member(&agents, "m-1", &named("a"));
        a.members(1).await;
        drop(moved);
        a.members(0).await;
        let has_stopped = Arc::new(AtomicBool::new(false));
        // Each begins to wait a little later: before, in and after the moment in which the report is taken.
        let waiting: Vec<_> = (0..WAITING)
            .map(|turn| {
                let (agents, cluster) = (Arc::clone(&agents), cluster.clone());
                let has_stopped = Arc::clone(&has_stopped);
                tokio::spawn(async move {
                    for _ in 0..turn * turn {
                        tokio::task::yield_now().await;
                    }
                    agents.parted(&cluster).await;
                    has_stopped.load(Ordering::SeqCst)
                })
            })
            .collect();
        // The first of them wait already.
        for _ in 0..WAITING {
            tokio::task::yield_now().await;
        }
        has_stopped.store(true, Ordering::SeqCst);
        a.report(round, vec![ToServer::Stopped { cluster: cluster.clone() }]).await.expect("it is taken");
        for waits in waiting {
            let came_after = tokio::time::timeout(LIMIT, waits).await.expect("it notices").expect("no panic");
            assert!(came_after, "round {round}: nobody begins while the agent has the member");
        }
    }
}
