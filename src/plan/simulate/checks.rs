//! Checks in a simulation: nobody is asked, every answer is within its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::deployment::Deployment;
use super::{Happening, Simulation};
use config::PrometheusServer;
use decide::strategies::Staged;
use engine::{Core, Event};
use model::runs::MetricQuery;

/// The server of checks that name none.
const SERVER: &str = "main";
/// How often a query is asked: once, because its answer never changes.
const INTERVAL: Duration = Duration::from_hours(24 * 365);

/// Returns the servers that the checks of strategies name.
pub(super) fn servers(strategies: &[Staged]) -> Vec<PrometheusServer> {
    let mut names: BTreeSet<&str> = strategies.iter().flat_map(Staged::metric_servers).collect();
    if names.is_empty() {
        names.insert(SERVER);
    }
    let servers = names.into_iter().map(|name| PrometheusServer {
        name: name.to_owned(),
        url: String::new(),
        token_file: None,
        ca_file: None,
        allow_insecure_http: false,
        interval: INTERVAL,
        timeout: INTERVAL,
    });
    servers.collect()
}

impl<D: Deployment> Simulation<D> {
    /// Answers queries, each with a number within its limits.
    pub(super) fn answer_queries(&mut self, queries: BTreeSet<MetricQuery>) {
        for query in queries {
            let value = self.core().and_then(|core| within_limits(core, &query));
            let event = Event::Answered(query, value.ok_or_else(|| "nobody knows its limits".to_owned()));
            self.push_in(self.latencies.report, Happening::Hear(self.process.life, Box::new(event)));
        }
    }
}

fn within_limits(core: &Core, query: &MetricQuery) -> Option<f64> {
    let runs: &BTreeMap<_, _> = core.placements().get(&query.placement)?.runs.records();
    let stage = runs.get(&query.run)?.stages.iter().find(|stage| stage.name == query.stage)?;
    let check = stage.checks.as_ref()?.given.metrics.iter().find(|check| check.name == query.metric)?;
    check.max.or(check.min)
}
