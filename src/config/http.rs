//! The section of the file about the daemon's own addresses, and who may read and command there.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::complaint;
use super::values::SOCKET_ADDRESS_FORMAT;
use crate::api::check::is_dns_subdomain;
use crate::model::commands::{Grant, Verb};
use crate::model::manifest::InputError;

/// Where the daemon listens: this machine only.
pub const HTTP_LISTEN_DEFAULT: &str = "127.0.0.1:8080";

/// The daemon's API.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Http {
    /// Address and port.
    #[schemars(with = "String", extend("format" = SOCKET_ADDRESS_FORMAT))]
    pub listen: SocketAddr,
    /// Address and port of their own for webhooks, which `listen` does not serve then: so the network decides who sends webhooks
    /// and who reads. Absent: `listen` serves them.
    #[schemars(with = "Option<String>", extend("format" = SOCKET_ADDRESS_FORMAT))]
    pub webhook_listen: Option<SocketAddr>,
    /// Who may read records, journal, explanations and metrics. Absent: `open` where `listen` is reached from this machine only,
    /// else `token`.
    pub read: Option<ReadAccess>,
    /// Names, without ports, that requests may call the daemon by. A daemon that only this machine reaches answers to
    /// `localhost` and its addresses by itself; one that is reached from elsewhere to every name, unless some are given.
    pub hosts: Vec<String>,
    /// Who may command over the API; without any, a token for the OS user is written into the store's folder. They may read, too.
    pub tokens: Vec<ApiToken>,
    /// Who may read and nothing else, such as Prometheus.
    pub read_tokens: Vec<ReadToken>,
    /// Who may push scores and properties of clusters and nothing else, such as a controller that knows costs.
    pub push_tokens: Vec<PushToken>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: HTTP_LISTEN_DEFAULT.parse().expect("the default address is one"),
            webhook_listen: None,
            read: None,
            hosts: Vec::new(),
            tokens: Vec::new(),
            read_tokens: Vec::new(),
            push_tokens: Vec::new(),
        }
    }
}

/// Who may read over the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReadAccess {
    /// Everybody who reaches the address.
    Open,
    /// Whoever has a token of `tokens` or `readTokens`.
    Token,
}

impl Http {
    /// Tells whether reading needs a token.
    pub fn read_needs_token(&self) -> bool {
        self.read.map_or(!self.listen.ip().is_loopback(), |read| read == ReadAccess::Token)
    }

    /// Adds what the schema cannot say.
    pub(super) fn problems(&self, webhooks: bool, errors: &mut Vec<InputError>) {
        for (position, token) in self.tokens.iter().enumerate() {
            for (name, is_empty) in [
                ("may", token.may.as_ref().is_some_and(Vec::is_empty)),
                ("placements", token.placements.as_ref().is_some_and(Vec::is_empty)),
            ] {
                if is_empty {
                    let message = "is empty, so the token is for nothing; leave it out where it is for everything";
                    errors.push(complaint(&format!("http.tokens[{position}].{name}"), message));
                }
            }
            let field = format!("http.tokens[{position}].name");
            if token.name.is_empty() {
                errors.push(complaint(&field, "is empty; approvals are recorded under it"));
            } else if self.tokens[..position].iter().any(|other| other.name == token.name) {
                errors.push(complaint(&field, format!("{:?} is given twice", token.name)));
            }
        }
        for (position, token) in self.push_tokens.iter().enumerate() {
            let field = format!("http.pushTokens[{position}].name");
            if token.name.is_empty() {
                errors.push(complaint(&field, "is empty; what is pushed is kept under it"));
            } else if self.push_tokens[..position].iter().any(|other| other.name == token.name) {
                errors.push(complaint(&field, format!("{:?} is given twice", token.name)));
            }
        }
        for (position, host) in self.hosts.iter().enumerate() {
            let is_name = is_dns_subdomain(&host.to_ascii_lowercase()) || host.parse::<std::net::IpAddr>().is_ok();
            if !is_name {
                let hint = Some("write it without scheme and port, such as fleet.example".into());
                let message = format!("{host:?} is no name of a host");
                errors.push(InputError { hint, ..complaint(&format!("http.hosts[{position}]"), message) });
            }
        }
        if let Some(own) = self.webhook_listen {
            let field = "http.webhookListen";
            // Port 0 is any free port, a different one each time.
            if own == self.listen && own.port() != 0 {
                errors.push(complaint(field, format!("{own} is http.listen as well; take another port")));
            }
            if !webhooks {
                let hint = Some("name the secret: forge: {webhookSecretFile: ...}".into());
                let message = "is given, and no webhook would be taken without a secret";
                errors.push(InputError { hint, ..complaint(field, message) });
            }
        }
    }
}

/// A person or machine that may read over the API.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadToken {
    /// What it is for, such as `prometheus`.
    pub name: String,
    /// File with the token.
    pub token_file: PathBuf,
}

/// A machine that may push scores and properties of clusters over the API.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushToken {
    /// The name that what it pushes is kept under; what it pushed before is replaced.
    pub name: String,
    /// File with the token.
    pub token_file: PathBuf,
}

/// A person or machine that may command over the API.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiToken {
    /// The name that approvals and commands are recorded under.
    pub name: String,
    /// File with the token.
    pub token_file: PathBuf,
    /// The commands it is for; absent: all.
    #[serde(default)]
    pub may: Option<Vec<Verb>>,
    /// The placements it is for, as `NAME` or `NAMESPACE/NAME`, with `*` for any text; absent: all, and the source.
    #[serde(default)]
    pub placements: Option<Vec<String>>,
}

impl ApiToken {
    /// Returns what it may do.
    pub fn grant(&self) -> Grant {
        Grant {
            verbs: self.may.as_ref().map(|verbs| verbs.iter().copied().collect()),
            placements: self.placements.clone(),
        }
    }
}
