//! The section of the file about agents: where they connect, and which tokens they have.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{DURATION_FORMAT, SOCKET_ADDRESS_FORMAT, duration};
use super::{Configuration, complaint, no_label};
use model::api::check::is_dns_label;
use model::manifest::InputError;

/// How long a silent agent of a pool keeps its members, by default.
pub const AGENT_LEASE_DEFAULT: Duration = Duration::from_secs(15);
/// Shortest such lease: below it, an ordinary pause of an agent or of the network moves its members.
pub const AGENT_LEASE_MIN: Duration = Duration::from_secs(3);

/// Where agents connect. Without this section no agent can, and no member may name one.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agents {
    /// Address and port, such as `0.0.0.0:8443`.
    #[schemars(with = "String", extend("format" = SOCKET_ADDRESS_FORMAT))]
    pub listen: SocketAddr,
    /// The daemon's certificate. Required unless `listen` is reached from this machine only: tokens and Secrets cross this connection.
    #[serde(default)]
    pub tls: Option<AgentTls>,
    /// How long a silent agent of a pool keeps its members; at least 3s. Then others of the pool take them.
    #[serde(default = "lease_default", with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub lease: Duration,
    /// Tokens of agents in files, beside those that `gitfleet agent token create` keeps in the store.
    #[serde(default)]
    pub tokens: Vec<StaticAgentToken>,
}

/// The daemon's certificate for agents, and whose certificates it takes. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentTls {
    /// File with the certificate and those that lead to its authority, as PEM.
    pub cert_file: PathBuf,
    /// File with the private key, as PEM.
    pub key_file: PathBuf,
    /// File with the authorities, as PEM, of which an agent must have a certificate, beside its token. Absent: the token is enough.
    #[serde(default)]
    pub client_ca_file: Option<PathBuf>,
}

/// An agent whose token is in a file.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticAgentToken {
    /// The agent's name.
    pub name: String,
    /// File with the token.
    pub token_file: PathBuf,
    /// The pools that the agent may join.
    #[serde(default)]
    pub pools: BTreeSet<String>,
}

impl Agents {
    /// Returns the files that it names.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let tls = self.tls.iter_mut().flat_map(|tls| {
            let AgentTls { cert_file, key_file, client_ca_file } = tls;
            [cert_file, key_file].into_iter().chain(client_ca_file)
        });
        tls.chain(self.tokens.iter_mut().map(|token| &mut token.token_file))
    }

    fn problems(&self, errors: &mut Vec<InputError>) {
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            let hint = Some("name the daemon's certificate: tls: {certFile: ..., keyFile: ...}".into());
            let message = format!(
                "is missing, and {} is reached from other machines: tokens would cross the network",
                self.listen
            );
            errors.push(InputError { hint, ..complaint("agents.tls", message) });
        }
        if self.lease < AGENT_LEASE_MIN {
            let message = format!("is shorter than {} s; a short pause would move members", AGENT_LEASE_MIN.as_secs());
            errors.push(complaint("agents.lease", message));
        }
        for (position, token) in self.tokens.iter().enumerate() {
            let mut complain = |field: &str, message: String| {
                errors.push(complaint(&format!("agents.tokens[{position}].{field}"), message));
            };
            if !is_dns_label(&token.name) {
                complain("name", no_label(&token.name));
            } else if self.tokens[..position].iter().any(|other| other.name == token.name) {
                complain("name", format!("{:?} is given twice", token.name));
            }
            for pool in token.pools.iter().filter(|pool| !is_dns_label(pool)) {
                complain("pools", no_label(pool));
            }
        }
    }
}

/// Adds what the schema cannot say.
pub(super) fn check(configuration: &Configuration, errors: &mut Vec<InputError>) {
    if let Some(agents) = &configuration.agents {
        return agents.problems(errors);
    }
    if let Some(position) = configuration.members.iter().position(|member| member.agent.is_some()) {
        let hint = Some("say where agents connect: agents: {listen: ..., tls: ...}".into());
        let message = format!("is missing, and members[{position}] names an agent");
        errors.push(InputError { hint, ..complaint("agents", message) });
    }
}

fn lease_default() -> Duration {
    AGENT_LEASE_DEFAULT
}

#[cfg(test)]
mod tests;
