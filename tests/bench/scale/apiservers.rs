//! A fleet of live members behind the double of API servers, beside the floor of the same run: bare server-side apply and bare lists of
//! the same objects by kube's client, all clusters at once.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::answers::{at_rest, under_reports};
use super::double::{Double, Manner, requests, writes};
use super::figures::{end, seconds, store_bytes};
use super::kills::kills;
use super::{FleetSize, app, settle, tail, write_fleet};
use crate::client::{Apply, config_maps, connect, namespace, request};
use crate::daemon::World;
use crate::machine::{load, profile, ratio};

/// Requests of the floor in flight to each cluster. More were not faster.
const IN_FLIGHT: usize = 16;
/// Objects of one page, as gitfleet's lists have.
const PAGE: u32 = 500;
/// How long nothing happens, to see who asks for something all the same.
pub const SILENCE: Duration = Duration::from_mins(1);
/// How often the daemon is started again, by turns with bare lists: what a machine does changes within minutes.
const RESTARTS: usize = 3;
/// Lives that a rollout would take if each did its part and no restart took time.
const LIVES_OF_A_ROLLOUT: f64 = 10.0;

/// Runs the daemon over a fleet of live members. With `kill_seed` it is killed at random moments of a rollout in the end.
pub async fn apiservers(size: FleetSize, manner: &Manner, kill_seed: Option<u64>) -> Result<Value> {
    let kubeconfigs = tempfile::TempDir::new()?;
    let floor = floor(size, manner, kubeconfigs.path()).await?;
    eprintln!("floor: {floor}");
    let double = Double::start(size.members, manner, kubeconfigs.path())?;
    let access =
        format!("  - {{name: '*', kubeconfig: {{path: '{}/{{name}}.kubeconfig'}}}}\n", kubeconfigs.path().display());
    let world = Arc::new(World::configured("{url: ./repo, branch: main}", &access, "")?);
    write_fleet(&world, size)?;

    let daemon = world.start()?;
    let mut cold = settle(&[&daemon], size, 0).with_context(|| tail(&world))?;
    cold["server"] = counted(&double)?;
    eprintln!("delivered: {cold}");
    let asked = at_rest(&world, &daemon, size)?;
    double.reset()?;
    let before = daemon.cpu_seconds()?;
    thread::sleep(SILENCE);
    let silence = json!({
        "seconds": SILENCE.as_secs(), "cpuSeconds": daemon.cpu_seconds()? - before, "server": counted(&double)?,
    });
    let end_cold = end(daemon)?;
    eprintln!("answers: {asked}, silence: {silence}, ended in {end_cold}");

    let (mut restarts, mut lists, mut ends) = (Vec::new(), Vec::new(), vec![end_cold]);
    let daemon = loop {
        lists.push(bare_lists(connected(&double, size).await?).await?);
        double.reset()?;
        let daemon = world.start()?;
        let mut restart = settle(&[&daemon], size, 0).with_context(|| tail(&world))?;
        restart["server"] = counted(&double)?;
        eprintln!("bare lists: {}, restarted: {restart}", lists[restarts.len()]);
        restarts.push(restart);
        if restarts.len() == RESTARTS {
            break daemon;
        }
        ends.push(end(daemon)?);
    };
    let kubeconfigs = (0..size.members).map(|number| double.kubeconfig(number)).collect();
    let busy = under_reports(&world, &daemon, size, kubeconfigs).await?;
    eprintln!("under reports: {busy}");
    ends.push(end(daemon)?);
    let killed = match kill_seed {
        Some(seed) => {
            // A restart, and a part of the rollout that ten lives together do not finish.
            let longest = seconds(&restarts[0]) + seconds(&cold) / LIVES_OF_A_ROLLOUT;
            kills(&world, &double, size, seed, Duration::from_secs_f64(longest)).await?
        }
        None => Value::Null,
    };
    let store = store_bytes(&world);
    let resident = restarts[RESTARTS - 1]["residentKb"].as_f64().unwrap_or_default();
    let ratios = restarts.iter().zip(&lists).map(|(restart, list)| ratio(seconds(restart), seconds(list)));
    Ok(json!({
        "members": size.members, "placements": size.placements, "objectsOfPlacement": size.objects,
        "latency": manner.latency, "faults": manner.faults, "pairs": size.pairs(), "objects": size.total(),
        "cold": cold, "coldRatio": ratio(seconds(&cold), floor["applySeconds"].as_f64().unwrap_or_default()),
        "answers": asked, "underReports": busy, "kills": killed, "silence": silence,
        "restartRatios": ratios.collect::<Vec<f64>>(), "restarts": restarts, "bareLists": lists, "floor": floor,
        "residentBytesPerObject": (resident * 1024.0 / size.total() as f64).round(),
        "storeBytes": store, "storeBytesPerPair": store / size.pairs() as u64,
        "endSeconds": ends,
        "profile": profile(), "load": load(),
    }))
}

/// Returns what the double counted, with sums.
pub fn counted(double: &Double) -> Result<Value> {
    let mut counters = double.counters()?;
    counters["allRequests"] = json!(requests(&counters));
    counters["allWrites"] = json!(writes(&counters));
    counters["residentKb"] = json!(double.memory_kb()?);
    Ok(counters)
}

/// Applies the same objects to a double of its own, and lists them.
pub async fn floor(size: FleetSize, manner: &Manner, folder: &std::path::Path) -> Result<Value> {
    let double = Double::start(size.members, manner, folder)?;
    let started = Instant::now();
    let clients = connected(&double, size).await?;
    let connected = started.elapsed();

    let namespaces: Arc<Vec<Apply>> = Arc::new((0..size.placements).map(|number| namespace(&app(number))).collect());
    let maps = (0..size.placements).flat_map(|number| config_maps(&app(number), size.objects, "settled"));
    let maps: Arc<Vec<Apply>> = Arc::new(maps.collect());
    let started = Instant::now();
    everywhere(clients.clone(), |client| {
        let (namespaces, maps) = (Arc::clone(&namespaces), Arc::clone(&maps));
        async move {
            apply_all(&client, &namespaces).await?;
            apply_all(&client, &maps).await
        }
    })
    .await?;
    let applied = started.elapsed();

    let lists = bare_lists(clients).await?;
    Ok(json!({
        "connectSeconds": connected.as_secs_f64(), "applySeconds": applied.as_secs_f64(), "lists": lists,
        "server": counted(&double)?,
    }))
}

/// Connects to every cluster.
pub async fn connected(double: &Double, size: FleetSize) -> Result<Vec<Client>> {
    let paths = (0..size.members).map(|number| double.kubeconfig(number)).collect();
    everywhere(paths, |path| async move { connect(&path).await }).await
}

/// Lists what gitfleet lists, on all clusters at once. Returns how many objects there are, and how long that took.
pub async fn bare_lists(clients: Vec<Client>) -> Result<Value> {
    let started = Instant::now();
    let found = everywhere(clients, |client| async move { list(client).await }).await?;
    Ok(json!({"objects": found.iter().sum::<usize>(), "seconds": started.elapsed().as_secs_f64()}))
}

/// Applies prepared objects to a cluster.
async fn apply_all(client: &Client, applies: &Arc<Vec<Apply>>) -> Result<()> {
    let requests = (0..applies.len()).map(|at| {
        let (client, applies) = (client.clone(), Arc::clone(applies));
        async move { client.request_text(request(&applies[at])).await.map(drop) }
    });
    let answers = stream::iter(requests).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>();
    answers.await.context("bare server-side apply").map(drop)
}

/// Lists all ConfigMaps of a cluster that have the label that gitfleet watches by; returns how many.
async fn list(client: Client) -> Result<usize> {
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::all(client);
    let mut parameters = ListParams::default().labels("applyset.kubernetes.io/part-of").limit(PAGE);
    let mut count = 0;
    loop {
        // Everything is sent, as gitfleet needs it, and read as far as metadata.
        let page = api.list(&parameters).await.context("a bare list")?;
        count += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(count),
        }
    }
}

/// Does the same for all at once, on all cores; the results come in the order of what they are of.
async fn everywhere<I: Send + 'static, T: Send + 'static, F>(of: Vec<I>, work: impl Fn(I) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (position, item) in of.into_iter().enumerate() {
        let work = work(item);
        tasks.spawn(async move { work.await.map(|result| (position, result)) });
    }
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        results.push(result.context("a task of the floor")??);
    }
    results.sort_by_key(|(position, _)| *position);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
