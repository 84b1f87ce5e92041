//! Commands about the tokens of agents.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;

use crate::store;
use crate::store::{Expected, Op, records};
use model::agent::AgentToken;
use model::api::check::is_dns_label;
use model::commands::{Command, Done, Person, Refusal, RefusalReason, Verb};
use model::journal::JournalKind;
use model::records::JournalEntry;

/// The tokens of agents, by name.
pub type AgentTokens = BTreeMap<String, AgentToken>;

/// Tokens that the store keeps at most.
pub const AGENT_TOKENS_MAX: usize = 1_000;
/// Pools that one agent may join at most.
pub const AGENT_POOLS_MAX: usize = 32;
/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// What a command about an agent's token changes.
#[derive(Debug)]
pub struct ChangedTokens {
    /// The tokens as they are afterwards.
    pub tokens: AgentTokens,
    /// The answer.
    pub done: Done,
    name: String,
    journal: JournalEntry,
}

impl ChangedTokens {
    /// Returns what to write.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn ops(&self) -> store::Result<Vec<Op>> {
        let key = records::agent_key(&self.name);
        let record = match self.tokens.get(&self.name) {
            Some(token) => records::put(key, token, Expected::Any)?,
            None => Op::Delete { key, expected: Expected::Any },
        };
        Ok(vec![record, Op::Journal(self.journal.clone())])
    }
}

/// Executes a command about an agent's token. `fixed` are the agents whose tokens are in files of the configuration.
///
/// # Errors
/// Why it is not carried out.
pub fn execute(
    tokens: &AgentTokens,
    fixed: &BTreeSet<&str>,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> Result<ChangedTokens, Refusal> {
    let name = &command.target;
    let refused = |reason, message: String| Err(Refusal { reason, message });
    let mut changed = tokens.clone();
    let (event, message, facts) = if command.verb == Verb::Enroll {
        let Some(new) = &command.token else {
            return refused(RefusalReason::NotSpecific, "the digest of a token is missing".to_owned());
        };
        if let Some(text) = new.pools.iter().chain([name]).find(|text| !is_dns_label(text)) {
            let message = format!("{text:?} is not 1 to 63 lowercase letters, digits and inner dashes");
            return refused(RefusalReason::NotPossible, message);
        }
        if new.sha256.len() != SHA256_DIGITS
            || !new.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        {
            return refused(RefusalReason::NotPossible, "the digest of the token is no SHA-256".to_owned());
        }
        if fixed.contains(name.as_str()) {
            let message =
                format!("the token of agent {name} is in a file that `agents.tokens` of the configuration names");
            return refused(RefusalReason::NotPossible, message);
        }
        if new.pools.len() > AGENT_POOLS_MAX {
            return refused(RefusalReason::NotPossible, format!("an agent joins at most {AGENT_POOLS_MAX} pools"));
        }
        if tokens.len() >= AGENT_TOKENS_MAX && !tokens.contains_key(name) {
            return refused(
                RefusalReason::NotPossible,
                format!("there are {AGENT_TOKENS_MAX} agents already; revoke one"),
            );
        }
        let token = AgentToken {
            name: name.clone(),
            sha256: new.sha256.clone(),
            pools: new.pools.clone(),
            created_by: person.name.clone(),
            created_at: now,
        };
        let is_new = changed.insert(name.clone(), token).is_none();
        let message = if is_new {
            format!("agent {name} may connect")
        } else {
            format!("agent {name} has a new token; the earlier one is invalid")
        };
        (JournalKind::AgentEnrolled, message, json!({"agent": name, "pools": new.pools, "by": person.name}))
    } else {
        if changed.remove(name).is_none() {
            let why = if fixed.contains(name.as_str()) { "; the configuration names a file with it" } else { "" };
            return refused(RefusalReason::NotFound, format!("the store has no token of an agent {name:?}{why}"));
        }
        let message = format!("the token of agent {name} is invalid");
        (JournalKind::AgentRevoked, message, json!({"agent": name, "by": person.name}))
    };
    Ok(ChangedTokens {
        tokens: changed,
        done: Done { message, at: now, gate: None },
        name: name.clone(),
        journal: JournalEntry { at: now, event, placement: None, cluster: None, facts },
    })
}

#[cfg(test)]
mod tests;
