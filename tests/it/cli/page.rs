//! The page of a running daemon: who sees it, how it follows what happens, and a gate that is approved in it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use crate::cli::edges::{Daemon, RUN, reconfigure, until};
use crate::cli::scratch::{CONFIG, Scratch, namespace};
use crate::cli::staged;

/// Returns a page as the daemon answers it.
fn page(daemon: &Daemon, path: &str) -> String {
    let (status, body) = daemon.get(path, "Host: localhost\r\n").expect("an answer");
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Tells whether a page is there and holds a text.
fn shows(daemon: &Daemon, path: &str, words: &str) -> bool {
    daemon.get(path, "Host: localhost\r\n").is_some_and(|(status, body)| status == 200 && body.contains(words))
}

#[test]
fn a_page_shows_the_fleet_and_its_stream_says_when_to_load_it_again() {
    let scratch = Scratch::with_web();
    let daemon = Daemon::start(scratch.command(&RUN));
    until("everything is rolled out", || shows(&daemon, "/badge/web.svg", "up to date, 2 of 2"));
    let fleet = page(&daemon, "/");
    assert!(fleet.contains("href=\"/placements/web\"") && fleet.contains("Nothing waits for a person."), "{fleet}");
    for (path, words) in [
        ("/placements/web", "rolling update"),
        ("/placements/web?tab=explain", "every cluster"),
        ("/placements/web?tab=events", "is available on every cluster"),
        ("/placements/web?tab=history", "snapshot"),
        ("/placements/web/graph.svg", "<svg"),
        ("/badge/web.svg", "2 of 2"),
        ("/clusters/east", "href=\"/placements/web\""),
        ("/events", "was picked"),
    ] {
        let body = page(&daemon, path);
        assert!(body.contains(words), "{path}, {words}: {body}");
    }
    let address = fleet.split("data-stream=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a stream");
    let mut stream = TcpStream::connect(&daemon.address).expect("it listens");
    let request = address.replace("&amp;", "&");
    write!(stream, "GET {request} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a question");
    scratch.write("web.yaml", &namespace("web", &[("a", "2"), ("b", "1")]));
    let commit = scratch.commit("second");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.find(|line| line == "event: summary").expect("it says that something changed");
    until("the page shows the commit", || shows(&daemon, "/", &commit[..7]));
    until("the diff names the object", || shows(&daemon, "/placements/web?tab=diff", "1 added"));
    let became = page(&daemon, &format!("/commits/{}", &commit[..7]));
    assert!(became.contains("href=\"/placements/web\""), "{became}");
}

#[test]
fn the_diff_shows_lines_without_secrets_and_subjects_stand_beside_commits() {
    let scratch = Scratch::with_web();
    let secret = |value: &str| format!("{}---\n{}", namespace("web", &[("a", "1")]), secret("web", "key", value));
    scratch.write("web.yaml", &secret("hunter1"));
    scratch.commit("first");
    let daemon = Daemon::start(scratch.command(&RUN));
    until("everything is rolled out", || shows(&daemon, "/badge/web.svg", "up to date, 2 of 2"));
    scratch.write("web.yaml", &secret("hunter2").replace("\"1\"", "\"2\""));
    let commit = scratch.commit("Rotate <the> key");
    let path = "/placements/web?tab=diff&to=1";
    until("the second snapshot is there", || shows(&daemon, path, &commit[..7]));
    assert!(!page(&daemon, path).contains("<pre"), "lines are read only for those who ask");
    let lines = page(&daemon, &format!("{path}&from=0&lines=1"));
    for words in ["ConfigMap web/a", "<span class=\"removed\">", "+  key: &lt;masked:", "&lt;the&gt;"] {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    let on = page(&daemon, &format!("{path}&lines=1&cluster=east"));
    assert!(on.contains("What east holds"), "{on}");
    for body in [&lines, &on] {
        for secret in ["hunter1", "hunter2", "aHVudGVyMQ", "aHVudGVyMg", "<the>"] {
            assert!(!body.contains(secret), "{secret}: {body}");
        }
    }
    let absent = page(&daemon, &format!("{path}&lines=1&cluster=nowhere"));
    assert!(absent.contains("web is not on nowhere"), "{absent}");
    let quoted = "&quot;Rotate &lt;the&gt; key&quot;";
    for path in ["/", "/placements/web", "/placements/web?tab=history", &format!("/commits/{}", &commit[..7])] {
        assert!(page(&daemon, path).contains(quoted), "{path}");
    }
    let status = scratch.run(&["status", "--server", &daemon.address]);
    assert!(status.text(0).contains(&format!("accepted {} \"Rotate <the> key\"", &commit[..7])), "{}", status.out);
}

/// A Secret with one value.
fn secret(namespace: &str, key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {key}, namespace: {namespace}}}\nstringData: {{{key}: {value}}}\n"
    )
}

/// Sends a form; returns status, head and body.
pub fn post(daemon: &Daemon, path: &str, headers: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(&daemon.address).expect("it listens");
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    write!(stream, "{head}Content-Type: application/x-www-form-urlencoded\r\n{headers}\r\n{body}").expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, head.to_owned(), body.to_owned())
}

/// Returns the value of a hidden field.
fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let rest = page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap_or_else(|| panic!("{name}: {page}"));
    rest.split('"').next().unwrap_or_default()
}

#[test]
fn a_gate_is_approved_in_the_page_by_whoever_showed_a_token() {
    let scratch = staged::fleet();
    reconfigure(&scratch, "http: {", "http: {read: token, page: command, ");
    let daemon = Daemon::start(scratch.command(&RUN));
    let (status, _) = daemon.get("/", "Host: localhost\r\n").expect("an answer");
    assert_eq!(status, 303, "it leads to the form");
    let token = fs::read_to_string(scratch.path("store/token")).expect("the daemon left it");
    let (status, head, _) = post(&daemon, "/sign-in", "", &format!("token={}&to=%2F", token.trim()));
    assert_eq!(status, 303, "{head}");
    let cookie =
        head.lines().find_map(|line| line.to_ascii_lowercase().starts_with("set-cookie: ").then(|| &line[12..]));
    let cookie = cookie.and_then(|cookie| cookie.split(';').next()).expect("a cookie");
    let headers = format!("Host: localhost\r\nCookie: {cookie}\r\n");
    let see = |path: &str| daemon.get(path, &headers).expect("an answer").1;
    until("the gate is on the page", || see("/").contains("act-approve"));
    let fleet = see("/");
    let link = fleet.split("class=\"act act-approve\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
    let question = see(&link.expect("a link").replace("&amp;", "&"));
    let digest = hidden(&question, "digest");
    assert!(question.contains(&format!("<code>{digest}</code>")) && question.contains("p2"), "{question}");
    let fields =
        ["verb", "target", "stage", "digest", "form"].map(|name| format!("{name}={}", hidden(&question, name)));
    let (status, _, refused) =
        post(&daemon, "/act", &format!("Cookie: {cookie}\r\nOrigin: https://evil.example\r\n"), &fields.join("&"));
    assert_eq!(status, 403, "{refused}");
    let (status, _, done) = post(&daemon, "/act", &format!("Cookie: {cookie}\r\n"), &fields.join("&"));
    assert!(status == 200 && done.contains("approved"), "{done}");
    until("it is rolled out", || see("/").contains("Nothing waits for a person."));
    until("the last stage is delivered", || staged::value(&scratch, "p2") == "1");
    assert!(see("/placements/web?tab=history").contains("digest"), "who approved what is in its history");
    drop(daemon);
    assert!(scratch.path(CONFIG).exists());
}

#[test]
fn a_page_that_is_switched_off_is_not_there() {
    let scratch = Scratch::with_web_on(&["east"]);
    reconfigure(&scratch, "http: {", "http: {page: off, ");
    let daemon = Daemon::start(scratch.command(&RUN));
    for path in ["/", "/placements/web", "/assets/page.css", "/sign-in"] {
        assert_eq!(daemon.get(path, "Host: localhost\r\n").map(|(status, _)| status), Some(404), "{path}");
    }
}
