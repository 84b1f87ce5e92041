//! Tokens and secrets of a running daemon that are replaced in their files.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use model::text::hexadecimal;

use crate::cli::edges::{Daemon, RUN, reconfigure, until};
use crate::cli::page::post;
use crate::cli::scratch::{CONFIG, Scratch};

/// The files of the API's tokens, each with a request that its owner may make.
const REQUESTS: [(&str, &str); 4] = [
    ("ops", "GET /api/v1/backup"),
    ("prometheus", "GET /metrics"),
    ("plugin", "POST /api/v1/getparams.execute"),
    ("costs", "PUT /api/v1/clusters/east/properties"),
];

/// A git host that fails at everything; returns its address, and the tokens that it was sent.
fn failing_host() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let tokens: Arc<Mutex<Vec<String>>> = Arc::default();
    let sent = Arc::clone(&tokens);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let reader = BufReader::new(stream.try_clone().expect("a handle"));
            for line in reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                if let Some(token) = line.to_ascii_lowercase().strip_prefix("authorization: bearer ") {
                    sent.lock().expect("nobody failed").push(token.to_owned());
                }
            }
            let _ = write!(stream, "HTTP/1.1 500 -\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (address, tokens)
}

fn status(daemon: &Daemon, request: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(&daemon.address).expect("it listens");
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n{headers}\r\n{{}}"
    )
    .expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// Tells whether the daemon knows a token that is sent with a request.
fn is_known(daemon: &Daemon, request: &str, token: &str) -> bool {
    !matches!(status(daemon, request, &format!("Authorization: Bearer {token}\r\n")), 401 | 403)
}

/// Tells whether the daemon takes a delivery that is signed with a secret.
fn is_taken(daemon: &Daemon, secret: &str) -> bool {
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), b"{}");
    let signature = hexadecimal(mac.as_ref());
    let headers =
        format!("Content-Type: application/json\r\nX-Gitea-Event: fork\r\nX-Gitea-Signature: {signature}\r\n");
    status(daemon, "POST /webhooks/gitea", &headers) == 202
}

/// A fleet whose daemon has every kind of secret, `old-FILE` in each file.
fn with_secrets(host: &str) -> Scratch {
    let scratch = Scratch::with_web();
    for file in ["ops", "prometheus", "plugin", "costs", "host", "hook"] {
        fs::write(scratch.path(file), format!("old-{file}\n")).expect("a file");
    }
    let listen = "listen: \"127.0.0.1:0\"";
    let tokens = "read: token, tokens: [{name: ops, tokenFile: ./ops}], readTokens: [{name: prometheus, tokenFile: ./prometheus}], \
                  pushTokens: [{name: costs, tokenFile: ./costs}]";
    reconfigure(&scratch, listen, &format!("{listen}, {tokens}"));
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let more = format!(
        "decisions: {{tokenFile: ./plugin}}\nforge: {{type: gitea, url: '{host}', repository: platform/fleet, allowInsecureHttp: true, \
         tokenFile: ./host, webhookSecretFile: ./hook}}\n"
    );
    fs::write(scratch.path(CONFIG), text + &more).expect("a file");
    scratch
}

#[test]
fn another_secret_is_used_without_a_restart_and_the_one_before_no_more() {
    let (host, sent) = failing_host();
    let scratch = with_secrets(&host);
    let daemon = Daemon::start(scratch.command(&RUN));
    let replace = |file: &str, content: &str| fs::write(scratch.path(file), content).expect("a file");
    let (_, head, _) = post(&daemon, "/sign-in", "", "token=old-ops&to=%2F");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next()).expect("a session");
    let visit = || daemon.get("/", &format!("Host: localhost\r\nCookie: {cookie}\r\n")).map(|(status, _)| status);
    assert_eq!(visit(), Some(200));
    until("the host is asked", || !sent.lock().expect("nobody failed").is_empty());

    for (file, request) in REQUESTS {
        assert!(is_known(&daemon, request, &format!("old-{file}")), "{file}");
        replace(file, &format!("new-{file}\n"));
        until(file, || is_known(&daemon, request, &format!("new-{file}")));
        assert!(!is_known(&daemon, request, &format!("old-{file}")), "{file}");
    }
    assert_eq!(visit(), Some(303), "a session ends with the token that opened it");
    assert!(is_taken(&daemon, "old-hook"));
    replace("hook", "new-hook\n");
    until("the new secret of webhooks is used", || is_taken(&daemon, "new-hook"));
    assert!(!is_taken(&daemon, "old-hook"));
    replace("host", "new-host\n");
    until("the new token of the host is used", || {
        sent.lock().expect("nobody failed").last().is_some_and(|token| token == "new-host")
    });

    let refused = "a secret stays as it was";
    replace("ops", "");
    until(refused, || daemon.log().contains(refused));
    replace("costs", "newer-costs\n");
    until("the folder was read again", || is_known(&daemon, REQUESTS[3].1, "newer-costs"));
    assert!(is_known(&daemon, REQUESTS[0].1, "new-ops"), "an empty file changes nothing");
    let log = daemon.log();
    // A file that is written over is empty for an instant: of `costs` that may be seen, too.
    let of_ops = |line: &&str| line.contains(refused) && line.contains("the token ops of the API");
    assert_eq!(log.lines().filter(of_ops).count(), 1, "{log}");
    assert!(
        log.contains("ops is empty") && !["old-", "new-", "newer-"].iter().any(|secret| log.contains(secret)),
        "{log}"
    );
}
