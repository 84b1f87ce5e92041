//! B13: a commit until it is applied, with the records on PostgreSQL and by an agent, beside the embedded store and the floor.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::{Value, json};

use crate::client::{Eyes, apply_everywhere, config_maps, create_namespace, names};
use crate::daemon::{Daemon, World};
use crate::database::Database;
use crate::fleet::{Fleet, Member, Options, Postgres, ServerHome};
use crate::fleets::{CHANGED, COMMITS, WARM_UP, await_held, clients, place};
use crate::machine::{load, ratio, summary};
use crate::pool::{self, Pool};

/// The lease of the leader: the default.
const LEASE: &str = "15s";
/// The ways that are compared with the floor and with each other.
const WAYS: [&str; 3] = ["embedded", "postgres", "agent"];

/// One way from a commit to the members.
struct Way {
    /// What it is called.
    name: &'static str,
    /// The name of its placement.
    app: String,
    world: World,
    processes: Vec<Daemon>,
}

impl Way {
    fn start(name: &'static str, world: World, members: &[Member]) -> Result<Self> {
        let app = format!("{name}-{}", members.len());
        place(&world, &app)?;
        let processes = vec![world.start()?];
        Ok(Self { name, app, world, processes })
    }

    /// The daemon has its records in a file.
    fn embedded(members: &[Member]) -> Result<Self> {
        Self::start(WAYS[0], World::new(members)?, members)
    }

    /// Its records are on PostgreSQL.
    fn postgres(members: &[Member], postgres: &Postgres) -> Result<Self> {
        let world = World::new(members)?;
        world.share_store(postgres, &format!("clusters_{}", members.len()), LEASE)?;
        Self::start(WAYS[1], world, members)
    }

    /// Its records are in a file, and an agent delivers.
    fn agent(members: &[Member]) -> Result<Self> {
        let world = World::new(members)?;
        let kubeconfigs = world.path().join("kubeconfigs");
        fs::create_dir_all(&kubeconfigs)?;
        for member in members {
            fs::copy(&member.kubeconfig, kubeconfigs.join(format!("{}.kubeconfig", member.name)))?;
            let path = member.kubeconfig.display();
            let access = format!("  - name: {}\n    kubeconfig: {{path: {path}}}\n", member.name);
            world.reconfigure(&access, &pool::access(&member.name))?;
        }
        let agents = Pool::prepare(&world, 1)?;
        let mut way = Self::start(WAYS[2], world, members)?;
        let started = agents.start(&way.world, &way.processes[0], &kubeconfigs)?;
        way.processes.extend(started);
        Ok(way)
    }

    /// Commits changed objects, and returns how long it took until all clusters held them.
    async fn measure(&self, eyes: &mut Eyes, names: &[String], round: usize) -> Result<Duration> {
        let value = format!("round-{round}");
        self.world.write_config_maps(&self.app, names, &value)?;
        let committed = self.world.commit(&value)?;
        let applied = eyes.await_value(&self.app, names, &value).await.with_context(|| self.world.log())?;
        await_held(eyes, &self.app, round).await.with_context(|| self.world.log())?;
        Ok(applied - committed)
    }
}

/// Measures one commit by each way, then the floors, again and again.
pub async fn ways() -> Result<Value> {
    let home = ServerHome::temporary()?;
    let postgres = Postgres::start_durable(home.folder())?;
    let fleet = Fleet::start(Options::members(4))?;
    let mut results = BTreeMap::new();
    for count in [1, 4] {
        let found = commits(&fleet.members[..count], &postgres).await;
        let times = found.with_context(|| format!("B13 on {count} clusters"))?;
        let of = |name: &str| summary(&times[name])["p50Ms"].as_f64().unwrap_or_default();
        let mut result: Value = times.iter().map(|(name, times)| ((*name).to_owned(), summary(times))).collect();
        for way in WAYS {
            result[way]["toFloor"] = json!(ratio(of(way), of("floor")));
            result[way]["toEmbedded"] = json!(ratio(of(way), of(WAYS[0])));
        }
        result["load"] = load();
        eprintln!("B13, {count} clusters: {result}");
        results.insert(count.to_string(), result);
    }
    Ok(json!({"changedObjects": CHANGED, "clusters": results}))
}

/// Returns the times of each way by its name, of the bare applies, and of a durable transaction of PostgreSQL.
async fn commits(members: &[Member], postgres: &Postgres) -> Result<BTreeMap<&'static str, Vec<Duration>>> {
    let clients = clients(members).await?;
    let mut eyes = Eyes::open(members).await?;
    let bare = format!("floor-{}", members.len());
    create_namespace(&clients, &bare).await?;
    let database = Database::connect(postgres).await?;
    let ways = [Way::embedded(members)?, Way::postgres(members, postgres)?, Way::agent(members)?];
    let names = names(CHANGED);
    let mut times = BTreeMap::<&str, Vec<Duration>>::new();
    for round in 0..WARM_UP + COMMITS {
        let mut measured = Vec::new();
        for way in &ways {
            measured.push((way.name, way.measure(&mut eyes, &names, round).await?));
        }
        measured.push(("floor", floor(&clients, &mut eyes, &bare, &format!("round-{round}")).await?));
        measured.push(("postgresCommit", database.commit().await?));
        if round >= WARM_UP {
            for (of, time) in measured {
                times.entry(of).or_default().push(time);
            }
        }
    }
    Ok(times)
}

async fn floor(clients: &[Client], eyes: &mut Eyes, namespace: &str, value: &str) -> Result<Duration> {
    let maps = config_maps(namespace, CHANGED, value);
    let started = Instant::now();
    apply_everywhere(clients, &maps, CHANGED).await?;
    Ok(eyes.await_value(namespace, &names(CHANGED), value).await? - started)
}
