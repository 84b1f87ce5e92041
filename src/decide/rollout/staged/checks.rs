//! Checks of a stage: which queries to ask, what the answers mean, and whether the checks hold.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::machine::Situation;
use super::messages::NAMED_CLUSTERS_MAX;
use model::api::stage_checks::MetricCheck;
use model::moment::moment;
use model::names::first_of;
use model::runs::{
    ClusterPhase, MetricAnswer, MetricQuery, MetricReply, MetricServers, MetricState, RunRecord, StagePhase,
    StageRecord, number_text,
};

/// An answer counts for this many intervals of its server.
const FRESH_INTERVALS: u32 = 2;

/// Returns the queries to ask for a run: those of a stage that waits, as long as it waits.
pub fn queries(run: &RunRecord, servers: &MetricServers) -> Vec<MetricQuery> {
    let Some((stage, checks)) = run.waiting_checks() else { return Vec::new() };
    let queries = checks.metrics().filter_map(|(check, state)| {
        let (server, _) = server(check, servers).ok()?;
        Some(query(run, stage, check, state?.asked_since, server))
    });
    queries.collect()
}

fn query(run: &RunRecord, stage: &StageRecord, check: &MetricCheck, since: Timestamp, server: &str) -> MetricQuery {
    MetricQuery {
        placement: run.placement.clone(),
        run: run.name.clone(),
        stage: stage.name.clone(),
        metric: check.name.clone(),
        since,
        server: server.to_owned(),
        query: check.query.clone(),
    }
}

/// Records what the servers said to the queries of a run.
pub fn record_replies(run: &mut RunRecord, replies: &BTreeMap<MetricQuery, MetricReply>) {
    for (query, reply) in replies.iter().filter(|(query, _)| query.run == run.name) {
        let mut waiting = run.stages.iter_mut().filter(|stage| stage.phase == StagePhase::WaitingAfter);
        let asked = waiting.find(|stage| stage.name == query.stage);
        let Some(checks) = asked.and_then(|stage| stage.checks.as_mut()) else { continue };
        let check = checks.given.metrics.iter().find(|check| check.name == query.metric);
        // An answer to a query that was asked before a retry is none to the present one.
        let state = checks.metrics.get_mut(&query.metric).filter(|state| state.asked_since == query.since);
        let Some((check, state)) = check.zip(state) else { continue };
        match &reply.value {
            Ok(value) => {
                let answer = MetricAnswer { at: reply.at, value: *value };
                state.answer = Some(answer);
                state.problem = None;
                state.failed = if check.admits(*value) { None } else { Some(state.failed.unwrap_or(answer)) };
            }
            Err(why) => state.problem = Some(why.clone()),
        }
    }
}

/// Describes the checks of a run whose answers are outside their limits; `None` if there are none.
pub fn failed_checks(run: &RunRecord) -> Option<String> {
    let (stage, checks) = run.waiting_checks()?;
    let failed = checks.metrics().filter_map(|(check, state)| {
        let value = number_text(state?.failed?.value);
        Some(format!("the check {} answers {value}, allowed: {}", check.name, check.limits()))
    });
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        return None;
    }
    Some(format!("stage {}: {}", stage.name, failed.join(", and ")))
}

/// Begins to ask the queries of a stage that begins to wait.
pub(super) fn begin(stage: &mut StageRecord, now: Timestamp) {
    let Some(checks) = &mut stage.checks else { return };
    checks.asked_at = Some(now);
    let names = checks.given.metrics.iter().map(|check| check.name.clone());
    checks.metrics = names.map(|name| (name, MetricState::asked(now))).collect();
}

/// Asks again what was answered wrongly or not at all. Returns the names of these checks.
pub(super) fn ask_again(stage: &mut StageRecord, now: Timestamp) -> Vec<String> {
    let metrics = stage.checks.iter_mut().flat_map(|checks| &mut checks.metrics);
    let again = metrics.filter(|(_, state)| state.failed.is_some() || state.problem.is_some());
    again
        .map(|(name, state)| {
            *state = MetricState::asked(now);
            name.clone()
        })
        .collect()
}

/// Records since when the clusters of a stage are available, without interruption, and which of its queries nobody can be asked.
pub(super) fn settle(stage: &mut StageRecord, situation: &Situation<'_>, now: Timestamp) {
    let is_healthy = unhealthy(stage, situation).is_empty();
    let Some(checks) = &mut stage.checks else { return };
    checks.healthy_since = if is_healthy { checks.healthy_since.or(Some(now)) } else { None };
    for check in &checks.given.metrics {
        if let (Err(why), Some(state)) = (server(check, situation.servers), checks.metrics.get_mut(&check.name)) {
            state.problem = Some(why);
        }
    }
}

/// Returns the clusters of a stage that are not known to be available. Clusters that left, that did not answer at their turn, or
/// that failed do not count: the stage does not wait for them either.
fn unhealthy<'a>(stage: &'a StageRecord, situation: &Situation<'_>) -> Vec<&'a str> {
    let mut unhealthy = Vec::new();
    for cluster in &stage.clusters {
        if !matches!(cluster.phase, ClusterPhase::Pending | ClusterPhase::Updating | ClusterPhase::Succeeded) {
            continue;
        }
        let seen = situation.clusters.get(&cluster.name).filter(|seen| seen.in_fleet && seen.picked);
        if seen.is_some_and(|seen| !seen.is_ready() || !seen.online) {
            unhealthy.push(cluster.name.as_str());
        }
    }
    unhealthy
}

/// Describes what the checks of a stage wait for; empty if they hold. Only what changes the outcome changes a text, because
/// people get a message for each new text.
pub(super) fn awaited(stage: &StageRecord, situation: &Situation<'_>, now: Timestamp) -> Vec<String> {
    let Some(checks) = &stage.checks else { return Vec::new() };
    let health = checks.given.healthy_for.as_ref().and_then(|wanted| match checks.healthy_at() {
        Some(at) if at <= now => None,
        Some(at) => Some(format!("its clusters to stay available until {}", moment(at))),
        None => {
            let named = first_of(unhealthy(stage, situation).into_iter(), NAMED_CLUSTERS_MAX);
            Some(format!("its clusters to be available for {wanted} (not available: {named})"))
        }
    });
    let metrics = checks.metrics().filter_map(|(check, state)| awaited_of(check, state, situation.servers, now));
    health.into_iter().chain(metrics).collect()
}

/// Ends the checks of a stage that hold. Describes how they do.
pub(super) fn end(stage: &mut StageRecord, now: Timestamp) -> Vec<String> {
    let Some(checks) = &mut stage.checks else { return Vec::new() };
    checks.done_at = Some(now);
    let health = checks.given.healthy_for.iter().map(|wanted| format!("available for {wanted}"));
    let answers = checks.metrics().filter_map(|(check, state)| {
        let value = number_text(state?.answer?.value);
        Some(format!("{} answers {value}, allowed: {}", check.name, check.limits()))
    });
    health.chain(answers).collect()
}

fn awaited_of(
    check: &MetricCheck,
    state: Option<&MetricState>,
    servers: &MetricServers,
    now: Timestamp,
) -> Option<String> {
    let name = &check.name;
    let interval = match server(check, servers) {
        Ok((_, interval)) => interval,
        Err(why) => return Some(format!("the check {name} ({why})")),
    };
    let fresh = SignedDuration::try_from(interval * FRESH_INTERVALS).unwrap_or(SignedDuration::MAX);
    let state = state?;
    match (&state.failed, &state.problem, state.answer) {
        (Some(failed), ..) => {
            Some(format!("the check {name} to be {} (it answers {})", check.limits(), number_text(failed.value)))
        }
        (None, Some(why), _) => Some(format!("an answer to the check {name} ({why})")),
        // An older answer says nothing about now.
        (None, None, Some(answer)) if now.duration_since(answer.at) <= fresh => None,
        (None, None, _) => Some(format!("an answer to the check {name}")),
    }
}

/// A check that a retry asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckAgain {
    /// Its name.
    pub name: String,
    /// It had an answer outside its limits, which a retry forgets.
    pub failed: bool,
    /// The server that is asked, or why nobody can be.
    pub server: Result<String, String>,
}

/// Returns the checks of the stage that waits and that a retry asks again.
pub fn checks_again(run: &RunRecord, servers: &MetricServers) -> Vec<CheckAgain> {
    let Some((_, checks)) = run.waiting_checks() else { return Vec::new() };
    let again = checks.metrics().filter_map(|(check, state)| {
        let state = state.filter(|state| state.failed.is_some() || state.problem.is_some())?;
        let server = server(check, servers).map(|(name, _)| name.to_owned());
        Some(CheckAgain { name: check.name.clone(), failed: state.failed.is_some(), server })
    });
    again.collect()
}

/// Returns the server that a check asks, and how often.
fn server<'a>(check: &MetricCheck, servers: &'a MetricServers) -> Result<(&'a str, Duration), String> {
    let found = match &check.server {
        Some(name) => servers.get_key_value(name).ok_or_else(|| format!("the configuration has no server {name}")),
        None if servers.len() > 1 => Err("it names no server, and the configuration has several".to_owned()),
        None => servers.first_key_value().ok_or_else(|| "the configuration has no server".to_owned()),
    };
    found.map(|(name, interval)| (name.as_str(), *interval))
}
