//! A source that is read as a GitHub App, at a server that answers like GitHub.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;

use super::*;

/// Answers one request, and tells with which password git came.
fn answer(stream: &mut TcpStream, tokens: &mut impl Iterator<Item = &'static str>, logins: &Sender<Option<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let Some(first) = lines.next() else { return };
    let headers: Vec<String> = lines.collect();
    let route = first.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match route {
        "/api/v3/repos/platform/fleet/installation" => ("200 OK", r#"{"id": 31, "account": null}"#.to_owned()),
        "/api/v3/app/installations/31/access_tokens" => match tokens.next() {
            // It is over already: each fetch needs another.
            Some(token) => (
                "201 Created",
                format!(r#"{{"token": "{token}", "expires_at": "2001-01-01T00:00:00Z", "permissions": {{}}}}"#),
            ),
            None => ("401 Unauthorized", r#"{"message": "suspended"}"#.to_owned()),
        },
        _ => {
            let login = headers.iter().filter_map(|line| Some(line.split_once("Basic ")?.1.to_owned())).next_back();
            logins.send(login).unwrap_or_default();
            ("503 Service Unavailable", String::new())
        }
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
}

/// Follows `platform/fleet` as an App that gets these tokens, and none after them.
fn followed(
    dir: &TempDir,
    tokens: &'static [&'static str],
) -> (Followed, mpsc::Receiver<SourceEvent>, Receiver<Option<String>>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap().serialize_pem();
    fs::write(dir.path().join("app.pem"), key).unwrap();
    let text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: 'http://{}/platform/fleet.git', \
         allowInsecureHttp: true, app: {{id: 5, privateKeyFile: ./app.pem}}, pollInterval: 1h}}\n",
        server.local_addr().unwrap()
    );
    let (asked, logins) = channel();
    // The thread ends with the test: nobody connects any more.
    std::thread::spawn(move || {
        let mut tokens = tokens.iter().copied();
        for stream in server.incoming() {
            answer(&mut stream.unwrap(), &mut tokens, &asked);
        }
    });
    let configuration = Configuration::parse(&text, dir.path(), &BTreeMap::new()).unwrap();
    let settings = PollerSettings::of(&configuration).unwrap();
    let (sender, news) = mpsc::channel(1_024);
    (follow(settings, &dir.path().join("state"), sender, &Supervisor::without_pauses()).unwrap(), news, logins)
}

#[test]
fn each_fetch_has_a_token_that_is_valid() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let (followed, _news, logins) = followed(&dir, &["one", "two"]);
    // "x-access-token:one", and "x-access-token:two".
    for login in ["eC1hY2Nlc3MtdG9rZW46b25l", "eC1hY2Nlc3MtdG9rZW46dHdv"] {
        while logins.recv_timeout(PATIENCE).unwrap().as_deref() != Some(login) {}
        followed.requests.send(SourceRequest::Poll).unwrap();
    }
    // GitHub gives none any more: the last one is tried.
    followed.requests.send(SourceRequest::Poll).unwrap();
    assert_eq!(logins.recv_timeout(PATIENCE).unwrap().as_deref(), Some("eC1hY2Nlc3MtdG9rZW46dHdv"));
}

#[test]
fn without_a_token_nothing_is_fetched() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let (_followed, mut news, logins) = followed(&dir, &[]);
    let failure = loop {
        if let SourceEvent::Failed(reason) = news.blocking_recv().unwrap() {
            break reason;
        }
    };
    assert!(failure.starts_with("cannot get a token to read http://127.0.0.1:"), "{failure}");
    assert!(failure.contains("the GitHub App"), "{failure}");
    assert!(logins.try_recv().is_err(), "git was not asked");
}
