//! The file as it is written: every field with its documentation and its default.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::agents::Agents;
use super::decrypt::Decrypt;
use super::forge::Forge;
use super::health::HealthSection;
use super::http::Http;
use super::notify::{self, NotificationReceiver};
use super::policy::Policy;
use super::postgres::Postgres;
use super::prometheus::{self, PrometheusServer};
use super::render::Render;
use super::source::{NO_FORGE, Source, check_sources};
use super::tenants::TenantSection;
use super::values::clean;
use super::{Configuration, agents, complaint, members, tenants};
use model::agent::AgentChoice;
use model::api::check::{is_dns_label, is_dns_subdomain};
use model::manifest::InputError;

/// Where Argo CD lives.
pub const DECISIONS_NAMESPACE_DEFAULT: &str = "argocd";
/// The `ConfigMap` that tells an `ApplicationSet` how to read placement decisions.
pub const DECISIONS_CONFIG_MAP_DEFAULT: &str = "ocm-placement";
/// Where the state is.
pub const STORE_PATH_DEFAULT: &str = "./.gitfleet";
/// Entries of the journal that are kept.
pub const JOURNAL_ENTRIES_DEFAULT: usize = 100_000;
/// Memory in bytes for pages of the store, by default; that of the store itself.
pub const CACHE_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Configuration of the gitfleet daemon. Relative paths are relative to the file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "gitfleet configuration")]
#[expect(dead_code, reason = "some fields are read through the schema only")]
pub(super) struct Document {
    /// `gitfleet.io/v1alpha1`.
    pub api_version: ApiVersion,
    /// `Configuration`.
    pub kind: ConfigurationKind,
    /// The git repository that is followed.
    #[serde(default)]
    pub source: Option<Source>,
    /// The git repositories that are followed as one tree, instead of `source`; at most 100. The files of each are in a folder of its name.
    #[serde(default)]
    pub sources: Option<Vec<Source>>,
    /// How to reach the clusters that `MemberCluster` objects name; first match wins.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Where agents connect: daemons next to clusters that deliver to members with `agent`.
    #[serde(default)]
    pub agents: Option<Agents>,
    /// The git host of `source`: commit statuses, comments and approvals. Each of several `sources` has its own.
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
    /// How gitfleet decides whether objects are available, beside KubeFleet's rules.
    #[serde(default)]
    pub health: HealthSection,
    /// The Prometheus servers that checks of stages ask: `gitfleet.io/stage-checks`. No other server is ever asked.
    #[serde(default)]
    pub prometheus: Vec<PrometheusServer>,
    /// Who is told over HTTP what waits for a person, what failed and what is done. At most eight.
    #[serde(default)]
    pub notify: Vec<NotificationReceiver>,
    /// Whether HTTP_PROXY, HTTPS_PROXY and ALL_PROXY of the environment carry requests to the git host and to receivers of
    /// notifications.
    #[serde(default)]
    pub proxy: Proxy,
    /// What the files of folders may ask for, where several teams share the repository. Only here: no commit can change it.
    #[serde(default)]
    pub tenants: Vec<TenantSection>,
    /// The programs that render folders with a kustomization or a chart. Without it such a folder refuses the commit.
    #[serde(default)]
    pub render: Option<Render>,
    /// What decrypts files that SOPS encrypted. Without it their objects reach only members of agents that decrypt them.
    #[serde(default)]
    pub decrypt: Option<Decrypt>,
}

/// What the proxies that the environment names are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Proxy {
    /// Nothing: who sets a variable does not get to see tokens. A member's proxy stands in its kubeconfig.
    #[default]
    None,
    /// Git over http and https, the API of Gitea and Forgejo, and notifications. Never members, nor the API of GitHub.
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
pub(super) enum ConfigurationKind {
    /// The only one.
    Configuration,
}

/// How to reach the members of one name or pattern: `kubeconfig` or `directory`, not both; with `agent` neither is possible too.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// The name of a member, or a pattern in which `*` stands for any text.
    pub name: String,
    /// The agent that delivers to the member: a name, or `{pool: NAME}`. Paths are then on the agent's machine, relative to its --root,
    /// and without `kubeconfig` and `directory` the agent uses the service account of the cluster that it runs in.
    #[serde(default)]
    pub agent: Option<AgentChoice>,
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
    /// Memory in bytes that the store's pages take at most, at least 1,048,576. Pages that are not in it are read from the file.
    #[schemars(range(min = 1_048_576))]
    pub cache_bytes: usize,
    /// What to do where the store is new though members hold what this source delivered before: an earlier store was lost.
    pub on_empty: OnEmptyStore,
    /// Records and journal are in this database instead of the folder, which keeps the mirrors: for several daemons.
    pub postgres: Option<Postgres>,
}

/// What to do where the store is new though members are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OnEmptyStore {
    /// Begin nothing until a person says `gitfleet store adopt`.
    #[default]
    Ask,
    /// Continue from what members hold: for pipelines that keep no store.
    Adopt,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            path: STORE_PATH_DEFAULT.into(),
            journal_entries: JOURNAL_ENTRIES_DEFAULT,
            cache_bytes: CACHE_BYTES_DEFAULT,
            on_empty: OnEmptyStore::Ask,
            postgres: None,
        }
    }
}

fn decisions_namespace_default() -> String {
    DECISIONS_NAMESPACE_DEFAULT.to_owned()
}

fn decisions_config_map_default() -> String {
    DECISIONS_CONFIG_MAP_DEFAULT.to_owned()
}

/// Turns a list `sources` of one without a name into `source`.
pub(super) fn one_source(value: &mut Value) -> Result<(), Vec<InputError>> {
    let Some(fields) = value.as_object_mut() else { return Ok(()) };
    let has_one = fields.get("source").is_some_and(|source| !source.is_null());
    let Some(Value::Array(sources)) = fields.get_mut("sources") else { return Ok(()) };
    if has_one && !sources.is_empty() {
        return Err(vec![complaint("sources", "and `source` are both given; keep one of them")]);
    }
    // A name makes it one of several, of which the others may come later: its files have their folder already.
    if sources.len() > 1 || sources.iter().any(|source| source.get("name").is_some()) {
        return Ok(());
    }
    // An empty list names no source: `source` is then said to be missing.
    let Some(one) = sources.pop() else { return Ok(()) };
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
        for source in std::iter::once(&mut self.source).chain(&mut self.sources) {
            // An empty URL stays empty: joined it would be the file's own folder, and nobody would be told.
            if !overridden("source.url")
                && !source.url.is_empty()
                && let Some(local) = source.local()
            {
                source.url = clean(&base_dir.join(local)).to_string_lossy().into_owned();
            }
            if let Some(forge) = &mut source.forge {
                forge.derive_repository(&source.url);
            }
            source.paths().for_each(join);
        }
        if !overridden("store.path") {
            join(&mut self.store.path);
        }
        self.store.postgres.iter_mut().flat_map(Postgres::paths).for_each(join);
        // Those of an agent's members are relative to a folder on its machine.
        for member in self.members.iter_mut().filter(|member| member.agent.is_none()) {
            member.directory.iter_mut().for_each(join);
            member.kubeconfig.iter_mut().for_each(|kubeconfig| join(&mut kubeconfig.path));
        }
        if let Some(agents) = &mut self.agents {
            agents.files().for_each(join);
        }
        if let Some(forge) = &mut self.forge {
            forge.paths().for_each(join);
            forge.derive_repository(&self.source.url);
        }
        if let Some(decisions) = &mut self.decisions {
            decisions.kubeconfig.iter_mut().for_each(|kubeconfig| join(&mut kubeconfig.path));
            decisions.token_file.iter_mut().for_each(join);
        }
        for server in &mut self.prometheus {
            server.token_file.iter_mut().for_each(join);
            server.ca_file.iter_mut().for_each(join);
        }
        for receiver in &mut self.notify {
            let NotificationReceiver { url_file, secret_file, ca_file, .. } = receiver;
            [url_file, secret_file, ca_file].into_iter().flatten().for_each(join);
        }
        self.render.iter_mut().flat_map(|render| &mut render.folder).for_each(join);
        if let Some(Decrypt { folder, age_key_file, gnupg_home, .. }) = &mut self.decrypt {
            [folder, age_key_file, gnupg_home].into_iter().flatten().for_each(join);
        }
        self.http.tokens.iter_mut().for_each(|token| join(&mut token.token_file));
        self.http.read_tokens.iter_mut().for_each(|token| join(&mut token.token_file));
        self.http.push_tokens.iter_mut().for_each(|token| join(&mut token.token_file));
    }

    /// Returns what the schema cannot say.
    pub(super) fn problems(&self) -> Vec<InputError> {
        let mut errors = Vec::new();
        if self.sources.is_empty() {
            errors.extend(self.source.problems());
            if !self.source.name.is_empty() {
                let hint = Some("remove it, or make it a list: sources: [{name: ..., url: ...}]".into());
                errors.push(InputError { hint, ..complaint("source.name", "is for a list `sources`") });
            }
            if self.source.forge.is_some() {
                let hint = Some("write `forge` beside `source`, or make the source a list: sources: [{name: ..., url: ..., forge: ...}]".into());
                errors.push(InputError { hint, ..complaint("source.forge", "is for a list `sources`") });
            }
        } else {
            check_sources(&self.sources, &mut errors);
        }
        if !self.sources.is_empty() && self.forge.is_some() {
            let hint = Some("move it into the entry of the source whose repository it is: sources[0].forge".into());
            errors
                .push(InputError { hint, ..complaint("forge", "is for one `source`, and there is a list `sources`") });
        }
        members::check(self, &mut errors);
        agents::check(self, &mut errors);
        if let Some(forge) = &self.forge {
            if self.sources.is_empty() && self.source.is_artifact() {
                errors.push(complaint("forge", NO_FORGE));
            }
            forge.problems(&mut errors);
        }
        if let Some(decisions) = &self.decisions {
            decisions.problems(&mut errors);
        }
        if let Some(postgres) = &self.store.postgres {
            postgres.problems(&mut errors);
            self.http.shared_problems(&mut errors);
        }
        let webhooks = self.forges().any(|(_, forge)| forge.webhook_secret_file.is_some());
        self.http.problems(webhooks, &mut errors);
        self.policy.problems(&mut errors);
        prometheus::check(&self.prometheus, &mut errors);
        notify::check(&self.notify, &mut errors);
        tenants::check(&self.tenants, &mut errors);
        self.render.iter().for_each(|render| render.problems(&mut errors));
        self.decrypt.iter().for_each(|decrypt| decrypt.problems(&mut errors));
        errors
    }
}
