//! Two daemons behind their fronts: one leads, the other passes on.

use std::net::SocketAddr;

use axum::routing::{get, post};
use http_body_util::BodyExt as _;
use tokio::net::TcpListener;

use super::*;

fn holder(id: &str, url: &str) -> Holder {
    Holder { id: id.to_owned(), url: url.to_owned() }
}

fn front(own: Holder, role: Role) -> (Front, watch::Sender<Role>) {
    let (parts, role) = parts(own, role);
    (Front::new(parts), role)
}

fn parts(own: Holder, role: Role) -> (FrontParts, watch::Sender<Role>) {
    let (sender, role) = watch::channel(role);
    let parts = FrontParts {
        own,
        role,
        metrics: Arc::new(Metrics::new()),
        health: Arc::default(),
        access: Access { read_needs_token: false, on_loopback: true, hosts: Arc::default() },
        readers: Vec::new(),
        base: "/fleet".to_owned(),
        leader_wait: LEADER_WAIT,
    };
    (parts, sender)
}

/// Says what reached it.
fn inner() -> LeaderRouters {
    let echo = async |request: Request| {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0.to_string()).unwrap_or_default();
        let head = format!(
            "{} {} host={} passed_on={} peer={peer}",
            request.method(),
            request.uri(),
            request.headers()["host"].to_str().unwrap_or_default(),
            request.headers().contains_key(PASSED_ON),
        );
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        format!("{head} body={}", String::from_utf8_lossy(&body))
    };
    let main = Router::new().route("/echo", get(echo).post(echo));
    LeaderRouters { main, webhooks: Router::new().route("/hook", post(async || "webhook")) }
}

async fn leader() -> (Front, watch::Sender<Role>, Holder) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let own = holder("0123", &format!("http://{address}"));
    let (front, role) = front(own.clone(), Role::Leading { epoch: 3 });
    front.lead(inner());
    tokio::spawn(super::super::serve(listener, front.router(), Arc::new(Metrics::new())));
    (front, role, own)
}

fn following(leader: &Holder) -> Role {
    Role::Follower { leader: Some(Leader { holder: leader.clone(), epoch: 3 }), is_answered: true }
}

async fn ask(front: &Front, request: Request) -> (u16, String) {
    let response = front.router().oneshot(request).await.expect("a router always answers");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

fn request(path: &str) -> Request {
    Request::get(path)
        .header("host", "fleet.example")
        .header("connection", "x-hop")
        .header("x-hop", "1")
        .extension(Peer([192, 0, 2, 7].into()))
        .body(Body::empty())
        .expect("a request")
}

#[tokio::test]
async fn a_follower_passes_a_request_on_as_it_is_with_the_address_of_its_client() {
    let (_leader, _role, own) = leader().await;
    let (follower, _following) = front(holder("4567", "http://127.0.0.1:1"), following(&own));
    let wanted = "GET /echo?a=b host=fleet.example passed_on=false peer=192.0.2.7 body=";
    assert_eq!(ask(&follower, request("/echo?a=b")).await, (200, wanted.to_owned()));
    let mut posted = request("/echo");
    *posted.method_mut() = axum::http::Method::POST;
    *posted.body_mut() = Body::from("approve");
    let (status, text) = ask(&follower, posted).await;
    assert!(status == 200 && text.ends_with("body=approve"), "{status} {text}");
    assert_eq!(ask(&follower, request("/no-such-path")).await.0, 404, "the leader's answer is passed back");
}

#[tokio::test]
async fn a_request_is_passed_on_once() {
    let (a, _a_role) = front(holder("a", "http://127.0.0.1:1"), following(&holder("b", "http://127.0.0.1:2")));
    let mut passed_on = request("/echo");
    passed_on.headers_mut().insert(PASSED_ON, HeaderValue::from_static("192.0.2.7 00"));
    let (status, text) = ask(&a, passed_on).await;
    assert_eq!((status, text.as_str()), (503, "this daemon does not lead: follows http://127.0.0.1:2 (epoch 3)"));
}

/// Whoever says to be a proxy's client must not be believed: the address decides whose header counts.
#[tokio::test]
async fn nobody_else_says_where_a_request_comes_from() {
    let (leader, _role, own) = leader().await;
    let (stranger, _following) =
        front(holder("4567", ""), following(&Holder { id: "guessed".to_owned(), ..own.clone() }));
    let (status, text) = ask(&stranger, request("/echo")).await;
    assert!(status == 503 && text.contains("does not know this leader"), "{status} {text}");
    for forged in ["192.0.2.7", "192.0.2.7 00", "192.0.2.7 é", "x y"] {
        let mut passed_on = request("/echo");
        passed_on.headers_mut().insert(PASSED_ON, HeaderValue::from_bytes(forged.as_bytes()).expect("a value"));
        assert_eq!(ask(&leader, passed_on).await.0, 503, "{forged}");
    }
}

#[tokio::test]
async fn health_and_metrics_are_each_daemons_own() {
    let (follower, _role) = front(holder("a", ""), following(&holder("b", "http://127.0.0.1:1")));
    assert_eq!(ask(&follower, request("/healthz")).await, (200, "ok".to_owned()));
    let wanted = (200, "follows http://127.0.0.1:1 (epoch 3)".to_owned());
    assert_eq!(ask(&follower, request("/readyz")).await, wanted);
    assert_eq!(ask(&follower, request("/fleet/readyz")).await, wanted);
    assert!(ask(&follower, request("/metrics")).await.1.contains("gitfleet_build_info"));
    let (alone, _role) = front(holder("a", ""), Role::Follower { leader: None, is_answered: false });
    assert_eq!(ask(&alone, request("/readyz")).await, (503, "the database does not answer".to_owned()));
}

#[tokio::test]
async fn a_request_waits_for_a_leader_and_not_for_ever() {
    let (daemon, role) = front(holder("a", ""), Role::Follower { leader: None, is_answered: true });
    let mut asked = Box::pin(ask(&daemon, request("/echo")));
    assert!(futures::poll!(&mut asked).is_pending());
    role.send_replace(Role::Leading { epoch: 1 });
    assert!(futures::poll!(&mut asked).is_pending(), "it does not answer yet");
    daemon.lead(inner());
    assert_eq!(asked.await.0, 200);
    let (mut parts, _role) = parts(holder("a", ""), Role::Follower { leader: None, is_answered: true });
    parts.leader_wait = Duration::ZERO;
    let (status, text) = ask(&Front::new(parts), request("/echo")).await;
    assert_eq!((status, text.as_str()), (503, "this daemon does not lead: no daemon leads yet"));
}

#[tokio::test]
async fn a_leader_that_does_not_answer_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = holder("b", &format!("http://{}", listener.local_addr().expect("an address")));
    drop(listener);
    let (follower, _role) = front(holder("a", ""), following(&gone));
    let (status, text) = ask(&follower, request("/echo")).await;
    let wanted =
        format!("the leader at {} does not answer; another daemon leads when its lease ends: try again", gone.url);
    assert_eq!((status, text), (503, wanted));
}

#[tokio::test]
async fn a_request_to_a_leader_that_was_replaced_ends() {
    // It accepts, and never answers, like a process that was stopped.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let stopped = holder("b", &format!("http://{}", listener.local_addr().expect("an address")));
    let (follower, role) = front(holder("a", ""), following(&stopped));
    let asked = tokio::spawn(async move { ask(&follower, request("/echo")).await });
    let accepted = listener.accept().await.expect("a connection");
    role.send_replace(Role::Leading { epoch: 4 });
    let (status, text) = asked.await.expect("it answers");
    assert!(status == 503 && text.contains("is not known"), "{status} {text}");
    drop(accepted);
}
