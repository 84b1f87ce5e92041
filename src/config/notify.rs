//! The section of the file about receivers of notifications.

use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{Error, complaint, no_label, read_secret};
use model::api::check::is_dns_label;
use model::manifest::InputError;
use model::notification::{NotificationKind, NotificationTemplate};

/// Receivers that one daemon tells.
pub const RECEIVERS_MAX: usize = 8;

/// Somebody who is told over HTTP what waits for a person, what failed and what is done.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotificationReceiver {
    /// Its name in the log and in the store; the log never has its address.
    pub name: String,
    /// Its address, such as `https://events.example/gitfleet`.
    #[serde(default)]
    pub url: Option<String>,
    /// File with its address, instead of `url`: for addresses that hold a token, such as those of chat services.
    #[serde(default)]
    pub url_file: Option<PathBuf>,
    /// File with the secret that notifications are signed with, at least 24 bytes; what follows `whsec_` is base64. Read again with
    /// every notification. Chat services check no signature, so it may be absent with their templates.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// File with the certificates, as PEM, that its own is checked against, beside those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The kinds of notifications that it gets; absent means all.
    #[serde(default = "everything")]
    pub events: Vec<NotificationKind>,
    /// The form of what it gets.
    #[serde(default)]
    pub template: NotificationTemplate,
    /// Lets notifications travel over plain `http://` to another machine.
    #[serde(default)]
    pub allow_insecure_http: bool,
}

/// Without the address, which may hold a token.
impl std::fmt::Debug for NotificationReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, events, template, .. } = self;
        f.debug_struct("NotificationReceiver")
            .field("name", name)
            .field("events", events)
            .field("template", template)
            .finish_non_exhaustive()
    }
}

impl NotificationReceiver {
    /// Returns its address.
    ///
    /// # Errors
    /// The file with the address cannot be read, or what it holds cannot be an address.
    pub fn address(&self) -> Result<SecretString, Error> {
        let Some(path) = &self.url_file else {
            return Ok(SecretString::from(self.url.clone().unwrap_or_default()));
        };
        let address = read_secret(path)?;
        match url_problem(address.expose_secret(), self.allow_insecure_http) {
            Some(problem) => Err(Error::SecretInvalid { path: path.clone(), problem }),
            None => Ok(address),
        }
    }

    fn problems(&self, mut complain: impl FnMut(&str, String)) {
        if !is_dns_label(&self.name) {
            complain("name", no_label(&self.name));
        }
        match (&self.url, &self.url_file) {
            (None, None) => complain("url", "is missing, and so is urlFile; give one of them".to_owned()),
            (Some(_), Some(_)) => complain("url", "and urlFile are both given; keep one of them".to_owned()),
            (Some(url), None) => {
                if let Some(problem) = url_problem(url, self.allow_insecure_http) {
                    complain("url", problem.to_owned());
                }
            }
            (None, Some(_)) => {}
        }
        if self.secret_file.is_none() && self.template == NotificationTemplate::CloudEvents {
            let message = "is missing: without it nobody can tell who sent a notification".to_owned();
            complain("secretFile", message);
        }
        if self.events.is_empty() {
            complain("events", "is empty; leave it away for all".to_owned());
        }
    }
}

/// Adds what the schema cannot say.
pub(super) fn check(receivers: &[NotificationReceiver], errors: &mut Vec<InputError>) {
    if receivers.len() > RECEIVERS_MAX {
        let message = format!("has {} receivers, at most {RECEIVERS_MAX} are told", receivers.len());
        errors.push(complaint("notify", message));
    }
    for (position, receiver) in receivers.iter().enumerate() {
        let at = |field: &str| format!("notify[{position}].{field}");
        receiver.problems(|field, message| errors.push(complaint(&at(field), message)));
        if receivers[..position].iter().any(|other| other.name == receiver.name) {
            errors.push(complaint(&at("name"), format!("{:?} is given twice", receiver.name)));
        }
    }
}

/// Says what is wrong with an address, without repeating it: it may hold a token.
fn url_problem(url: &str, allow_insecure_http: bool) -> Option<&'static str> {
    let (is_secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        (None, None) => return Some("must be an address such as https://events.example/gitfleet"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Some("must be an address such as https://events.example/gitfleet");
    }
    if authority.contains('@') {
        return Some("names an account, which is not supported; notifications are signed instead");
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    if is_secure || is_here || allow_insecure_http {
        return None;
    }
    Some("would send notifications over plain http; use https, or say allowInsecureHttp: true")
}

fn everything() -> Vec<NotificationKind> {
    NotificationKind::ALL.to_vec()
}
