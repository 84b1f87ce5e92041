//! A member cluster as the tests see it: a kubeconfig, an API server to switch off, requests to count.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use reqwest::{
    Certificate, Method, StatusCode,
    blocking::{Client, RequestBuilder},
};
use serde_json::Value;

use super::{
    binaries::Binaries,
    process::Process,
    servers,
    wait::{free_port, listens, secret, until},
    workloads::Access,
};
use crate::apiserver;

/// No single request takes longer, so that a test against an API server that hangs ends by itself.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The same for a look whether the API server is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// An object by its namespace, its kind in lower case or `PLURAL.GROUP` of a resource in version v1, and its name.
pub type Named<'a> = (&'a str, &'a str, &'a str);

/// One cluster of the fleet, with an administrator's rights.
#[derive(Debug)]
pub struct Member {
    /// The name of the cluster.
    pub name: String,
    /// Its one context has the member's name.
    pub kubeconfig: PathBuf,
    /// Address of the API server.
    pub url: String,
    /// Bearer token of the administrator.
    pub token: String,
    /// The certificate of the API server, as PEM, once it has one.
    certificate: String,
    client: Option<Client>,
    kubectl: PathBuf,
    folder: PathBuf,
    pub(super) backend: Backend,
}

/// What answers for a member.
#[derive(Debug)]
pub(super) enum Backend {
    /// An API server of this process.
    Process { port: u16, apiserver: Process, controllers: Option<Process> },
    /// An API server of a fleet that was started by somebody else.
    Running,
    /// The double.
    Double(apiserver::Server),
}

impl Member {
    /// Starts the API server of a member and does not wait for it.
    pub(super) fn start(binaries: &Binaries, folder: &Path, name: &str, etcd: u16) -> Result<Self> {
        let (port, token) = (free_port()?, secret());
        let apiserver = servers::kube_apiserver(binaries, folder, name, etcd, port, &token)?.spawn()?;
        let backend = Backend::Process { port, apiserver, controllers: None };
        Ok(Self::new(folder, name, format!("https://127.0.0.1:{port}"), token, binaries.kubectl.clone(), backend))
    }

    /// Makes a member of a double.
    pub(super) fn double(folder: &Path, name: &str) -> Result<Self> {
        let server = apiserver::Server::start(&apiserver::Options::clusters(1))?;
        let (url, token, certificate) = (server.url(&apiserver::name(0)), server.token(), server.authority());
        let mut member = Self::new(folder, name, url, token, PathBuf::new(), Backend::Double(server));
        member.trust(certificate)?;
        Ok(member)
    }

    /// Makes a member of an API server that runs, by the kubeconfig that [`servers::write_kubeconfig`] wrote of it.
    pub(super) fn running(binaries: &Binaries, folder: &Path, name: &str, kubeconfig: &Path) -> Result<Self> {
        let Access { url, token, certificate } = Access::read(kubeconfig)?;
        let mut member = Self::new(folder, name, url, token, binaries.kubectl.clone(), Backend::Running);
        member.trust(certificate)?;
        member.await_ready()?;
        Ok(member)
    }

    fn new(folder: &Path, name: &str, url: String, token: String, kubectl: PathBuf, backend: Backend) -> Self {
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        Self { name, kubeconfig, url, token, certificate: String::new(), client: None, kubectl, folder, backend }
    }

    /// Takes the certificate of the server, and writes the kubeconfig with it.
    fn trust(&mut self, certificate: String) -> Result<()> {
        let certificates = Certificate::from_pem_bundle(certificate.as_bytes());
        let certificates = certificates.context("parse the certificate of the API server")?;
        let client = Client::builder().no_proxy().tls_certs_only(certificates).pool_max_idle_per_host(0).build();
        self.client = Some(client.context("make a client of the API server")?);
        servers::write_kubeconfig(&self.kubeconfig, &self.name, &self.url, &self.token, &certificate)?;
        self.certificate = certificate;
        Ok(())
    }

    /// Waits for the API server and starts what belongs beside it.
    pub(super) fn complete(&mut self, controller_manager: bool) -> Result<()> {
        let Backend::Process { port, apiserver, .. } = &self.backend else { return Ok(()) };
        apiserver.until("the port of the API server", servers::READY, || Ok(listens(*port).then_some(())))?;
        // The server wrote its certificate before it listened.
        let certificate = self.folder.join(&self.name).join("apiserver.crt");
        let text = fs::read_to_string(&certificate).with_context(|| format!("read {}", certificate.display()))?;
        self.trust(text)?;
        if let (true, Backend::Process { controllers, .. }) = (controller_manager, &mut self.backend) {
            let manager = servers::controller_manager(&self.folder, &self.name, &self.kubeconfig)?;
            *controllers = Some(manager.spawn()?);
        }
        self.await_ready()?;
        match &self.backend {
            Backend::Process { controllers, .. } => controllers.iter().try_for_each(Process::check),
            Backend::Running | Backend::Double(_) => Ok(()),
        }
    }

    /// Returns how the API server is asked.
    pub(super) fn access(&self) -> Access {
        Access { url: self.url.clone(), token: self.token.clone(), certificate: self.certificate.clone() }
    }

    /// Runs kubectl against this member and returns what it prints.
    ///
    /// # Errors
    /// When kubectl does not succeed; the error holds its arguments and its stderr. On a double always: nothing there needs kubectl.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        ensure!(!matches!(self.backend, Backend::Double(_)), "kubectl {}: tests on doubles do without", args.join(" "));
        run(kubectl(&self.kubectl, &self.folder, &self.kubeconfig).args(args), None).with_context(|| self.name.clone())
    }

    /// Returns a kubectl against this member that is not started yet, for one that continues, such as a watch.
    pub fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = kubectl(&self.kubectl, &self.folder, &self.kubeconfig);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs `kubectl apply` on manifests, as a person would. A double gets a server-side apply.
    ///
    /// # Errors
    /// When kubectl does not succeed, or the double refuses.
    pub fn kubectl_apply(&self, manifests: &str) -> Result<()> {
        if let Backend::Double(_) = self.backend {
            return self.apply_as("kubectl", true, manifests);
        }
        let mut command = kubectl(&self.kubectl, &self.folder, &self.kubeconfig);
        run(command.args(["apply", "-f", "-"]), Some(manifests)).map(drop).with_context(|| self.name.clone())
    }

    /// Applies manifests as a field manager, by the server.
    ///
    /// # Errors
    /// When the API server refuses one, or does not answer.
    pub fn apply(&self, manager: &str, manifests: &str) -> Result<()> {
        self.apply_as(manager, false, manifests)
    }

    fn apply_as(&self, manager: &str, force: bool, manifests: &str) -> Result<()> {
        for object in serde_yaml::from_multiple::<Value>(manifests).context("parse the manifests")? {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let kind = text("/kind").to_lowercase();
            let named = (text("/metadata/namespace"), kind.as_str(), text("/metadata/name"));
            let request = self.request(Method::PATCH, named, &format!("?fieldManager={manager}&force={force}"))?;
            self.change(request.header("Content-Type", "application/apply-patch+yaml").body(object.to_string()))?;
        }
        Ok(())
    }

    /// Changes an object by a merge patch, as a person would by hand.
    ///
    /// # Errors
    /// When the API server refuses it, or does not answer.
    pub fn patch(&self, named: Named<'_>, change: &Value) -> Result<()> {
        let request = self.request(Method::PATCH, named, "?fieldManager=by-hand")?;
        self.change(request.header("Content-Type", "application/merge-patch+json").body(change.to_string()))
    }

    /// Deletes an object, as a person would by hand.
    ///
    /// # Errors
    /// When the API server refuses it, or does not answer.
    pub fn delete(&self, named: Named<'_>) -> Result<()> {
        self.change(self.request(Method::DELETE, named, "")?)
    }

    /// Returns an object as JSON, or nothing when it does not exist.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub fn get(&self, namespace: &str, kind: &str, name: &str) -> Result<Option<Value>> {
        let text = match path_of((namespace, kind, name)) {
            Some(path) => self.read(&path, REQUEST_TIMEOUT)?,
            None => Some(self.kubectl(&["-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json"])?),
        };
        let text = text.filter(|text| !text.trim().is_empty());
        let parse =
            |text: String| serde_json::from_str(&text).with_context(|| format!("parse {kind} {namespace}/{name}"));
        text.map(parse).transpose()
    }

    /// Begins a request about an object. A request costs much less than a kubectl, for what is polled. Each has a connection of its
    /// own, as kubectl has, so that the server may go away between two.
    fn request(&self, method: Method, named: Named<'_>, rest: &str) -> Result<RequestBuilder> {
        let path =
            path_of(named).with_context(|| format!("where API servers have the kind `{}` is not known", named.1))?;
        self.ask(method, &format!("{path}{rest}"))
    }

    fn ask(&self, method: Method, path: &str) -> Result<RequestBuilder> {
        let client = self.client.as_ref().with_context(|| format!("{} does not run yet", self.name))?;
        let request = client.request(method, format!("{}{path}", self.url));
        Ok(request.bearer_auth(&self.token).timeout(REQUEST_TIMEOUT))
    }

    /// Sends a request; returns what the answer says, or nothing where there is nothing.
    fn send(&self, request: RequestBuilder) -> Result<Option<String>> {
        let answer = request.send().with_context(|| self.name.clone())?;
        let (what, status) = (answer.url().path().to_owned(), answer.status());
        let text = answer.text().with_context(|| format!("{what} of {}", self.name))?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        ensure!(status.is_success(), "{what} of {}: {status}: {text}", self.name);
        Ok(Some(text))
    }

    /// Sends a request that changes something: what it is about has to be there.
    fn change(&self, request: RequestBuilder) -> Result<()> {
        self.send(request)?.map(drop).with_context(|| format!("{} has no such object, kind or namespace", self.name))
    }

    fn read(&self, path: &str, limit: Duration) -> Result<Option<String>> {
        self.send(self.ask(Method::GET, path)?.timeout(limit))
    }

    /// Waits until the object exists and `wanted` holds for it, and returns it.
    ///
    /// # Errors
    /// After `limit`; the error shows the object as it is then.
    pub fn await_object(
        &self,
        (namespace, kind, name): (&str, &str, &str),
        limit: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = None;
        let what = format!("{kind} {namespace}/{name} in {} to be as wanted", self.name);
        let found = until(&what, limit, || {
            last = self.get(namespace, kind, name)?;
            Ok(last.clone().filter(&wanted))
        });
        found.with_context(|| format!("at last: {}", last.map_or("not found".to_owned(), |object| object.to_string())))
    }

    /// Waits until a Deployment's last change was observed and all replicas are available, and returns it.
    ///
    /// # Errors
    /// After `limit`.
    pub fn await_available(&self, namespace: &str, deployment: &str, limit: Duration) -> Result<Value> {
        self.await_object((namespace, "deployment", deployment), limit, |object| {
            let status = &object["status"];
            let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
            status["observedGeneration"] == object["metadata"]["generation"]
                && status["updatedReplicas"].as_u64().unwrap_or(0) == wanted
                && status["availableReplicas"].as_u64().unwrap_or(0) == wanted
        })
    }

    /// Returns the metrics of the API server; see `request_count` and `write_count`.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub fn metrics(&self) -> Result<String> {
        self.read("/metrics", REQUEST_TIMEOUT)?.context("the API server has no metrics")
    }

    /// Waits until the API server is ready and has its first namespaces.
    ///
    /// # Errors
    /// When it ended, or is not ready in time.
    pub fn await_ready(&self) -> Result<()> {
        let is_there = |path| self.read(path, READY_TIMEOUT).is_ok_and(|answer| answer.is_some());
        let look = || Ok((is_there("/readyz") && is_there("/api/v1/namespaces/default")).then_some(()));
        let what = format!("{} to be ready", self.name);
        match &self.backend {
            Backend::Process { apiserver, .. } => apiserver.until(&what, servers::READY, look),
            Backend::Running | Backend::Double(_) => until(&what, servers::READY, look),
        }
    }

    /// Ends the API server at once: the cluster is unreachable, its data stay. The counters of `metrics` start again at
    /// zero.
    ///
    /// # Errors
    /// When it is a server of somebody else.
    pub fn stop(&self) -> Result<()> {
        match &self.backend {
            Backend::Process { apiserver, controllers, .. } => {
                // The controllers too: after an outage of some length they would come back only after a long pause.
                controllers.iter().for_each(Process::stop);
                apiserver.stop();
                Ok(())
            }
            Backend::Double(server) => {
                server.stop();
                Ok(())
            }
            Backend::Running => self.not_ours("ended"),
        }
    }

    /// Starts the API server again, on the same port and with the same data, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start, or not in time, or is a server of somebody else.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        match &self.backend {
            Backend::Process { apiserver, controllers, .. } => {
                apiserver.start()?;
                self.await_ready()?;
                controllers.iter().try_for_each(Process::start)
            }
            Backend::Double(server) => {
                server.restart()?;
                self.await_ready()
            }
            Backend::Running => self.not_ours("started again"),
        }
    }

    /// Makes the API server hang: connections are taken, answers never come.
    ///
    /// # Errors
    /// When it does not run, or is no process of ours.
    pub fn pause(&self) -> Result<()> {
        match &self.backend {
            Backend::Process { apiserver, .. } => apiserver.signal("STOP"),
            Backend::Running | Backend::Double(_) => self.not_ours("paused"),
        }
    }

    /// Ends what `pause` began.
    ///
    /// # Errors
    /// When it does not run, or is no process of ours.
    pub fn resume(&self) -> Result<()> {
        match &self.backend {
            Backend::Process { apiserver, .. } => apiserver.signal("CONT"),
            Backend::Running | Backend::Double(_) => self.not_ours("continued"),
        }
    }

    fn not_ours(&self, what: &str) -> Result<()> {
        bail!("{} cannot be {what}: it is no process of this fleet", self.name)
    }
}

/// The kinds that tests name by one word, with the version of their API. kubectl finds out for the others.
const KINDS: [(&str, &str); 13] = [
    ("namespace", "v1"),
    ("node", "v1"),
    ("configmap", "v1"),
    ("secret", "v1"),
    ("pod", "v1"),
    ("podtemplate", "v1"),
    ("resourcequota", "v1"),
    ("service", "v1"),
    ("deployment", "apps/v1"),
    ("job", "batch/v1"),
    ("customresourcedefinition", "apiextensions.k8s.io/v1"),
    ("persistentvolumeclaim", "v1"),
    ("clusterrole", "rbac.authorization.k8s.io/v1"),
];

/// Returns where an API server has an object.
fn path_of((namespace, kind, name): Named<'_>) -> Option<String> {
    let known = KINDS.iter().find(|(known, _)| *known == kind);
    let (api, plural) = match (known, kind.split_once('.')) {
        (Some((kind, "v1")), _) => ("api/v1".to_owned(), format!("{kind}s")),
        (Some((kind, version)), _) => (format!("apis/{version}"), format!("{kind}s")),
        (None, Some((plural, group))) => (format!("apis/{group}/v1"), plural.to_owned()),
        (None, None) => return None,
    };
    let of_cluster = namespace.is_empty() || ["namespace", "node", "customresourcedefinition"].contains(&kind);
    let namespace = if of_cluster { String::new() } else { format!("namespaces/{namespace}/") };
    Some(format!("/{api}/{namespace}{plural}/{name}"))
}

fn kubectl(program: &Path, folder: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    // Settings and caches of the person who runs the tests play no part.
    command
        .env("HOME", folder)
        .env_remove("KUBECONFIG")
        .arg(format!("--request-timeout={}s", REQUEST_TIMEOUT.as_secs()))
        .arg("--kubeconfig")
        .arg(kubeconfig);
    command
}

fn run(command: &mut Command, input: Option<&str>) -> Result<String> {
    let what = command.get_args().skip(3).map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start kubectl")?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes()).with_context(|| format!("kubectl {what}: hand over its input"))?;
    }
    let output = child.wait_with_output().context("wait for kubectl")?;
    if !output.status.success() {
        bail!("kubectl {what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("kubectl {what}: not UTF-8"))
}
