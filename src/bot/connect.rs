//! Creates the bot's dependencies from the configuration: the forge, the command style, and the key for marks of hidden values.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::links::Links;
use super::settings::{Approvals, Settings};
use config::{Configuration, ForgeType, read_pem, read_secret};
use engine::store::records::{load, put};
use engine::store::{Expected, Store};
use forge::{Auth, Called, Forge, Kind, Meter, Reach};
use system::secret_files::{SecretFile, reason};
use system::supervise::Supervisor;
use system::telemetry::metrics::{ByForgeCall, ForgeAnswer, ForgeMethod, Metrics};
use views::comments::style::CommandStyle;
use views::redact::MaskKey;

/// The store key of the mask key: the mask key must stay the same, or the marks in comments change.
const MASK_KEY: &str = "forge/mask";

/// A forge, and its settings.
pub type Connected = (Arc<dyn Forge>, Settings);

/// Why the forge cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the configuration cannot be read.
    #[error(transparent)]
    Configuration(#[from] config::Error),
    /// The forge's configuration cannot be used.
    #[error(transparent)]
    Forge(#[from] forge::Error),
    /// The records cannot be read or written.
    #[error(transparent)]
    Store(#[from] engine::store::Error),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes for the key that secrets are masked with")]
    NoRandomness,
}

/// Returns the kind of a host.
pub fn kind(type_: ForgeType) -> Kind {
    match type_ {
        ForgeType::Gitea => Kind::Gitea,
        ForgeType::Github => Kind::GitHub,
    }
}

/// As whom requests to a forge are made, and where the secret is that proves it.
#[derive(Clone, Debug)]
enum Identity {
    Token { file: PathBuf },
    App { id: u64, key_file: PathBuf },
}

/// Returns as whom a forge is used; the check of the file made sure that it is said.
fn identity(forge: &config::Forge) -> Option<Identity> {
    match (&forge.app, &forge.token_file) {
        (Some(app), _) => Some(Identity::App { id: app.id, key_file: app.private_key_file.clone() }),
        (None, file) => file.clone().map(|file| Identity::Token { file }),
    }
}

impl Identity {
    fn read(&self) -> Result<Auth, config::Error> {
        Ok(match self {
            Self::Token { file } => Auth::Token(read_secret(file)?),
            Self::App { id, key_file } => Auth::App { id: *id, pem: read_pem(key_file)? },
        })
    }

    /// Makes a forge use the secret that the file holds, whenever it changes.
    fn follow(self, forge: &Arc<dyn Forge>, supervisor: &Supervisor) {
        let (what, path) = match &self {
            Self::Token { file } => ("the token of the git host", file),
            Self::App { key_file, .. } => ("the key of the GitHub App", key_file),
        };
        let file = SecretFile { what: what.to_owned(), path: path.clone() };
        let forge = Arc::clone(forge);
        file.follow(supervisor, move |_| {
            let auth = self.read().map_err(|error| reason(&error))?;
            forge.use_auth(&auth).map_err(|error| reason(&error))
        });
    }
}

/// Returns the settings of a forge, with its token or key.
///
/// # Errors
/// The token's, the key's or the authorities' file cannot be read.
pub fn forge_settings(forge: &config::Forge) -> Result<Option<forge::Settings>, config::Error> {
    let Some(auth) = identity(forge) else { return Ok(None) };
    let auth = auth.read()?;
    let (owner, name) = forge.owner_and_name();
    let certificates = forge.ca_file.as_deref().map(config::read_certificates).transpose()?;
    let reach = Reach { certificates, proxy: forge.proxy.clone() };
    Ok(Some(forge::Settings {
        kind: kind(forge.type_),
        url: forge.url.clone(),
        owner: owner.to_owned(),
        name: name.to_owned(),
        auth,
        reach,
    }))
}

/// Returns each repository that the configuration names, with its settings, in the order of [`Configuration::forges`]. Follows the files of
/// tokens and keys.
///
/// # Errors
/// A secret cannot be read, or the configuration cannot be used.
pub fn connect(
    configuration: &Configuration,
    source: &str,
    store: &dyn Store,
    supervisor: &Supervisor,
) -> Result<Vec<Connected>, Error> {
    let mut connected = Vec::new();
    for of in configuration.forges() {
        connected.extend(connect_one(configuration, of, source, store, supervisor)?);
    }
    Ok(connected)
}

fn connect_one(
    configuration: &Configuration,
    (of, forge): (&config::Source, &config::Forge),
    source: &str,
    store: &dyn Store,
    supervisor: &Supervisor,
) -> Result<Option<Connected>, Error> {
    let Some(settings) = forge_settings(forge)? else { return Ok(None) };
    let connected = forge::connect(&settings, Some(meter(&supervisor.metrics())))?;
    if let Some(identity) = identity(forge) {
        identity.follow(&connected, supervisor);
    }
    let links = Links { repository: settings.web(), page: configuration.http.page_url().map(str::to_owned) };
    let settings = Settings {
        source: source.to_owned(),
        name: of.name.clone(),
        poll_interval: of.poll_interval,
        notify: forge.notify.iter().copied().collect(),
        plans: forge.plans,
        statuses: forge.statuses,
        links,
        voice: command_style(forge),
        approvals: Approvals {
            rules: configuration.approval_rules(),
            approvers: forge.approvals.approvers.clone(),
            approvers_by_path: approvers_by_path(configuration),
            parts: forge.approvals.parts.iter().map(|part| (*part).into()).collect(),
        },
        mask: mask_key(store)?,
        fetches: of.local().is_none(),
    };
    Ok(Some((connected, settings)))
}

fn approvers_by_path(configuration: &Configuration) -> Vec<String> {
    let of_tenants = configuration.tenants.iter().flat_map(|tenant| tenant.approvers.iter().cloned());
    of_tenants.chain(configuration.approvers_by_path().all().cloned()).collect()
}

/// Returns how commands in comments are written and counted.
pub fn command_style(forge: &config::Forge) -> CommandStyle {
    CommandStyle {
        short: forge.short_commands,
        approvers: forge.approvals.who(),
        // GitHub tells whether a comment was changed; on other hosts the delivery of its creation proves the text.
        comments_count: forge.type_ == ForgeType::Github || forge.webhook_secret_file.is_some(),
        // Gitea accepts no approving review of a merged pull request.
        reviews_count: forge.type_ == ForgeType::Github,
        made_elsewhere: BTreeSet::new(),
    }
}

/// Returns the meter that counts each request to the forge.
fn meter(metrics: &Metrics) -> Meter {
    let calls = metrics.forge_calls.clone();
    Arc::new(move |method, called| {
        let method = match method.as_str() {
            "GET" => ForgeMethod::Get,
            "POST" => ForgeMethod::Post,
            "PATCH" => ForgeMethod::Patch,
            _ => ForgeMethod::Other,
        };
        let result = match called {
            Called::Ok => ForgeAnswer::Ok,
            Called::Unchanged => ForgeAnswer::Unchanged,
            Called::Limited => ForgeAnswer::Limited,
            Called::Refused => ForgeAnswer::Refused,
            Called::Failed => ForgeAnswer::Failed,
        };
        calls.get_or_create(&ByForgeCall { method, result }).inc();
    })
}

/// Returns the key of an earlier process, or a new one.
fn mask_key(store: &dyn Store) -> Result<MaskKey, Error> {
    if let Some(record) = load::<[u8; 32]>(store, MASK_KEY)? {
        return Ok(MaskKey::new(record.value));
    }
    let mut bytes = [0_u8; 32];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    store.batch(vec![put(MASK_KEY.to_owned(), &bytes, Expected::Absent)?])?;
    Ok(MaskKey::new(bytes))
}

#[cfg(test)]
mod tests;
