//! Several daemons on one PostgreSQL, and agents that deliver to the clusters for them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Fleet,
    console::{Console, keep},
    postgres::Postgres,
    process::{Process, Spec},
    wait::{free_port, http, secret},
};

/// The pool that all agents are in.
const POOL: &str = "fleet";
/// The lease of the leader, and that of each agent: short, so that a failure is seen to end soon.
const LEASE: &str = "5s";
/// How long a daemon may take to be ready, and an agent to be connected.
const READY: Duration = Duration::from_mins(1);

/// One daemon or agent.
#[derive(Debug)]
pub struct Part {
    pub name: String,
    /// Where it answers on 127.0.0.1.
    pub port: u16,
    pub process: Process,
}

/// The running daemons and agents; dropping it ends them, the database last.
#[derive(Debug)]
pub struct Replicas {
    pub daemons: Vec<Part>,
    pub agents: Vec<Part>,
    /// File with the token of the person who commands.
    pub token: PathBuf,
    pub postgres: Postgres,
}

/// Where one daemon listens.
struct Ports {
    http: u16,
    agents: u16,
}

impl Replicas {
    /// Starts so many daemons and agents for a fleet with a console, and returns when all are ready.
    ///
    /// # Errors
    /// When one cannot start or is not ready in time; the error shows its log.
    pub fn start(fleet: &Fleet, console: &Console, daemons: usize, agents: usize) -> Result<Self> {
        let (folder, url) = (fleet.folder(), &fleet.gitea()?.url);
        let program = program()?;
        let postgres = Postgres::start(folder).context("start PostgreSQL")?;
        let secrets = folder.join("secrets");
        keep(&secrets.join("postgres-password"), &postgres.password)?;
        let token = secrets.join("person-token");
        keep(&token, &secret())?;
        for number in 1..=agents {
            keep(&secrets.join(format!("agent-{number}-token")), &secret())?;
        }
        let ports = (0..daemons).map(|_| Ok(Ports { http: free_port()?, agents: free_port()? }));
        let ports: Vec<Ports> = ports.collect::<Result<_>>()?;
        let mut replicas = Self { daemons: Vec::new(), agents: Vec::new(), token, postgres };
        for (index, own) in ports.iter().enumerate() {
            let name = format!("replica-{}", index + 1);
            let config = folder.join(format!("{name}.yaml"));
            console.write_configuration(&config, url, &sections(&name, own, &replicas.postgres.url, agents))?;
            let process = Spec::new(&name, &program, folder).arg("run").arg("-c").arg(config.display().to_string());
            replicas.daemons.push(Part { name, port: own.http, process: process.spawn()? });
        }
        for number in 1..=agents {
            replicas.agents.push(agent(folder, &program, number, &ports)?);
        }
        for part in replicas.daemons.iter().chain(&replicas.agents) {
            part.process.until(&format!("{} to be ready", part.name), READY, || {
                Ok(http("GET", part.port, "/readyz", &[], "").ok().filter(|(status, _)| *status == 200))
            })?;
        }
        Ok(replicas)
    }

    /// Lets everything run on without a handle.
    pub(super) fn release(&self) {
        let parts = self.daemons.iter().chain(&self.agents).map(|part| &part.process);
        parts.chain([&self.postgres.server]).for_each(Process::release);
    }

    /// Returns what `State` keeps of it.
    pub(super) fn state(&self, folder: &Path) -> Value {
        let part = |part: &Part| json!({ "name": part.name, "url": format!("http://127.0.0.1:{}", part.port) });
        let configuration = |part: &Part| json!(folder.join(format!("{}.yaml", part.name)));
        json!({
            "daemons": self.daemons.iter().map(part).collect::<Vec<_>>(),
            "configurations": self.daemons.iter().map(configuration).collect::<Vec<_>>(),
            "agents": self.agents.iter().map(part).collect::<Vec<_>>(),
            "token": self.token,
            "postgres": self.postgres.url,
        })
    }
}

/// Starts one agent.
fn agent(folder: &Path, program: &Path, number: usize, servers: &[Ports]) -> Result<Part> {
    let (name, port) = (format!("agent-{number}"), free_port()?);
    let mut spec = Spec::new(&name, program, folder).arg("agent");
    for server in servers {
        spec = spec.flag("server", format!("http://127.0.0.1:{}", server.agents));
    }
    let spec = spec.flag("name", &name).flag("pool", POOL).flag("listen", format!("127.0.0.1:{port}"));
    let spec = spec.flag("token-file", folder.join(format!("secrets/{name}-token")).display());
    let spec = spec.flag("state", folder.join(&name).display()).flag("root", folder.display());
    Ok(Part { name, port, process: spec.spawn()? })
}

/// Returns what differs between the configurations of daemons.
fn sections(name: &str, ports: &Ports, postgres: &str, agents: usize) -> String {
    let Ports { http, agents: listen } = ports;
    let reached = if agents > 0 { format!("\n    agent: {{pool: {POOL}}}") } else { String::new() };
    let tokens = |number| {
        format!("\n    - {{name: agent-{number}, tokenFile: ./secrets/agent-{number}-token, pools: [{POOL}]}}")
    };
    let tokens: String = (1..=agents).map(tokens).collect();
    let section = if agents > 0 {
        format!("agents:\n  listen: \"127.0.0.1:{listen}\"\n  lease: {LEASE}\n  tokens:{tokens}\n")
    } else {
        String::new()
    };
    // A path of an agent is relative, below the folder that the agent was given.
    let path = if agents > 0 { "{name}.kubeconfig" } else { "./{name}.kubeconfig" };
    format!(
        "members:
  - name: \"*\"{reached}
    kubeconfig: {{path: \"{path}\"}}
store:
  path: ./{name}
  postgres:
    url: \"{postgres}\"
    passwordFile: ./secrets/postgres-password
    # The server is on this machine.
    sslMode: disable
    lease: {LEASE}
http:
  listen: \"127.0.0.1:{http}\"
  page: command
  tokens: [{{name: person, tokenFile: ./secrets/person-token}}]
{section}"
    )
}

/// Describes daemons and agents that were kept, and what to try.
pub(super) fn describe(replicas: &Value) -> String {
    let mut lines = vec![String::new()];
    for part in ["daemons", "agents"].into_iter().flat_map(|key| replicas[key].as_array().into_iter().flatten()) {
        let [name, url] = ["name", "url"].map(|key| part[key].as_str().unwrap_or_default());
        lines.push(format!("{name:<12} {url}/readyz"));
    }
    let [token, postgres] = ["token", "postgres"].map(|key| replicas[key].as_str().unwrap_or_default());
    let first = replicas["configurations"][0].as_str().unwrap_or_default();
    lines.extend([
        format!("{:<12} {postgres}", "postgres"),
        String::new(),
        "All daemons run. Next (docs/high-availability.md continues from here):".to_owned(),
        format!("  export GITFLEET_TOKEN=$(cat {token})"),
        format!("  cargo run -- status -c {first}"),
        "  kill -KILL ID     # of the leader; `tests/fleet.sh status` lists the ids".to_owned(),
    ]);
    lines.join("\n")
}

/// Returns the gitfleet that was built with this program.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    // Examples and tests are one folder below.
    let built = own.parent().and_then(Path::parent).map(|folder| folder.join("gitfleet")).filter(|path| path.exists());
    built.context("gitfleet is not built: cargo build")
}
