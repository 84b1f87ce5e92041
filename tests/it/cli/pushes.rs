//! What machines push about clusters: who may, what is refused, what follows from it, and that it ends.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use system::clock;

use crate::cli::daemon::Daemon;
use crate::cli::edges::until;
use crate::cli::ocm::object;
use crate::cli::scratch::{CONFIG, Scratch, namespace, placement};

/// The token of whoever pushes.
const PUSHER: &str = "fedcba9876543210";

/// Two clusters; a Placement takes the one with the better score, and a placement the cheap ones.
fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    let config = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let listen = "listen: \"127.0.0.1:0\"";
    let with_pusher = format!("{listen}, pushTokens: [{{name: costs, tokenFile: ./push}}]");
    fs::write(scratch.path(CONFIG), config.replace(listen, &with_pusher)).expect("a file");
    fs::write(scratch.path("push"), PUSHER).expect("a file");
    let by_score =
        json!([{"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "green", "scoreName": "power"}}}]);
    let spec = json!({"numberOfClusters": 1, "prioritizerPolicy": {"mode": "Exact", "configurations": by_score}});
    let objects = [
        object("ManagedCluster", "v1", "", "east", json!({"spec": {"hubAcceptsClient": true}})),
        object("ManagedCluster", "v1", "", "west", json!({"spec": {"hubAcceptsClient": true}})),
        object("ManagedClusterSetBinding", "v1beta2", "ns1", "global", json!({"spec": {"clusterSet": "global"}})),
        object("Placement", "v1beta1", "ns1", "demo", json!({"spec": spec})),
    ];
    scratch.write("ocm.yaml", &objects.map(|object| format!("---\n{object}\n")).concat());
    let cheap = "  policy:\n    placementType: PickAll\n    affinity:\n      clusterAffinity:\n        \
        requiredDuringSchedulingIgnoredDuringExecution:\n          clusterSelectorTerms:\n            - propertySelector:\n                \
        matchExpressions: [{name: example.com/cost, operator: Lt, values: ['2']}]\n";
    scratch.write("web.yaml", &[namespace("web", &[("a", "1")]), placement("web", "web", cheap)].concat());
    scratch.commit("first");
    scratch
}

fn put(address: &str, token: Option<&str>, path: &str, body: &str) -> (u16, Value) {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(address).expect("the daemon listens");
    write!(stream, "PUT /api/v1/clusters/{path} HTTP/1.0\r\n{token}Content-Length: {}\r\n\r\n{body}", body.len())
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn cost(cost: &str, end: Option<Timestamp>) -> String {
    json!({"properties": {"example.com/cost": cost}, "validUntil": end}).to_string()
}

fn power(value: i32, end: Option<Timestamp>) -> String {
    json!({"scores": [{"resourceName": "green", "scoreName": "power", "value": value}], "validUntil": end}).to_string()
}

/// How a running daemon is asked, or what it left.
type Source<'a> = [&'a str; 2];

const LEFT: Source<'static> = ["-c", CONFIG];

/// Tells whether the Placement has a cluster.
fn has(scratch: &Scratch, source: Source<'_>, cluster: &str) -> bool {
    let found = scratch.run(&[&["get", "placementdecisions", "-o", "json"], &source[..]].concat());
    found.out.contains(&format!("\"clusterName\": \"{cluster}\""))
}

fn cluster(scratch: &Scratch, source: Source<'_>, name: &str) -> Value {
    let shown = scratch.run(&[&["get", "clusters", name, "-o", "json"], &source[..]].concat()).json(0);
    shown.pointer("/items/0").cloned().unwrap_or(shown)["status"].clone()
}

#[test]
fn what_is_pushed_decides_survives_a_restart_and_ends() {
    let scratch = fleet();
    let push = |address: &str, path: &str, body: &str| {
        assert_eq!(put(address, Some(PUSHER), path, body), (204, Value::Null), "{path}");
    };
    let config = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let daemon = Daemon::start(&scratch);
    let asked = ["--server", daemon.address.as_str()];
    until("the first by name is picked", || has(&scratch, asked, "east"));
    push(&daemon.address, "west/scores", &power(90, None));
    until("the better score is picked", || has(&scratch, asked, "west") && !has(&scratch, asked, "east"));
    assert_eq!(scratch.member("east"), Vec::<String>::new());
    push(&daemon.address, "east/properties", &cost("1.5", None));
    until("the cheap one gets it", || !scratch.member("east").is_empty());
    assert_eq!(scratch.member("west"), Vec::<String>::new());
    drop(daemon);
    let score = json!([{"resourceName": "green", "scoreName": "power", "value": 90, "pushedBy": "costs"}]);
    assert_eq!(cluster(&scratch, LEFT, "west")["addOnScores"], score);
    assert_eq!(cluster(&scratch, LEFT, "east")["properties"]["example.com/cost"]["value"], "1.5");
    let described = scratch.run(&["describe", "cluster", "east", LEFT[0], LEFT[1]]);
    let property = "  Pushed Properties:\n    - Name:  example.com/cost\n      Pushed By:  costs\n      Value:  1.5\n";
    assert!(described.text(0).contains(property), "{}", described.out);
    // The start of a daemon adds to it.
    fs::write(scratch.path(CONFIG), config).expect("a file");
    let daemon = Daemon::start(&scratch);
    let asked = ["--server", daemon.address.as_str()];
    until("the fleet is known", || has(&scratch, asked, "west"));
    let soon = || Some(clock::wall() + SignedDuration::from_secs(3));
    push(&daemon.address, "west/properties", &cost("9", soon()));
    let seen = |status: &Value| status.pointer("/properties/example.com~1cost").is_some();
    assert!(seen(&cluster(&scratch, asked, "west")));
    let described = scratch.run(&["describe", "cluster", "west", asked[0], asked[1]]);
    assert!(described.text(0).contains("      Valid Until:  "), "{}", described.out);
    push(&daemon.address, "west/scores", &power(80, soon()));
    until("the score has expired", || has(&scratch, asked, "east"));
    until("the property has ended", || !seen(&cluster(&scratch, asked, "west")));
    let events = scratch.run(&["describe", "ocmplacements", "ns1/demo", asked[0], asked[1]]);
    assert!(events.text(0).contains("AddOnPlacementScores west/green expired"), "{}", events.out);
}

#[test]
fn who_may_push_and_what_is_refused() {
    let scratch = fleet();
    let daemon = Daemon::start(&scratch);
    let asked = ["--server", daemon.address.as_str()];
    until("the fleet is known", || has(&scratch, asked, "east"));
    let person = fs::read_to_string(scratch.path("store/token")).expect("the daemon left a token");
    let good = power(1, None);
    let large = format!("{{\"scores\": [], \"x\": \"{}\"}}", "x".repeat(70_000));
    let past = cost("1", Some(Timestamp::UNIX_EPOCH));
    for (token, path, body, status, words) in [
        (None, "east/scores", good.as_str(), 401, "a bearer token is needed"),
        (Some(crate::cli::daemon::TOKEN), "east/scores", &good, 403, "the token is not known"),
        (Some(person.trim()), "east/scores", &good, 403, "the token is not known"),
        (Some(PUSHER), "nowhere/scores", &good, 404, "the fleet has no cluster nowhere"),
        (Some(PUSHER), "east/scores", "{}", 400, "missing field `scores`"),
        (Some(PUSHER), "east/properties", &good, 400, "unknown field"),
        (Some(PUSHER), "east/scores", &power(101, None), 422, "not from -100 to 100"),
        (Some(PUSHER), "east/properties", &cost("much", None), 422, "no quantity"),
        (Some(PUSHER), "east/properties", &past, 422, "is over"),
        (Some(PUSHER), "east/scores", &large, 413, "65536 bytes"),
    ] {
        let (found, answer) = put(&daemon.address, token, path, body);
        assert_eq!(found, status, "{path} {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(words), "{path} {answer}");
    }
    assert_eq!(cluster(&scratch, asked, "east")["addOnScores"], Value::Null, "nothing of it was taken");
}
