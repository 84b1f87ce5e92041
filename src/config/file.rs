//! The file as it is written: every field with its documentation and its default.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::forge::Forge;
use super::http::Http;
use super::policy::Policy;
use super::{Configuration, complaint, members};
use crate::api::check::{is_dns_label, is_dns_subdomain};
use crate::model::commands::{Grant, Verb};
use crate::model::manifest::InputError;

/// Longest name of a source in bytes.
pub const IDENTITY_BYTES_MAX: usize = 253;
/// How often the source is asked, where no webhook tells.
pub const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest poll interval: below it a forge starts to refuse.
pub const POLL_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The subtree of the source that is read.
pub const SOURCE_PATH_DEFAULT: &str = ".";
/// Where Argo CD lives.
pub const DECISIONS_NAMESPACE_DEFAULT: &str = "argocd";
/// The `ConfigMap` that tells an `ApplicationSet` how to read placement decisions.
pub const DECISIONS_CONFIG_MAP_DEFAULT: &str = "ocm-placement";
/// Where the state is.
pub const STORE_PATH_DEFAULT: &str = "./.gitfleet";
/// Entries of the journal that are kept.
pub const JOURNAL_ENTRIES_DEFAULT: usize = 100_000;
/// Where the daemon listens: this machine only.
pub const HTTP_LISTEN_DEFAULT: &str = "127.0.0.1:8080";

/// The format of duration texts in the schema; `check` knows it.
pub(super) const DURATION_FORMAT: &str = "gitfleet-duration";
/// The format of listen addresses in the schema; `check` knows it.
pub(super) const SOCKET_ADDRESS_FORMAT: &str = "gitfleet-socket-address";

/// Configuration of the gitfleet daemon. Relative paths are relative to the file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "gitfleet configuration")]
#[expect(dead_code, reason = "some fields are read through the schema only")]
pub(super) struct Document {
    /// `gitfleet.io/v1alpha1`.
    pub api_version: ApiVersion,
    /// `Configuration`.
    pub kind: Kind,
    /// The git repository that is followed.
    #[serde(default)]
    pub source: Option<Source>,
    /// The git repositories that are followed, instead of `source`. One for now.
    #[serde(default)]
    pub sources: Option<Vec<Source>>,
    /// How to reach the clusters that `MemberCluster` objects name; first match wins.
    #[serde(default)]
    pub members: Vec<Member>,
    /// The git host: commit statuses, comments and approvals.
    #[serde(default)]
    pub forge: Option<Forge>,
    /// Where Argo CD finds the decisions of placements.
    #[serde(default)]
    pub decisions: Option<Decisions>,
    /// The embedded database and the bare mirrors.
    #[serde(default)]
    pub store: Store,
    /// The daemon's API.
    #[serde(default)]
    pub http: Http,
    /// What no commit lowers.
    #[serde(default)]
    pub policy: Policy,
    /// Whether HTTP_PROXY, HTTPS_PROXY and ALL_PROXY of the environment carry requests to the git host.
    #[serde(default)]
    pub proxy: Proxy,
}

/// What the proxies that the environment names are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Proxy {
    /// Nothing: who sets a variable does not get to see tokens. A member's proxy stands in its kubeconfig.
    #[default]
    None,
    /// Git over http and https, and the API of Gitea and Forgejo. Never members, nor the API of GitHub.
    Environment,
}

/// The version of the file's format.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum ApiVersion {
    /// The only one so far.
    #[serde(rename = "gitfleet.io/v1alpha1")]
    V1Alpha1,
}

/// The kind of the file.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum Kind {
    /// The only one.
    Configuration,
}

/// One git repository.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Where it is: a URL, a local repository or a plain folder. Never with a password in it: see `tokenFile`.
    pub url: String,
    /// What inventories on members name this source by. Absent: URL, branch and path; then a source that moves is another one until
    /// `gitfleet source rename` says otherwise.
    #[serde(default)]
    pub identity: Option<String>,
    /// The branch; absent means the checked-out branch of a local repository, the default branch of a remote.
    #[serde(default)]
    pub branch: Option<String>,
    /// Only this subtree is read.
    #[serde(default = "source_path_default")]
    pub path: String,
    /// How often the source is asked for news, at least 1s.
    #[serde(default = "poll_interval_default", deserialize_with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub poll_interval: Duration,
    /// File with the token to read the source with.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// What to do when the new tip does not descend from the accepted commit.
    #[serde(default)]
    pub on_history_rewrite: HistoryRewrite,
    /// Lets a token travel over plain `http://`.
    #[serde(default)]
    pub allow_insecure_http: bool,
}

impl Source {
    /// Returns the folder of a source on this machine; `None` for a remote one.
    ///
    /// As git reads it: with a scheme, or with a `:` before the first `/`, it is remote; `file://` is local.
    pub fn local(&self) -> Option<&Path> {
        if let Some(path) = self.url.strip_prefix("file://") {
            return Some(Path::new(path));
        }
        let head = self.url.split('/').next().unwrap_or_default();
        if self.url.contains("://") || head.contains(':') { None } else { Some(Path::new(&self.url)) }
    }
}

/// What to do when the new tip does not descend from the accepted commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum HistoryRewrite {
    /// The last good commit stays and running rollouts go on, until a person lets the new tip in.
    #[default]
    Hold,
    /// The new tip is taken.
    Accept,
}

/// How to reach the members of one name or pattern: `kubeconfig` or `directory`, not both.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// The name of a member, or a pattern in which `*` stands for any text.
    pub name: String,
    /// The API server of a live member.
    #[serde(default)]
    pub kubeconfig: Option<Kubeconfig>,
    /// The folder that a member's manifests are written to. `{name}` is the member's name.
    #[serde(default)]
    pub directory: Option<PathBuf>,
}

/// A kubeconfig and a context in it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubeconfig {
    /// The file. `{name}` is the member's name.
    pub path: PathBuf,
    /// The context; absent means the file's current one. `{name}` is the member's name.
    #[serde(default)]
    pub context: Option<String>,
    /// Programs that the file may have started to sign in, as its `exec.command` spells them, and names of auth-providers. Any
    /// other is refused: whoever may write the file could start it here, beside the credentials of every member.
    #[serde(default)]
    pub allow_exec: Vec<String>,
}

/// How Argo CD reads the decisions of placements: as objects in its cluster, over the daemon's API, or both.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decisions {
    /// The cluster Argo CD runs in, which gets the objects; absent: none are written.
    #[serde(default)]
    pub kubeconfig: Option<Kubeconfig>,
    /// The namespace of Argo CD.
    #[serde(default = "decisions_namespace_default")]
    pub namespace: String,
    /// The `ConfigMap` that the generator of an `ApplicationSet` names.
    #[serde(default = "decisions_config_map_default")]
    pub config_map: String,
    /// File with the token that the plugin generator of an `ApplicationSet` sends. It can read decisions and nothing else.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

impl Decisions {
    fn problems(&self, errors: &mut Vec<InputError>) {
        if self.kubeconfig.is_none() && self.token_file.is_none() {
            let hint = Some("name the cluster of Argo CD: kubeconfig: {path: ...}".into());
            let message = "names neither kubeconfig nor tokenFile, so nobody could read the decisions";
            errors.push(InputError { hint, ..complaint("decisions", message) });
        }
        for (field, name, is_name) in [
            ("namespace", &self.namespace, is_dns_label as fn(&str) -> bool),
            ("configMap", &self.config_map, is_dns_subdomain),
        ] {
            if !is_name(name) {
                let message = format!("{name:?} is no name of a Kubernetes object");
                errors.push(complaint(&format!("decisions.{field}"), message));
            }
        }
    }
}

/// Where the state is.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Store {
    /// The folder.
    pub path: PathBuf,
    /// Entries of the journal that are kept, at least 1,000; the oldest go first. A rollout writes one to three for each
    /// cluster, an entry takes some 300 bytes: 3,000,000 last a fleet of 1,000 clusters for 1,000 rollouts, in about 1 GB.
    #[schemars(range(min = 1_000))]
    pub journal_entries: usize,
    /// What to do where the store is new though members hold what this source delivered before: an earlier store was lost.
    pub on_empty: OnEmptyStore,
}

/// What to do where the store is new though members are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OnEmptyStore {
    /// Begin nothing until a person says `gitfleet store adopt`.
    #[default]
    Ask,
    /// Go on from what members hold: for pipelines that keep no store.
    Adopt,
}

impl Default for Store {
    fn default() -> Self {
        Self { path: STORE_PATH_DEFAULT.into(), journal_entries: JOURNAL_ENTRIES_DEFAULT, on_empty: OnEmptyStore::Ask }
    }
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

fn source_path_default() -> String {
    SOURCE_PATH_DEFAULT.to_owned()
}

fn poll_interval_default() -> Duration {
    POLL_INTERVAL_DEFAULT
}

fn decisions_namespace_default() -> String {
    DECISIONS_NAMESPACE_DEFAULT.to_owned()
}

fn decisions_config_map_default() -> String {
    DECISIONS_CONFIG_MAP_DEFAULT.to_owned()
}

pub(super) fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// Reads `30s`, `1h30m`, `72h` and the like; longer than nothing.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration; write one like \"30s\", \"10m\" or \"72h\"");
    let parsed = jiff::fmt::friendly::SpanParser::new().parse_duration(text).map_err(|_| refused())?;
    Duration::try_from(parsed).ok().filter(|duration| !duration.is_zero()).ok_or_else(refused)
}

/// Turns a list `sources` of one into `source`.
pub(super) fn one_source(value: &mut Value) -> Result<(), Vec<InputError>> {
    let Some(fields) = value.as_object_mut() else { return Ok(()) };
    let Some(Value::Array(sources)) = fields.get_mut("sources") else { return Ok(()) };
    if sources.len() > 1 {
        let hint = Some("run one daemon for each source, each with its own store".into());
        let message = format!("names {} sources; more than one is not supported yet", sources.len());
        return Err(vec![InputError { hint, ..complaint("sources", message) }]);
    }
    // An empty list names no source: `source` is then said to be missing.
    let Some(one) = sources.pop() else { return Ok(()) };
    if fields.get("source").is_some_and(|source| !source.is_null()) {
        return Err(vec![complaint("sources", "and `source` are both given; keep one of them")]);
    }
    fields.remove("sources");
    fields.insert("source".into(), one);
    Ok(())
}

/// Sets a field of two segments to a text; leaves what is no object to the check.
pub(super) fn replace(value: &mut Value, field: &str, text: &str) {
    let Some((section, name)) = field.split_once('.') else { return };
    let Some(fields) = value.as_object_mut() else { return };
    let section = fields.entry(section).or_insert(Value::Null);
    // A section with nothing in it is null in YAML.
    if section.is_null() {
        *section = Value::Object(serde_json::Map::new());
    }
    if let Some(fields) = section.as_object_mut() {
        fields.insert(name.to_owned(), text.into());
    }
}

impl Configuration {
    /// Makes paths of the file relative to its folder; those that `overridden` came from outside and stay.
    pub(super) fn resolve(&mut self, base_dir: &Path, overridden: impl Fn(&str) -> bool) {
        let join = |path: &mut PathBuf| *path = clean(&base_dir.join(&*path));
        // An empty URL stays empty: joined it would be the file's own folder, and nobody would be told.
        if !overridden("source.url")
            && !self.source.url.is_empty()
            && let Some(local) = self.source.local()
        {
            self.source.url = clean(&base_dir.join(local)).to_string_lossy().into_owned();
        }
        if !overridden("store.path") {
            join(&mut self.store.path);
        }
        self.source.token_file.iter_mut().for_each(join);
        for member in &mut self.members {
            member.directory.iter_mut().for_each(join);
            member.kubeconfig.iter_mut().for_each(|kubeconfig| join(&mut kubeconfig.path));
        }
        if let Some(forge) = &mut self.forge {
            forge.token_file.iter_mut().for_each(join);
            forge.app.iter_mut().for_each(|app| join(&mut app.private_key_file));
            forge.webhook_secret_file.iter_mut().for_each(join);
            forge.derive_repository(&self.source.url);
        }
        if let Some(decisions) = &mut self.decisions {
            decisions.kubeconfig.iter_mut().for_each(|kubeconfig| join(&mut kubeconfig.path));
            decisions.token_file.iter_mut().for_each(join);
        }
        self.http.tokens.iter_mut().for_each(|token| join(&mut token.token_file));
        self.http.read_tokens.iter_mut().for_each(|token| join(&mut token.token_file));
    }

    /// Returns what the schema cannot say.
    pub(super) fn problems(&self) -> Vec<InputError> {
        let mut errors = self.source_problems();
        members::check(self, &mut errors);
        if let Some(forge) = &self.forge {
            forge.problems(&mut errors);
        }
        if let Some(decisions) = &self.decisions {
            decisions.problems(&mut errors);
        }
        let webhooks = self.forge.as_ref().is_some_and(|forge| forge.webhook_secret_file.is_some());
        self.http.problems(webhooks, &mut errors);
        self.policy.problems(&mut errors);
        errors
    }

    fn source_problems(&self) -> Vec<InputError> {
        let source = &self.source;
        let mut errors = Vec::new();
        if source.url.is_empty() {
            errors.push(complaint("source.url", "is empty"));
        }
        let authority = source.url.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        // A user alone is no secret: URLs of ssh name one.
        if authority.and_then(|a| a.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':')) {
            // Without the URL: it holds a password.
            errors.push(complaint("source.url", "holds a password; put it into a file and name that as `tokenFile`"));
        }
        if source.url.starts_with("http://") && source.token_file.is_some() && !source.allow_insecure_http {
            let message = "would send the token over plain http";
            let hint = Some("use https, or say allowInsecureHttp: true".into());
            errors.push(InputError { hint, ..complaint("source.url", message) });
        }
        if source.identity.as_ref().is_some_and(|name| name.is_empty() || name.len() > IDENTITY_BYTES_MAX) {
            errors.push(complaint("source.identity", "must have 1 to 253 characters"));
        }
        if source.poll_interval < POLL_INTERVAL_MIN {
            errors.push(complaint("source.pollInterval", "is shorter than 1s"));
        }
        let path = Path::new(&source.path);
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            let message = format!("{:?} must be a path inside the repository, without `..`", source.path);
            errors.push(complaint("source.path", message));
        }
        errors
    }
}

/// Resolves `.` and `..` by the text alone, so that equal folders are equal texts.
pub(super) fn clean(path: &Path) -> PathBuf {
    // The disk is not asked: folders of members may not be there yet, and are compared all the same.
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some_and(|name| name != "..") => drop(out.pop()),
            Component::ParentDir if out.has_root() => {}
            other => out.push(other),
        }
    }
    out
}
