//! A member cluster as the tests see it: a kubeconfig, an API server to switch off, requests to count.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Certificate, StatusCode, blocking::Client};
use serde_json::Value;

use super::{
    binaries::Binaries,
    kind::Kind,
    process::Process,
    servers,
    wait::{free_port, listens, secret, until},
};

/// No single request takes longer, so that a test against an API server that hangs ends by itself.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The same for a look whether the API server is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

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
    kubectl: PathBuf,
    folder: PathBuf,
    pub(super) backend: Backend,
}

#[derive(Debug)]
pub(super) enum Backend {
    /// `client` is there once the API server has a certificate.
    Processes {
        port: u16,
        apiserver: Process,
        helpers: Vec<Process>,
        client: Option<Client>,
    },
    Kind(Kind),
}

impl Member {
    /// Starts the API server of a member and does not wait for it.
    pub(super) fn start(binaries: &Binaries, folder: &Path, name: &str, etcd: u16) -> Result<Self> {
        let (port, token) = (free_port()?, secret());
        let apiserver = servers::kube_apiserver(binaries, folder, name, etcd, port, &token)?.spawn()?;
        Ok(Self {
            name: name.to_owned(),
            kubeconfig: folder.join(format!("{name}.kubeconfig")),
            url: format!("https://127.0.0.1:{port}"),
            token,
            kubectl: binaries.kubectl.clone(),
            folder: folder.to_owned(),
            backend: Backend::Processes { port, apiserver, helpers: Vec::new(), client: None },
        })
    }

    /// Waits for the API server and starts what belongs beside it.
    pub(super) fn complete(&mut self, binaries: &Binaries, controller_manager: bool) -> Result<()> {
        let Backend::Processes { port, apiserver, helpers, client } = &mut self.backend else { return Ok(()) };
        let port = *port;
        apiserver.until("the port of the API server", servers::READY, || Ok(listens(port).then_some(())))?;
        // The server wrote its certificate before it listened. Embedded, so that the kubeconfig may be copied anywhere.
        let certificate = self.folder.join(&self.name).join("apiserver.crt");
        servers::write_kubeconfig(&self.kubeconfig, &self.name, &self.url, &self.token, &certificate)?;
        *client = Some(client_of(&certificate)?);
        let view = ["config", "view", "--raw", "--flatten"];
        let flat = run(kubectl(&self.kubectl, &self.folder, &self.kubeconfig).args(view), None)?;
        fs::write(&self.kubeconfig, flat).context("write the kubeconfig with the certificate in it")?;
        helpers.push(servers::kwok(binaries, &self.folder, &self.name, &self.kubeconfig)?.spawn()?);
        if controller_manager {
            helpers.push(servers::controller_manager(binaries, &self.folder, &self.name, &self.kubeconfig)?.spawn()?);
        }
        self.await_ready()?;
        match &self.backend {
            Backend::Processes { helpers, .. } => helpers.iter().try_for_each(Process::check),
            Backend::Kind(_) => Ok(()),
        }
    }

    /// Makes a member of a kind cluster.
    pub(super) fn of_kind(binaries: &Binaries, folder: &Path, name: &str) -> Result<Self> {
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        let backend = Backend::Kind(Kind::create(name, &kubeconfig)?);
        let kubectl = binaries.kubectl.clone();
        let (name, folder) = (name.to_owned(), folder.to_owned());
        let mut member = Self { name, kubeconfig, url: String::new(), token: String::new(), kubectl, folder, backend };
        let context = member.kubectl(&["config", "current-context"])?;
        member.kubectl(&["config", "rename-context", context.trim(), &member.name])?;
        let config = member.kubectl(&["config", "view", "--raw", "-o", "json"])?;
        let config: Value = serde_json::from_str(&config).context("parse the kubeconfig of kind")?;
        config["clusters"][0]["cluster"]["server"].as_str().context("no server in it")?.clone_into(&mut member.url);
        member.kubectl(&["-n", "kube-system", "create", "serviceaccount", "fleet-admin"])?;
        let account = "--serviceaccount=kube-system:fleet-admin";
        member.kubectl(&["create", "clusterrolebinding", "fleet-admin", "--clusterrole=cluster-admin", account])?;
        let token = member.kubectl(&["-n", "kube-system", "create", "token", "fleet-admin", "--duration=24h"])?;
        token.trim().clone_into(&mut member.token);
        member.await_ready()?;
        Ok(member)
    }

    /// Runs kubectl against this member and returns what it prints.
    ///
    /// # Errors
    /// When kubectl does not succeed; the error holds its arguments and its stderr.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        run(kubectl(&self.kubectl, &self.folder, &self.kubeconfig).args(args), None).with_context(|| self.name.clone())
    }

    /// Returns a kubectl against this member that is not started yet, for one that continues, such as a watch.
    pub fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = kubectl(&self.kubectl, &self.folder, &self.kubeconfig);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs `kubectl apply` on manifests, as a person would.
    ///
    /// # Errors
    /// When kubectl does not succeed.
    pub fn kubectl_apply(&self, yaml: &str) -> Result<String> {
        let mut command = kubectl(&self.kubectl, &self.folder, &self.kubeconfig);
        run(command.args(["apply", "-f", "-"]), Some(yaml)).with_context(|| self.name.clone())
    }

    /// Returns an object as JSON, or nothing when it does not exist.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub fn get(&self, namespace: &str, kind: &str, name: &str) -> Result<Option<Value>> {
        let text = match (&self.backend, path_of(namespace, kind, name)) {
            (Backend::Processes { client: Some(client), .. }, Some(path)) => {
                self.read(client, &path, REQUEST_TIMEOUT)?
            }
            _ => Some(self.kubectl(&["-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json"])?),
        };
        let text = text.filter(|text| !text.trim().is_empty());
        let parse =
            |text: String| serde_json::from_str(&text).with_context(|| format!("parse {kind} {namespace}/{name}"));
        text.map(parse).transpose()
    }

    /// Reads a path of the API server, or nothing where there is none. A request costs much less than a kubectl, for what is
    /// polled. Each has a connection of its own, as kubectl has, so that the server may go away between two.
    fn read(&self, client: &Client, path: &str, limit: Duration) -> Result<Option<String>> {
        let what = || format!("get {path} of {}", self.name);
        let request = client.get(format!("{}{path}", self.url)).bearer_auth(&self.token).timeout(limit);
        let answer = request.send().with_context(what)?;
        let status = answer.status();
        let text = answer.text().with_context(what)?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        ensure!(status.is_success(), "{}: {status}: {text}", what());
        Ok(Some(text))
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
        match &self.backend {
            Backend::Processes { client: Some(client), .. } => {
                self.read(client, "/metrics", REQUEST_TIMEOUT)?.context("the API server has no metrics")
            }
            _ => self.kubectl(&["get", "--raw", "/metrics"]),
        }
    }

    /// Waits until the API server is ready and has its first namespaces.
    ///
    /// # Errors
    /// When it ended, or is not ready in time.
    pub fn await_ready(&self) -> Result<()> {
        let is_there = |path| match &self.backend {
            Backend::Processes { client: Some(client), .. } => {
                self.read(client, path, READY_TIMEOUT).is_ok_and(|answer| answer.is_some())
            }
            _ => self.kubectl(&["get", "--raw", path, "--request-timeout=5s"]).is_ok(),
        };
        let look = || Ok((is_there("/readyz") && is_there("/api/v1/namespaces/default")).then_some(()));
        let what = format!("{} to be ready", self.name);
        match &self.backend {
            Backend::Processes { apiserver, .. } => apiserver.until(&what, servers::READY, look),
            Backend::Kind(_) => until(&what, servers::READY, look),
        }
    }

    /// Ends the API server at once: the cluster is unreachable, its data stay. The counters of `metrics` start again at
    /// zero.
    ///
    /// # Errors
    /// Only with kind: when Docker refuses.
    pub fn stop(&self) -> Result<()> {
        match &self.backend {
            Backend::Processes { apiserver, helpers, .. } => {
                // The helpers too: after an outage of some length they would come back only after a long pause.
                helpers.iter().for_each(Process::stop);
                apiserver.stop();
                Ok(())
            }
            Backend::Kind(kind) => kind.docker("kill"),
        }
    }

    /// Starts the API server again, on the same port and with the same data, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start, or not in time.
    pub fn restart(&self) -> Result<()> {
        match &self.backend {
            Backend::Processes { apiserver, helpers, .. } => {
                self.stop()?;
                apiserver.start()?;
                self.await_ready()?;
                helpers.iter().try_for_each(Process::start)
            }
            Backend::Kind(kind) => {
                kind.docker("restart")?;
                self.await_ready()
            }
        }
    }

    /// Makes the API server hang: connections are taken, answers never come.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        match &self.backend {
            Backend::Processes { apiserver, .. } => apiserver.signal("STOP"),
            Backend::Kind(kind) => kind.docker("pause"),
        }
    }

    /// Ends what `pause` began.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        match &self.backend {
            Backend::Processes { apiserver, .. } => apiserver.signal("CONT"),
            Backend::Kind(kind) => kind.docker("unpause"),
        }
    }
}

/// Returns where an API server has an object, for the kinds that tests wait for; kubectl finds out for the others.
fn path_of(namespace: &str, kind: &str, name: &str) -> Option<String> {
    Some(match kind {
        "namespace" => format!("/api/v1/namespaces/{name}"),
        "configmap" | "secret" => format!("/api/v1/namespaces/{namespace}/{kind}s/{name}"),
        "deployment" => format!("/apis/apps/v1/namespaces/{namespace}/{kind}s/{name}"),
        _ => return None,
    })
}

fn client_of(certificate: &Path) -> Result<Client> {
    let text = fs::read(certificate).with_context(|| format!("read {}", certificate.display()))?;
    let certificates = Certificate::from_pem_bundle(&text).context("parse the certificate of the API server")?;
    let client = Client::builder().no_proxy().tls_certs_only(certificates).pool_max_idle_per_host(0).build();
    client.context("make a client of the API server")
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
