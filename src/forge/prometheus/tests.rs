//! The client against a server on this machine that answers what a Prometheus does, and what it does not.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http_body_util::BodyExt as _;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

/// What a server answers, and what it was asked: `METHOD path authorization body`.
#[derive(Clone)]
struct Script {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    seen: Arc<Mutex<Vec<String>>>,
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let auth = parts.headers.get("authorization").map_or("-", |value| value.to_str().unwrap());
    let line = format!("{} {} {auth} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
    script.seen.lock().unwrap().push(line);
    let mut response = Response::builder().status(script.status);
    for (name, value) in &script.headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(script.body)).unwrap()
}

async fn server(status: u16, headers: Vec<(&'static str, String)>, body: impl Into<Vec<u8>>) -> (Script, String) {
    let script = Script { status, headers, body: body.into(), seen: Arc::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer).with_state(script.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (script, address)
}

async fn ask(url: &str, token: Option<&SecretString>) -> Result<f64, Error> {
    Client::new(url, None, TIMEOUT).unwrap().number("sum(rate(x[5m])) > 1 & 2", token).await
}

fn vector(series: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
}

#[tokio::test]
async fn answers_and_what_they_mean() {
    let one = |value: &str| vector(&format!(r#"{{"metric":{{"a":"b"}},"value":[1.5,"{value}"]}}"#));
    let refused = |status, words: &str| Err(Error::Refused { status, words: words.to_owned() });
    let table = [
        (200, one("0.25"), Ok(0.25)),
        (200, one("-1e-3"), Ok(-0.001)),
        (
            200,
            r#"{"status":"success","data":{"resultType":"scalar","result":[1,"7"]},"warnings":["x"]}"#.into(),
            Ok(7.0),
        ),
        (200, one("NaN"), Err(Error::NotANumber("NaN".into()))),
        (200, one("+Inf"), Err(Error::NotANumber("+Inf".into()))),
        (200, vector(""), Err(Error::NoData)),
        (200, vector(&[r#"{"metric":{},"value":[1,"1"]}"#; 3].join(",")), Err(Error::SeveralSeries(3))),
        (200, vector(r#"{"metric":{},"histogram":[1,{}]}"#), Err(Error::NotANumber("a histogram".into()))),
        (
            200,
            r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.into(),
            Err(Error::NotANumber("a matrix".into())),
        ),
        (
            400,
            r#"{"status":"error","errorType":"bad_data","error":"parse\nerror"}"#.into(),
            refused(400, "parse error"),
        ),
        (200, r#"{"status":"error","error":"odd"}"#.into(), refused(200, "odd")),
        (503, "<html>".into(), refused(503, "")),
        (401, String::new(), refused(401, "")),
        (200, "<html>".into(), Err(Error::NotUnderstood)),
        (200, "{}".into(), Err(Error::NotUnderstood)),
        (200, vector(r#"{"metric":{},"value":"1"}"#), Err(Error::NotUnderstood)),
        (200, format!("{}{}", one("1"), " ".repeat(ANSWER_BYTES_MAX)), Err(Error::TooLarge)),
    ];
    for (status, body, expected) in table {
        let (_, url) = server(status, Vec::new(), body.clone()).await;
        assert_eq!(ask(&url, None).await, expected, "{status} {}", &body[..body.len().min(200)]);
    }
    let long = format!(r#"{{"status":"error","error":"{}"}}"#, "x".repeat(5000));
    let (_, url) = server(422, Vec::new(), long).await;
    assert!(ask(&url, None).await.unwrap_err().to_string().len() < 300);
}

#[tokio::test]
async fn a_query_is_posted_with_the_token() {
    let (script, url) = server(200, Vec::new(), vector("")).await;
    let token = SecretString::from("s3cret");
    ask(&format!("{url}/prefix/"), Some(&token)).await.unwrap_err();
    ask(&url, None).await.unwrap_err();
    let form = "query=sum%28rate%28x%5B5m%5D%29%29+%3E+1+%26+2&timeout=20000ms";
    let expected = [format!("POST /prefix/api/v1/query Bearer s3cret {form}"), format!("POST /api/v1/query - {form}")];
    assert_eq!(*script.seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_token_reaches_no_other_host_and_no_message() {
    let (other, elsewhere) = server(200, Vec::new(), vector("")).await;
    let (_, url) = server(307, vec![("location", format!("{elsewhere}/api/v1/query"))], "").await;
    let token = SecretString::from("s3cret");
    assert_eq!(ask(&url, Some(&token)).await, Err(Error::Moved));
    assert_eq!(other.seen.lock().unwrap().len(), 0);
    let gone = ask("http://127.0.0.1:1", Some(&token)).await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable(_)), "{gone:?}");
    for text in [gone.to_string(), format!("{gone:?}")] {
        assert!(!text.contains("s3cret") && !text.contains("127.0.0.1:1/"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_silent_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(&url, None, Duration::from_millis(50)).unwrap();
    assert_eq!(client.number("up", None).await, Err(Error::TimedOut(Duration::from_millis(50))));
}

#[test]
fn certificates_must_be_some() {
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(Client::new("https://x", Some(wrong.as_bytes()), TIMEOUT), Err(Error::Setup(_))));
}
