//! Commands on a store that no daemon has open: read, execute, write.

use std::sync::Arc;

use jiff::Timestamp;

use super::{execute, preview, refusal, resolve};
use crate::agent_tokens;
use crate::persist;
use crate::persist::SOURCE_NAME;
use crate::store;
use crate::store::records::AGENT_PREFIX;
use crate::store::{Expected, Op, Store, records};
use config::Configuration;
use decide::state::FleetState;
use model::agent::AgentToken;
use model::approvers::ApproversByPath;
use model::commands::{Command, Done, Person, Refusal, RefusalReason, Verb, WaitingGate};
use model::id::CommitId;
use model::policy::Floor;
use model::records::SourceRecord;
use model::runs::{ApprovalRules, MetricServers};
use model::tenants::Tenants;

/// The configured rights, for commands without a running daemon.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    /// The approval rules.
    pub approvals: ApprovalRules,
    /// Who may approve by comment.
    pub approvers: Vec<String>,
    /// The same by the file of a placement.
    pub by_path: Arc<ApproversByPath>,
    /// The minimum that no commit can lower.
    pub floor: Floor,
    /// What the files of folders may ask for.
    pub tenants: Arc<Tenants>,
    /// The Prometheus servers.
    pub servers: MetricServers,
    /// The agents whose tokens are in files.
    pub fixed_agents: Vec<String>,
}

impl Authority {
    /// Reads them from the configuration.
    pub fn of(configuration: &Configuration) -> Self {
        let approvers = configuration.approvals().map(|approvals| approvals.approvers.clone()).unwrap_or_default();
        let fixed = configuration.agents.iter().flat_map(|agents| &agents.tokens);
        Self {
            approvals: configuration.approval_rules(),
            approvers,
            by_path: Arc::new(configuration.approvers_by_path()),
            floor: configuration.floor(),
            tenants: Arc::new(configuration.tenants()),
            servers: configuration.metric_servers(),
            fixed_agents: fixed.map(|token| token.name.clone()).collect(),
        }
    }

    fn fleet(&self) -> FleetState {
        FleetState {
            approvals: self.approvals,
            approvers: self.approvers.clone(),
            by_path: Arc::clone(&self.by_path),
            floor: self.floor.clone(),
            tenants: Arc::clone(&self.tenants),
            servers: self.servers.clone(),
            ..FleetState::default()
        }
    }
}

/// Previews an approval from the records of a store that no daemon has open.
///
/// # Errors
/// The store cannot be read.
pub fn preview_in_store(
    store: &dyn Store,
    authority: &Authority,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> store::Result<Result<WaitingGate, Refusal>> {
    Ok(preview(&persist::load(store)?, &authority.fleet(), command, person, now))
}

/// Executes a command on the records of a store that no daemon has open.
///
/// # Errors
/// The store cannot be read or written. A refused command is no error: the answer says why.
pub fn execute_in_store(
    store: &dyn Store,
    authority: &Authority,
    command: &Command,
    person: &Person,
    now: Timestamp,
) -> store::Result<Result<Done, Refusal>> {
    if command.verb == Verb::Adopt {
        return persist::adopt_store(store, person, now);
    }
    if command.verb.is_about_agents() {
        let tokens = records::load_all::<AgentToken>(store, AGENT_PREFIX)?;
        let tokens = tokens.into_iter().map(|record| (record.value.name.clone(), record.value)).collect();
        let fixed = authority.fixed_agents.iter().map(String::as_str).collect();
        let changed = match agent_tokens::execute(&tokens, &fixed, command, person, now) {
            Ok(changed) => changed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        store.batch(changed.ops()?)?;
        return Ok(Ok(changed.done));
    }
    if command.target.is_empty() {
        let key = records::source_key(SOURCE_NAME);
        let mut source = records::load::<SourceRecord>(store, &key)?.map(|record| record.value).unwrap_or_default();
        let answer = accept_rewrite(&mut source, command, now);
        if answer.is_ok() {
            store.batch(vec![records::put(key, &source, Expected::Any)?])?;
        }
        return Ok(answer.map(|(_, done)| done));
    }
    let placements = persist::load(store)?;
    let fleet = FleetState { names: persist::names(&placements), ..authority.fleet() };
    let executed = resolve(&placements, command).and_then(|target| {
        let state = placements.get(&target.placement).expect("what was found there is there");
        execute(state, &fleet, &target, command, person, now).map(|executed| (state, executed))
    });
    let (before, executed) = match executed {
        Ok(executed) => executed,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut ops = persist::difference(Some(before), Some(&executed.state))?;
    ops.extend(executed.journal.into_iter().map(Op::Journal));
    store.batch(ops)?;
    Ok(Ok(executed.done))
}

/// Accepts the rewritten history that is pending. Returns the commit that may follow the accepted one.
///
/// # Errors
/// The command does not concern the source, or no rewrite is pending.
pub fn accept_rewrite(
    source: &mut SourceRecord,
    command: &Command,
    now: Timestamp,
) -> Result<(CommitId, Done), Refusal> {
    if command.verb != Verb::Resume {
        return Err(refusal(RefusalReason::NotFound, "name a run or a placement"));
    }
    let Some(commit) = source.held_rewrite.clone() else {
        return Err(refusal(
            RefusalReason::NotPossible,
            "no history rewrite is pending. To resume a placement, pass its name",
        ));
    };
    source.accepted_rewrite = Some(commit.clone());
    // Each of several sources has its own, and one is accepted at a time.
    let mut held = source.sources.iter().filter(|(_, of)| of.held_rewrite.is_some());
    let (of, why) = match held.next() {
        Some((name, of)) => (format!(" of source {name}"), &of.held_why),
        None => (String::new(), &source.held_why),
    };
    let next = held.next().map_or_else(String::new, |(name, _)| format!("; source {name} waits for the same"));
    let what = if why.is_some() { "the branch that is checked out" } else { "the rewritten history" };
    let message = format!("{what}{of} is accepted at {}{next}", commit.short());
    Ok((commit, Done { message, at: now, gate: None }))
}
