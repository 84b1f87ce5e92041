//! Agents: which one delivers to a member. Pure values, and the assignment of a pool's members to its agents.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::id::ClusterName;

/// The agent that delivers to a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AgentChoice {
    /// This agent.
    Named(String),
    /// One of the agents of a pool.
    Pool {
        /// The pool.
        pool: String,
    },
}

impl AgentChoice {
    /// Tells whether an agent may have the member: it has this name, or joined this pool.
    pub fn admits(&self, agent: &str, pools: &BTreeSet<String>) -> bool {
        match self {
            Self::Named(name) => name == agent,
            Self::Pool { pool } => pools.contains(pool),
        }
    }
}

impl fmt::Display for AgentChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "agent {name}"),
            Self::Pool { pool } => write!(f, "an agent of pool {pool}"),
        }
    }
}

/// Written by hand: the check of the file reads types and properties, and no untagged alternatives.
impl JsonSchema for AgentChoice {
    fn schema_name() -> Cow<'static, str> {
        "AgentChoice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The name of an agent, or the pool that it comes from.",
            "type": ["string", "object"],
            "additionalProperties": false,
            "properties": {
                "pool": {"type": "string", "description": "The agents of this pool share its members among themselves."},
            },
            "required": ["pool"],
        })
    }
}

/// The record of an agent's token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToken {
    /// The agent's name.
    pub name: String,
    /// SHA-256 of the token, in hexadecimal digits. The token itself is nowhere. Empty for those who may only read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// The pools that the agent may join.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pools: BTreeSet<String>,
    /// Who created it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
}

impl AgentToken {
    /// Returns the record without what a token is recognised by.
    #[must_use]
    pub fn without_digest(self) -> Self {
        Self { sha256: String::new(), ..self }
    }
}

/// Returns the agent of each member by rendezvous hashing: the one with the highest SHA-256 of its name and the member's. An agent that
/// leaves moves only its own members, and one that comes takes members only for itself.
///
/// `agents` are those that are connected, with the pools that each joined. Members without an agent to go to are absent.
pub fn assign<'a>(
    members: impl IntoIterator<Item = (&'a ClusterName, &'a AgentChoice)>,
    agents: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<ClusterName, String> {
    let assigned = members.into_iter().filter_map(|(cluster, choice)| {
        let admitted = agents.iter().filter(|(name, pools)| choice.admits(name, pools)).map(|(name, _)| name);
        let best = admitted.max_by_key(|name| score(name, cluster))?;
        Some((cluster.clone(), best.clone()))
    });
    assigned.collect()
}

/// Returns the claim of an agent on a member.
fn score(agent: &str, cluster: &ClusterName) -> [u8; 32] {
    // Names have no NUL, so that no two pairs of names are the same bytes.
    Sha256::new().chain_update(agent).chain_update([0]).chain_update(cluster.as_str()).finalize().into()
}

#[cfg(test)]
mod tests;
