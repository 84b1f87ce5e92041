//! The section of the file about the daemon's own addresses, and who may read and command there.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

use super::complaint;
use super::values::SOCKET_ADDRESS_FORMAT;
use model::api::check::is_dns_subdomain;
use model::commands::{Grant, Verb};
use model::manifest::InputError;

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
    /// Where the other daemons on the same database reach this one, such as `http://10.1.2.3:8080`: they pass on what only the leader can
    /// answer. It needs a network that is private to them. Absent: `http://` and `listen`, which must then be an address of one machine. The
    /// variable `GITFLEET_HTTP_PEER_URL` replaces it.
    pub peer_url: Option<String>,
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
    /// Whether the daemon serves its page at `/`, and whether people may command there.
    pub page: PageMode,
    /// Where people reach the daemon, such as `https://fleet.example/gitfleet`: links begin with it. A path in it is the base path of
    /// the page; the daemon answers below it, and also without it, for proxies that take it away.
    pub public_url: Option<String>,
    /// The authenticating proxy in front of the daemon, whose word on who asks counts for the page.
    pub proxy: Option<AuthProxy>,
    /// What is shown to whoever asks, also where reading needs a token: for pictures in other pages.
    pub public: BTreeSet<PublicPart>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: HTTP_LISTEN_DEFAULT.parse().expect("the default address is one"),
            webhook_listen: None,
            peer_url: None,
            read: None,
            hosts: Vec::new(),
            tokens: Vec::new(),
            read_tokens: Vec::new(),
            push_tokens: Vec::new(),
            page: PageMode::default(),
            public_url: None,
            proxy: None,
            public: BTreeSet::new(),
        }
    }
}

/// What the page is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PageMode {
    /// There is none.
    Off,
    /// For looking.
    #[default]
    Read,
    /// Whoever may command may do so there: approve, reject, pause, resume, retry and roll back.
    Command,
}

/// Takes `page: off` for what it says: YAML has that word for false.
pub(super) fn off_as_text(document: &mut serde_json::Value) {
    if let Some(page) = document.pointer_mut("/http/page").filter(|page| **page == serde_json::Value::Bool(false)) {
        *page = "off".into();
    }
}

/// A part of the page that may be public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PublicPart {
    /// `/badge/NAME.svg`: the state of a placement in a word.
    Badge,
    /// `/placements/NAME/graph.svg`: its stages, with their names and numbers.
    Graph,
}

/// A proxy that knows who asks, and says so in a header.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthProxy {
    /// The header with the name of who asks, such as `X-Forwarded-User`. The proxy must remove it from what it is sent.
    pub header: String,
    /// The addresses of the proxy, each an address or a network such as `10.1.2.0/24`. From elsewhere the header means nothing.
    pub from: Vec<String>,
    /// The names that may command where `page` is `command`; the others look. Absent: nobody.
    #[serde(default)]
    pub commanders: BTreeSet<String>,
}

impl AuthProxy {
    /// Returns the networks of the proxy; the check of the file made sure that each is one.
    pub fn networks(&self) -> Vec<IpNet> {
        self.from.iter().filter_map(|text| network(text)).collect()
    }
}

/// Reads a network; an address alone is a network of one.
fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
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

    /// Returns where other daemons reach this one, which listens at `address`.
    pub fn peer_url(&self, address: SocketAddr) -> String {
        self.peer_url.as_deref().map_or_else(|| format!("http://{address}"), |url| url.trim_end_matches('/').to_owned())
    }

    /// Returns the path below which people reach the page: empty, or a slash and more, without one at the end.
    pub fn base_path(&self) -> &str {
        let url = self.public_url.as_deref().unwrap_or_default();
        let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
        path.unwrap_or_default().trim_end_matches('/')
    }

    /// Returns where people reach the page, without a slash at its end; `None` where there is no page, or nobody said where.
    pub fn page_url(&self) -> Option<&str> {
        if self.page == PageMode::Off {
            return None;
        }
        Some(self.public_url.as_deref()?.trim_end_matches('/'))
    }

    /// Returns the host by which people reach the page, with the port where one is given.
    pub fn public_host(&self) -> Option<&str> {
        let rest = self.public_url.as_deref()?.split_once("://")?.1;
        rest.split('/').next()
    }

    /// Returns the same without the port.
    pub fn public_name(&self) -> Option<&str> {
        let host = self.public_host()?;
        let port = host.rfind(':').filter(|at| !host[*at..].contains(']'));
        Some(&host[..port.unwrap_or(host.len())])
    }

    /// Tells whether people reach the page over TLS.
    pub fn is_https(&self) -> bool {
        self.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }

    fn peer_problems(&self, errors: &mut Vec<InputError>) {
        let Some(url) = &self.peer_url else { return };
        let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let is_plain = authority.is_some_and(|rest| {
            !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]".contains(c))
        });
        if !is_plain {
            let hint = Some("write scheme, host and port, such as http://10.1.2.3:8080".into());
            let message = format!("{url:?} is no address of a daemon");
            errors.push(InputError { hint, ..complaint("http.peerUrl", message) });
        }
    }

    /// Adds what is wrong for one of several daemons on a database.
    pub(super) fn shared_problems(&self, errors: &mut Vec<InputError>) {
        if self.peer_url.is_none() && self.listen.ip().is_unspecified() {
            let hint =
                Some("write one that they reach, such as http://10.1.2.3:8080, or set GITFLEET_HTTP_PEER_URL".into());
            let message = format!(
                "is missing: with store.postgres other daemons find this one by it, and {} is no address of one machine",
                self.listen
            );
            errors.push(InputError { hint, ..complaint("http.peerUrl", message) });
        }
    }

    fn page_problems(&self, errors: &mut Vec<InputError>) {
        if let Some(url) = &self.public_url {
            let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
            let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
            let is_plain = url.chars().all(|c| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c));
            if host.is_none_or(str::is_empty) || !is_plain || self.base_path().contains("//") {
                let hint = Some("write scheme, host and path, such as https://fleet.example/gitfleet".into());
                let message = format!("{url:?} is no URL that a browser shows");
                errors.push(InputError { hint, ..complaint("http.publicUrl", message) });
            }
        }
        let Some(proxy) = &self.proxy else { return };
        let is_plain = proxy.header.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if proxy.header.is_empty() || !is_plain {
            errors.push(complaint("http.proxy.header", format!("{:?} is no name of a header", proxy.header)));
        }
        if proxy.from.is_empty() {
            let message = "is empty, so nobody's header counts; name the addresses of the proxy";
            errors.push(complaint("http.proxy.from", message));
        }
        for (position, text) in proxy.from.iter().enumerate() {
            let message = match network(text) {
                Some(network) if network.prefix_len() > 0 => continue,
                Some(_) => format!("{text} is every address: whoever reaches the daemon could say who they are"),
                None => format!("{text:?} is no address or network; write one like \"10.1.2.0/24\""),
            };
            errors.push(complaint(&format!("http.proxy.from[{position}]"), message));
        }
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
        self.page_problems(errors);
        self.peer_problems(errors);
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
