//! How fast the daemon answers whoever looks at it: at rest, and while reports arrive.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::figures::{calls, figures};
use super::streams::open_pages;
use super::{FleetSize, app};
use crate::client::connect;
use crate::daemon::{Daemon, World};
use crate::fleet::http;
use crate::machine::summary;

/// Calls of each page at rest: a thousand with all pages.
const PAGE_CALLS: usize = 200;
/// Objects that somebody deletes in a second. Each is noticed, applied again and reported.
const DELETED_A_SECOND: u32 = 100;
/// Clusters that the deletions go to, in turn.
const TOUCHED_MAX: usize = 100;

/// Asks for the first page of everything; returns the times and bytes of each.
pub fn pages(world: &World, size: FleetSize, calls: usize) -> Result<Value> {
    let placement = format!("/api/v1/placements/{}", app(size.placements / 2));
    let mut all = Map::new();
    for path in ["/api/v1/summary", "/api/v1/placements", &placement, "/api/v1/clusters", "/api/v1/works"] {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..calls {
            let started = Instant::now();
            let (code, body) = http("GET", world.port(), path, &[], "")?;
            times.push(started.elapsed());
            ensure!(code == 200, "{path} is answered with {code}: {body}");
            bytes = body.len();
        }
        let mut result = summary(&times);
        result["bytes"] = json!(bytes);
        all.insert(path.to_owned(), result);
    }
    Ok(Value::Object(all))
}

/// Asks at rest: the command line, then a thousand pages of the API, and what that leaves in memory; then live pages are open.
pub fn at_rest(world: &World, daemon: &Daemon, size: FleetSize) -> Result<Value> {
    Ok(json!({
        "commands": calls(world, size)?, "pages": pages(world, size, PAGE_CALLS)?, "after": figures(daemon)?,
        "openPages": open_pages(world, daemon, size, "at rest")?,
    }))
}

/// Asks while somebody deletes objects on the members all the time.
pub async fn under_reports(
    world: &Arc<World>,
    daemon: &Daemon,
    size: FleetSize,
    kubeconfigs: Vec<PathBuf>,
) -> Result<Value> {
    let mut clients = Vec::new();
    for path in kubeconfigs.iter().take(TOUCHED_MAX) {
        clients.push(connect(path).await?);
    }
    let (ended, deleted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let disturbing = tokio::spawn(delete_all_the_time(clients, size, Arc::clone(&ended), Arc::clone(&deleted)));
    let before = daemon.cpu_seconds()?;
    let started = Instant::now();
    let asked = Arc::clone(world);
    let answers = tokio::task::spawn_blocking(move || {
        Ok::<_, anyhow::Error>(json!({"commands": calls(&asked, size)?, "pages": pages(&asked, size, PAGE_CALLS)?}))
    });
    let mut answers = answers.await.context("the task that asks")??;
    let seconds = started.elapsed().as_secs_f64();
    let core_share = (daemon.cpu_seconds()? - before) / seconds;
    answers["openPages"] = tokio::task::block_in_place(|| open_pages(world, daemon, size, "under reports"))?;
    let deleted_seconds = started.elapsed().as_secs_f64();
    ended.store(true, Ordering::Relaxed);
    disturbing.await.context("the task that deletes")??;
    answers["seconds"] = json!(seconds);
    answers["deletedASecond"] = json!(deleted.load(Ordering::Relaxed) as f64 / deleted_seconds);
    answers["coreShare"] = json!(core_share);
    Ok(answers)
}

async fn delete_all_the_time(
    clients: Vec<Client>,
    size: FleetSize,
    ended: Arc<AtomicBool>,
    deleted: Arc<AtomicU64>,
) -> Result<()> {
    let mut pace = tokio::time::interval(Duration::from_secs(1) / DELETED_A_SECOND);
    for number in 0.. {
        pace.tick().await;
        if ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Another object each time: one that goes again and again counts as contested.
        let (client, rest) = (&clients[number % clients.len()], number / clients.len());
        let (placement, object) = (rest % size.placements, rest / size.placements % size.objects);
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &app(placement));
        api.delete(&format!("c-{object:04}"), &DeleteParams::default()).await.context("delete an object")?;
        deleted.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
