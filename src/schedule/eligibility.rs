//! The status of a MemberCluster: whether it takes new placements, its properties and its namespaces.
//!
//! For inputs with a status from elsewhere; the daemon's own facts come from watches.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use model::api::cluster::MemberCluster;
use model::cluster::Cluster;
use model::conditions::ConditionType;
use model::facts;

/// How old a heartbeat may be, and how long a cluster may be unhealthy.
///
/// Source: KubeFleet, cluster eligibility; both are five minutes and cannot be configured.
pub const SILENCE_MAX: SignedDuration = SignedDuration::from_mins(5);

/// Returns a cluster from its object.
pub fn described(member: &MemberCluster, now: Timestamp) -> Cluster {
    Cluster {
        eligible: eligibility(member.status.as_ref(), now),
        properties: facts::stated(member),
        namespaces: namespaces(member.status.as_ref()),
        ..Cluster::from(member)
    }
}

/// Returns whether new placements may go to a cluster, by its `status`; otherwise why not.
///
/// A status with neither agents nor conditions, or none, is not from a KubeFleet hub: the cluster counts as joined and healthy.
/// A heartbeat in the future is fresh.
///
/// Source: KubeFleet, cluster eligibility.
pub fn eligibility(status: Option<&Value>, now: Timestamp) -> Result<(), String> {
    let Some(status) = status.filter(|s| s.get("agentStatus").is_some() || s.get("conditions").is_some()) else {
        return Ok(());
    };
    let agents = status.get("agentStatus").and_then(Value::as_array);
    let agent = agents.into_iter().flatten().find(|agent| agent.get("type") == Some(&Value::from("MemberAgent")));
    let agent = agent.ok_or("its member agent has not joined yet")?;
    let heartbeat = time(agent, "lastReceivedHeartbeat").ok_or("its member agent never sent a heartbeat")?;
    if now.duration_since(heartbeat) > SILENCE_MAX {
        return Err(format!("the last heartbeat is of {heartbeat}, more than 5 minutes ago"));
    }
    let joined = condition(agent, &ConditionType::Joined).and_then(|joined| joined.get("status")?.as_str());
    if joined != Some("True") {
        return Err(format!("its member agent's condition Joined is {}", joined.unwrap_or("missing")));
    }
    let healthy = condition(agent, &ConditionType::Healthy).ok_or("its member agent's condition Healthy is missing")?;
    let since = time(healthy, "lastTransitionTime");
    if healthy.get("status") != Some(&Value::from("True"))
        // A short unhealthy period is tolerated. Without a time its length is unknown.
        && since.is_none_or(|since| now.duration_since(since) > SILENCE_MAX)
    {
        let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
        return Err(format!("its member agent is not healthy{since}, more than 5 minutes"));
    }
    Ok(())
}

fn condition<'a>(of: &'a Value, type_: &ConditionType) -> Option<&'a Value> {
    of.get("conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition.get("type") == Some(&Value::from(type_.as_str())))
}

fn time(of: &Value, field: &str) -> Option<Timestamp> {
    of.get(field)?.as_str()?.parse().ok()
}

/// Returns the namespaces in a status; `None` if they are not collected.
pub fn namespaces(status: Option<&Value>) -> Option<BTreeSet<String>> {
    let status = status?;
    // Its status does not matter: KubeFleet uses a partial list as well.
    condition(status, &ConditionType::NamespaceCollectionSucceeded)?;
    let listed = status.get("namespaces").and_then(Value::as_object);
    Some(listed.into_iter().flatten().map(|(name, _)| name.clone()).collect())
}

#[cfg(test)]
mod tests;
