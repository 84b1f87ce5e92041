//! Notifications of a running daemon: a receiver on this machine that checks signatures, refuses, and is told again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::notification::NotificationKind;
use serde_json::{Value, json};

use crate::cli::scratch::{CONFIG, Scratch};
use crate::cli::staged::{LIMIT, ONCE, fleet};

/// A part of the address that no log may have.
const TOKEN: &str = "t0ken-of-the-address";
const SECRET: &str = "a secret that only the receiver knows";

/// A request as it came.
struct Told {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Told {
    /// Checks the signature over what came; returns the event.
    fn event(&self) -> Value {
        let [id, timestamp, signature] =
            ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| self.headers[name].as_str());
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let mac = hmac::sign(&key, format!("{id}.{timestamp}.{}", self.body).as_bytes());
        assert_eq!(signature, format!("v1,{}", STANDARD.encode(mac)));
        assert_eq!(self.headers["content-type"], "application/cloudevents+json; charset=utf-8");
        let event: Value = serde_json::from_str(&self.body).expect("it is JSON");
        assert_eq!((&event["id"], &event["specversion"]), (&json!(id), &json!("1.0")));
        event
    }
}

/// Answers every request with the same code, until another is set.
struct Server {
    address: String,
    code: Arc<AtomicU16>,
    told: mpsc::Receiver<Told>,
}

impl Server {
    fn start(code: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/{TOKEN}", listener.local_addr().unwrap());
        let (code, (sender, told)) = (Arc::new(AtomicU16::new(code)), mpsc::channel());
        let answered = Arc::clone(&code);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                let pair =
                    |line: String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
                let headers: BTreeMap<String, String> = lines.filter_map(pair).collect();
                // A daemon that is killed while it sends leaves no length.
                let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
                let mut body = vec![0; length];
                if reader.read_exact(&mut body).is_err() {
                    continue;
                }
                let _ = sender.send(Told { headers, body: String::from_utf8(body).unwrap() });
                let code = answered.load(Ordering::SeqCst);
                let _ = write!(stream, "HTTP/1.1 {code} -\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Self { address, code, told }
    }

    fn next(&self) -> Told {
        self.told.recv_timeout(LIMIT).expect("a notification comes in time")
    }
}

/// A daemon that is killed when dropped.
struct Daemon {
    child: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    fn start(scratch: &Scratch) -> Self {
        let mut command = scratch.command(&["run", "-c", CONFIG, "--log-format", "json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let (log, (found, address)) = (Arc::new(Mutex::new(String::new())), mpsc::channel());
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap_or_default();
                if message["message"] == "listening" {
                    let _ = found.send(message["address"].as_str().unwrap_or_default().to_owned());
                }
                written.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, address: address.recv_timeout(LIMIT).expect("it listens"), log }
    }

    fn kill(mut self) -> String {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn with_receiver(scratch: &Scratch, receiver: &str) {
    let text = fs::read_to_string(scratch.path(CONFIG)).unwrap();
    fs::write(scratch.path(CONFIG), format!("{text}notify:\n- {{{receiver}}}\n")).unwrap();
}

#[test]
fn what_a_receiver_did_not_take_is_told_again_after_a_kill() {
    let (scratch, server) = (fleet(), Server::start(500));
    fs::write(scratch.path("secret"), format!("{SECRET}\n")).unwrap();
    fs::write(scratch.path("address"), &server.address).unwrap();
    with_receiver(&scratch, "name: ops, urlFile: ./address, secretFile: ./secret");
    let daemon = Daemon::start(&scratch);
    let first = server.next();
    let gate = first.event();
    assert_eq!(gate["type"], NotificationKind::GateWaiting.event_type());
    let data = &gate["data"];
    assert_eq!((&data["run"], &data["stage"], &data["snapshot"]), (&json!("web-0"), &json!("staging"), &json!(0)));
    let command = data["command"].as_str().expect("a command");
    assert!(command.starts_with("gitfleet approve crp/web staging --digest "), "{command}");
    assert_eq!(gate["subject"], json!("web"));
    assert!(data["digest"].as_str().is_some_and(|digest| digest.len() == 64), "{gate}");
    assert!(data["commit"].as_str().is_some_and(|commit| commit.len() == 40), "{gate}");
    // It is told again while it refuses.
    assert_eq!(server.next().event()["id"], gate["id"]);
    let log = daemon.kill();
    assert!(log.contains("a notification was not taken") && log.contains("500"), "{log}");
    assert!(!log.contains(TOKEN) && !log.contains(SECRET), "{log}");
    while server.told.try_recv().is_ok() {}

    server.code.store(204, Ordering::SeqCst);
    let daemon = Daemon::start(&scratch);
    let again = server.next();
    assert_eq!((again.event(), &again.body), (gate.clone(), &first.body), "the same event, signed for its own time");
    scratch.run(&["approve", "web-0", "staging", "--server", &daemon.address, "-c", CONFIG]).text(0);
    let done = server.next().event();
    assert_eq!(done["type"], NotificationKind::RolloutDone.event_type());
    assert_eq!(done["data"]["commit"], data["commit"]);
    scratch.write("clusters.yaml", "kind: MemberCluster\n");
    let commit = scratch.commit("broken");
    let refused = server.next().event();
    assert_eq!(refused["type"], NotificationKind::CommitRefused.event_type());
    assert_eq!((&refused["subject"], &refused["data"]["errors"]), (&json!(commit), &json!(1)), "{refused}");
    assert!(refused["data"]["message"].as_str().is_some_and(|text| text.contains("clusters.yaml:1")), "{refused}");
    daemon.kill();
    let daemon = Daemon::start(&scratch);
    scratch.write("clusters.yaml", "apiVersion: v1\n");
    let commit = scratch.commit("broken in another way");
    // The kill may have come before the store knew that the receiver took it: then it comes again, with its id.
    let next = std::iter::repeat_with(|| server.next().event()).find(|event| event["id"] != refused["id"]);
    assert_eq!(next.unwrap()["data"]["commit"], json!(commit), "what refuses a commit again tells nothing new");
    daemon.kill();
}

#[test]
fn a_single_pass_tells_before_it_ends() {
    let (scratch, server) = (fleet(), Server::start(200));
    with_receiver(&scratch, &format!("name: chat, url: '{}', template: plain", server.address));
    assert_eq!(scratch.run(&ONCE).code, 3, "a gate waits for a person");
    let told = server.next();
    assert_eq!(told.headers["content-type"], "text/plain; charset=utf-8");
    assert!(told.body.starts_with("web waits for an approval: snapshot 0 (commit "), "{}", told.body);
    assert!(told.body.contains("\ngitfleet approve crp/web staging --digest "), "{}", told.body);
    assert!(!told.headers.contains_key("webhook-signature"));
}

#[test]
fn a_receiver_that_cannot_be_used_is_said_at_the_start() {
    let scratch = fleet();
    fs::write(scratch.path("secret"), "short\n").unwrap();
    with_receiver(&scratch, &format!("name: ops, url: 'https://events.example/{TOKEN}', secretFile: ./secret"));
    let found = scratch.run(&ONCE);
    assert_eq!(found.code, 2, "{}", found.err);
    assert!(found.err.contains("the receiver ops of `notify` cannot be used"), "{}", found.err);
    assert!(found.err.contains("the secret is shorter than 24 bytes") && !found.err.contains(TOKEN), "{}", found.err);
}
