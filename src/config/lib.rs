//! The daemon's configuration: file, environment and flags to one checked value.
//!
//! `parse` is pure; `load` and `read_secret` read files. The documentation of every field is the doc comment on it: `schema`
//! prints them as JSON schema, and unknown fields are refused by that same schema.

mod agents;
mod check;
mod decrypt;
mod file;
mod forge;
mod health;
mod http;
mod members;
mod notify;
mod policy;
mod postgres;
mod prometheus;
mod render;
mod source;
mod tenants;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use model::approvers::ApproversByPath;
use model::id::ClusterName;
use model::manifest::InputError;
use model::policy::Floor;
use model::runs::{ApprovalRules, MetricServers};
use model::tenants::Tenants;

pub use agents::{AGENT_LEASE_DEFAULT, AGENT_LEASE_MIN, AgentTls, Agents, StaticAgentToken};
pub use decrypt::{CloudKeys, Decrypt};
pub use file::*;
pub use forge::*;
pub use health::{HealthSettings, KindHealth, OtherKinds};
pub use http::*;
pub use members::MemberAccess;
pub use notify::{NotificationReceiver, RECEIVERS_MAX};
pub use policy::*;
pub use postgres::{Postgres, SslMode};
pub use prometheus::PrometheusServer;
pub use render::Render;
pub use source::*;
pub use tenants::TenantSection;

/// The file read where none is named.
pub const FILE_NAME_DEFAULT: &str = "gitfleet.yaml";

/// Largest configuration file in bytes: 10,000 members of 100 bytes.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Largest secret file in bytes; tokens have a few hundred.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// The settings that environment and flags may replace: variable and field. Flags come in under their variable's name.
///
/// Paths among them are relative to the working directory, as on any command line, not to the file.
pub const OVERRIDES: &[(&str, &str)] = &[
    ("GITFLEET_SOURCE_URL", "source.url"),
    ("GITFLEET_SOURCE_BRANCH", "source.branch"),
    ("GITFLEET_SOURCE_PATH", "source.path"),
    ("GITFLEET_STORE_PATH", "store.path"),
    ("GITFLEET_HTTP_LISTEN", "http.listen"),
    ("GITFLEET_HTTP_PEER_URL", "http.peerUrl"),
];

/// A checked configuration. Paths are no longer relative to the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The git repository that is followed; of several the first.
    pub source: Source,
    /// All of them where they are a list, and read as one tree; else none.
    pub sources: Vec<Source>,
    /// How members are reached; first match wins.
    pub members: Vec<Member>,
    /// Where agents connect.
    pub agents: Option<Agents>,
    /// The git host of the only source, where there is one to talk to; see [`Self::forges`].
    pub forge: Option<Forge>,
    /// Where OCM decisions are published.
    pub decisions: Option<Decisions>,
    /// Where the state is.
    pub store: Store,
    /// The daemon's own API.
    pub http: Http,
    /// What no commit lowers.
    pub policy: Policy,
    /// How gitfleet decides whether objects are available.
    pub health: HealthSettings,
    /// The Prometheus servers that checks of stages ask.
    pub prometheus: Vec<PrometheusServer>,
    /// Who is told over HTTP what happens.
    pub notify: Vec<NotificationReceiver>,
    /// What the proxies that the environment names are for.
    pub proxy: Proxy,
    /// What the files of folders may ask for.
    pub tenants: Vec<TenantSection>,
    /// The programs that render folders, where any are rendered.
    pub render: Option<Render>,
    /// What decrypts files that SOPS encrypted, where anything does.
    pub decrypt: Option<Decrypt>,
}

/// Why there is no configuration, or no secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file, or one that it names, cannot be read.
    #[error("configuration {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file says something that is not allowed.
    #[error("{}", lines(errors))]
    Invalid {
        /// All of it.
        errors: Vec<InputError>,
    },
    /// A secret's file cannot be read. Its content is in no message.
    #[error("secret file {} cannot be read", path.display())]
    SecretRead {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A secret's file holds no usable secret. Its content is in no message.
    #[error("secret file {} {problem}", path.display())]
    SecretInvalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
}

fn lines(errors: &[InputError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Configuration {
    /// Reads a configuration from its text.
    ///
    /// Relative paths in it become relative to `base_dir`, the file's folder. `env` holds the `OVERRIDES` that are set, flags
    /// before environment; other names in it have no effect.
    ///
    /// # Errors
    /// Everything that is wrong, at once; `path` is `gitfleet.yaml` in each.
    pub fn parse(text: &str, base_dir: &Path, env: &BTreeMap<String, String>) -> Result<Self, Vec<InputError>> {
        let mut value = from_yaml(text)?;
        let set: Vec<_> = OVERRIDES.iter().filter_map(|(name, field)| Some((*field, env.get(*name)?))).collect();
        file::one_source(&mut value)?;
        http::off_as_text(&mut value);
        // Before the check, so that a wrong override is complained about as its field in the file would be.
        for (field, text) in &set {
            file::replace(&mut value, field, text);
        }
        let errors = check::against(&schema(), &value);
        if !errors.is_empty() {
            return Err(errors);
        }
        let document: Document = serde_json::from_value(value).map_err(|e| vec![complaint("", e.to_string())])?;
        let sources = document.sources.unwrap_or_default();
        let overridden = set.iter().find(|(field, _)| field.starts_with("source.") && !sources.is_empty());
        if let Some((field, _)) = overridden {
            let message = "is given from outside, and the file names several `sources`; it is not known which is meant";
            return Err(vec![complaint(field, message)]);
        }
        let Some(source) = document.source.or_else(|| sources.first().cloned()) else {
            let hint = "name the git repository: source: {url: ...}";
            return Err(vec![InputError { hint: Some(hint.into()), ..complaint("source", "is missing") }]);
        };
        let mut errors = Vec::new();
        let mut configuration = Self {
            source,
            sources,
            members: document.members,
            agents: document.agents,
            forge: document.forge,
            decisions: document.decisions,
            store: document.store,
            http: document.http,
            policy: document.policy,
            health: document.health.compiled(text, &mut errors),
            prometheus: document.prometheus,
            notify: document.notify,
            proxy: document.proxy,
            tenants: document.tenants,
            render: document.render,
            decrypt: document.decrypt,
        };
        // Before the last check: only whole paths tell whether one folder lies in another.
        configuration.resolve(base_dir, |field| set.iter().any(|(name, _)| *name == field));
        errors.extend(configuration.problems());
        if errors.is_empty() { Ok(configuration) } else { Err(errors) }
    }

    /// Reads a configuration file; see `parse`.
    pub fn load(path: &Path, env: &BTreeMap<String, String>) -> Result<Self, Error> {
        let text = read_bounded(path, FILE_BYTES_MAX).map_err(|source| unread(path, source))?;
        let text = String::from_utf8(text)
            .map_err(|error| unread(path, io::Error::new(io::ErrorKind::InvalidData, error.utf8_error())))?;
        let base_dir = std::path::absolute(path).map_err(|source| unread(path, source))?;
        Self::parse(&text, base_dir.parent().unwrap_or(Path::new("/")), env).map_err(|mut errors| {
            for error in &mut errors {
                error.path = path.display().to_string();
            }
            Error::Invalid { errors }
        })
    }

    /// Reads the section `render` alone of a file, as [`Self::render_of_text`].
    ///
    /// # Errors
    /// The file cannot be read, or the section is wrong.
    pub fn render_of_tree(path: &Path) -> Result<Option<Render>, Error> {
        let text = read_bounded(path, FILE_BYTES_MAX).map_err(|source| unread(path, source))?;
        Self::render_of_text(&String::from_utf8_lossy(&text)).map_err(|mut errors| {
            for error in &mut errors {
                error.path = path.display().to_string();
            }
            Error::Invalid { errors }
        })
    }

    /// Reads the section `render` alone of a text, if that is a configuration: what a tree says of itself, where the rest of it is for another machine. The folder of
    /// the programs is not taken: a tree must not say which programs are started.
    ///
    /// # Errors
    /// The section is wrong.
    pub fn render_of_text(text: &str) -> Result<Option<Render>, Vec<InputError>> {
        let value = from_yaml(text)?;
        let is_ours = value["kind"] == "Configuration"
            && value["apiVersion"].as_str().is_some_and(|version| version.starts_with("gitfleet.io/"));
        let section = value.get("render").filter(|section| is_ours && !section.is_null());
        let Some(section) = section else { return Ok(None) };
        let render: Render =
            serde_json::from_value(section.clone()).map_err(|error| vec![complaint("render", error.to_string())])?;
        let render = Render { folder: None, ..render };
        let mut errors = Vec::new();
        render.problems(&mut errors);
        if errors.is_empty() { Ok(Some(render)) } else { Err(errors) }
    }

    /// Returns the names of the sections that another configuration has otherwise, `members` left out.
    pub fn differing_sections(&self, other: &Self) -> Vec<&'static str> {
        // Destructured in full, so that the compiler finds a new section.
        let Self {
            source,
            sources,
            members: _,
            agents,
            forge,
            decisions,
            store,
            http,
            policy,
            health,
            prometheus,
            notify,
            proxy,
            tenants,
            render,
            decrypt,
        } = self;
        let sections = [
            ("source", *source != other.source && sources.is_empty()),
            ("sources", *sources != other.sources),
            ("agents", *agents != other.agents),
            ("forge", *forge != other.forge),
            ("decisions", *decisions != other.decisions),
            ("store", *store != other.store),
            ("http", *http != other.http),
            ("policy", *policy != other.policy),
            ("health", *health != other.health),
            ("prometheus", *prometheus != other.prometheus),
            ("notify", *notify != other.notify),
            ("proxy", *proxy != other.proxy),
            ("tenants", *tenants != other.tenants),
            ("render", *render != other.render),
            ("decrypt", *decrypt != other.decrypt),
        ];
        sections.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// Returns all repositories that are followed.
    pub fn all_sources(&self) -> &[Source] {
        if self.sources.is_empty() { std::slice::from_ref(&self.source) } else { &self.sources }
    }

    /// Returns the repositories on a git host, each with its source.
    pub fn forges(&self) -> impl Iterator<Item = (&Source, &Forge)> {
        let only = if self.sources.is_empty() { self.forge.as_ref() } else { None };
        let only = only.map(|forge| (&self.source, forge));
        only.into_iter().chain(self.sources.iter().filter_map(|source| Some((source, source.forge.as_deref()?))))
    }

    /// Returns who may approve, which is the same in all repositories; `None` without a git host.
    pub fn approvals(&self) -> Option<&Approvals> {
        self.forges().next().map(|(_, forge)| &forge.approvals)
    }

    /// Returns how many people open a gate, and for how long a word counts.
    pub fn approval_rules(&self) -> ApprovalRules {
        let rules = self.approvals().map_or_else(ApprovalRules::default, |approvals| ApprovalRules {
            required: approvals.required,
            expire_after: approvals.expire_after,
            min_permission: approvals.min_permission.into(),
            self_approval: approvals.self_approval,
        });
        ApprovalRules { required: rules.required.max(self.policy.min_approvals.unwrap_or_default()), ..rules }
    }

    /// Returns who may approve by comment, where the file of a placement does not say.
    pub fn approvers(&self) -> Vec<String> {
        self.approvals().map(|approvals| approvals.approvers.clone()).unwrap_or_default()
    }

    /// Returns who may approve by the file of a placement.
    pub fn approvers_by_path(&self) -> ApproversByPath {
        self.approvals().map(Approvals::by_path).unwrap_or_default()
    }

    /// Returns what no commit lowers.
    pub fn floor(&self) -> Floor {
        self.policy.floor()
    }

    /// Returns what the files of folders may ask for.
    pub fn tenants(&self) -> Tenants {
        tenants::tenants(&self.tenants)
    }

    /// Returns the names of the Prometheus servers, and how often each is asked a query.
    pub fn metric_servers(&self) -> MetricServers {
        self.prometheus.iter().map(|server| (server.name.clone(), server.interval)).collect()
    }

    /// Returns how a member is reached; `None` where no entry names it, or where its name could leave the folder it is put in.
    pub fn member(&self, cluster: &ClusterName) -> Option<MemberAccess> {
        members::access(&self.members, cluster)
    }

    /// Returns the folders that are never read as source: the store, and what stands before `{name}` in members' folders.
    pub fn excluded_paths(&self) -> Vec<PathBuf> {
        let own = self.members.iter().filter(|member| member.agent.is_none());
        let folders = own.filter_map(|member| member.directory.as_deref()).map(members::fixed_part);
        std::iter::once(self.store.path.clone()).chain(folders).collect()
    }
}

/// Returns the JSON schema of the file, with the documentation of every field.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Document).to_value()
}

/// Reads a secret from its file, without the line end that editors add.
///
/// # Errors
/// Name the file, never what is in it.
pub fn read_secret(path: &Path) -> Result<SecretString, Error> {
    let text = read_text(path)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(invalid(path, "is empty")),
        secret if secret.contains(char::is_control) => {
            Err(invalid(path, "has more than one line, or control characters"))
        }
        secret => Ok(SecretString::from(secret)),
    }
}

/// Reads a private key in PEM form from its file.
///
/// # Errors
/// Name the file, never what is in it.
pub fn read_pem(path: &Path) -> Result<SecretString, Error> {
    let text = read_text(path)?;
    if text.contains("PRIVATE KEY-----") {
        return Ok(SecretString::from(text));
    }
    Err(invalid(path, "holds no private key in PEM form"))
}

/// Reads certificates in PEM form from their file.
///
/// # Errors
/// Name the file.
pub fn read_certificates(path: &Path) -> Result<Vec<u8>, Error> {
    read_bounded(path, FILE_BYTES_MAX).map_err(|source| unread(path, source))
}

/// Reads a file that holds no secret, such as public keys.
///
/// # Errors
/// What the system said; `FileTooLarge` above [`FILE_BYTES_MAX`].
pub fn read_public(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(path, FILE_BYTES_MAX)
}

/// What tells two contents of a secret's file apart, and reveals neither.
pub type SecretDigest = [u8; 32];

/// Returns the digest of what a secret's file holds; `None` where it cannot be read or is too large.
pub fn secret_digest(path: &Path) -> Option<SecretDigest> {
    read_bounded(path, SECRET_BYTES_MAX).ok().map(|bytes| Sha256::digest(bytes).into())
}

/// Reads a secret's file as it is.
fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = read_bounded(path, SECRET_BYTES_MAX).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => invalid(path, "is larger than 64 KiB"),
        _ => Error::SecretRead { path: path.to_owned(), source },
    })?;
    String::from_utf8(bytes).map_err(|_| invalid(path, "is no UTF-8 text"))
}

fn unread(path: &Path, source: io::Error) -> Error {
    Error::Read { path: path.to_owned(), source }
}

/// Returns the error of a secret's file that says what is wrong, and nothing of the secret.
fn invalid(path: &Path, problem: &'static str) -> Error {
    Error::SecretInvalid { path: path.to_owned(), problem }
}

fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// The only place here that knows the YAML crate.
fn from_yaml(text: &str) -> Result<serde_json::Value, Vec<InputError>> {
    serde_yaml::from_str(text).map_err(|error| {
        let line = error.location().and_then(|location| u32::try_from(location.line()).ok()).unwrap_or(0);
        vec![InputError { line, ..complaint("", error.without_snippet().to_string()) }]
    })
}

/// Returns the message about a name that is no DNS label.
fn no_label(name: &str) -> String {
    format!("{name:?} is not 1 to 63 lowercase letters, digits and inner dashes")
}

/// Returns a complaint about a field; an empty field is the file as a whole.
fn complaint(field: &str, message: impl Into<String>) -> InputError {
    InputError {
        path: FILE_NAME_DEFAULT.to_owned(),
        line: 0,
        object: None,
        field: (!field.is_empty()).then(|| field.to_owned()),
        message: message.into(),
        hint: None,
    }
}

#[cfg(test)]
mod tests;
