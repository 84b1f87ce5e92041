//! A daemon that is killed again and again while it rolls a change out: what the next lives find, and what they write twice.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cluster::IN_FLIGHT_MAX;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use plan::simulate::Dice;
use serde_json::{Value, json};

use super::double::{Double, writes};
use super::{FleetSize, settle, tail, write_objects};
use crate::client::connect;
use crate::daemon::World;

/// How often it is killed.
const KILLS: u64 = 10;
/// Clusters whose objects are checked in the end.
const CHECKED: usize = 50;
/// What the objects hold in the end.
const CHANGED: &str = "changed";

/// Kills the daemon at random moments of a rollout, each life at most `longest`, and lets the last life finish it.
pub async fn kills(world: &World, double: &Double, size: FleetSize, seed: u64, longest: Duration) -> Result<Value> {
    write_objects(world, size, CHANGED)?;
    world.commit("Change")?;
    double.reset()?;
    let mut dice = Dice::new(seed);
    let longest = u64::try_from(longest.as_millis()).context("a life in milliseconds")?;
    let mut lives = Vec::new();
    for _ in 0..KILLS {
        let daemon = world.start()?;
        let life = dice.below(longest);
        thread::sleep(Duration::from_millis(life));
        // Dropping it kills it, without a word before.
        drop(daemon);
        lives.push(json!({"milliseconds": life, "writes": writes(&double.counters()?)}));
    }
    let daemon = world.start()?;
    let settled = settle(&[&daemon], size, size.placements).with_context(|| tail(world))?;
    let counters = double.counters()?;
    let written = writes(&counters);
    // Each ConfigMap once, and its pair's inventory before and after.
    let needed = (size.pairs() * (size.objects + 2)) as u64;
    let versions = counters["versions"].as_u64().unwrap_or_default();
    let most = needed + KILLS * (IN_FLIGHT_MAX * size.members) as u64;
    ensure!(written <= most, "{written} writes, more than {most}: lives repeat what was done");
    for number in 0..size.members.min(CHECKED) {
        let client = connect(&double.kubeconfig(number)).await?;
        let parameters = ListParams::default().labels("applyset.kubernetes.io/part-of");
        let found = Api::<ConfigMap>::all(client).list(&parameters).await.context("list what is there")?.items;
        let changed = found.iter().filter(|map| map.data.iter().flatten().any(|(_, value)| value == CHANGED)).count();
        ensure!(changed == size.placements * size.objects, "cluster {number} has {changed} changed objects");
    }
    Ok(json!({
        "seed": seed, "lives": lives, "settled": settled, "writes": written, "changes": versions, "needed": needed,
        "mostAllowed": most,
    }))
}
