//! The section of the file about the Prometheus servers that checks of stages ask.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{DURATION_FORMAT, duration};
use super::{complaint, no_label};
use model::api::check::is_dns_label;
use model::manifest::InputError;

/// How often a query is asked.
pub(crate) const INTERVAL_DEFAULT: Duration = Duration::from_secs(30);
/// How long an answer may take.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// A Prometheus server, or one that answers as it does. It is asked directly, never through a proxy.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusServer {
    /// The name that checks call it by.
    pub name: String,
    /// Its address, such as `https://prometheus.example`; `/api/v1/query` follows it.
    pub url: String,
    /// File with the token that it asks for; read again with every request.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File with the certificates, as PEM, that its own is checked against, beside those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Lets the token travel over plain `http://`.
    #[serde(default)]
    pub allow_insecure_http: bool,
    /// How often each query is asked while its stage waits.
    #[serde(default = "interval_default", with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub interval: Duration,
    /// How long an answer may take; not longer than `interval`.
    #[serde(default = "timeout_default", with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub timeout: Duration,
}

/// Adds what the schema cannot say.
pub(super) fn check(servers: &[PrometheusServer], errors: &mut Vec<InputError>) {
    for (position, server) in servers.iter().enumerate() {
        let mut complain = |field: &str, message: String| {
            errors.push(complaint(&format!("prometheus[{position}].{field}"), message));
        };
        if !is_dns_label(&server.name) {
            complain("name", no_label(&server.name));
        } else if servers[..position].iter().any(|other| other.name == server.name) {
            complain("name", format!("{:?} is given twice", server.name));
        }
        if let Some(message) = url_problem(server) {
            complain("url", message);
        }
        if server.timeout > server.interval {
            complain("timeout", "is longer than interval; an answer would be asked for twice".to_owned());
        }
    }
}

fn url_problem(server: &PrometheusServer) -> Option<String> {
    let url = &server.url;
    let after_scheme = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    match after_scheme.map(|rest| rest.split('/').next().unwrap_or_default()) {
        None | Some("") => Some(format!("{url:?} must be an address such as https://prometheus.example")),
        // Without the URL: it holds a password.
        Some(authority) if authority.contains('@') => {
            Some("names an account; put its token into a file and name that as `tokenFile`".to_owned())
        }
        Some(_) if url.contains(['?', '#']) => Some(format!("{url:?} must end with the host or a path")),
        Some(_) if url.starts_with("http://") && server.token_file.is_some() && !server.allow_insecure_http => {
            Some("would send the token over plain http; use https, or say allowInsecureHttp: true".to_owned())
        }
        Some(_) => None,
    }
}

fn interval_default() -> Duration {
    INTERVAL_DEFAULT
}

fn timeout_default() -> Duration {
    TIMEOUT_DEFAULT
}
