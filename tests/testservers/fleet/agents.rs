//! Agents of one pool, which dial daemons of this machine over TLS.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::{
    console::keep,
    process::{Process, Spec},
    servers::READY,
    wait::{free_port, http, secret},
};

/// The pool of all agents.
const POOL: &str = "edge";
/// How long a silent agent keeps its members: short, so that a failure is seen to end soon.
const LEASE: &str = "5s";
/// The member that the daemon delivers to by itself.
const OF_THE_DAEMON: &str = "dev-eu";

/// The files of a TLS server on 127.0.0.1.
#[derive(Debug)]
pub struct Certificates {
    /// The authority that agents trust.
    pub ca: PathBuf,
    /// The server's certificate, signed by the authority.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes an authority and a certificate for 127.0.0.1 in `folder`. The authority's key is written nowhere.
    ///
    /// # Errors
    /// When they cannot be made or written.
    pub fn make(folder: &Path) -> Result<Self> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().context("a key")?;
        let ca = authority.self_signed(&authority_key).context("an authority")?;
        let key = KeyPair::generate().context("a key")?;
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).context("a certificate's name")?;
        let signed = params.signed_by(&key, &Issuer::new(authority, authority_key)).context("a certificate")?;
        let file = |name: &str| folder.join(name);
        let made =
            Self { ca: file("agents-ca.pem"), certificate: file("agents-cert.pem"), key: file("agents-key.pem") };
        fs::write(&made.ca, ca.pem()).with_context(|| format!("write {}", made.ca.display()))?;
        fs::write(&made.certificate, signed.pem()).with_context(|| format!("write {}", made.certificate.display()))?;
        keep(&made.key, &key.serialize_pem())?;
        Ok(made)
    }
}

/// Agents that are not started yet: their names, tokens and what they trust.
#[derive(Debug)]
pub(super) struct Pool {
    certificates: Certificates,
    names: Vec<String>,
}

impl Pool {
    /// Makes certificates and a token for each agent, in the folder of secrets.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn prepare(secrets: &Path, agents: usize) -> Result<Self> {
        let names: Vec<String> = (1..=agents).map(|number| format!("{POOL}-{number}")).collect();
        for name in &names {
            keep(&token_file(secrets, name), &secret())?;
        }
        Ok(Self { certificates: Certificates::make(secrets)?, names })
    }

    /// Returns the sections of a daemon's configuration that say who delivers where, and where agents connect.
    pub(super) fn sections(&self, secrets: &Path, port: u16) -> String {
        let Certificates { certificate, key, .. } = &self.certificates;
        let token = |name: &String| {
            let file = token_file(secrets, name);
            format!("    - {{name: {name}, tokenFile: {}, pools: [{POOL}]}}\n", file.display())
        };
        let tokens: String = self.names.iter().map(token).collect();
        format!(
            "members:
  - name: {OF_THE_DAEMON}
    kubeconfig: {{path: \"./{{name}}.kubeconfig\"}}
  # Paths of agents are relative to their --root.
  - name: \"*\"
    agent: {{pool: {POOL}}}
    kubeconfig: {{path: \"{{name}}.kubeconfig\"}}
agents:
  listen: \"127.0.0.1:{port}\"
  tls: {{certFile: {}, keyFile: {}}}
  lease: {LEASE}
  tokens:
{tokens}",
            certificate.display(),
            key.display()
        )
    }

    /// Starts the agents, which dial daemons at these ports, and returns when each has a session.
    ///
    /// # Errors
    /// When one cannot start or has no session in time; the error shows its log.
    pub(super) fn start(self, program: &Path, folder: &Path, daemons: &[u16]) -> Result<Vec<Agent>> {
        let mut agents = Vec::new();
        for name in &self.names {
            let port = free_port()?;
            let mut spec = Spec::new(name, program, folder).arg("agent");
            for daemon in daemons {
                spec = spec.flag("server", format!("https://127.0.0.1:{daemon}"));
            }
            let spec = spec
                .flag("name", name)
                .flag("pool", POOL)
                .flag("token-file", token_file(&folder.join("secrets"), name).display())
                .flag("ca-file", self.certificates.ca.display())
                .flag("state", folder.join(name).display())
                .flag("root", folder.display())
                .flag("listen", format!("127.0.0.1:{port}"));
            let command = [&[program.display().to_string()], spec.args.as_slice()].concat().join(" ");
            let log = spec.log();
            agents.push(Agent { name: name.clone(), port, log, command, process: spec.spawn()? });
        }
        for agent in &agents {
            agent.process.until(&format!("{} to have a session", agent.name), READY, || {
                Ok(http("GET", agent.port, "/readyz", &[], "").ok().filter(|(status, _)| *status == 200))
            })?;
        }
        Ok(agents)
    }
}

fn token_file(secrets: &Path, name: &str) -> PathBuf {
    secrets.join(format!("{name}-token"))
}

/// One running agent.
#[derive(Debug)]
pub struct Agent {
    pub name: String,
    /// Where it serves its probes on 127.0.0.1.
    pub port: u16,
    pub log: PathBuf,
    /// The command line that starts it.
    pub command: String,
    pub process: Process,
}

impl Agent {
    /// Returns what `State` keeps of it.
    pub(super) fn state(&self) -> Value {
        json!({
            "name": self.name,
            "url": format!("http://127.0.0.1:{}", self.port),
            "process": self.process.id(),
            "log": self.log,
            "command": self.command,
        })
    }
}

/// Returns lines that describe agents that were kept, one for each.
pub(super) fn list(agents: &Value) -> Vec<String> {
    let line = |agent: &Value| {
        let [name, url, log] = ["name", "url", "log"].map(|key| agent[key].as_str().unwrap_or_default());
        format!("{name:<12} {url}/readyz   process {}   log {log}", agent["process"])
    };
    agents.as_array().into_iter().flatten().map(line).collect()
}

/// Returns lines that say what to try with agents; none where there are no agents.
pub(super) fn advice(agents: &Value) -> Vec<String> {
    let Some(first) = agents.get(0) else { return Vec::new() };
    let process = &first["process"];
    vec![
        format!("The pool {POOL} delivers to staging-eu and prod-eu-1, the leader to {OF_THE_DAEMON}:"),
        format!("  kill -STOP {process}   # an agent is cut off: the others take its members after {LEASE}"),
        format!("  kill -CONT {process}   # it is back"),
        format!("  kill -KILL {process}   # it is dead; this starts it again, in the foreground:"),
        format!("  {}", first["command"].as_str().unwrap_or_default()),
    ]
}
