//! Daemons on one PostgreSQL, and agents that deliver for them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Fleet,
    agents::{self, Agent, Pool},
    console::{Console, keep},
    postgres::Postgres,
    process::{Process, Spec},
    wait::{free_port, http, secret},
};
use crate::program;

/// The lease of the leader: short, so that a failure is seen to end soon.
const LEASE: &str = "5s";
/// How long a daemon may take to be ready.
const READY: Duration = Duration::from_mins(1);

/// One daemon.
#[derive(Debug)]
pub struct Replica {
    pub name: String,
    /// Where it answers on 127.0.0.1.
    pub port: u16,
    pub process: Process,
}

/// The running daemons; dropping it ends them, the database last.
#[derive(Debug)]
pub struct Replicas {
    /// The agents. They end before the daemons that they dial.
    pub agents: Vec<Agent>,
    /// The daemons, in the order of their numbers.
    pub daemons: Vec<Replica>,
    /// File with the token of the person who commands.
    pub token: PathBuf,
    /// The database of all daemons.
    pub postgres: Postgres,
}

impl Replicas {
    /// Starts so many daemons and agents for a fleet with a console, and returns when all daemons are ready and all agents connected.
    ///
    /// # Errors
    /// When one cannot start or is not ready in time; the error shows its log.
    pub fn start(fleet: &Fleet, console: &Console, daemons: usize, agents: usize) -> Result<Self> {
        let (folder, url) = (fleet.folder(), &fleet.gitea()?.url);
        let program = program();
        let postgres = Postgres::start(folder).context("start PostgreSQL")?;
        let secrets = folder.join("secrets");
        keep(&secrets.join("postgres-password"), &postgres.password)?;
        let token = secrets.join("person-token");
        keep(&token, &secret())?;
        let pool = if agents > 0 { Some(Pool::prepare(&secrets, agents)?) } else { None };
        let mut replicas = Self { agents: Vec::new(), daemons: Vec::new(), token, postgres };
        let mut dialled = Vec::new();
        for number in 1..=daemons {
            let (name, port) = (format!("replica-{number}"), free_port()?);
            let config = folder.join(format!("{name}.yaml"));
            let members = match &pool {
                Some(pool) => {
                    dialled.push(free_port()?);
                    pool.sections(&secrets, dialled[number - 1])
                }
                None => MEMBERS.to_owned(),
            };
            let own = sections(&name, port, &replicas.postgres.url);
            console.write_configuration(&config, url, &(members + &own))?;
            let process = Spec::new(&name, program, folder).arg("run").arg("-c").arg(config.display().to_string());
            replicas.daemons.push(Replica { name, port, process: process.spawn()? });
        }
        for replica in &replicas.daemons {
            replica.process.until(&format!("{} to be ready", replica.name), READY, || {
                Ok(http("GET", replica.port, "/readyz", &[], "").ok().filter(|(status, _)| *status == 200))
            })?;
        }
        if let Some(pool) = pool {
            replicas.agents = pool.start(program, folder, &dialled)?;
        }
        Ok(replicas)
    }

    /// Lets everything run on without a handle.
    pub(super) fn release(&self) {
        let agents = self.agents.iter().map(|agent| &agent.process);
        let daemons = self.daemons.iter().map(|replica| &replica.process);
        agents.chain(daemons).chain([&self.postgres.server]).for_each(Process::release);
    }

    /// Returns what `State` keeps of it.
    pub(super) fn state(&self, folder: &Path) -> Value {
        let part = |part: &Replica| json!({ "name": part.name, "url": format!("http://127.0.0.1:{}", part.port) });
        let configuration = |part: &Replica| json!(folder.join(format!("{}.yaml", part.name)));
        json!({
            "daemons": self.daemons.iter().map(part).collect::<Vec<_>>(),
            "agents": self.agents.iter().map(Agent::state).collect::<Vec<_>>(),
            "configurations": self.daemons.iter().map(configuration).collect::<Vec<_>>(),
            "token": self.token,
            "postgres": self.postgres.url,
        })
    }
}

/// Members of daemons without agents.
const MEMBERS: &str = "members:
  - name: \"*\"
    kubeconfig: {path: \"./{name}.kubeconfig\"}
";

/// Returns what differs between the configurations of daemons.
fn sections(name: &str, port: u16, postgres: &str) -> String {
    format!(
        "store:
  path: ./{name}
  postgres:
    url: \"{postgres}\"
    passwordFile: ./secrets/postgres-password
    # The server is on this machine.
    sslMode: disable
    lease: {LEASE}
http:
  listen: \"127.0.0.1:{port}\"
  page: command
  tokens: [{{name: person, tokenFile: ./secrets/person-token}}]
"
    )
}

/// Describes daemons that were kept, and what to try.
pub(super) fn describe(replicas: &Value) -> String {
    let mut lines = vec![String::new()];
    for part in replicas["daemons"].as_array().into_iter().flatten() {
        let [name, url] = ["name", "url"].map(|key| part[key].as_str().unwrap_or_default());
        lines.push(format!("{name:<12} {url}/readyz"));
    }
    lines.extend(agents::list(&replicas["agents"]));
    let [token, postgres] = ["token", "postgres"].map(|key| replicas[key].as_str().unwrap_or_default());
    let first = replicas["configurations"][0].as_str().unwrap_or_default();
    lines.extend([
        format!("{:<12} {postgres}", "postgres"),
        String::new(),
        "All of them run. Next (docs/high-availability.md continues from here):".to_owned(),
        format!("  export GITFLEET_TOKEN=$(cat {token})"),
        format!("  cargo run -- status -c {first}"),
        "  kill -KILL ID     # of the leader; `tests/fleet.sh status` lists the ids".to_owned(),
    ]);
    lines.extend(agents::advice(&replicas["agents"]));
    lines.join("\n")
}
