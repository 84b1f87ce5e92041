//! A proxy in front of a member's API server that does what faulty networks and servers do, and counts how often.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tower::BoxError;

use crate::e2e::fleet::Member;

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not forwarded, and answered with this status.
    Status(u16),
    /// It is forwarded, and the connection ends in the middle of the answer.
    Cut,
    /// Of a list the first page is forwarded, with one object only, and the second is answered with this status.
    SecondPage(u16),
    /// It is forwarded after this time.
    Slow(Duration),
}

/// Requests that a fault waits for. A watch is none of them.
#[derive(Debug)]
struct Rule {
    method: Method,
    path: String,
    fault: Fault,
    times: usize,
    hits: usize,
}

/// A PATCH that went through.
#[derive(Clone, Debug)]
pub struct Write {
    pub path: String,
    pub body: Value,
    pub asked: Instant,
    pub answered: Instant,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    requests: BTreeMap<String, usize>,
    delayed: usize,
    writes: Vec<Write>,
    is_cut_off: bool,
}

/// The proxy: plain HTTP/1.1 on 127.0.0.1. It ends when dropped.
pub struct Proxy {
    state: Arc<Mutex<State>>,
    folder: TempDir,
    _runtime: Runtime,
}

impl Proxy {
    /// Starts one in front of a member's API server; it signs in there as the member's kubeconfig does.
    pub fn start(member: &Member) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let state = Arc::new(Mutex::new(State::default()));
        let (listener, upstream) = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(&member.kubeconfig).expect("a kubeconfig");
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("it names a server");
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            (listener, Client::try_from(config).expect("a client"))
        });
        let port = listener.local_addr().expect("an address").port();
        runtime.spawn(serve(listener, upstream, Arc::clone(&state)));
        let folder = TempDir::new().expect("a temporary folder");
        let proxy = Self { state, folder, _runtime: runtime };
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "p",
            "clusters": [{"name": "p", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "users": [{"name": "p", "user": {}}],
            "contexts": [{"name": "p", "context": {"cluster": "p", "user": "p"}}],
        });
        fs::write(proxy.kubeconfig(), kubeconfig.to_string()).expect("the kubeconfig is written");
        proxy
    }

    /// Returns the kubeconfig that leads through the proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path().join("kubeconfig")
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked with it")
    }

    /// Does this to the next requests of a method to a path, so many times.
    pub fn fail(&self, method: Method, path: &str, fault: Fault, times: usize) {
        self.state().rules.push(Rule { method, path: path.to_owned(), fault, times, hits: 0 });
    }

    /// Ends all faults.
    pub fn heal(&self) {
        let mut state = self.state();
        state.is_cut_off = false;
        state.rules.iter_mut().for_each(|rule| rule.times = 0);
    }

    /// Ends every connection as soon as something is asked on it.
    pub fn cut_off(&self) {
        self.state().is_cut_off = true;
    }

    /// Returns how often a fault was done to requests to a path.
    pub fn hits(&self, path: &str) -> usize {
        self.state().rules.iter().filter(|rule| rule.path == path).map(|rule| rule.hits).sum()
    }

    /// Returns how many requests are being delayed.
    pub fn delayed(&self) -> usize {
        self.state().delayed
    }

    /// Returns how often a method and path were asked for, `GET /version` for example; watches do not count.
    pub fn requests(&self, request: &str) -> usize {
        self.state().requests.get(request).copied().unwrap_or_default()
    }

    /// Returns the PATCHes that went through, in the order of their answers.
    pub fn writes(&self) -> Vec<Write> {
        self.state().writes.clone()
    }
}

async fn serve(listener: TcpListener, upstream: Client, state: Arc<Mutex<State>>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (upstream, state) = (upstream.clone(), Arc::clone(&state));
        let service = service_fn(move |request| answer(request, upstream.clone(), Arc::clone(&state)));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// Notes a request and returns what is to become of it.
fn evaluate(request: &Request<Incoming>, state: &Mutex<State>) -> Result<Option<Fault>, BoxError> {
    let mut state = state.lock().expect("no thread panicked with it");
    if state.is_cut_off {
        return Err("cut off".into());
    }
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        return Ok(None);
    }
    let (method, path) = (request.method(), request.uri().path());
    *state.requests.entry(format!("{method} {path}")).or_default() += 1;
    let mut rules = state.rules.iter_mut();
    let rule = rules.find(|rule| rule.times > rule.hits && rule.method == method && rule.path == path);
    let Some(rule) = rule else { return Ok(None) };
    let is_second = request.uri().query().is_some_and(|query| query.contains("continue="));
    let fault = match rule.fault {
        Fault::SecondPage(_) if !is_second => return Ok(Some(rule.fault)),
        Fault::SecondPage(code) => Fault::Status(code),
        fault => fault,
    };
    rule.hits += 1;
    Ok(Some(fault))
}

/// Answers a request; an error ends the connection.
async fn answer(request: Request<Incoming>, upstream: Client, state: Arc<Mutex<State>>) -> Result<Answer, BoxError> {
    let asked = Instant::now();
    let fault = evaluate(&request, &state)?;
    match fault {
        Some(Fault::Status(code)) => return refusal(code),
        Some(Fault::Slow(time)) => {
            state.lock().expect("no thread panicked with it").delayed += 1;
            tokio::time::sleep(time).await;
            state.lock().expect("no thread panicked with it").delayed -= 1;
        }
        Some(Fault::Cut | Fault::SecondPage(_)) | None => {}
    }
    let (mut parts, body) = request.into_parts();
    if let Some(Fault::SecondPage(_)) = fault {
        parts.uri = parts.uri.to_string().replace("limit=500", "limit=1").parse()?;
    }
    let body = body.collect().await?.to_bytes();
    let patch = (parts.method == Method::PATCH).then(|| (parts.uri.path().to_owned(), body.clone()));
    parts.headers.remove(HOST);
    let response = upstream.send(Request::from_parts(parts, body.to_vec().into())).await?;
    if let Some((path, body)) = patch.filter(|_| response.status().is_success()) {
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let write = Write { path, body, asked, answered: Instant::now() };
        state.lock().expect("no thread panicked with it").writes.push(write);
    }
    let (parts, body) = response.into_parts();
    if fault != Some(Fault::Cut) {
        return Ok(Response::from_parts(parts, body.map_err(BoxError::from).boxed_unsync()));
    }
    let body = body.collect().await?.to_bytes();
    let half = Ok(Frame::data(body.slice(..body.len() / 2)));
    let stream = futures::stream::iter([half, Err(BoxError::from("cut"))]);
    Ok(Response::from_parts(parts, StreamBody::new(stream).boxed_unsync()))
}

/// Refuses a request as an API server does.
fn refusal(code: u16) -> Result<Answer, BoxError> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": "Injected", "message": format!("the proxy answers {code}"),
    });
    let body = Bytes::from(status.to_string());
    let response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    let response = response.header(CONTENT_LENGTH, body.len());
    Ok(response.body(Full::new(body).map_err(BoxError::from).boxed_unsync())?)
}
