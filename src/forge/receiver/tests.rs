//! The client against a server on this machine.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// What a server answers, and what it was sent: method, path, some headers, body.
#[derive(Clone)]
struct Script {
    status: u16,
    header: Option<(&'static str, String)>,
    seen: Arc<Mutex<Vec<String>>>,
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let headers = ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers = headers.map(|name| parts.headers.get(name).map_or("-", |value| value.to_str().unwrap()));
    let line = format!("{} {} {} {}", parts.method, parts.uri, headers.join(" "), String::from_utf8_lossy(&body));
    script.seen.lock().unwrap().push(line);
    let mut response = Response::builder().status(script.status);
    if let Some((name, value)) = &script.header {
        response = response.header(*name, value);
    }
    response.body(Body::from("what nobody reads")).unwrap()
}

async fn server(status: u16, header: Option<(&'static str, String)>) -> (Script, String) {
    let script = Script { status, header, seen: Arc::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook?token=s3cret", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer).with_state(script.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (script, address)
}

async fn tell(url: &str, secret: Option<&str>) -> Result<(), Error> {
    let key = secret.map(|secret| SigningKey::new(&secret.into()).unwrap());
    let message = WebhookMessage { id: "7-1", timestamp: 1_614_265_330, content_type: "text/plain", body: "{}" };
    Receiver::new(url.into(), None).unwrap().tell(message, key.as_ref()).await
}

#[test]
fn a_body_is_signed_as_other_implementations_sign_it() {
    // The example of the reference implementations.
    let key = SigningKey::new(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()).unwrap();
    let signature = key.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    for (secret, problem) in [
        ("whsec_???", "is not base64 after whsec_"),
        ("whsec_c2hvcnQ=", "is shorter than 24 bytes"),
        ("short", "is shorter than 24 bytes"),
    ] {
        assert_eq!(SigningKey::new(&secret.into()).err(), Some(Error::Secret(problem)));
    }
}

#[tokio::test]
async fn a_request_carries_id_time_and_signature() {
    let (script, url) = server(204, None).await;
    assert_eq!(tell(&url, Some("a secret of at least 24 bytes")).await, Ok(()));
    assert_eq!(tell(&url, None).await, Ok(()));
    let signed = "v1,6zhnzoV84V1AfmgCu9RPCGERzI4CSNUHOL3wsS9MvfE=";
    assert_eq!(
        *script.seen.lock().unwrap(),
        [signed, "-"].map(|signature| format!("POST /hook?token=s3cret text/plain 7-1 1614265330 {signature} {{}}"))
    );
}

#[tokio::test]
async fn answers_and_what_they_mean() {
    let (elsewhere, other) = server(200, None).await;
    let refused = |status, wait: Option<u64>| Err(Error::Refused { status, wait: wait.map(Duration::from_secs) });
    let table = [
        (200, None, Ok(())),
        (302, Some(("location", other)), Err(Error::Moved)),
        (404, None, refused(404, None)),
        (429, Some(("retry-after", "30".to_owned())), refused(429, Some(30))),
        (503, Some(("retry-after", "soon".to_owned())), refused(503, None)),
    ];
    for (status, header, expected) in table {
        let (_, url) = server(status, header).await;
        assert_eq!(tell(&url, None).await, expected, "{status}");
    }
    assert!(elsewhere.seen.lock().unwrap().is_empty(), "no redirect is followed");
}

#[tokio::test]
async fn no_error_holds_the_address() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let found = tell(&format!("http://127.0.0.1:{port}/hook?token=s3cret"), None).await.unwrap_err();
    let text = format!("{found} {found:?}");
    assert!(text.contains("does not answer") && !text.contains("s3cret") && !text.contains("/hook"), "{text}");
    let unusable = Receiver::new("no address s3cret".into(), None).err().map(|error| error.to_string());
    assert_eq!(unusable.as_deref(), Some("the address is no URL"));
}

#[tokio::test]
async fn a_receiver_of_a_private_authority_is_known_by_its_certificates() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not know the certificate ends here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 204 -\r\nConnection: close\r\n\r\n").await;
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    });
    let message = WebhookMessage { id: "7-1", timestamp: 1, content_type: "text/plain", body: "" };
    let known = Receiver::new(url.as_str().into(), Some(made.cert.pem().as_bytes())).unwrap();
    assert_eq!(known.tell(message, None).await, Ok(()));
    let unknown = Receiver::new(url.as_str().into(), None).unwrap();
    assert!(matches!(unknown.tell(message, None).await, Err(Error::Unreachable(_))));
}

#[test]
fn certificates_must_be_some() {
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(Receiver::new("https://x".into(), Some(wrong.as_bytes())), Err(Error::Setup(_))));
}
