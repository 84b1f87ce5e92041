//! A source behind a server that answers no request as it should.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use super::*;

/// Follows a source that answers every request with 503, with the token in the file `token`. Returns also what it is asked with.
fn refused(dir: &TempDir, poll_interval: &str) -> (Followed, mpsc::Receiver<SourceEvent>, Receiver<Option<String>>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: 'http://{}/fleet.git', \
         allowInsecureHttp: true, tokenFile: {}, pollInterval: {poll_interval}}}\n",
        server.local_addr().unwrap(),
        dir.path().join("token").display()
    );
    let (asked, logins) = channel();
    // The thread ends with the test: nobody connects any more.
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let login = lines.filter_map(|line| Some(line.split_once("Basic ")?.1.to_owned())).last();
            write!(stream, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
            asked.send(login).unwrap_or_default();
        }
    });
    let configuration = Configuration::parse(&text, dir.path(), &BTreeMap::new()).unwrap();
    let settings = PollerSettings::of(&configuration).unwrap();
    let (sender, news) = mpsc::channel(1_024);
    (follow(settings, &dir.path().join("state"), sender, &Supervisor::without_pauses()).unwrap(), news, logins)
}

#[test]
fn a_token_that_changed_is_sent_with_the_next_poll() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    fs::write(&file, "one\n").unwrap();
    let (followed, _news, logins) = refused(&dir, "1h");
    // "x-access-token:one", and "x-access-token:two".
    for (token, login) in [("one", "eC1hY2Nlc3MtdG9rZW46b25l"), ("two", "eC1hY2Nlc3MtdG9rZW46dHdv")] {
        fs::write(&file, token).unwrap();
        followed.requests.send(SourceRequest::Poll).unwrap();
        while logins.recv_timeout(PATIENCE).unwrap().as_deref() != Some(login) {}
    }
    // What cannot be read changes nothing.
    fs::remove_file(&file).unwrap();
    while logins.try_recv().is_ok() {}
    followed.requests.send(SourceRequest::Poll).unwrap();
    assert_eq!(logins.recv_timeout(PATIENCE).unwrap().as_deref(), Some("eC1hY2Nlc3MtdG9rZW46dHdv"));
}

#[test]
fn a_source_that_failed_is_polled_again_whoever_asks_for_something_else_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("token"), "one").unwrap();
    let (followed, _news, logins) = refused(&dir, "1s");
    logins.recv_timeout(PATIENCE).unwrap();
    // All requests of the first poll have come when nobody asks for half a pause.
    while logins.recv_timeout(Duration::from_secs(1)).is_ok() {}
    let deadline = std::time::Instant::now() + PATIENCE;
    while logins.recv_timeout(Duration::from_millis(100)).is_err() {
        assert!(std::time::Instant::now() < deadline, "other requests hold the next poll back");
        followed.requests.send(SourceRequest::Forget { source: String::new(), number: 1 }).unwrap();
    }
}
