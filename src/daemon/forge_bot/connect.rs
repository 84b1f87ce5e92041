//! From the configuration to what the console needs: the forge, how we speak, and the key that hidden values are marked with.

use std::sync::Arc;

use super::Settings;
use crate::config::{self, Configuration, ForgeType, read_pem, read_secret};
use crate::forge::{self, Auth, Called, Forge, Kind, Meter};
use crate::store::records::{load, put};
use crate::store::{Expected, Store};
use crate::telemetry::metrics::{ByForgeCall, ForgeAnswer, ForgeMethod, Metrics};
use crate::views::comments::style::CommandStyle;
use crate::views::redact::MaskKey;

/// Where the key is kept that hidden values are marked with: it must stay the same, or the marks in comments change.
const MASK_KEY: &str = "forge/mask";

/// A forge, and how it is talked with.
pub type Connected = (Arc<dyn Forge>, Settings);

/// Why the forge cannot be talked with at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the configuration cannot be read.
    #[error(transparent)]
    Configuration(#[from] config::Error),
    /// What the configuration says of the forge cannot be used.
    #[error(transparent)]
    Forge(#[from] forge::Error),
    /// The records cannot be read or written.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes for the key that secrets are masked with")]
    NoRandomness,
}

/// Returns what a host is.
pub fn kind(type_: ForgeType) -> Kind {
    match type_ {
        ForgeType::Gitea => Kind::Gitea,
        ForgeType::Github => Kind::GitHub,
    }
}

/// Returns the settings of the forge that a configuration names, with its token or key; `None` without a forge.
///
/// # Errors
/// The token's or the key's file cannot be read.
pub fn forge_settings(configuration: &Configuration) -> Result<Option<forge::Settings>, config::Error> {
    let Some(forge) = &configuration.forge else { return Ok(None) };
    let auth = match (&forge.app, &forge.token_file) {
        (Some(app), _) => Auth::App { id: app.id, pem: read_pem(&app.private_key_file)? },
        (None, Some(file)) => Auth::Token(read_secret(file)?),
        // The check of the file made sure that there is one of the two.
        (None, None) => return Ok(None),
    };
    let (owner, name) = forge.owner_and_name();
    let (owner, name) = (owner.to_owned(), name.to_owned());
    Ok(Some(forge::Settings { kind: kind(forge.type_), url: forge.url.clone(), owner, name, auth }))
}

/// Returns the forge and how it is talked with; `None` without one.
///
/// # Errors
/// A secret cannot be read, or what is configured cannot be used.
pub fn connect(
    configuration: &Configuration,
    source: &str,
    store: &dyn Store,
    metrics: &Metrics,
) -> Result<Option<Connected>, Error> {
    let (Some(settings), Some(forge)) = (forge_settings(configuration)?, &configuration.forge) else {
        return Ok(None);
    };
    let connected = forge::connect(&settings, Some(meter(metrics)))?;
    let approvals = &forge.approvals;
    let approvers = approvals.who();
    let settings = Settings {
        source: source.to_owned(),
        poll_interval: configuration.source.poll_interval,
        notify: forge.notify.iter().copied().collect(),
        plans: forge.plans,
        voice: CommandStyle {
            short: forge.short_commands,
            approvers,
            // GitHub tells whether a comment was changed; elsewhere the delivery of its creation does.
            comments_count: forge.type_ == ForgeType::Github || forge.webhook_secret_file.is_some(),
            // Gitea takes no approving review of what is merged.
            reviews_count: forge.type_ == ForgeType::Github,
        },
        approvers: approvals.approvers.clone(),
        parts: approvals.parts.iter().map(|part| (*part).into()).collect(),
        mask: mask_key(store)?,
        fetches: configuration.source.local().is_none(),
    };
    Ok(Some((connected, settings)))
}

/// Returns what counts each request to the forge.
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

/// Returns the key of an earlier life, or a new one.
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
