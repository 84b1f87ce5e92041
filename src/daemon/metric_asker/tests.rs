//! The asker against a server on this machine.

use axum::extract::State;
use jiff::Timestamp;

use super::*;

const GOOD: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.5"]}]}}"#;

/// Starts a server that tells of every request; returns its address.
async fn server(seen: mpsc::UnboundedSender<String>) -> String {
    let answer = |State(seen): State<mpsc::UnboundedSender<String>>, headers: axum::http::HeaderMap, body: String| async move {
        let token = headers.get("authorization").map_or("-", |value| value.to_str().unwrap());
        seen.send(format!("{token} {body}")).unwrap();
        GOOD
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer).with_state(seen);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn configured(url: &str, token_file: Option<PathBuf>, interval: Duration) -> PrometheusServer {
    PrometheusServer {
        name: "main".to_owned(),
        url: url.to_owned(),
        token_file,
        ca_file: None,
        allow_insecure_http: true,
        interval,
        timeout: Duration::from_secs(20),
    }
}

fn query(placement: &str, metric: &str, since: i64) -> MetricQuery {
    MetricQuery {
        placement: PlacementKey::cluster_scoped(placement),
        run: "p-0".to_owned(),
        stage: "canary".to_owned(),
        metric: metric.to_owned(),
        since: Timestamp::from_second(since).unwrap(),
        server: "main".to_owned(),
        query: metric.to_owned(),
    }
}

fn answered(event: Option<Event>) -> (MetricQuery, Result<f64, String>) {
    let Some(Event::Answered(query, answer)) = event else { panic!("{event:?}") };
    (query, answer)
}

#[tokio::test]
async fn a_query_is_asked_at_once_and_again_until_it_is_not_wanted() {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let url = server(sender).await;
    let settings = [configured(&url, Some(token.clone()), Duration::from_millis(20))];
    let (mut asker, mut answers) = MetricAsker::new(&settings, Supervisor::without_pauses()).unwrap();
    let p = PlacementKey::cluster_scoped("p");
    asker.ask(&p, BTreeSet::from([query("p", "a", 1)]));
    assert_eq!(answered(answers.recv().await), (query("p", "a", 1), Ok(0.5)));
    assert!(seen.recv().await.unwrap().starts_with("Bearer first query=a&"));
    std::fs::write(&token, "second\n").unwrap();
    while !seen.recv().await.unwrap().starts_with("Bearer second query=a&") {}
    // A file that is not there is said, without what was in it.
    std::fs::remove_file(&token).unwrap();
    let failed = loop {
        if let (_, Err(why)) = answered(answers.recv().await) {
            break why;
        }
    };
    assert!(failed.contains("cannot be read") && !failed.contains("second"), "{failed}");
    asker.ask(&PlacementKey::cluster_scoped("q"), BTreeSet::new());
    assert_eq!(asker.tasks.len(), 1, "another placement");
    asker.ask(&p, BTreeSet::new());
    assert!(asker.tasks.is_empty());
}

#[tokio::test]
async fn the_same_query_is_not_asked_again_and_a_retry_is() {
    let (sender, _seen) = mpsc::unbounded_channel();
    let url = server(sender).await;
    let settings = [configured(&url, None, Duration::from_hours(1))];
    let (mut asker, mut answers) = MetricAsker::new(&settings, Supervisor::without_pauses()).unwrap();
    let p = PlacementKey::cluster_scoped("p");
    asker.ask(&p, BTreeSet::from([query("p", "a", 1)]));
    assert_eq!(answered(answers.recv().await).0, query("p", "a", 1));
    asker.ask(&p, BTreeSet::from([query("p", "a", 1), query("p", "b", 1)]));
    assert_eq!(answered(answers.recv().await).0, query("p", "b", 1));
    asker.ask(&p, BTreeSet::from([query("p", "a", 2), query("p", "b", 1)]));
    assert_eq!(answered(answers.recv().await).0, query("p", "a", 2));
}

#[test]
fn certificates_that_cannot_be_read_are_an_error_of_the_start() {
    let server = PrometheusServer {
        ca_file: Some("/no/such.pem".into()),
        ..configured("https://x", None, Duration::from_mins(1))
    };
    let error = MetricAsker::new(&[server], Supervisor::without_pauses()).unwrap_err();
    assert!(error.to_string().contains("/no/such.pem"), "{error}");
}
